"""Proof of a question: what its key's paths, filters and literals meet over simulated samples.

An answer can be computed and still be worth nothing: a filter that never matches gives 0 for ever.
``Proof`` notes what the functions met in each sample, and reports in the end what never did.
"""

from __future__ import annotations

import difflib
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, takewhile
from math import sqrt

from generators.errors import TemplateError, nearest
from generators.templates.functions.base import Match
from generators.templates.language.placeholders import Call, parse_text, parts_of
from generators.templates.language.template import Question
from generators.templates.prepare import Prepared
from generators.templates.scoring.json_edit import JSON_EDIT, match_edits
from generators.yaml_lines import Place

FEWEST = 20  # samples that prove anything
TIED = 0.01  # share of samples above which equal rows are warned of
_MOST_KNOWN = 60  # values that are kept
_MOST_SHOWN = 12
_ALIKE = 0.7  # of two spellings of one name
_LONG = re.compile(r"(?<![\w.])-?[0-9]+\.[0-9]{5,}(?:e-?[0-9]+)?(?![\w.])")
_EXACT = re.compile(
    r"unrounded|not? round|without rounding|full precision|all (?:its )?decimals", re.IGNORECASE
)
_WIDE = 1.96  # standard errors each way of a 95 % interval

Say = Callable[[Place, str], None]


def interval(share: float, samples: int) -> str:
    """The share's 95 % interval (Wilson) in words."""
    shift = _WIDE**2 / samples
    middle = (share + shift / 2) / (1 + shift)
    half = _WIDE * sqrt(share * (1 - share) / samples + shift / (4 * samples)) / (1 + shift)
    return f"95 % interval {max(0.0, middle - half):.0%} to {min(1.0, middle + half):.0%}"


@dataclass(slots=True)
class _Tally:
    """One part of a call over all samples. Mutable."""

    last: Match
    samples: int = 0
    met: int = 0
    tried: int = 0
    known: Counter[str] = field(default_factory=Counter)

    @property
    def settled(self) -> bool:
        """True if more samples would change no report of it."""
        if self.last.kind in ("tie", "untouched"):
            return False
        return self.met > 0 and (self.last.kind != "range" or self.met < self.tried)

    @property
    def lost(self) -> bool:
        """True if it met nothing of all that it was tried on."""
        return self.met == 0 < self.tried

    def add(self, match: Match) -> None:
        self.last = match
        self.samples += 1
        self.met += match.met
        self.tried += match.of
        if len(self.known) < _MOST_KNOWN:
            self.known.update(match.known)


@dataclass(slots=True)
class Proof:
    """What the parts of a question's calls met in its samples so far. Mutable."""

    question: Question
    texts: Sequence[tuple[Place, str, bool]]  # of the question, as it was written
    answer: Place  # where the key is written
    tallies: dict[tuple[Call | None, int], _Tally] = field(default_factory=dict)
    places: dict[Call, Place] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)
    unnamed: Counter[str] = field(default_factory=Counter)
    unrounded: int = 0
    given: int = 0  # samples whose key stands in the prompt
    samples: int = 0
    _settled: set[Call] = field(default_factory=set)  # of which no more is looked for
    _read: set[str] = field(default_factory=set)  # files that this sample's key was read from

    def __post_init__(self) -> None:
        for place, text, lorem in self.texts:
            try:
                parts = parse_text(text, lorem)
            except TemplateError:
                continue
            for call in parts_of(parts):
                if isinstance(call, Call):
                    self.places.setdefault(call, place)

    def begin(self) -> None:
        """Begin a sample."""
        self._read.clear()

    def trace(self, call: Call, path: str, find: Callable[[], tuple[Match, ...]]) -> None:
        """Note what a call met in the file at a path, unless all its parts have met something."""
        if call in self.places and self.places[call][: len(self.answer)] == self.answer:
            self._read.add(path)
        if call not in self._settled:
            self._note(call, find())
            tallies = list(takewhile(bool, (self.tallies.get((call, n)) for n in count())))
            if self.samples >= FEWEST and all(tally.settled for tally in tallies if tally):
                self._settled.add(call)

    def _note(self, call: Call | None, matches: Sequence[Match]) -> None:
        for index, match in enumerate(matches):
            tally = self.tallies.get((call, index))
            if tally is None or tally.last.kind != match.kind:
                tally = self.tallies[call, index] = _Tally(match)
            tally.add(match)

    def add(self, sample: Prepared, answer: str) -> None:
        """Note a sample that has a key."""
        self.samples += 1
        self.answers[answer] += 1
        key = sample.key
        if key.scoring_type == JSON_EDIT:
            with suppress(TemplateError):  # reported elsewhere
                self._note(None, tuple(match_edits(key.expected)))
        elif _LONG.search(key.expected) and not _EXACT.search(sample.prompt):
            self.unrounded += 1
        self.given += f" {_words(answer)} " in f" {_words(sample.prompt)} "
        self.unnamed.update(_unnamed(sample, self._read))

    # -- what it proves ---------------------------------------------------------------------------

    def report(self, error: Say, warn: Say) -> None:
        """Report what never matched in any sample, and what weakens the answer."""
        wrong = False
        failed: set[Call | None] = set()
        for (call, _), tally in self.tallies.items():
            place = self.answer if call is None else self.places.get(call, self.answer)
            kind = tally.last.kind
            if kind == "added":
                wrong |= self._addition(tally, place, error, warn)
            elif kind in ("tie", "untouched"):
                self._weakness(tally, place, warn)
            elif tally.lost and (tally.samples >= FEWEST or not self.samples):
                if kind != "filter" or call not in failed:  # a filter of parts that are reported
                    error(place, _never(tally))
                failed.add(call)
            elif kind == "range" and tally.met == tally.tried and self._enough:
                warn(
                    place,
                    f"`{tally.last.part}` holds for every value in all of {tally.samples} samples, "
                    "so it decides nothing: move the bound into the values",
                )
        if not (wrong or failed):
            self._constant(error)
        self._prompt(warn)

    def _constant(self, error: Say) -> None:
        """Report an answer that is the same in all samples, though a function computes it."""
        computed = any(place[: len(self.answer)] == self.answer for place in self.places.values())
        if computed and self._enough and len(self.answers) == 1:
            (answer,) = self.answers
            error(
                self.answer,
                f"the answer is {answer[:60]!r} in all of {self.samples} samples, though a "
                "function computes it: vary what it depends on, such as the filter or the rows",
            )

    @property
    def is_given(self) -> bool:
        """Whether the key stood in the prompt of every sample."""
        return self._enough and self.given == self.samples

    @property
    def _enough(self) -> bool:
        return self.samples >= FEWEST

    def _addition(self, tally: _Tally, place: Place, error: Say, warn: Say) -> bool:
        """Report a key that an edit adds in every sample, unless the question names it. Return
        whether it looks like a misspelt one."""
        name = tally.last.sought
        if not (tally.lost and tally.samples >= FEWEST) or re.search(
            rf"\b{re.escape(name)}\b", self.question.template
        ):
            return False
        near = difflib.get_close_matches(name, tally.known, n=1, cutoff=_ALIKE)
        where = f"in any of {tally.samples} samples"
        found = f"`{tally.last.part}` leads to no key that is there {where}"
        if near:
            error(place, f"{found}; {_hint(name, tally.known)}")
        else:
            warn(place, f"{found}, and the question does not name the one that is to be added")
        return bool(near)

    def _weakness(self, tally: _Tally, place: Place, warn: Say) -> None:
        share = f"in {tally.met} of {tally.samples} samples"
        if tally.last.kind == "tie" and tally.met > TIED * tally.samples:
            warn(
                place,
                f"{share} rows are equal under ORDER BY and another of them would give another "
                "answer: order by a further column too, and say so in the question",
            )
        elif tally.last.kind == "untouched" and tally.met:
            warn(
                place,
                f"{share} the file is right without any edit: choose places and values so that "
                "each sample needs one",
            )

    def _prompt(self, warn: Say) -> None:
        place = (*self.question.place, "template")
        for what, times in self.unnamed.items():
            if 2 * times > self.samples:
                share = f"in {times} of {self.samples} samples"
                warn(place, f"{what} is not named in the question ({share})")
        if self._enough and self.unrounded * 10 > self.samples:
            share = f"in {self.unrounded} of {self.samples} samples"
            warn(
                self.answer,
                f"a number with many decimals is compared strictly ({share}): round the key, as in "
                "{{math_round:{{…}}:2}}, and say so in the question",
            )


