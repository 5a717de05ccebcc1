"""The gallery is what the generators make now, and says so when it is not."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from generators.catalog import INSTALLED, Catalog
from generators.task import DIFFICULTIES, Asset

ROOT = Path(__file__).resolve().parents[2]


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gallery", ROOT / "scripts/gallery.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


gallery = load_script()
DOCS = gallery.DOCS


@pytest.fixture(scope="module")
def circles() -> gallery.Gallery:
    return gallery.render_gallery([INSTALLED.family("count_circles")])


def test_the_page_is_not_stale() -> None:
    assert gallery.stale(gallery.render_gallery()) == (), "run `make gallery`"


def test_each_family_has_an_example_of_each_difficulty() -> None:
    text = (DOCS / "gallery.md").read_text(encoding="utf-8")
    headings = re.findall(r"^### (.*)$", text, re.M)
    assert headings == [
        f"{each.name}, {level}" for each in Catalog.built_in().newest() for level in DIFFICULTIES
    ]
    for name in re.findall(r'src="(.*?)"', text):
        assert (DOCS / name).is_file()


def test_it_shows_what_an_agent_is_given_and_what_earns_marks(circles: gallery.Gallery) -> None:
    assert "Count the discs in each picture" in circles.text
    assert '"task": "count_circles"' in circles.text
    assert (
        "| count_circles | IM | 12 | 10 | 32 | The answer states that 1.png shows" in circles.text
    )
    assert len(circles.pictures) == 3 * gallery.MAX_FILES


def test_pictures_are_small(circles: gallery.Gallery) -> None:
    for data in circles.pictures.values():
        width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
        assert max(width, height) <= gallery.MAX_SIDE
        assert len(data) < 50_000


def test_a_change_of_a_word_or_of_a_pixel_is_noticed(
    tmp_path: Path, circles: gallery.Gallery
) -> None:
    gallery.write_gallery(circles, tmp_path)
    assert gallery.stale(circles, tmp_path) == ()
    (tmp_path / "gallery.md").write_text(circles.text + "more\n", encoding="utf-8")
    one, other, *_ = sorted(circles.pictures)
    (tmp_path / "gallery" / one).write_bytes(circles.pictures[other])
    (tmp_path / "gallery" / other).unlink()
    (tmp_path / "gallery" / "left-over.png").write_bytes(circles.pictures[other])
    assert set(gallery.stale(circles, tmp_path)) == {
        "gallery.md",
        f"gallery/{one}",
        f"gallery/{other}",
        "gallery/left-over.png",
    }
    gallery.write_gallery(circles, tmp_path)
    assert gallery.stale(circles, tmp_path) == ()


def test_the_files_shown_are_of_each_kind() -> None:
    names = [f"spectrum_{n}.png" for n in range(9)] + ["catalogue.csv", "README.txt"]
    shown = gallery.choose_files([Asset(name, "text/plain", name.encode()) for name in names])
    assert [each.path for each in shown] == [*names[:2], "catalogue.csv", "README.txt"]
