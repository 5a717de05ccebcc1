"""order_statistics: what is asked, what is true, and how many bits the key has."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from scipy import stats

from generators.grading.answer import Answer
from generators.grading.rubric import check_answer, score_verdicts
from generators.ladder.order_statistics import FAMILY
from generators.ladder.order_statistics.parameters import (
    BY_DIFFICULTY,
    LARGEST,
    MEDIAN,
    RANGE,
    RANK,
    SMALLEST,
    key_bits,
)
from generators.ladder.order_statistics.sample import (
    Question,
    answer_to,
    draw_sample,
    ordinal,
    question_text,
)
from generators.seed import SeedStreams
from generators.task import DIFFICULTIES
from generators.validation.validate import public_seeds


def samples(difficulty: str, count: int = 20):
    for seed in public_seeds(count):
        streams = SeedStreams(seed, "order_statistics", "test", difficulty)
        yield draw_sample(BY_DIFFICULTY[difficulty], streams)


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_answers_agree_with_numpy_and_scipy(difficulty):
    for sample in samples(difficulty):
        for question in sample.questions:
            numbers, argument = np.array(question.numbers), question.argument
            expected = {
                SMALLEST: lambda n=numbers, a=argument: np.partition(n, a - 1)[a - 1],
                LARGEST: lambda n=numbers, a=argument: -np.partition(-n, a - 1)[a - 1],
                MEDIAN: lambda n=numbers: np.median(n),
                RANK: lambda n=numbers, a=argument: stats.rankdata(n)[list(n).index(a)],
                RANGE: lambda n=numbers, a=argument: np.ptp(
                    stats.trimboth(np.sort(n), (a + 0.5) / len(n))
                ),
            }[question.kind]()
            assert answer_to(question) == expected


@pytest.mark.parametrize(
    ("kind", "argument", "text", "answer"),
    [
        (SMALLEST, 2, "the 2nd smallest number of list A1", 3),
        (LARGEST, 1, "the 1st largest number of list A1", 9),
        (MEDIAN, 0, "the median of list A1", 5),
        (RANK, 8, "the rank of 8 in list A1", 4),
        (RANGE, 1, "the range of list A1 without the 1 smallest and the 1 largest", 5),
    ],
)
def test_a_short_list_by_hand(kind, argument, text, answer):
    question = Question("A1", (5, 9, 1, 3, 8), kind, argument)
    assert (question_text(question), answer_to(question)) == (text, answer)


def test_ordinals():
    written = [ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 21, 22, 101)]
    assert written == ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "101st"]


def test_keys_run_from_8_to_512_bits():
    easy, medium, hard = (key_bits(BY_DIFFICULTY[level]) for level in DIFFICULTIES)
    assert easy == pytest.approx(8, abs=0.1)
    assert 2 * easy < medium < hard / 2
    assert hard == pytest.approx(512, rel=0.01)


def test_the_bits_of_a_rank_are_those_of_equally_likely_places():
    parameters = BY_DIFFICULTY["hard"]
    one = type(parameters)(1, 8, 0, 99, (RANK,), limits=parameters.limits)
    assert key_bits(one) == pytest.approx(math.log2(8))


def test_no_answer_stands_beside_its_question():
    """Lists stand in another order than the questions about them."""
    same = 0
    for sample in samples("hard"):
        same += sum(at == place for at, place in enumerate(sample.order))
    assert same < 3 * 20  # one place in common is expected of a random order


def test_each_answer_is_a_criterion_of_its_own():
    instance = FAMILY.generate("medium", public_seeds(1)[0])
    key = FAMILY.key(instance.truth)
    key["answers"][3]["answer"] += 1
    verdicts = check_answer(instance.rubric, Answer(key))
    assert verdicts.count(False) == 1
    assert score_verdicts(instance.rubric, verdicts, ("DH",)) == pytest.approx(14 / 15)
    assert len(instance.rubric.criteria) == 2 + 15


def test_a_question_names_its_list_alone():
    instance = FAMILY.generate("hard", public_seeds(1)[0])
    lists, questions = (asset.data.decode() for asset in instance.brief.assets)
    names = re.findall(r"^(\w+):", lists, re.MULTILINE)
    assert sorted(re.findall(r"list (\w{10})", questions)) == sorted(names)
