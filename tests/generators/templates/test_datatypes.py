"""What each data type draws."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from generators.errors import TemplateError
from generators.seed import Seed
from generators.templates.language.data_types import (
    DATA_TYPES,
    LISTS,
    MOMENT,
    POOLS,
    TRUTH_VALUES,
    DataType,
    infer_type,
    text,
)
from generators.templates.language.values import BUILT_IN
from tests.cases import cases

_NAMED_BY_THE_SPEC = """
    person_name first_name last_name entity_pool email age city city_name company company_name
    product product_name currency salary price phone date status department region id experience
    score course semester category boolean lorem_word lorem_words
"""
NAMED_BY_THE_SPEC = _NAMED_BY_THE_SPEC.split()

RANGES = cases(__file__, "ranges")

LISTS = {
    name: {"lists": LISTS, "pools": POOLS}[kind][key]
    for name, (kind, key) in cases(__file__, "lists").items()
}

SHAPES = cases(__file__, "shapes")


def drawn(name: str, count: int = 20_000) -> list[Any]:
    return DATA_TYPES[name].draw(Seed(bytes(31) + b"\1").child(name).rng(), count)


def test_the_29_types_of_the_specification_and_the_semantic_pools():
    assert len(NAMED_BY_THE_SPEC) == 29
    others = ["version", "mail_domain", "person", "place", "business", "technology"]
    assert list(DATA_TYPES) == [*NAMED_BY_THE_SPEC, *others]


@pytest.mark.parametrize("name", RANGES)
def test_whole_numbers_fill_their_range(name: str):
    values = drawn(name)
    low, high = RANGES[name]
    assert all(type(value) is int and low <= value <= high for value in values)
    assert min(values) < low + (high - low) / 500 + 1
    assert max(values) > high - (high - low) / 500 - 1
    assert DATA_TYPES[name].log10_values == pytest.approx(math.log10(high - low + 1))


@pytest.mark.parametrize("name", LISTS)
def test_words_are_of_their_list_and_all_of_it(name: str):
    assert set(drawn(name)) == set(LISTS[name])
    assert DATA_TYPES[name].log10_values == pytest.approx(math.log10(len(LISTS[name])))


@pytest.mark.parametrize("name", SHAPES)
def test_composed_values_have_their_shape(name: str):
    assert all(re.fullmatch(SHAPES[name], value) for value in drawn(name, 3000))


def test_prices_have_two_decimals_and_stay_in_range():
    values = drawn("price")
    assert all(type(value) is float and 10 <= value <= 500.99 for value in values)
    assert all(value == round(value, 2) for value in values)
    assert DATA_TYPES["price"].write(12.5) == "12.50"


def test_dates_are_of_the_calendar_to_its_last_day():
    values = {date.fromisoformat(value) for value in drawn("date", 60_000)}
    assert (min(values), max(values)) == (date(2020, 1, 1), date(2025, 12, 31))
    assert date(2024, 2, 29) in values
    assert len(values) == 2192


def test_truth_values_are_truth_values_and_even():
    values = drawn("boolean")
    assert {type(value) for value in values} == {bool}
    assert 0.48 < sum(values) / len(values) < 0.52


# The values that the documentation of the format gives as examples, by data type, and those that
# files in use name beside them.
DOCUMENTED = cases(__file__, "documented")
SAME = {"city_name": "city", "company_name": "company", "product_name": "product"}


@pytest.mark.parametrize("name", [*DOCUMENTED, *SAME])
def test_every_documented_value_is_drawn_and_as_often_as_any_other(name: str):
    kind = DATA_TYPES[name].as_text
    stream = Seed(bytes(31) + b"\3").child(name).rng()
    drawn_texts = Counter(kind.draw(stream, 50_000))
    share = 1 / len(drawn_texts)
    deviation = math.sqrt(share * (1 - share) * 50_000)
    for value in DOCUMENTED[SAME.get(name, name)].split(", "):
        assert abs(drawn_texts[value] - 50_000 * share) < 5 * deviation, value


@pytest.mark.parametrize(
    ("name", "part", "documented"),
    [
        ("email", lambda value: value.split("@")[1], DOCUMENTED["mail_domain"]),
        ("person_name", lambda value: value.split()[0], DOCUMENTED["first_name"]),
        ("person_name", lambda value: value.split()[1], DOCUMENTED["last_name"]),
    ],
)
def test_documented_parts_of_values_are_drawn(
    name: str, part: Callable[[str], str], documented: str
):
    counts = Counter(map(part, drawn(name, 50_000)))
    share = 1 / len(counts)
    deviation = math.sqrt(share * (1 - share) * 50_000)
    for value in documented.split(", "):
        assert abs(counts[value] - 50_000 * share) < 5 * deviation, value


def test_a_truth_value_as_text_is_one_of_six_that_agree_with_it():
    kind = DATA_TYPES["boolean"]
    units = Seed(bytes(32)).rng().uniforms(2000)
    truths, texts = kind.make(units), kind.as_text.make(units)
    assert set(texts) == set(TRUTH_VALUES)
    assert all(
        (written in ("true", "yes", "1")) is truth
        for truth, written in zip(truths, texts, strict=True)
    )


def test_moments_fill_the_day():
    values = MOMENT.draw(Seed(bytes(32)).rng(), 5000)
    assert all(re.fullmatch(r"202[0-5]-\d\d-\d\d [0-2]\d:[0-5]\d:[0-5]\d", one) for one in values)
    assert {value[11:13] for value in values} == {f"{hour:02d}" for hour in range(24)}


def test_ids_identify():
    values = drawn("id", 20_000)
    assert sorted(values[:9999]) == sorted(values[9999:19998]) == list(range(1, 10_000))
    firsts = [drawn_ids[0] for drawn_ids in _many_short_draws()]
    lasts = [drawn_ids[-1] for drawn_ids in _many_short_draws()]
    for numbers in (firsts, lasts):  # each place is any of them, none likelier than another
        assert 4600 < sum(numbers) / len(numbers) < 5400


def _many_short_draws() -> list[list[int]]:
    stream = Seed(bytes(32)).rng()
    return [DATA_TYPES["id"].draw(stream, 100) for _ in range(500)]


def test_every_count_of_words_comes():
    counts = [len(value.split()) for value in drawn("lorem_words")]
    assert all(4500 < counts.count(number) < 5500 for number in (2, 3, 4, 5))


@pytest.mark.parametrize("kind", [*DATA_TYPES.values(), MOMENT], ids=lambda kind: kind.name)
def test_no_value_is_longer_than_said_or_of_another_kind(kind: DataType):
    python = {"TEXT": str, "INTEGER": int, "REAL": float, "BOOLEAN": bool}[kind.sql]
    values = kind.draw(Seed(bytes(32)).rng(), 5000)
    assert all(type(value) is python for value in values)
    assert max(len(kind.write(value)) for value in values) <= kind.longest
    assert not any(set(',"\n\r') & set(kind.write(value)) for value in values)


@pytest.mark.parametrize("name", DATA_TYPES)
def test_none_are_drawn_where_none_are_asked_for(name: str):
    assert drawn(name, 0) == []


def test_an_unknown_type_is_refused_with_the_nearest():
    with pytest.raises(TemplateError, match="unknown data type 'persn_name'; did you mean 'person"):
        BUILT_IN.type("persn_name")


def test_values_as_text():
    assert [text(each) for each in ("a", 3, 0.5, True, False, None)] == [
        *("a", "3", "0.5", "true", "false", "")
    ]


@pytest.mark.parametrize(("header", "kind"), cases(__file__, "headers suggest types"))
def test_headers_suggest_types(header: str, kind: str):
    assert infer_type(header) == kind
