"""Shortcuts that must not pay, and readers that err: `dosimeter tasks check` runs them."""

from __future__ import annotations

import csv
from functools import partial
from math import fsum
from typing import Any

from generators.attackers import Access, Attacker, Files, NoisySolver
from generators.stream import Stream

NAME = "new_task"
INPUT = "readings.csv"


def guess_by_size(files: Files) -> dict[str, Any]:
    """Sees how long the file is, not what stands in it."""
    return _answer([], len(files[INPUT]) / 10)


def average_everything(files: Files) -> dict[str, Any]:
    """Lists the bad readings, but averages them with the good ones."""
    rows = _rows(files)
    bad = [row["id"] for row in rows if row["status"] == "bad"]
    return _answer(bad, _mean(rows))


def overlook(missed: float, files: Files, draws: Stream) -> dict[str, Any]:
    """Takes each bad reading for a good one, or a good one for a bad one, with a probability."""
    rows = _rows(files)
    bad = [row for row in rows if (row["status"] == "bad") != draws.chance(missed)]
    return _answer([row["id"] for row in bad], _mean([row for row in rows if row not in bad]))


def _rows(files: Files) -> list[dict[str, str]]:
    return list(csv.DictReader(files[INPUT].decode("utf-8").splitlines()))


def _mean(rows: list[dict[str, str]]) -> float:
    return fsum(float(row["value"]) for row in rows) / max(1, len(rows))


def _answer(bad: list[str], mean: float) -> dict[str, Any]:
    return {"task": NAME, "bad": bad, "mean": mean}


ATTACKERS = (
    Attacker("file size", Access.METADATA, guess_by_size),
    Attacker("all readings averaged", Access.STEP_SKIPPED, average_everything),
)
NOISY = tuple(
    NoisySolver(f"{percent} % of readings misjudged", partial(overlook, percent / 100))
    for percent in (3, 8, 15, 30)
)
