"""Shortcuts through the file of numbers, and readers that misread or lose lines."""

from __future__ import annotations

from functools import partial
from typing import Any

from generators.attackers import Access, Attacker, Files, NoisySolver
from generators.basics.compute_average.solver import answer, read_blocks
from generators.stream import Stream

INPUT = "input_numbers.txt"
_LOST = 1 / 3  # of the lines that go wrong; of the others a digit is misread


def guess_by_size(files: Files) -> dict[str, Any]:
    """As many small numbers as a file of this size would hold, in blocks of ten."""
    lines = len(files[INPUT]) // 11
    return answer([[0.5] * 10] * (lines // 10 + 1))


def ignore_signs(files: Files) -> dict[str, Any]:
    """Reads each number without its sign."""
    blocks = read_blocks(files[INPUT].decode("ascii"))
    return answer([[abs(number) for number in block] for block in blocks])


def list_only(files: Files) -> dict[str, Any]:
    """Lists the numbers, and gives the first number of each block for its average."""
    blocks = read_blocks(files[INPUT].decode("ascii"))
    listed = answer(blocks)
    firsts = {str(at): block[0] for at, block in enumerate(blocks, 1)}
    return listed | {"block_averages": firsts, "average": blocks[0][0]}


def read_roughly(wrong: float, files: Files, draws: Stream) -> dict[str, Any]:
    """Each line goes wrong with probability ``wrong``: it is lost, or a digit of it is misread."""
    blocks = read_blocks(files[INPUT].decode("ascii"))
    return answer([_misread(block, wrong, draws) for block in blocks])


def _misread(block: list[float], wrong: float, draws: Stream) -> list[float]:
    read = []
    for number in block:
        if not draws.chance(wrong):
            read.append(number)
        elif not draws.chance(_LOST):
            place = 10.0 ** draws.integer(-3, 2)
            read.append(number + draws.integer(1, 9) * place)
    return read


ATTACKERS = (
    Attacker("file size", Access.METADATA, guess_by_size),
    Attacker("signs ignored", Access.STEP_SKIPPED, ignore_signs),
    Attacker("listed, not averaged", Access.STEP_SKIPPED, list_only),
)
NOISY = tuple(
    NoisySolver(f"{percent} % of lines go wrong", partial(read_roughly, percent / 100))
    for percent in (3, 10, 22, 42)
)
