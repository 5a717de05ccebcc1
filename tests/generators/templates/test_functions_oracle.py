"""Every function against an oracle of its own, over random files.

The oracles know nothing of our readers: texts are read by io, tables by csv.DictReader, databases
are answered from the rows that were put in, JSON and YAML by comprehensions over what json and
yaml load, XML by ElementTree's own find, arithmetic by whole numbers.
"""

from __future__ import annotations

import csv
import functools
import io
import json
import operator
import random
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from xml.dom import minidom
from xml.etree import ElementTree

import pytest
import yaml

from generators.errors import TemplateError
from generators.templates.functions import FUNCTIONS, call_function
from generators.templates.functions.base import OpenFile
from tests.cases import cases

CASES = 24  # of each function
Case = tuple[list[str], bytes, "str | None"]  # arguments, the file, the answer or None: an error
Maker = Callable[[random.Random], Case]

WORDS = cases(__file__, "words")
NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")


def add(numbers: list[float]) -> float:
    return functools.reduce(operator.add, numbers, 0.0)


def is_number(text: str) -> bool:
    return NUMBER.fullmatch(text) is not None


def extreme(pairs: list[tuple[float, str]], largest: bool) -> str | None:
    best = None
    for number, text in pairs:
        if best is None or (number > best[0] if largest else number < best[0]):
            best = (number, text)
    return None if best is None else best[1]


# Texts


def text_data(draw: random.Random) -> bytes:
    end = draw.choice(["\n", "\r\n", "\r"])
    lines = [" ".join(draw.choices(WORDS, k=draw.randint(0, 6))) for _ in range(draw.randint(1, 9))]
    return (end.join(lines) + end * draw.randint(0, 2)).encode()


def text_case(name: str) -> Maker:
    def make(draw: random.Random) -> Case:
        data = text_data(draw)
        with io.TextIOWrapper(io.BytesIO(data), encoding="utf-8") as file:
            lines = [line.rstrip("\n") for line in file]
        words = re.findall(r"\S+", data.decode())
        pieces = lines if "line" in name else words
        if name.endswith("count"):
            return [], data, str(len(pieces))
        number = draw.randint(0, len(pieces) + 1)
        return [str(number)], data, pieces[number - 1] if 0 < number <= len(pieces) else None

    return make


# CSV

HEADERS = ["ID", "FULL NAME", "PAY", "note:x", "Ünit"]


def csv_data(draw: random.Random) -> tuple[bytes, list[str], list[dict[str, str]]]:
    cells = cases(__file__, "cells") + 3 * ["-3.5", "10", "0.1", "0.2"] + ["1e3", "1_000", "inf"]
    headers = draw.sample(HEADERS, k=draw.randint(2, 5))
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator=draw.choice(["\n", "\r\n"]))
    writer.writerow(headers)
    for _ in range(draw.randint(0, 30)):
        row = draw.choices(cells, k=len(headers))
        row = row[: draw.randint(2, len(row))]
        writer.writerow(row if any(row) else ["x", *row[1:]])
    text = out.getvalue()
    rows = list(csv.DictReader(io.StringIO(text, newline=""), restval=""))
    return text.encode(), headers, rows


def csv_answer(verb: str, cells: list[str]) -> str | None:
    numbers = [float(Decimal(cell.strip())) for cell in cells if is_number(cell)]
    if verb == "count":
        return str(sum(1 for cell in cells if cell.strip()))
    if verb == "sum":
        return repr(add(numbers)) if numbers else "0"
    if not numbers:
        return None
    return repr(
        {"avg": add(numbers) / len(numbers), "max": max(numbers), "min": min(numbers)}[verb]
    )


def csv_passes(cell: str, sign: str, value: str) -> bool:
    words = {
        "contains": value in cell,
        "startswith": cell[: len(value)] == value,
        "endswith": cell[len(cell) - len(value) :] == value,
    }
    if sign in words:
        return words[sign]
    numeric = is_number(cell) and is_number(value)
    one, other = (Decimal(cell.strip()), Decimal(value.strip())) if numeric else (cell, value)
    if sign in ("==", ""):
        return one == other
    if sign == "!=":
        return one != other
    below = one < other
    if sign in ("<", ">="):
        return below is (sign == "<")
    return (below or one == other) is (sign == "<=")


