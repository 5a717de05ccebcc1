"""What `template check` catches: faults put into good questions, and good questions let be.

    python -m benchmarks.proof [COUNT]     (200 of each by default)

Prints one JSON line. Each fault is put by a seeded draw into a question of the library or into one
on a JSON file whose answer is written to a file; it is caught if it brings an error, or a warning
that the question did not have. ``false_alarms`` are good questions with an error or a warning, and
``library`` what is found in the templates of the library as they are.
"""

from __future__ import annotations

import copy
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from time import process_time
from typing import Any

import yaml

from benchmarks.proof_questions import good_questions, json_write_questions
from generators.templates import TemplateReport, check_text
from generators.templates.language.data_types import DATA_TYPES, LISTS
from generators.templates.library import NAMES, library_text

COUNT = 200
JSON_WRITE = 24  # questions that faults are put into, besides those of the library
_KEYS = ("expected_response", "expected_content")
_BOUND = re.compile(r"([<>]=?:?\s*)([0-9]+)")
_NUMBER = re.compile(r"(?<=[<>=]:)\{\{number1:[0-9:]+\}\}|(?<=[<>=] )\{\{number1:[0-9:]+\}\}")
_ROW = re.compile(r"(file_(?:line|word):)([0-9]+)")

Asked = dict[str, Any]
Fault = Callable[[Asked, random.Random], Asked | None]  # None where it does not apply


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    outcome = {
        "benchmark": "proof",
        **_faults(count),
        **_good(count),
        "library": {name: _found(check_text(library_text(name), f"{name}.yml")) for name in NAMES},
        "cpu_seconds": round(process_time(), 1),
    }
    print(json.dumps(outcome))


def _faults(count: int) -> dict[str, Any]:
    questions, dice = [*_library(), *json_write_questions(JSON_WRITE)], random.Random(17)
    made: Counter[str] = Counter()
    caught: Counter[str] = Counter()
    errors, missed = 0, []
    while made.total() < count:
        name, fault = FAULTS[made.total() % len(FAULTS)]
        order = dice.sample(questions, len(questions))
        applied = ((one, fault(copy.deepcopy(one), dice)) for one in order)
        good, bad = next((one, changed) for one, changed in applied if changed not in (None, one))
        before, after = _warnings(json.dumps(good)), _check(bad)
        made[name] += 1
        errors += bool(after.errors)
        if after.errors or {_kind(each.what) for each in after.warnings} - before:
            caught[name] += 1
        else:
            missed.append({"fault": name, "key": _key_of(bad)[:200]})
    by_kind = {name: f"{caught[name]} of {made[name]}" for name, _ in FAULTS}
    return {
        "caught": caught.total(),
        "of": made.total(),
        "by_kind": by_kind,
        "caught_by_errors": errors,
        "missed": missed,
    }


def _good(count: int) -> dict[str, Any]:
    alarms = []
    for question in good_questions(count):
        report = _check(question)
        if report.errors or report.warnings:
            alarms.append({"key": _key_of(question)[:200], **_found(report)})
    return {"good": count, "false_alarms": len(alarms), "alarms": alarms}


def _library() -> Iterator[Asked]:
    for name in NAMES:
        yield from yaml.safe_load(library_text(name))["tests"]


def _check(question: Asked | None) -> TemplateReport:
    return check_text(json.dumps({"tests": [question]}), "question.yml")  # JSON is YAML


@cache
def _warnings(question: str) -> frozenset[str]:
    return frozenset(_kind(each.what) for each in _check(json.loads(question)).warnings)


def _kind(warning: str) -> str:
    return re.sub(r"[0-9]+|`[^`]*`", "#", warning)


def _found(report: TemplateReport) -> dict[str, list[str]]:
    return {
        "errors": [each.what for each in report.errors],
        "warnings": [each.what for each in report.warnings],
    }


def _key_of(question: Asked | None) -> str:
    question = question or {}
    given = [str(question[key]) for key in _KEYS if key in question]
    return given[0] if given else json.dumps(question.get("edit_verification", ""))


def _with_key(question: Asked, key: str) -> Asked:
    for name in _KEYS:
        if name in question:
            return {**question, name: key}
    return {**question, "edit_verification": json.loads(key)}


# --- faults


