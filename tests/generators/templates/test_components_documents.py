"""JSON, YAML and XML drawn by a schema, read by libraries that did not write them."""

from __future__ import annotations

import json
import math
import re
import time
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.errors import TemplateError
from generators.seed import Seed
from generators.templates.components.documents import json_text, yaml_text
from generators.templates.components.regex_sampler import compile_pattern
from generators.templates.components.schema import Given
from tests.cases import cases
from tests.generators.templates import component_samples as samples

SCHEMA = samples.SCHEMA


def raw(type_: str, content: Any, seed: Seed = samples.SEED) -> str:
    (file,) = samples.made(type_, content, seed=seed)
    return str(file.data.decode())


def drawn(schema: Any, seed: Seed = samples.SEED) -> Any:
    return json.loads(raw("create_json", {"schema": schema}, seed))


def many(schema: Any, count: int = 500) -> list[Any]:
    found: list[Any] = drawn({"type": "array", "count": count, "items": schema})
    return found


def refusal(schema: Any, type_: str = "create_json") -> str:
    with pytest.raises(TemplateError) as caught:
        samples.maker(type_, {"schema": schema})
    return str(caught.value)


# -- the language -----------------------------------------------------------------------------


def test_a_schema_says_what_stands_where():
    firm = drawn(SCHEMA)
    assert list(firm)[: len(SCHEMA)] == list(SCHEMA)
    assert -3 <= firm["floor"] <= 40
    assert 0.5 <= firm["rate"] <= 2
    assert 8 <= len(firm["motto"]) <= 30
    assert re.fullmatch(r"[A-Z]{2}-\d{3,5}(?:a|bc)?", firm["code"])
    assert firm["open"] in (True, False)
    assert firm["nothing"] is None
    assert firm["fixed"] == [1, "a: b", None, True, 2.5]
    assert firm["named"] == "no data type"
    assert firm["kind"] in ("api", "batch")
    assert 2 <= len(firm["teams"]) <= 6
    for team in firm["teams"]:
        assert list(team) == ["id", "lead", "budgets"]
        assert re.fullmatch(r"\S+ \S+", team["lead"]["name"])
        assert [type(budget) for budget in team["budgets"]] == [int, int]
    assert firm["more"]["price"] == round(firm["more"]["price"], 2)
    assert set(firm["more"]) - {"price"} <= {"extra_0", "extra_1", "extra_2"}


def test_the_three_languages_hold_the_same():
    as_json = drawn(SCHEMA)
    assert yaml.safe_load(raw("create_yaml", {"schema": SCHEMA})) == as_json
    root = ElementTree.fromstring(raw("create_xml", {"schema": SCHEMA}))
    assert root.tag == "root"
    assert root.findtext("company") == as_json["company"]
    assert root.findtext("rate") == repr(as_json["rate"])
    assert root.findtext("open") == str(as_json["open"]).lower()
    assert root.findtext("nothing") == ""
    teams = root.findall("teams/item")
    assert [each.findtext("lead/name") for each in teams] == [
        team["lead"]["name"] for team in as_json["teams"]
    ]
    assert [[int(one.text or "") for one in each.findall("budgets/item")] for each in teams] == [
        team["budgets"] for team in as_json["teams"]
    ]
    assert root.findtext("more/price") == f"{as_json['more']['price']:.2f}"


def test_without_a_schema_there_is_something():
    assert list(json.loads(raw("create_json", {}))) == ["message", "timestamp", "id"]
    assert list(yaml.safe_load(raw("create_yaml", {}))) == ["message", "timestamp", "id"]
    assert len(ElementTree.fromstring(raw("create_xml", {}))) == 3


def test_xml_names_its_root_its_namespace_and_its_items():
    content = cases(__file__, "namespace")
    written = raw("create_xml", content)
    assert written.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<shop xmlns=')
    root = ElementTree.fromstring(written)
    assert root.tag == '{urn:x?a&"b"}shop'
    space = {"s": 'urn:x?a&"b"'}
    assert len(root.findall("s:books/s:book", space)) == 2
    assert len(root.findall("s:grid/s:item/s:item", space)) == 6


