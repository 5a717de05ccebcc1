"""Text that fits a regular expression, drawn, from a bounded part of the language.

Taken: plain characters, escapes of punctuation, ``\\d \\w``, ``.`` (a letter or a digit), classes
``[a-z_]`` and ``[^…]`` (of printable ASCII), groups ``(…)`` and ``(?:…)``, alternatives ``|``, and
``? * + {n} {n,} {n,m}`` (``*``, ``+`` and ``{n,}`` add at most eight), ``^`` and ``$`` at the ends.
All else is refused: look-around, back-references, named groups, lazy and possessive repeats, flags,
``\\b \\s`` and kin; and any pattern that could match more than 1,000 characters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from string import ascii_letters, digits
from typing import NoReturn

from generators.templates.language.diagnostics import refuse

LONGEST_PATTERN, LONGEST_TEXT, DEEPEST = 200, 1000, 20
OPEN_END = 8  # repeats that * + {n,} add at most

_PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))
_WORD = ascii_letters + digits + "_"
_ESCAPED = {"d": digits, "w": _WORD, "t": "\t", "n": "\n"}
_SPECIAL = frozenset("()[]{}?*+|^$.\\")

Next = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a pattern: how to draw it, how long it is, how many draws and texts it has."""

    draw: Callable[[Next], str]
    least: int
    most: int
    draws: int
    log10: float  # of its texts, counted once for each way to them


def compile_pattern(path: str, pattern: str) -> Piece:
    """The pattern as something to draw from. Raises TemplateError, which begins with the path."""
    if len(pattern) > LONGEST_PATTERN:
        refuse(path, f"a pattern of {len(pattern)} characters; at most {LONGEST_PATTERN} are taken")
    body = pattern[1:] if pattern.startswith("^") else pattern
    if body.endswith("$") and (len(body) - len(body[:-1].rstrip("\\"))) % 2 == 1:
        body = body[:-1]
    reader = _Reader(path, pattern, body)
    piece = reader.alternatives(0)
    if reader.left:
        reader.complain("a ) without its (")
    return piece