def csv_case(name: str) -> Maker:
    verb = name.removeprefix("csv_")

    def make(draw: random.Random) -> Case:
        data, headers, rows = csv_data(draw)
        header = draw.choice([*headers, headers[0], headers[0], "GONE"])
        if header not in headers:
            return (
                [
                    *{"value": ["0"]}.get(verb, []),
                    header,
                    *(["ID", "==", "1"] * verb.endswith("where")),
                ],
                data,
                None,
            )
        cells = [row[header] for row in rows]
        if verb == "column":
            return [header], data, ",".join(cells)
        if verb == "value":
            index = draw.randint(0, len(rows))
            return [str(index), header], data, cells[index] if index < len(rows) else None
        if not verb.endswith("_where"):
            return [header], data, csv_answer(verb, cells)
        other, value = (
            draw.choice(headers),
            draw.choice(["10", "9.0", "a", "Engineering", "n/a", "", "0.1"]),
        )
        sign = draw.choice(
            ["", "==", "!=", ">", "<", ">=", "<=", "contains", "startswith", "endswith"]
        )
        kept = [
            row[header]
            for row in rows
            if row[header].strip() and row[other].strip() and csv_passes(row[other], sign, value)
        ]
        return [header, other, sign, value], data, csv_answer(verb.removesuffix("_where"), kept)

    return make


def csv_place(draw: random.Random) -> tuple[bytes, list[list[str]]]:
    data = csv_data(draw)[0]
    return data, list(csv.reader(io.StringIO(data.decode(), newline="")))


def csv_cell(draw: random.Random) -> Case:
    data, rows = csv_place(draw)
    row, column = draw.randint(0, len(rows)), draw.randint(0, 4)
    known = row < len(rows) and column < len(rows[row])
    return [str(row), str(column)], data, rows[row][column] if known else None


def csv_row(draw: random.Random) -> Case:
    data, rows = csv_place(draw)
    row = draw.randint(0, len(rows))
    asked = str(row) if draw.random() < 0.5 else f"{row + 7} - 7"
    return [asked], data, ",".join(rows[row]) if row < len(rows) else None


# SQLite

PEOPLE = ["Ada", "Bob", "it's", "Zoë", 'q"x', None]


def sqlite_data(draw: random.Random) -> tuple[bytes, list[tuple[object, ...]]]:
    rows = [
        (number, draw.choice(PEOPLE), draw.randint(-50, 50), draw.randint(-400, 400) / 8)
        for number in range(1, draw.randint(2, 20))
    ]
    connection = sqlite3.connect(":memory:")
    connection.execute(
        'CREATE TABLE staff (id INTEGER PRIMARY KEY AUTOINCREMENT, "full name", n, x)'
    )
    connection.execute("CREATE INDEX by_name ON staff (n DESC)")
    connection.execute("CREATE TABLE other (k TEXT, v)")
    connection.executemany("INSERT INTO staff VALUES (?, ?, ?, ?)", rows)
    connection.execute("INSERT INTO other VALUES ('time: 10:30', 1.5)")
    connection.commit()
    data = connection.serialize()
    connection.close()
    return data, rows


def shown(value: object) -> str:
    return "" if value is None else str(value)


