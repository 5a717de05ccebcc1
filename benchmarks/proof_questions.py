"""Good template questions, to see what `template check` finds in them: patterns of keys, of every
function family, over tables and documents of several themes, answered in four forms.

    for question in good_questions(200): ...
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

ROWS = "{{number9:80:300}}"
Sandbox = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Theme:
    """What records are of: their names and data types, by the part that each plays in a key."""

    noun: str
    who: tuple[str, str]  # texts of many values
    group: tuple[str, str, tuple[str, ...]]  # one of few, and some of them
    amount: tuple[str, str, int, int]  # a number, and bounds that parts of the records pass
    other: tuple[str, str]  # another number
    day: str  # a date


THEMES = (
    Theme(
        "employees",
        ("name", "person_name"),
        ("dept", "department", ("Engineering", "Sales", "Marketing", "Finance")),
        ("salary", "salary", 50_000, 120_000),
        ("age", "age"),
        "hired",
    ),
    Theme(
        "orders",
        ("customer", "company"),
        ("category", "category", ("Electronics", "Books", "Clothing")),
        ("cost", "price", 100, 400),
        ("units", "experience"),
        "shipped",
    ),
    Theme(
        "tickets",
        ("owner", "last_name"),
        ("state", "status", ("active", "inactive", "pending")),
        ("hours", "experience", 8, 30),
        ("points", "score"),
        "opened",
    ),
    Theme(
        "exams",
        ("student", "email"),
        ("area", "region", ("North", "South", "East", "West")),
        ("mark", "score", 70, 92),
        ("fee", "currency"),
        "sat",
    ),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of files, its key, and the files."""

    what: str
    key: str
    sandbox: Sandbox
    is_number: bool = True


Pattern = Callable[[Theme, random.Random], Asked]


