"""What the spiked agent remembers of a released dataset: input files, by content, and answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import HarnessError

Files = frozenset[str]  # SHA-256 of each input file, 64 hexadecimal digits


@dataclass(frozen=True, slots=True)
class Memory:
    """The answer block to each set of input files."""

    answers: Mapping[Files, Mapping[str, Any]]

    def recall(self, seen: Iterable[str]) -> Mapping[str, Any] | None:
        """The answer to a released instance, all of whose files are among those seen."""
        held = frozenset(seen)
        return next((answer for files, answer in self.answers.items() if files <= held), None)


def load_memory(folder: Path) -> Memory:
    """Read a release as its users do: the columns ``input_files`` and ``answer`` of
    ``data/**/*.parquet``. Raises HarnessError where there is no such release."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = sorted((folder / "data").rglob("*.parquet"))
    if not tables:
        raise HarnessError(f"{folder}: no release here (data/**/*.parquet): publish one first, or "
                           "name its folder in the model's `release`")  # fmt: skip
    answers: dict[Files, Mapping[str, Any]] = {}
    for path in tables:
        try:
            answers |= _read_answers(pq.ParquetFile(path))
        except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
            raise HarnessError(f"{path}: not a table of a release: {error}") from error
    return Memory(answers)


def _read_answers(table: Any) -> dict[Files, Mapping[str, Any]]:
    # The digests alone: the files themselves are most of a release.
    names = [name for name in _leaves(table) if name.startswith("input_files.")]
    digests = [name for name in names if name.endswith(".sha256")]
    rows = table.read(columns=[*digests, "answer"]).to_pylist()
    return {
        frozenset(
            each["sha256"].removeprefix("sha256:") for each in row["input_files"]
        ): json.loads(row["answer"])
        for row in rows
    }


def _leaves(table: Any) -> list[str]:
    return [table.schema.column(index).path for index in range(len(table.schema))]
