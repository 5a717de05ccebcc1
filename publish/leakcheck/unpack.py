"""Content of a file, however it is wrapped: the pieces that a leak check must read.

Parquet and Arrow cells, archive members, compressed streams, JSON documents, base64 and
images are opened, one inside the other, to a bounded depth and size. Content that announces
itself as one of these and cannot be opened is not passed over: it raises Unreadable.
"""

from __future__ import annotations

import base64
import bz2
import gzip
import hashlib
import html
import io
import json
import lzma
import quopri
import re
import tarfile
import urllib.parse
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import IO, Any

MAX_DEPTH = 8
MAX_MEMBER_BYTES = 1 << 30
WORTH_OPENING = 16  # a shorter string holds nothing that could be found in it
# Between cells that are read as one text; no pattern that is looked for contains it.
SEPARATOR = "\x1f"

_BASE64_RUN = re.compile(rb"[A-Za-z0-9+/_-]{16,}")
_HEXADECIMAL = re.compile(rb"[0-9a-fA-F]+")
_STANDARD_ALPHABET = bytes.maketrans(b"-_", b"+/")
_LINE_BREAK_IN_BASE64 = re.compile(rb"\n(?<=[A-Za-z0-9+/_-]{60}\n)(?=[A-Za-z0-9+/_-])")
_LONG_HEXADECIMAL = re.compile(rb"[0-9a-fA-F]{130,}")  # longer than SHA-512 in figures
_BASE32_RUN = re.compile(rb"[A-Z2-7]{40,}|[a-z2-7]{40,}")
_PERCENT = re.compile(rb"(?:%[0-9a-fA-F]{2}[^%\s]{0,3}){4}")
_ESCAPE = re.compile(rb"\\(?:u00|x)([0-9a-fA-F]{2})")
_TAG = re.compile(rb"<[^<>]{0,400}>")
_STREAM = re.compile(rb"x[\x01\x5e\x9c\xda]|\x1f\x8b\x08")  # RFC 1950, RFC 1952
_STEP = 1 << 16
_IMAGES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*")


class Unreadable(Exception):  # noqa: N818 - says what the content is
    """Content that claims a format it cannot be opened as. The message quotes none of it."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes to be searched, or the digest of an image's pixels."""

    data: bytes
    pixels: str = ""


def pieces(data: bytes, depth: int = 0) -> Iterator[Chunk]:
    """The bytes themselves, then all that is found inside them. Raises Unreadable."""
    yield Chunk(data)
    for recognises, opened in _OPENERS:
        if recognises(data):
            yield from opened(data, _deeper(depth))
    yield from _embedded(data, depth)
    yield from _in_text(data, depth)


def _deeper(depth: int) -> int:
    if depth >= MAX_DEPTH:
        raise Unreadable(f"wrapped more than {MAX_DEPTH} deep")
    return depth + 1


def pixel_digest(data: bytes) -> str:
    """SHA-256 of an image's size and pixels as RGBA: the same however it is encoded.
    Raises Unreadable."""
    return next(_frames(data, []))


# -- containers ----------------------------------------------------------------------------


def _zip(data: bytes, depth: int) -> Iterator[Chunk]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield Chunk(archive.comment)
            for member in archive.infolist():
                yield Chunk(member.filename.encode() + b"\n" + member.comment)
                if not member.is_dir():
                    with archive.open(member) as stream:
                        yield from pieces(_bounded(stream), depth)
    except (zipfile.BadZipFile, RuntimeError, ValueError, EOFError, OSError, zlib.error) as error:
        raise Unreadable("a zip archive that is damaged or encrypted") from error


def _tar(data: bytes, depth: int) -> Iterator[Chunk]:
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                yield Chunk(f"{member.name}\n{member.linkname}\n{member.pax_headers}".encode())
                stream = archive.extractfile(member) if member.isfile() else None
                if stream is not None:
                    yield from pieces(_bounded(stream), depth)
    except (tarfile.TarError, EOFError) as error:
        raise Unreadable("a damaged tar archive") from error


def _compressed(opened: Callable[[IO[bytes]], Any]) -> Callable[[bytes, int], Iterator[Chunk]]:
    def inner(data: bytes, depth: int) -> Iterator[Chunk]:
        try:
            with opened(io.BytesIO(data)) as stream:
                content = _bounded(stream)
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise Unreadable("a damaged compressed stream") from error
        yield from pieces(content, depth)

    return inner


