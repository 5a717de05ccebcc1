"""Distractors: files beside a component's own that nobody asked about (the paper's third layer)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from generators.stream import Stream
from generators.templates.components import text_files as lorem
from generators.templates.language.data_types import MOMENT, POOLS, indices
from generators.templates.language.diagnostics import check_size, mapping, refuse, shown, whole
from generators.templates.language.keys import CLUTTER_KEYS
from generators.templates.language.template import MadeFile

DEFAULT_COUNT = 5
KINDS = ("", ".tmp", ".log", ".cache")  # "" is a hidden file: .word1234
MOST_LINES = 6
_LEAST_NUMBER, _NUMBERS = 1000, 9000
_WORDS = POOLS["default"]
_PATTERN = re.compile(r"(\*\*/)?\*(\.[A-Za-z0-9]{1,10})")


@dataclass(frozen=True, slots=True)
class Distractors:
    """Distractor files: ``count`` of these kinds in the target's folder, or one folder below it.

    Their names end in four digits before the ending, so that they are never the file that a
    question asks for; names that are taken are skipped.
    """

    count: int
    kinds: tuple[str, ...] = KINDS
    nested: bool = True

    @property
    def log10_space(self) -> float:
        """log10 of the number of distinct contents."""
        places = 1 + (len(_WORDS) if self.nested else 0)
        names = len(self.kinds) * len(_WORDS) * _NUMBERS * places
        return self.count * (math.log10(names) + MOST_LINES * lorem.LOG10_SENTENCE)

    def make(self, stream: Stream, target: str) -> tuple[MadeFile, ...]:
        """The files, beside the target or one folder below it."""
        folder, slash, _ = target.rstrip("/").rpartition("/")
        taken = {target}
        return tuple(self._file(stream, folder + slash, taken) for _ in range(self.count))

    def _file(self, stream: Stream, folder: str, taken: set[str]) -> MadeFile:
        units = stream.uniforms(5)
        kind = self.kinds[int(units[0] * len(self.kinds))]
        word, below = (_WORDS[index] for index in indices(units[1:3], len(_WORDS)))
        number = int(units[3] * _NUMBERS)
        if self.nested and units[4] < 0.5:
            folder = f"{folder}{below}/"
        while (path := _path(folder, kind, word, number)) in taken:
            number = (number + 1) % _NUMBERS
        taken.add(path)
        return MadeFile(path, _content(stream, kind))


def _path(folder: str, kind: str, word: str, number: int) -> str:
    name = f"{word}{number + _LEAST_NUMBER}"
    return f"{folder}{name}{kind}" if kind else f"{folder}.{name}"


def _content(stream: Stream, kind: str) -> bytes:
    count = stream.integer(1, MOST_LINES)
    written = lorem.sentences(stream, count)
    if kind == ".log":
        moments = sorted(MOMENT.draw(stream, count))
        lines = zip(moments, written.splitlines(), strict=True)
        written = "".join(f"{moment} {line}\n" for moment, line in lines)
    return written.encode()


def compile_distractors(config: Mapping[str, Any]) -> Distractors | None:
    """The distractors that a component's ``config`` asks for; None if it asks for none.

    ``clutter: true`` is five files, a number is as many, a mapping has ``count`` and ``pattern``
    (``**/*.txt`` or ``*.txt``: files of that ending, with or without folders of their own). Raises
    TemplateError.
    """
    mapping("config", config, ("clutter",))
    path, asked = "config.clutter", config.get("clutter")
    if asked is None or asked is False:
        return None
    if asked is True or isinstance(asked, Mapping):
        return _distractors(path, {} if asked is True else mapping(path, asked, CLUTTER_KEYS))
    if isinstance(asked, list):
        refuse(path, f"true, a number or {{count, pattern}} is wanted, not {shown(asked)}")
    return _distractors(path, {"count": whole(path, asked)})


def _distractors(path: str, asked: Mapping[str, Any]) -> Distractors | None:
    count = whole(f"{path}.count", asked.get("count", DEFAULT_COUNT))
    size = MOST_LINES * (lorem.LONGEST_SENTENCE + 25) + 200
    check_size(f"{path}.count", count * MOST_LINES * lorem.MOST_WORDS, count * size)
    if not count:
        return None
    if (pattern := asked.get("pattern")) is None:
        return Distractors(count)
    match = _PATTERN.fullmatch(pattern) if isinstance(pattern, str) else None
    if match is None:
        refuse(f"{path}.pattern", f"{shown(pattern)}: **/*.txt or *.txt is wanted, with any ending")
    return Distractors(count, (match[2],), match[1] is not None)
