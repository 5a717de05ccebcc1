"""Chromium for the tests of pages, a folder that is served to it, and what axe-core finds there."""

from __future__ import annotations

import functools
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")
MISSING = CHROMIUM is None and os.environ.get("CI") != "true"
MARKS = [pytest.mark.browser, pytest.mark.skipif(MISSING, reason="needs Chromium")]
_RUN = """async () => {
  for (const _ of [1, 2]) await new Promise(requestAnimationFrame);  // colours have changed
  await Promise.allSettled(document.getAnimations().map(each => each.finished));
  const found = await axe.run({resultTypes: ["violations"]});
  return found.violations.flatMap(({id, nodes}) => nodes.map(({html}) => `${id}: ${html}`));
}"""


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder, and logs nothing."""

    def log_message(self, format: str, *args: object) -> None:
        return


@contextmanager
def serve_folder(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine; return its address."""
    handler = functools.partial(Handler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@contextmanager
def open_browser() -> Iterator[Any]:
    """Start Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = play.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


def accessibility(page: Any) -> list[str]:
    """Return what axe-core finds on a page at 360 and 1,400 pixels, light and dark. It is evaluated
    from outside, so that the page's own policy stays."""
    from axe_playwright_python.base import AXE_SCRIPT

    page.evaluate(AXE_SCRIPT)
    seen: list[str] = []
    for width, colours in product((360, 1400), ("light", "dark")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=colours)
        seen += [f"{width}, {colours}: {each}" for each in page.evaluate(_RUN)]
    return seen
