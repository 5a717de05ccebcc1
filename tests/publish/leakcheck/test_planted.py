"""Forms of a secret that were planted in a release. Each is found, or is listed in docs/leaks.md as
not promised; a form that is listed and found all the same is listed no longer."""

from __future__ import annotations

import base64
import binascii
import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import quopri
import random
import re
import shutil
import sqlite3
import string
import struct
import subprocess
import tarfile
import urllib.parse
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from generators.seed import Seed
from publish.leakcheck.check import find_leaks, release_needles, scan_paths
from publish.leakcheck.secrets import Needles
from registry.sealing import new_identity
from registry.signing import Signer
from tests.cases import cases
from tests.publish.leakcheck.test_check import Made, release_table

ROOT = Path(__file__).resolve().parents[3]
STUDY_KEY, RUN_KEY, FOREIGN_KEY = (new_identity()[0] for _ in range(3))
_LETTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase


def bech32_bytes(identity: str) -> bytes:
    import bech32

    _, words = bech32.bech32_decode(identity.lower())
    return bytes(bech32.convertbits(words, 5, 8, False))


def in_base(number: int, digits: str) -> str:
    written = ""
    while number:
        number, digit = divmod(number, len(digits))
        written = digits[digit] + written
    return written


def broken(text: str, size: int, between: str) -> str:
    return between.join(text[at : at + size] for at in range(0, len(text), size))


def image(
    made: Made, change: Callable[[Image.Image], Image.Image], kind: str = "PNG", **options: Any
) -> bytes:
    target = io.BytesIO()
    change(Image.open(io.BytesIO(made.picture))).save(target, kind, **options)
    return target.getvalue()


def with_chunk(png: bytes, kind: bytes, data: bytes) -> bytes:
    """A PNG file with one more chunk at its end."""
    checksum = zlib.crc32(kind + data)
    return (
        png[:-12] + struct.pack(">I4s", len(data), kind) + data + checksum.to_bytes(4) + png[-12:]
    )


