"""Shortcuts that a family's score must not reward, and solvers that err, as programs.

A family ships them beside its solver, in ``attackers.py``: a tuple ``ATTACKERS``, and ``NOISY``,
four solvers of falling skill. `dosimeter tasks check` runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Protocol, runtime_checkable

from generators.stream import Stream
from generators.task import Asset

Files = Mapping[str, bytes]  # path → content
AnswerBlock = Mapping[str, Any]


class Access(StrEnum):
    """What an attacker sees of the input files, or leaves out of the work."""

    METADATA = "metadata"  # names and sizes: the content is zero bytes
    TABLES = "tables"  # all but the pictures, which are zero bytes
    STEP_SKIPPED = "step skipped"  # all files; a step of the task is not done
    DETECTOR_IGNORED = "detector ignored"  # all files; those of one instrument are not used


# Largest mean score of an attacker, outside instructions-following.
BOUNDS: Mapping[Access, float] = {
    Access.METADATA: 0.15,
    Access.TABLES: 0.15,
    Access.STEP_SKIPPED: 0.5,
    Access.DETECTOR_IGNORED: 0.5,
}
WITHOUT_PICTURES = 0.2  # largest mean score in image extraction of what sees no picture


@dataclass(frozen=True, slots=True)
class Attacker:
    """A shortcut: ``attack`` makes an answer block of the files that ``access`` leaves it."""

    name: str
    access: Access
    attack: Callable[[Files], AnswerBlock]


@dataclass(frozen=True, slots=True)
class NoisySolver:
    """A solver that reads all files and errs as its skill has it; its errors come of the draws."""

    name: str
    solve: Callable[[Files, Stream], AnswerBlock]


@dataclass(frozen=True, slots=True)
class SpectrumReader:
    """Skill of a reader of spectra: the error of a line's place (pixels), and probabilities: that
    an object is overlooked, that its brightest line is taken for the laboratory's, that a value is
    miscalculated, and that each result of them all errs."""

    blur: float
    overlooked: float
    mistaken: float
    miscalculated: float
    careless: float


def noisy_readers(
    solve: Callable[[SpectrumReader, Files, Stream], AnswerBlock],
    readers: Mapping[str, SpectrumReader],
) -> tuple[NoisySolver, ...]:
    """Return a noisy solver for each named reader."""
    return tuple(
        NoisySolver(f"{name} reader", partial(solve, reader)) for name, reader in readers.items()
    )


@runtime_checkable
class Attackable(Protocol):
    """A family that ships attackers."""

    def attackers(self) -> tuple[Attacker, ...]:
        """The shortcuts that must not pay."""

    def noisy_solvers(self) -> tuple[NoisySolver, ...]:
        """Four solvers of falling skill, the most able first, or none."""


def seen_files(assets: tuple[Asset, ...], access: Access) -> dict[str, bytes]:
    """The files as an attacker of this access sees them."""
    return {asset.path: _seen(asset, access) for asset in assets}


def _seen(asset: Asset, access: Access) -> bytes:
    picture = asset.media_type.startswith("image/")
    hidden = access is Access.METADATA or (access is Access.TABLES and picture)
    return bytes(len(asset.data)) if hidden else asset.data