def test_counts_are_fixed_or_of_a_range():
    lengths = [len(each) for each in many({"type": "array", "count": [0, 3], "items": "age"})]
    assert {length: lengths.count(length) > 80 for length in lengths} == dict.fromkeys(
        range(4), True
    )
    assert drawn({"type": "array", "count": "4"}).__len__() == 4
    assert len(drawn({"type": "array"})) == 5
    assert drawn({"type": "array", "count": 0}) == []


def test_numbers_fill_their_bounds():
    whole = many({"type": "integer", "minimum": 3, "maximum": 7})
    assert set(whole) == {3, 4, 5, 6, 7}
    assert all(1 <= each <= 1000 for each in many({"type": "integer"}))
    assert all(5000 <= each <= 6000 for each in many({"type": "integer", "minimum": 5000}))
    assert all(-2000 <= each <= -1000 for each in many({"type": "integer", "maximum": -1000}))
    assert set(many({"type": "number", "minimum": 0.1, "maximum": "0.3"})) == {
        *(value / 100 for value in range(10, 31))
    }


def test_strings_keep_their_lengths():
    lengths = {len(each) for each in many({"type": "string", "min_length": 3, "max_length": 6})}
    assert lengths == {3, 4, 5, 6}
    for each in many({"type": "string", "min_length": 40, "max_length": 41}):
        assert re.fullmatch(r"[a-z]+( [a-z]+)*", each)
    assert set(map(len, many({"type": "string", "max_length": 0}))) == {0}
    assert all(1 <= len(each) <= 50 for each in many({"type": "string"}))
    assert len(drawn({"type": "string", "min_length": 400})) == 400


def test_a_pattern_may_be_the_name_of_a_data_type():
    assert "@" in drawn({"type": "string", "pattern": "email"})


def test_type_may_itself_be_a_property():
    assert drawn({"type": {"type": "string", "enum": ["a"]}, "x": 1}) == {"type": "a", "x": 1}


def test_extra_properties_are_up_to_three():
    extras = many({"type": "object", "additional_properties": "city"})
    assert {len(each) for each in extras} == {0, 1, 2, 3}
    assert list(max(extras, key=len)) == ["extra_0", "extra_1", "extra_2"]
    assert drawn({"type": "object", "additional_properties": False}) == {}


def test_text_that_a_placeholder_gave_is_itself():
    assert drawn({"a": Given("city"), "b": "city"})["a"] == "city"
    assert drawn({"a": Given("https://crimson.example")}) == {"a": "https://crimson.example"}


def test_ids_of_one_place_are_apart():
    ids = [each["id"] for each in many({"id": "id"}, 2000)]
    assert len(set(ids)) == 2000


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [*cases(__file__, "bad_schemas"), ([{"a": object()}], "content.schema[0].a: ")],
)
def test_bad_schemas_are_refused(schema: Any, complaint: str):
    assert refusal(schema).startswith(complaint)


@pytest.mark.parametrize(("schema", "complaint"), cases(__file__, "bad_xml"))
def test_what_xml_cannot_hold_is_refused(schema: Any, complaint: str):
    assert refusal(schema, "create_xml").startswith(complaint)


def test_schemas_that_would_fill_the_memory_are_refused_at_once():
    start = time.process_time()
    deep: Any = "city"
    for _ in range(5000):
        deep = [deep]
    assert "more than 40 levels deep" in refusal(deep)
    nested: Any = "city"
    for _ in range(30):
        nested = {"type": "array", "count": 1000, "items": nested}
    assert "values; at most 1,000,000" in refusal(nested)
    long: Any = {"type": "array", "count": 900_000, "items": {"type": "literal", "value": "x" * 99}}
    assert "bytes; at most" in refusal(long)
    assert time.process_time() - start < 5