class _Reader:
    """Walks through a pattern once. Mutable: its place moves on."""

    def __init__(self, path: str, pattern: str, body: str) -> None:
        self._path, self._pattern, self._body, self._at = path, pattern, body, 0

    @property
    def left(self) -> str:
        return self._body[self._at :]

    def complain(self, what: str) -> NoReturn:
        refuse(self._path, f"pattern {self._pattern!r}: {what}")

    def alternatives(self, depth: int) -> Piece:
        if depth > DEEPEST:
            self.complain(f"groups more than {DEEPEST} deep")
        choices = [self._sequence(depth)]
        while self.left.startswith("|"):
            self._at += 1
            choices.append(self._sequence(depth))
        return choices[0] if len(choices) == 1 else _either(choices)

    def _sequence(self, depth: int) -> Piece:
        pieces = []
        while self.left and self.left[0] not in "|)":
            pieces.append(self._repeated(self._atom(depth)))
            if sum(piece.most for piece in pieces) > LONGEST_TEXT:
                self.complain(f"it could make more than {LONGEST_TEXT} characters")
        return _together(pieces)

    def _atom(self, depth: int) -> Piece:
        character = self._take()
        if character == "(":
            return self._group(depth)
        if character == "[":
            return _one_of(self._class())
        if character == "\\":
            return _one_of(self._escape())
        if character == ".":
            return _one_of(ascii_letters + digits)
        if character in _SPECIAL:
            self.complain(f"{character!r} has no place there; write \\{character} for itself")
        return _one_of(character)

    def _take(self) -> str:
        if not self.left:
            self.complain("it ends too early")
        self._at += 1
        return self._body[self._at - 1]

    def _group(self, depth: int) -> Piece:
        if self.left.startswith("?:"):
            self._at += 2
        elif self.left.startswith("?"):
            self.complain("only plain groups, (…) and (?:…), are taken")
        piece = self.alternatives(depth + 1)
        if not self.left.startswith(")"):
            self.complain("a ( without its )")
        self._at += 1
        return piece

    def _escape(self) -> str:
        character = self._take()
        if character in _ESCAPED:
            return _ESCAPED[character]
        if character.isalnum() or not character.isprintable():
            self.complain(f"\\{character} is not taken; \\d and \\w are")
        return character

    def _class(self) -> str:
        negated = self.left.startswith("^")
        self._at += negated
        members: list[str] = []
        while not self.left.startswith("]") or not members:
            members += self._members()
        self._at += 1
        chosen = dict.fromkeys(members)
        if negated:
            chosen = dict.fromkeys(character for character in _PRINTABLE if character not in chosen)
        if not chosen:
            self.complain("a class that holds no character")
        return "".join(chosen)

    def _members(self) -> str:
        first = self._take()
        if first == "\\":
            escaped = self._escape()
            if len(escaped) > 1:
                return escaped
            first = escaped
        if not (self.left.startswith("-") and self.left[1:2] not in ("", "]")):
            return first
        self._at += 1
        last = self._take()
        if last == "\\":
            last = self._escape()
        if len(last) > 1 or last < first or ord(last) - ord(first) > 0x2FF:
            self.complain(
                f"a range of characters from {first!r} that does not rise, or is too wide"
            )
        return "".join(map(chr, range(ord(first), ord(last) + 1)))

    def _repeated(self, piece: Piece) -> Piece:
        if (bounds := self._bounds()) is None:
            return piece
        least, most = bounds
        if self.left[:1] in ("?", "+", "*", "{"):
            self.complain("a repeat of a repeat, lazy or possessive; put a group between")
        if most < least:
            self.complain(f"a repeat from {least} to {most}")
        if piece.most * most > LONGEST_TEXT or most > LONGEST_TEXT:
            self.complain(f"it could make more than {LONGEST_TEXT} characters")
        return _times(piece, least, most)

    def _bounds(self) -> tuple[int, int] | None:
        simple = {"?": (0, 1), "*": (0, OPEN_END), "+": (1, 1 + OPEN_END)}
        if (sign := self.left[:1]) in simple:
            self._at += 1
            return simple[sign]
        if sign != "{":
            return None
        inside, closed, _ = self.left[1:].partition("}")
        least, comma, most = inside.partition(",")
        wanted = (least, *([most] if most else []))
        if not closed or not all(number.isdecimal() and len(number) <= 4 for number in wanted):
            self.complain("a repeat is written {3}, {3,} or {3,5}; write \\{ for a brace")
        self._at += len(inside) + 2
        low = int(least)
        return low, (int(most) if most else low + OPEN_END if comma else low)


def _one_of(characters: str) -> Piece:
    if len(characters) == 1:
        return Piece(lambda _: characters, 1, 1, 0, 0.0)
    size = len(characters)
    return Piece(lambda unit: characters[int(unit() * size)], 1, 1, 1, math.log10(size))


def _together(pieces: list[Piece]) -> Piece:
    if len(pieces) == 1:
        return pieces[0]
    return Piece(
        lambda unit: "".join([piece.draw(unit) for piece in pieces]),
        sum(piece.least for piece in pieces),
        sum(piece.most for piece in pieces),
        sum(piece.draws for piece in pieces),
        sum(piece.log10 for piece in pieces),
    )


def _either(pieces: list[Piece]) -> Piece:
    return Piece(
        lambda unit: pieces[int(unit() * len(pieces))].draw(unit),
        min(piece.least for piece in pieces),
        max(piece.most for piece in pieces),
        1 + max(piece.draws for piece in pieces),
        log10_sum(piece.log10 for piece in pieces),
    )


def _times(piece: Piece, least: int, most: int) -> Piece:
    def draw(unit: Next) -> str:
        count = least if most == least else least + int(unit() * (most - least + 1))
        return "".join([piece.draw(unit) for _ in range(count)])

    return Piece(
        draw,
        piece.least * least,
        piece.most * most,
        piece.draws * most + (most > least),
        log10_sum(piece.log10 * count for count in range(least, most + 1)),
    )


def log10_sum(logs: Iterable[float]) -> float:
    """Return log10 of the sum of terms that are given by their log10."""
    terms = list(logs)
    greatest = max(terms)
    return greatest + math.log10(sum(math.pow(10.0, term - greatest) for term in terms))