def sqlite_query(draw: random.Random) -> Case:
    data, rows = sqlite_data(draw)
    least = draw.randint(-50, 50)
    kept = [row for row in rows if row[2] > least]
    asked: list[tuple[str, str | None]] = [
        (f"SELECT COUNT(*) FROM staff WHERE n > {least}", str(len(kept))),
        (
            f"SELECT SUM(n) FROM staff WHERE n > {least}",
            str(sum(r[2] for r in kept)) if kept else "",
        ),
        (
            f'SELECT "full name", id FROM staff WHERE n > {least} ORDER BY id',
            shown(kept[0][1]) if kept else None,
        ),
        ("SELECT v FROM other WHERE k = 'time: 10:30' -- :}}", "1.5"),
        ("SELECT MAX(x) FROM staff;", shown(max(row[3] for row in rows))),
        ("WITH t(a) AS (VALUES (1), (2)) SELECT SUM(a) FROM t, other", "3"),
    ]
    sql, answer = draw.choice(asked)
    return [sql], data, answer


def sqlite_value(draw: random.Random) -> Case:
    data, rows = sqlite_data(draw)
    row, column = draw.randint(0, len(rows)), draw.randint(0, 4)
    asked = draw.choice([str(column), ["id", "full name", "N", "x", "gone"][column]])
    known = row < len(rows) and column < 4
    table = draw.choice([[], ["staff"], ["STAFF"]])
    return [str(row), asked, *table], data, shown(rows[row][column]) if known else None


# JSON and YAML


def tree_data(draw: random.Random) -> dict[str, object]:
    def item() -> dict[str, object]:
        made: dict[str, object] = {
            "name": draw.choice(["Heron", "Ibis", "R and D", "Kite, red", "7"]),
            "price": draw.choice([5, 7, 10, 2.5, 60000, -1, "12", "x", None, True]),
            "tags": draw.choices(["a", "b", "été"], k=draw.randint(0, 3)),
            "info": {"on": draw.choice([True, False]), "n": draw.randint(0, 9)},
        }
        for key in draw.sample(sorted(made), k=draw.choice([0, 0, 1])):
            del made[key]
        return made

    return {
        "items": [item() for _ in range(draw.randint(1, 8))],
        "owner": {"name": "Ada", "mail": None, "a.b": draw.choice([1, 1.5, "x"])},
        "scores": draw.choices([1, 2, 3.25, "4", "no", False, None], k=draw.randint(0, 6)),
    }


def tree_text(value: object) -> str:
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else str(value)


def tree_number(value: object) -> float | None:
    if isinstance(value, bool) or value is None or isinstance(value, (list, dict)):
        return None
    return float(str(value)) if is_number(str(value)) else None


def price_above(item: dict, least: float) -> bool:
    number = tree_number(item.get("price"))
    return number is not None and number > least


def many_paths(data: dict, draw: random.Random) -> list[tuple[str, list[object]]]:
    items, least = data["items"], draw.choice([0, 5, 6.5])
    return [
        ("$.items[*].price", [item["price"] for item in items if "price" in item]),
        ("items[*].info.n", [item["info"]["n"] for item in items if "info" in item]),
        ("$.items[*].tags[*]", [tag for item in items for tag in item.get("tags", [])]),
        ("$.scores[*]", data["scores"]),
        ("$.scores", data["scores"]),
        ("$['owner'].*", list(data["owner"].values())),
        ("$.gone[*].price", []),
        *filter_paths(data, least),
    ]


def filter_paths(data: dict, least: float) -> list[tuple[str, list[object]]]:
    items = data["items"]
    rich = [item for item in items if price_above(item, least)]
    return [
        (f"$.items[?price>{least}].name", [item["name"] for item in rich if "name" in item]),
        (f"$.items[?price > {least}]", list(rich)),
        (
            "$.items[?name==R and D].price",
            [i["price"] for i in items if i.get("name") == "R and D" and "price" in i],
        ),
        (
            f"$.items[?info.on==true and price>{least}].info.n",
            [item["info"]["n"] for item in rich if "info" in item and item["info"]["on"]],
        ),
        (
            "$.items[?tags contains 'a' or name startswith \"Ki\"].tags",
            [
                i["tags"]
                for i in items
                if "tags" in i and ("a" in i["tags"] or i.get("name", "").startswith("Ki"))
            ],
        ),
        (
            "$.scores[?@>=2]",
            [v for v in data["scores"] if (n := tree_number(v)) is not None and n >= 2],
        ),
        (
            "$.items[?name!='7'].name",
            [i["name"] for i in items if "name" in i and i["name"] != "7"],
        ),
    ]


