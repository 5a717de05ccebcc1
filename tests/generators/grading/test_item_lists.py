"""Items: lists of identified things are read as R6 says, and nothing in them raises."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generators.grading.answer import MAX_ANSWER_BYTES, Answer, parse_answer
from generators.grading.checks import Gated, ShareOf, passes
from generators.grading.item_lists import (
    MAX_ITEMS,
    PAIRS,
    TEXTS,
    ItemCount,
    ItemList,
    ItemNumber,
    ItemPrecision,
    ItemRecall,
    ItemsNear,
    ItemsWithin,
    ItemValue,
    ListsItem,
    OmitsItem,
    TextsOfRead,
    items_at,
)
from tests.cases import cases

GALAXIES = ItemList(("redshifts",), "id")
EVENTS = ItemList(("events",), PAIRS)
MACHINES = ItemList(("machines",), TEXTS)


def galaxies(*items):
    return Answer({"redshifts": list(items)})


def events(*items):
    return Answer({"events": list(items)})


def machines(*items):
    return Answer({"machines": list(items)})


def event_file(data, block=None):
    return Answer(block or {"events_file": "events.csv"}).with_files({"events.csv": data})


def mass(name, low=0.0, high=10.0):
    return ItemNumber(EVENTS, name, "value", low, high)


# --- each check


def test_an_item_is_listed_or_omitted():
    answer = galaxies({"id": "0017", "z": 0.02}, {"id": "0018", "z": 0.03})
    assert passes(ListsItem(GALAXIES, "0017"), answer)
    assert not passes(ListsItem(GALAXIES, "0019"), answer)
    assert passes(OmitsItem(GALAXIES, "0019"), answer)
    assert not passes(OmitsItem(GALAXIES, "0017"), answer)


def test_nothing_is_omitted_from_a_list_that_is_not_there():
    for block in ({}, {"redshifts": None}, {"redshifts": {"id": "1"}}, {"redshifts": "none"}):
        assert not passes(OmitsItem(GALAXIES, "0017"), Answer(block))
    assert passes(OmitsItem(GALAXIES, "0017"), galaxies())
    assert not passes(OmitsItem(GALAXIES, "0017"), None)


@pytest.mark.parametrize(
    ("z", "right"), [(0.02, True), (0.03, True), (0.025, True), (0.0199, False), (0.0301, False)]
)
def test_a_number_is_asked_for_in_a_closed_interval(z, right):
    check = ItemNumber(GALAXIES, "0017", "z", 0.02, 0.03)
    assert passes(check, galaxies({"id": "0017", "z": z})) is right


@pytest.mark.parametrize("z", ["0.02", " 0.02", True, None, [0.02], {"value": 0.02}, 10**400])
def test_what_is_not_a_number_is_no_number(z):
    check = ItemNumber(GALAXIES, "0017", "z", -1e308, 1e308)
    assert not passes(check, galaxies({"id": "0017", "z": z}))


def test_a_missing_field_or_item_is_wrong():
    check = ItemNumber(GALAXIES, "0017", "z", 0.0, 1.0)
    assert not passes(check, galaxies({"id": "0017"}))
    assert not passes(check, galaxies({"z": 0.5}))
    assert not passes(check, galaxies())


def test_a_field_equals_a_text_or_a_whole_number_of_its_own_type():
    answer = galaxies({"id": "a", "batch": "B", "count": 3})
    assert passes(ItemValue(GALAXIES, "a", "batch", "B"), answer)
    assert not passes(ItemValue(GALAXIES, "a", "batch", "b"), answer)
    assert passes(ItemValue(GALAXIES, "a", "count", 3), answer)
    assert not passes(ItemValue(GALAXIES, "a", "count", "3"), answer)
    assert not passes(ItemValue(GALAXIES, "a", "batch", 3), answer)
    assert not passes(ItemValue(GALAXIES, "b", "batch", "B"), answer)
    assert not passes(ItemValue(GALAXIES, "a", "flag", 1), galaxies({"id": "a", "flag": True}))


def test_a_list_holds_exactly_so_many_different_items():
    assert passes(ItemCount(MACHINES, 2), machines("A", "B", "A"))
    assert not passes(ItemCount(MACHINES, 3), machines("A", "B", "A"))
    assert passes(ItemCount(MACHINES, 0), machines())
    assert not passes(ItemCount(MACHINES, 0), Answer({}))


@pytest.mark.parametrize(
    ("listed", "precise"),
    [("A", True), ("AB", True), ("AX", True), ("AXY", False), ("ABXY", True), ("X", False)],
)
def test_half_of_what_is_listed_must_be_true(listed, precise):
    assert passes(ItemPrecision(MACHINES, ("A", "B")), machines(*listed)) is precise


@pytest.mark.parametrize(
    ("listed", "found"), [("", False), ("A", False), ("AB", True), ("ABXYZ", True), ("XYZ", False)]
)
def test_half_of_what_is_true_must_be_listed(listed, found):
    assert passes(ItemRecall(MACHINES, ("A", "B", "C", "D")), machines(*listed)) is found


def test_an_empty_list_is_precise_only_where_nothing_is_true():
    assert not passes(ItemPrecision(MACHINES, ("A",)), machines())
    assert passes(ItemPrecision(MACHINES, ()), machines())
    assert not passes(ItemPrecision(MACHINES, ()), machines("A"))
    assert not passes(ItemPrecision(MACHINES, ()), Answer({}))


def test_where_nothing_is_true_any_list_recalls_it_but_there_must_be_one():
    assert passes(ItemRecall(MACHINES, ()), machines())
    assert passes(ItemRecall(MACHINES, ()), machines("A"))
    assert not passes(ItemRecall(MACHINES, ()), Answer({}))
    assert not passes(ItemRecall(MACHINES, ()), Answer({"machines": "A"}))


@pytest.mark.parametrize("junk", [[None], [7, True], [["A"]], [{}], [0.0, None]])
def test_a_list_that_holds_something_but_no_item_is_not_empty(junk):
    for items in (MACHINES, GALAXIES, EVENTS):
        answer = Answer({items.path[0]: junk})
        for check in (ItemPrecision(items, ()), ItemRecall(items, ()), ItemCount(items, 0)):
            assert not passes(check, answer)


def test_repeating_a_true_item_makes_a_list_no_more_precise():
    assert not passes(ItemPrecision(MACHINES, ("A",)), machines(*"AAAA", "X", "Y"))


@pytest.mark.parametrize(("masses", "near"), cases(__file__, "proportions"))
def test_half_of_the_values_must_be_near_in_proportion(masses, near):
    check = ItemsNear(EVENTS, ("1", "2", "3"), "value", (10.0, 20.0, -30.0), 0.1)
    assert passes(check, events(*masses)) is near


def test_no_value_is_near_where_there_is_none():
    assert not passes(ItemsNear(EVENTS, (), "value", (), 0.1), events([1, 10.0]))
    assert not passes(ItemsNear(EVENTS, ("1",), "value", (10.0,), 0.1), Answer({}))


READ = ItemsWithin(GALAXIES, ("a", "b", "c"), "z", (1.0, 2.0, 3.0), 0.5, share=0.6)


@pytest.mark.parametrize(("values", "near"), cases(__file__, "shares"))
def test_a_share_of_the_values_must_be_within_the_tolerance(values, near):
    answer = galaxies(*({"id": name, "z": z} for name, z in zip("abc", values, strict=True)))
    assert passes(READ, answer) is near
    assert not passes(ItemsWithin(GALAXIES, (), "z", (), 0.5), answer)
    assert not passes(READ, Answer({}))


@pytest.mark.parametrize(("listed", "right"), cases(__file__, "texts"))
def test_texts_are_asked_of_what_was_read(listed, right):
    check = TextsOfRead(READ, "kind", ("x", "y", "z"), share=0.6)
    answer = galaxies(*({"id": name, "z": z, "kind": kind} for name, z, kind in listed))
    assert passes(check, answer) is right
    assert not passes(check, Answer({}))


def test_checks_of_items_work_within_gates():
    gate = ShareOf((ItemRecall(MACHINES, ("A",)), ItemPrecision(MACHINES, ("A",))), share=1.0)
    check = Gated(OmitsItem(MACHINES, "B"), gate)
    assert passes(check, machines("A"))
    assert not passes(check, machines())
    assert not passes(check, machines("A", "X", "Y"))


# --- how a list may be written


def test_identifiers_keep_their_zeros():
    answer = galaxies({"id": "0017", "z": 0.02})
    assert not passes(ListsItem(GALAXIES, "17"), answer)
    assert not passes(ListsItem(GALAXIES, "0017"), galaxies({"id": 17, "z": 0.02}))


def test_a_whole_number_names_the_item_of_its_digits():
    assert passes(mass("841"), events([841, 3.5]))
    assert passes(mass("841"), events(["841", 3.5]))
    assert not passes(mass("841"), events([841.0, 3.5]))
    assert not passes(mass("True"), events([True, 3.5]))
    assert not passes(mass("1"), events([True, 3.5]))


def test_what_is_no_item_is_passed_over():
    answer = events([1, 3.5], [2], [3, 1, 4], "4", None, {"id": 5}, [[6], 1], [7, 2.5])
    assert set(items_at(answer, EVENTS)) == {"1", "7"}
    assert set(items_at(machines("A", 7, None, ["B"], "C"), MACHINES)) == {"A", "C"}
    assert set(items_at(galaxies("a", {"z": 1}, {"id": ""}, {"id": "b"}), GALAXIES)) == {"b"}


def test_a_list_may_lie_deeper():
    deeper = ItemList(("findings", "machines"), TEXTS)
    assert passes(ListsItem(deeper, "A"), Answer({"findings": {"machines": ["A"]}}))
    for block in ({}, {"findings": ["A"]}, {"findings": {"machines": {}}}, {"findings": None}):
        assert not passes(ListsItem(deeper, "A"), Answer(block))


# --- the same item twice


def test_an_item_given_twice_with_one_value_is_given_once():
    answer = events([1, 3.5], [1, 3.5])
    assert passes(mass("1"), answer)
    assert passes(ItemCount(EVENTS, 1), answer)


@pytest.mark.parametrize("second", [3.6, "3.5", None, [3.5]])
def test_an_item_given_twice_with_different_values_is_wrong(second):
    for answer in (events([1, 3.5], [1, second]), events([1, second], [1, 3.5])):
        assert not passes(mass("1"), answer)


def test_a_difference_in_any_field_voids_them_all():
    answer = galaxies({"id": "a", "z": 0.5, "batch": "B"}, {"id": "a", "z": 0.5, "batch": "C"})
    assert not passes(ItemNumber(GALAXIES, "a", "z", 0.0, 1.0), answer)
    assert not passes(ItemValue(GALAXIES, "a", "batch", "B"), answer)
    assert not passes(OmitsItem(GALAXIES, "a"), answer)


def test_trying_every_value_for_every_item_earns_no_number():
    """The attack on closed intervals: all values of a grid, one of which is right."""
    answer = events(*([name, step / 10] for name in range(50) for step in range(100)))
    assert not any(passes(mass(str(name), 4.0, 6.0), answer) for name in range(50))


def test_the_same_number_as_text_is_another_identifier_only_if_its_digits_differ():
    assert not passes(mass("7"), events([7, 1.0], ["7", 2.0]))
    assert passes(mass("7"), events([7, 1.0], ["07", 2.0]))


# --- CSV files


def test_a_list_may_be_a_file_that_the_block_names():
    answer = event_file(b"event,mass\n1,3.5\n2,4.5\n")
    assert passes(mass("1", 3.5, 3.5), answer)
    assert passes(mass("2", 4.5, 4.5), answer)
    assert passes(ItemCount(EVENTS, 2), answer)


@pytest.mark.parametrize("name", cases(__file__, "spreadsheets"))
def test_files_of_any_spreadsheet_are_read(name):
    text = cases(__file__, "spreadsheets")[name]
    assert passes(mass("1", 3.5, 3.5), event_file(text.encode()))


BAD_LINES = cases(__file__, "bad_lines") | {"huge": "1," + "9" * 200_000}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_bad_line_earns_nothing_and_never_raises(name):
    answer = event_file(BAD_LINES[name].encode("latin-1"))
    expected = name == "quote"  # a quote left open at the end of a file closes there
    assert passes(mass("1"), answer) is expected
    assert passes(ItemRecall(EVENTS, ()), answer)


@pytest.mark.parametrize("second", [b"nan", b"inf", b"-Infinity", b"1e999"])
def test_a_line_without_a_finite_value_takes_back_one_with(second):
    for data in (b"1,3.5\n1," + second, b"1," + second + b"\n1,3.5\n"):
        assert not passes(mass("1"), event_file(data))
        assert passes(mass("2"), event_file(data + b"\n2,4.5\n"))


def test_a_file_that_is_not_there_is_no_list():
    assert not passes(ItemRecall(EVENTS, ()), Answer({"events_file": "events.csv"}))
    assert not passes(ItemRecall(EVENTS, ()), event_file(b"1,3.5\n", {"events_file": "other.csv"}))
    for name in (None, 7, ["events.csv"], {"events.csv": 1}):
        assert not passes(ItemRecall(EVENTS, ()), event_file(b"1,3.5\n", {"events_file": name}))


def test_a_list_in_the_block_goes_before_the_file():
    both = event_file(b"1,3.5\n", {"events": [[2, 4.5]], "events_file": "events.csv"})
    assert passes(mass("2"), both)
    assert not passes(mass("1"), both)


# --- huge lists


def seconds(run):
    start = time.process_time()
    run()
    return time.process_time() - start


def test_a_list_longer_than_anyone_means_is_none():
    """Nor an empty one, which would be right where nothing is true."""
    answer = machines(*(str(number) for number in range(MAX_ITEMS + 1)))
    assert items_at(answer, MACHINES) is None
    for check in (ItemCount(MACHINES, 0), ItemPrecision(MACHINES, ()), ItemRecall(MACHINES, ())):
        assert not passes(check, answer)
    just = machines(*(str(number) for number in range(MAX_ITEMS)))
    assert passes(ItemCount(MACHINES, MAX_ITEMS), just)


def test_a_file_longer_than_anyone_means_is_none():
    lines = b"".join(b"%d,1\n" % number for number in range(MAX_ITEMS + 5))
    assert items_at(event_file(lines), EVENTS) is None


def test_a_thousand_checks_read_a_long_list_once():
    """Not timed against the clock but against itself: a thousand checks cost about what
    reading the list costs, not a thousand times that."""
    items = [[number, 1.0] for number in range(100_000)]
    reading = seconds(lambda: passes(mass("0"), events(*items)))
    answer = events(*items)
    checks = [mass(str(number)) for number in range(1000)]
    assert seconds(lambda: [passes(check, answer) for check in checks]) < 20 * reading + 0.5


def test_a_hundred_megabytes_are_refused_before_they_are_read():
    huge = b'{"machines": [' + b'"A",' * 25_000_000 + b'"A"]}'
    assert len(huge) > MAX_ANSWER_BYTES
    assert parse_answer("", huge) is None
    assert parse_answer(f"<answer>\n{huge[:8_000_000].decode()}\n</answer>") is None


# --- anything at all


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["id", "z", "0", "a"]) | st.text(max_size=3), inner, max_size=4
        )
    ),
    max_leaves=25,
)
ITEM = st.fixed_dictionaries({"id": JSON, "z": JSON}) | st.tuples(JSON, JSON).map(list) | JSON
LISTED = st.lists(ITEM, max_size=6) | JSON
CHECKS = tuple(
    check
    for items in (
        ItemList(("list",), "id"),
        ItemList(("list",), PAIRS),
        ItemList(("list",), TEXTS),
        ItemList(("list", "a"), "id"),
    )
    for check in (
        ListsItem(items, "0"),
        OmitsItem(items, "0"),
        ItemNumber(items, "0", "z", -1.0, 1.0),
        ItemNumber(items, "0", "value", -1.0, 1.0),
        ItemValue(items, "0", "z", "a"),
        ItemValue(items, "0", "z", 1),
        ItemCount(items, 1),
        ItemPrecision(items, ("0", "a")),
        ItemPrecision(items, ()),
        ItemRecall(items, ("0", "a")),
        ItemRecall(items, ()),
        ItemsNear(items, ("0", "a"), "z", (1.0, 2.0), 0.1),
        ItemsNear(items, ("0", "a"), "value", (1.0, 2.0), 0.1),
        ItemsWithin(items, ("0", "a"), "value", (1.0, 2.0), 0.1),
        TextsOfRead(ItemsWithin(items, ("0", "a"), "z", (1.0, 2.0), 0.1), "b", ("c", "d")),
    )
)


@given(LISTED)
def test_arbitrary_json_never_raises(listed):
    answer = Answer({"list": listed})
    assert {type(check.passes(answer)) for check in CHECKS} == {bool}


@given(LISTED, JSON)
def test_arbitrary_blocks_of_text_never_raise(listed, name):
    text = json.dumps({"list": listed, "list_file": name})  # may hold NaN: then no answer
    answer = parse_answer(f"<answer>\n{text}\n</answer>")
    assert all(isinstance(passes(check, answer), bool) for check in CHECKS)


@given(st.binary(max_size=200))
def test_arbitrary_files_never_raise(data):
    answer = Answer({"list_file": "a"}).with_files({"a": data})
    assert all(isinstance(passes(check, answer), bool) for check in CHECKS)


@given(st.lists(st.tuples(st.text(max_size=2), st.floats(allow_nan=False)), max_size=8))
def test_no_value_is_right_by_being_one_of_several(pairs):
    """An item counts as right exactly if all that is said of it is right."""
    answer = events(*map(list, pairs))
    for name in {name for name, _ in pairs if name}:
        said = {value for other, value in pairs if other == name}
        right = len(said) == 1 and all(-1.0 <= value <= 1.0 for value in said)
        assert passes(ItemNumber(EVENTS, name, "value", -1.0, 1.0), answer) is right


def nested(depth):
    value = "[" * depth + "1" + "]" * depth
    return f'<answer>\n{{"list": [["a", {value}], ["a", {value}]]}}\n</answer>'


def from_below(frames, run):
    """What ``run`` gives when it is called from so many frames further down the stack."""
    return from_below(frames - 1, run) if frames else run()


def test_values_nested_as_deeply_as_the_parser_bears_never_raise():
    depths = [depth for depth in range(100, 2000) if parse_answer(nested(depth)) is not None]
    assert depths, "the parser refuses all of them"
    for depth in depths[-100:]:
        answer = parse_answer(nested(depth))
        verdicts = from_below(30, lambda found=answer: [passes(each, found) for each in CHECKS])
        assert {type(verdict) for verdict in verdicts} == {bool}


# --- as JSON
