"""A template file as a family of tasks: a question is a difficulty, a sample is an instance."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from generators.catalog import BUILT_IN_NAMES
from generators.errors import TemplateError
from generators.grading.rubric import Metarubric, fill_rubric
from generators.seed import Seed
from generators.task import (
    Asset,
    Brief,
    GroundTruth,
    Limits,
    TaskInstance,
    TaskSpec,
    TruthTable,
    make_instance,
)
from generators.templates.language.diagnostics import fault_of_name
from generators.templates.language.parse import parse_template
from generators.templates.language.template import TemplateFile
from generators.templates.library import library_solver
from generators.templates.prepare import (
    ARTIFACTS,
    VERSION,
    CompiledQuestion,
    Prepared,
    compile_question,
    prepare,
)
from generators.templates.scoring.score import Scored
from generators.templates.scoring.scorer import Key

LIMITS = Limits(turns=20)  # the rounds of PICARD's agentic server
_MEDIA = {
    "csv": "text/csv",
    "json": "application/json",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "xml": "application/xml",
    "db": "application/vnd.sqlite3",
    "sqlite": "application/vnd.sqlite3",
}
_LONGEST_NAME = 63  # characters of a family's name
_KEEP = Asset(f"{ARTIFACTS}/.keep", "text/plain", b"")  # the folder is there, though empty
_DIGEST_DIGITS = 16


@dataclass(frozen=True)
class TemplateFamily:
    """The family of one template file. Its version pins the file's bytes, and how samples are
    drawn from it."""

    file: TemplateFile
    name: str
    _compiled: dict[str, CompiledQuestion] = field(default_factory=dict, compare=False, repr=False)

    @property
    def version(self) -> str:
        """The version of the drawing, and digits of the file's digest."""
        return f"{VERSION}.{self.file.digest.removeprefix('sha256:')[:_DIGEST_DIGITS]}"

    @property
    def summary(self) -> str:
        """One line for people."""
        return f"agentic tasks of the template {self.file.name}, one a question"

    @cached_property
    def questions(self) -> tuple[str, ...]:
        """The ids of its questions, in the file's order. Raises TemplateError if one of them is
        not right."""
        return tuple(question.id for question in self.file.chosen(None))

    def listed_rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the rows and values that the author listed, as text: samples are made of them."""
        groups: dict[str, list[tuple[str, ...]]] = {}
        types = self.file.questions[0].values.types if self.file.questions else {}  # the file's
        for kind in types.values():
            if listed := (kind.filled or kind).listed:
                groups.setdefault(kind.group or kind.name, []).append(listed)
        for columns in groups.values():
            yield from zip(*columns, strict=True)

    def parameters(self, difficulty: str) -> Mapping[str, int | float | str]:
        """The scoring type of a question, and the digest of the file. Raises TemplateError."""
        question = self.file.question(difficulty)
        return {"scoring_type": question.scoring_type, "template": self.file.digest}

    def generate(self, difficulty: str, seed: Seed) -> TaskInstance:
        """The sample of this seed, of the question that ``difficulty`` names. Raises
        TemplateError."""
        return self.instance_of(prepare(self.compiled(difficulty), seed), seed)

    def compiled(self, question: str) -> CompiledQuestion:
        """The question, parsed once. Raises TemplateError."""
        if question not in self._compiled:
            self._compiled[question] = compile_question(self.file, self.file.question(question))
        return self._compiled[question]

    def instance_of(self, prepared: Prepared, seed: Seed) -> TaskInstance:
        """A prepared sample as an instance."""
        key = prepared.key
        assets = tuple(
            Asset(path, _MEDIA.get(path.rpartition(".")[2].lower(), "text/plain"), data)
            for path, data in ((file.path, file.data) for file in prepared.files)
        )
        truth = _truth(prepared)
        return make_instance(
            TaskSpec(
                self.name,
                self.version,
                prepared.question.id,
                (*self.parameters(prepared.question.id).items(), ("redraws", prepared.redraws)),
            ),
            seed,
            Brief(
                prepared.prompt,
                assets or (_KEEP,),
                answer_schema="",
                limits=LIMITS,
                collect=(key.file,) if key.file else (),
                exists=key.paths,
            ),
            truth,
            fill_rubric(_metarubrics(key), dict(truth.tables)),
        )

    def key(self, truth: GroundTruth) -> dict[str, Any]:
        """A perfect agent's result: its response, and the files and folders that it leaves."""
        row = truth.table("key").records()[0]
        expected, file = str(row["expected"]), str(row["file"])
        paths = [str(path) for path in truth.table("paths").column("path")]
        files = {path: "" for path in paths if not path.endswith("/")}
        if file:
            files[file] = expected
        return {
            "response": "" if file or paths else expected,
            "files": files,
            "folders": [path for path in paths if path.endswith("/")],
        }

    def nulls(self, instance: TaskInstance) -> Mapping[str, dict[str, Any]]:
        """Answers that open no file: nothing, every word of the prompt, and zero."""
        words = " ".join(sorted({*instance.brief.prompt.split()}))
        return {
            "empty": {"response": "", "files": {}, "folders": []},
            "everything": {"response": words, "files": {}, "folders": []},
            "prior": {"response": "0", "files": {}, "folders": []},
        }

    def solver(self) -> str:
        """The program that solves the questions of our library, and no others."""
        return library_solver()