def one_paths(data: dict, draw: random.Random) -> list[tuple[str, object, bool]]:
    index = draw.randint(0, len(data["items"]))
    known = index < len(data["items"])
    item = data["items"][index] if known else {}
    return [
        (f"$.items[{index}].name", item.get("name"), "name" in item),
        (f"items[{index}]", item, known),
        ("$.items[-1]", data["items"][-1], True),
        ("$.owner['a.b']", data["owner"]["a.b"], True),
        ("owner.mail", None, True),
        ("owner", data["owner"], True),
        ("$", data, True),
        ("$.items", data["items"], True),
        ("$.gone", None, False),
        ("$.owner.name.deeper", None, False),
    ]


def tree_case(name: str) -> Maker:
    kind, verb = name.split("_", 1)

    def make(draw: random.Random) -> Case:
        source = tree_data(draw)
        if kind == "json":
            data = json.dumps(source, indent=draw.choice([None, 2])).encode()
            value = json.loads(data)
        else:
            data = yaml.safe_dump(
                source, allow_unicode=True, sort_keys=draw.choice([True, False])
            ).encode()
            value = yaml.safe_load(data)
        return (
            tree_single(verb, value, data, draw)
            if verb in SINGLE
            else tree_many(verb, value, data, draw)
        )

    return make


SINGLE = ("path", "value", "count", "keys")


def tree_single(verb: str, value: dict, data: bytes, draw: random.Random) -> Case:
    path, found, known = draw.choice(one_paths(value, draw))
    arguments = [] if path == "$" and verb in ("count", "keys") else [path]
    if not known:
        return arguments, data, None
    if verb == "count":
        return arguments, data, str(len(found)) if isinstance(found, (list, dict)) else None
    if verb == "keys":
        return arguments, data, ",".join(found) if isinstance(found, dict) else None
    return arguments, data, tree_text(found)


def first_of_best(sizes: list[tuple[float, str]], largest: bool = True) -> str | None:
    ranked = sorted(sizes, key=lambda pair: -pair[0] if largest else pair[0])  # stable: first wins
    return ranked[0][1] if ranked else None


def tree_labels(verb: str, value: dict, data: bytes, draw: random.Random) -> Case:
    """Two paths: the label that has the largest value, or the most of something."""
    field, path = (
        ("tags", draw.choice([".tags", ".tags[*]"]))
        if verb == "max_count"
        else (draw.choice([("price", ".price"), ("info", ".info.n")]))
    )
    base, items = "$.items[*]", value["items"]
    if draw.random() < 0.3:
        base, items = "$.items[?price>0]", [i for i in items if price_above(i, 0)]
    arguments = [f"{base}.name", f"{base}{path}"]
    nameless = [item for item in items if "name" not in item]
    held = [i for i in nameless if field in i and not (path.endswith("[*]") and not i[field])]
    if held:
        return arguments, data, None
    named = [item for item in items if "name" in item]
    if verb == "max_count":
        return arguments, data, first_of_best([(len(i.get("tags", [])), i["name"]) for i in named])
    values = [(i["info"]["n"] if field == "info" else i[field], i) for i in named if field in i]
    pairs = [(n, i["name"]) for v, i in values if (n := tree_number(v)) is not None]
    return arguments, data, first_of_best(pairs, verb == "max_value")


