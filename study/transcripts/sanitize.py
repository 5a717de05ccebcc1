"""Text of strangers, made safe to print: nothing in it reaches a terminal as a command."""

from __future__ import annotations

from collections.abc import Iterator
from unicodedata import category

from rich.cells import cell_len, chop_cells

_TAB = 4


def neutralise(text: str) -> str:
    """The text with every control, format, private and unassigned character as an escape such
    as ``\\x1b``: also carriage returns, bidirectional overrides and zero-width characters, which
    make a line look like another. Newlines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(map(_visible, text))


def _visible(char: str) -> str:
    if char.isprintable() or char in "\n\t" or category(char) == "Zs":
        return char
    code = ord(char)
    if code < 0x100:
        return "\\r" if char == "\r" else f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def fold_lines(text: str, width: int) -> Iterator[tuple[bool, str]]:
    """The neutralised text in pieces of at most ``width`` cells, broken after a space where one
    is near; True with each that begins a line. So no piece of a long line can pass for a line
    of ours."""
    for line in neutralise(text).split("\n"):
        begins = True
        for piece in _pieces(line.expandtabs(_TAB), max(width, 8)):
            yield begins, piece
            begins = False


def _pieces(line: str, width: int) -> Iterator[str]:
    at = 0
    while len(line) - at > width or cell_len(line[at:]) > width:
        piece = chop_cells(line[at : at + width], width)[0]
        space = piece.rfind(" ") + 1
        piece = piece[:space] if space > len(piece) // 2 else piece
        yield piece
        at += len(piece)
    yield line[at:]


def on_one_line(text: str, most: int = 200) -> str:
    """A name or the like: neutralised, newlines too, and cut."""
    plain = neutralise(text).replace("\n", "\\n").replace("\t", "\\t")
    return plain if len(plain) <= most else plain[: most - 1] + "…"
