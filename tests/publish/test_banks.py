"""A template that is a bank of questions: nothing of its private rows goes out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from generators.templates.check import check_text
from generators.templates.family import TemplateFamily, template_family
from publish.leakcheck.check import find_leaks, release_needles
from publish.release import ReleaseText, build_release
from tests.cases import cases
from tests.publish.conftest import Draw, make_draw

BANK = tuple(
    (f"In which year did the surveyors reach hut {number} above the lake?", 1800 + number)
    for number in range(40)
)
ROWS = cases(__file__, "rows")
LIST = cases(__file__, "list")
TEXT = cases(__file__, "text")
NUMBER = " and {{number1:1:999999}}"


def text_of(rows: Any, more: str = NUMBER) -> str:
    form = ROWS if isinstance(rows[0], tuple) else LIST
    return TEXT.format(values=form.format(rows=json.dumps(rows)), more=more)


def drawn(family: TemplateFamily) -> Draw:
    name = f"{family.name}@{family.version}"
    return make_draw([(name, "survey")], 12, lambda _: family, b"bank")


@pytest.mark.parametrize(
    ("rows", "kinds"),
    [
        (BANK, {"drawn text", "drawn row"}),
        (BANK[:2], set()),
        ([asked for asked, _ in BANK], {"drawn text"}),
        ([asked for asked, _ in BANK[:2]], set()),
        ([(f"Peak {number} is how high", 2900 + number) for number in range(40)], {"drawn row"}),
        ([(71_000_000 + number, 90_000_000 - number) for number in range(40)], {"drawn row"}),
    ],
    ids=["bank", "table", "sentences", "two sentences", "short", "numbers"],
)
def test_a_template_goes_out_only_if_public_instances_show_all_its_rows(
    tmp_path: Path, rows: Any, kinds: set[str]
) -> None:
    family = template_family("bank.yml", text_of(rows))
    draw = drawn(family)
    words = ReleaseText(study="bank", title="Huts")
    release = build_release(tmp_path / "out", draw.public, draw.sealed, lambda _: family, words)
    assert (release.folder / "templates" / "bank.yml").exists() is (len(rows) == 2)
    needles = release_needles(draw.entries, lambda _: family)
    assert find_leaks(release.folder, needles) == ()
    (release.folder / "templates").mkdir(exist_ok=True)
    (release.folder / "templates" / "copy.yml").write_text(family.file.text)
    assert {leak.kind for leak in find_leaks(release.folder, needles)} == kinds


def test_values_of_one_row_count_once() -> None:
    (question,) = check_text(text_of(BANK, more=""), "bank.yml").questions
    assert round(10 ** (question.log10_instances or 0)) == 40
