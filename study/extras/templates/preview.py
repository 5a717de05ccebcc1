"""``dosimeter template preview``: one sample of a question, as its agent gets it, and the key."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from generators.seed import EXAMPLE_SEED
from generators.templates.family import template_family
from generators.templates.functions.base import quote_name
from study.extras.templates.prepare import load_family, make_sample
from study.protocol.yaml import read_template

_MOST_LINES, _MOST_ROWS, _MOST_CHARACTERS = 20, 5, 2_000
_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class PreviewedFile:
    """A file of a sample's tree. ``content`` is its beginning; of a database, its tables with their
    first rows."""

    path: str
    size: int  # bytes
    content: str
    cut: bool  # more of it is there


@dataclass(frozen=True, slots=True)
class SamplePreview:
    """One sample of a question: what its agent gets, and what is right."""

    template: str
    question: str
    prompt: str
    files: tuple[PreviewedFile, ...]
    scoring_type: str
    expected: str
    file: str  # that is to hold it; empty if the response is
    paths: tuple[str, ...]  # that are to be there

    def as_json(self) -> dict[str, Any]:
        """The value as plain JSON."""
        return asdict(self)


def preview_sample(file: str, question: str | None) -> SamplePreview:
    """Return the first sample of a question, or of the file's first question. Raises TemplateError,
    StudyError."""
    _, text, values = read_template(Path(), file)
    first = question or template_family(file, text, values).file.questions[0].id
    family = load_family(file, [first])
    chosen = family.file.chosen([first])[0]
    sample = make_sample(family.file, family.compiled(chosen.id), EXAMPLE_SEED, 1)
    key = sample.key
    return SamplePreview(
        family.file.name,
        chosen.id,
        sample.prompt,
        tuple(_previewed(made.path, made.data) for made in sample.files),
        key.scoring_type,
        expected=key.expected,
        file=key.file,
        paths=key.paths,
    )


def _previewed(path: str, data: bytes) -> PreviewedFile:
    if data.startswith(_SQLITE):
        return PreviewedFile(path, len(data), "\n".join(_tables(data)), cut=False)
    lines = data.decode("utf-8", "replace").splitlines()
    text = "\n".join(lines[:_MOST_LINES])
    cut = len(lines) > _MOST_LINES or len(text) > _MOST_CHARACTERS
    return PreviewedFile(path, len(data), text[:_MOST_CHARACTERS], cut)


def _tables(database: bytes) -> Iterator[str]:
    """The tables of a database, each with its first rows."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(database)
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for name in [name for (name,) in names if not name.startswith("sqlite_")]:
            rows = connection.execute("SELECT * FROM " + quote_name(name))  # noqa: S608 - quoted
            first = rows.fetchmany(_MOST_ROWS)
            count = len(first) + sum(1 for _ in rows)
            yield f"{name}: {count:,} rows"
            yield " | ".join(column for column, *_ in rows.description)
            yield from (" | ".join(map(str, row)) for row in first)
