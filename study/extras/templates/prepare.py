"""``dosimeter template check``, ``prepare`` and ``preview``: checks of template files; sandbox
trees and the key to them; one sample of a question, as its agent gets it, and the key."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from generators.errors import TemplateError
from generators.seed import EXAMPLE_SEED, Seed
from generators.templates.check import TemplateReport, check_form, check_text, place_error
from generators.templates.family import TemplateFamily, template_family
from generators.templates.functions.base import quote_name
from generators.templates.language.parse import problem_of
from generators.templates.language.template import Question, TemplateFile
from generators.templates.prepare import (
    ARTIFACTS,
    CompiledQuestion,
    Prepared,
    precheck_record,
    prepare,
)
from study.errors import StudyError
from study.files import new_folder
from study.protocol.yaml import read_template

Watch = Callable[[str, int, int], None]  # what, samples done, of
PRECHECK = "precheck.jsonl"
SANDBOX = "sandbox"
_MOST_LINES, _MOST_ROWS, _MOST_CHARACTERS = 20, 5, 2_000
_SQLITE = b"SQLite format 3\0"


def prepare_template(
    file: str,
    seed: str,
    out: Path,
    samples: int | None,
    watch: Watch,
    questions: Sequence[str] | None = None,
) -> int:
    """Write ``sandbox/q<id>_s<n>/artifacts/…`` for each sample, a tree of its own, and
    ``precheck.jsonl`` beside them, out of reach of programs in a tree. Return the count of samples.

    ``samples`` overrides the file's number for each question; ``questions`` are the ids of those
    that are wanted. Same seed, same bytes. Nothing is left half-written. Raises TemplateError,
    GeneratorError for a bad seed, StudyError.
    """
    root = Seed.from_hex(seed)
    family = load_family(file, questions)
    chosen = family.file.chosen(questions)
    with new_folder(out) as draft:
        return write_samples(family, chosen, root, draft, samples, watch)


def load_family(file: str, questions: Sequence[str] | None = None) -> TemplateFamily:
    """The family of a template file, or of one of the library. Raises TemplateError with every
    error in the named questions, or in any, that is found without samples, a line each, and
    StudyError for a file that cannot be read."""
    _, text, values = read_template(Path(), file)
    check_form(text, file, values, questions)
    return template_family(file, text, values)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the trees of samples lie. ``root`` is the sandbox folder as texts name it; without it
    their paths start in the sample's own tree, and ``keys`` is the sandbox folder for the key's
    paths, if these are to be absolute. ``shared``: all samples have one tree."""

    root: str = ""
    shared: bool = False
    keys: str = ""

    def artifacts(self, qs_id: str) -> str:
        """The folder that ``{{artifacts}}`` names in a sample."""
        if not self.root:
            return ARTIFACTS
        return f"{self.root}/{ARTIFACTS}" if self.shared else f"{self.root}/{qs_id}/{ARTIFACTS}"

    def place(self, qs_id: str, path: str) -> str:
        """A path of a sample's file or key, from the sandbox folder."""
        return path.removeprefix(f"{self.root}/") if self.root else f"{qs_id}/{path}"

    def with_keys(self, sample: Prepared) -> Prepared:
        """The sample with its key's paths as they are written down."""
        if not self.keys:
            return sample
        prefix, key = f"{self.keys}/{sample.qs_id}", sample.key
        paths = tuple(f"{prefix}/{path}" for path in key.paths)
        file = f"{prefix}/{key.file}" if key.file else ""
        return replace(sample, key=replace(key, file=file, paths=paths))


OWN_TREES = Layout()


