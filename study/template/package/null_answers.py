"""Answers of someone who does not open the file."""

from __future__ import annotations

from typing import Any

from .parameters import HIGH, LOW, NAME, Parameters


def make_nulls(parameters: Parameters) -> dict[str, dict[str, Any]]:
    """By name: nothing, a list of whatever comes to mind, and the middle of the range."""
    middle = (LOW + HIGH) / 2
    return {
        "empty": {},
        "everything": {"task": NAME, "bad": [f"{n:012x}" for n in range(1000)], "mean": middle},
        "prior": {"task": NAME, "bad": [], "mean": middle},
    }
