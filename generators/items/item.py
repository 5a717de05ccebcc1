"""Given items: a question with its key, as the owner of a benchmark has it. An item lies behind the
32 bytes of its seed, as canonical JSON (RFC 8785)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from generators.errors import GeneratorError
from registry.canonical import canonical_bytes

Score = Literal["choice", "exact", "number", "set", "json", "regex", "judge"]
SCORES: tuple[str, ...] = get_args(Score)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A question: its prompt without the choices, and how an answer to it is scored. ``answer`` is
    a JSON value: of ``choice`` the text of the right one, of ``set`` a list, of ``regex`` a pattern
    (RE2), of ``verifier`` what an agent task has beside its files (generators/harbor/). ``rubric``
    says what a right answer holds, of ``judge``. ``files`` are its input files, path and base64.
    ``shuffle``: the choices are shown in an order that its seed draws."""

    prompt: str
    score: Score | Literal["verifier"]
    answer: Any
    choices: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    shuffle: bool = False
    rubric: str = ""


def one_item(item: Item) -> bytes:
    """An item as canonical JSON. Raises RegistryError for what JSON cannot carry."""
    return canonical_bytes({name: getattr(item, name) for name in Item.__slots__})


def join_items(items: Iterable[bytes]) -> bytes:
    """The items of a group, each as ``one_item`` writes it, as they stand behind a seed."""
    return b'{"items":[' + b",".join(items) + b"]}"


def item_bytes(items: Iterable[Item]) -> bytes:
    """The items of a group, or one, as they stand behind a seed."""
    return join_items(map(one_item, items))


def read_items(data: bytes) -> tuple[Item, ...]:
    """The items behind a seed. Raises GeneratorError for bytes that are none."""
    try:
        return tuple(map(_item, json.loads(data)["items"]))
    except (ValueError, KeyError, TypeError) as error:
        raise GeneratorError("what stands behind this seed is no item") from error


def _item(body: Mapping[str, Any]) -> Item:
    files = tuple((str(path), str(data)) for path, data in body["files"])
    return Item(**{**body, "choices": tuple(body["choices"]), "files": files})
