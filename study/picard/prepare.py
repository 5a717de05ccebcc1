"""``dosimeter template check`` and ``prepare``: checks of template files; sandbox trees and the key
to them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from generators.seed import Seed
from generators.templates import (
    ARTIFACTS,
    TemplateFamily,
    TemplateReport,
    check_text,
    precheck_writer,
    prepare,
    template_family,
)
from generators.templates.language import MadeFile, problem_of
from study.errors import StudyError
from study.files import new_folder
from study.protocol import read_template

Watch = Callable[[str, int, int], None]  # what, samples done, of
PRECHECK = "precheck.jsonl"
SANDBOX = "sandbox"


def prepare_template(file: str, seed: str, out: Path, samples: int | None, watch: Watch) -> int:
    """Write ``sandbox/q<id>_s<n>/artifacts/…`` for each sample, a tree of its own, and
    ``precheck.jsonl`` beside them, out of reach of programs in a tree. Return the count of samples.

    ``samples`` overrides the file's number for each question. Same seed, same bytes. Nothing is
    left half-written. Raises TemplateError, GeneratorError for a bad seed, StudyError.
    """
    root = Seed.from_hex(seed)
    family = template_family(*read_template(Path(), file))
    with new_folder(out) as draft:
        return write_samples(family, root, draft, samples, watch)


def sample_seed(root: Seed, question: str, sample: int) -> Seed:
    """The seed of one sample of one question, below that of the whole preparation."""
    return root.child("sample", question, sample)


def write_samples(
    family: TemplateFamily, root: Seed, folder: Path, samples: int | None, watch: Watch
) -> int:
    """The trees and the key, below a folder that is there."""
    questions = family.file.questions
    total = sum(samples or question.samples for question in questions)
    done = 0
    (folder / SANDBOX).mkdir()
    with open(folder / PRECHECK, "w", encoding="utf-8", newline="\n") as key:
        for question in questions:
            compiled, written = family.compiled(question.id), precheck_writer(question)
            for number in range(1, (samples or question.samples) + 1):
                prepared = prepare(compiled, sample_seed(root, question.id, number), number)
                _write_tree(f"{folder}/{SANDBOX}/{prepared.qs_id}", prepared.files)
                key.write(f"{written(prepared)}\n")
                done += 1
                watch(question.id, done, total)
    return done


def _write_tree(root: str, files: Iterable[MadeFile]) -> None:
    """The files of one sample, each written once."""
    os.mkdir(root)
    os.mkdir(f"{root}/{ARTIFACTS}")
    made = {ARTIFACTS}
    for file in files:
        _make_folders(root, file.path.rpartition("/")[0], made)
        handle = os.open(f"{root}/{file.path}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            rest = file.data
            while rest:
                rest = rest[os.write(handle, rest) :]
        finally:
            os.close(handle)


def _make_folders(root: str, folder: str, made: set[str]) -> None:
    if folder in made or not folder:
        return
    _make_folders(root, folder.rpartition("/")[0], made)
    os.mkdir(f"{root}/{folder}")
    made.add(folder)


def check_files(names: Sequence[str]) -> tuple[TemplateReport, ...]:
    """Return a report for each file; of a file that cannot be read, with that as its only error."""
    return tuple(_check(name) for name in names)


def _check(name: str) -> TemplateReport:
    try:
        source = read_template(Path(), name)
    except StudyError as error:
        return TemplateReport(name, "", (problem_of(str(error), name),), (), ())
    return check_text(source.text, name, values=source.values)