def arrow(writer: Callable[..., Any], text: str) -> bytes:
    target, table = io.BytesIO(), pa.table({"x": [text]})
    with writer(target, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as file:
        file.write_table(table)
    return target.getvalue()


def foreign_parquet(text: str) -> bytes:
    target = io.BytesIO()
    pq.write_table(pa.table({"x": [text]}), target, compression="zstd")
    return target.getvalue()


def zipped(data: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("member", data)
    return target.getvalue()


def tarred(data: bytes) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        member = tarfile.TarInfo("member")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return target.getvalue()


def npy(values: Any) -> bytes:
    target = io.BytesIO()
    np.save(target, np.array(values))
    return target.getvalue()


def by_codec(codec: str, data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def table_html(made: Made) -> str:
    return "".join(f"<tr><td>{reading!r}</td></tr>\n" for reading in made.readings)


def xxd(data: bytes) -> str:
    lines = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        shown = "".join(chr(b) if 32 <= b < 127 else "." for b in row)
        pairs = " ".join(row[n : n + 2].hex() for n in range(0, len(row), 2))
        lines.append(f"{at:08x}: {pairs}  {shown}")
    return "\n".join(lines)


def sqlite(cell: Any, folder: Path) -> bytes:
    with sqlite3.connect(folder / "made.db") as db:
        db.execute('create table "a ""name""" (x)')
        db.execute('insert into "a ""name""" values (?)', (cell,))
    db.close()
    data = (folder / "made.db").read_bytes()
    (folder / "made.db").unlink()
    return data


def shuffled(text: str) -> str:
    lines = text.splitlines()
    random.Random(1).shuffle(lines)
    return "\n".join(lines)


SEED = lambda m: m.entry.seed  # noqa: E731
# Form → (kind, its bytes). The kind is the one that the finding must have.
Kinds = Callable[[bytes | str], set[str]]
FORMS: dict[str, tuple[str, Callable[[Made], bytes | str]]] = {
    "hexadecimal": ("seed", SEED),
    "hexadecimal in capitals": ("seed", lambda m: SEED(m).upper()),
    "hexadecimal, pairs with spaces": ("seed", lambda m: m.seed.hex(" ")),
    "hexadecimal, pairs with colons": ("seed", lambda m: m.seed.hex(":")),
    "hexadecimal, pairs with dashes": ("seed", lambda m: m.seed.hex("-")),
    "hexadecimal, groups with underscores": ("seed", lambda m: m.seed.hex("_", 4)),
    "0x before it": ("seed", lambda m: "0x" + SEED(m)),
    "0x bytes": ("seed", lambda m: ", ".join(f"0x{b:02x}" for b in m.seed)),
    "0X bytes in capitals": ("seed", lambda m: ",".join(f"0X{b:02X}" for b in m.seed)),
    "0x words": ("seed", lambda m: ", ".join("0x" + SEED(m)[n : n + 8] for n in range(0, 64, 8))),
    "C string of escapes": ("seed", lambda m: "".join(f"\\x{b:02x}" for b in m.seed)),
    "Python bytes": ("seed", lambda m: repr(m.seed)),
    "list of numbers": ("seed", lambda m: str(list(m.seed))),
    "list of numbers in prose": ("seed", lambda m: "bytes " + " ".join(map(str, m.seed))),
    "hex dump": ("seed", lambda m: xxd(m.seed)),
    "percent signs": ("seed", lambda m: "".join(f"%{b:02X}" for b in m.seed)),
    "percent signs where needed": ("seed", lambda m: urllib.parse.quote_from_bytes(m.seed)),
    "percent signs in a text": (
        "seed",
        lambda m: "".join(f"%{ord(c):02x}" for c in SEED(m)),
    ),
    "quoted-printable bytes": ("seed", lambda m: b"a=3D1\n" + quopri.encodestring(m.seed)),
    "quoted-printable text": (
        "seed",
        lambda m: quopri.encodestring(f"{'x' * 50} {SEED(m)}=".encode()),
    ),
    "escapes of JavaScript": ("seed", lambda m: "".join(f"\\u{ord(c):04x}" for c in SEED(m))),
    "entities of HTML": ("seed", lambda m: "".join(f"&#{ord(c)};" for c in SEED(m))),
    "tags inside": ("seed", lambda m: f"<b>{SEED(m)[:9]}</b>{SEED(m)[9:20]}<i>{SEED(m)[20:]}</i>"),
    "zero-width spaces inside": ("seed", lambda m: "\u200b".join(SEED(m))),
    "soft hyphens inside": ("seed", lambda m: broken(SEED(m), 8, "\u00ad")),
    "quoted in a mail": ("seed", lambda m: broken(SEED(m), 16, "\n> ")),
    "lines of a diff": ("seed", lambda m: "+" + broken(SEED(m), 30, "\n+")),
    "strings of Python": ("seed", lambda m: '"' + broken(SEED(m), 20, '"\n    "') + '"'),
    "40-byte splits": ("seed", lambda m: broken(SEED(m), 40, " ... and more ... ")),
    "the first half": ("seed", lambda m: SEED(m)[:40]),
    "the last half": ("seed", lambda m: SEED(m)[24:]),
    "the middle": ("seed", lambda m: SEED(m)[11:51]),
    "UTF-16": ("seed", lambda m: SEED(m).encode("utf-16")),
    "UTF-16, big-endian": ("seed", lambda m: SEED(m).encode("utf-16-be")),
    "UTF-32": ("seed", lambda m: SEED(m).encode("utf-32")),
    "raw bytes": ("seed", lambda m: m.seed),
    "raw bytes, turned round": ("seed", lambda m: m.seed[::-1].hex()),
    "base64": ("seed", lambda m: base64.b64encode(m.seed)),
    "base64 for addresses": ("seed", lambda m: base64.urlsafe_b64encode(m.seed)),
    "base64 of a text": ("seed", lambda m: base64.b64encode(f"it is {SEED(m)}".encode())),
    "base64 of base64": ("seed", lambda m: base64.b64encode(base64.b64encode(m.seed))),
    "base32": ("seed", lambda m: base64.b32encode(m.seed)),
    "base32 in lower case": ("seed", lambda m: base64.b32encode(m.seed).lower()),
    "base32, shifted": ("seed", lambda m: base64.b32encode(b"abc" + m.seed)),
    "base32 of a text": ("seed", lambda m: base64.b32encode(f"it is {SEED(m)}.".encode())),
    "base32, hexadecimal": ("seed", lambda m: base64.b32hexencode(m.seed)),
    "base85": ("seed", lambda m: base64.b85encode(m.seed)),
    "base85, shifted": ("seed", lambda m: base64.b85encode(b"abc" + m.seed)),
    "base85 of Adobe": ("seed", lambda m: base64.a85encode(m.seed, adobe=True)),
    "base58": ("seed", lambda m: in_base(int.from_bytes(m.seed, "big"), "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz")),  # noqa: E501
    "base62": ("seed", lambda m: in_base(int.from_bytes(m.seed, "big"), _LETTERS)),
    "base36": ("seed", lambda m: in_base(int.from_bytes(m.seed, "big"), _LETTERS[:36])),
    "decimal": ("seed", lambda m: str(int.from_bytes(m.seed, "big"))),
    "decimal, in thousands": ("seed", lambda m: f"{int.from_bytes(m.seed, 'big'):,}"),
    "octal": ("seed", lambda m: oct(int.from_bytes(m.seed, "big"))),
    "binary": ("seed", lambda m: bin(int.from_bytes(m.seed, "little"))),
    "uuencoded": ("seed", lambda m: b"begin 644 x\n" + binascii.b2a_uu(m.seed) + b"`\nend\n"),
    "pickle": ("seed", lambda m: pickle.dumps({"x": SEED(m)})),
    "hexadecimal of a text": ("seed", lambda m: f"this is it: {SEED(m)}".encode().hex()),
    "octal escapes": ("seed", lambda m: "".join(f"\\{b:03o}" for b in m.seed)),
    "octal escapes, short": ("seed", lambda m: "".join(f"\\{b:o}" for b in m.seed)),
    "64-bit words": ("seed", lambda m: str(struct.unpack("<4Q", m.seed))),
    "64-bit words, big-endian": ("seed", lambda m: str(list(struct.unpack(">4Q", m.seed)))),
    "32-bit words in hexadecimal": (
        "seed",
        lambda m: ", ".join(f"0x{word:08X}" for word in struct.unpack("<8I", m.seed)),
    ),
    "title": ("title", lambda m: m.instance.title),
    "title with underscores": ("title", lambda m: m.instance.title.replace(" ", "_")),
    "title with zero-width spaces": ("title", lambda m: "\u200b".join(m.instance.title)),
    "nonce": ("nonce", lambda m: m.entry.nonce),
    "nonce in base32": ("nonce", lambda m: base64.b32encode(bytes.fromhex(m.entry.nonce))),
    "instance id": ("instance id", lambda m: m.entry.instance),
    "instance id in base85": (
        "instance id",
        lambda m: base64.b85encode(bytes.fromhex(m.entry.instance[7:])),
    ),
    "study's age key": ("the study's key", lambda m: STUDY_KEY),
    "study's age key, in lower case": ("the study's key", lambda m: STUDY_KEY.lower()),
    "study's age key, broken": ("the study's key", lambda m: broken(STUDY_KEY, 40, "\n")),
    "study's key without its prefix": ("the study's key", lambda m: STUDY_KEY[15:]),
    "study's key as bytes": ("the study's key", lambda m: bech32_bytes(STUDY_KEY)),
    "study's key in base64": ("the study's key", lambda m: base64.b64encode(bech32_bytes(STUDY_KEY))),  # noqa: E501
    "study's signing key": ("the study's key", lambda m: Signer.of(STUDY_KEY).secret.hex()),
    "run key": ("a run's key", lambda m: RUN_KEY),
    "key of somebody else": ("age secret key", lambda m: FOREIGN_KEY),
    "exact truth value": ("truth table", lambda m: f"it is {max(map(repr, m.readings), key=len)}."),
    "exact truth value in e-notation": (
        "truth table",
        lambda m: np.format_float_scientific(max(m.readings, key=lambda each: len(repr(each)))),
    ),
    "truth in a table of HTML": ("truth table", table_html),
    "truth as doubles": ("truth table", lambda m: npy(m.readings)),
    "truth as doubles, big-endian": (
        "truth table",
        lambda m: np.array(m.readings, ">f8").tobytes(),
    ),
    "shuffled rows": (
        "truth table",
        lambda m: shuffled(m.instance.brief.assets[1].data.decode()),
    ),
    "picture in 40-byte splits": (
        "input file",
        lambda m: b"/".join(m.picture[n : n + 40] for n in range(0, len(m.picture), 40)),
    ),
}  # fmt: skip

# Not opened: whatever they hold, they are refused.
REFUSED: dict[str, Callable[[Made], bytes | str]] = {
    "zlib": lambda m: zlib.compress(SEED(m).encode()),
    "zlib inside of other bytes": lambda m: b"%PDF" + zlib.compress(SEED(m).encode()) + b"x",
    "zlib, cut": lambda m: zlib.compress(SEED(m).encode() + os.urandom(500))[:-200],
    "zlib in base64": lambda m: base64.b64encode(zlib.compress(SEED(m).encode())),
    "gzip": lambda m: gzip.compress(SEED(m).encode()),
    "gzip in base64": lambda m: b"see " + base64.b64encode(gzip.compress(SEED(m).encode())),
    "gzip behind other bytes": lambda m: b"head" + gzip.compress(SEED(m).encode()),
    "raw deflate": lambda m: zlib.compress((SEED(m) * 3).encode())[2:-4],
    "bzip2": lambda m: bz2.compress(SEED(m).encode()),
    "bzip2 in base64": lambda m: base64.b64encode(bz2.compress(SEED(m).encode())),
    "xz": lambda m: lzma.compress(SEED(m).encode()),
    "xz in base64": lambda m: base64.b64encode(lzma.compress(SEED(m).encode())),
    "lzma": lambda m: lzma.compress(SEED(m).encode(), lzma.FORMAT_ALONE),
    "zstd": lambda m: by_codec("zstd", SEED(m).encode()),
    "zstd behind a skippable frame": lambda m: (
        b"\x50\x2a\x4d\x18\4\0\0\0skip" + by_codec("zstd", SEED(m).encode())
    ),
    "lz4": lambda m: by_codec("lz4", SEED(m).encode()),
    "brotli": lambda m: by_codec("brotli", SEED(m).encode()),
    "zip": lambda m: zipped(SEED(m).encode()),
    "zip in base64": lambda m: base64.b64encode(zipped(SEED(m).encode())),
    "zip behind a text": lambda m: SEED(m)[:9].encode() + zipped(SEED(m).encode()),
    "7z": lambda m: b"7z\xbc\xaf\x27\x1c" + m.seed,
    "tar": lambda m: tarred(SEED(m).encode()),
    "Arrow": lambda m: arrow(pa.ipc.new_file, SEED(m)),
    "Arrow stream": lambda m: arrow(pa.ipc.new_stream, SEED(m)),
    "Parquet of other columns": lambda m: foreign_parquet(SEED(m)),
    **{
        kind: lambda m, kind=kind: image(m, lambda i: i.convert("RGB"), kind)
        for kind in ("BMP", "DDS", "GIF", "JPEG", "JPEG2000", "PCX", "PDF", "PPM")
    },
    **{
        kind: lambda m, kind=kind: image(m, lambda i: i.convert("RGB"), kind)
        for kind in ("SGI", "TGA", "TIFF", "WEBP")
    },
    "array of NumPy": lambda m: npy(np.array(m.readings, "f4")),
    "bytes that are enciphered": lambda m: bytes(b ^ 1 for b in m.seed),
    "picture and bytes behind it": lambda m: m.picture + b"x",
    "picture and a second stream": lambda m: with_chunk(m.picture, b"IDAT", zlib.compress(b"x")),
    "picture with compressed text": lambda m: with_chunk(
        m.picture, b"zTXt", b"k\0\0" + zlib.compress(SEED(m).encode())
    ),
    "picture in two frames": lambda m: image(
        m, lambda i: i, "PNG", save_all=True, append_images=[Image.new("L", (48, 32))]
    ),
    "release table and bytes behind it": lambda m: (
        (data := release_table(prompt="nothing"))[:-8] + b"x" * 99 + data[-8:]
    ),
    "release table with an archive": lambda m: release_table(
        input_files=[{"path": "a", "data": zipped(SEED(m).encode())}]
    ),
}

# Not promised: docs/leaks.md has the reason of each, under the words before the colon.
MISSED: dict[str, Callable[[Made], bytes | str]] = {
    "Lossy pictures: contrast": lambda m: image(m, lambda i: i.point(lambda x: x * 9 // 10)),
    "Lossy pictures: half the size": lambda m: image(m, lambda i: i.resize((24, 16))),
    "Lossy pictures: crop": lambda m: image(m, lambda i: i.crop((3, 3, 19, 30))),
    "Lossy pictures: mirror": lambda m: image(m, lambda i: i.transpose(Image.FLIP_LEFT_RIGHT)),
    "Rounded numbers": lambda m: ",".join(f"{reading:.3f}" for reading in m.readings),
    "Pieces below 19 bytes": lambda m: broken(SEED(m), 16, " and "),
    "Enciphered: ROT13": lambda m: SEED(m).translate(
        str.maketrans("abcdef0123456789", "nopqrs5678901234")
    ),
    "Other alphabets: full-width": lambda m: "".join(chr(ord(c) + 0xFEE0) for c in SEED(m)),
    "Texts in base85": lambda m: base64.b85encode(f"see {SEED(m)}".encode()),
    "Reworded": lambda m: (
        m.instance.brief.prompt.replace("readings", "values")
        .replace("please", "now")
        .split("\n", 3)[-1][5:-5]
    ),
}


@pytest.fixture(scope="session")
def all_needles(draw: Any, find: Any) -> Needles:
    keys = {"the study's key": STUDY_KEY, "a run's key": RUN_KEY}
    return release_needles(draw.entries, find, identities=keys)


@pytest.fixture(scope="session")
def made(draw: Any, find: Any) -> Made:
    leaf = max(n for n, entry in enumerate(draw.entries) if entry in draw.private)
    entry = draw.entries[leaf]
    instance = find("noise@1").generate(entry.difficulty, Seed.from_hex(entry.seed))
    return Made(entry, leaf, instance, find("noise@1").key(instance.truth))


@pytest.fixture
def kinds(all_needles: Needles, tmp_path: Path) -> Kinds:
    """Plant content in a file, and return the kinds of what is found in its folder."""

    def found(planted: bytes | str) -> set[str]:
        data = planted.encode() if isinstance(planted, str) else planted
        (tmp_path / "file").write_bytes(data)
        return {leak.kind for leak in find_leaks(tmp_path, all_needles)}

    return found


@pytest.mark.parametrize("form", FORMS)
def test_a_planted_form_is_found(made: Made, kinds: Kinds, form: str) -> None:
    kind, make = FORMS[form]
    assert kind in kinds(make(made))


@pytest.mark.parametrize("form", MISSED)
def test_a_form_that_is_not_promised_is_listed(made: Made, kinds: Kinds, form: str) -> None:
    assert not kinds(MISSED[form](made)), "found: move it to FORMS, and off the page"
    assert f"| {form.partition(':')[0]} |" in (ROOT / "docs/leaks.md").read_text()


@pytest.mark.parametrize("form", REFUSED)
def test_a_form_that_is_not_opened_is_refused(made: Made, kinds: Kinds, form: str) -> None:
    assert any(kind.startswith("not read: ") for kind in kinds(REFUSED[form](made)))


def test_a_database_is_read_whole(made: Made, kinds: Kinds, tmp_path: Path) -> None:
    long = "no news here " * 600
    coded = base64.b64encode(f"{long}{SEED(made)}{long}".encode())
    assert kinds(sqlite(coded, tmp_path)) == {"seed"}
    data = sqlite(made.picture, tmp_path)
    assert "image" in kinds(data)
    assert "not read: a SQLite database with bytes behind its end" in kinds(data + bytes(4096))
    (kind,) = kinds(sqlite(gzip.compress(SEED(made).encode()), tmp_path))
    assert kind.startswith("not read: in a database: neither UTF-8 text")


def test_the_history_of_a_repository_is_not_read_and_its_text_is(
    made: Made, all_needles: Needles, kinds: Kinds, tmp_path: Path
) -> None:
    """docs/leaks.md has the command that writes the history as text."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    for content in (f"at first {SEED(made)}\n", "the end\n"):
        (tmp_path / "file").write_text(content)
        subprocess.run([*git, "add", "file"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "a change"], check=True)
    leaks = {(leak.file[:12], leak.kind[:9]) for leak in scan_paths([tmp_path], all_needles)}
    assert leaks == {(".git/objects", "not read:"), (".git/index", "not read:")}
    page = (ROOT / "docs/leaks.md").read_text()
    (command,) = re.findall(r"^git (.*) > history.txt$", page, re.M)
    shown = subprocess.run([*git, *command.split()], check=True, capture_output=True)
    shutil.rmtree(tmp_path / ".git")
    assert kinds(shown.stdout) == {"seed"}


def test_names_of_empty_folders_are_read(made: Made, all_needles: Needles, tmp_path: Path) -> None:
    (tmp_path / SEED(made)[:2] / SEED(made)[2:]).mkdir(parents=True)
    (leak,) = find_leaks(tmp_path, all_needles)
    assert (leak.kind, SEED(made)[2:] in leak.file) == ("seed", False)


def test_extended_attributes_are_read(made: Made, all_needles: Needles, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("nothing")
    try:
        os.setxattr(tmp_path / "file", "user.note", SEED(made).encode())
    except OSError:
        pytest.skip("this file system has no extended attributes")
    (leak,) = find_leaks(tmp_path, all_needles)
    assert str(leak) == (f"file, in its attributes: seed of private commitment {made.leaf}")


def test_a_scan_reports_links_and_special_files(
    made: Made, all_needles: Needles, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(f"/nowhere/{SEED(made)}")
    os.mkfifo(tmp_path / "pipe")
    leaks = {(leak.file, leak.kind) for leak in scan_paths([tmp_path], all_needles)}
    assert leaks == set(map(tuple, cases(__file__, "leaks")))


def test_a_secret_across_the_blocks_of_a_large_file_is_found(
    made: Made, kinds: Kinds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("publish.leakcheck.unpack._BLOCK", 1000)
    assert kinds("." * 970 + SEED(made) + "." * 3000) == {"seed"}


@pytest.mark.parametrize("length", [1 << 12, 1 << 20])
def test_noise_and_this_repository_raise_no_alarm(
    all_needles: Needles, tmp_path: Path, length: int
) -> None:
    noise = random.Random(length).randbytes(length)
    (tmp_path / "file").write_bytes(base64.encodebytes(noise))
    Image.frombytes("L", (64, length >> 6), noise).save(tmp_path / "noise.png")
    (tmp_path / "hex").write_text(noise.hex())
    (tmp_path / "numbers.json").write_text(json.dumps([n / 7 for n in range(length >> 6)]))
    for page in ROOT.glob("*.md"):
        shutil.copy(page, tmp_path)
    assert find_leaks(tmp_path, all_needles) == ()
