"""The files that a study reads, within bounds: YAML with line numbers, template files."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from generators.yaml_lines import (
    CORE,
    Place,
    YamlDocument,
    YamlError,
    YamlLimits,
    fault_of_utf8,
    key_of,
    parse_yaml,
)
from study.errors import KEY_NAMES, LIKE_KEY, StudyError, StudyFileError, without_keys

MAX_BYTES = 1_000_000
_LIMITS = YamlLimits("a protocol", MAX_BYTES)

_VALID: Mapping[str, Mapping[str, str]] = tomllib.loads(
    Path(__file__).with_name("values.toml").read_text("utf-8")
)
# Parts of a place that pydantic adds: the member of a union, the key of a mapping.
_ADDED = ("str", "int", "[key]")
_LONGEST = 80  # characters of a value that are shown
_KEY_HERE = (
    "holds a key or password, and the file is public: take it out and revoke it; keys come from "
    "the environment (api_key_env; that of boto3 for a store; HF_TOKEN for the Hub)"
)
_VALUES = ("values:", "\ufeffvalues:")  # the start of a template's line that names its values


def read_yaml(path: Path) -> YamlDocument:
    """Return the document of a file. Raises StudyError that names file, line and fault."""
    document = load_yaml(path)
    for fault in yaml_faults(document):
        raise fault
    return document


def load_yaml(path: Path) -> YamlDocument:
    """Return the document of a file, which may have faults. Raises StudyError if it is no YAML."""
    try:
        data = read_bounded(path, MAX_BYTES, _LIMITS.kind)
    except FileNotFoundError:
        raise StudyError(f"{path}: no such file; `dosimeter init DIR` writes one") from None
    try:
        return parse_yaml(data, str(path), _LIMITS)
    except YamlError as error:
        line, _, message = str(error).removeprefix(f"{path}:").partition(": ")
        if not line.isdigit():
            raise StudyError(str(error)) from error
        raise StudyFileError(str(path), int(line), "", message) from error


def yaml_faults(document: YamlDocument) -> Iterator[StudyFileError]:
    """Yield the faults of a document as YAML, such as repeated keys."""
    for fault in document.faults:
        yield StudyFileError(document.path, fault.line, "", fault.what)
    for place, text in _texts(document.value, ()):
        if "\0" in text:
            yield fault_at(document, place, "a text without NUL characters is right")
        elif LIKE_KEY.search(unquote(text)) or (
            str(place[-1]).lower().removesuffix("_env").endswith(KEY_NAMES)
            and without_keys(text) != text
        ):
            yield fault_at(document, place, _KEY_HERE)


def _texts(value: object, place: Place) -> Iterator[tuple[Place, str]]:
    """Yield the texts of a document, keys of mappings too, each with its place."""
    if isinstance(value, str):
        yield place, value
    items = dict(enumerate(value)) if isinstance(value, list) else value
    for key, item in items.items() if isinstance(items, dict) else ():
        yield from _texts(key, (*place, key))
        yield from _texts(item, (*place, key))


def fault_at(document: YamlDocument, place: Place, message: str) -> StudyFileError:
    """Return the error for a place of a document."""
    return StudyFileError(document.path, document.line(place), key_of(place), message)


def explain_fault(document: YamlDocument, place: Place, fault: Mapping[str, Any]) -> StudyFileError:
    """Return one of pydantic's errors about a value of a document in words: its place, the value,
    and a description of a valid one."""
    if fault["type"] in ("missing", "union_tag_not_found"):
        *above, key = (*place, "provider") if fault["type"] == "union_tag_not_found" else place
        return fault_at(document, tuple(above), f"the key {key!r} is missing")
    if fault["type"] == "value_error":
        return fault_at(document, place, str(fault["ctx"]["error"]))
    value = fault.get("input")
    place = place[:-1] if place and place[-1] in _ADDED else place
    right = "a value of the type that docs/reference/study-yaml.md names"
    right = _VALID["types"].get(fault["type"], right)
    if fault["type"] == "string_pattern_mismatch":
        right = _VALID["keys"].get(str(place[-1]), right)
    right = right.format_map({key: _number(bound) for key, bound in fault.get("ctx", {}).items()})
    plain = isinstance(value, str | int | float) and place[-1:] != ("api_key_env",)
    prefix = f"{_short(value)}: " if plain else "nothing stands here: " if value is None else ""
    return fault_at(document, place, f"{prefix}{right} is right")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def quoted(text: str) -> str:
    """Return a text as YAML, in quotes unless it is plain beyond doubt."""
    plain = re.fullmatch(r"[A-Za-z][\w./-]*", text, re.ASCII) and not CORE.match(text)
    return text if plain else json.dumps(text, ensure_ascii=False)


def _number(bound: object) -> object:
    return f"{bound:g}" if isinstance(bound, float) else bound


def read_bounded(path: Path, limit: int, kind: str) -> bytes:
    """Return the bytes of a file. Raises StudyError, before all is read, for more than ``limit``
    bytes, and FileNotFoundError for the caller to explain."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)  # the size may change, and a pipe has none
            size = path.stat().st_size
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # the latter for a NUL in the path
        raise StudyError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > limit:
        raise StudyError(f"{path}: {max(size, len(data))} bytes; {kind} has at most {limit}")
    return data


class TemplateSource(NamedTuple):
    """A template file's name and text, and the text of the values file that it names."""

    name: str
    text: str
    values: str


def read_template(folder: Path, name: str) -> TemplateSource:
    """Return a template file: of a path from the folder, else of a name in the library. Raises
    StudyError if there is neither, or for a file that is too large or no text."""
    # Imported here, as in protocol.py: most studies have no templates.
    from generators.templates.library import NAMES, library_text

    path = folder / name
    if name in NAMES and not path.is_file():
        return TemplateSource(f"{name}.yml", library_text(name), "")
    try:
        text = _read_text(path, "a template file")
    except FileNotFoundError as error:
        raise StudyError(
            f"{path}: {error.strerror}; give a template file, or one of the library: "
            f"{', '.join(sorted(NAMES))}"
        ) from None
    values = values_path(path, text)
    if values is None:
        return TemplateSource(path.name, text, "")
    try:
        given = _read_text(values, "a values file")
    except FileNotFoundError as error:
        line = next(i for i, x in enumerate(text.split("\n"), 1) if x.startswith(_VALUES))
        raise StudyError(f"{path}:{line}: values: {values}: {error.strerror}") from None
    if not given:
        raise StudyError(f"{values}:1: is empty; a mapping with format: 1 is wanted")
    return TemplateSource(path.name, text, given)


def values_path(template: Path, text: str) -> Path | None:
    """Return the path of the values file that a template names; None if it names none, or one in
    another folder, which the template's errors name."""
    from generators.templates.language.values import fault_of_path, named_values_file

    name = named_values_file(text)
    return None if name is None or fault_of_path(name) else template.parent / name


def _read_text(path: Path, kind: str) -> str:
    """Return the text of a file. Raises StudyError, which names a line, for one that is too large
    or no text, and FileNotFoundError for the caller to explain."""
    from generators.templates.language.parse import MAX_BYTES as MAX_TEMPLATE_BYTES

    try:
        data = read_bounded(path, MAX_TEMPLATE_BYTES, kind)
    except StudyError as error:
        raise StudyError(f"{path}:1: {str(error).removeprefix(f'{path}: ')}") from error
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StudyError(f"{path}:{fault_of_utf8(data, error)}") from None
