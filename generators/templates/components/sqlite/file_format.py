"""Writing SQLite database files, byte by byte, as https://www.sqlite.org/fileformat2.html says.

The library would write them too, but which pages it uses and what its header holds changes with
its version and how it was built; these bytes depend on nothing but the rows.
Only what the generator needs is here: tables of rows numbered from 1, in order, no index.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, count
from struct import pack
from typing import Any

PAGE = 4096
_INTERIOR, _LEAF = 0x05, 0x0D
_HEADER = 100  # bytes before the first page's own header
_MOST_LOCAL = PAGE - 35  # bytes of a row that a leaf holds before the rest overflows
_LEAST_LOCAL = (PAGE - 12) * 32 // 255 - 23
_MOST_CHILDREN = 250  # of an interior page; at most 15 bytes each
# SQLite version that the file names as its last writer. Readers ignore it; it must never change.
_VERSION = 3_040_001

_ONE_BYTE = [bytes((value,)) for value in range(128)]
Encoded = tuple[Sequence[int], Sequence[bytes]]  # kinds and bytes of a column's values

# Whole numbers: their kind, their bytes, and how they are packed.
_WIDTHS = ((1, 1, "b"), (2, 2, "h"), (4, 4, "i"), (6, 8, "q"))


def varint(value: int) -> bytes:
    """A number as SQLite writes those of varying length, seven bits a byte."""
    if value < 128:
        return _ONE_BYTE[value]
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(0x80 | value & 0x7F)
    return bytes(reversed(groups))


def encoded(values: Sequence[Any]) -> Encoded:
    """The kinds (serial types) and the bytes of a column's values: text, numbers or null.

    Whole numbers take the width that the column's greatest needs.
    """
    types = set(map(type, values))
    if len(types) > 1:  # numbers of a whole-number column that are not whole, say
        apart = [encoded([value]) for value in values]
        return [kind for (kind,), _ in apart], [body for _, (body,) in apart]
    if types == {str}:
        bodies = [value.encode() for value in values]
        return [13 + 2 * len(body) for body in bodies], bodies
    if types == {float}:
        return _packed(7, 8, "d", values)
    if types == {int}:
        low, high = min(values), max(values)
        return _packed(*next(width for width in _WIDTHS if _fits(low, high, width[1])), values)
    return nothing(len(values))


def nothing(rows: int) -> Encoded:
    """This number of nulls, which also stand in place of a row's own number."""
    return [0] * rows, [b""] * rows


def _fits(low: int, high: int, width: int) -> bool:
    bound = 1 << 8 * width - 1
    return -bound <= low and high < bound


def _packed(kind: int, width: int, code: str, values: Sequence[Any]) -> Encoded:
    raw = pack(f">{len(values)}{code}", *values)
    return [kind] * len(values), [raw[at : at + width] for at in range(0, len(raw), width)]


def _records(columns: Sequence[Encoded]) -> list[bytes]:
    """The rows that encoded columns make: a header of kinds before each one's bytes."""
    heads = zip(*(kinds for kinds, _ in columns), strict=True)
    rows = zip(*(bodies for _, bodies in columns), strict=True)
    return [_head(head) + b"".join(row) for head, row in zip(heads, rows, strict=True)]


def _head(kinds: Sequence[int]) -> bytes:
    if len(kinds) < 127 and max(kinds) < 128:  # each takes one byte
        return bytes((len(kinds) + 1, *kinds))
    head = b"".join(map(varint, kinds))
    length = len(head) + 1
    while len(head) + len(varint(length)) != length:
        length = len(head) + len(varint(length))
    return varint(length) + head


