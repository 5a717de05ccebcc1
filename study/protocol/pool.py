"""The pool of items that a study's tasks name: a file of the owner's, read until it is drawn."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from generators.errors import GeneratorError
from generators.items import HARBOR
from generators.items import NAME as ITEMS
from generators.items.pool import Columns, Group, make_pool, stratum_name
from publish.errors import PublishError
from study.errors import StudyError
from study.files import read_from_elsewhere
from study.protocol.agent_tasks import agent_task
from study.protocol.yaml import read_bounded

_MOST_BYTES = 2_000_000_000
_MOST_FILE = 50_000_000  # bytes, of an item's input file
_MOST_CELL = 10_000_000
HUB = "hf:"  # begins the path of a data set of the Hub


@dataclass(frozen=True, slots=True)
class PoolSource:
    """A file of items, a folder of such files, or a data set of the Hub, and what of its columns
    makes them; or a folder of agent tasks, with ``columns.stratum`` a key of their metadata."""

    path: Path
    columns: Columns
    published: str  # "never", or a date
    strata: tuple[str, ...]
    family: str = ITEMS  # or that of a folder with tasks of Harbor's form
    build_network: bool = False  # of these, while their images are built


def on_hub(path: Path) -> bool:
    """True if a path names a data set of the Hub."""
    return path.parts[:1] == (HUB,)


def pool_name(path: Path) -> str:
    """The name that the strata of a pool begin with."""
    return re.sub("[^a-z0-9]+", "_", path.stem.lower()).strip("_")


def name_in(folder: Path, path: Path) -> str:
    """The name of a pool as a study.yaml in ``folder`` has it."""
    named = Path(*path.parts[1:])
    return f"{HUB}//{named}" if on_hub(path) else os.path.relpath(path, folder)


@cache
def read_pool(source: PoolSource) -> tuple[Group, ...]:
    """The groups of a pool. Raises StudyError that names file and row."""
    try:
        if source.family == HARBOR:
            groups = tuple(_task_folders(source))
        else:
            rows = read_from_elsewhere(read_rows, source.path)
            folder = source.path.parent
            groups = make_pool(rows, source.columns, lambda name: _read_file(folder, name))
    except GeneratorError as error:
        raise StudyError(f"{source.path}: {error}") from error
    except FileNotFoundError:
        raise StudyError(
            f"{source.path}: no such file; it is read until the plan is registered"
        ) from None
    if unlike := {group.stratum for group in groups} ^ {*source.strata}:
        raise StudyError(
            f"{source.path}: `strata` are not the values in the column {source.columns.stratum!r}: "
            f"{min(unlike)} stands in one of the two only"
        )
    return groups


def _task_folders(source: PoolSource) -> Iterator[Group]:
    """Yield the tasks in the folders of a folder. Raises GeneratorError that names the folder."""
    folders = sorted(each for each in source.path.iterdir() if each.is_dir())
    if not folders:
        raise GeneratorError("no folder of a task lies in this folder")
    for number, folder in enumerate(folders, 1):
        try:
            every = sorted(each for each in folder.rglob("*") if not each.is_dir())
            files = {n: _read_file(folder, n) for n in (str(p.relative_to(folder)) for p in every)}
            key = source.columns.stratum
            item, value = agent_task(folder.name, files, source.build_network, key)
            stratum = stratum_name(source.columns.name, value)
        except GeneratorError as error:
            raise GeneratorError(f"{folder.name}: {error}") from None
        yield Group(stratum, (item,), (number,))


def read_rows(path: Path) -> Sequence[Mapping[str, Any]]:
    """The rows of a CSV file, of JSON lines, or of a Parquet file; or of all of them in a folder or
    a data set of the Hub, by their names. Raises StudyError, OSError."""
    rows: list[Mapping[str, Any]] = []
    for name, data in _hub_files(path) if on_hub(path) else _files(path):
        try:
            more = _READERS[name.suffix](name, data)
        except KeyError:
            raise StudyError(f"{name}: items are a file {', '.join(_READERS)}") from None
        if rows and more and {*rows[0]} != {*more[0]}:
            unlike = ", ".join(sorted({*rows[0]} ^ {*more[0]}))
            raise StudyError(f"{name}: other columns than the files before it: {unlike}")
        rows += more
    return rows


def _files(path: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield the content of a file, or of those in a folder that have rows."""
    paths = [path]
    if path.is_dir():
        paths = sorted(each for each in path.iterdir() if each.suffix in _READERS)
        if not paths:
            raise StudyError(f"{path}: no file {', '.join(_READERS)} lies in this folder")
    for each in paths:
        yield each, read_bounded(each, _MOST_BYTES, "a pool of items")


