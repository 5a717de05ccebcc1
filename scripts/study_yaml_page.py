#!/usr/bin/env python3
"""Write docs/reference/study-yaml.md, the keys of study.yaml, from the classes that read the file.

Types, limits and defaults come from the pydantic classes, the sentences from ``study_yaml.toml``
beside the page. With ``--check`` nothing is written, and a stale page gives exit code 1.
"""

from __future__ import annotations

import sys
import tomllib
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference/study-yaml.md"
SENTENCES = ROOT / "docs/reference/study_yaml.toml"
_WORDS = {"str": "text", "int": "whole number", "float": "number", "bool": "true or false"}
_BOUNDS = ((Ge, "ge", "≥"), (Gt, "gt", ">"), (Le, "le", "≤"), (Lt, "lt", "<"))


@dataclass(frozen=True, slots=True)
class Sectioned:
    """A mapping of study.yaml: its dotted path, as in ``plan.controls``, and its class."""

    path: str
    model: type[BaseModel]


def _strip(annotation: Any) -> tuple[list[Any], list[Any]]:
    """The alternatives of a type without None, and the metadata of ``Annotated`` ones."""
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        alternatives, more = _strip(inner)
        return alternatives, [*more, *metadata]
    if get_origin(annotation) in (Union, types.UnionType):
        alternatives, metadata = [], []
        for part in get_args(annotation):
            if part is not type(None):
                inner_types, more = _strip(part)
                alternatives += inner_types
                metadata += more
        return alternatives, metadata
    return [annotation], []


def _sections(annotation: Any) -> list[type[BaseModel]]:
    """The section classes inside a type, in order."""
    found: list[type[BaseModel]] = []
    for part in _strip(annotation)[0]:
        if isinstance(part, type) and issubclass(part, BaseModel):
            found.append(part)
        else:
            found += [section for inner in get_args(part) for section in _sections(inner)]
    return found


def _limits(metadata: list[Any]) -> str:
    limits = []
    for kind, name, sign in _BOUNDS:
        for item in metadata:
            for constraint in getattr(item, "metadata", None) or [item]:
                if isinstance(constraint, kind):
                    limits.append(f"{sign} {getattr(constraint, name):,}")
    return ", ".join(dict.fromkeys(limits))


def _type_words(annotation: Any, metadata: list[Any]) -> str:
    """A type as a reader of YAML would say it."""
    alternatives, more = _strip(annotation)
    words = []
    for part in alternatives:
        origin, inner = get_origin(part), get_args(part)
        if origin is Literal:
            words.append(", ".join(f"`{value}`" for value in inner))
        elif origin is tuple:
            words.append(f"list of {_plural(inner[0])}")
        elif origin is dict:
            words.append(f"mapping of names to {_plural(inner[1])}")
        elif isinstance(part, type) and issubclass(part, BaseModel):
            words.append("section")
        else:
            words.append(_WORDS.get(part.__name__, part.__name__))
    limits = _limits([*more, *metadata])
    return " or ".join(dict.fromkeys(words)) + (f" {limits}" if limits else "")


def _plural(annotation: Any) -> str:
    words = _type_words(annotation, [])
    return words.replace("section", "sections").replace("number", "numbers")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or isinstance(value, BaseModel) or value in ((), {}, ""):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def sections() -> Iterator[Sectioned]:
    """Every section of the file, each before those inside it. A model's are named by provider."""
    from study.protocol.protocol import ProtocolFile

    queue = [Sectioned("", ProtocolFile)]
    while queue:
        section = queue.pop(0)
        yield section
        inner = []
        for key, field in section.model.model_fields.items():
            classes = _sections(field.annotation)
            for model in classes:
                path = f"{section.path}.{key}".lstrip(".")
                provider = model.model_fields.get("provider")
                if provider is not None:
                    path += f".{get_args(provider.annotation)[0]}"
                inner.append(Sectioned(path, model))
        queue = [*inner, *queue]


def describe(sentences: dict[str, str], path: str, key: str) -> str:
    """The sentence of a key. The key of one provider's section falls back to that of any."""
    exact = f"{path}.{key}".lstrip(".")
    parts = path.split(".")
    names = [exact]
    if parts[0] in ("models", "judges") and len(parts) == 2:
        names += [f"models.{parts[1]}.{key}", f"models.*.{key}"]
    for name in names:
        if name in sentences:
            return name
    raise LookupError(f"{SENTENCES.name} has no sentence for {exact!r}")


def render_page() -> str:
    """The whole page. Raises LookupError for a key without a sentence, or one that is left over."""
    texts = tomllib.loads(SENTENCES.read_text())
    sentences, introductions = texts["keys"], texts["sections"]
    lines = [texts["head"].rstrip(), ""]
    used, introduced = set[str](), set[str]()
    for section in sections():
        names = {key: describe(sentences, section.path, key) for key in section.model.model_fields}
        used.update(names.values())
        if section.path.startswith("judges.") and not section.path.endswith("scripted"):
            continue  # as a model of that provider
        if section.path:
            lines += [f"## `{section.path}`", ""]
            introduced.add(section.path)
            lines += [introductions[section.path].rstrip(), ""]
        lines += ["| key | value | default | meaning |", "|---|---|---|---|"]
        for key, field in section.model.model_fields.items():
            kind = _type_words(field.annotation, list(field.metadata))
            lines.append(f"| `{key}` | {kind} | {_default(field)} | {sentences[names[key]]} |")
        lines.append("")
    if left := sorted({*sentences} - used | {*introductions} - introduced):
        raise LookupError(f"{SENTENCES.name} has sentences for no key: {', '.join(left)}")
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    page = render_page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page)
    elif not PAGE.exists() or PAGE.read_text() != page:
        print(f"{PAGE.relative_to(ROOT)} is stale: run `make reference`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