def _by_arrow(codec: str) -> Callable[[bytes, int], Iterator[Chunk]]:
    def inner(data: bytes, depth: int) -> Iterator[Chunk]:
        import pyarrow as pa

        try:
            with pa.input_stream(pa.py_buffer(data), compression=codec) as stream:
                content = _bounded(stream)
        except (pa.ArrowException, OSError) as error:
            raise Unreadable("a damaged compressed stream") from error
        yield from pieces(content, depth)

    return inner


def _sealed_archive(data: bytes, depth: int) -> Iterator[Chunk]:
    raise Unreadable("an archive that this check cannot open (7z or RAR)")
    yield  # pragma: no cover


def _embedded(data: bytes, depth: int) -> Iterator[Chunk]:
    """The zlib and gzip streams anywhere in bytes: objects and packs of Git, PDF, HDF5. What only
    looks like the beginning of one is passed over; what can be read of a cut one is searched."""
    if data.startswith(b"\x1f\x8b\x08"):
        return  # opened whole
    at = max(0, data.rfind(b"IEND")) if data.startswith(_IMAGES[0]) else 0  # its pixels are read
    while (found := _STREAM.search(data, at)) is not None:
        at = found.start() + 1
        stream = zlib.decompressobj(zlib.MAX_WBITS | 32)
        plain, rest = bytearray(), memoryview(data)[found.start() :]
        try:
            while rest and not stream.eof:
                plain += stream.decompress(bytes(rest[:_STEP]))
                rest = rest[_STEP:]
                if len(plain) > MAX_MEMBER_BYTES:
                    raise Unreadable(f"expands to more than {MAX_MEMBER_BYTES} bytes")
        except zlib.error:
            if len(plain) < WORTH_OPENING:
                continue
        if stream.eof:
            at = len(data) - len(rest) - len(stream.unused_data)
        if len(plain) >= WORTH_OPENING:
            yield from pieces(bytes(plain), _deeper(depth))


def _bounded(stream: IO[bytes]) -> bytes:
    content = stream.read(MAX_MEMBER_BYTES + 1)
    if len(content) > MAX_MEMBER_BYTES:
        raise Unreadable(f"expands to more than {MAX_MEMBER_BYTES} bytes")
    return content


def _parquet(data: bytes, depth: int) -> Iterator[Chunk]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(io.BytesIO(data))
        yield from _table(file.schema_arrow, file.iter_batches(batch_size=256), depth)
    except pa.ArrowException as error:
        raise Unreadable("a damaged Parquet file") from error


def _arrow(data: bytes, depth: int) -> Iterator[Chunk]:
    import pyarrow as pa

    try:
        reader = pa.ipc.open_file(io.BytesIO(data))
        batches = map(reader.get_batch, range(reader.num_record_batches))
        yield from _table(reader.schema, batches, depth)
    except pa.ArrowException as error:
        raise Unreadable("a damaged Arrow file") from error


def _table(schema: Any, batches: Iterable[Any], depth: int) -> Iterator[Chunk]:
    yield Chunk("\n".join(schema.names).encode())
    for key, value in (schema.metadata or {}).items():
        yield Chunk(key + b"\n" + value)
    for column in chain.from_iterable(batch.columns for batch in batches):
        yield from _values(column.to_pylist(), depth)


def _values(values: Any, depth: int) -> Iterator[Chunk]:
    """The leaves of nested values: strings and numbers as one text, and each leaf that may
    hold something more on its own."""
    plain: list[str] = []
    for leaf in _leaves(values):
        if isinstance(leaf, bytes):
            yield from pieces(leaf, depth)
        elif isinstance(leaf, str):
            plain.append(leaf)
            if len(leaf) >= WORTH_OPENING:
                yield from _in_text(leaf.encode(), depth)
    yield Chunk(SEPARATOR.join(plain).encode("utf-8", "surrogatepass"))


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
            yield ",".join(map(json.dumps, numbers))
        if (as_bytes := _as_bytes(numbers)) is not None:
            yield as_bytes
        for item in value:
            if not isinstance(item, int | float):
                yield from _leaves(item)
    elif value is not None:
        yield str(value)


def _as_bytes(numbers: list[int | float]) -> bytes | None:
    small = [number for number in numbers if type(number) is int and 0 <= number < 256]
    return bytes(small) if len(small) == len(numbers) >= WORTH_OPENING else None


# -- images --------------------------------------------------------------------------------


def _image(data: bytes, depth: int) -> Iterator[Chunk]:
    texts: list[Any] = []
    for digest in _frames(data, texts):
        yield Chunk(b"", pixels=digest)
    yield from _values(texts, depth)


