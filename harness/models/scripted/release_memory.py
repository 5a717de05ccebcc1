"""What built-in agents remember of a released dataset: input files, by content, and answers;
criteria."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import HarnessError

Files = frozenset[str]  # SHA-256 of each input file, 64 hexadecimal digits


@dataclass(frozen=True, slots=True)
class Memory:
    """The answer to each set of input files; and to each question that asks for no block."""

    answers: Mapping[Files, Mapping[str, Any]]
    questions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def recall(self, seen: Iterable[str]) -> Mapping[str, Any] | None:
        """The answer to a released instance, all of whose files are among those seen."""
        digests = frozenset(seen)
        return next((answer for files, answer in self.answers.items() if files <= digests), None)

    def recall_question(self, question: str) -> Mapping[str, Any] | None:
        """The answer to a released question, known by its words."""
        return self.questions.get(question)

    def recall_opening(self, text: str) -> Mapping[str, Any] | None:
        """The answer to a released question that a text opens with."""
        openings = (words for words in self.questions if text.startswith(words.rstrip()))
        words = max(openings, key=len, default=None)
        return None if words is None else self.questions[words]

    def thin(self, share: float, name: str) -> Memory:
        """What is left where each instance was kept with probability ``share``: by a digest of
        it and of who remembers, so that it is the same wherever the agent is made."""
        return Memory(
            {
                files: answer
                for files, answer in self.answers.items()
                if _fate(name, *sorted(files)) < share
            },
            {
                words: answer
                for words, answer in self.questions.items()
                if _fate(name, words) < share
            },
        )


def _fate(*path: str) -> float:
    """A number from 0 up to 1, of a name."""
    digest = hashlib.sha256("\0".join(path).encode()).digest()
    return int.from_bytes(digest[:7]) / 2**56


def load_memory(folder: Path) -> Memory:
    """Read a release as its users do: the columns ``input_files``, ``prompt`` and ``answer`` of
    ``data/**/*.parquet``. Raises HarnessError where there is no such release."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = sorted((folder / "data").rglob("*.parquet"))
    if not tables:
        raise HarnessError(
            f"{folder}: no release here (data/**/*.parquet): publish one first, or "
            "name its folder in the model's `release`"
        )
    answers: dict[Files, Mapping[str, Any]] = {}
    questions: dict[str, Mapping[str, Any]] = {}
    for path in tables:
        try:
            for row in _read_rows(pq.ParquetFile(path)):
                answer = json.loads(row["answer"])
                if row["answer_schema"]:
                    answers[_files_of(row)] = answer
                else:
                    questions[row["prompt"]] = answer
        except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
            raise HarnessError(f"{path}: not a table of a release: {error}") from error
    return Memory(answers, questions)


def load_criteria(folder: Path) -> tuple[frozenset[str], ...]:
    """The texts of the criteria of each released instance; none while there is no release. Raises
    HarnessError for tables of something else."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    criteria: list[frozenset[str]] = []
    for path in sorted((folder / "data").rglob("*.parquet")):
        try:
            rubrics = pq.read_table(path, columns=["rubric"])["rubric"].to_pylist()
            criteria += [frozenset(each["text"] for each in json.loads(text)) for text in rubrics]
        except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
            raise HarnessError(f"{path}: not a table of a release: {error}") from error
    return tuple(criteria)


def _files_of(row: Mapping[str, Any]) -> Files:
    return frozenset(each["sha256"].removeprefix("sha256:") for each in row["input_files"])


def _read_rows(table: Any) -> list[dict[str, Any]]:
    # The digests alone: the files themselves are most of a release.
    names = [name for name in _leaves(table) if name.startswith("input_files.")]
    digests = [name for name in names if name.endswith(".sha256")]
    columns = [*digests, "prompt", "answer_schema", "answer"]
    rows: list[dict[str, Any]] = table.read(columns=columns).to_pylist()
    return rows


def _leaves(table: Any) -> list[str]:
    return [table.schema.column(index).path for index in range(len(table.schema))]
