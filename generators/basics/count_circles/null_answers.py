"""Answers of someone who opens no picture."""

from __future__ import annotations

from typing import Any

from generators.basics.count_circles.parameters import NAME, Parameters, file_names


def make_nulls(parameters: Parameters) -> dict[str, dict[str, Any]]:
    """By name: nothing, all counts at once, the middle of the range, each constant, and
    counts that run through the range (the best fixed guess at easy)."""
    names = file_names(parameters.files)
    counts = list(range(1, parameters.most + 1))
    nulls = {
        "empty": {},
        "everything": {"task": NAME, "counts": dict.fromkeys(names, counts), "average": counts},
        "prior": _answer([(1 + parameters.most) // 2] * len(names), (1 + parameters.most) / 2),
        "ramp": _answer([counts[index % len(counts)] for index in range(len(names))]),
    }
    constants = {f"constant-{count}": _answer([count] * len(names)) for count in counts}
    return nulls | constants


def _answer(counts: list[int], average: float | None = None) -> dict[str, Any]:
    named = dict(zip(file_names(len(counts)), counts, strict=True))
    mean = sum(counts) / len(counts)
    return {"task": NAME, "counts": named, "average": mean if average is None else average}
