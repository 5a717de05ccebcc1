"""compute_average: a file of written numbers, and marks that need them."""

from __future__ import annotations

import re
from collections import Counter
from decimal import ROUND_HALF_EVEN, Decimal

import pytest
from scipy import stats

from generators.basics.compute_average import (
    BY_DIFFICULTY,
    FAMILY,
    UNIT,
    Parameters,
    draw_sample,
    is_degenerate,
    make_rubric,
    make_truth,
    write_number,
)
from generators.errors import GuardExhausted
from generators.grading.answer import Answer
from generators.grading.rubric import check_answer, score_verdicts
from generators.seed import SeedStreams
from generators.stream import Stream
from generators.task import Limits
from generators.validation.validate import public_seeds

FIXED = re.compile(r"-?\d{1,3}\.\d{6}")
EXPONENT = re.compile(r"-?\d(\.\d+)?e[+-]\d+")


def streams(seed=None) -> SeedStreams:
    return SeedStreams(seed or public_seeds(1)[0], "compute_average", "1", "test")


def lines_of(instance) -> list[str]:
    data = instance.brief.assets[0].data
    assert data.endswith(b"\n")
    assert b"\r" not in data
    return data.decode("ascii")[:-1].split("\n")


class Forced:
    """Streams in which the numbers of some attempts are all made of one word."""

    def __init__(self, word, attempts):
        self._word, self._attempts = word, attempts

    def at(self, purpose, index=0, attempt=0):
        if purpose == "number" and attempt in self._attempts:
            return Constant(self._word)
        return streams().at(purpose, index, attempt)


class Constant(Stream):
    __slots__ = ("_word",)

    def __init__(self, word):
        self._word = word

    def word(self):
        return self._word


# --- the file


@pytest.mark.parametrize(("difficulty", "count"), [("easy", 3), ("medium", 20), ("hard", 200)])
def test_each_line_is_one_number_with_six_decimals(difficulty, count):
    for seed in public_seeds(10):
        lines = lines_of(FAMILY.generate(difficulty, seed))
        odd = [line for line in lines if not FIXED.fullmatch(line)]
        assert len(lines) == count
        assert len(odd) == (1 if difficulty == "hard" else 0)
        assert all(EXPONENT.fullmatch(line) for line in odd)
        assert not any(float(line) == 0 and line.startswith("-") for line in lines)


def test_the_exponent_form_parses_to_the_same_float():
    for units in (1, -1, 123_456_789, -999_999_999, 10, 500_000_000, 1_000_000):
        fixed, exponent = write_number(units, False), write_number(units, True)
        assert float(fixed) == float(exponent) == units / UNIT
        assert FIXED.fullmatch(fixed)
        assert EXPONENT.fullmatch(exponent)
    assert write_number(0, False) == "0.000000"


@pytest.mark.parametrize("difficulty", ["medium", "hard"])
def test_numbers_repeat_and_some_are_negative(difficulty):
    wanted = BY_DIFFICULTY[difficulty]
    for seed in public_seeds(10):
        values = [float(line) for line in lines_of(FAMILY.generate(difficulty, seed))]
        assert len(values) - len(set(values)) >= wanted.repeats >= 1
        assert min(values) < 0


def test_numbers_are_uniform():
    values = [
        float(line) for seed in public_seeds(40) for line in lines_of(FAMILY.generate("easy", seed))
    ]
    assert stats.kstest(values, "uniform", args=(-1000, 2000)).pvalue > 0.01


def test_one_more_number_leaves_the_others_as_they_were():
    three = draw_sample(Parameters(3, 0, 0, 0, limits=Limits()), streams())
    four = draw_sample(Parameters(4, 0, 0, 0, limits=Limits()), streams())
    assert three.redraws == four.redraws == 0
    assert set(three.units) < set(four.units)


# --- guards


