"""Pages in Chromium: every width, dark, print, without JavaScript, by keyboard alone; texts of
others do nothing, and no other host is asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.study.extras.site.browser import MARKS, accessibility, open_browser, serve_folder
from tests.study.extras.site.test_site import pages_of

pytestmark = MARKS
WIDTHS = (360, 768, 1400)
_OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
_FOCUS = """() => {
  const at = document.activeElement, style = getComputedStyle(at);
  return [at.localName, at.name ?? "", at.textContent.trim(),
          style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth)];
}"""


@dataclass
class Visitor:
    """A browser at the address of a site, and what its pages have complained of or asked for."""

    browser: Any
    address: str
    names: list[str]
    complaints: list[str] = field(default_factory=list)

    def page(self, name: str = "index.html", width: int = 1400, **options: Any) -> Any:
        """Open a page in a context of its own."""
        page = self.browser.new_context(viewport={"width": width, "height": 900}, **options)
        page = page.new_page()
        page.on("console", lambda message: self.complain(name, message.type, message.text))
        page.on("pageerror", lambda error: self.complain(name, "error", str(error)))
        page.on("dialog", lambda dialog: self.complain(name, "error", dialog.message))
        page.on("request", lambda request: self.watch(request.url))
        page.goto(f"{self.address}/{name}")
        return page

    def complain(self, name: str, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(f"{name}: {text}")

    def watch(self, url: str) -> None:
        if urlsplit(url)[:2] != urlsplit(self.address)[:2]:
            self.complaints.append(f"asks for {url}")


@pytest.fixture(scope="module")
def opened(site: Path) -> Iterator[Visitor]:
    names = [path.relative_to(site).as_posix() for path in pages_of(site)]
    with serve_folder(site) as address, open_browser() as browser:
        yield Visitor(browser, address, names)


@pytest.fixture
def visitor(opened: Visitor) -> Iterator[Visitor]:
    yield opened
    complaints, opened.complaints[:] = [*opened.complaints], []
    for context in opened.browser.contexts:
        context.close()
    assert complaints == []


def test_no_page_is_wider_than_its_window(visitor: Visitor) -> None:
    page = visitor.page()
    for name in visitor.names:
        page.goto(f"{visitor.address}/{name}")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate(_OVERFLOW) <= 0, (name, width)
        assert page.locator("img").count() == 0
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 700, "height": 900})  # of A4
        assert page.evaluate(_OVERFLOW) <= 0, (name, "print")
        assert not page.locator("nav").is_visible()
        page.emulate_media(media="screen")


def test_axe_finds_nothing_on_any_page(visitor: Visitor) -> None:
    page = visitor.page()
    for name in [*visitor.names, "check/index.html"]:
        page.goto(f"{visitor.address}/{name}")
        assert accessibility(page) == [], name


def test_the_answer_is_on_the_first_screen(visitor: Visitor) -> None:
    page = visitor.page()
    counts = page.locator(".answer .count")
    assert counts.first.inner_text().endswith("contaminated")
    assert "cannot tell" in counts.nth(1).inner_text()
    sizes = [counts.nth(n).locator("strong").bounding_box() for n in range(2)]
    assert sizes[0]["height"] == sizes[1]["height"]
    assert sizes[0]["y"] == sizes[1]["y"]
    assert page.locator(".chart").bounding_box()["y"] < 900


def test_colours_follow_the_reader(visitor: Visitor) -> None:
    paper = "() => getComputedStyle(document.body).backgroundColor"
    light = visitor.page(color_scheme="light").evaluate(paper)
    dark = visitor.page(color_scheme="dark").evaluate(paper)
    assert (light, dark) == ("rgb(253, 253, 251)", "rgb(22, 23, 26)")


def test_without_javascript_all_is_there(visitor: Visitor) -> None:
    page = visitor.page(java_script_enabled=False)
    rows = page.locator(".sortable tbody tr")
    assert rows.count() > 6
    assert all(row.is_visible() for row in rows.all())
    assert page.locator(".chart").is_visible()
    assert not page.locator("form").is_visible()
    assert page.locator("th button").count() == 0


def test_filters_narrow_the_table_and_the_figure(visitor: Visitor) -> None:
    page = visitor.page()
    page.locator("select[name=study]").select_option("demo")
    shown = page.locator(".sortable tbody tr:visible")
    assert (shown.count(), page.locator(".point:visible").count()) == (14, 14)
    page.locator("select[name=kind]").select_option("unsure")
    page.locator("select[name=level]").select_option("instance")
    names = [row.locator("th").inner_text() for row in shown.all()]
    assert names == ["variant-1", "honest-2", "honest-1"]
    assert page.locator("output").inner_text() == "3 findings shown"


def test_the_keyboard_reaches_filters_and_table(visitor: Visitor) -> None:
    page, seen = visitor.page(), []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(page.evaluate(_FOCUS))
        assert seen[-1][3] >= 2, seen[-1]  # the focus is to be seen
        if seen[-1][2].startswith("Gap"):
            break
    names = [(element, name or text) for element, name, text, _ in seen]
    order = [("a", "Skip to the content"), ("select", "maker"), ("select", "kind")]
    places = [names.index(each) for each in (*order, ("button", "Model"))]
    assert places == sorted(places)
    assert places[0] == 0
    page.keyboard.press("Enter")
    gaps = page.locator(".sortable tbody td[data-label=Gap]")
    values = [float(gap.get_attribute("data-value")) for gap in gaps.all()]
    assert values == sorted(values)
    page.keyboard.press("Enter")
    assert page.locator("th[aria-sort=descending]").count() == 1
    assert float(gaps.first.get_attribute("data-value")) == max(values)
