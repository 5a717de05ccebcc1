"""The reference of study.yaml: its sections and keys, with a sentence and an example of each."""

from __future__ import annotations

import re
import tomllib
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from study.protocol.sections import ProtocolFile, WaveSection

WORDS = Path(__file__).with_name("reference.toml")


@dataclass(frozen=True, slots=True)
class SectionReference:
    """A mapping of study.yaml: its dotted path, as in ``plan.controls``, and its class."""

    path: str
    model: type[BaseModel]


@dataclass(frozen=True, slots=True)
class KeyReference:
    """A key of a section, with the name that its words have."""

    name: str
    field: FieldInfo
    words: str  # such as models.*.model, for that key of every provider
    meaning: str
    example: str  # as it stands in the file


@dataclass(frozen=True)
class Reference:
    """The words of a file such as ``reference.toml``."""

    path: Path = WORDS

    @cached_property
    def texts(self) -> Mapping[str, Any]:
        """The file's tables: head, sections, keys and examples."""
        return tomllib.loads(self.path.read_text("utf-8"))

    def introduction(self, section: str) -> str:
        """Return the words on a section; "" if there are none."""
        return str(self.texts["sections"].get(section, "")).strip()

    def keys(self, section: SectionReference) -> Iterator[KeyReference]:
        """Yield the keys of a section. Raises LookupError for one without words or example."""
        for key, field in section.model.model_fields.items():
            words = self._find("keys", section.path, key)
            example = self.texts["examples"][self._find("examples", section.path, key)]
            yield KeyReference(key, field, words, self.texts["keys"][words], example)

    def unused(self) -> list[str]:
        """Return the words and examples of keys, and the introductions, that belong to nothing."""
        names: dict[str, set[str]] = {"sections": set(), "keys": set(), "examples": set()}
        for section in sections():
            names["sections"].add(section.path)
            for key in section.model.model_fields:
                for table in ("keys", "examples"):
                    names[table].add(self._find(table, section.path, key))
        return sorted(f"{table}: {name}" for table in names for name in self._left(table, names))

    def _left(self, table: str, names: Mapping[str, set[str]]) -> set[str]:
        return {*self.texts[table]} - names[table]

    def _find(self, table: str, path: str, key: str) -> str:
        """Return the name of a key's words. Those of one provider fall back to those of any."""
        exact = f"{path}.{key}".lstrip(".")
        kind, _, provider = path.partition(".")
        names = [exact]
        if provider and kind in ("models", "judges"):
            names += [f"models.{provider}.{key}", f"models.*.{key}"]
        for name in names:
            if name in self.texts[table]:
                return name
        raise LookupError(f"{self.path.name} has no {table} entry for {exact!r}")


def plain(text: str) -> str:
    """Return a sentence of Markdown without its links and the references in brackets."""
    text = re.sub(r" \(\[[^\[\]]+\]\([^()]+\)\)", "", text)
    return re.sub(r"\[([^\[\]]+)\]\([^()]+\)", r"\1", text)


def alternatives(annotation: Any) -> tuple[list[Any], list[Any]]:
    """Return the alternatives of a type without None, and the metadata of ``Annotated`` ones."""
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        types_inside, more = alternatives(inner)
        return types_inside, [*more, *metadata]
    if get_origin(annotation) in (Union, types.UnionType):
        parts, metadata = [], []
        for part in get_args(annotation):
            if part is not type(None):
                inner_types, more = alternatives(part)
                parts += inner_types
                metadata += more
        return parts, metadata
    return [annotation], []


def sections() -> Iterator[SectionReference]:
    """Yield every section of the file, each before those inside it. A model's are named by
    provider."""
    queue = [SectionReference("", ProtocolFile)]
    while queue:
        section = queue.pop(0)
        yield section
        inner = []
        for key, field in section.model.model_fields.items():
            path = f"{section.path}.{key}".lstrip(".")
            classes = [WaveSection] if path == "waves" else _section_classes(field.annotation)
            for model in classes:
                provider = model.model_fields.get("provider")
                suffix = f".{get_args(provider.annotation)[0]}" if provider is not None else ""
                inner.append(SectionReference(path + suffix, model))
        queue = [*inner, *queue]


def _section_classes(annotation: Any) -> list[type[BaseModel]]:
    """The section classes inside a type, in order."""
    classes: list[type[BaseModel]] = []
    for part in alternatives(annotation)[0]:
        if isinstance(part, type) and issubclass(part, BaseModel):
            classes.append(part)
        else:
            classes += [section for inner in get_args(part) for section in _section_classes(inner)]
    return classes
