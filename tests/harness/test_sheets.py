"""Answer sheets: their truth is that of the exact checks, and each style is what it says."""

from __future__ import annotations

from collections import Counter

import pytest

from generators.answer import parse_answer
from generators.catalog import add_template, families
from generators.rubric import check_answer
from harness.errors import HarnessError
from harness.judge import CHUNK
from harness.sheets import STYLES, Sheet, make_sheets

STRATA = [(each.name, each.version, "easy") for each in families()]
SHEETS = make_sheets(STRATA, 400)


def of_style(style: str) -> list[Sheet]:
    return [sheet for sheet in SHEETS if sheet.style == style]


def test_there_are_as_many_criteria_as_asked_for_in_every_task_and_style() -> None:
    assert sum(len(sheet.criteria) for sheet in SHEETS) >= 400
    assert {sheet.stratum for sheet in SHEETS} == {f"{name}/easy" for name, _, _ in STRATA}
    for stratum in {sheet.stratum for sheet in SHEETS}:
        there = {sheet.style for sheet in SHEETS if sheet.stratum == stratum}
        # A list of bare numbers has no identifiers to swap.
        assert set(STYLES) - there <= {"wrong identifier"}, stratum
    assert max(len(sheet.criteria) for sheet in SHEETS) <= CHUNK
    truths = Counter(truth for sheet in SHEETS for truth in sheet.truths)
    assert min(truths.values()) > 200


def test_sheets_are_the_same_for_every_judge() -> None:
    assert make_sheets(STRATA, 400) == SHEETS
    assert len({sheet.id for sheet in SHEETS}) == len(SHEETS)


def test_truth_is_what_the_exact_checks_say_of_the_text() -> None:
    for sheet in SHEETS:
        rubric = type("Rubric", (), {"criteria": sheet.criteria})
        found = check_answer(rubric, parse_answer(sheet.answer))  # type: ignore[arg-type]  # its criteria are all that is read
        assert found == sheet.truths, sheet.id


def test_styles_are_right_or_wrong_as_they_say() -> None:
    assert all(all(sheet.truths) for sheet in of_style("correct"))
    assert not any(any(sheet.truths) for sheet in of_style("empty"))
    for style in ("one value off", "outside the interval", "wrong identifier"):
        assert all(not all(sheet.truths) for sheet in of_style(style)), style
        assert any(any(sheet.truths) for sheet in of_style(style)), style
    injected = of_style("injected")
    assert all("met" in each.answer or "true for every" in each.answer for each in injected)
    assert sum(not truth for sheet in injected for truth in sheet.truths) > 40


def test_a_value_outside_the_interval_is_plausible() -> None:
    sheets = [each for each in of_style("outside the interval") if "hubble" in each.stratum]
    for sheet in sheets:
        right = next(x for x in SHEETS if x.id == sheet.id.replace(sheet.style, "correct"))
        wrong, key = parse_answer(sheet.answer), parse_answer(right.answer)
        assert wrong is not None
        assert key is not None
        for name in ("H0", "sigma_H0"):
            assert wrong.block[name] == pytest.approx(key.block[name], rel=0.45)


def test_swapped_items_keep_their_names_and_their_values() -> None:
    for sheet in of_style("wrong identifier"):
        right = next(x for x in SHEETS if x.id == sheet.id.replace(sheet.style, "correct"))
        assert sorted(sheet.answer) == sorted(right.answer)  # the same letters, elsewhere
        assert sheet.answer != right.answer


def test_tasks_without_a_telling_criterion_are_refused() -> None:
    text = (
        "tests:\n"
        "- question_id: greet\n"
        "  samples: 2\n"
        '  template: "Respond only with {{entity1}} {{number1:1000:9999}}"\n'
        "  scoring_type: stringmatch\n"
        '  expected_response: "{{entity1}} {{number1:1000:9999}}"\n'
    )
    family = add_template("hello.yml", text)
    with pytest.raises(HarnessError, match="known truth"):
        make_sheets([(family.name, family.version, "greet")], 10)
