"""Content that is large, damaged or made to exhaust a reader: all of it is searched, or it is
listed as not searched."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from generators.seed import Seed
from publish.leakcheck import unpack
from publish.leakcheck.check import _opened, leaks_in, scan_paths
from publish.leakcheck.secrets import Needles
from publish.leakcheck.unpack import Chunk
from tests.publish.leakcheck.test_check import tarred, zipped

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


def arrow(data: bytes) -> bytes:
    batch = pa.record_batch({"x": [data[at : at + 50_000] for at in range(0, len(data), 50_000)]})
    target = io.BytesIO()
    with pa.ipc.new_file(target, batch.schema, options=_LZ4) as writer:
        writer.write_batch(batch)
    return target.getvalue()


_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")


def arrow_stream(data: bytes) -> bytes:
    batch = pa.record_batch({"x": [data]})
    target = io.BytesIO()
    with pa.ipc.new_stream(target, batch.schema, options=_LZ4) as writer:
        writer.write_batch(batch)
    return target.getvalue()


def parquet(data: bytes) -> bytes:
    target = io.BytesIO()
    pq.write_table(pa.table({"x": [data]}), target, compression="zstd")
    return target.getvalue()


def in_git_pack(data: bytes) -> bytes:
    return noise(150_000) + zlib.compress(data) + noise(99)


CONTAINERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda data: data,
    "zip": lambda data: zipped("x", data),
    "zip in a zip": lambda data: zipped("x", zipped("y", noise(150_000) + zipped("z", data))),
    "tar.gz": tarred,
    "bz2": bz2.compress,
    "gzip": gzip.compress,
    "two gzip members": lambda data: gzip.compress(noise(150_000)) + gzip.compress(data),
    "zlib stream in a large file": in_git_pack,
    "Parquet": parquet,
    "Arrow": arrow,
    "Arrow stream": arrow_stream,
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
    ids=[
        "deep",
        "deep line",
        "number",
        "in strings",
        "long and deep",
        "long number",
        "long",
        "long, indented",
        "long line",
    ],
)
def test_json_that_is_not_read_is_listed(
    small_blocks: None, kinds: Kinds, seed: str, data: bytes, says: str
) -> None:
    (unread,) = kinds(data)
    assert says in unread
    assert "seed" in kinds(data + seed.encode())


@pytest.mark.parametrize(
    "run",
    [
        b"[" * 3000,
        b'[{"' * 3000,
        b"[" * 3000 + b"R" * 900,
        b"[" + b"8" * 5000,
        b"[" * 3000 + b"]",
        b'{"a":"]"}\n' + b"[" * 3000 + b'"]"\n',
    ],
    ids=["brackets", "objects", "letters behind", "figures", "one is closed", "a line"],
)
def test_a_run_of_one_byte_is_no_json(kinds: Kinds, seed: str, run: bytes) -> None:
    """Compressed noise holds what looks like zlib streams; inflated, these are runs of one byte."""
    noise_around = noise(500) + zlib.compress(b"\xff" + run + b"\xff") + noise(500)
    assert kinds(run) == kinds(noise_around) == set()
    assert kinds(run + seed.encode()) == {"seed"}


# -- damage --------------------------------------------------------------------------------------


def two_zips() -> bytes:
    return zipped("x", noise(999)) + zipped("y", noise(999))


def encrypted(data: bytes) -> bytes:
    """A zip archive with the flag of encryption set for its first member."""
    changed = bytearray(data)
    changed[6] |= 1
    changed[data.index(b"PK\1\2") + 8] |= 1
    return bytes(changed)


UNREADABLE: dict[str, Callable[[], bytes]] = {
    "zip, cut": lambda: zipped("x", noise(999))[:-30],
    "zip and much behind it": lambda: zipped("x", noise(999)) + noise(70_000),
    "two zips": two_zips,
    "zip, encrypted": lambda: encrypted(zipped("x", noise(99))),
    "tar, cut": lambda: gzip.decompress(tarred(noise(9_999)))[:5_000],
    "gzip, cut": lambda: gzip.compress(noise(9_999))[:-99],
    "bz2, cut": lambda: bz2.compress(noise(9_999))[:-99],
    "Parquet, cut": lambda: parquet(noise(9_999))[:-99],
    "Arrow, cut": lambda: arrow(noise(9_999))[:-99],
    "Arrow stream, cut": lambda: arrow_stream(noise(9_999))[:-5_000],
    "picture, cut": lambda: picture()[:-99],
    "7z": lambda: b"7z\xbc\xaf\x27\x1c" + noise(99),
}


def picture() -> bytes:
    target = io.BytesIO()
    Image.frombytes("RGB", (50, 50), noise(7_500)).save(target, "PNG")
    return target.getvalue()


@pytest.mark.parametrize("kind", UNREADABLE)
@pytest.mark.parametrize("inside", ["a file", "an archive", "base64"])
def test_what_is_damaged_is_listed_and_what_is_beside_it_is_searched(
    kinds: Kinds, seed: str, kind: str, inside: str
) -> None:
    data = UNREADABLE[kind]()
    if inside == "an archive":
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w") as archive:
            archive.writestr("damaged", data)
            archive.writestr("whole", zlib.compress(seed.encode()))
        data = target.getvalue()
    elif inside == "base64":
        data = b"data:" + base64.b64encode(data) + b",\n" + seed.encode()
    found = kinds(data)
    assert any(each.startswith("unreadable: ") for each in found)
    assert ("seed" in found) == (inside != "a file")


def test_garbage_between_members_of_a_tar_hides_none(kinds: Kinds, seed: str) -> None:
    def tar(data: bytes) -> bytes:
        return gzip.decompress(tarred(zlib.compress(data)))

    assert "seed" in kinds(tar(b"nothing") + b"x" * 512 + tar(seed.encode()))


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


def zeros(size: int) -> bytes:
    return zipped("zeros", bytes(size))


def nest(archive: bytes, many: int) -> bytes:
    """Copies of an archive in one."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as outer:
        for number in range(many):
            outer.writestr(f"{number}.zip", archive)
    return target.getvalue()


