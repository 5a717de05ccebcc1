"""Each repair is stated, recorded, and changes nothing that is well formed."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.grading.answer import parse_answer
from generators.grading.blocks import MAX_COMMAS, MAX_TRIED, REPAIRS, find_block, mend_object
from tests.cases import cases

KEY = '{"task": "t", "a": 1}'
REPAIRED = cases(__file__, "repaired")


@pytest.mark.parametrize(("form", "repairs"), REPAIRED.items())
def test_each_form_is_read_and_its_repairs_are_named(form, repairs):
    block = find_block(form.replace("@", KEY))
    assert (block.value, block.repairs) == (json.loads(KEY), (*repairs,))
    block = find_block(form.replace("@", KEY[:-1] + ",\n}"))
    assert (block.value, block.repairs) == (json.loads(KEY), (*repairs, "trailing_comma"))
    assert find_block(form.replace("@", KEY[:-1])) is None  # cut JSON is not completed


def test_each_repair_is_needed_by_some_form():
    assert {name for names in REPAIRED.values() for name in names} | {"trailing_comma"} == {
        *REPAIRS
    }


def test_a_well_formed_block_needs_none():
    block = find_block(f"Summary.\n\n<answer>\n{KEY}\n</answer>\n")
    assert (block.value, block.repairs) == (json.loads(KEY), ())


def test_commas_within_texts_stay():
    block = mend_object('{"a": [1, 2,], "b": ",]", "c": "\\",}", "d": {"e": 1 ,\n\t}, }')
    assert block.value == {"a": [1, 2], "b": ",]", "c": '",}', "d": {"e": 1}}
    assert block.repairs == ("trailing_comma",)


@pytest.mark.parametrize(
    "text",
    [
        *cases(__file__, "unreadable"),
        '{"a": ' + "9" * 5000 + ",}",
        '{"a": ' + "[" * 100_000 + "]" * 100_000 + ",}",
    ],
)
def test_what_no_repair_of_the_list_cures_is_not_read(text):
    forms = [*REPAIRED, "<answer>\n@\n</answer>"]
    assert [find_block(form.replace("@", text)) for form in forms] == [None] * len(forms)
    assert parse_answer("", text.encode()) is None


def test_repairs_have_a_limit():
    assert mend_object('{"a": [' + "[1,]," * MAX_COMMAS + "]}") is None
    assert find_block(f"<ANSWER>{KEY}</ANSWER>" + "<ANSWER>" * MAX_TRIED) is None


# --- no repair changes what was read without it, or pays a hedge


PIECES = st.sampled_from(
    [
        *("<answer>", "</answer>", "<ANSWER>", "</ANSWER>", "**<answer>**", "**</answer>**"),
        *("\n", "\n", "\n", " ", "```json\n", "```", "```\n", "&lt;answer&gt;", "\\<answer\\>"),
        *('{"a": 1}', '{"a": 2}', '{"a": 2,}', '{"a": [1,],}', '{"a": 1, "a": 2}', "{}", "{", "}"),
        *('{"a": "<answer>"}', '{"a": "```"}', "or", "\r\n", '{"a"', ": NaN}", "`", "_"),
    ]
)
TEXTS = st.lists(PIECES, max_size=14).map("".join)


@settings(max_examples=500, deadline=None)
@given(TEXTS)
def test_a_hedge_earns_what_one_of_its_answers_earns_alone(text):
    """What is read is an object that stands in the text whole: none is put together from two."""
    block = find_block(text)
    if block is not None:
        shown = re.sub(r",\s*(?=[}\]])|\s", "", text)
        assert re.sub(r"\s", "", json.dumps(block.value)) in shown or '"a":1,"a":1' in shown


FORMS = st.sampled_from([*REPAIRED, "<answer>\n@\n</answer>"])


@given(st.lists(st.tuples(FORMS, st.integers(0, 9)), min_size=2, max_size=5))
def test_the_choice_among_answers_depends_on_their_places_alone(answers):
    """The same text with other values reads the answer at the same place: it follows no value."""

    def read(values):
        parts = [
            form.replace("@", json.dumps({"a": value}))
            for (form, _), value in zip(answers, values, strict=True)
        ]
        block = find_block("\n\n".join(parts))
        return None if block is None else values.index(block.value["a"])

    places = list(range(len(answers)))
    assert read([10 + place for place in places]) == read([30 - place for place in places])


@given(st.text(max_size=200))
def test_no_text_raises(text):
    for form in REPAIRED:
        find_block(form.replace("@", text))