def template_family(file_name: str, text: str, values: str = "") -> TemplateFamily:
    """The family of a template file, and of the text of the values file that it names. Raises
    TemplateError if the template is not valid, or its file has the name of a built-in family."""
    return TemplateFamily(parse_template(text, file_name, values), family_name(file_name))


def family_name(file_name: str) -> str:
    """The name of a template file's family: that of the file without its suffix, after
    ``template_`` if it begins with a digit. Raises TemplateError for a file name that gives no
    family name, or the name of a built-in family."""
    stem = Path(file_name).stem
    name = re.sub(r"[^a-z0-9]+", "_", stem.lower()).strip("_")
    name = f"template_{name}" if name[:1].isdigit() else name
    if (fault := fault_of_name(stem)) is not None:
        raise TemplateError(f"{file_name}: the file's name {fault}")
    if len(name) > _LONGEST_NAME:
        raise TemplateError(
            f"{file_name}: a task's name would be {len(name)} characters long; name the file with "
            f"at most {_LONGEST_NAME}"
        )
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise TemplateError(
            f"{stem!r} gives no name for a task: name the file with letters first, as in past.yml"
        )
    if name in BUILT_IN_NAMES:
        raise TemplateError(f"{file_name}: {name} is the name of a built-in task: rename the file")
    return name


def _truth(prepared: Prepared) -> GroundTruth:
    key = prepared.key
    return GroundTruth(
        tables=(
            (
                "key",
                TruthTable(
                    ("scoring_type", "expected", "file"),
                    ((key.scoring_type, key.expected, key.file),),
                ),
            ),
            ("paths", TruthTable(("path",), tuple((path,) for path in key.paths))),
            ("variables", TruthTable(("name", "value"), tuple(prepared.variables.items()))),
        )
    )


def _metarubrics(key: Key) -> tuple[Metarubric, ...]:
    """The strict verdict, which is the score, and beside it, without weight, the lenient one."""

    def scored(lenient: bool) -> Scored:
        return Scored(key.scoring_type, key.expected, key.file, key.paths, lenient)

    strict, lenient = scored(False), scored(True)
    text = "The answer is right by the scoring type {scoring_type}"
    return (
        Metarubric("strict", "DH", 1.0, f"{text}, to the letter.", strict, source="key"),
        Metarubric(
            "lenient",
            "DH",
            0.0,
            f"{text}, however it is packed: fences, prose around it, the way numbers are written.",
            lenient,
            source="key",
        ),
    )
