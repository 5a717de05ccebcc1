"""The input file: fixed decimals, LF, UTF-8, so that its bytes never change."""

from __future__ import annotations

from collections.abc import Iterable

from .parameters import DECIMALS
from .sample import Reading


def write_table(readings: Iterable[Reading]) -> bytes:
    lines = ["id,status,value"]
    for each in readings:
        lines.append(f"{each.id},{'bad' if each.bad else 'good'},{each.value:.{DECIMALS}f}")
    return "".join(f"{line}\n" for line in lines).encode("utf-8")
