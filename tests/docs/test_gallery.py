"""The gallery is what the generators make now, and says so when it is not."""

from __future__ import annotations

import pytest

from generators.catalog import INSTALLED
from scripts import gallery


@pytest.fixture(scope="module")
def circles() -> gallery.Gallery:
    return gallery.render_gallery([INSTALLED.family("count_circles")])


def test_sections_of_families_that_are_made_quickly_are_not_stale() -> None:
    quick = [each for each in INSTALLED.families() if ".physics." not in each.package]
    made = gallery.render_gallery(quick)
    page = (gallery.DOCS / gallery.PAGE).read_text(encoding="utf-8")
    assert len(quick) == 6
    for section in made.text.split("\n## ")[1:]:
        assert f"\n## {section.rstrip()}\n" in page, "run `make gallery`"
    assert {f"{gallery.FOLDER}/{name}" for name in made.pictures}.isdisjoint(gallery.stale(made))


@pytest.mark.slow
def test_the_page_is_not_stale() -> None:
    assert gallery.stale(gallery.render_gallery()) == (), "run `make gallery`"


def test_it_shows_what_an_agent_is_given_and_what_earns_marks(circles: gallery.Gallery) -> None:
    assert "Count the discs in each picture" in circles.text
    assert '"task": "count_circles"' in circles.text
    assert (
        "| count_circles | IM | 12 | 10 | 32 | The answer states that 1.png shows" in circles.text
    )
    assert len(circles.pictures) == 3 * gallery.MAX_FILES