def good_questions(count: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Questions, as many as are asked for, of each pattern in turn."""
    dice = random.Random(seed)
    for number in range(count):
        pattern = PATTERNS[number % len(PATTERNS)]
        theme = THEMES[(number // len(PATTERNS) + number) % len(THEMES)]
        asked = pattern(theme, dice)
        form = FORMS[dice.randrange(len(FORMS))]
        yield {"question_id": number + 1, "samples": 20, **form(asked)}


def json_write_questions(count: int, seed: int = 2) -> Iterator[dict[str, Any]]:
    """Questions on JSON files whose answer is written to a JSON file, and edits of such files."""
    dice = random.Random(seed)
    patterns = [
        each
        for each in PATTERNS
        if each in (json_filter, json_sum, json_label, json_both, json_list)
    ]
    for number in range(count):
        question = {"question_id": number + 1, "samples": 20}
        theme = THEMES[number % len(THEMES)]
        if number % 4 == 3:
            yield question | edit_question(theme, dice)
        else:
            yield question | _json_file(patterns[number % len(patterns)](theme, dice))


# --- forms of answers


def _reply(asked: Asked) -> dict[str, Any]:
    return {
        "template": f"{asked.what} Reply with the answer alone.",
        "scoring_type": "stringmatch",
        "expected_response": asked.key,
        "sandbox_setup": asked.sandbox,
    }


def _reply_json(asked: Asked) -> dict[str, Any]:
    return {
        "template": f'{asked.what} Reply with JSON such as {{"answer": …}} and nothing else.',
        "scoring_type": "jsonmatch",
        "expected_response": _json_of(asked),
        "sandbox_setup": asked.sandbox,
    }


def _text_file(asked: Asked) -> dict[str, Any]:
    return {
        "template": f"{asked.what} Write it to {{{{artifacts}}}}/{{{{qs_id}}}}/answer.txt.",
        "scoring_type": "readfile_stringmatch",
        "file_to_read": "{{artifacts}}/{{qs_id}}/answer.txt",
        "expected_content": asked.key,
        "sandbox_setup": asked.sandbox,
    }


def _json_file(asked: Asked) -> dict[str, Any]:
    return {
        "template": f"{asked.what} Write it as `answer` to {{{{artifacts}}}}/result.json.",
        "scoring_type": "readfile_jsonmatch",
        "file_to_read": "{{artifacts}}/result.json",
        "expected_content": _json_of(asked),
        "sandbox_setup": asked.sandbox,
    }


FORMS = (_reply, _reply_json, _text_file, _json_file)


def _json_of(asked: Asked) -> str:
    return f'{{"answer": {asked.key}}}' if asked.is_number else f'{{"answer": "{asked.key}"}}'


# --- files


def _csv(theme: Theme) -> Sandbox:
    types = {
        "id": "id",
        theme.who[0]: theme.who[1],
        theme.group[0]: theme.group[1],
        theme.amount[0]: theme.amount[1],
        theme.other[0]: theme.other[1],
        theme.day: "date",
    }
    content = {"headers": list(types), "header_types": list(types.values()), "rows": ROWS}
    return {
        "type": "create_csv",
        "target_file": f"{{{{artifacts}}}}/{{{{entity1}}}}/{theme.noun}.csv",
        "content": content,
    }


def _database(theme: Theme) -> Sandbox:
    columns = [
        {"name": "id", "type": "auto_id"},
        {"name": theme.who[0], "type": "TEXT", "data_type": theme.who[1]},
        {"name": theme.group[0], "type": "TEXT", "data_type": theme.group[1]},
        {"name": theme.amount[0], "type": "REAL", "data_type": theme.amount[1]},
        {"name": theme.other[0], "type": "INTEGER", "data_type": theme.other[1]},
        {"name": theme.day, "type": "DATE"},
    ]
    notes = [
        {"name": "id", "type": "auto_id"},
        {"name": "about", "type": "INTEGER", "foreign_key": f"{theme.noun}.id"},
        {"name": "stars", "type": "INTEGER", "data_type": "experience"},
    ]
    tables = [
        {"name": theme.noun, "columns": columns, "rows": ROWS},
        {"name": "notes", "columns": notes, "rows": ROWS},
    ]
    return {
        "type": "create_sqlite",
        "target_file": f"{{{{artifacts}}}}/{{{{entity1}}}}_{theme.noun}.db",
        "content": {"tables": tables},
    }


def _record(theme: Theme) -> dict[str, Any]:
    return {
        "code": "id",
        theme.who[0]: theme.who[1],
        theme.group[0]: theme.group[1],
        theme.amount[0]: theme.amount[1],
        theme.other[0]: theme.other[1],
        theme.day: "date",
    }


def _document(theme: Theme, kind: str) -> Sandbox:
    record = {**_record(theme), "tags": {"type": "array", "count": [0, 6], "items": "lorem_word"}}
    schema = {
        "owner": "company",
        "settings": {"limit": {"type": "integer", "minimum": 10, "maximum": 9000}},
        theme.noun: {"type": "array", "count": [40, 100], "items": record},
    }
    return {
        "type": f"create_{kind}",
        "target_file": f"{{{{artifacts}}}}/data/{{{{entity1}}}}.{kind}",
        "content": {"schema": schema},
    }


def _xml(theme: Theme) -> Sandbox:
    records = {
        "type": "array",
        "count": [40, 100],
        "element_name": "record",
        "items": {"type": "object", "properties": _record(theme)},
    }
    return {
        "type": "create_xml",
        "target_file": "{{artifacts}}/{{qs_id}}/export.xml",
        "content": {"root_element": theme.noun, "schema": records},
    }


def _text(kind: str) -> Sandbox:
    return {
        "type": "create_files",
        "target_file": "{{artifacts}}/{{entity1}}/notes.txt",
        "content": {"type": f"lorem_{kind}", "count": "{{number9:60:120}}"},
    }


def _about(theme: Theme, sandbox: Sandbox) -> str:
    return f"The file {sandbox['target_file']} lists {theme.noun}."


# --- CSV


def csv_filter(theme: Theme, dice: random.Random) -> Asked:
    name, _, low, high = theme.amount
    sandbox, bound = _csv(theme), f"{{{{number1:{low}:{high}}}}}"
    sign, words = dice.choice(((">", "above"), ("<", "below"), (">=", "of at least")))
    key = f"{{{{csv_count_where:id:{name}:{sign}:{bound}:TARGET_FILE}}}}"
    return Asked(f"{_about(theme, sandbox)} How many have a {name} {words} {bound}?", key, sandbox)


def csv_group_sum(theme: Theme, dice: random.Random) -> Asked:
    sandbox, group = _csv(theme), dice.choice(theme.group[2])
    key = f"{{{{csv_sum_where:{theme.other[0]}:{theme.group[0]}:==:{group}:TARGET_FILE}}}}"
    what = (
        f"What is the sum of {theme.other[0]} (as a float) of those with {theme.group[0]} {group}?"
    )
    return Asked(f"{_about(theme, sandbox)} {what}", key, sandbox)


def csv_group_mean(theme: Theme, dice: random.Random) -> Asked:
    sandbox, group = _csv(theme), dice.choice(theme.group[2])
    inner = f"{{{{csv_avg_where:{theme.amount[0]}:{theme.group[0]}::{group}:TARGET_FILE}}}}"
    what = f"What is the mean {theme.amount[0]} of {group}, with two decimals?"
    return Asked(f"{_about(theme, sandbox)} {what}", f"{{{{math_fixed:{inner}:2}}}}", sandbox)


def csv_drawn_group(theme: Theme, dice: random.Random) -> Asked:
    sandbox, group = _csv(theme), f"{{{{semantic1:{theme.group[1]}}}}}"
    key = f"{{{{csv_sum_where:{theme.other[0]}:{theme.group[0]}:!=:{group}:TARGET_FILE}}}}"
    what = (
        f"What is the sum of {theme.other[0]} (as a float) where {theme.group[0]} is not {group}?"
    )
    return Asked(f"{_about(theme, sandbox)} {what}", key, sandbox)


def csv_prefix(theme: Theme, dice: random.Random) -> Asked:
    sandbox, year = _csv(theme), dice.randrange(2020, 2026)
    key = f"{{{{csv_count_where:id:{theme.day}:startswith:{year}:TARGET_FILE}}}}"
    return Asked(f"{_about(theme, sandbox)} How many have {theme.day} in {year}?", key, sandbox)


def csv_cell(theme: Theme, dice: random.Random) -> Asked:
    sandbox, row = _csv(theme), "{{number1:1:70}}"
    key = f"{{{{csv_value:{row}:{theme.who[0]}:TARGET_FILE}}}}"
    what = f"What is {theme.who[0]} in data row {row}, counted from 0?"
    return Asked(f"{_about(theme, sandbox)} {what}", key, sandbox, False)


# --- SQLite


def _sql(theme: Theme, what: str, query: str, is_number: bool = True) -> Asked:
    sandbox = _database(theme)
    where = f"In the database {sandbox['target_file']}, table {theme.noun}:"
    return Asked(f"{where} {what}", f"{{{{sqlite_query:{query}:TARGET_FILE}}}}", sandbox, is_number)


def sql_count(theme: Theme, dice: random.Random) -> Asked:
    name, _, low, high = theme.amount
    bound, groups = f"{{{{number1:{low}:{high}}}}}", dice.sample(theme.group[2], 2)
    listed = ", ".join(f"'{group}'" for group in groups)
    return _sql(
        theme,
        f"how many of {' and '.join(groups)} have a {name} above {bound}?",
        f"SELECT COUNT(*) FROM {theme.noun} "
        f"WHERE {theme.group[0]} IN ({listed}) AND {name} > {bound}",
    )


def sql_between(theme: Theme, dice: random.Random) -> Asked:
    name, _, low, high = theme.amount
    return _sql(
        theme,
        f"what is the sum of {theme.other[0]} where {name} is from {low} to {high}?",
        f"SELECT SUM({theme.other[0]}) FROM {theme.noun} WHERE {name} BETWEEN {low} AND {high}",
    )


def sql_join(theme: Theme, dice: random.Random) -> Asked:
    group = dice.choice(theme.group[2])
    return _sql(
        theme,
        f"how many stars do the notes about {group} have in all?",
        f"SELECT SUM(n.stars) FROM notes n JOIN {theme.noun} AS r ON n.about = r.id "
        f"WHERE r.{theme.group[0]} = '{group}'",
    )


def sql_top(theme: Theme, dice: random.Random) -> Asked:
    name = theme.amount[0]
    return _sql(
        theme,
        f"what is {theme.who[0]} of the greatest {name} (of equals, the lowest id)?",
        f"SELECT {theme.who[0]} FROM {theme.noun} ORDER BY {name} DESC, id LIMIT 1",
        is_number=False,
    )


def sql_year(theme: Theme, dice: random.Random) -> Asked:
    year = dice.randrange(2020, 2026)
    return _sql(
        theme,
        f"what is the sum of {theme.other[0]} with {theme.day} in {year}?",
        f"SELECT SUM({theme.other[0]}) FROM {theme.noun} "
        f"WHERE strftime('%Y', {theme.day}) = '{year}'",
    )


def sql_nested(theme: Theme, dice: random.Random) -> Asked:
    name, group = theme.amount[0], dice.choice(theme.group[2])
    return _sql(
        theme,
        f"how many have a {name} above the mean {name} of {group}?",
        f"SELECT COUNT(*) FROM {theme.noun} WHERE {name} > (SELECT AVG({name}) FROM {theme.noun} "
        f"WHERE {theme.group[0]} = '{group}')",
    )


def sql_like(theme: Theme, dice: random.Random) -> Asked:
    letter = dice.choice("aeino")
    return _sql(
        theme,
        f"how many have a {theme.who[0]} with the letter {letter} in it?",
        f"SELECT COUNT(*) FROM {theme.noun} WHERE {theme.who[0]} LIKE '%{letter}%'",
    )


# --- JSON and YAML


def _tree(theme: Theme, kind: str, what: str, call: str, is_number: bool = True) -> Asked:
    sandbox = _document(theme, kind)
    key = f"{{{{{kind}_{call}:TARGET_FILE}}}}"
    return Asked(f"{_about(theme, sandbox)} {what}", key, sandbox, is_number)


def json_filter(theme: Theme, dice: random.Random, kind: str = "json") -> Asked:
    name, _, low, high = theme.amount
    bound, group = f"{{{{number1:{low}:{high}}}}}", dice.choice(theme.group[2])
    test = f"{theme.group[0]}=='{group}' or {name}>{bound}"
    what = f"How many are of {group} or have a {name} above {bound}?"
    return _tree(theme, kind, what, f"count_where:$.{theme.noun}[?{test}]")


def json_sum(theme: Theme, dice: random.Random, kind: str = "json") -> Asked:
    name = theme.other[0]
    what = f"What is the sum of {name}, as a float?"
    return _tree(theme, kind, what, f"sum:$.{theme.noun}[*].{name}")


def json_label(theme: Theme, dice: random.Random, kind: str = "json") -> Asked:
    name, who = theme.amount[0], theme.who[0]
    what = f"What is {who} of the first with the greatest {name}?"
    call = f"max_value:$.{theme.noun}[*].{who}:$.{theme.noun}[*].{name}"
    return _tree(theme, kind, what, call, is_number=False)


def json_list(theme: Theme, dice: random.Random, kind: str = "json") -> Asked:
    name, _, low, _ = theme.amount
    what = f"Which codes have a {name} of at most {low}? Join them by commas without blanks."
    call = f"filter:$.{theme.noun}[?@.{name} <= {low}].code"
    return _tree(theme, kind, what, call, is_number=False)


def json_both(theme: Theme, dice: random.Random, kind: str = "json") -> Asked:
    group, sandbox = dice.choice(theme.group[2]), _document(theme, kind)
    path = f"$.{theme.noun}[?{theme.group[0]}=={group}].{theme.other[0]}"
    key = (
        f"{{{{math_add:{{{{{kind}_sum:{path}:TARGET_FILE}}}}:"
        f"{{{{{kind}_value:settings.limit:TARGET_FILE}}}}}}}}"
    )
    what = f"Add settings.limit to the sum of {theme.other[0]} of {group}; give a float."
    return Asked(f"{_about(theme, sandbox)} {what}", key, sandbox)


def yaml_filter(theme: Theme, dice: random.Random) -> Asked:
    return json_filter(theme, dice, "yaml")


def yaml_mean(theme: Theme, dice: random.Random) -> Asked:
    name, sandbox = theme.amount[0], _document(theme, "yaml")
    inner = f"{{{{yaml_avg:$.{theme.noun}[*].{name}:TARGET_FILE}}}}"
    what = f"What is the mean {name}, with two decimals?"
    return Asked(f"{_about(theme, sandbox)} {what}", f"{{{{math_fixed:{inner}:2}}}}", sandbox)


def yaml_single(theme: Theme, dice: random.Random) -> Asked:
    place = dice.randrange(1, 39)
    what = f"What is {theme.who[0]} of item {place} of {theme.noun}, counted from 0?"
    return _tree(theme, "yaml", what, f"path:$.{theme.noun}[{place}].{theme.who[0]}", False)


def yaml_tags(theme: Theme, dice: random.Random) -> Asked:
    what = "How many tags are there in all?"
    return _tree(theme, "yaml", what, f"count:$.{theme.noun}[*].tags[*]")


# --- XML


def _xpath(theme: Theme, what: str, call: str, is_number: bool = True) -> Asked:
    sandbox = _xml(theme)
    return Asked(
        f"{_about(theme, sandbox)} {what}", f"{{{{xpath_{call}:TARGET_FILE}}}}", sandbox, is_number
    )


def xml_count(theme: Theme, dice: random.Random) -> Asked:
    name, _, low, high = theme.amount
    bound = f"{{{{number1:{low}:{high}}}}}"
    group = dice.choice(theme.group[2])
    what = f"How many have a {name} above {bound}, or are of {group}?"
    return _xpath(theme, what, f"count:record[{name} > {bound} or {theme.group[0]} = '{group}']")


def xml_sum(theme: Theme, dice: random.Random) -> Asked:
    group, name = dice.choice(theme.group[2]), theme.other[0]
    what = f"What is the sum of {name} of {group}, as a float?"
    return _xpath(theme, what, f"sum://record[{theme.group[0]}='{group}']/{name}")


def xml_nth(theme: Theme, dice: random.Random) -> Asked:
    place = dice.randrange(2, 40)
    what = f"What is {theme.who[0]} of record {place}, counted from 1?"
    return _xpath(theme, what, f"value:/{theme.noun}/record[{place}]/{theme.who[0]}", False)


def xml_last(theme: Theme, dice: random.Random) -> Asked:
    what = f"What is {theme.who[0]} of the last record?"
    return _xpath(theme, what, f"value:record[last()]/{theme.who[0]}", False)


def xml_dates(theme: Theme, dice: random.Random) -> Asked:
    year = dice.randrange(2020, 2026)
    what = f"What is the sum of {theme.other[0]} where {theme.day} is in {year}, as a float?"
    return _xpath(theme, what, f"sum:record[starts-with({theme.day}, '{year}')]/{theme.other[0]}")


# --- text, and trees


def text_line(theme: Theme, dice: random.Random) -> Asked:
    sandbox, line = _text("lines"), "{{number1:2:50}}"
    what = f"What does line {line} of {sandbox['target_file']} say?"
    return Asked(what, f"{{{{file_line:{line}:TARGET_FILE}}}}", sandbox, False)


def text_words(theme: Theme, dice: random.Random) -> Asked:
    sandbox = _text("sentences")
    what = f"How many words are in {sandbox['target_file']}, as white space parts them?"
    return Asked(what, "{{file_word_count:TARGET_FILE}}", sandbox)


def text_in_folder(theme: Theme, dice: random.Random) -> Asked:
    sandbox, word = _text("lines"), "{{number1:5:60}}"
    what = f"In the folder {{{{artifacts}}}}/{{{{entity1}}}} is one file. What is its word {word}?"
    return Asked(what, f"{{{{file_word:{word}:TARGET_FILE}}}}", sandbox, False)


def edit_question(theme: Theme, dice: random.Random) -> dict[str, Any]:
    """A question that wants an edit of a JSON file."""
    sandbox, group = _document(theme, "json"), dice.choice(theme.group[2])
    path, name = sandbox["target_file"], theme.other[0]
    changes = (
        ("$.owner", "{{entity2}}", "the owner"),
        (
            f"$.{theme.noun}[?(@.{theme.group[0]} == '{group}')].{name}",
            1234,
            f"{name} of all {group}",
        ),
        ("$.settings.limit", 9999, "the limit in settings"),
    )
    selector, value, place = dice.choice(changes)
    return {
        "template": f"In {path}, set {place} to {value} and change nothing else.",
        "scoring_type": "json_targeted_edit",
        "original_file": path,
        "modified_file": path,
        "edit_verification": {"target_changes": [{"selector": selector, "expected_value": value}]},
        "sandbox_setup": sandbox,
    }


PATTERNS: tuple[Pattern, ...] = (
    *(csv_filter, csv_group_sum, csv_group_mean, csv_drawn_group, csv_prefix, csv_cell),
    *(sql_count, sql_between, sql_join, sql_top, sql_year, sql_nested, sql_like),
    *(json_filter, json_sum, json_label, json_list, json_both),
    *(yaml_filter, yaml_mean, yaml_single, yaml_tags),
    *(xml_count, xml_sum, xml_nth, xml_last, xml_dates),
    *(text_line, text_words, text_in_folder),
)
