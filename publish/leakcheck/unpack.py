"""Content of a file, however it is wrapped: the pieces that a leak check must read.

Parquet and Arrow cells, archive members, compressed streams, JSON documents, base64 and images are
opened, one inside the other, to a bounded depth and size. Content is read in blocks. What is
unpacked and larger than a block lies in a temporary file without a name. Content that announces
itself as one of these and cannot be opened is not passed over: it is yielded as Unreadable.
"""

from __future__ import annotations

import bz2
import contextlib
import functools
import hashlib
import heapq
import io
import json
import lzma
import re
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import IO, Any

from publish.leakcheck.matcher import SHORTEST_KNOWN
from publish.leakcheck.text import (
    SEPARATOR,
    SHORTEST_RUN,
    Unreadable,
    canonical_json,
    coded_bytes,
    is_cut_document,
    readable,
    spellings,
)

MAX_DEPTH = 8
MAX_MEMBER_BYTES = 1 << 30
MAX_EXPANDED_BYTES = 1 << 32  # of one file, in all, whatever its size
MAX_EXPANSION = 100  # times its size, beyond that
MAX_PIXELS = 1 << 26  # of one image
_BLOCK, _OVERLAP = 1 << 25, 1 << 16  # bytes of content in memory at a time
_HEAD, _PROBE, _STEP = 512, 64, 1 << 16
_ROWS = 256  # of a table at a time
_LARGE = 1 << 12  # bytes of a cell that is known again

_GZIP = b"\x1f\x8b\x08"  # RFC 1952
_STREAMS = (re.compile(rb"x[\x01\x5e\x9c\xda]"), re.compile(_GZIP))  # of RFC 1950 the first
_ZIP_DAMAGED = "a zip archive that is damaged or encrypted"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes to be searched, or the digest of an image's pixels."""

    data: bytes
    pixels: str = ""
    again: bool = False  # what another piece holds in another order: no identifier is new in it