def test_the_space_is_counted():
    def space(schema: Any) -> float:
        found: float = samples.maker("create_json", {"schema": schema}).log10_space
        return found

    assert space({"a": "boolean", "b": {"type": "integer", "minimum": 1, "maximum": 50}}) == (
        pytest.approx(2)
    )
    assert space({"type": "array", "count": 7, "items": "boolean"}) == pytest.approx(
        math.log10(128)
    )
    assert space({"type": "array", "count": [0, 2], "items": "boolean"}) == (
        pytest.approx(math.log10(1 + 2 + 4))
    )
    assert space({"type": "string", "pattern": "[ab]{1,2}|c"}) == pytest.approx(math.log10(7))
    assert space({"type": "literal", "value": "x"}) == 0


# -- writing ----------------------------------------------------------------------------------

AWKWARD = (
    "yes No ~ null 1e3 0x1 1_000 2024-01-01 - ? : a: b #c !t &x *y | > % @ ` a- {} [] = << "
    "1:30 .5 .inf +1 0o7 true FALSE on\u2028 \ufeff \x85 \x7f a\n\n\tb"
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    AWKWARD.split(" ")
)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
).filter(lambda value: "Infinity" not in json.dumps(value))


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(plain)
def test_what_is_written_is_read(value: Any):
    assert json.loads(json_text(value)) == value
    read = yaml.safe_load(yaml_text(value))
    assert read == value
    assert repr(read) == repr(value)  # 1 is not 1.0, nor True


def test_json_is_laid_out_as_the_library_would():
    value = {"a": [1, {"b": []}, [], {}], "c": "é\n", "d": 1.5}
    assert json_text(value) == json.dumps(value, indent=2, ensure_ascii=False)


def test_yaml_is_laid_out_as_the_library_would():
    value = {"a": [1, {"b": 2, "c": [3, 4]}, [5, [6]]], "c": "two words", "d": {"e": 1.5}}
    assert yaml_text(value) == yaml.safe_dump(value, sort_keys=False)


# -- patterns ---------------------------------------------------------------------------------


def texts_of(pattern: str, count: int = 60) -> list[str]:
    found: list[str] = many({"type": "string", "pattern": pattern}, count)
    return found


@pytest.mark.parametrize("pattern", cases(__file__, "texts fit their pattern"))
def test_texts_fit_their_pattern(pattern: str):
    assert all(re.fullmatch(pattern, text) for text in texts_of(pattern))


def test_a_pattern_makes_all_that_it_allows():
    assert set(texts_of("[a-c]?(x|yy)", 400)) == {
        start + end for start in ("", "a", "b", "c") for end in ("x", "yy")
    }


atoms = st.sampled_from(["a", "[a-c]", r"\d", "[^x]", r"\.", ".", "(?:b|c)", "(d|)", "é", "-"])
repeats = st.sampled_from(["", "?", "*", "+", "{2}", "{1,3}", "{2,}"])
sequences = st.lists(st.tuples(atoms, repeats).map("".join), max_size=5).map("".join)
patterns = st.lists(sequences, min_size=1, max_size=3).map("|".join)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(patterns, st.integers(0, 2**32))
def test_any_pattern_that_is_taken_is_kept(pattern: str, number: int):
    piece = compile_pattern("p", pattern)
    units = iter(Seed(number.to_bytes(32, "big")).rng().uniforms(max(piece.draws, 1)).tolist())
    text = piece.draw(lambda: next(units))
    assert re.fullmatch(pattern, text)
    assert piece.least <= len(text) <= piece.most


@pytest.mark.parametrize(("pattern", "complaint"), cases(__file__, "other patterns are refused"))
def test_other_patterns_are_refused(pattern: str, complaint: str):
    assert complaint in refusal({"type": "string", "pattern": pattern})
