"""Shortcuts past the spectra, the distances and the fit, and readers of spectra that err."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from pathlib import PurePosixPath
from typing import Any

from generators.attackers import Access, Attacker, Files, SpectrumReader, noisy_readers
from generators.physics.cepheid_calibration.parameters import (
    HUBBLE,
    LAB_IMAGE,
    LIGHT_SPEED,
    SPECTRA,
)
from generators.physics.cepheid_calibration.solver import (
    MATCH,
    Line,
    answer,
    find_redshift,
    picture_of,
    read_lines,
    usable_rows,
)
from generators.physics.spectra import PER_NM
from generators.stream import Stream

_PICTURES = 256  # those of an instance, at which each of its readers looks
_REMEMBERED = (-3.26, -5.93)  # slope and offset of a relation in a journal (Riess et al. 2019, H)
_TYPICAL_Z = 0.005

TableRow = Mapping[str, str]


@lru_cache(maxsize=_PICTURES)
def _lines(picture: bytes) -> tuple[Line, ...]:
    return tuple(read_lines(picture))


@lru_cache(maxsize=_PICTURES)
def _redshift(picture: bytes, lab: bytes) -> float:
    return find_redshift(_lines(picture), _lines(lab))


def _exact_redshifts(files: Files, rows: Sequence[TableRow]) -> list[float]:
    return [_redshift(files[picture_of(row)], files[LAB_IMAGE]) for row in rows]


# --- shortcuts


def list_pictured(files: Files) -> dict[str, Any]:
    """As many Cepheids as there are pictures, named after their galaxies; typical values."""
    names = (PurePosixPath(path).stem for path in files if path.startswith(f"{SPECTRA}/"))
    slope, offset = _REMEMBERED
    cepheids = [
        {"id": name.replace("G_", "CEPH_"), "z": _TYPICAL_Z, "M": offset + slope / 2}
        for name in names
    ]
    line = {"a": slope, "sigma_a": 0.1, "b": offset, "sigma_b": 0.05}
    return {"task": "cepheid_calibration", "cepheids": cepheids, **line}


def follow_a_remembered_relation(files: Files) -> dict[str, Any]:
    """Distances from the table and a remembered relation, and redshifts from Hubble's law."""
    rows = usable_rows(files)
    return answer(rows, [_remembered_z(row, *_REMEMBERED) for row in rows])


def follow_the_table(files: Files) -> dict[str, Any]:
    """The slope of magnitudes against periods, at one typical redshift."""
    rows = usable_rows(files)
    return answer(rows, [_TYPICAL_Z] * len(rows))


def _remembered_z(row: TableRow, slope: float, offset: float) -> float:
    absolute = slope * (math.log10(float(row["period [days]"])) - 1.0) + offset
    away = math.pow(10.0, (float(row["mean_mag_cepheid"]) - absolute - 25.0) / 5.0)
    return away * HUBBLE / LIGHT_SPEED


def take_the_brightest_line(files: Files) -> dict[str, Any]:
    """The brightest line of each spectrum is taken for the brightest of the laboratory's."""
    rows = usable_rows(files)
    return answer(rows, [_of_brightest(files, row) for row in rows])


def _of_brightest(files: Files, row: TableRow) -> float:
    seen, rest = (
        max(_lines(files[path]), key=itemgetter(2))[0] for path in (picture_of(row), LAB_IMAGE)
    )
    return max(seen / rest - 1.0, 1e-4)


def place_all_at_one_distance(files: Files) -> dict[str, Any]:
    """The redshifts are read, but the stars are compared as if all were equally far."""
    rows = usable_rows(files)
    redshifts = _exact_redshifts(files, rows)
    found = answer(rows, [sum(redshifts) / len(redshifts)] * len(rows))
    for cepheid, z in zip(found["cepheids"], redshifts, strict=True):
        cepheid["z"] = z
    return found


def remember_a_relation(files: Files) -> dict[str, Any]:
    """Everything is read, but no line is fitted: one from a journal is given."""
    rows = usable_rows(files)
    slope, offset = _REMEMBERED
    return answer(rows, _exact_redshifts(files, rows)) | {"a": slope, "b": offset}


# --- readers that err


def read_roughly(reader: SpectrumReader, files: Files, draws: Stream) -> dict[str, Any]:
    """Solve as the reference does, with a reader's errors."""
    usable = usable_rows(files)
    rows = [row for row in usable if not draws.chance(reader.overlooked)]
    rows = rows if len(rows) > 2 else usable
    redshifts = [
        _of_brightest(files, row)
        if draws.chance(reader.mistaken)
        else _blurred(files, row, reader.blur, draws)
        for row in rows
    ]
    found = answer(rows, redshifts)
    for cepheid in found["cepheids"]:
        if draws.chance(reader.miscalculated):
            cepheid["M"] += draws.uniform(0.2, 1.0)
    for name in ("a", "b"):
        if draws.chance(reader.careless):
            found[name] += draws.uniform(0.5, 1.0)
    return found


def _blurred(files: Files, row: TableRow, blur: float, draws: Stream) -> float:
    """The redshift from lines that are read with errors."""
    moved = [
        (wavelength + draws.normal(0.0, blur) / PER_NM, clear, height)
        for wavelength, clear, height in _lines(files[picture_of(row)])
    ]
    match = MATCH + 3.0 * blur / PER_NM
    return max(find_redshift(moved, _lines(files[LAB_IMAGE]), match), 1e-4)


ATTACKERS = (
    Attacker("names of the pictures", Access.METADATA, list_pictured),
    Attacker("relation from a journal", Access.TABLES, follow_a_remembered_relation),
    Attacker("one redshift for all", Access.TABLES, follow_the_table),
    Attacker("brightest line", Access.STEP_SKIPPED, take_the_brightest_line),
    Attacker("one distance for all", Access.STEP_SKIPPED, place_all_at_one_distance),
    Attacker("line from a journal, not fitted", Access.STEP_SKIPPED, remember_a_relation),
)
NOISY = noisy_readers(
    read_roughly,
    {
        "careful": SpectrumReader(0.1, 0.02, 0.025, 0.02, 0.03),
        "fair": SpectrumReader(0.2, 0.05, 0.07, 0.1, 0.12),
        "hasty": SpectrumReader(0.45, 0.1, 0.14, 0.2, 0.26),
        "poor": SpectrumReader(0.7, 0.15, 0.3, 0.3, 0.4),
    },
)
