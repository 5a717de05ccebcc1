"""Untrusted text, made safe to print: no part of it reaches a terminal as a command."""

from __future__ import annotations

from collections.abc import Iterator
from unicodedata import category

from rich.cells import cell_len, chop_cells

_TAB = 4


def neutralise(text: str) -> str:
    """Return the text with every control, format, private and unassigned character as an escape
    such as ``\\x1b``: also carriage returns, bidirectional overrides and zero-width characters,
    which make a line look like another. Newlines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(map(_escape, text))


def _escape(char: str) -> str:
    if char.isprintable() or char in "\n\t" or category(char) == "Zs":
        return char
    code = ord(char)
    if code < 0x100:
        return "\\r" if char == "\r" else f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def fold_lines(text: str, width: int) -> Iterator[tuple[bool, str]]:
    """Yield the neutralised text in pieces of at most ``width`` cells, broken after a space if one
    is near; True with each that begins a line, so that a piece of a long line cannot pass for a
    line of the program."""
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
    """Return a short text such as a name: neutralised, newlines too, and cut to ``most``."""
    plain = neutralise(text).replace("\n", "\\n").replace("\t", "\\t")
    return plain if len(plain) <= most else plain[: most - 1] + "…"
