"""Placeholders: what is one, where it ends, how its arguments are told apart."""

from __future__ import annotations

import pytest

from generators.errors import TemplateError
from generators.templates.functions.base import OpenFile
from generators.templates.language.placeholders import (
    Call,
    Constant,
    Scope,
    fill_text,
    parse_text,
    target_name,
    variables_of,
)
from generators.templates.language.variables import Variable
from tests.cases import cases

TABLE = OpenFile("t.csv", b"id,who said,n\n1,a:b,10\n2,it's,32\n")


def filled(text: str, **values: str) -> str:
    return fill_text(parse_text(text), Scope(values, lambda name: TABLE))


def test_a_text_without_placeholders_is_itself():
    for text in ("", "plain", "{one} brace", "a } } b", '{"json": {"nested": 1}}'):
        assert filled(text) == text


def test_variables_are_known_by_index_and_arguments():
    text = "{{entity1}} {{entity1:default}} {{entity1:colors}} {{number2:1:9}} {{ entity3 }}"
    keys = [variable.key for variable in variables_of(parse_text(text))]
    assert keys == ["entity1", "entity1", "entity1:colors", "number2:1:9:integer", "entity3"]


def test_a_brace_before_or_after_a_placeholder_is_a_brace():
    assert filled('{"n": {{entity1}}}', entity1="x") == '{"n": x}'
    assert filled("{{{entity1}}}", entity1="x") == "{x}"
    assert filled('{"a":{{entity1}},"b":{"c":{{csv_sum:n:TARGET_FILE}}}}', entity1="1") == (
        '{"a":1,"b":{"c":42.0}}'
    )


def test_the_last_argument_of_a_file_function_is_the_file():
    (call,) = parse_text("{{csv_value: 0 : who said : TARGET_FILE[people] }}")
    assert isinstance(call, Call)
    assert (call.arguments, call.file) == ((("0",), ("who said",)), ("TARGET_FILE[people]",))


def test_an_empty_argument_is_one():
    (call,) = parse_text("{{csv_count_where:EMP_ID:DEPT_CD::Engineering:TARGET_FILE}}")
    assert isinstance(call, Call)
    assert call.arguments == (("EMP_ID",), ("DEPT_CD",), (), ("Engineering",))


@pytest.mark.parametrize(
    ("text", "argument"),
    cases(__file__, "free_texts"),
)  # fmt: skip
def test_free_text_may_hold_colons_and_quotes_may_hold_braces(text: str, argument: str):
    (call,) = parse_text(text)
    assert isinstance(call, Call)
    assert call.arguments == ((argument,),)
    assert call.file == ("TARGET_FILE",)


def test_a_quoted_argument_may_hold_a_colon_and_an_odd_quote_is_a_letter():
    quoted, odd = parse_text("{{csv_value:0:'a:b}}':TARGET_FILE}}{{csv_value:0:it's:TARGET_FILE}}")
    assert isinstance(quoted, Call)
    assert isinstance(odd, Call)
    assert quoted.arguments == (("0",), ("a:b}}",))
    assert odd.arguments == (("0",), ("it's",))


def test_two_odd_quotes_in_one_text_do_not_swallow_what_is_between():
    said = filled("{{csv_cell:2:1:TARGET_FILE}}'s and {{csv_cell:1:2:TARGET_FILE}}'s")
    assert said == "it's's and 10's"


def test_calls_nest_and_what_they_give_is_never_split():
    assert filled("{{math_add:{{csv_sum:n:TARGET_FILE}}:{{csv_count:id:TARGET_FILE}}}}") == "44.0"
    inner = "{{csv_value:0:who said:TARGET_FILE}}"  # a:b
    with pytest.raises(TemplateError, match=r"a:b"):
        filled(f"{{{{math_add:{inner}:1}}}}")


def test_variables_fill_arguments():
    assert filled("{{csv_cell:{{number1:1:2}}:2:TARGET_FILE}}", **{"number1:1:2:integer": "2"}) == (
        "32"
    )


def test_constants_stand_for_what_they_are_given():
    assert parse_text("{{artifacts}}")[0] == Constant("artifacts")
    assert filled("{{artifacts}}/{{qs_id}}", artifacts="artifacts", qs_id="q1_s2") == (
        "artifacts/q1_s2"
    )


def test_lorem_is_left_to_who_draws_it():
    text = "a {{lorem:3s}} b {{entity1}}"
    parsed = parse_text(text, True)
    assert parsed[0] == "a {{lorem:3s}} b "
    assert isinstance(parsed[1], Variable)
    with pytest.raises(TemplateError, match="custom content"):
        parse_text(text)


@pytest.mark.parametrize(
    ("text", "said"), cases(__file__, "what nothing can fill is refused with what would be right")
)
def test_what_nothing_can_fill_is_refused_with_what_would_be_right(text: str, said: str):
    with pytest.raises(TemplateError) as caught:
        parse_text(text)
    assert said in str(caught.value)


def test_nesting_without_end_is_refused():
    text = "{{math_add:" * 40 + "1" + ":1}}" * 40
    with pytest.raises(TemplateError, match="deeper than"):
        parse_text(text)


def test_targets_name_components():
    assert target_name("TARGET_FILE") == ""
    assert target_name("TARGET_FILE[sales]") == "sales"
    assert target_name("artifacts/x.csv") is None


@pytest.mark.parametrize(
    ("call", "arguments"), cases(__file__, "of two paths the second begins as only a path does")
)
def test_of_two_paths_the_second_begins_as_only_a_path_does(call: str, arguments: list[str]):
    (part,) = parse_text(f"{{{{{call}:TARGET_FILE}}}}")
    assert isinstance(part, Call)
    assert ["".join(map(str, argument)) for argument in part.arguments] == arguments


def test_three_paths_are_one_too_many():
    with pytest.raises(TemplateError, match="takes 1 to 2 arguments and a file, not 3"):
        parse_text("{{json_max_value:$.a:$.b:$.c:TARGET_FILE}}")