Piece = Chunk | Unreadable


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What may be unpacked yet: ``left`` is a single number, and ``read`` the digests of the large
    cells that were read already, which all inside a file share."""

    left: list[int]
    read: set[bytes] = field(default_factory=set)
    depth: int = 0

    def deeper(self) -> _Bounds:
        if self.depth >= MAX_DEPTH:
            raise Unreadable(f"wrapped more than {MAX_DEPTH} deep")
        return replace(self, depth=self.depth + 1)

    def is_new(self, cell: bytes) -> bool:
        """Report if a cell was not read yet: a released picture stands in two columns. Small cells
        count as new, so that very many need no memory."""
        if len(cell) < _LARGE:
            return True
        before = len(self.read)
        self.read.add(hashlib.sha256(cell).digest())
        return len(self.read) > before

    def spend(self, size: int) -> None:
        self.left[0] -= size
        if self.left[0] < 0:
            raise Unreadable("expands too far: not all of it was read")


Opened = Callable[[IO[bytes], _Bounds], Iterator[Piece]]


def pieces(file: IO[bytes]) -> Iterator[Piece]:
    """The bytes of a file, in blocks that overlap, then all that is found inside them."""
    size = file.seek(0, io.SEEK_END)
    return _pieces(file, _Bounds([MAX_EXPANDED_BYTES + MAX_EXPANSION * size]))


def pixel_digest(data: bytes) -> str:
    """SHA-256 of an image's size and pixels as RGBA: the same however it is encoded.
    Raises Unreadable."""
    try:
        return next(_frames(io.BytesIO(data), [], _Bounds([MAX_EXPANDED_BYTES])))
    except Exception as error:  # as in _guarded
        raise Unreadable("a damaged image") from error


def _pieces(file: IO[bytes], bounds: _Bounds) -> Iterator[Piece]:
    read_to = 0  # where the last compressed stream ends
    head = b""
    for at, block, more in _blocks(file):
        head = head or block[:_HEAD]
        if block.startswith(b"\0") and not block.strip(b"\0"):  # a hole, say
            block = block[:_OVERLAP]
        yield Chunk(block)
        yield from _in_text(block, bounds)
        if more and _goes_on(block, at == 0):
            yield Unreadable(f"JSON of more than {_BLOCK} bytes is read as plain text only")
        for start in _streams(block):
            if at + start >= read_to:
                read_to = yield from _inflated(file, at + start, bounds)
    for opened, damaged in list(_openers(head, file)):  # before one of them closes the file
        file.seek(0)
        yield from _guarded(opened(file, bounds), damaged)


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


def _openers(head: bytes, file: IO[bytes]) -> Iterator[tuple[Opened, str]]:
    """What opens the formats that content claims, and what is said if it cannot."""
    for pattern, opened, damaged in _FORMATS:
        if re.match(pattern, head, re.DOTALL):
            yield opened, damaged
    if not head.startswith(b"PK\3\4") and zipfile.is_zipfile(file):
        yield _zip, _ZIP_DAMAGED
    with contextlib.suppress(tarfile.HeaderError):
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
        yield _tar, "a damaged tar archive"


def _guarded(items: Iterator[Piece], damaged: str) -> Iterator[Piece]:
    """The items; and Unreadable if they cannot be had, whatever a library raises for content that
    is damaged."""
    try:
        yield from items
    except Unreadable as reason:
        yield reason
    except Exception:
        yield Unreadable(damaged)


def _expanded(blocks: Iterable[bytes], bounds: _Bounds) -> Iterator[Piece]:
    """The pieces of content that is unpacked in blocks. If that fails, those of what could be
    unpacked; then the error is raised."""
    failed: Exception | None = None
    with tempfile.SpooledTemporaryFile(max_size=_BLOCK) as content:
        try:
            for block in blocks:
                bounds.spend(len(block))
                content.write(block)
                if content.tell() > MAX_MEMBER_BYTES:
                    raise Unreadable(f"expands to more than {MAX_MEMBER_BYTES} bytes")
        except Exception as error:
            failed = error
        if content.tell() >= SHORTEST_KNOWN:
            yield from _pieces(content, bounds.deeper())
    if failed is not None:
        raise failed


def _read_on(stream: IO[bytes]) -> Iterator[bytes]:
    return iter(functools.partial(stream.read, _STEP), b"")


# -- containers ----------------------------------------------------------------------------


def _streams(block: bytes) -> Iterator[int]:
    """Where zlib and gzip streams may begin: something, at least, can be read there."""
    for found in heapq.merge(*(each.finditer(block) for each in _STREAMS), key=re.Match.start):
        with contextlib.suppress(zlib.error):
            start = found.start()
            zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(block[start : start + _PROBE])
            yield start


def _inflated(file: IO[bytes], start: int, bounds: _Bounds) -> Generator[Piece, None, int]:
    """The zlib or gzip stream that begins there, and as return value where it ends: objects and
    packs of Git, PDF, HDF5. What only looks like the beginning of one is passed over, but for gzip
    at the beginning of a file; what can be read of a cut one is searched."""
    file.seek(start)
    stream = zlib.decompressobj(zlib.MAX_WBITS | 32)
    yield from _guarded(_expanded(_inflate(file, stream), bounds), "a damaged compressed stream")
    if stream.eof:
        return file.tell() - len(stream.unused_data)
    file.seek(start)
    if start == 0 and file.read(len(_GZIP)) == _GZIP:
        yield Unreadable("a damaged compressed stream")
    return start + 1


def _inflate(file: IO[bytes], stream: Any) -> Iterator[bytes]:
    rest = file.read(_HEAD)
    with contextlib.suppress(zlib.error):
        while rest and not stream.eof:
            yield stream.decompress(rest, _STEP)
            rest = stream.unconsumed_tail or (b"" if stream.eof else file.read(_STEP))
        yield stream.flush()


def _zip(file: IO[bytes], bounds: _Bounds) -> Iterator[Piece]:
    with zipfile.ZipFile(file) as archive:
        yield Chunk(archive.comment)
        members = archive.infolist()
        file.seek(0)
        if file.read(4) == b"PK\3\4" and min(m.header_offset for m in members) > 0:
            yield Unreadable("a zip archive with members that it does not list")
        for member in members:
            yield Chunk(member.filename.encode("utf-8", "replace") + b"\n" + member.comment)
            yield from _guarded(_compressed(archive.open)(member, bounds), _ZIP_DAMAGED)


def _tar(file: IO[bytes], bounds: _Bounds) -> Iterator[Piece]:
    with tarfile.open(fileobj=file, mode="r:", ignore_zeros=True) as archive:
        for member in archive:
            archive.members = []  # type: ignore[attr-defined]  # which it would keep
            text = f"{member.name}\n{member.linkname}\n{member.pax_headers}"
            yield Chunk(text.encode("utf-8", "surrogateescape"))
            linked = member.issym() or member.islnk()
            stream = None if linked else archive.extractfile(member)
            if stream is not None:
                yield from _guarded(_expanded(_read_on(stream), bounds), "a damaged tar archive")


def _compressed(opened: Callable[[Any], Any]) -> Callable[[Any, _Bounds], Iterator[Piece]]:
    def inner(file: Any, bounds: _Bounds) -> Iterator[Piece]:
        with opened(file) as stream:
            yield from _expanded(_read_on(stream), bounds)

    return inner


def _by_arrow(codec: str) -> Opened:
    def opened(file: IO[bytes]) -> Any:
        import pyarrow as pa

        return pa.CompressedInputStream(pa.PythonFile(file), codec)

    return _compressed(opened)


def _sealed(file: IO[bytes], bounds: _Bounds) -> Iterator[Piece]:
    raise Unreadable("an archive or table that this check cannot open")
    yield  # pragma: no cover


def _parquet(file: IO[bytes], bounds: _Bounds) -> Iterator[Piece]:
    import pyarrow.parquet as pq

    table = pq.ParquetFile(file)
    for group in range(table.metadata.num_row_groups):
        bounds.spend(max(0, table.metadata.row_group(group).total_byte_size))
    yield from _table(table.schema_arrow, table.iter_batches(batch_size=_ROWS), bounds)


def _arrow_file(file: IO[bytes], bounds: _Bounds) -> Iterator[Piece]:
    import pyarrow as pa

    reader = pa.ipc.open_file(file)
    batches = map(reader.get_batch, range(reader.num_record_batches))
    yield from _table(reader.schema, batches, bounds)


def _arrow_stream(file: IO[bytes], bounds: _Bounds) -> Iterator[Piece]:
    import pyarrow as pa

    try:
        reader = pa.ipc.open_stream(file)
    except (pa.ArrowException, OSError):
        return  # other content that begins so
    yield from _table(reader.schema, reader, bounds)


def _table(schema: Any, batches: Iterable[Any], bounds: _Bounds) -> Iterator[Piece]:
    yield Chunk("\n".join(schema.names).encode())
    for key, value in (schema.metadata or {}).items():
        yield Chunk(key + b"\n" + value)
    for column in chain.from_iterable(batch.columns for batch in batches):
        rows = max(1, len(column) * _BLOCK // (column.nbytes + 1))
        for at in range(0, len(column), rows):
            yield from _values(column.slice(at, rows).to_pylist(), bounds.deeper())


def _values(values: Any, bounds: _Bounds) -> Iterator[Piece]:
    """The leaves of nested values: strings and numbers as one text, and bytes on their own."""
    plain: list[str] = []
    for leaf in _leaves(values):
        if not isinstance(leaf, bytes):
            plain.append(leaf)
        elif bounds.is_new(leaf):
            yield from _pieces(io.BytesIO(leaf), bounds)
    text = SEPARATOR.join(plain).encode("utf-8", "surrogatepass")
    yield from _pieces(io.BytesIO(text), bounds)


def _leaves(value: Any) -> Iterator[bytes | str]:
    """Strings and bytes as they are; runs of numbers joined by commas, and as bytes where they
    could be bytes."""
    if isinstance(value, bytes | str):
        yield value
    elif isinstance(value, dict):
        yield from _leaves(list(value))
        yield from _leaves(list(value.values()))
    elif isinstance(value, list | tuple):
        numbers = [item for item in value if isinstance(item, int | float)]
        if numbers:
            yield json.dumps(numbers)[1:-1]
        if (as_bytes := _as_bytes(numbers)) is not None:
            yield as_bytes
        for item in value:
            if not isinstance(item, int | float):
                yield from _leaves(item)
    elif value is not None:
        yield str(value)


def _as_bytes(numbers: list[int | float]) -> bytes | None:
    small = [number for number in numbers if type(number) is int and 0 <= number < 256]
    return bytes(small) if len(small) == len(numbers) >= SHORTEST_RUN else None


# -- images and text -----------------------------------------------------------------------


def _image(file: IO[bytes], bounds: _Bounds) -> Iterator[Piece]:
    texts: list[Any] = []
    for digest in _frames(file, texts, bounds):
        yield Chunk(b"", pixels=digest)
    yield from _values(texts, bounds.deeper())


def _frames(file: IO[bytes], texts: list[Any], bounds: _Bounds) -> Iterator[str]:
    """The digest of each frame; the texts that the file holds beside are added to the list."""
    from PIL import Image, ImageSequence

    with Image.open(file) as image:
        for frame in ImageSequence.Iterator(image):
            if frame.width * frame.height > MAX_PIXELS:
                raise Unreadable(f"an image of more than {MAX_PIXELS} pixels")
            bounds.spend(4 * frame.width * frame.height)
            deep = frame.mode in ("F", "I") or frame.mode.startswith("I;")
            plain = frame if deep else frame.convert("RGBA")
            head = f"{plain.mode} {plain.width}x{plain.height}\n".encode()
            yield hashlib.sha256(head + plain.tobytes()).hexdigest()
        texts += [text for text in image.info.values() if isinstance(text, str | bytes)]


def _in_text(data: bytes, bounds: _Bounds) -> Iterator[Piece]:
    """JSON documents (one, or one a line), other encodings, spellings and what is coded in them."""
    text = readable(data)
    for canonical in canonical_json(text):
        yield canonical if isinstance(canonical, Unreadable) else Chunk(canonical, again=True)
    for spelled in spellings(text):
        if spelled is not data:
            yield Chunk(spelled)
        for content in coded_bytes(spelled, _ANNOUNCED):
            yield from _guarded(_expanded([content], bounds), "coded content")


def _goes_on(block: bytes, first: bool) -> bool:
    """Report if a JSON document begins in a block, with the first or the last line of it, and ends
    behind it."""
    last = block[block.rfind(b"\n") + 1 :]
    return (first and is_cut_document(block.partition(b"\n")[0])) or is_cut_document(last)


_STREAM_DAMAGED = "a damaged compressed stream"
# What is known by its first bytes.
_FORMATS: tuple[tuple[bytes, Opened, str], ...] = (
    (rb"PAR1", _parquet, "a damaged Parquet file"),
    (rb"ARROW1", _arrow_file, "a damaged Arrow file"),
    (rb"\xff{4}", _arrow_stream, "a damaged Arrow file"),
    (rb"PK\x03\x04", _zip, _ZIP_DAMAGED),
    (rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)", _compressed(bz2.open), _STREAM_DAMAGED),
    (rb"\xfd7zXZ\0", _compressed(lzma.open), _STREAM_DAMAGED),
    (rb"\x28\xb5\x2f\xfd", _by_arrow("zstd"), _STREAM_DAMAGED),
    (rb"\x04\x22\x4d\x18", _by_arrow("lz4"), _STREAM_DAMAGED),
    (rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|BM.{4}\0{4}", _image, "a damaged image"),
    (rb"II\*\0|MM\0\*|RIFF.{4}WEBP", _image, "a damaged image"),
    (rb"7z\xbc\xaf\x27\x1c|Rar!\x1a\x07|(?:PARE|FEA1|ORC)[^ -~]", _sealed, ""),
)
_ANNOUNCED = re.compile(
    b"|".join([pattern for pattern, _, _ in _FORMATS] + [each.pattern for each in _STREAMS]),
    re.DOTALL,
)