def tree_many(verb: str, value: dict, data: bytes, draw: random.Random) -> Case:
    if verb in ("max_value", "min_value", "max_count") and draw.random() < 0.5:
        return tree_labels(verb, value, data, draw)
    if verb in ("count_where", "filter"):
        path, found = draw.choice(filter_paths(value, draw.choice([0, 5])))
    else:
        path, found = draw.choice(many_paths(value, draw))
    pairs = [(n, tree_text(v)) for v in found if (n := tree_number(v)) is not None]
    numbers = [number for number, _ in pairs]
    if verb == "max_count":
        found = [value["scores"]] if path == "$.scores" else found
        return [path], data, str(max([len(v) for v in found if isinstance(v, (list, dict))] or [0]))
    answers: dict[str, str | None] = {
        "sum": repr(add(numbers)) if numbers else "0",
        "avg": repr(add(numbers) / len(numbers)) if numbers else "0",
        "max": repr(max(numbers)) if numbers else "0",
        "min": repr(min(numbers)) if numbers else "0",
        "collect": ",".join(tree_text(v) for v in found if v is not None),
        "filter": ",".join(tree_text(v) for v in found if v is not None),
        "count_where": str(len(found)),
        "max_value": extreme(pairs, True),
        "min_value": extreme(pairs, False),
    }
    return [path], data, answers[verb]


# XML

PLAIN = cases(__file__, "plain_paths")
OURS: tuple[tuple[str, Callable[[ElementTree.Element], list[ElementTree.Element]]], ...] = (
    ("//pay", lambda root: [e for e in root.iter() if e.tag == "pay"]),
    ("//firm", lambda root: [root]),
    ("/firm/teams/team/note", lambda root: root.findall("teams/team/note")),
    (
        "//member[pay>4]/name",
        lambda root: [m.find("name") for m in root.iter("member") if above(m, 4)],
    ),
    (
        "//member[pay > 4 and not(name = 'Ada')]/pay",
        lambda root: [
            m.find("pay")
            for m in root.iter("member")
            if above(m, 4) and m.findtext("name") != "Ada"
        ],
    ),
    (
        "teams/team[count(member)>=2]/note",
        lambda root: [
            n for t in root.iter("team") if len(t.findall("member")) >= 2 for n in t.findall("note")
        ],
    ),
    (
        "//member[contains(name, 'o') or position()=last()]/pay",
        lambda root: [
            p
            for t in root.iter("team")
            for m in t.findall("member")
            if "o" in str(m.findtext("name")) or m is t.findall("member")[-1]
            for p in m.findall("pay")
        ],
    ),
)


def above(member: ElementTree.Element, least: float) -> bool:
    text = member.findtext("pay") or ""
    return is_number(text) and float(text) > least


def xml_data(draw: random.Random) -> bytes:
    document = minidom.Document()

    def put(parent: minidom.Node, tag: str, text: str = "", **attributes: str) -> minidom.Element:
        element = document.createElement(tag)
        for key, value in attributes.items():
            element.setAttribute(key, value)
        if text:
            element.appendChild(document.createTextNode(text))
        parent.appendChild(element)
        return element

    teams = put(put(document, "firm"), "teams")
    for _ in range(draw.randint(1, 4)):
        team = put(teams, "team", name=draw.choice(["Core", "Field & co"]))
        put(team, "note", draw.choice(["", "5", "a < b", "<<é>>"]))
        for _ in range(draw.randint(0, 4)):
            member = put(team, "member", id=str(draw.randint(1, 4)))
            put(member, "name", draw.choice(["Ada", "Bob", "Zoë"]))
            put(member, "pay", draw.choice(["5", "7.25", "n/a", "", "nan", "4", "1e2"]))
    if draw.random() < 0.5:
        return document.toxml(encoding="utf-8")
    return document.toprettyxml(indent="  ", encoding="utf-8")


def xml_matches(draw: random.Random) -> tuple[str, bytes, list[ElementTree.Element]]:
    data = xml_data(draw)
    root = ElementTree.fromstring(data)
    if draw.random() < 0.4:
        path, find = draw.choice(OURS)
        return path, data, find(root)
    path = draw.choice(PLAIN)
    return path, data, root.findall(path)


