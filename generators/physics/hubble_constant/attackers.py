"""Shortcuts past the spectra, the dust and the weights, and readers of spectra that err."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from generators.attackers import Access, Attacker, Files, SpectrumReader, noisy_readers
from generators.physics.hubble_constant.parameters import (
    CONSTANT_RANGE,
    DISTANCE_RANGE,
    LAB_IMAGE,
    LIGHT,
    image_name,
)
from generators.physics.hubble_constant.solver import (
    MATCH,
    answer,
    distance,
    measure_z,
    read_lines,
    usable_rows,
)
from generators.physics.spectra import PER_NM
from generators.stream import Stream

_MIDDLE = sum(CONSTANT_RANGE) / 2
_PICTURES = 256  # those of an instance, at which each of its readers looks

TableRow = Mapping[str, str]


@lru_cache(maxsize=_PICTURES)
def _lines(picture: bytes) -> np.ndarray:
    return read_lines(picture)


def _readings(files: Files, rows: Sequence[TableRow]) -> list[np.ndarray]:
    return [_lines(files[image_name(row["galaxy_ID"])]) for row in rows]


# --- shortcuts


def list_pictured(files: Files) -> dict[str, Any]:
    """Every galaxy with a picture, in the middle of all ranges."""
    away = sum(DISTANCE_RANGE) / 2
    names = (PurePosixPath(path).stem for path in files if path.startswith("observed_spectra/"))
    galaxies = [{"id": name, "z": _MIDDLE * away / LIGHT, "d": away} for name in names]
    return {"task": "hubble_constant", "galaxies": galaxies, "H0": _MIDDLE, "sigma_H0": 1.5}


def follow_hubbles_law(files: Files) -> dict[str, Any]:
    """Redshifts from the distances in the table and a remembered constant."""
    rows = usable_rows(files)
    return answer(rows, [_MIDDLE * distance(row) / LIGHT for row in rows])


def forget_the_dust(files: Files) -> dict[str, Any]:
    """No correction for extinction."""
    rows = [{**row, "E(B-V)": "0"} for row in usable_rows(files)]
    return answer(rows, _exact_redshifts(files, rows))


def take_the_brightest_line(files: Files) -> dict[str, Any]:
    """The brightest line of each spectrum is taken for the brightest of the laboratory's."""
    rows = usable_rows(files)
    return answer(rows, [_of_brightest(files, lines) for lines in _readings(files, rows)])


def forget_the_periods(files: Files) -> dict[str, Any]:
    """One luminosity for all Cepheids: that of a period of ten days."""
    rows = [{**row, "period [days]": "10"} for row in usable_rows(files)]
    return answer(rows, _exact_redshifts(files, rows))


def remember_a_constant(files: Files) -> dict[str, Any]:
    """Everything is read, but no constant is estimated: one from a journal is given."""
    rows = usable_rows(files)
    return answer(rows, _exact_redshifts(files, rows)) | {"H0": 67.4, "sigma_H0": 0.5}


def _exact_redshifts(files: Files, rows: Sequence[TableRow]) -> list[float]:
    lab = _lines(files[LAB_IMAGE])
    return [measure_z(lines, lab) for lines in _readings(files, rows)]


def _of_brightest(files: Files, lines: np.ndarray) -> float:
    lab = _lines(files[LAB_IMAGE])
    seen, rest = (each[np.argmax(each[:, 1]), 0] for each in (lines, lab))
    return max(float(seen / rest - 1.0), 1e-4)


# --- readers that err


def read_roughly(reader: SpectrumReader, files: Files, draws: Stream) -> dict[str, Any]:
    """Solve as the reference does, with a reader's errors."""
    rows = [row for row in usable_rows(files) if not draws.chance(reader.overlooked)]
    rows = rows or usable_rows(files)[:1]
    lab = _lines(files[LAB_IMAGE])
    redshifts = [
        _of_brightest(files, lines)
        if draws.chance(reader.mistaken)
        else _blurred(lines, lab, reader.blur, draws)
        for lines in _readings(files, rows)
    ]
    if draws.chance(reader.careless):
        rows = [{**row, "E(B-V)": "0"} for row in rows]
    found = answer(rows, redshifts)
    for galaxy in found["galaxies"]:
        if draws.chance(reader.miscalculated):
            galaxy["d"] *= draws.uniform(0.8, 0.97)
    if draws.chance(reader.careless):
        found["H0"] *= draws.uniform(0.7, 0.9)
    return found


def _blurred(lines: np.ndarray, lab: np.ndarray, blur: float, draws: Stream) -> float:
    """The redshift from lines that are read with errors."""
    moved = lines.copy()
    moved[:, 0] += [draws.normal(0.0, blur) / PER_NM for _ in lines]
    z = measure_z(moved, lab, MATCH + 4.0 * blur / PER_NM)
    return max(z, 1e-4) if math.isfinite(z) else 0.005


ATTACKERS = (
    Attacker("names of the pictures", Access.METADATA, list_pictured),
    Attacker("Hubble's law, remembered", Access.TABLES, follow_hubbles_law),
    Attacker("without extinction", Access.STEP_SKIPPED, forget_the_dust),
    Attacker("brightest line", Access.STEP_SKIPPED, take_the_brightest_line),
    Attacker("without periods", Access.STEP_SKIPPED, forget_the_periods),
    Attacker("constant from a journal", Access.STEP_SKIPPED, remember_a_constant),
)
NOISY = noisy_readers(
    read_roughly,
    {
        "careful": SpectrumReader(0.15, 0.02, 0.03, 0.03, 0.1),
        "fair": SpectrumReader(0.4, 0.05, 0.08, 0.1, 0.14),
        "hasty": SpectrumReader(0.6, 0.1, 0.15, 0.2, 0.26),
        "poor": SpectrumReader(0.9, 0.15, 0.25, 0.3, 0.4),
    },
)
