"""List the numbers of a file and average them (spec/physics.md, section 7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
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
from generators.grading import (
    Gated,
    ListsNumber,
    Metarubric,
    NumberPrecision,
    NumberRecall,
    Row,
    Rubric,
    ShareOf,
    fill_rubric,
    number_near,
)
from generators.seed import Streams, redraw
from generators.task import GroundTruth, Limits, TruthTable

NAME = "compute_average"

INPUT = "input_numbers.txt"
DECIMALS = 6
UNIT = 1_000_000  # 10**DECIMALS; numbers are drawn and added in whole units of the last decimal
BOUND = 1000  # numbers lie strictly between -BOUND and BOUND

AVERAGE_TOLERANCE = 0.005
NUMBER_TOLERANCE = 0.5 / UNIT  # half of the last decimal that is written


@dataclass(frozen=True, slots=True)
class Parameters(FamilyParameters):
    """Counts of an instance's numbers: all, those that repeat another, negative ones (at
    least), and those in exponent form."""

    numbers: int
    repeats: int
    negatives: int
    exponents: int


BY_DIFFICULTY = {
    "easy": Parameters(3, repeats=0, negatives=0, exponents=0, limits=Limits(turns=10)),
    "medium": Parameters(20, repeats=1, negatives=1, exponents=0, limits=Limits(turns=10)),
    "hard": Parameters(200, repeats=3, negatives=1, exponents=1, limits=Limits(turns=15)),
}


_CENT = UNIT // 100
_TIE_MARGIN = UNIT // 10_000  # 10⁻⁴


@dataclass(frozen=True, slots=True)
class Sample:
    """The numbers in the order of the file, and the places of those in exponent form."""

    units: tuple[int, ...]
    exponents: frozenset[int]
    redraws: int


def draw_sample(parameters: Parameters, streams: Streams) -> Sample:
    """Raises GuardExhausted if a draw stays degenerate."""
    units, redraws = redraw(lambda attempt: _units(parameters, streams, attempt), "numbers")
    ordered = streams.at("order").shuffle(units)
    places = streams.at("exponents").shuffle(range(len(units)))[: parameters.exponents]
    return Sample(ordered, frozenset(places), redraws)


def _units(parameters: Parameters, streams: Streams, attempt: int) -> tuple[int, ...] | None:
    """Uniform numbers, then copies of some; None if they are degenerate."""
    fresh = [
        streams.at("number", index, attempt).integer(1 - BOUND * UNIT, BOUND * UNIT - 1)
        for index in range(parameters.numbers - parameters.repeats)
    ]
    copies = streams.at("repeats", 0, attempt).shuffle(fresh)[: parameters.repeats]
    units = (*fresh, *copies)
    negatives = sum(number < 0 for number in units)
    return None if negatives < parameters.negatives or is_degenerate(units) else units


def is_degenerate(units: Sequence[int]) -> bool:
    """True if the mean lies within 1 of zero, or within 10⁻⁴ of a tie of two-decimal rounding:
    a guess of zero or a rounded answer would then meet the tolerance, or miss it, by luck."""
    count, total = len(units), sum(units)
    doubled_way_to_tie = abs(2 * (total % (count * _CENT)) - count * _CENT)
    return abs(total) < count * UNIT or doubled_way_to_tie <= 2 * count * _TIE_MARGIN


def write_number(units: int, exponent: bool) -> str:
    """With all decimals, or in exponent form: both parse to the same float."""
    exact = Decimal(units).scaleb(-DECIMALS)
    return f"{exact:e}" if exponent else f"{exact:.{DECIMALS}f}"


def write_lines(sample: Sample) -> tuple[str, ...]:
    """The numbers as they stand in the file."""
    return tuple(
        write_number(units, place in sample.exponents) for place, units in enumerate(sample.units)
    )


def encode_lines(lines: tuple[str, ...]) -> bytes:
    """The bytes of the input file."""
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def make_truth(lines: Sequence[str]) -> GroundTruth:
    """Tables ``numbers`` (written, value, copy: the how-manieth of its value, from 1) and
    ``final_result`` (average, the float nearest to the exact mean)."""
    seen: Counter[float] = Counter()
    rows = []
    for line in lines:
        value = float(line)
        seen[value] += 1
        rows.append((line, value, seen[value]))
    average = float(sum(map(Fraction, lines)) / len(lines))
    return GroundTruth(
        tables=(
            ("numbers", TruthTable(("written", "value", "copy"), tuple(rows))),
            ("final_result", TruthTable.of_row(average=average)),
        ),
        tolerances=(("average", AVERAGE_TOLERANCE), ("numbers", NUMBER_TOLERANCE)),
    )


def make_key(truth: GroundTruth) -> dict[str, Any]:
    """The answer block that scores full marks."""
    return {
        "task": NAME,
        "numbers": list(truth.table("numbers").column("value")),
        "average": truth.table("final_result").column("average")[0],
    }


PROMPT = """\
The file `input_numbers.txt` in your work folder holds {parameters.numbers} numbers, \
one on each line. Some may be negative, repeat another, or be written in exponent form.

List all the numbers, each as often as it occurs, then work out their average.

Report your findings in two sections:

NUMBERS FOUND: every number of the file, with all of its decimals.
AVERAGE: their average, to at least two decimals.

End with one JSON object between two lines of their own, as shown here:

<answer>
{{"task": "compute_average", "numbers": [<number>, …], "average": <number>}}
</answer>

You may instead write the same object to the file `answer.json` in the work folder.
"""

ANSWER_SCHEMA = answer_schema(NAME, {"numbers": list_of(NUMBER), "average": NUMBER})

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

    return (
        *form_criteria(NAME, ANSWER_SCHEMA, 0.2),
        Metarubric(
            "found_numbers",
            "DH",
            2.0,
            "The answer lists the number {value:.6f} at least {copy} time(s), and at least half "
            "of the numbers that it lists are in the file.",
            found,
            "numbers",
        ),
        Metarubric(
            "computed_average",
            "SR",
            10.0,
            f"The answer states that the average is {{average:.2f}} (± {AVERAGE_TOLERANCE}), and "
            "lists at least half of the numbers.",
            number_near("average", AVERAGE_TOLERANCE, read),
            "final_result",
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
    return {"task": NAME, "numbers": numbers, "average": average}


def draw(parameters: Parameters, streams: Streams) -> Drawn:
    """The input file and the truth of one seed."""
    sample = draw_sample(parameters, streams)
    lines = write_lines(sample)
    files = InputFiles()
    files.add_text(INPUT, "text/plain", encode_lines(lines))
    return Drawn(files, make_truth(lines), {"redraws": sample.redraws})


FAMILY = FamilyOfParts(  # after PARAMETR-Bench's _compute_average
    name=NAME,
    version="2",
    summary="list the numbers of a text file, and average them",
    package="generators.basics",
    solver_file="compute_average_solver.py",
    by_difficulty=BY_DIFFICULTY,
    draw=draw,
    prompt=PROMPT,
    answer_schema=ANSWER_SCHEMA,
    make_rubric=make_rubric,
    key=make_key,
    make_nulls=make_nulls,
    given=("numbers.written", "numbers.value"),
)
