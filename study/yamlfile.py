"""YAML that remembers its lines: safe, without aliases, and without repeated keys."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from study.errors import StudyError

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file: its value, and the line of every key and item."""

    path: Path
    value: Any
    lines: dict[Place, int]

    def place(self, place: Place) -> str:
        """``file:line: key`` of a place, or of the nearest one that is there."""
        held = place
        while held and held not in self.lines:
            held = held[:-1]
        line = self.lines.get(held, 1)
        key = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in place).lstrip(".")
        return f"{self.path}:{line}: {key}" if key else f"{self.path}:{line}"


def read_yaml(path: Path) -> Document:
    """The document of a file. Raises StudyError that names file, line and what is wrong."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise StudyError(f"{path}: no such file; `dosimeter init DIR` writes one") from None
    except OSError as error:
        raise StudyError(f"{path}: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise StudyError(f"{path}: {len(data)} bytes; a protocol has at most {MAX_BYTES}")
    try:
        text = data.decode("utf-8")
        _check_events(text, path)
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
    except UnicodeDecodeError as error:
        raise StudyError(f"{path}: not UTF-8 text: {error.reason}") from error
    except yaml.YAMLError as error:
        raise _syntax_error(path, error) from error
    lines: dict[Place, int] = {}
    value = None if root is None else _value_of(root, loader, path, (), lines)
    return Document(path, value, lines)


def _check_events(text: str, path: Path) -> None:
    """Refuse aliases and deep nesting before anything is built from them."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise StudyError(f"{path}:{line}: nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            raise StudyError(
                f"{path}:{line}: aliases (*{event.anchor}) are not allowed; write the value out"
            )


def _syntax_error(path: Path, error: yaml.YAMLError) -> StudyError:
    mark = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark is not None else 1
    return StudyError(f"{path}:{line}: not valid YAML: {getattr(error, 'problem', error)}")


def _value_of(
    node: yaml.Node, loader: yaml.SafeLoader, path: Path, place: Place, lines: dict[Place, int]
) -> Any:
    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        return [
            _value_of(item, loader, path, (*place, index), lines)
            for index, item in enumerate(node.value)
        ]
    if isinstance(node, yaml.MappingNode):
        mapping: dict[Hashable, Any] = {}
        for key_node, value_node in node.value:
            key, line = key_node.value, key_node.start_mark.line + 1
            if not isinstance(key, str):
                raise StudyError(f"{path}:{line}: a key must be plain text")
            if key in mapping:
                first = lines[(*place, key)]
                raise StudyError(f"{path}:{line}: {key!r} was given on line {first} already")
            lines[(*place, key)] = line
            mapping[key] = _value_of(value_node, loader, path, (*place, key), lines)
        return mapping
    try:
        return loader.construct_object(node)
    except (yaml.YAMLError, ValueError) as error:
        raise StudyError(f"{path}:{node.start_mark.line + 1}: {error}") from error
