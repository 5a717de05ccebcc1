"""Find the faulty supplies and machines from the files in the current folder; write answer.json.

A program of its own: reads the input files alone, with the standard library, numpy and Pillow.

A figure x = cos(pτ + δ), y = cos(qτ) gives a = cos(q·arccos x) and b = cos(p·arccos y), which are
cosines of angles pqτ + qδ and pqτ: every point of the curve obeys
a² + b² − 2ab·c = 1 − c², with c = cos(qδ). Each ratio is fitted by its c, and the ratio that
leaves the least is taken.
"""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import IO, Any

import numpy as np
from PIL.PngImagePlugin import PngImageFile

REFERENCE_HZ = 100.0  # sideways: no supply is faster than it, so there are no more tips above
MOST = 10
MOST_POINTS = 3000
LINE = 1.0  # half of the width of the curve, in pixels
RATIOS = [(q, p) for p in range(1, MOST + 1) for q in range(1, p + 1) if math.gcd(p, q) == 1]


Readings = list[tuple[dict[str, str], tuple[int, int]]]  # rows of the table, and their ratios
Coils = list[tuple[str, float]]  # names and inductances


def read_curve(picture: Path | IO[bytes]) -> tuple[Any, Any]:
    """Points of the curve, each coordinate from −1 to 1 over the box that holds it."""
    with PngImageFile(picture) as image:
        green = np.asarray(image.convert("RGB").getchannel("G"))
    # Turquoise has 224 of green, and the grid 90.
    down, across = np.divmod(np.flatnonzero(green > 160), green.shape[1])
    keep = slice(None, None, max(1, len(down) // MOST_POINTS))
    return scale(across, keep), scale(down, keep)


def scale(pixels: Any, keep: slice) -> Any:
    """The size of a picture's units in pixels."""
    low, high = pixels.min(), pixels.max()
    half = (high - low + 1) / 2 - LINE
    return np.clip((pixels[keep] - (low + high) / 2) / half, -1.0, 1.0)


def misfits(a: Any, b: Any) -> Any:
    """Of each row of a and b, the mean square of s + c² − t·c at the best c, with
    s = a² + b² − 1 and t = 2ab."""
    s, t = a * a + b * b - 1.0, 2.0 * a * b
    c = np.linspace(-0.9, 0.9, 181)
    # Multiplied out, so that each mean is taken once for all c.
    ss, st, tt = (np.mean(u * v, axis=1)[:, None] for u, v in ((s, s), (s, t), (t, t)))
    s, t = np.mean(s, axis=1)[:, None], np.mean(t, axis=1)[:, None]
    return np.min(ss + (tt + 2.0 * s) * c**2 + c**4 - 2.0 * st * c - 2.0 * t * c**3, axis=1)


def read_ratio(picture: Path | IO[bytes]) -> tuple[int, int]:
    """Cycles of the supply and of the reference in the picture, in lowest terms."""
    a, b = (np.cos(np.outer(np.arange(MOST + 1), np.arccos(axis))) for axis in read_curve(picture))
    rows, columns = np.transpose(RATIOS)
    return RATIOS[int(np.argmin(misfits(a[rows], b[columns])))]


def find_coil(hertz: float, coils: Coils) -> str:
    """The coil with 377 Ω to three figures at this frequency, or "none"."""
    for name, inductance in coils:
        if 376.5 <= 2 * math.pi * hertz * inductance < 377.5:
            return name
    return "none"


def symmetry(q: int, p: int) -> str:
    """What half a period does: x and y change their signs where their cycles are odd."""
    if p % 2 and q % 2:
        return "half-turn"
    return "left-right" if p % 2 else "up-down"


def read_rows(table: str) -> list[dict[str, str]]:
    """The rows of a table."""
    return list(csv.DictReader(table.splitlines()))


def answer(readings: Readings, coils: Coils, find: Any = find_coil) -> dict[str, object]:
    """The answer block for these readings."""
    supplies = []
    machines: dict[str, list[bool]] = {}
    batches: dict[str, list[bool]] = {}
    for row, (q, p) in readings:
        hertz = REFERENCE_HZ * q / p
        coil = find(hertz, coils)
        supply = {"supply_id": row["supply_ID"], "frequency_hz": round(hertz)}
        supplies.append(supply | {"period_ms": 10 * p, "symmetry": symmetry(q, p), "coil": coil})
        machines.setdefault(row["machine"], []).append(coil == "none")
        batches.setdefault(row["batch"], []).append(coil == "none")
    return {
        "task": "lissajous_figures",
        "supplies": supplies,
        "machine_faults": {name: sum(faults) for name, faults in machines.items()},
        "batch_faults": {name: sum(faults) for name, faults in batches.items()},
        "machines": [name for name, faults in machines.items() if 10 * sum(faults) > len(faults)],
    }


def solve(folder: Path) -> dict[str, object]:
    """The answer block for the tables and the pictures in the folder."""
    rows = read_rows((folder / "measurements.csv").read_text(encoding="utf-8"))
    coils = read_rows((folder / "coils.csv").read_text(encoding="utf-8"))
    pictures = folder / "oscilloscope_output"
    readings = [
        (row, read_ratio(pictures / f"ID_{row['measurement_id']}.png"))
        for row in rows
        if row["measurement_id"]
    ]
    return answer(readings, [(row["coil"], float(row["inductance_H"])) for row in coils])


if __name__ == "__main__":
    Path("answer.json").write_text(json.dumps(solve(Path())), encoding="utf-8")
