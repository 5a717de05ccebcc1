"""Content that is large, damaged or made to exhaust a reader: all of it is searched, or it is listed
as not searched."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import os
import random
import resource
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

from publish.leakcheck import leaks_in, scan_paths, unpack
from publish.leakcheck.secrets import Needles
from tests.publish.leakcheck.test_check import tarred, zipped

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
@pytest.mark.parametrize("place", [0, BLOCK - 30, 2 * BLOCK - 1, 2 * BLOCK + 17, 3 * BLOCK])
def test_a_seed_is_found_at_the_borders_of_blocks(
    small_blocks: None, kinds: Kinds, seed: str, container: str, place: int
) -> None:
    text = (b"no news here " * 60 + b"\n") * 800
    data = text[:place] + f" {seed} ".encode() + text[place : 4 * BLOCK]
    assert "seed" in kinds(CONTAINERS[container](data))
