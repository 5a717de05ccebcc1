"""Content of a file: the pieces that a leak check must read.

A release holds four types of content, each of which is read whole: text in UTF-8, PNG images,
SQLite databases, and the Parquet files of its own rows. What lies in their cells, and what is coded
in text, is read in turn, to a bounded depth. Any other content is searched as bytes, and yielded as
Unreadable: it is refused, not passed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

from publish.leakcheck.matcher import SHORTEST_KNOWN
from publish.leakcheck.text import (
    SEPARATOR,
    Unreadable,
    canonical_json,
    coded_bytes,
    is_cut_document,
    is_text,
    printable,
    spellings,
)
from publish.row_schema import row_schema

MAX_DEPTH = 8
MAX_BYTES = 1 << 30  # of an image or a table
MAX_PIXELS = 1 << 26  # of an image
_BLOCK, _OVERLAP = 1 << 25, 1 << 16  # bytes of content in memory at a time
_ROWS = 256  # of a database at a time

_PNG_CHUNKS = frozenset(  # those that hold the picture, or a few numbers, or plain text
    b"IHDR PLTE IDAT IEND tRNS bKGD cHRM gAMA pHYs sBIT sRGB tEXt tIME".split()
)
_NOT_ALLOWED = "neither UTF-8 text, nor a PNG image, a SQLite database or a release's Parquet file"
_ARCHIVE = re.compile(
    rb"PK\x03\x04|BZh[1-9](?:1AY&SY|\x17rE8P\x90)|\xfd7zXZ\0|\x28\xb5\x2f\xfd|\x04\x22\x4d\x18"
    rb"|7z\xbc\xaf\x27\x1c|Rar!\x1a\x07"
)
_DEFLATED = rb"x[\x01\x5e\x9c\xda]|\x1f\x8b\x08"  # RFC 1950 and 1952
_MOST_INFLATED = 1 << 24  # bytes of a stream that show that it is one


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes to be searched, or the digest of an image's pixels."""

    data: bytes
    pixels: str = ""
    again: bool = False  # what another piece holds in another order: no identifier is new in it


Piece = Chunk | Unreadable


def pieces(file: IO[bytes], depth: int = 0) -> Iterator[Piece]:
    """The bytes of a file, in blocks that overlap, and what is spelt or coded in them; then all
    that lies inside, or why the file cannot be read whole."""
    if depth > MAX_DEPTH:
        yield Unreadable(f"wrapped more than {MAX_DEPTH} deep")
        return
    text = is_text(file)
    for at, block, more in _blocks(file):
        yield Chunk(block)
        yield from _in_text(block if text else printable(block), depth)
        if text and more and _goes_on(block, at == 0):
            yield Unreadable(f"JSON of more than {_BLOCK} bytes is read as plain text only")
    if not text:
        yield from _opened(file, depth)


def unread_reason(data: bytes) -> str | None:
    """Why the check would refuse a file with this content; None if it reads it whole."""
    faults = (piece for piece in pieces(io.BytesIO(data)) if isinstance(piece, Unreadable))
    return next(map(str, faults), None)