class Pages:
    """A database file as it grows, page by page. Mutable: each table moves it on."""

    def __init__(self, pages: Iterable[bytes] = (b"",)) -> None:
        self._pages = list(pages)  # the first holds the header and sqlite_schema

    def reserve(self) -> int:
        """The number of a page to be written later."""
        self._pages.append(b"")
        return len(self._pages)

    def copy(self) -> Pages:
        """The same pages, to be gone on with apart."""
        return Pages(self._pages)

    def table(self, root: int, columns: Sequence[Encoded]) -> None:
        """Writes a table's rows, numbered from 1, below its root page."""
        before = _HEADER if root == 1 else 0
        leaves = _leaves(self._cells(_records(columns)), before)
        if len(leaves) == 1:
            self._write(root, _page(_LEAF, leaves[0], b"", before))
            return
        children, last = [], 0
        for cells in leaves:
            page = self.reserve()
            self._write(page, _page(_LEAF, cells, b"", 0))
            last += len(cells)
            children.append((page, last))
        while len(children) > _MOST_CHILDREN:
            children = [self._interior(group) for group in _even(children)]
        self._write(root, _interior(children, before))

    def database(self) -> bytes:
        """The whole file."""
        fixed = pack(
            ">16sHBBBBBBIIIIIIIIIIII20xII",
            b"SQLite format 3\0",
            PAGE,
            *(1, 1, 0, 64, 32, 32),  # rollback journal; nothing reserved; fixed fractions
            *(1, len(self._pages), 0, 0),  # change counter, pages, free pages: none
            *(1, 4, 0, 0, 1, 0, 0, 0),  # schema's change counter and format; UTF-8
            *(1, _VERSION),  # the change counter again
        )
        return b"".join((fixed, self._pages[0][_HEADER:], *self._pages[1:]))

    def _write(self, page: int, data: bytes) -> None:
        self._pages[page - 1] = data

    def _interior(self, children: Sequence[tuple[int, int]]) -> tuple[int, int]:
        page = self.reserve()
        self._write(page, _interior(children, 0))
        return page, children[-1][1]

    def _cells(self, rows: Sequence[bytes]) -> list[bytes]:
        return [
            varint(len(row))
            + varint(number)
            + (row if len(row) <= _MOST_LOCAL else self._spilt(row))
            for number, row in zip(count(1), rows)
        ]

    def _spilt(self, row: bytes) -> bytes:
        """A row too long for a leaf: the part that stays there, and the first page of the rest."""
        fits = _LEAST_LOCAL + (len(row) - _LEAST_LOCAL) % (PAGE - 4)
        local = fits if fits <= _MOST_LOCAL else _LEAST_LOCAL
        parts = [row[at : at + PAGE - 4] for at in range(local, len(row), PAGE - 4)]
        pages = [self.reserve() for _ in parts]
        for page, following, part in zip(pages, (*pages[1:], 0), parts, strict=True):
            self._write(page, (pack(">I", following) + part).ljust(PAGE, b"\0"))
        return row[:local] + pack(">I", pages[0])


def _leaves(cells: list[bytes], before: int) -> list[list[bytes]]:
    """The cells, in order, in as few pages as hold them."""
    if sum(map(len, cells)) + 2 * len(cells) <= PAGE - 8 - before:
        return [cells]
    leaves: list[list[bytes]] = [[]]
    left = room = PAGE - 8
    for cell in cells:
        if len(cell) + 2 > left:
            leaves.append([])
            left = room
        leaves[-1].append(cell)
        left -= len(cell) + 2
    return leaves


def _interior(children: Sequence[tuple[int, int]], before: int) -> bytes:
    cells = [pack(">I", page) + varint(last) for page, last in children[:-1]]
    return _page(_INTERIOR, cells, pack(">I", children[-1][0]), before)


def _page(kind: int, cells: Sequence[bytes], rightmost: bytes, before: int) -> bytes:
    """A page with its cells at the end, the first one last, and pointers to them at the start."""
    ends = list(accumulate(map(len, cells)))
    pointers = pack(f">{len(ends)}H", *(PAGE - end for end in ends))
    place = PAGE - (ends[-1] if ends else 0)
    head = pack(f">BHHHB{len(rightmost)}s", kind, 0, len(cells), place, 0, rightmost)
    return b"".join(((bytes(before) + head + pointers).ljust(place, b"\0"), *cells[::-1]))


def _even(children: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """The children in groups of much the same size, none above the most that a page takes."""
    groups = -(-len(children) // _MOST_CHILDREN)
    bounds = [len(children) * index // groups for index in range(groups + 1)]
    return [children[bounds[index] : bounds[index + 1]] for index in range(groups)]
