"""Scorers: the key of an answer, what comes of comparing the two, and installed scoring types.

Installed packages name scoring types in an entry point group. In such a package's pyproject.toml:

    [project.entry-points."dosimeter.scorers"]
    "csv_rows" = "csv_rows:SCORER"

The value is a Scorer, or a callable without arguments that gives one. It is loaded when it is
first asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import EntryPoint
from typing import Any, Protocol, TypeVar

from generators.errors import TemplateError
from generators.plugins import gather, owner

SCORING_TYPES = (  # of PICARD
    "stringmatch",
    "jsonmatch",
    "readfile_stringmatch",
    "readfile_jsonmatch",
    "files_exist",
    "directory_structure",
)


class Workspace(Protocol):
    """Files that an agent left, as scorers read them. Paths are written as in the key."""

    def read(self, path: str) -> bytes | None:
        """A regular file's bytes; None if there is none, or it leads out of the sandbox."""

    def kind(self, path: str) -> str | None:
        """``file``, ``folder``, or None if there is neither."""


@dataclass(frozen=True, slots=True)
class Key:
    """Answer key of a sample: complete, nothing left to compute."""

    scoring_type: str
    expected: str = ""  # of stringmatch, jsonmatch, and the content of the read-file kinds
    file: str = ""  # that the read-file kinds read
    paths: tuple[str, ...] = ()  # of files_exist and directory_structure


@dataclass(frozen=True, slots=True)
class AnswerScore:
    """Score of one answer: right or wrong, and if wrong, why."""

    correct: bool
    error: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


GROUP = "dosimeter.scorers"
_T = TypeVar("_T")

_ENTRY = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Scorer:
    """Scoring of the answers of one type.

    ``leniently`` judges the answers that ``score`` rejects; without it the type has one verdict.
    Answers are untrusted: both return quickly and raise nothing.
    """

    name: str
    score: Callable[[Key, str, Workspace], AnswerScore]
    leniently: Callable[[Key, str, Workspace], bool] | None = None


def installed_scorers(reserved: Collection[str]) -> Mapping[str, Callable[[], Scorer]]:
    """Return a loader for each installed scorer, by its name; loads none.

    Raises TemplateError, which names the distribution, for an entry with a name that is invalid,
    reserved, or given by two distributions.
    """
    entries = gather(
        GROUP,
        _ENTRY,
        "small letters, digits and _, such as csv_rows",
        lambda name: "has the name of a built-in type: give it another" * (name in reserved),
        _refused,
        lambda entry: (entry.name, owner(entry)),
    )
    return {name: partial(load_scorer, entry) for name, entry in entries.items()}


def load_scorer(entry: EntryPoint) -> Scorer:
    """The scorer of an entry point. Raises TemplateError, which names the distribution."""
    try:
        scorer: Any = entry.load()
        if not isinstance(scorer, Scorer):
            scorer = scorer()
    except Exception as error:  # external code may raise anything
        raise _refused(entry, f"cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(scorer, Scorer):
        raise _refused(entry, f"is no Scorer: {entry.value} gives a {type(scorer).__name__}")
    if scorer.name != entry.name:
        raise _refused(entry, f"calls itself {scorer.name}: make the two the same")
    return _guarded(scorer, entry)


def _guarded(scorer: Scorer, entry: EntryPoint) -> Scorer:
    """The same scorer; its failure names the package and is never counted against an answer."""

    def guarded(ask: Callable[[Key, str, Workspace], _T]) -> Callable[[Key, str, Workspace], _T]:
        def call(key: Key, response: str, workspace: Workspace) -> _T:
            try:
                return ask(key, response, workspace)
            except Exception as error:
                raise _refused(entry, f"failed: {type(error).__name__}: {error}") from error

        return call

    leniently = None if scorer.leniently is None else guarded(scorer.leniently)
    return Scorer(scorer.name, guarded(scorer.score), leniently)


def _refused(entry: EntryPoint, reason: str) -> TemplateError:
    return TemplateError(f"the scoring type {entry.name!r} of the package {owner(entry)} {reason}")