def _hub_files(path: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield the same of a data set of the Hub at a revision."""
    from publish.hub import private_files

    place = name_in(Path(), path)
    repository, _, revision = place.removeprefix(f"{HUB}//").partition("@")
    if repository.count("/") != 1 or not revision:
        raise StudyError(f"{place}: write hf://owner/name@revision, a commit's hash or a tag")
    try:
        yield from private_files(repository, revision, tuple(_READERS))
    except PublishError as error:
        raise StudyError(f"{place}: {error}") from error


def _parquet_rows(path: Path, data: bytes) -> Sequence[Mapping[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows: list[dict[str, Any]] = pq.read_table(pa.BufferReader(data)).to_pylist()
    except (pa.ArrowException, ValueError) as error:
        raise StudyError(f"{path}: no Parquet file that can be read") from error
    return rows


def _text(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise StudyError(f"{path}:{line}: not UTF-8: save the file in that encoding") from None


def _csv_rows(path: Path, data: bytes) -> Sequence[Mapping[str, Any]]:
    csv.field_size_limit(_MOST_CELL)
    lines = csv.reader(io.StringIO(_text(path, data), newline=""), strict=True)
    try:
        names = next(lines, [])
        if len(names) == 1 and (sign := re.search(r"[;\t|]", names[0])):
            raise StudyError(f"{path}:1: is separated by {sign[0]!r}: write it with commas")
        if len({*names}) < len(names) or not all(name.strip() for name in names):
            raise StudyError(f"{path}:1: a column has no name, or two have the same")
        rows = []
        for cells in lines:
            if cells and len(cells) != len(names):
                raise StudyError(
                    f"{path}:{lines.line_num}: {len(cells)} cells where the header has {len(names)}"
                )
            if cells:
                rows.append(dict(zip(names, cells, strict=True)))
    except csv.Error as error:
        raise StudyError(f"{path}:{lines.line_num}: no CSV: {error}") from error
    return rows


def _json_rows(path: Path, data: bytes) -> Sequence[Mapping[str, Any]]:
    rows = []
    for number, line in enumerate(_text(path, data).split("\n"), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict):
                raise StudyError(f"{path}:{number}: no JSON object, one a line")
            rows.append(row)
    every = dict.fromkeys(name for row in rows for name in row)
    return [dict.fromkeys(every) | row for row in rows]


_READERS = {".csv": _csv_rows, ".jsonl": _json_rows, ".parquet": _parquet_rows}


def _read_file(folder: Path, name: str) -> bytes:
    """An input file's content. Raises GeneratorError, also for one that no release may hold."""
    from publish.leakcheck.unpack import unread_reason

    place = PurePosixPath(name)
    if (folder / name).is_symlink():
        raise GeneratorError(f"{name}: a symbolic link, which no release may hold")
    if place.is_absolute() or ".." in place.parts:
        raise GeneratorError(f"{name}: an input file lies beside the pool, or in a folder there")
    try:
        data = read_bounded(folder / name, _MOST_FILE, "an input file")
    except (FileNotFoundError, StudyError) as error:
        raise GeneratorError(f"{name}: {getattr(error, 'strerror', None) or error}") from error
    if reason := unread_reason(data):
        raise GeneratorError(f"{name}: it could not be released: {reason}")
    return data
