"""The page of template functions says what is so: every example is run, no function is left out."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from generators.templates.functions import FUNCTIONS, call_function
from generators.templates.functions.base import OpenFile

PAGE = (Path(__file__).parents[3] / "docs" / "template-functions.md").read_text()
FILES = dict(re.findall(r"^`([a-z.]+)`:\n\n```[a-z]+\n(.*?)```$", PAGE, re.M | re.S))
ROWS = re.findall(r"^\| (`[a-z_`, ]+`) \|.*\| `(\{\{.*?\}\})` \| `(.*)` \|$", PAGE, re.M)
CALL = re.compile(r"\{\{([^{}]*)\}\}")


def data_of(name: str) -> bytes:
    if name != "shop.db":
        return FILES[name].encode()
    connection = sqlite3.connect(":memory:")
    connection.executescript(FILES["shop.sql"])
    data = connection.serialize()
    connection.close()
    return data


def compute(call: str) -> str:
    """A call without braces; the page's arguments in quotes hold no quotes."""
    name, _, rest = call.partition(":")
    file = None
    if FUNCTIONS[name].takes_file:
        rest, _, path = rest.rpartition(":")
        file = OpenFile(path, data_of(path))
    most = FUNCTIONS[name].max_arguments
    if (split := FUNCTIONS[name].split) is not None:
        return call_function(name, split(rest), file)
    quoted = re.findall(r'"[^"]*"|[^:]+|(?<=:)(?=:)', rest) if not FUNCTIONS[name].rest else [rest]
    arguments = [argument.strip('"') for argument in quoted if most or argument]
    return call_function(name, [argument for argument in arguments if rest], file)


def evaluate(example: str) -> str:
    """The innermost calls first."""
    while found := CALL.search(example):
        example = example[: found.start()] + compute(found[1]) + example[found.end() :]
    return example


def test_the_page_has_every_function() -> None:
    named = {name for names, _, _ in ROWS for name in re.findall(r"[a-z_]+", names)}
    assert named == set(FUNCTIONS)


@pytest.mark.parametrize(("names", "example", "gives"), ROWS, ids=[row[1][:40] for row in ROWS])
def test_an_example_gives_what_the_page_says(names: str, example: str, gives: str) -> None:
    assert evaluate(example) == gives
    if "yaml_" in names:
        assert evaluate(example.replace("json", "yaml")) == gives


@pytest.mark.parametrize(("names", "example", "gives"), ROWS, ids=[row[1][:40] for row in ROWS])
def test_an_example_may_stand_in_a_template(names: str, example: str, gives: str) -> None:
    expand = pytest.importorskip("generators.templates.language.placeholders")
    scope = expand.Scope({}, lambda path: OpenFile(path, data_of(path)))
    assert expand.fill_text(expand.parse_text(f"<{example}>"), scope) == f"<{gives}>"
