#!/usr/bin/env python3
"""Write docs/reference/study-yaml.md, the keys of study.yaml, from the classes that read the file.

Types, limits and defaults come from the pydantic classes, sentences and examples from
``study/protocol/reference.toml``. With ``--check`` nothing is written, and a stale page gives exit
code 1.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from study.protocol.schema import KEY_TABLES, Reference, alternatives, sections

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference/study-yaml.md"
_WORDS = {"str": "text", "int": "whole number", "float": "number", "bool": "true or false"}
_BOUNDS = ((Ge, "ge", "≥"), (Gt, "gt", ">"), (Le, "le", "≤"), (Lt, "lt", "<"))
# Keys with a short form.
_SHORT = {
    "tasks": "list of sections or text",
    "waves": "list of lists of text, or of sections",
    "seeds_per_arm": "whole number ≥ 1, or a mapping of strata to such",
}


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
    parts, more = alternatives(annotation)
    words = []
    for part in parts:
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
    if isinstance(value, BaseModel):
        return "its defaults"
    if value in (None, (), {}, ""):
        return "unset"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def render_page(reference: Reference = Reference()) -> str:  # noqa: B008 - frozen
    """The whole page. Raises LookupError for a key without words, or words that are left over."""
    lines = [reference.texts["head"].rstrip(), ""]
    for section in sections():
        if section.path.startswith("judges.") and not section.path.endswith("scripted"):
            continue  # as a model of that provider
        if section.path:
            introduction = reference.introduction(section.path)
            if not introduction:
                raise LookupError(f"{reference.path.name} has no introduction of {section.path!r}")
            lines += [f"## `{section.path}`", "", introduction, ""]
        lines += ["| key | value | default | example | meaning |", "|---|---|---|---|---|"]
        for key in reference.keys(section):
            kind = _SHORT.get(f"{section.path}.{key.name}".lstrip("."))
            kind = kind or _type_words(key.field.annotation, list(key.field.metadata))
            lines.append(
                f"| `{key.name}` | {kind} | {_default(key.field)} | `{key.example}` "
                f"| {key.meaning} |"
            )
        lines.append("")
    if unused := _unused(reference):
        raise LookupError(f"{reference.path.name} has words on no key: {', '.join(unused)}")
    return "\n".join(lines).rstrip() + "\n"


def _unused(reference: Reference) -> list[str]:
    """The words and examples of keys, and the introductions, that belong to nothing."""
    every = list(sections())
    keys = [(section.path, key) for section in every for key in section.model.model_fields]
    names = {table: {reference.find(table, *key) for key in keys} for table in KEY_TABLES}
    names["sections"] = {section.path for section in every}
    left = {table: {*reference.texts[table]} - used for table, used in names.items()}
    return sorted(f"{table}: {name}" for table in left for name in left[table])


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
