"""Every fault of a value is named in our words, with file, line and key."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from itertools import cycle, islice, product
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from harness.errors import HarnessError
from harness.models.settings import JUDGE_SETTINGS, MODEL_SETTINGS
from harness.spending.prices import read_prices
from study.errors import StudyError
from study.extras.tables.external_table import _read_plan
from study.protocol.plan_section import PlanSection
from study.protocol.protocol import read_protocol
from study.protocol.sections import ProtocolFile
from tests.cases import cases

BAD = [None, True, -1, 0, 0.5, 1e9, float("nan"), "", "x", "12", "2027-13-41", "http://a:b@c", "ß"]
BAD += ["a\0b", [], {}, [1], ["a", 2, None], {"a": 1}, [{}], "9" * 5000, 10**4000, "a\tb"]
# The beginnings of pydantic's own messages, from its catalogue of errors.
RAW = re.compile(
    "Input should|Field required|String should|Input tag|Unable to extract|Extra inputs|Value error"
    "|Value should|should have at|Tuple should|List should|Unable to parse|validation error"
    "|Datetimes? |Invalid |type=|expected a (mapping|dict)|at \\[key\\]|greater than or equal"
    "|keys? should|Object has no"
)
STUDY: dict[str, Any] = cases(__file__, "study")
SERVED = {"base_url": "http://127.0.0.1:1/v1", "model": "m", "tree": "host", "agent": "honest"}
_GOOD = SERVED | {"error_rate": 0.1}


def sections_of(kind: Any) -> Iterator[type[BaseModel]]:
    """The sections that an annotation names."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    elif get_origin(kind) in (Annotated, Union, UnionType):
        for part in get_args(kind):
            yield from sections_of(part)


def places(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of each key of a section and of those in it."""
    for name, field in model.model_fields.items():
        yield (*path, name)
        for inner in sections_of(field.annotation):
            yield from places(inner, (*path, name))


def in_models() -> Iterator[tuple[str, ...]]:
    for provider, section in MODEL_SETTINGS.items():
        yield from ((f"models:{provider}", name) for name in section.model_fields)
    for name in JUDGE_SETTINGS["scripted"].model_fields:
        yield ("judges:scripted", name)


def with_value(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The study with one value in place of another."""
    made: dict[str, Any] = json.loads(json.dumps(STUDY))
    kind, _, provider = path[0].partition(":")
    if provider:
        known = {**MODEL_SETTINGS, **JUDGE_SETTINGS}[provider].model_fields
        entry = {key: good for key, good in _GOOD.items() if key in known}
        made.setdefault(kind, {})["one"] = {"provider": provider, **entry, path[1]: value}
        return made
    target = made
    for key in path[:-1]:
        if not isinstance(target.get(key), dict):
            target[key] = {}
        target = target[key]
    target[path[-1]] = value
    return made


def write(path: Path, value: Any) -> None:
    path.write_text(yaml.dump(value, Dumper=yaml.CSafeDumper, allow_unicode=True))


def check_words(message: str, file: Path) -> None:
    assert re.match(rf"{re.escape(str(file))}:\d+", message), message
    assert RAW.search(message) is None, message
    assert "\n" not in message


def refused(read: Callable[[Path], object], error: type[Exception], file: Path) -> bool:
    """Whether the file is refused; the message is one line, in our words."""
    try:
        read(file.parent if read is read_protocol else file)
    except error as refusal:
        check_words(str(refusal), file)
        return True
    return False


KEYS = [*places(ProtocolFile), *in_models(), ("waves",), ("tasks",), ("budget", "models", "x")]


def test_no_value_of_any_key_gets_a_message_of_pydantic(tmp_path: Path) -> None:
    """Each key with four of the bad values, by turns."""
    file, values, count = tmp_path / "study.yaml", cycle(BAD), 0
    for path in KEYS:
        for value in islice(values, 4):
            write(file, with_value(path, value))
            count += refused(read_protocol, StudyError, file)
    assert count > 2 * len(KEYS)


def test_no_value_of_a_plan_file_gets_a_message_of_pydantic(tmp_path: Path) -> None:
    file, count, paths = tmp_path / "plan.yaml", 0, list(places(PlanSection))
    for path, bad in product(paths, BAD):
        body: Any = bad
        for key in reversed(path):
            body = {key: body}
        write(file, {"preset": "standard-v1", **body})
        count += refused(_read_plan, StudyError, file)
    assert count > 3 * len(paths)


PRICE = cases(__file__, "price")


@pytest.mark.parametrize("key", ["prices", "price", *PRICE, "unknown"])
def test_no_value_of_a_price_file_gets_more_than_one_line(tmp_path: Path, key: str) -> None:
    file, count = tmp_path / "prices.yaml", 0
    for value in BAD:
        entry: dict[str, Any] = {"prices": [PRICE, PRICE | {key: value}]}
        write(file, {key: value} if key.startswith("price") else entry)
        count += refused(read_prices, HarnessError, file)
    assert count > 3


def test_no_damage_to_a_price_file_gets_more_than_one_line(tmp_path: Path) -> None:
    file, chance = tmp_path / "prices.yaml", random.Random(5)
    write(file, {"prices": [PRICE, PRICE]})
    good, count = file.read_bytes(), 0
    for _ in range(400):
        at = chance.randrange(len(good))
        damage = chance.choice([b"", b"\0", b"\xff", b"\t", b"{", b"]", b": ", b"\n", b"&a ", b"'"])
        file.write_bytes(good[:at] + damage + good[at + chance.randrange(4) :])
        count += refused(read_prices, HarnessError, file)
    assert count > 200


def test_the_messages_that_are_looked_for_are_those_of_pydantic() -> None:
    messages = set()
    for path in KEYS:
        for value in BAD:
            try:
                ProtocolFile.model_validate_json(json.dumps(with_value(path, value)))
            except (ValidationError, ValueError) as error:
                if isinstance(error, ValidationError):
                    messages |= {fault["msg"] for fault in error.errors()}
    assert len(messages) > 15
    assert [message for message in messages if RAW.search(message) is None] == []


@pytest.mark.parametrize(("path", "value", "words"), cases(__file__, "the right value is named"))
def test_the_right_value_is_named(
    tmp_path: Path, path: tuple[str, ...], value: Any, words: str
) -> None:
    write(tmp_path / "study.yaml", with_value(path, value))
    with pytest.raises(StudyError) as refused:
        read_protocol(tmp_path)
    assert words in str(refused.value)
