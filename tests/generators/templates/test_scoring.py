"""Scoring: strict verdicts are those of published run folders; lenient ones forgive form only."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.errors import TemplateError
from generators.templates.scoring import json_edit
from generators.templates.scoring.comparison import (
    as_number,
    differences,
    read_json,
    same_json,
    same_text_leniently,
)
from generators.templates.scoring.response import MOST_READ, MOST_RESPONSE, clean
from generators.templates.scoring.score import (
    Failure,
    score,
    score_both,
    score_leniently,
    scoring_types,
)
from generators.templates.scoring.scorer import SCORING_TYPES, Key
from tests.cases import cases
from tests.plugins import installing


class Files:
    """A workspace in memory; counts what is read."""

    def __init__(self, files: dict[str, bytes | str] | None = None, folders=()) -> None:
        made = files or {}
        self.files = {k: v.encode() if isinstance(v, str) else v for k, v in made.items()}
        self.folders = set(folders)
        self.reads = 0

    def read(self, path: str) -> bytes | None:
        self.reads += 1
        return self.files.get(path)

    def kind(self, path: str) -> str | None:
        if path.rstrip("/") in self.folders:
            return "folder"
        return "file" if path.rstrip("/") in self.files else None


NOTHING = Files()


def both(key: Key, answer: str | bytes) -> tuple[bool, bool]:
    """The two verdicts on an answer, in the response or, for such types, in the file."""
    held = Files({key.file: answer} if key.file else {})
    scores = score_both(key, "It is done." if key.file else answer, held)
    return scores.strict.correct, scores.lenient.correct


def text(expected: str) -> Key:
    return key_of("stringmatch", expected)


def as_json(expected: str) -> Key:
    return key_of("jsonmatch", expected)


def in_file(kind: str, expected: str) -> Key:
    return key_of(f"readfile_{kind}", expected)


def key_of(kind: str, expected: str) -> Key:
    """A key of one of the four types that compare an answer, or a file."""
    return Key(kind, expected=expected, file="out/answer" if "readfile" in kind else "")


# --- cleaning


@pytest.mark.parametrize(
    ("given", "left"), cases(__file__, "reasoning and markers are cleaned and nothing else")
)
def test_reasoning_and_markers_are_cleaned_and_nothing_else(given, left):
    assert clean(given) == left


TAGS = ("thinking", "think", "reasoning", "thought", "internal", "reflection", "analysis")
MARKS = (
    *("<think>", "</think>", "<THINKING>", "</thinking>", "<analysis>", "</analysis>", "</", "<"),
    *("<reasoning>", "</Reasoning>", "<|channel|>", "<|message|>", "a", " b\n", ">", "think>"),
)
PIECES = st.sampled_from(MARKS)


@settings(deadline=None)
@given(st.lists(PIECES, max_size=14).map("".join))
def test_cleaning_agrees_with_the_rules_written_plainly(given):
    if "<|channel|>" in given and "<|message|>" in given:
        wanted = given.split("<|message|>")[-1]
    else:
        wanted = given
        for tag in TAGS:
            wanted = re.sub(f"(?is)<{tag}>.*?</{tag}>", "", wanted)
        wanted = re.split("(?i)</think>", wanted)[-1]
    assert clean(given) == wanted.strip()


# --- the six types, strictly


@pytest.mark.parametrize(
    ("kind", "expected", "answer", "correct"),
    [*cases(__file__, "the strict verdict"), ("readfile_stringmatch", "amber", b"\xff\xfe", False)],
)
def test_the_strict_verdict(kind, expected, answer, correct):
    assert both(key_of(kind, expected), answer)[0] is correct


def test_a_file_kind_looks_at_no_response():
    key = in_file("stringmatch", "amber")
    assert score(key, "amber", NOTHING).error == "out/answer: does not exist"
    assert score(key, None, Files({"out/answer": "amber"})).correct
    assert "is a folder" in score(key, "", Files(folders=["out/answer"])).error
    assert "names no file" in score(Key("readfile_jsonmatch", "1"), "1", NOTHING).error


def test_files_exist_wants_every_path_of_either_kind():
    held = Files({"x/a.log": "", "x/b": ""}, ["x"])
    assert score(Key("files_exist", paths=("x/a.log", "x/b/", "x")), "", held).correct
    lacking = score(Key("files_exist", paths=("x/a.log", "x/c")), "", held)
    assert not lacking.correct
    assert lacking.error == "missing: x/c"
    assert lacking.details["missing_files"] == ["x/c"]
    assert not score(Key("files_exist"), "", held).correct


def test_directory_structure_wants_the_kind_that_the_slash_says():
    held = Files({"x/a.log": "", "x/more": ""}, ["x", "x/d"])
    assert score(Key("directory_structure", paths=("x/", "x/d/", "x/a.log")), "", held).correct
    wrong = score(Key("directory_structure", paths=("x", "x/a.log/", "y/")), "", held)
    assert wrong.details["wrong_type_paths"] == ["x", "x/a.log/"]
    assert wrong.details["missing_paths"] == ["y/"]
    assert wrong.error == "missing: y/; of the other kind: x, x/a.log/"
    assert not score(Key("directory_structure"), "", held).correct


def test_differences_are_told_from_the_top_down():
    verdict = score(
        as_json('{"a": [1, {"b": 2}], "c": 3, "e": 1}'), '{"a":[1,{"b":"2"}],"d":4}', NOTHING
    )
    assert verdict.details["differences"] == cases(__file__, "differences")
    assert verdict.error == "the response is other JSON: $.c: is missing"


def test_an_unknown_type_is_an_error_with_the_nearest():
    with pytest.raises(TemplateError, match="did you mean 'jsonmatch'"):
        score(Key("jsonmach"), "", NOTHING)


# --- leniently


@pytest.mark.parametrize(
    ("kind", "expected", "answer", "failure"),
    [
        *((*case, Failure.FORMATTING) for case in cases(__file__, "formatting failure")),
        *((*case, Failure.TASK) for case in cases(__file__, "task failure")),
    ],
)
def test_a_wrong_answer_fails_by_its_form_or_by_the_task(kind, expected, answer, failure):
    key = key_of(kind, expected)
    given = ("" if key.file else answer, Files({key.file: answer}))
    scores, correct = score_both(key, *given), failure is Failure.FORMATTING
    assert (scores.strict.correct, scores.failure) == (False, failure)
    assert scores.lenient.correct == score_leniently(key, *given).correct == correct
    assert not (correct and scores.lenient.error)


def test_what_is_right_is_no_failure():
    assert score_both(text("a"), "a", NOTHING).failure is None


@pytest.mark.parametrize(("spelt", "number"), cases(__file__, "numbers as text"))
def test_numbers_as_text(spelt, number):
    assert as_number(spelt) == number


def test_integers_beyond_the_floats_are_compared_as_they_are():
    huge = "9" * 4000
    assert both(as_json(f"[{huge}]"), f"[{huge}]") == (True, True)
    assert both(as_json(f"[{huge}]"), f"[{huge[:-1]}8]") == (False, False)
    assert both(as_json(f"[{huge}]"), "[1.5]") == (False, False)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["true", "1.0", "$5", "**x**", "<think>", "```", '"', "1,000"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
TEXTS = st.one_of(st.text(max_size=40), VALUES.map(json.dumps), PIECES)


@settings(max_examples=150, deadline=None)
@given(expected=TEXTS, answer=TEXTS, wrap=st.sampled_from(["{}", " {}\n", "<think>x</think>{}"]))
def test_what_is_right_strictly_is_right_leniently(expected, answer, wrap):
    for content in (answer, expected):
        said = wrap.replace("{}", content)
        for kind in ("stringmatch", "jsonmatch"):
            strict, lenient = both(Key(kind, expected), said)
            assert lenient or not strict
            strict, lenient = both(in_file(kind, expected), said.encode(errors="replace"))
            assert lenient or not strict


@settings(max_examples=100, deadline=None)
@given(TEXTS)
def test_the_lenient_comparison_of_a_text_with_itself_holds_without_the_strict_one(expected):
    assert same_text_leniently(expected, expected.strip())


@settings(max_examples=100, deadline=None)
@given(VALUES, VALUES)
def test_json_is_compared_as_types_and_values_deeply(one, other):
    def deep(a, b):
        if type(a) is not type(b):
            return False
        if isinstance(a, dict):
            return set(a) == set(b) and all(deep(a[k], b[k]) for k in a)
        if isinstance(a, list):
            return len(a) == len(b) and all(deep(x, y) for x, y in zip(a, b, strict=True))
        return a == b

    again = read_json(json.dumps(one))
    for a, b in ((one, other), (one, again)):
        assert same_json(a, b) == deep(a, b)
        assert bool(differences(a, b)) == (not deep(a, b))


# --- strangers' answers

LONG = MOST_RESPONSE
HOSTILE = {
    "nothing": "",
    "a null byte": "\0",
    "half a surrogate": "\ud800",
    "100 MB": "x" * 100_000_000,
    "deep lists": "[" * 10_000 + "]" * 10_000,
    "deep objects": '{"a":' * 10_000 + "1" + "}" * 10_000,
    "a huge exponent": "[1e999999999]",
    "not a number": "NaN",
    "duplicate keys": '{"a":0,"a":0}',
    "lists": "[" + "{}," * (LONG // 3 - 1) + "{}]",
    "numbers": "[" + "1.5," * (LONG // 4 - 1) + "1]",
} | {name: part * (LONG // len(part)) for name, part in cases(__file__, "repeated").items()}
KEYS = (
    text("5"),
    as_json('{"a": [1, {"b": 2}]}'),
    as_json("[[]]"),
    in_file("stringmatch", "x y"),
    in_file("jsonmatch", '{"a": 1}'),
    Key(
        "readfile_jsonedit",
        '{"original": {"a": 1}, "edits": [{"path": "$.a", "value": 2}], "free": ["$[*].x"]}',
        "out/answer",
    ),
)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_answer_is_wrong_at_once(name):
    for key in KEYS:
        data = HOSTILE[name].encode(errors="surrogatepass")
        held = Files({key.file: data} if key.file else {})
        start = time.process_time()
        scores = score_both(key, HOSTILE[name], held)
        assert time.process_time() - start < 10, "a guard is lost: it takes less than a second"
        assert not scores.lenient.correct
        assert len(repr(scores)) < 100_000


@pytest.mark.parametrize("given", [None, 5, [], {}, b"\xff\xfe\x00", b"x" * 9_000_000, object()])
def test_a_response_that_is_no_text_is_wrong(given):
    for key in (text("5"), as_json("5"), text("")):
        scores = score_both(key, given, NOTHING)
        assert not scores.lenient.correct
        assert "the response is" in scores.strict.error


def test_bytes_of_text_are_a_response():
    assert score(text("ä"), "ä".encode(), NOTHING).correct


def test_a_file_is_no_longer_than_may_be():
    long = Files({"out/answer": b" " * (MOST_READ + 1)})
    assert "too long" in score(in_file("stringmatch", ""), "", long).error


# --- edits of JSON

ORIGINAL = cases(__file__, "original")
EDITS = {
    "original": ORIGINAL,
    "edits": [
        {"path": "$.services[*].log.level", "value": "DEBUG"},
        {"path": "$.services[?(@.type == 'gateway')].port", "value": 8080},
        {"path": "$['services'][1].note", "value": {"by": ["me"]}},
        {"path": "$.services[?(@.port < 5)].port", "remove": True},
        {"path": "$.tags", "append": "b"},
    ],
    "free": ["$.saved", "$.services[*].seen"],
}
EDITED = cases(__file__, "edited")


def edit_key(**changes) -> Key:
    return Key("readfile_jsonedit", json.dumps({**EDITS, **changes}), "out/answer")


def edited(change) -> str:
    document = json.loads(json.dumps(EDITED))
    change(document)
    return json.dumps(document)


def test_all_edits_made_and_the_rest_preserved_is_right():
    assert both(edit_key(), json.dumps(EDITED)) == (True, True)
    assert both(edit_key(), f"```json\n{json.dumps(EDITED)}\n```") == (False, True)


@pytest.mark.parametrize(
    ("change", "missing", "others"),
    [
        (lambda d: d["services"][0].update(port=1), ["$.services[0].port"], []),
        (lambda d: d["services"][1].update(port=2), ["$.services[1].port"], []),
        (lambda d: d["services"][1].pop("note"), ["$.services[1].note"], []),
        (lambda d: d["services"][0]["log"].update(level="INFO"), ["$.services[0].log.level"], []),
        (
            lambda d: d["services"][1].update(type="Worker"),
            [],
            ['$.services[1].type: expected "worker", found "Worker"'],
        ),
        (lambda d: d.update(new=1), [], ["$.new: is extra"]),
        (lambda d: d.pop("tags"), [], ["$.tags: is missing"]),
        (lambda d: d["tags"].pop(), [], ["$.tags: expected 2 elements, found 1"]),
    ],
)
def test_what_was_not_made_and_what_else_changed_are_told(change, missing, others):
    verdict = score(edit_key(), "", Files({"out/answer": edited(change)}))
    assert not verdict.correct
    assert verdict.details["edits_missing"] == missing
    assert verdict.details["other_changes"] == others


def test_one_value_set_in_many_places_is_not_shared():
    key = edit_key(
        original=[{}, {}],
        edits=[{"path": "$[*].a", "value": {}}, {"path": "$[0].a.b", "value": 1}],
        free=[],
    )
    assert both(key, '[{"a": {"b": 1}}, {"a": {}}]')[0]


def test_the_original_is_put_into_the_key_or_read_when_scored():
    spec = {key: value for key, value in EDITS.items() if key != "original"}
    named = json.dumps({**spec, "original_file": "in/config.json"})
    made = {"in/config.json": json.dumps(ORIGINAL).encode()}
    complete = json_edit.complete_edit(named, made)
    assert json.loads(complete) == EDITS
    answer = {"out/answer": json.dumps(EDITED)}
    for expected, held in ((complete, {}), (named, made)):
        assert score(
            Key("readfile_jsonedit", expected, "out/answer"), "", Files({**answer, **held})
        ).correct
    lost = score(Key("readfile_jsonedit", named, "out/answer"), "", Files(answer))
    assert "'in/config.json' cannot be read" in lost.error


@pytest.mark.parametrize(
    ("changes", "said"), cases(__file__, "a key of edits that cannot be is refused")
)
def test_a_key_of_edits_that_cannot_be_is_refused(changes, said):
    expected = json.dumps({**EDITS, **changes})
    with pytest.raises(TemplateError, match=said):
        json_edit.complete_edit(expected, {})
    verdict = score(
        Key("readfile_jsonedit", expected, "out/answer"), "", Files({"out/answer": "{}"})
    )
    assert not verdict.correct
    assert verdict.error.startswith("the key: ")


# --- the public type for edits

STAFF = cases(__file__, "staff")


def targeted_key(*changes: tuple[str, object], free: tuple[str, ...] = ()) -> Key:
    about = {
        "target_changes": [{"selector": path, "expected_value": value} for path, value in changes],
        "preservation_spec": {"exclude_paths": list(free)},
    }
    spec = json_edit.translate_edit("in.json", about)
    complete = json_edit.complete_edit(json.dumps(spec), STAFF_FILES)
    return Key("readfile_jsonedit", complete, "out/answer")


STAFF_FILES = {"in.json": json.dumps(STAFF).encode()}


def staff(change) -> str:
    document = json.loads(json.dumps(STAFF))
    change(document["staff"][0], document["staff"][1], document)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("change", "correct"),
    [
        (lambda ada, bob, _: ada.update(pay=None), True),
        (lambda ada, bob, _: ada.pop("pay"), True),
        (lambda ada, bob, _: None, False),
        (lambda ada, bob, _: (ada.pop("pay"), bob.pop("pay")), False),
        (lambda ada, bob, top: (ada.pop("pay"), top.pop("seen")), False),
    ],
)
def test_a_target_of_null_may_be_removed_and_is_verified_though_it_is_excluded(change, correct):
    path = "$.staff[?(@.consent == false)].pay"
    assert both(targeted_key((path, None), free=(path,)), staff(change)) == (correct, correct)


def test_an_excluded_path_frees_what_is_no_target():
    key = targeted_key(("$.staff[0].mail", "c@d"), free=("$.staff[*]",))
    assert both(key, staff(lambda ada, bob, _: (ada.update(mail="c@d", pay=0), bob.clear())))[0]
    assert both(key, staff(lambda ada, bob, _: bob.clear())) == (False, False)
    assert not both(key, staff(lambda ada, bob, top: (ada.update(mail="c@d"), top.pop("seen"))))[0]


def test_an_edit_without_a_place_is_none_and_a_quoted_number_is_one():
    key = targeted_key(("$.staff[?(@.port < 1000)].port", "3000"), ("$.staff[7].name", "x"))
    assert both(key, staff(lambda ada, bob, _: ada.update(port=3000)))[0]
    assert not both(key, staff(lambda ada, bob, _: ada.update(port="3000")))[0]
    nothing = targeted_key(("$.staff[?(@.port > 9000)].port", "3000"))
    assert both(nothing, json.dumps(STAFF)) == (True, True)


@pytest.mark.parametrize(("wanted", "names"), cases(__file__, "filters"))
def test_filters_of_edits_join_tests(wanted, names):
    steps = json_edit.read_path(f"$.staff[?({wanted})].name", "here")
    assert [holder[key] for _, holder, key in json_edit.find_targets(STAFF, steps)] == names


@pytest.mark.parametrize(
    "wanted", ["", "(@.a", "@.a &&", "a", "(" * 40, "(" * 40 + "@.a" + ")" * 40]
)
def test_a_filter_that_is_none_is_refused(wanted):
    with pytest.raises(TemplateError, match="cannot be read"):
        json_edit.read_path(f"$.staff[?{wanted}].name", "here")


# --- types of others

PACKAGE = cases(__file__, "package")


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with installing(tmp_path, monkeypatch, "dosimeter.scorers") as put:
        yield lambda distribution, name, value: put(distribution, PACKAGE, name, value)


@pytest.mark.parametrize("value", ["SCORER", "make"])
def test_an_installed_type_is_listed_and_scores(install, value):
    install("plug-rows", "csv_rows", value)
    assert scoring_types() == (*SCORING_TYPES, "readfile_jsonedit", "csv_rows")
    assert "plug_rows" not in sys.modules
    key = Key("csv_rows", "2")
    assert score_both(key, "a\nb\n", NOTHING).failure is None
    assert score_both(key, "a\n", NOTHING).failure is Failure.FORMATTING
    assert score_both(key, "", NOTHING).failure is Failure.TASK


@pytest.mark.parametrize(("name", "value", "said"), cases(__file__, "broken_types"))
def test_a_broken_type_is_refused_by_the_name_of_its_package(install, name, value, said):
    install("plug-bad", name, value)
    with pytest.raises(TemplateError, match="of the package plug-bad") as refused:
        score(Key("csv_rows", "2"), "", NOTHING)
    assert said in str(refused.value)
    assert score(text("a"), "a", NOTHING).correct


def test_two_packages_with_one_type_are_both_named(install):
    install("plug-a", "csv_rows", "SCORER")
    install("plug-b", "csv_rows", "SCORER")
    with pytest.raises(TemplateError, match="plug-b is given by plug-a too"):
        scoring_types()


def test_a_type_that_fails_is_named_and_counts_against_nobody(install):
    install("plug-rows", "csv_rows", "SCORER")
    with pytest.raises(TemplateError, match="of the package plug-rows failed: ValueError"):
        score(Key("csv_rows", "no number"), "", NOTHING)
