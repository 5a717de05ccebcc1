"""List the numbers of a file in blocks, and average each block and the whole."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from generators.family import (
    NUMBER,
    Drawn,
    FamilyOfParts,
    FamilyParameters,
    InputFiles,
    answer_schema,
    form_criteria,
    list_of,
)
from generators.grading.checks import (
    Gated,
    ListsNumber,
    NumberPrecision,
    NumberRecall,
    NumberWithin,
    ShareOf,
)
from generators.grading.rubric import Metarubric, Row, Rubric, fill_rubric, number_near
from generators.seed import Streams, redraw
from generators.task import GroundTruth, Limits, Scalar, TruthTable

NAME = "compute_average"

INPUT = "input_numbers.txt"
DECIMALS = 6
UNIT = 1_000_000  # 10**DECIMALS; numbers are drawn and added in whole units of the last decimal
BOUND = 1000  # numbers lie strictly between -BOUND and BOUND

AVERAGE_TOLERANCE = 0.005
NUMBER_TOLERANCE = 0.5 / UNIT  # half of the last decimal that is written


@dataclass(frozen=True, slots=True)
class Parameters(FamilyParameters):
    """Sizes of an instance's blocks, shuffled for each instance; and counts of its numbers that
    repeat another, of negative ones (at least), and of those in exponent form."""

    sizes: tuple[int, ...]
    repeats: int
    negatives: int
    exponents: int

    @property
    def numbers(self) -> int:
        """How many numbers there are in all blocks."""
        return sum(self.sizes)

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return len(self.sizes)

    def described(self) -> dict[str, int | float | str]:
        """The parameters as people read them."""
        return {
            "numbers": self.numbers,
            "blocks": self.blocks,
            "repeats": self.repeats,
            "negatives": self.negatives,
            "exponents": self.exponents,
        }


BY_DIFFICULTY = {
    "easy": Parameters((3,) * 6, repeats=0, negatives=1, exponents=0, limits=Limits(turns=10)),
    "medium": Parameters(
        (4, 5, 5, 6, 6, 7, 7, 8), repeats=2, negatives=1, exponents=1, limits=Limits(turns=10)
    ),
    "hard": Parameters(
        (15, 16, 17, 18, 19, 21, 22, 23, 24, 25),
        repeats=6,
        negatives=1,
        exponents=5,
        limits=Limits(turns=15),
    ),
}


_MOST_BLOCKS = max(parameters.blocks for parameters in BY_DIFFICULTY.values())
_CENT = UNIT // 100
_TIE_MARGIN = UNIT // 100_000  # 10⁻⁵


@dataclass(frozen=True, slots=True)
class Sample:
    """The blocks of numbers in the order of the file, and the places of those in exponent form,
    counted over all blocks."""

    blocks: tuple[tuple[int, ...], ...]
    exponents: frozenset[int]
    redraws: int


def draw_sample(parameters: Parameters, streams: Streams) -> Sample:
    """Raises GuardExhausted if a draw stays degenerate."""
    sizes = streams.at("sizes").shuffle(parameters.sizes)
    blocks, redraws = redraw(
        lambda attempt: _blocks(parameters, sizes, streams, attempt), "numbers"
    )
    places = streams.at("exponents").shuffle(range(parameters.numbers))[: parameters.exponents]
    return Sample(blocks, frozenset(places), redraws)


def _blocks(
    parameters: Parameters, sizes: Sequence[int], streams: Streams, attempt: int
) -> tuple[tuple[int, ...], ...] | None:
    """Uniform numbers and copies of some, in random order; None if they are degenerate."""
    fresh = [
        streams.at("number", index, attempt).integer(1 - BOUND * UNIT, BOUND * UNIT - 1)
        for index in range(parameters.numbers - parameters.repeats)
    ]
    copies = streams.at("repeats", 0, attempt).shuffle(fresh)[: parameters.repeats]
    units = (*fresh, *copies)
    ordered = iter(streams.at("order", 0, attempt).shuffle(units))
    blocks = tuple(tuple(itertools.islice(ordered, size)) for size in sizes)
    negatives = sum(number < 0 for number in units)
    unclear = abs(sum(units)) < len(units) * UNIT or any(map(is_tie, (units, *blocks)))
    return None if negatives < parameters.negatives or unclear else blocks


def is_tie(units: Sequence[int]) -> bool:
    """True if the mean lies within 10⁻⁵ of a tie of two-decimal rounding: a rounded answer would
    then meet the tolerance, or miss it, by luck."""
    count, total = len(units), sum(units)
    doubled_way_to_tie = abs(2 * (total % (count * _CENT)) - count * _CENT)
    return doubled_way_to_tie <= 2 * count * _TIE_MARGIN


def write_number(units: int, exponent: bool) -> str:
    """With all decimals, or in exponent form: both parse to the same float."""
    exact = Decimal(units).scaleb(-DECIMALS)
    return f"{exact:e}" if exponent else f"{exact:.{DECIMALS}f}"


def write_blocks(sample: Sample) -> tuple[tuple[str, ...], ...]:
    """The numbers as they stand in the file."""
    places = itertools.count()
    return tuple(
        tuple(write_number(units, next(places) in sample.exponents) for units in block)
        for block in sample.blocks
    )


def encode_blocks(blocks: Sequence[Sequence[str]]) -> bytes:
    """The bytes of the input file: a number on each line, an empty line between blocks."""
    return "\n".join("".join(f"{line}\n" for line in block) for block in blocks).encode("ascii")


def make_truth(blocks: Sequence[Sequence[str]]) -> GroundTruth:
    """Tables ``numbers`` (block, written, value, copy: the how-manieth of its value, from 1),
    ``blocks`` (block, average) and ``final_result`` (average). An average is the float nearest to
    the exact mean."""
    seen: Counter[float] = Counter()
    rows: list[tuple[Scalar, ...]] = []
    for number, block in enumerate(blocks, 1):
        for line in block:
            value = float(line)
            seen[value] += 1
            rows.append((number, line, value, seen[value]))
    averages = tuple((number, _mean(block)) for number, block in enumerate(blocks, 1))
    return GroundTruth(
        tables=(
            ("numbers", TruthTable(("block", "written", "value", "copy"), tuple(rows))),
            ("blocks", TruthTable(("block", "average"), averages)),
            ("final_result", TruthTable.of_row(average=_mean([*itertools.chain(*blocks)]))),
        ),
        tolerances=(("average", AVERAGE_TOLERANCE), ("numbers", NUMBER_TOLERANCE)),
    )


def _mean(lines: Sequence[str]) -> float:
    units = sum(int(Decimal(line).scaleb(DECIMALS)) for line in lines)
    return units / (UNIT * len(lines))  # of integers, which rounds once


def make_key(truth: GroundTruth) -> dict[str, Any]:
    """The answer block that scores full marks."""
    return {
        "task": NAME,
        "numbers": list(truth.table("numbers").column("value")),
        "block_averages": {
            str(row["block"]): row["average"] for row in truth.table("blocks").records()
        },
        "average": truth.table("final_result").column("average")[0],
    }


PROMPT = """\
The file `input_numbers.txt` in your work folder holds {parameters.numbers} numbers, one on each \
line, in {parameters.blocks} blocks with an empty line between them. Some may be negative, repeat \
another, or be written in exponent form.

