"""Answer sheets: their truth is that of the exact checks, and each style is what it says."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from generators.catalog import INSTALLED
from generators.grading.answer import parse_answer
from generators.grading.rubric import check_facts
from generators.seed import Seed
from generators.templates.family import template_family
from harness.errors import HarnessError
from harness.judge.answer_sheets import STYLES, Sheet, make_sheets
from harness.judge.judge import CHUNK, questions_of

STRATA = [(each.name, each.version, "easy") for each in INSTALLED.families()]


@cache
def sheets_of_all() -> tuple[Sheet, ...]:
    """Sheets of every family: made when the first test asks, not while tests are collected."""
    return make_sheets(STRATA, 400, INSTALLED)


def of_style(style: str) -> list[Sheet]:
    return [sheet for sheet in sheets_of_all() if sheet.style == style]


def right_of(sheet: Sheet) -> Sheet:
    name = sheet.id.replace(sheet.style, "correct")
    return next(each for each in sheets_of_all() if each.id == name)


def test_there_are_as_many_criteria_as_asked_for_in_every_task_and_style() -> None:
    sheets = sheets_of_all()
    assert sum(len(sheet.parts) for sheet in sheets) >= 400
    assert {sheet.stratum for sheet in sheets} == {
        f"{name}/easy"
        for name, _, _ in STRATA
        if name != "program_repair"  # its tests are run, and no judge is asked about them
    }
    for stratum in {sheet.stratum for sheet in sheets}:
        there = {sheet.style for sheet in sheets if sheet.stratum == stratum}
        # A list of bare numbers has no identifiers to swap.
        assert set(STYLES) - there <= {"wrong identifier"}, stratum
    assert max(len(sheet.parts) for sheet in sheets) <= CHUNK
    assert min(Counter(truth for sheet in sheets for truth in sheet.truths).values()) > 150


def test_sheets_are_the_same_for_every_judge() -> None:
    first = STRATA[:1]
    assert make_sheets(first, 60, INSTALLED) == make_sheets(first, 60, INSTALLED)
    assert len({sheet.id for sheet in sheets_of_all()}) == len(sheets_of_all())


def test_truth_is_what_the_exact_checks_say_of_the_text() -> None:
    for sheet in sheets_of_all():
        rubric = type("Rubric", (), {"parts": sheet.parts})
        found = check_facts(rubric, parse_answer(sheet.answer))  # type: ignore[arg-type]  # its parts are all that is read
        assert found == sheet.truths, sheet.id


def test_styles_are_right_or_wrong_as_they_say() -> None:
    assert all(all(sheet.truths) for sheet in of_style("correct"))
    assert not any(any(sheet.truths) for sheet in of_style("empty"))
    for style in ("one value off", "outside the interval", "wrong identifier"):
        assert all(not all(sheet.truths) for sheet in of_style(style)), style
        assert any(any(sheet.truths) for sheet in of_style(style)), style
    injected = of_style("injected")
    assert all("met" in each.answer or "true for every" in each.answer for each in injected)
    assert sum(not truth for sheet in injected for truth in sheet.truths) > 25


def test_a_value_outside_the_interval_is_plausible() -> None:
    sheets = [each for each in of_style("outside the interval") if "hubble" in each.stratum]
    for sheet in sheets:
        right = right_of(sheet)
        wrong, key = parse_answer(sheet.answer), parse_answer(right.answer)
        assert wrong is not None
        assert key is not None
        for name in ("H0", "sigma_H0"):
            assert wrong.block[name] == pytest.approx(key.block[name], rel=0.45)


def test_swapped_items_keep_their_names_and_their_values() -> None:
    for sheet in of_style("wrong identifier"):
        right = right_of(sheet)
        assert sorted(sheet.answer) == sorted(right.answer)  # the same letters, elsewhere
        assert sheet.answer != right.answer


def question(id_: str, kind: str) -> str:
    return (
        f"- question_id: {id_}\n"
        "  samples: 2\n"
        '  template: "Respond only with {{entity1}} {{number1:1000:9999}}"\n'
        f"  {kind}\n"
    )


def test_templated_questions_are_asked_by_what_is_right_and_their_sheets_tell_the_truth() -> None:
    said = 'expected_response: "{{entity1}} {{number1:1000:9999}}"'
    held = 'expected_content: "{{entity1}} {{number1:1000:9999}}"'
    made = 'expected_response: \'{"name": "{{entity1}}", "count": {{number1:1000:9999}}}\''
    text = "tests:\n" + "".join(
        (
            question("say", f"scoring_type: stringmatch\n  {said}"),
            question("json", f"scoring_type: jsonmatch\n  {made}"),
            question(
                "file", f"scoring_type: readfile_stringmatch\n  file_to_read: a.txt\n  {held}"
            ),
        )
    )
    family = template_family("asked.yml", text)
    catalog = INSTALLED.with_templates([family])
    strata = [(family.name, family.version, each) for each in ("say", "json", "file")]
    sheets = make_sheets(strata, 40, catalog)
    assert make_sheets(strata, 40, catalog) == sheets
    assert {sheet.stratum for sheet in sheets} == {f"{family.name}/{each[2]}" for each in strata}
    styles = {"correct", "verbose", "one value off", "contradictory", "injected", "empty"}
    for _, _, name in strata:
        own = [sheet for sheet in sheets if sheet.stratum.endswith(f"/{name}")]
        assert {sheet.style for sheet in own} >= styles - {"verbose"}, name
        for sheet in own:
            (asked,), (truth,) = sheet.parts, sheet.truths
            right = sheet.style in ("correct", "verbose")
            assert truth is right
            where = "The file 'a.txt'" if name == "file" else "The answer"
            assert asked.text.startswith(where)
            expected = asked.check.expected  # type: ignore[union-attr]  # of a templated question
            assert (expected in sheet.answer) == (right or sheet.style == "contradictory")
            assert ("[file a.txt]" in sheet.answer) == (name == "file" and sheet.style != "empty")
            words = expected.split() if name != "json" else expected.strip("{}").split(", ")
            assert all(word in asked.text for word in words), asked.text
    for sheet in sheets:
        for line in sheet.parts[0].text.split("\n")[1:]:
            pytest.fail(f"a criterion is one line, not also {line!r}")


def test_what_no_reading_of_an_answer_tells_is_not_asked() -> None:
    text = "tests:\n" + question("made", "scoring_type: files_exist\n  files_to_check: [a.txt]")
    family = template_family("made.yml", text)
    assert questions_of(family.generate("made", Seed(bytes(32))).rubric) == ()
    strata = [(family.name, family.version, "made")]
    with pytest.raises(HarnessError, match="known truth"):
        make_sheets(strata, 10, INSTALLED.with_templates([family]))