@pytest.mark.parametrize(
    ("units", "degenerate"),
    [
        ((999_999, 999_999), True),  # mean just within 1
        ((-999_999, -999_999), True),
        ((0, 0, 0), True),
        ((1_000_000,), False),
        ((-1_000_000,), False),
        ((2_005_000,), True),  # a tie of two-decimal rounding
        ((2_005_100,), True),  # 10⁻⁴ from it
        ((2_005_101,), False),
        ((2_004_899,), False),
        ((-2_005_000,), True),
        ((-2_005_101,), False),
        ((2_005_000, 2_005_201), False),  # mean 100.5 units away
        ((2_005_000, 2_005_200), True),
    ],
)
def test_degenerate_means_are_told_exactly(units, degenerate):
    assert is_degenerate(units) is degenerate


def test_a_degenerate_set_is_drawn_again():
    sample = draw_sample(BY_DIFFICULTY["easy"], Forced(1_000_000_000 - 1, {0}))
    assert sample.redraws >= 1
    assert not is_degenerate(sample.units)


def test_a_set_without_a_negative_number_is_drawn_again():
    positive = Forced(1_600_000_000, {0})
    free = Parameters(3, 0, 0, 0, limits=Limits())
    assert draw_sample(free, positive).redraws == 0
    assert draw_sample(Parameters(3, 0, 1, 0, limits=Limits()), positive).redraws >= 1


def test_a_set_that_stays_degenerate_fails_loudly():
    with pytest.raises(GuardExhausted, match="numbers"):
        draw_sample(BY_DIFFICULTY["easy"], Forced(1_000_000_000 - 1, range(100)))


def test_two_decimals_are_always_enough():
    for difficulty in BY_DIFFICULTY:
        for seed in public_seeds(20):
            instance = FAMILY.generate(difficulty, seed)
            exact = sum(map(Decimal, lines_of(instance))) / len(lines_of(instance))
            rounded = exact.quantize(Decimal("0.01"), ROUND_HALF_EVEN)
            key = FAMILY.key(instance.truth) | {"average": float(rounded)}
            assert score_verdicts(
                instance.rubric, check_answer(instance.rubric, Answer(key))
            ) == pytest.approx(1.0)


# --- marks

LINES = ("1.500000", "-2.250000", "1.500000", "1.0e+1")


def marks(numbers, average):
    """The verdicts on the four numbers, and on the average."""
    truth = make_truth(LINES)
    answer = Answer({"task": "compute_average", "numbers": numbers, "average": average})
    verdicts = check_answer(make_rubric(truth), answer)
    return list(verdicts[2:6]), verdicts[6]


def test_the_truth_is_that_of_the_written_numbers():
    truth = make_truth(LINES)
    assert truth.table("numbers").rows == (
        ("1.500000", 1.5, 1),
        ("-2.250000", -2.25, 1),
        ("1.500000", 1.5, 2),
        ("1.0e+1", 10.0, 1),
    )
    assert truth.table("final_result").rows == ((2.6875,),)


def test_order_does_not_matter():
    assert marks([10, 1.5, 1.5, -2.25], 2.69) == ([True] * 4, True)


def test_the_second_copy_must_be_listed_too():
    assert marks([1.5, -2.25, 10], 2.69) == ([True, True, False, True], True)


def test_a_digit_less_is_another_number():
    assert marks([1.5, -2.25, 1.5, 10.000001], 2.69)[0] == [True, True, True, False]
    assert marks([1.5, -2.25, 1.5, 10.0000004], 2.69)[0] == [True] * 4


def test_an_average_without_half_of_its_numbers_is_a_guess():
    assert marks([], 2.69) == ([False] * 4, False)
    assert marks([10], 2.69) == ([False, False, False, True], False)
    assert marks([10, -2.25], 2.69)[1] is True


def test_a_list_of_everything_finds_nothing():
    everything = [each / 4 for each in range(-4000, 4001)]
    assert marks(everything, 2.69) == ([False] * 4, False)
    assert marks([1.5, -2.25, 1.5, 10] * 3, 2.69) == ([False] * 4, False)
    assert marks([1.5, -2.25, 1.5, 10] * 2, 2.69) == ([True] * 4, True)


def test_each_copy_is_asked_for_in_words():
    rubric = FAMILY.generate("hard", public_seeds(1)[0]).rubric
    asked = Counter(
        re.search(r"at least (\d) time", each.text)[1]
        for each in rubric.criteria
        if each.metarubric == "found_numbers"
    )
    assert asked == {"1": 197, "2": 3}
