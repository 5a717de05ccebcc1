"""The check in the browser: each tampering has the same verdict there as by `dosimeter verify`, and
what is broken the same name."""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from jinja2 import Environment, FileSystemLoader

from study.steps import pipeline
from study.steps.verify.verify import VerifyRequest, verify
from tests.conftest import ROOT
from tests.test_external_check import KEYED, Public, public, revealed

__all__ = ["public", "revealed"]  # fixtures
SITE = ROOT / "study/extras/site"
CHROMIUM = shutil.which("chromium")
CODE = "the code is what the records name"  # is compared with a repository, which no browser has

pytestmark = pytest.mark.browser


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
    """The page in a browser. It may ask no host but its own."""

    def __init__(self, page: Any, folder: Path) -> None:
        self.page, self.folder, self.asked = page, folder, list[str]()
        page.on("request", lambda request: self.asked.append(request.url))

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
        """Return what the page says once it is done."""
        from playwright.sync_api import expect

        expect(self.page.locator("#status")).to_have_text(re.compile(r"Checked \d+|No ledger"))
        return Shown(
            self.page.locator("#status").inner_text(),
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


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checker]:
    """The page of a site that has the evidence of one study, in one browser."""
    from playwright.sync_api import sync_playwright

    if CHROMIUM is None and os.environ.get("CI") != "true":
        pytest.skip("needs Chromium")
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(SITE / "static", folder / "static")
    templates = Environment(loader=FileSystemLoader(SITE / "templates"), autoescape=True)
    studies = [{"name": "demo", "path": "studies/demo"}]
    page = templates.get_template("check.html").render(root="", studies=studies)
    (folder / "check.html").write_text(page)
    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        host = f"127.0.0.1:{server.server_port}"
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=CHROMIUM, args=["--no-sandbox"] if os.geteuid() == 0 else []
            )
            made = Checker(browser.new_page(), folder)
            made.page.goto(f"http://{host}/check.html")
            yield made
            browser.close()
        server.shutdown()
    assert {urlsplit(url).netloc for url in made.asked} == {host}


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, and says nothing of it."""

    def log_message(self, format: str, *args: object) -> None:
        return


def compare(checker: Checker, public: Public, head: str | None = None) -> Shown:
    """Check a study in the browser and by `verify`: both say the same."""
    folder = public.store.parent
    ours = verify(pipeline.open_study(folder), VerifyRequest(head), lambda *step: None)
    shown = checker.check(folder, head=head)
    named = [bare(f"{place}: {problem}", folder) for place, problem in ours.problems]
    assert sorted(shown.problems) == sorted(named)
    standings = {promise.promise: str(promise.standing) for promise in ours.promises}
    assert {**shown.standings, CODE: ""} == {**standings, CODE: ""}
    return shown


def bare(words: str, folder: Path) -> str:
    """Return what `verify` says without where the study lies, and without a reader's own words."""
    words = words.replace(f"{folder}/store/", "").replace(f"{folder}/", "")
    return re.sub(r"(not JSON) \(.*\)", r"\1", words)


def test_an_honest_study_holds(checker: Checker, public: Public) -> None:
    shown = compare(checker, public, public.head)
    assert shown.problems == []
    assert [*shown.lines.values()].count("holds") == 10, shown.lines
    assert shown.standings["the records are as they were made"] == "holds"


@pytest.mark.parametrize("name", KEYED)
def test_what_the_owner_tampers_with_is_named(checker: Checker, public: Public, name: str) -> None:
    tamper, _ = KEYED[name]
    tamper(public)
    assert compare(checker, public).problems != []