List all the numbers, each as often as it occurs; then work out the average of each block, and \
the average of all the numbers.

Report your findings in two sections:

NUMBERS FOUND: every number of the file, with all of its decimals.
AVERAGES: the average of each block, numbered from 1 in the order of the file, and the average of \
all the numbers, to at least two decimals.

End with one JSON object between two lines of their own, as shown here:

<answer>
{{"task": "compute_average", "numbers": [<number>, …], \
"block_averages": {{"1": <number>, …, "{parameters.blocks}": <number>}}, "average": <number>}}
</answer>

You may instead write the same object to the file `answer.json` in the work folder.
"""

ANSWER_SCHEMA = answer_schema(
    NAME,
    {
        "numbers": list_of(NUMBER),
        "block_averages": {"type": "object", "additionalProperties": NUMBER},
        "average": NUMBER,
    },
)

_LIST = ("numbers",)


def make_rubric(truth: GroundTruth) -> Rubric:
    """The criteria of an instance with this truth."""
    values = tuple(float(value) for value in truth.table("numbers").column("value"))
    listing: dict[str, Any] = {"tolerance": NUMBER_TOLERANCE, "source": "numbers.value"}
    # A list of everything is no finding (R8a) ...
    precise = NumberPrecision(_LIST, values, **listing)
    # ... and an average without its numbers is a guess (R8e).
    read = ShareOf((precise, NumberRecall(_LIST, values, **listing)), share=1.0)
    return fill_rubric(_metarubrics(precise, read), dict(truth.tables))


def _metarubrics(precise: NumberPrecision, read: ShareOf) -> tuple[Metarubric, ...]:
    def found(row: Row) -> Gated:
        value, copy = float(row["value"]), int(row["copy"])
        return Gated(ListsNumber(_LIST, value, copy, NUMBER_TOLERANCE), precise)

    def averaged(row: Row) -> Gated:
        average, path = float(row["average"]), ("block_averages", str(row["block"]))
        low, high = average - AVERAGE_TOLERANCE, average + AVERAGE_TOLERANCE
        return Gated(NumberWithin(path, low, high), read)

    return (
        *form_criteria(NAME, ANSWER_SCHEMA, 0.2),
        Metarubric(
            "found_numbers",
            "DH",
            5.0,
            "The answer lists the number {value:.6f} at least {copy} time(s).",
            found,
            source="numbers",
        ),
        Metarubric(
            "block_averages",
            "SR",
            5.0,
            "The answer states that the average of block {block} is {average:.2f} "
            f"(± {AVERAGE_TOLERANCE}).",
            averaged,
            source="blocks",
        ),
        Metarubric(
            "computed_average",
            "SR",
            3.0,
            f"The answer states that the average of all numbers is {{average:.2f}} "
            f"(± {AVERAGE_TOLERANCE}).",
            number_near("average", AVERAGE_TOLERANCE, read),
            source="final_result",
            headline=True,
        ),
    )


def make_nulls(parameters: Parameters) -> dict[str, dict[str, Any]]:
    """By name: nothing, every round number there is, the middle of the range, and constants."""
    tenths = [number / 10 for number in range(-10 * BOUND, 10 * BOUND + 1)]
    constants = {
        f"constant{constant:+d}": _answer([float(constant)] * parameters.numbers, constant)
        for constant in (-500, -1, 1, 500)
    }
    return {
        "empty": {},
        "everything": _answer(tenths, 0.0),
        "prior": _answer([0.0] * parameters.numbers, 0.0),
        **constants,
    }


def _answer(numbers: list[float], average: float) -> dict[str, Any]:
    averages = dict.fromkeys(map(str, range(1, _MOST_BLOCKS + 1)), average)
    return {"task": NAME, "numbers": numbers, "block_averages": averages, "average": average}


def draw(parameters: Parameters, streams: Streams) -> Drawn:
    """The input file and the truth of one seed."""
    sample = draw_sample(parameters, streams)
    blocks = write_blocks(sample)
    files = InputFiles()
    files.add_text(INPUT, "text/plain", encode_blocks(blocks))
    return Drawn(files, make_truth(blocks), {"redraws": sample.redraws})


FAMILY = FamilyOfParts(  # after PARAMETR-Bench's _compute_average
    name=NAME,
    version="3",
    summary="list the numbers of a text file, and average each block of them and all",
    package=__name__,
    by_difficulty=BY_DIFFICULTY,
    draw=draw,
    prompt=PROMPT,
    answer_schema=ANSWER_SCHEMA,
    make_rubric=make_rubric,
    key=make_key,
    make_nulls=make_nulls,
    given=("numbers.written", "numbers.value"),
)