def _misspelt(text: str, dice: random.Random) -> str:
    """The text with a letter doubled, left out or exchanged with the next."""
    at = dice.randrange(1, len(text) - 1)
    way = dice.randrange(3)
    if way == 0:
        return text[:at] + text[at] + text[at:]
    if way == 1 or text[at] == text[at + 1]:
        return text[:at] + text[at + 1 :]
    return text[:at] + text[at + 1] + text[at] + text[at + 2 :]


def _replaced(question: Asked, name: str, other: str) -> Asked | None:
    key = _key_of(question)
    changed = re.sub(rf"\b{re.escape(name)}\b", other.replace("\\", r"\\"), key, count=1)
    return None if changed == key or other == name else _with_key(question, changed)


def _literal_of(question: Asked, dice: random.Random) -> str | None:
    key = _key_of(question)
    few = [value for name in _FEW for value in LISTS[name]]
    found = [value for value in few if re.search(rf"[:='(]\s*'?{re.escape(value)}\b", key)]
    return dice.choice(found) if found else None


def _names_in_key(question: Asked, dice: random.Random) -> str | None:
    key, data = _key_of(question), json.dumps(question.get("sandbox_setup", {}))
    quoted = [name for name in re.findall(r'"([A-Za-z_]{3,})"', data) if name not in _OWN]
    found = [name for name in dict.fromkeys(quoted) if re.search(rf"[$:. (\[@]{name}\b", key)]
    return dice.choice(found) if found else None


def misspelt_literal(question: Asked, dice: random.Random) -> Asked | None:
    value = _literal_of(question, dice)
    return (value and _replaced(question, value, _misspelt(value, dice))) or None


def other_case(question: Asked, dice: random.Random) -> Asked | None:
    value = _literal_of(question, dice)
    other = value and dice.choice((value.upper(), value.swapcase(), f"{value}s"))
    return (value and other and _replaced(question, value, other)) or None


def misspelt_name(question: Asked, dice: random.Random) -> Asked | None:
    """A column, a table, a key or an element that is not there."""
    name = _names_in_key(question, dice)
    return (name and _replaced(question, name, _misspelt(name, dice))) or None


def renamed_data(question: Asked, dice: random.Random) -> Asked | None:
    """The data have another name, and the key still the old one."""
    name = _names_in_key(question, dice)
    if name is None:
        return None
    data = json.dumps(question["sandbox_setup"])
    changed = re.sub(rf'"{name}"', f'"{name}_x"', re.sub(rf'"{name}\.', f'"{name}_x.', data))
    return {**question, "sandbox_setup": json.loads(changed)}


def other_column(question: Asked, dice: random.Random) -> Asked | None:
    """The filter looks at another column of the same data."""
    key, data = _key_of(question), json.dumps(question.get("sandbox_setup", {}))
    filtered = next(filter(None, (find.search(key) for find in _FILTERED)), None)
    if filtered is None:
        return None
    names = [name for name in re.findall(r'"([A-Za-z_]{3,})"', data) if name not in _TYPE_NAMES]
    others = [name for name in dict.fromkeys(names) if name not in (*_OWN, filtered[1])]
    changed = f"{key[: filtered.start(1)]}{dice.choice(others)}{key[filtered.end(1) :]}"
    return _with_key(question, changed)


def other_type(question: Asked, dice: random.Random) -> Asked | None:
    """The column of the literal has values of another type."""
    value = _literal_of(question, dice)
    if value is None:
        return None
    kind = next(kind for kind, name in _TYPES.items() if value in LISTS[name])
    data = json.dumps(question["sandbox_setup"]).replace(f'"{kind}"', '"city"')
    changed = {**question, "sandbox_setup": json.loads(data)}
    return None if changed == question else changed


def bound_out_of_range(question: Asked, dice: random.Random) -> Asked | None:
    """A bound that no value, or every value, is beyond."""
    text = json.dumps(question)
    factor = dice.choice(("00000", "000000"))
    changed = _NUMBER.sub(f"{{{{number1:9{factor}:99{factor}}}}}", text, count=0)
    if changed == text:
        key = _key_of(question)
        moved = _BOUND.sub(lambda found: f"{found[1]}{found[2]}{factor}", key, count=1)
        return None if moved == key else _with_key(question, moved)
    question = json.loads(changed)
    return question


