"""Shortcuts past the figures and the coils, and readers that miss tips of the curve."""

from __future__ import annotations

import io
import itertools
from collections import Counter
from collections.abc import Callable
from functools import lru_cache, partial
from math import gcd, pi
from typing import Any

from generators.attackers import Access, Attacker, Files, NoisySolver
from generators.physics.lissajous_figures.parameters import (
    COIL_TABLE,
    NO_COIL,
    TABLE,
    Ratio,
    picture_path,
)
from generators.physics.lissajous_figures.solver import (
    RATIOS,
    Coils,
    answer,
    find_coil,
    read_ratio,
    read_rows,
)
from generators.stream import Stream

Reading = tuple[int, int]  # cycles of the supply, and of the reference

_OHM = 377.0


def rank_sizes(files: Files) -> dict[str, Any]:
    """The more tips, the larger the file: sizes ranked over all ratios."""
    sizes = sorted({len(data) for path, data in files.items() if path.endswith(".png")})
    by_tips = sorted(RATIOS, key=sum)

    def read(picture: bytes) -> Reading:
        return by_tips[sizes.index(len(picture)) * len(by_tips) // len(sizes)]

    # Names of supplies stand in the table alone: those of the pictures serve in their place.
    names = [path.rpartition("_")[2].removesuffix(".png") for path in files if "ID_" in path]
    rows = [{"supply_ID": name, "machine": "A", "batch": "A"} for name in names]
    pictures = [data for path, data in files.items() if "ID_" in path]
    return answer(list(zip(rows, map(read, pictures), strict=True)), [])


def take_one_for_all(files: Files) -> dict[str, Any]:
    """No picture is read: each supply has a frequency that a coil fits, the same for all."""
    fitting = _fitted(_coils(files))
    ratio = Counter(fitting).most_common(1)[0][0] if fitting else (1, 2)
    return _read_all(files, lambda _: ratio)


def share_out(files: Files) -> dict[str, Any]:
    """No picture is read: the frequencies that a coil fits are dealt to the supplies in turn."""
    fitting = sorted(set(_fitted(_coils(files)))) or [(1, 2)]
    turns = iter(range(10**6))
    return _read_all(files, lambda _: fitting[next(turns) % len(fitting)])


def _fitted(coils: Coils) -> list[Reading]:
    """The ratios of figures at which one of the coils has 377 Ω."""
    return [
        (q, p)
        for q, p in RATIOS
        for _, inductance in coils
        if abs(2 * pi * float(Ratio(q, p).hertz) * inductance - _OHM) < 0.5
    ]


def read_one_axis(files: Files) -> dict[str, Any]:
    """Counts the cycles of the reference; those of the supply are not counted, and taken as one."""
    return _read_all(files, lambda picture: (1, _ratio(picture)[1]))


def fit_no_coil(files: Files) -> dict[str, Any]:
    """Reads each figure, and compares no coil with it: all supplies are faulty."""
    return _read_all(files, _ratio, lambda hertz, coils: NO_COIL)


def fit_nearest_coil(files: Files) -> dict[str, Any]:
    """Reads each figure, and names the coil nearest to 377 Ω, however far: none is faulty."""
    return _read_all(files, _ratio, _nearest_coil)


def fit_by_turns(files: Files) -> dict[str, Any]:
    """Reads each figure, and names the nearest coil of every other one, and none of the rest."""
    nearest = itertools.cycle((True, False))
    return _read_all(
        files,
        _ratio,
        lambda hertz, coils: _nearest_coil(hertz, coils) if next(nearest) else NO_COIL,
    )


def _nearest_coil(hertz: float, coils: Coils) -> str:
    return min(coils, key=lambda coil: abs(2 * pi * hertz * coil[1] - _OHM))[0]


def miss_tips(missed: float, files: Files, draws: Stream) -> dict[str, Any]:
    """Counts tips on two sides of each figure, and misses each with probability ``missed``."""

    def read(picture: bytes) -> Reading:
        q, p = (max(1, count - draws.binomial(count, missed)) for count in _ratio(picture))
        return q // gcd(q, p), p // gcd(q, p)

    return _read_all(files, read)


def _read_all(
    files: Files, read: Callable[[bytes], Reading], find: Callable[[float, Coils], str] = find_coil
) -> dict[str, Any]:
    rows = read_rows(files[TABLE].decode())
    tested = [row for row in rows if row["measurement_id"]]
    readings = [(row, read(files[picture_path(row["measurement_id"])])) for row in tested]
    return answer(readings, _coils(files), find)


def _coils(files: Files) -> Coils:
    rows = read_rows(files[COIL_TABLE].decode())
    return [(row["coil"], float(row["inductance_H"])) for row in rows]


@lru_cache(maxsize=128)  # the pictures of an instance, at which each of its readers looks
def _ratio(picture: bytes) -> Reading:
    return read_ratio(io.BytesIO(picture))


ATTACKERS = (
    Attacker("file sizes, ranked", Access.METADATA, rank_sizes),
    Attacker("one frequency for all", Access.TABLES, take_one_for_all),
    Attacker("good frequencies in turn", Access.TABLES, share_out),
    Attacker("one axis counted", Access.STEP_SKIPPED, read_one_axis),
    Attacker("no coil fitted", Access.STEP_SKIPPED, fit_no_coil),
    Attacker("the nearest coil", Access.STEP_SKIPPED, fit_nearest_coil),
    Attacker("the nearest coil or none", Access.STEP_SKIPPED, fit_by_turns),
)
NOISY = tuple(
    NoisySolver(f"{percent} % of tips missed", partial(miss_tips, percent / 100))
    for percent in (2, 5, 12, 20)
)
