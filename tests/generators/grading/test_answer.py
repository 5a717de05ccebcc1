"""Whatever an agent hands in is parsed without a crash and without a gift (R6)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.catalog import INSTALLED
from generators.grading.answer import MAX_ANSWER_BYTES, Answer, parse_answer
from generators.grading.blocks import parse_block
from generators.grading.rubric import check_answer
from generators.validation.validate import public_seeds
from tests.cases import cases
from tests.generators.measures import null_scores

CIRCLES = next(each for each in INSTALLED.families() if each.name == "count_circles")
AVERAGE = next(each for each in INSTALLED.families() if each.name == "compute_average")


def block(text: str) -> str:
    return f"<answer>\n{text}\n</answer>"


def parsed(text: str, answer_file: bytes | None = None) -> object:
    answer = parse_answer(text, answer_file)
    return None if answer is None else dict(answer.block)


@pytest.mark.parametrize(
    "text",
    [
        *cases(__file__, "no_blocks"),
        *map(block, cases(__file__, "no_objects")),
        block('{"average": ' + "9" * 5000 + "}"),
        block("[" * 10_000 + "]" * 10_000),
        block('{"a":' * 10_000 + "1" + "}" * 10_000),
    ],
)
def test_what_is_not_a_valid_block_is_no_answer(text):
    assert parse_answer(text) is None


def test_the_last_valid_block_wins():
    one, other = block('{"average": 1}'), block('{"average": 2}')
    assert parsed(f"{one}\n{other}") == {"average": 2}
    assert parsed(f"{one}\n{other}\n{block('{')}") == {"average": 2}


def test_trailing_prose_does_not_overrule_a_block():
    assert parsed(block('{"average": 1}') + "\nIn fact the average is 2.") == {"average": 1}


def test_a_tag_that_is_never_closed_does_not_swallow_the_block():
    assert parsed("I will write\n<answer>\nlater.\n" + block('{"average": 1}')) == {"average": 1}


def test_a_block_goes_before_the_file_and_the_file_before_nothing():
    assert parsed(block('{"average": 1}'), b'{"average": 2}') == {"average": 1}
    assert parsed(block("{"), b'{"average": 2}') == {"average": 2}
    assert parsed("No block.", b'\xef\xbb\xbf{"average": 2}') == {"average": 2}
    assert parsed("No block.", b"\xff\xfe{") is None


def test_tags_on_their_own_lines_go_before_tags_in_prose():
    text = block('{"average": 1}') + '\nas in <answer>{"average": 2}</answer>'
    assert parsed(text) == {"average": 1}
    assert parsed('So <answer>{"average": 2}</answer>.') == {"average": 2}


def test_fences_line_ends_and_indentation_are_forgiven():
    assert parsed(block('```json\n{"average": 1}\n```')) == {"average": 1}
    assert parsed('  <answer>\r\n{"average": 1}\r\n  </answer>\r\n') == {"average": 1}


def test_a_key_given_twice_with_one_value_is_forgiven():
    assert parsed(block('{"average": 1, "average": 1}')) == {"average": 1}


def test_unknown_keys_are_kept_and_harmless():
    assert parsed(block('{"average": 1, "mood": "fine"}')) == {"average": 1, "mood": "fine"}


# What is quadratic in a hostile answer takes hours: far more than these bounds.
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "text",
    [
        block("[" + "1," * 50_000_000 + "1]"),
        "<answer>\n" * 400_000,
        "<answer>" * 500_000,
        "</answer>\n" * 400_000,
        block("{") * 200_000,
        " " * MAX_ANSWER_BYTES,
        "<answer>" + "\n" * MAX_ANSWER_BYTES,
        block('{"a":' * 700_000),
        block('{"a":' * 300_000 + ",}" * 300_000),
        block("{" + ",}" * 1_900_000),
        block("{" + ", " * 1_900_000 + "}"),
        block('{"' + '\\"' * 1_900_000 + ",}"),
        block("{" + '"' * 3_900_000 + ",}"),
        "```\n{}}\n" * 400_000,
        "\n{" * 2_000_000,
        "&lt; answer &gt;{" * 200_000,
    ],
    ids=lambda text: text[:12].strip(),
)
def test_a_hostile_text_costs_time_in_proportion(text):
    assert parse_answer(text) is None


def test_a_hostile_file_is_not_even_read():
    assert parse_answer("", b'{"a": "' + b"x" * 100_000_000 + b'"}') is None


def test_a_contradicting_key_of_duplicates_earns_nothing():
    instance = CIRCLES.generate("easy", public_seeds(1)[0])
    key = json.dumps(CIRCLES.key(instance.truth))
    doubled = key.replace('"counts": {', '"counts": {"1.png": 99, ')
    assert parse_answer(block(key)) is not None
    assert parse_answer(block(doubled)) is None


@pytest.mark.timeout(120)
def test_a_huge_listing_is_graded_at_once():
    instance = AVERAGE.generate("hard", public_seeds(1)[0])
    listed = {"task": AVERAGE.name, "numbers": [1.5] * 2_000_000, "average": 1.5}
    verdicts = check_answer(instance.rubric, Answer(listed))
    assert sum(bool(verdict) for verdict in verdicts) == 1  # that it names the task


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.text())
def test_no_text_raises(text):
    parse_answer(text)
    parse_answer(block(text))


@given(st.binary())
def test_no_file_raises(data):
    parse_answer("", data)


@settings(max_examples=25)
@given(st.dictionaries(st.text(), json_values))
def test_every_finite_object_is_read_as_it_was_written(value):
    try:
        text = json.dumps(value, allow_nan=False)
    except ValueError:
        assert parse_block(json.dumps(value)) is None
    else:
        assert parse_block(text) == value


def test_null_answers_are_measured_on_every_instance():
    instances = [AVERAGE.generate("easy", seed) for seed in public_seeds(2)]
    assert set(null_scores(AVERAGE, instances)) == set(AVERAGE.nulls(instances[0]))
