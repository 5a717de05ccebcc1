"""The internal report: a look with every row, sealed to the study's recipients."""

from __future__ import annotations

import csv
import io
import os
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from analysis.report import report_files
from registry.result_row import COLUMNS, ResultRow, columns_of
from registry.sealing import encrypt
from study.errors import StudyError
from study.reporting.look import build_look
from study.workspace import Study, take_snapshot

ROWS = "rows.csv"


def write_internal(study: Study, through: int | None, path: Path, now: str) -> Path:
    """Write a look as one age file, sealed to the study's recipients: a ZIP of the report's files
    and ``rows.csv``, which has a row for every episode and grader, with instance and arm.

    It is put together in memory: nothing of it lies on disk in the clear, and the ledger has
    no record of it. Raises StudyError if the file exists or cannot be written.
    """
    if path.exists():
        raise StudyError(f"{path}: is there already; name another file, or move it away")
    look = build_look(take_snapshot(study), through, now)
    files = {**report_files(look.report), ROWS: _rows_csv(look.rows)}
    _write_new(path, encrypt(_zip(files.items()), study.recipients()))
    return path


def _rows_csv(rows: Iterable[ResultRow]) -> str:
    columns = columns_of(rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(zip(*(columns[name] for name in COLUMNS), strict=True))
    return text.getvalue()


def _zip(files: Iterable[tuple[str, str]]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files:
            archive.writestr(name, text)
    return data.getvalue()


def _write_new(path: Path, data: bytes) -> None:
    """Write a new file, whole or not at all."""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, path)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as error:
        raise StudyError(f"{path}: {error.strerror}; name a file in a folder of yours") from None
