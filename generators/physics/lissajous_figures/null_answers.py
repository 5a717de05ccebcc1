"""Answers of an agent that opens no file."""

from __future__ import annotations

import string
from typing import Any

from generators.physics.lissajous_figures.parameters import NAME, Parameters


def make_nulls(parameters: Parameters) -> dict[str, dict[str, Any]]:
    """By name: nothing; that all is well (the likeliest state of one unit); as many identifiers
    as could be thought of; and one as likely as any at each faulty frequency."""
    frequencies = [round(ratio.hertz) for ratio in parameters.ratios if not ratio.is_good]
    many = [_supply(number, frequencies[number % len(frequencies)]) for number in range(10_000)]
    return {
        "empty": {},
        "prior": _answer([], []),
        "everything": _answer(many, list(string.ascii_uppercase + string.digits)),
        **{
            f"constant-{hertz}": _answer([_supply(1_234_567_890, hertz)], ["ABC123"])
            for hertz in frequencies
        },
    }


def _supply(number: int, hertz: int) -> dict[str, Any]:
    supply = f"{number:010d}"
    return {"supply_id": supply, "machine": "ABC123", "batch": "A", "frequency_hz": hertz}


def _answer(faulty: list[dict[str, Any]], machines: list[str]) -> dict[str, Any]:
    return {"task": NAME, "faulty": faulty, "machines": machines}