def _never(tally: _Tally) -> str:
    """What never matched, and what would be right."""
    match, known = tally.last, tuple(tally.known)
    where = f"in any of {tally.samples} samples"
    if match.kind == "literal":
        found = f"{match.sought!r} in `{match.part}` is no value that stands there {where}"
    elif match.kind == "path":
        found = f"`{match.part}` leads to nothing {where}"
    elif match.kind == "number":
        found = f"`{match.part}` leads to no number {where}"
    else:
        found = f"`{match.part}` matches nothing {where}"
    if match.kind == "range" and known:
        least, greatest = min(known, key=_order), max(known, key=_order)
        return f"{found}; the values there go from {least} to {greatest}"
    if match.kind == "number" and known:
        return f"{found}, but to such as {', '.join(map(repr, known[:3]))}"
    if match.remedy:
        return f"{found}; {match.remedy}"
    if match.sought and known:
        return f"{found}; {_hint(match.sought, tally.known)}"
    if match.kind == "path" and not match.sought:
        return f"{found}; a path starts at the root, and each step leads into what is there"
    return found


def _hint(sought: str, known: Counter[str]) -> str:
    """The nearest of the known ones, and some of the others."""
    near = difflib.get_close_matches(sought, known, n=3, cutoff=0.5)
    shown = dict.fromkeys((*near, *(name for name, _ in known.most_common(_MOST_SHOWN))))
    more = ", …" if len(known) > len(shown) else ""
    return nearest(sought, tuple(shown)[:_MOST_SHOWN]) + more


def _order(text: str) -> tuple[float, str]:
    try:
        return float(text), ""
    except ValueError:
        return 0.0, text


def _words(text: str) -> str:
    """A text's words, one blank between them, without the marks around them."""
    return " ".join(word.strip("`'\".,;:!?()[]") for word in text.split())


def _unnamed(sample: Prepared, read: set[str]) -> Iterator[str]:
    """The files that an agent must find or write, and that its question does not name."""
    key, prompt = sample.key, sample.prompt
    listed = () if "{{expected_structure}}" in sample.question.template else key.paths
    if key.file and not _names_file(prompt, key.file):
        yield "the answer's file"
    for path in listed:
        if not _names_file(prompt, path.rstrip("/")):
            yield "a path that is looked for"
            break
    if any(not (_names_file(prompt, path) or _names_folder(prompt, path)) for path in read):
        yield "the file that the answer is read from"


def _names_file(prompt: str, path: str) -> bool:
    name = posixpath.basename(path)
    stem = name.partition(".")[0]
    if name in prompt:
        return True
    return len(stem) > 1 and re.search(rf"\b{re.escape(stem)}\b", prompt) is not None


def _names_folder(prompt: str, path: str) -> bool:
    """True if a folder that the file lies in is named, and not only as a part of another path."""
    while path := posixpath.dirname(path):
        if re.search(rf"{re.escape(path)}/?(?![\w/-]|\.\w)", prompt):
            return True
    return False
