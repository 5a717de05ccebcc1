"""Lines and words of a text file.

Lines end with ``\\n``, ``\\r\\n`` or ``\\r`` and nothing else; words stand between white space and
keep their punctuation. Both are counted from 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from generators.errors import TemplateError
from generators.templates.functions.base import Function, OpenFile, table_of
from generators.templates.functions.numbers import to_index


def file_line(arguments: Sequence[str], file: OpenFile) -> str:
    """The Nth line, without its end."""
    return _nth(file.lines, arguments[0], "line")


def file_word(arguments: Sequence[str], file: OpenFile) -> str:
    """The Nth word of the whole file."""
    index = to_index(arguments[0], "the word number")
    # One split more than is wanted, so that the word has its end; the rest is not split.
    pieces = file.text.split(maxsplit=index)
    return _nth(pieces if 1 <= index <= len(pieces) else file.words, arguments[0], "word")


def _nth(pieces: Sequence[str], number: str, what: str) -> str:
    index = to_index(number, f"the {what} number")
    if not 1 <= index <= len(pieces):
        extent = f"{what}s 1 to {len(pieces)}" if pieces else f"no {what}"
        raise TemplateError(f"there is no {what} {index}: the file has {extent}")
    return pieces[index - 1]


def _check(arguments: Sequence[str]) -> None:
    if to_index(arguments[0], "the number") < 1:
        raise TemplateError("lines and words are counted from 1")


TEXT = table_of(
    Function("file_line", 1, 1, file_line, _check),
    Function("file_word", 1, 1, file_word, _check),
    Function("file_line_count", 0, 0, lambda _, file: str(len(file.lines))),
    Function("file_word_count", 0, 0, lambda _, file: str(len(file.words))),
)
