"""The check's page in Chromium, served from a folder, for tests and the benchmark."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment, FileSystemLoader

from tests.conftest import ROOT
from tests.study.extras.site.browser import open_browser, serve_folder

SITE = ROOT / "study/extras/site"


@dataclass
class Shown:
    """What the page says."""

    status: str
    problems: list[str]
    standings: dict[str, str]  # by promise
    lines: dict[str, str]  # what was recomputed
    unchecked: list[str]
    stamps: list[str]


class Checker:
    """The page in a browser. It may ask no host but its own, within its policy."""

    def __init__(self, page: Any, folder: Path) -> None:
        self.page, self.folder, self.asked = page, folder, list[str]()
        self.refused = list[str]()
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("console", lambda message: self.refused.append(message.text))

    def check(self, *paths: Path, head: str | None = None) -> Shown:
        """Give a folder, or files after it."""
        self.page.locator("#clear").click()
        self.page.locator("#head").fill(head or "")
        self.page.set_input_files("#folder", paths[0])
        shown = self.read()
        for path in paths[1:]:
            self.page.set_input_files("#some", path)
            shown = self.read()
        return shown

    def read(self) -> Shown:
        """Return what the page says once it is done, and blank its status, for the next time."""
        from playwright.sync_api import expect

        status = self.page.locator("#status")
        expect(status).to_have_text(re.compile(r"Checked \d+|No ledger"), timeout=60_000)
        return Shown(
            status.evaluate("place => [place.textContent, place.textContent = ''][0]"),
            self._texts("problems", "li"),
            self._standings("promises"),
            self._standings("lines"),
            self._texts("unchecked", "li"),
            self._texts("stamps", "li"),
        )

    def _texts(self, name: str, element: str) -> list[str]:
        texts: list[str] = self.page.locator(f"#{name} {element}").all_text_contents()
        return texts

    def _standings(self, name: str) -> dict[str, str]:
        words = self._texts(name, "tr > *")
        return dict(zip(words[::3], (word[2:] for word in words[1::3]), strict=True))


@contextmanager
def open_checker(folder: Path) -> Iterator[Checker]:
    """Serve the page from a new folder, with the evidence of two studies, and open it."""
    shutil.copytree(SITE / "static", folder / "static")
    templates = Environment(loader=FileSystemLoader(SITE / "templates"), autoescape=True)
    studies = [{"name": name, "path": f"studies/{name}"} for name in ("demo", "other")]
    page = templates.get_template("check.html").render(root="", studies=studies)
    (folder / "check.html").write_text(page, encoding="utf-8")
    with serve_folder(folder) as address, open_browser() as browser:
        made = Checker(browser.new_page(), folder)
        made.page.goto(f"{address}/check.html")
        yield made
    assert {f"http://{urlsplit(url).netloc}" for url in made.asked} == {address}
    assert "Content Security Policy" not in " ".join(made.refused)