@dataclass(frozen=True, slots=True)
class SampleTree:
    """The files of a sample in the sandbox folder of a run."""

    sandbox: Path
    sample: Prepared
    layout: Layout

    def reset(self) -> None:
        """Make the tree as it was prepared: another conversation may have begun in it. Of a shared
        tree, this is the sample's own files, and those that its key names."""
        if self.layout.shared:
            for path in (*self._files(), *self._key_paths()):
                _remove(self.sandbox / path)
            self._put(self._files())
        else:
            _remove(self.sandbox / self.sample.qs_id)
            write_tree(self.sandbox, self.sample, self.layout)

    def untouched(self) -> bool:
        """Return True if the files are as they were prepared, and the key's others not there."""
        files = self._files()
        try:
            same = all((self.sandbox / path).read_bytes() == data for path, data in files.items())
        except OSError:
            return False
        others = self._key_paths() - files.keys()
        return same and not any(os.path.lexists(self.sandbox / path) for path in others)

    def bring_back(self, files: Mapping[str, bytes]) -> None:
        """Put what an agent left at the key's paths, in a sandbox of its own, into the tree. A
        folder's path ends in ``/``."""
        for path in self._key_paths():
            _remove(self.sandbox / path)
        self._put({self._place(path): data for path, data in files.items()})

    def _place(self, path: str) -> str:
        return self.layout.place(self.sample.qs_id, path)

    def _files(self) -> dict[str, bytes]:
        return {self._place(file.path): file.data for file in self.sample.files}

    def _key_paths(self) -> set[str]:
        key = self.sample.key
        return {self._place(path) for path in (key.file, *key.paths) if path}

    def _put(self, files: Mapping[str, bytes]) -> None:
        for path, data in files.items():
            place = self.sandbox / path
            if path.endswith("/"):
                place.mkdir(parents=True, exist_ok=True)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)


def _remove(place: Path) -> None:
    """Remove a file, or a folder and all in it, without following a link."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def write_samples(
    family: TemplateFamily,
    questions: Sequence[Question],
    root: Seed,
    folder: Path,
    samples: int | None,
    watch: Watch,
    layout: Layout = OWN_TREES,
) -> int:
    """The trees and the key, below a folder that is there. Raises StudyError if two samples of a
    shared tree make one file."""
    total = sum(samples or question.samples for question in questions)
    done = 0
    (folder / SANDBOX).mkdir()
    with open(folder / PRECHECK, "w", encoding="utf-8", newline="\n") as key:
        for question in questions:
            compiled = family.compiled(question.id)
            for number in range(1, (samples or question.samples) + 1):
                prepared = make_sample(family.file, compiled, root, number, layout)
                try:
                    write_tree(folder / SANDBOX, prepared, layout)
                except FileExistsError as error:
                    raise StudyError(
                        f"{family.file.show_place(question.place)}: sample {number}: another "
                        f"sample makes {str(error.filename).removeprefix(f'{folder}/')} too; use "
                        "{{qs_id}} in its path, or a tree for each sample"
                    ) from None
                record = precheck_record(layout.with_keys(prepared))
                key.write(json.dumps(record, ensure_ascii=False) + "\n")
                done += 1
                watch(question.id, done, total)
    return done


def make_sample(
    file: TemplateFile,
    compiled: CompiledQuestion,
    root: Seed,
    number: int,
    layout: Layout = OWN_TREES,
) -> Prepared:
    """The sample of this number. Raises TemplateError that names line and key."""
    question = compiled.question.id
    artifacts = layout.artifacts(f"q{question}_s{number}")
    try:
        return prepare(compiled, root.child("sample", question, number), number, artifacts)
    except TemplateError as error:
        raise place_error(file, compiled.question, error) from error


def write_tree(sandbox: Path, prepared: Prepared, layout: Layout) -> None:
    """Write the files of a sample, each once. Raises FileExistsError for one that is there."""
    qs_id = prepared.qs_id
    (sandbox / layout.place(qs_id, layout.artifacts(qs_id))).mkdir(parents=True, exist_ok=True)
    for made in prepared.files:
        path = sandbox / layout.place(qs_id, made.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "xb") as file:
            file.write(made.data)


def check_files(
    names: Sequence[str], questions: Sequence[str] | None = None
) -> tuple[TemplateReport, ...]:
    """Return a report for each file, on its ``questions`` of these ids or on all; of a file that
    cannot be read, with that as its only error."""
    return tuple(_check(name, questions) for name in dict.fromkeys(names))


def _check(name: str, questions: Sequence[str] | None) -> TemplateReport:
    try:
        source = read_template(Path(), name)
    except StudyError as error:
        return TemplateReport(name, "", (problem_of(str(error), name),), (), ())
    return check_text(source.text, name, questions, source.values)


# --- preview


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