BOMBS: dict[str, Callable[[], bytes]] = {
    "one member": lambda: zeros(2_000_000),
    "many members": lambda: nest(zeros(900_000), 50),
    "zips of zips": lambda: nest(nest(nest(zeros(100_000), 9), 9), 9),
    "gzip": lambda: gzip.compress(bytes(2_000_000)),
    "zlib in other bytes": lambda: b"head" + zlib.compress(bytes(2_000_000)) + b"tail",
    "bz2": lambda: bz2.compress(bytes(2_000_000)),
    "sparse tar": lambda: sparse_tar(1 << 40),
}


def sparse_tar(size: int) -> bytes:
    """A tar archive of one member that is a hole."""
    member = tarfile.TarInfo("hole")
    member.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[483:495] = b"%011o " % size
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + bytes(1024)


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_read_to_the_bounds_and_listed(
    kinds: Kinds, monkeypatch: pytest.MonkeyPatch, bomb: str
) -> None:
    monkeypatch.setattr(unpack, "MAX_MEMBER_BYTES", 1_000_000)
    monkeypatch.setattr(unpack, "MAX_EXPANDED_BYTES", 10_000_000)
    monkeypatch.setattr(unpack, "MAX_EXPANSION", 1)
    assert any("expands to" in kind for kind in kinds(BOMBS[bomb]()))


def test_a_picture_in_two_columns_is_unpacked_once() -> None:
    picture, other, file = noise(5000), noise(5001), io.BytesIO()
    pq.write_table(pa.table({"a": [picture, picture], "b": [picture, other]}), file)
    read = [piece.data for piece in unpack.pieces(file) if isinstance(piece, Chunk)]
    assert (read.count(picture), read.count(other)) == (1, 1)


def test_pictures_of_too_many_pixels_are_listed(
    kinds: Kinds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpack, "MAX_PIXELS", 2_000)
    assert kinds(picture()) == {"unreadable: an image of more than 2000 pixels"}


def test_memory_does_not_grow_with_what_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "bomb.zip").write_bytes(zeros(160 << 20))
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(160 << 20)
    script = f"""
import resource
from pathlib import Path
from publish.leakcheck.check import scan_paths
from publish.leakcheck.secrets import Needles, Pattern, Trace
needles = Needles({{Pattern("raw", b"something unheard of"): Trace("seed", 0)}}, {{}})
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
before = peak()
assert list(scan_paths([Path({str(tmp_path)!r})], needles)) == []
print(peak() - before)
"""
    run = [sys.executable, "-c", script]
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
    assert leaks == dict.fromkeys(["pipe", "socket"], "unreadable: a special file")
    (memory,) = scan_paths([Path("/proc/self/mem")], needles)  # which can be opened, not read
    assert memory.kind.startswith("unreadable: ")
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
    gone = "unreadable: No such file or directory"
    assert leaks == {("a", "seed"), ("b", gone), ("c", "seed"), ("d", gone)}
