"""compute_average: a file of written numbers, and marks that need them."""

from __future__ import annotations

import itertools
import re
from decimal import ROUND_HALF_EVEN, Decimal

import pytest

from generators.basics.compute_average import (
    BY_DIFFICULTY,
    FAMILY,
    NAME,
    UNIT,
    Parameters,
    draw_sample,
    is_tie,
    make_rubric,
    make_truth,
    write_number,
)
from generators.errors import GuardExhausted
from generators.grading.answer import Answer
from generators.grading.rubric import check_answer, score_verdicts
from generators.seed import SeedStreams
from generators.task import Limits
from generators.validation.validate import public_seeds
from tests.cases import cases
from tests.generators.measures import as_many
from tests.generators.words import Forced

FIXED = re.compile(r"-?\d{1,3}\.\d{6}")
EXPONENT = re.compile(r"-?\d(\.\d+)?e[+-]\d+")


def streams(seed=None) -> SeedStreams:
    return SeedStreams(seed or public_seeds(1)[0], "compute_average", "1", "test")


def blocks_of(instance) -> list[list[str]]:
    data = instance.brief.assets[0].data
    assert data.endswith(b"\n")
    assert b"\r" not in data
    return [block.split("\n") for block in data.decode("ascii")[:-1].split("\n\n")]


def parameters(sizes, negatives=0) -> Parameters:
    return Parameters(sizes, 0, negatives, 0, limits=Limits())


def forced(word, attempts) -> Forced:
    """Streams in which the numbers of some attempts are all made of one word."""
    return Forced(
        streams(), lambda what, _i, at: word if what == "number" and at in attempts else None
    )


# --- the file


@pytest.mark.parametrize(("difficulty", "exponents"), [("easy", 0), ("medium", 1), ("hard", 5)])
def test_each_line_is_one_number_with_six_decimals(difficulty, exponents):
    for seed in public_seeds(10):
        blocks = blocks_of(FAMILY.generate(difficulty, seed))
        lines = [*itertools.chain(*blocks)]
        odd = [line for line in lines if not FIXED.fullmatch(line)]
        assert sorted(map(len, blocks)) == sorted(BY_DIFFICULTY[difficulty].sizes)
        assert len(odd) == exponents
        assert all(EXPONENT.fullmatch(line) for line in odd)
        assert not any(float(line) == 0 and line.startswith("-") for line in lines)


def test_the_exponent_form_parses_to_the_same_float():
    for units in (1, -1, 123_456_789, -999_999_999, 10, 500_000_000, 1_000_000):
        fixed, exponent = write_number(units, False), write_number(units, True)
        assert float(fixed) == float(exponent) == units / UNIT
        assert FIXED.fullmatch(fixed)
        assert EXPONENT.fullmatch(exponent)
    assert write_number(0, False) == "0.000000"


# --- guards


@pytest.mark.parametrize(("units", "tie"), cases(__file__, "ties"))
def test_ties_are_found_exactly(units, tie):
    assert is_tie(units) is tie


def test_degenerate_numbers_are_drawn_again():
    """All numbers of the first attempt are nearly zero."""
    sample = draw_sample(BY_DIFFICULTY["easy"], forced(1_000_000_000 - 1, {0}))
    assert sample.redraws >= 1
    units = [*itertools.chain(*sample.blocks)]
    assert abs(sum(units)) >= len(units) * UNIT
    assert not any(map(is_tie, (units, *sample.blocks)))


def test_a_block_with_a_tie_is_drawn_again():
    """Numbers that all end in half a hundredth."""
    tied = forced(1_600_005_000, {0})
    assert draw_sample(parameters((3, 3)), tied).redraws >= 1


def test_a_set_without_a_negative_number_is_drawn_again():
    positive = forced(1_600_000_000, {0})
    assert draw_sample(parameters((3, 3)), positive).redraws == 0
    assert draw_sample(parameters((3, 3), negatives=1), positive).redraws >= 1


def test_a_set_that_stays_degenerate_fails_loudly():
    with pytest.raises(GuardExhausted, match="numbers"):
        draw_sample(BY_DIFFICULTY["easy"], forced(1_000_000_000 - 1, range(100)))


def test_two_decimals_are_always_enough():
    for difficulty in BY_DIFFICULTY:
        for seed in public_seeds(as_many(5, 20)):
            instance = FAMILY.generate(difficulty, seed)
            blocks = blocks_of(instance)
            key = FAMILY.key(instance.truth) | {
                "block_averages": {str(at): rounded(block) for at, block in enumerate(blocks, 1)},
                "average": rounded([*itertools.chain(*blocks)]),
            }
            assert score_verdicts(
                instance.rubric, check_answer(instance.rubric, Answer(key))
            ) == pytest.approx(1.0)


def rounded(lines) -> float:
    exact = sum(map(Decimal, lines)) / len(lines)
    return float(exact.quantize(Decimal("0.01"), ROUND_HALF_EVEN))


# --- marks

BLOCKS = (("1.500000", "-2.250000", "1.500000"), ("1.0e+1",))
AVERAGES = {"1": 0.25, "2": 10.0}


def verdicts_on(numbers, averages, average):
    """The verdicts on the four numbers, on the two blocks, and on the average."""
    block = {"numbers": numbers, "block_averages": averages, "average": average}
    verdicts = check_answer(make_rubric(make_truth(BLOCKS)), Answer({"task": NAME, **block}))
    return list(verdicts[2:6]), list(verdicts[6:8]), verdicts[8]


def marks(numbers, average):
    """The verdicts on the four numbers, and on the average."""
    listed, _, averaged = verdicts_on(numbers, AVERAGES, average)
    return listed, averaged


def test_the_truth_is_that_of_the_written_numbers():
    truth = make_truth(BLOCKS)
    assert truth.table("numbers").rows == tuple(map(tuple, cases(__file__, "truth")))
    assert truth.table("blocks").rows == ((1, 0.25), (2, 10.0))
    assert truth.table("final_result").rows == ((2.6875,),)


def test_an_average_without_half_of_its_numbers_is_a_guess():
    assert marks([], 2.69) == ([False] * 4, False)
    assert marks([10], 2.69) == ([False, False, False, True], False)
    assert marks([10, -2.25], 2.69)[1] is True
