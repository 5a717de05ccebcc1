"""Content that is large, damaged or made to exhaust a reader: all of it is searched, or it is
listed as not searched."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import random
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from generators.seed import Seed
from publish.leakcheck import unpack
from publish.leakcheck.check import _opened, leaks_in, scan_paths
from publish.leakcheck.secrets import Needles
from publish.leakcheck.unpack import Chunk
from tests.cases import cases
from tests.publish.leakcheck.test_check import release_table

ROOT = Path(__file__).resolve().parents[3]
SLOW = pytest.mark.slow
BLOCK = 100_000  # bytes of a block in these tests


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


@pytest.fixture
def seed(draw: Any) -> str:
    return str(draw.private[-1].seed)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "_BLOCK", BLOCK)


@pytest.fixture
def kinds(needles: Needles) -> Callable[[bytes], set[str]]:
    return lambda data: {leak.kind for leak in leaks_in("file", data, needles)}


Kinds = Callable[[bytes], set[str]]


def database(data: bytes) -> bytes:
    with contextlib.closing(sqlite3.connect(":memory:")) as made:
        made.execute("create table t (x)")
        made.execute("insert into t values (?)", (data,))
        made.commit()
        return made.serialize()


def table(data: bytes) -> bytes:
    return release_table(input_files=[{"data": data}])


CONTAINERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda data: data,
    "Parquet": table,
    "Parquet, as text": lambda data: release_table(truth=data.decode("latin-1")),
    "SQLite": database,
    "base64 in a line": lambda data: b"a" + base64.b64encode(data),
    "base64 in lines": base64.encodebytes,
    "hexadecimal": lambda data: b"f" + data.hex().encode(),
    "JSON string": lambda data: json.dumps({"a": data.decode("latin-1")}).encode(),
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize(
    "place",
    [
        BLOCK - 30,
        3 * BLOCK,
        *(pytest.param(n, marks=SLOW) for n in (0, 2 * BLOCK - 1, 2 * BLOCK + 17)),
    ],
)
def test_a_seed_is_found_at_the_borders_of_blocks(
    small_blocks: None, kinds: Kinds, seed: str, container: str, place: int
) -> None:
    text = (b"no news here " * 60 + b"\n") * 800
    data = text[:place] + f" {seed} ".encode() + text[place : 4 * BLOCK]
    assert "seed" in kinds(CONTAINERS[container](data))


# -- JSON --------------------------------------------------------------------------------------


@pytest.fixture
def turned_key(draw: Any, find: Any) -> dict[str, Any]:
    """The answer key of a private instance, its members in another order than ever written."""
    entry = draw.private[-1]
    family = find(f"{entry.family}@{entry.version}")
    key = family.key(family.generate(entry.difficulty, Seed.from_hex(entry.seed)).truth)
    return dict(sorted(key.items(), reverse=True))


@pytest.mark.parametrize("filler", [30, 70_000])  # characters in a line, below and above overlap
@pytest.mark.parametrize("place", [3, 8, *(pytest.param(n, marks=SLOW) for n in (0, 5))])
def test_lines_of_json_are_read_in_each_block(
    small_blocks: None, kinds: Kinds, turned_key: dict[str, Any], filler: int, place: int
) -> None:
    count = max(10, 4 * BLOCK // filler)
    lines = [json.dumps({"n": number, "text": "a " * (filler // 2)}) for number in range(count)]
    lines[place * count // 10] = json.dumps({"z": turned_key, "text": "a " * (filler // 2)})
    assert "answer key" in kinds("\n".join(lines).encode())
    assert "answer key" in kinds(b"started at noon\n" + "\r\n".join(lines).encode())


def test_json_in_strings_of_json_is_read(kinds: Kinds, turned_key: dict[str, Any]) -> None:
    text = json.dumps(turned_key)
    for _ in range(5):
        text = json.dumps({"log": " " + text})
    assert "answer key" in kinds(text.encode())


def digits(count: int) -> bytes:
    return b'{"a":' + b"9" * count + b"}"


def nested(count: int) -> bytes:
    return b"[" * count + b"]" * count


def in_strings(count: int) -> bytes:
    text = "{}"
    for _ in range(count):
        text = json.dumps({"a": text})
    return text.encode()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (nested(10_000), "JSON that is nested too deep"),
        (b"{}\n" + nested(10_000) + b"\n{}\n", "JSON that is nested too deep"),
        (digits(10_000), "too large a number"),
        (in_strings(12), "JSON wrapped more than"),
        (nested(100_000), "JSON of more than 100000 bytes"),
        (digits(200_000), "JSON of more than 100000 bytes"),
        (json.dumps({"a": ["word"] * 30_000}).encode(), "JSON of more than 100000 bytes"),
        (json.dumps({"a": ["word"] * 30_000}, indent=1).encode(), "JSON of more than 100000"),
        (b'{"a":1}\n' + json.dumps(["word"] * 30_000).encode(), "JSON of more than 100000"),
    ],
    ids=cases(__file__, "unread"),
)
def test_json_that_is_not_read_is_listed(
    small_blocks: None, kinds: Kinds, seed: str, data: bytes, says: str
) -> None:
    unread = kinds(data)
    assert {each[:15] for each in unread} == {"not read: JSON "}
    assert any(says in each for each in unread)
    assert "seed" in kinds(data + seed.encode())


# -- damage --------------------------------------------------------------------------------------


def picture() -> bytes:
    target = io.BytesIO()
    Image.frombytes("RGB", (50, 50), noise(7_500)).save(target, "PNG")
    return target.getvalue()


UNREADABLE: dict[str, Callable[[], bytes]] = {
    "Parquet, cut": lambda: table(noise(9_999))[:-99],
    "SQLite, cut": lambda: database(noise(9_999))[:-99],
    "SQLite, page missing": lambda: database(noise(9_999))[:-4096],
    "picture, cut": lambda: picture()[:-99],
    "picture, no end": lambda: picture()[:-12],
}


@pytest.mark.parametrize("kind", UNREADABLE)
@pytest.mark.parametrize("inside", ["a file", "a table", "base64"])
def test_what_is_damaged_is_listed_and_what_is_beside_it_is_searched(
    kinds: Kinds, seed: str, kind: str, inside: str
) -> None:
    data = UNREADABLE[kind]()
    if inside == "a table":
        data = release_table(
            input_files=[{"data": data}, {"data": base64.b64encode(seed.encode())}]
        )
    elif inside == "base64":
        data = b"data:" + base64.b64encode(data) + b",\n" + seed.encode()
    found = kinds(data)
    assert any(each.startswith("not read: ") for each in found)
    assert ("seed" in found) == (inside != "a file")


def test_random_damage_never_stops_the_check(kinds: Kinds, seed: str) -> None:
    rng = random.Random(5)
    for make in CONTAINERS.values():
        whole = make(noise(3_000))
        for _ in range(30):
            data = bytearray(whole)
            for _ in range(rng.randint(1, 8)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            assert "seed" in kinds(bytes(data[: rng.randint(9, len(data))]) + seed.encode())


# -- bombs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (table(bytes(200_000)), "a Parquet file with rows of more than 100000 bytes"),
        (table(noise(200_000)), "a Parquet file of more than 100000 bytes"),
        (database(noise(200_000)), "a SQLite database of more than 100000 bytes"),
    ],
)
def test_a_table_that_does_not_fit_in_memory_is_listed(
    kinds: Kinds, monkeypatch: pytest.MonkeyPatch, data: bytes, says: str
) -> None:
    monkeypatch.setattr(unpack, "MAX_BYTES", 100_000)
    assert kinds(data) == {f"not read: {says}"}


def test_what_is_wrapped_too_deep_is_listed(kinds: Kinds) -> None:
    data = b"nothing at all is in here, and all of it is text"
    for _ in range(9):
        data = base64.b64encode(data)
    assert kinds(data) == {"not read: wrapped more than 8 deep"}


def test_a_picture_in_two_columns_is_unpacked_once() -> None:
    one, other = picture(), noise(5001)
    data = release_table(input_files=[{"data": one}, {"data": other}], images=[{"bytes": one}])
    read = [piece.data for piece in unpack.pieces(io.BytesIO(data)) if isinstance(piece, Chunk)]
    assert (read.count(one), read.count(other)) == (1, 1)


def test_pictures_of_too_many_pixels_are_listed(
    kinds: Kinds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpack, "MAX_PIXELS", 2_000)
    assert kinds(picture()) == {"not read: an image of more than 2000 pixels"}


@pytest.mark.slow
def test_memory_does_not_grow_with_files(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_bytes((b"nothing " * 20 + b"\n") * (1 << 20))
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(160 << 20)
    run = [sys.executable, "-c", cases(__file__, "memory"), str(tmp_path)]
    shown = subprocess.run(run, capture_output=True, text=True, check=True, cwd=ROOT)
    assert int(shown.stdout) < 120  # MB: a few blocks


# -- files ---------------------------------------------------------------------------------------


def test_special_files_and_unreadable_ones_are_listed_and_block_nothing(
    needles: Needles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        leaks = {leak.file: leak.kind for leak in scan_paths([tmp_path], needles)}
    assert leaks == dict.fromkeys(["pipe", "socket"], "not read: a special file")
    (memory,) = scan_paths([Path("/proc/self/mem")], needles)  # which can be opened, not read
    assert memory.kind.startswith("not read: ")
    with pytest.raises(OSError, match="not a regular file any more"):
        _opened("pipe", os.O_RDONLY)


def test_files_and_folders_that_vanish_are_listed(
    needles: Needles, tmp_path: Path, seed: str
) -> None:
    for name in ("a", "b", "c", "d/e"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(seed)

    def vanish(files: int, size: int) -> None:
        if files == 2:  # the folder itself, and a
            (tmp_path / "b").unlink()
            shutil.rmtree(tmp_path / "d")

    leaks = {(leak.file, leak.kind) for leak in scan_paths([tmp_path], needles, vanish)}
    gone = "not read: No such file or directory"
    assert leaks == {("a", "seed"), ("b", gone), ("c", "seed"), ("d", gone)}