def pixel_digest(data: bytes) -> str:
    """SHA-256 of a PNG image's size and pixels as RGBA: the same however it is encoded.
    Raises Unreadable."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            if image.width * image.height > MAX_PIXELS:
                raise Unreadable(f"an image of more than {MAX_PIXELS} pixels")
            deep = image.mode in ("F", "I") or image.mode.startswith("I;")
            plain = image if deep else image.convert("RGBA")
            head = f"{plain.mode} {plain.width}x{plain.height}\n".encode()
            return hashlib.sha256(head + plain.tobytes()).hexdigest()
    except Unreadable:
        raise
    except Exception as error:  # whatever PIL raises for one that is damaged
        raise Unreadable("a damaged PNG image") from error


def _blocks(file: IO[bytes]) -> Iterator[tuple[int, bytes, bool]]:
    """Yield a file's content in blocks that overlap, cut behind a line if there is one: where each
    begins, and if more follows. Raises OSError."""
    at, end, more = 0, 0, True
    while more:
        file.seek(at)
        block = file.read(end - at + _BLOCK)
        more = file.read(1) != b""
        if more and (line_end := block.rfind(b"\n") + 1) > end - at:
            block = block[:line_end]
        yield at, block, more
        end = at + len(block)
        at = max(0, end - _OVERLAP)


def _opened(file: IO[bytes], depth: int) -> Iterator[Piece]:
    """The pieces inside a file that is no text; Unreadable if they cannot be had, whatever a
    library raises for content that is damaged."""
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    if (known := _type_of(file.read(_HEAD))) is None:
        yield Unreadable(_NOT_ALLOWED)
        return
    file.seek(0)
    name, inner = known
    if size > MAX_BYTES:
        yield Unreadable(f"{name} of more than {MAX_BYTES} bytes")
        return
    try:
        yield from inner(file, depth)
    except Unreadable as reason:
        yield reason
    except Exception:
        yield Unreadable(f"{name} that is damaged")


# -- types ---------------------------------------------------------------------------------


def _png(file: IO[bytes], depth: int) -> Iterator[Piece]:
    data = file.read()
    yield Chunk(b"", pixels=pixel_digest(data))
    at, kind, compressed = _SIGNATURE, b"", []
    while kind != b"IEND":
        size, kind = struct.unpack_from(">I4s", data, at)
        if kind not in _PNG_CHUNKS:
            raise Unreadable("a PNG image with chunks that are not read: save it without metadata")
        if kind == b"IDAT":
            compressed.append(data[at + 8 : at + 8 + size])
        at += size + 12
    stream = zlib.decompressobj()
    yield Chunk(stream.decompress(b"".join(compressed), 9 * MAX_PIXELS))
    if at != len(data) or not stream.eof or stream.unused_data:
        raise Unreadable("a PNG image with bytes behind its end")


def _sqlite(file: IO[bytes], depth: int) -> Iterator[Piece]:
    data = file.read()
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(data)
        (size,) = database.execute(
            "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        ).fetchone()
        if size != len(data):
            raise Unreadable("a SQLite database with bytes behind its end")
        tables = database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        for (name,) in tables:
            quoted = name.replace('"', '""')
            cursor = database.execute(f'SELECT * FROM "{quoted}"')  # noqa: S608 - is quoted
            while rows := cursor.fetchmany(_ROWS):
                yield from _cells((("in a database", row) for row in rows), depth)


def _parquet(file: IO[bytes], depth: int) -> Iterator[Piece]:
    import pyarrow.parquet as pq

    table = pq.ParquetFile(file)
    if not table.schema_arrow.equals(row_schema()):
        raise Unreadable("a Parquet file with other columns than a release has")
    groups = [table.metadata.row_group(number) for number in range(table.num_row_groups)]
    columns = [group.column(n) for group in groups for n in range(group.num_columns)]
    size = sum(column.total_compressed_size for column in columns)
    # Around the columns and the footer: the magic number twice, and the footer's length.
    if size + table.metadata.serialized_size + 12 != file.seek(0, io.SEEK_END):
        raise Unreadable("a Parquet file with bytes between its columns")
    before = 0
    for number, group in enumerate(groups):
        if group.total_byte_size > MAX_BYTES:
            raise Unreadable(f"a Parquet file with rows of more than {MAX_BYTES} bytes")
        rows = enumerate(table.read_row_group(number).to_pylist(), before + 1)
        yield from _cells(
            ((f"row {n}, {column}", cell) for n, row in rows for column, cell in row.items()), depth
        )
        before += group.num_rows


def _cells(cells: Iterable[tuple[str, Any]], depth: int) -> Iterator[Piece]:
    """The pieces of cells with their places: texts and numbers joined as one text, and bytes by
    their type. What stands in two cells is read once: a released file is there as text, too."""
    read: set[bytes] = set()
    texts: list[bytes] = []
    for place, cell in cells:
        for leaf in _leaves(cell):
            data = leaf if isinstance(leaf, bytes) else leaf.encode("utf-8", "surrogatepass")
            if data in read:
                continue
            read.add(data)
            if isinstance(leaf, str):
                texts.append(data)
                continue
            for piece in pieces(io.BytesIO(data), depth + 1):
                located = isinstance(piece, Unreadable)
                yield Unreadable(f"{place}: {piece}") if located else piece
    joined = SEPARATOR.encode().join(texts)
    yield Chunk(joined)
    yield from _in_text(joined, depth)


def _leaves(value: Any) -> Iterator[bytes | str]:
    """The strings and bytes inside a value, and its numbers as strings."""
    if isinstance(value, bytes | str):
        yield value
    elif isinstance(value, dict):
        yield from _leaves(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    elif value is not None:
        yield str(value)


_Type = tuple[str, Callable[[IO[bytes], int], Iterator[Piece]]]
_TYPES: dict[bytes, _Type] = {  # known by their first bytes
    b"\x89PNG\r\n\x1a\n": ("a PNG image", _png),
    b"SQLite format 3\0": ("a SQLite database", _sqlite),
    b"PAR1": ("a Parquet file", _parquet),
}
_SIGNATURE, _HEAD = 8, 16


def _type_of(data: bytes) -> _Type | None:
    return next((known for head, known in _TYPES.items() if data.startswith(head)), None)


# -- text ----------------------------------------------------------------------------------

_ANNOUNCED = re.compile(rb"\x89PNG|SQLite form|PAR1|" + _DEFLATED + b"|" + _ARCHIVE.pattern)


def _in_text(text: bytes, depth: int) -> Iterator[Piece]:
    """JSON documents (one, or one a line), other spellings, and what is coded in them."""
    for canonical in canonical_json(text):
        yield canonical if isinstance(canonical, Unreadable) else Chunk(canonical, again=True)
    for spelled in spellings(text):
        if spelled is not text:
            yield Chunk(spelled)
        for content in coded_bytes(spelled, _ANNOUNCED):
            yield from _coded(content, depth + 1)


def _coded(content: bytes, depth: int) -> Iterator[Piece]:
    """The pieces of content that is coded in text. It may be no more than letters that look like
    code, so that only an archive is refused."""
    if _is_archive(content):
        yield Unreadable("a coded archive in a text")
    for piece in pieces(io.BytesIO(content), depth) if len(content) >= SHORTEST_KNOWN else ():
        if not isinstance(piece, Unreadable) or str(piece) != _NOT_ALLOWED:
            yield piece


def _is_archive(content: bytes) -> bool:
    """Report if content is an archive, or a whole zlib or gzip stream."""
    with contextlib.suppress(zlib.error):
        stream = zlib.decompressobj(zlib.MAX_WBITS | 32)
        stream.decompress(content, _MOST_INFLATED)
        return stream.eof or stream.unconsumed_tail != b""
    return _ARCHIVE.match(content) is not None


def _goes_on(block: bytes, first: bool) -> bool:
    """Report if a JSON document begins in a block, with the first or the last line of it, and ends
    behind it."""
    last = block[block.rfind(b"\n") + 1 :]
    return (first and is_cut_document(block.partition(b"\n")[0])) or is_cut_document(last)