def length_of_a_list(question: Asked, dice: random.Random) -> Asked | None:
    key = _key_of(question)
    changed = re.sub(r"\[\?@?\.?[a-z_]+(?:[=<>]+| [<>=]+ )", "[?@.tags.length > ", key, count=1)
    return None if changed == key or "json_" not in key else _with_key(question, changed)


def brackets_left_out(question: Asked, dice: random.Random) -> Asked | None:
    key = _key_of(question)
    changed = key.replace("[*]", "", 1)
    return None if changed == key else _with_key(question, changed)


def constant(question: Asked, dice: random.Random) -> Asked | None:
    """A key without its filter, which counts all rows of a table that has the same in each."""
    changed = json.loads(json.dumps(question).replace("{{number9:80:300}}", "100"))
    key = _key_of(question)
    for pattern, instead in _UNFILTERED:
        if re.search(pattern, key):
            return _with_key(changed, re.sub(pattern, instead, key, count=1))
    return None


def other_file(question: Asked, dice: random.Random) -> Asked | None:
    """The answer is read from a file that the question does not name."""
    name = next((key for key in ("file_to_read", "modified_file") if key in question), None)
    if name is None:
        return None
    folder, _, file = str(question[name]).rpartition("/")
    return {**question, name: f"{folder}/out_{dice.randrange(100)}_{file}"}


def file_not_named(question: Asked, dice: random.Random) -> Asked | None:
    """The question does not say which file it is about."""
    sandbox = question.get("sandbox_setup", {})
    target = str(sandbox.get("target_file", ""))
    asked = str(question["template"])
    if not target or target not in asked or "modified_file" in question:
        return None
    return {**question, "template": asked.replace(target, "the file")}


def misspelt_selector(question: Asked, dice: random.Random) -> Asked | None:
    if "edit_verification" not in question:
        return None
    changes = question["edit_verification"]["target_changes"]
    names = re.findall(r"[a-z_]{3,}", changes[0]["selector"])
    name = dice.choice([name for name in names if name not in ("and", "or")])
    return _replaced(question, name, _misspelt(name, dice))


def beyond_the_file(question: Asked, dice: random.Random) -> Asked | None:
    key = _key_of(question)
    changed = _ROW.sub(lambda found: f"{found[1]}{found[2]}00000", key, count=1)
    return None if changed == key else _with_key(question, changed)


_FEW = ("departments", "statuses", "regions", "categories")
_TYPES = dict(zip(("department", "status", "region", "category"), _FEW, strict=True))
_OWN = ("type", "name", "content", "schema", "items", "count", "array", "columns", "tables", "rows")
_UNFILTERED = (
    (r"csv_count_where:([^:]+):[^:]*:[^:]*:[^:]*:TARGET", r"csv_count:\1:TARGET"),
    (r"(SELECT) SUM\([^)]*\) (FROM \w+) WHERE [^:]*:", r"\1 COUNT(*) \2:"),
    (r"(SELECT COUNT\(\*\) FROM \w+) o JOIN [^:]*:", r"\1:"),
    (r"json_\w+:\$?\.?(\w+)\[[^:]*?:TARGET", r"json_count:$:TARGET"),
)
_TYPE_NAMES = {*DATA_TYPES, "string", "integer", "number", "TEXT", "INTEGER", "REAL", "auto_id"}
_FILTERED = (
    re.compile(r"_where:[^:]+:(\w+):"),
    re.compile(r"\b(\w+) [=<>]+ ['0-9]"),
    re.compile(r"\[\?\(?@?\.?(\w+) ?[=<>]"),
)
FAULTS: tuple[tuple[str, Fault], ...] = (
    ("misspelt literal", misspelt_literal),
    ("literal in another case", other_case),
    ("misspelt name", misspelt_name),
    ("renamed data", renamed_data),
    ("filter of another column", other_column),
    ("other type of column", other_type),
    ("bound out of range", bound_out_of_range),
    (".length of a list", length_of_a_list),
    ("[*] left out", brackets_left_out),
    ("constant answer", constant),
    ("answer's file not named", other_file),
    ("data file not named", file_not_named),
    ("misspelt selector", misspelt_selector),
    ("line beyond the file", beyond_the_file),
)

if __name__ == "__main__":
    main()