def xml_labels(verb: str, draw: random.Random) -> Case:
    """Two paths: the member or team with the largest pay, or the team with the most members."""
    data = xml_data(draw)
    teams = ElementTree.fromstring(data).findall("teams/team")
    if verb == "max_count":
        arguments = ["//team/@name", draw.choice(["./member", "//member", "./member/name"])]
        return (
            arguments,
            data,
            first_of_best([(len(t.findall("member")), t.get("name")) for t in teams]),
        )
    if draw.random() < 0.5:
        arguments = ["//member/name", draw.choice(["./pay", "../member/pay", "//pay"])]
        wide = arguments[1].startswith("..")
        holders = [
            (m.findtext("name"), t if wide else m) for t in teams for m in t.findall("member")
        ]
    else:
        arguments = ["teams/team/@name", draw.choice([".//pay", "//member/pay"])]
        holders = [(t.get("name"), t) for t in teams]
    if not holders:
        return arguments, data, None
    texts = [(label, (p.text or "").strip()) for label, held in holders for p in held.iter("pay")]
    pairs = [(float(text), label) for label, text in texts if is_number(text)]
    return arguments, data, first_of_best(pairs, verb == "max_value")


def xml_case(name: str) -> Maker:
    verb = name.removeprefix("xpath_")

    def make(draw: random.Random) -> Case:
        if verb in ("max_value", "min_value") and draw.random() < 0.5:
            return xml_labels(verb, draw)
        path, data, found = xml_matches(draw)
        texts = ["".join(element.itertext()).strip() for element in found]
        pairs = [(float(text), text) for text in texts if is_number(text)]
        numbers = [number for number, _ in pairs]
        answers: dict[str, str | None] = {
            "value": texts[0] if texts else None,
            "count": str(len(found)),
            "exists": "true" if found else "false",
            "collect": ",".join(text for text in texts if text),
            "sum": repr(add(numbers)) if numbers else "0",
            "avg": repr(add(numbers) / len(numbers)) if numbers else "0",
            "max": repr(max(numbers)) if numbers else "0",
            "min": repr(min(numbers)) if numbers else "0",
            "max_value": extreme(pairs, True),
            "min_value": extreme(pairs, False),
        }
        return [path], data, answers[verb]

    return make


def xpath_attr(draw: random.Random) -> Case:
    _, data, _ = xml_matches(draw)
    path = draw.choice(
        ["teams/team", "teams/team[2]", ".//member", "teams/team/member[name='Bob']"]
    )
    name = draw.choice(["id", "name"])
    first = ElementTree.fromstring(data).find(path)
    return [f"{path}@{name}"], data, None if first is None else first.get(name)


def xpath_max_count(draw: random.Random) -> Case:
    if draw.random() < 0.5:
        return xml_labels("max_count", draw)
    data = xml_data(draw)
    teams = ElementTree.fromstring(data).findall("teams/team")
    path = draw.choice(["teams/team/member", "//member", "//team/member[name]"])
    return [path], data, str(max(len(team.findall("member")) for team in teams))


# Arithmetic


def decimal_text(number: int, places: int) -> str:
    digits = str(abs(number)).rjust(places + 1, "0")
    sign = "-" if number < 0 else ""
    return sign + (f"{digits[:-places]}.{digits[-places:]}" if places else digits)


def scaled(draw: random.Random) -> tuple[int, int]:
    return draw.randint(-99999, 99999), draw.randint(0, 4)


def rounded(number: int, places: int, wanted: int) -> int:
    """The number times ten to what is wanted, halves away from zero, by whole numbers alone."""
    whole = (2 * abs(number) * 10**wanted + 10**places) // (2 * 10**places)
    return -whole if number < 0 else whole