def _frames(data: bytes, texts: list[Any]) -> Iterator[str]:
    """The digest of each frame; the texts that the file holds beside are added to the list."""
    from PIL import Image, ImageSequence

    try:
        with Image.open(io.BytesIO(data)) as image:
            for frame in ImageSequence.Iterator(image):
                deep = frame.mode in ("F", "I") or frame.mode.startswith("I;")
                plain = frame if deep else frame.convert("RGBA")
                head = f"{plain.mode} {plain.width}x{plain.height}\n".encode()
                yield hashlib.sha256(head + plain.tobytes()).hexdigest()
            texts += [text for text in image.info.values() if isinstance(text, str | bytes)]
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise Unreadable("a damaged image") from error


def _is_image(data: bytes) -> bool:
    webp = data[:4] == b"RIFF" and data[8:12] == b"WEBP"
    return webp or (data.startswith(_IMAGES) and (data[:2] != b"BM" or data[6:10] == b"\0" * 4))


# -- text ----------------------------------------------------------------------------------


def _in_text(data: bytes, depth: int) -> Iterator[Chunk]:
    """JSON documents (one, or one a line), HTML entities, other encodings, base64."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        yield Chunk(data.decode("utf-16", "replace").encode())
    if b"&#" in data or b"&quot;" in data:
        yield Chunk(html.unescape(data.decode("utf-8", "replace")).encode())
    for value in _json_documents(data):
        yield Chunk(canonical_text(value).encode("utf-8", "surrogatepass"))
        yield from _values(value, _deeper(depth))
    for chunk in _decoded(data):
        yield Chunk(chunk)
    small: list[bytes] = []
    for run in _base64_runs(data):
        if any(r(run) for r, _ in _OPENERS) or _BASE64_RUN.search(run) or _STREAM.search(run):
            yield from pieces(run, _deeper(depth))
        else:
            small.append(run)
    if small:
        yield Chunk(SEPARATOR.encode().join(small))


def _decoded(data: bytes) -> Iterator[bytes]:
    """The text without escapes, percent signs, quoted-printable and tags, for each that it has."""
    if _ESCAPE.search(data):
        yield _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), data)
    if b"%" in data and _PERCENT.search(data):
        yield urllib.parse.unquote_to_bytes(data)
    if b"=\n" in data or b"=\r\n" in data or data.count(b"=3D"):
        yield quopri.decodestring(data)
    if b"</" in data or b"/>" in data:
        yield _TAG.sub(b"", data)


def _json_documents(data: bytes) -> Iterable[Any]:
    if data.lstrip()[:1] not in (b"{", b"[", b'"'):
        return []
    try:
        return [json.loads(data)]
    except (ValueError, RecursionError):
        return list(_json_lines(data))


def _json_lines(data: bytes) -> Iterator[Any]:
    for line in data.splitlines():
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            continue


def canonical_text(value: Any) -> str:
    """JSON with sorted keys and no spaces: one spelling whatever order it was written in."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _base64_runs(data: bytes) -> Iterator[bytes]:
    """Decode runs of base64, base32 and long hexadecimal; line breaks inside are closed."""
    lines = data.replace(b"\r\n", b"\n")
    for run in _BASE64_RUN.findall(_LINE_BREAK_IN_BASE64.sub(b"", lines)):
        for found in _LONG_HEXADECIMAL.findall(run):
            yield bytes.fromhex(found[: len(found) // 2 * 2].decode())
        for found in _BASE32_RUN.findall(run):
            yield base64.b32decode(found[: len(found) // 8 * 8].upper())
        if _HEXADECIMAL.fullmatch(run):
            continue
        whole = run.translate(_STANDARD_ALPHABET)
        whole = whole[:-1] if len(whole) % 4 == 1 else whole
        yield base64.b64decode(whole + b"=" * (-len(whole) % 4))


_OPENERS: tuple[tuple[Callable[[bytes], bool], Callable[[bytes, int], Iterator[Chunk]]], ...] = (
    (lambda data: data[:4] == b"PAR1" and data[-4:] == b"PAR1", _parquet),
    (lambda data: data.startswith(b"ARROW1"), _arrow),
    (lambda data: zipfile.is_zipfile(io.BytesIO(data)), _zip),
    (lambda data: data[257:262] == b"ustar", _tar),
    (lambda data: data.startswith(b"\x1f\x8b\x08"), _compressed(gzip.open)),
    (lambda data: data.startswith(b"BZh"), _compressed(bz2.open)),
    (lambda data: data.startswith(b"\xfd7zXZ\0"), _compressed(lzma.open)),
    (_is_image, _image),
    (lambda data: data.startswith(b"\x28\xb5\x2f\xfd"), _by_arrow("zstd")),
    (lambda data: data.startswith(b"\x04\x22\x4d\x18"), _by_arrow("lz4")),
    (lambda data: data.startswith((b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07")), _sealed_archive),
)
