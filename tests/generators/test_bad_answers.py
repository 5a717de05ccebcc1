"""Bad answers, most of them to the four families of physics: graded or refused as R6 says, with no
crash and no point for what was not read."""

from __future__ import annotations

import functools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.catalog import INSTALLED
from generators.grading.answer import Answer, parse_answer
from generators.grading.item_lists import MAX_ITEMS
from generators.grading.rubric import check_answer
from generators.validation.scores import BEYOND_INSTRUCTIONS
from generators.validation.validate import public_seeds
from tests.cases import cases

# Metarubrics of numbers that stand in no list of items.
READINGS = {"detector_radii", "module_gains", "magnetic_field"}
FAMILIES = {
    family.name: family
    for family in INSTALLED.families()
    if getattr(family, "package", "").startswith("generators.physics.")
}
BASICS = {name: INSTALLED.family(name) for name in ("compute_average", "count_circles")}
# What an answer earns whose identifiers are right, and no number.
BY_NAME = {"cepheids_with_data", "cepheids_without_data", "galaxies_used", "no_of_galaxies"}


@functools.cache
def instance_of(name):
    return (FAMILIES | BASICS)[name].generate("easy", public_seeds(1)[0])


def key_of(name):
    return (FAMILIES | BASICS)[name].key(instance_of(name).truth)


def earned(name, answer, dimensions=BEYOND_INSTRUCTIONS):
    """The metarubrics of which the answer meets a criterion."""
    rubric = instance_of(name).rubric
    verdicts = check_answer(rubric, answer)
    assert {type(verdict) for verdict in verdicts} == {bool}
    return {
        criterion.metarubric
        for criterion, verdict in zip(rubric.parts, verdicts, strict=True)
        if verdict and criterion.dimension in dimensions
    }


def block(text):
    return f"<answer>\n{text}\n</answer>"


def each_leaf(value, change):
    """The value with each text and number in it changed."""
    if isinstance(value, dict):
        return {key: each_leaf(inner, change) for key, inner in value.items()}
    if isinstance(value, list):
        return [each_leaf(inner, change) for inner in value]
    return change(value)


def only_numbers(change):
    return lambda leaf: leaf if isinstance(leaf, str) else change(leaf)


in_each_family = pytest.mark.parametrize("name", sorted(FAMILIES))


@in_each_family
def test_all_four_are_here_and_the_key_earns_all_of_each(name):
    assert len(FAMILIES) == 4
    rubric = instance_of(name).rubric
    everything = {each.metarubric for each in rubric.parts}
    assert earned(name, Answer(key_of(name)), ("SR", "DH", "IM", "IF")) == everything


WRONG_TYPES = {
    "text": str,
    "null": lambda _: None,
    "true": lambda _: True,
    "list": lambda leaf: [leaf],
    "object": lambda leaf: {"value": leaf},
}


@pytest.mark.parametrize("name", sorted(FAMILIES | BASICS))
@pytest.mark.parametrize("wrong", WRONG_TYPES.values(), ids=WRONG_TYPES)
def test_numbers_of_another_type_earn_nothing(name, wrong):
    assert earned(name, Answer(each_leaf(key_of(name), only_numbers(wrong)))) <= BY_NAME


@in_each_family
@pytest.mark.parametrize("wrong", ["null", "true", "list", "object"])
def test_identifiers_of_another_type_earn_nothing_either(name, wrong):
    everything = ("SR", "DH", "IM", "IF")
    assert earned(name, Answer(each_leaf(key_of(name), WRONG_TYPES[wrong])), everything) == set()


@in_each_family
@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_none_voids_the_block_wherever_it_stands(name, value):
    count = 0

    def counted(leaf):
        nonlocal count
        count += 1
        return leaf

    each_leaf(key_of(name), only_numbers(counted))
    for at in {0, 1, count // 2, count - 1}:
        place = iter(range(count))

        def replaced(leaf, at=at, place=place):
            return "@@" if next(place) == at else leaf

        text = json.dumps(each_leaf(key_of(name), only_numbers(replaced)))
        text = text.replace('"@@"', value)
        assert value in text
        assert parse_answer(block(text), text.encode()) is None


def fillers(listed):
    """Items of the same form that are not there, as many as nobody means."""
    numbers = range(1_000_000, 1_000_001 + MAX_ITEMS)
    first = listed[0]
    if isinstance(first, dict):
        key = next(iter(first))
        return [{**first, key: str(number)} for number in numbers]
    return [[number, 1.0] if isinstance(first, list) else str(number) for number in numbers]


@in_each_family
def test_the_truth_among_more_than_anyone_lists_earns_nothing(name):
    key = key_of(name)
    lists = {
        path: value
        for path, value in key.items()
        if isinstance(value, list) and isinstance(value[0], dict | list | str)
    }
    flooded = key | {path: [*value, *fillers(value)] for path, value in lists.items()}
    assert lists
    assert earned(name, Answer(flooded)) <= READINGS


# No number of an ordinary size: one of those could be right.
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from([10**400, -(10**400), 1e308, -0.0, "", "20.0", "0.02", "NaN", "\ud800"])
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "z", "supply_id", "frequency_hz", "value", "0"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@in_each_family
@settings(max_examples=25)
@given(data=st.data())
def test_right_identifiers_with_anything_beside_them_earn_no_number(name, data):
    def spoilt(item):
        junk = data.draw(JUNK)
        if isinstance(item, dict):
            return {path: leaf if path.endswith("id") else junk for path, leaf in item.items()}
        return [item[0], junk] if isinstance(item, list) else junk

    key = key_of(name)
    some = {
        path: [spoilt(item) for item in value[:12]] if isinstance(value, list) else data.draw(JUNK)
        for path, value in key.items()
    }
    assert earned(name, Answer(some)) <= BY_NAME


# The metarubrics that need this part of the answer; by gates, some need the lists beside.
READ_FROM = cases(__file__, "read_from")


@in_each_family
@settings(max_examples=25)
@given(data=st.data())
def test_a_key_with_one_part_spoilt_earns_nothing_that_needs_it(name, data):
    key = key_of(name)
    spoilt = data.draw(st.sampled_from(sorted(key)))
    answer = Answer(key | {spoilt: data.draw(JUNK)})
    assert set(READ_FROM[spoilt]).isdisjoint(earned(name, answer))
    through = parse_answer(block(json.dumps(dict(answer.block))))
    assert through is not None
    assert earned(name, through) == earned(name, answer)