def many_case(combine: Callable[[int, int, int], tuple[int, int]], most: int) -> Maker:
    """A fold over numbers of a common scale; ``combine`` gives a number and by what to divide."""

    def make(draw: random.Random) -> Case:
        parts = [scaled(draw) for _ in range(draw.randint(2, most))]
        if draw.random() < 0.4:
            parts = [(number, 0) for number, _ in parts]
        scale = 10 ** max(places for _, places in parts)
        numbers = [number * scale // 10**places for number, places in parts]
        total, divisor = numbers[0], scale
        for number in numbers[1:]:
            total, divisor = combine(total, number, divisor)
        whole = all(places == 0 for _, places in parts)
        return (
            [decimal_text(*part) for part in parts],
            b"",
            str(total) if whole else repr(total / divisor),
        )

    return make


def multiply(draw: random.Random) -> Case:
    parts = [scaled(draw) for _ in range(draw.randint(2, 4))]
    total = functools.reduce(operator.mul, (number for number, _ in parts))
    scale = 10 ** sum(places for _, places in parts)
    whole = scale == 1
    return (
        [decimal_text(*part) for part in parts],
        b"",
        str(total) if whole else repr(total / scale),
    )


def divide(draw: random.Random) -> Case:
    (one, places), other = scaled(draw), draw.randint(-3, 9)
    answer = repr(one / (other * 10**places)) if other else None
    return [decimal_text(one, places), str(other)], b"", answer


def extreme_number(largest: bool) -> Maker:
    def make(draw: random.Random) -> Case:
        texts = [decimal_text(*scaled(draw)) for _ in range(draw.randint(2, 6))]
        best = sorted(texts, key=Decimal)[-1 if largest else 0]
        return texts, b"", best if "." not in best else repr(float(best))

    return make


def absolute(draw: random.Random) -> Case:
    number, places = scaled(draw)
    text = decimal_text(number, places)
    return [text], b"", text.lstrip("-") if places == 0 else repr(float(text.lstrip("-")))


def rounding(fixed: bool) -> Maker:
    def make(draw: random.Random) -> Case:
        (number, places), wanted = scaled(draw), draw.randint(0, 5)
        if places and draw.random() < 0.5:  # a half
            number, wanted = number // 10 * 10 + 5, places - 1
        digits = rounded(number, places, wanted)
        if fixed:
            return [decimal_text(number, places), str(wanted)], b"", decimal_text(digits, wanted)
        if wanted == 0:
            return [decimal_text(number, places), *draw.choice([[], ["0"]])], b"", str(digits)
        return [decimal_text(number, places), str(wanted)], b"", repr(digits / 10**wanted)

    return make


ALIKE = {
    "file": text_case,
    "csv": csv_case,
    "json": tree_case,
    "yaml": tree_case,
    "xpath": xml_case,
}
OWN: dict[str, Maker] = {
    "csv_cell": csv_cell,
    "csv_row": csv_row,
    "sqlite_query": sqlite_query,
    "sqlite_value": sqlite_value,
    "xpath_attr": xpath_attr,
    "xpath_max_count": xpath_max_count,
    "math_add": many_case(lambda one, other, scale: (one + other, scale), 5),
    "math_sub": many_case(lambda one, other, scale: (one - other, scale), 2),
    "math_mod": many_case(lambda one, other, scale: (one - other * (one // other), scale), 2),
    "math_mul": multiply,
    "math_div": divide,
    "math_min": extreme_number(False),
    "math_max": extreme_number(True),
    "math_abs": absolute,
    "math_round": rounding(False),
    "math_fixed": rounding(True),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_answers_as_its_oracle(name: str) -> None:
    """One that has no oracle of its own or of its kind is a KeyError."""
    oracle = OWN[name] if name in OWN else ALIKE[name.split("_")[0]](name)
    draw = random.Random(f"functions/{name}")
    answered = 0
    for _ in range(CASES):
        arguments, data, answer = oracle(draw)
        with closing(OpenFile("artifacts/file", data)) as file:
            if answer is None:
                with pytest.raises(TemplateError, match=name):
                    call_function(name, arguments, file)
                continue
            check = FUNCTIONS[name].check
            if check is not None:
                check(arguments)
            said = call_function(name, arguments, file)
            assert said == answer, (name, arguments, data.decode(errors="replace"))
            assert call_function(name, arguments, file) == answer  # from what is kept
        answered += 1
    assert answered >= CASES // 6, "most cases were errors: the oracle says too little"
