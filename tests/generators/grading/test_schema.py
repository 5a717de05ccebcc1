"""What does not fit the schema is named, costs its criterion, and bounds no time."""

from __future__ import annotations

import json
import time

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.catalog import INSTALLED
from generators.errors import GeneratorError
from generators.family import NUMBER, TEXT, answer_schema, list_of, record_of
from generators.grading.answer import (
    MAX_VALUES,
    MAX_VIOLATIONS,
    count_fitting,
    find_violations,
    parse_answer,
)
from generators.grading.rubric import check_answer
from generators.validation.programs import with_printed
from generators.validation.validate import public_seeds
from tests.cases import cases

FAMILIES = [family for family in INSTALLED.families() if hasattr(family, "answer_schema")]
SCHEMA = answer_schema("t", {"z": list_of(record_of(id=TEXT, v=NUMBER)), "h": NUMBER})
GOOD = {"task": "t", "z": [{"id": "a", "v": 1.5}], "h": 2}


def tagged(block):
    return f"<answer>\n{json.dumps(block)}\n</answer>"


def filed(block):
    return json.dumps(block).encode()


def test_a_violation_is_named_by_its_path_and_rule():
    assert find_violations(SCHEMA, GOOD) == ()
    bad = {"task": "u", "z": [{"id": "a", "v": 1}, {"id": 3, "v": True}, {"id": "c"}]}
    assert find_violations(SCHEMA, bad) == tuple(cases(__file__, "violations"))


def test_nothing_of_the_block_is_quoted_at_length():
    block = {"x" * 5000: "y" * 5000, "task": "y" * 5000}
    lines = find_violations(json.dumps({"additionalProperties": {"type": "integer"}}), block)
    assert len(lines) == 2
    assert all(len(line) < 300 and "yyy" not in line for line in lines)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "block",
    [
        GOOD | {"z": [{"id": "a", "v": 1}] * (MAX_VALUES // 3 - 10)},
        GOOD | {"z": [7] * 3_000_000},
        {str(number): number for number in range(500_000)},
        GOOD | {"z": "y" * 4_000_000},
        GOOD | {"h": json.loads("[" * 900 + "]" * 900)},
    ],
    ids=["largest", "long", "wide", "text", "deep"],
)
def test_a_hostile_block_takes_little_time(block):
    begun = time.process_time()
    assert len(find_violations(SCHEMA, block)) <= MAX_VIOLATIONS
    count_fitting(SCHEMA, block)
    assert time.process_time() - begun < 10  # 1 s on a quiet machine


def test_a_recursive_schema_ends():
    tree = {"items": {"$ref": "#/$defs/t"}}
    rules = json.dumps({"$defs": {"t": tree}, "properties": {"a": tree}})
    nested: list[object] = []
    for _ in range(MAX_VALUES - 100):
        nested = [nested]
    assert find_violations(rules, {"a": nested}) == ("$: is nested too deeply",)
    assert count_fitting(rules, {"a": nested}) == 0


@pytest.mark.parametrize(("schema", "message"), cases(__file__, "refused"))
def test_a_schema_that_cannot_be_used_is_refused_in_one_line(schema, message):
    with pytest.raises(GeneratorError, match=message) as raised:
        find_violations(schema, GOOD)
    assert "\n" not in str(raised.value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from("tuv"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "v", "h"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(["task", "z", "h", "other"]), VALUES))
def test_a_block_fits_if_the_reference_implementation_accepts_it(block):
    accepted = jsonschema.Draft202012Validator(json.loads(SCHEMA)).is_valid(block)
    assert (not find_violations(SCHEMA, block)) is accepted
    assert accepted <= (count_fitting(SCHEMA, block) == 3)


# --- which of two blocks counts

PART = {"task": "t", "h": 2}
LESS = {"task": "t", "h": "2"}


@pytest.mark.parametrize(
    ("message", "file", "read", "from_file"),
    [
        (tagged(GOOD), filed(GOOD | {"h": 3}), GOOD, False),
        (tagged(PART), filed(GOOD), GOOD, True),
        (tagged({}), filed(GOOD), GOOD, True),
        (tagged(GOOD), filed(PART), GOOD, False),
        (tagged(PART), filed(LESS), PART, False),
        (tagged(LESS), filed(PART), PART, True),
        (tagged(PART), filed(PART | {"h": 4}), PART, False),
        (tagged(PART), b"{", PART, False),
        ("See the file.", filed(LESS), LESS, True),
        # Equally complete: the one that needs no repair.
        (f"```json\n{json.dumps(GOOD)}\n```", filed(GOOD | {"h": 3}), GOOD | {"h": 3}, True),
        (f"```json\n{json.dumps(GOOD)}\n```", filed(PART), GOOD, False),
        (tagged(PART), filed(GOOD)[:-1] + b",}", GOOD, True),
    ],
)
def test_the_more_complete_of_message_and_file_counts(message, file, read, from_file):
    answer = parse_answer(message, file, SCHEMA)
    assert (answer.block, answer.from_file) == (read, from_file)


def test_without_a_schema_a_well_formed_block_goes_before_the_file():
    assert parse_answer(tagged({}), filed(GOOD)).block == {}
    assert parse_answer("<answer>\n{,}\n</answer>", filed(GOOD)).from_file


# --- what a family's rubric makes of it


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_repair_and_a_violation_cost_one_criterion_each_and_nothing_else(family):
    instance = family.generate("easy", public_seeds(1)[0])
    schema, key = instance.brief.answer_schema, family.key(instance.truth)

    def lost(text):
        answer = parse_answer(text, None, schema)
        verdicts = check_answer(instance.rubric, with_printed(instance.rubric, answer))
        criteria = zip(instance.rubric.parts, verdicts, strict=True)
        return {criterion.id for criterion, verdict in criteria if not verdict}

    assert lost(tagged(key)) == set()
    assert lost(f"```json\n{json.dumps(key)}\n```") == {"answer_block/0"}
    assert lost(tagged(key | {"task": "other"})) == {"answer_block/0", "answer_schema/0"}
    name = next(name for name in key if name != "task")
    assert "answer_schema/0" in lost(tagged(key | {name: None}))
