"""Streams: the same draws for good, and fair ones."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from scipy import stats

from generators.seed import Seed
from generators.stream import Stream
from tests.cases import cases

ROOT = Seed(bytes(range(32)))


class Forced(Stream):
    """A stream of given words."""

    __slots__ = ("_words",)

    def __init__(self, *words: int) -> None:
        self._words = iter(words)

    def word(self) -> int:
        return next(self._words)


def test_the_first_words_are_known_for_good():
    stream = ROOT.rng()
    assert [stream.word() for _ in range(3)] == cases(__file__, "words")


def test_each_kind_of_draw_is_known_for_good():
    stream = ROOT.child("draws").rng()
    assert stream.uniform(-1, 1) == -0.21191363588696566
    assert stream.integer(1, 6) == 4
    assert stream.normal(10, 2) == pytest.approx(8.401680586192985, rel=1e-15)
    assert "".join(stream.shuffle("abcde")) == "acdeb"
    assert stream.choice("abcde") == "b"


def test_a_stream_of_a_digest_begins_with_its_bits_and_is_known_for_good():
    stream = Stream.of_digest(ROOT.value)
    assert [stream.word() for _ in range(3)] == cases(__file__, "digest_words")


@pytest.mark.parametrize("singles", [0, 1, 5])
def test_words_of_a_digest_are_those_of_numpy_one_by_one_or_many_at_once(singles):
    for index in range(20):
        digest = ROOT.child(index).value
        high, low, one, other = struct.unpack("<4Q", digest)
        numpys = np.random.PCG64()
        increment = ((one << 64 | other) << 1 | 1) % 2**128
        start = ((high << 64 | low) + increment) * 0x2360ED051FC65DA44385DF649FCCF645 + increment
        numpys.state = numpys.state | {"state": {"state": start % 2**128, "inc": increment}}
        stream = Stream.of_digest(digest)
        expected = numpys.random_raw(singles + 8).tolist()
        units = [((word >> 11) + 0.5) / 2.0**53 for word in expected]
        assert [stream.word() for _ in range(singles)] == expected[:singles]
        assert stream.uniforms(6).tolist() == units[singles : singles + 6]
        assert stream.uniform() == units[-2]
        assert stream.word() == expected[-1]


def test_many_uniforms_are_the_same_as_one_by_one():
    one, many = ROOT.rng(), ROOT.rng()
    assert [one.uniform() for _ in range(50)] == many.uniforms(50).tolist()


@pytest.mark.parametrize("word", [0, (1 << 64) - 1])
def test_uniforms_lie_strictly_inside_their_interval(word):
    assert 0.0 < Forced(word).uniform() < 1.0
    assert np.isfinite(Forced(word).normal())


def test_a_word_that_would_bias_an_integer_is_thrown_away():
    """2**64 = 3·k + 1: the last word would make one value likelier."""
    assert Forced((1 << 64) - 1, 4).integer(0, 2) == 1
    assert Forced((1 << 64) - 1).integer(0, (1 << 64) - 1) == (1 << 64) - 1


def test_integers_know_what_they_cannot_do():
    with pytest.raises(ValueError, match="empty range 3…2"):
        ROOT.rng().integer(3, 2)
    with pytest.raises(ValueError, match="more values than one word"):
        ROOT.rng().integer(0, 1 << 64)


def test_a_shuffle_leaves_its_argument_alone():
    items = [1, 2, 3, 4, 5, 6, 7]
    assert sorted(ROOT.rng().shuffle(items)) == items == [1, 2, 3, 4, 5, 6, 7]


def test_chances_come_as_often_as_stated():
    stream = ROOT.child("chances").rng()
    assert stats.binomtest(sum(stream.chance(0.3) for _ in range(5000)), 5000, 0.3).pvalue > 0.01


def test_counts_of_nothing_are_zero_and_no_others_are_drawn():
    stream = ROOT.child("edges").rng()
    assert stream.poisson(0) == stream.binomial(0, 0.5) == stream.binomial(9, 0.0) == 0
    assert stream.binomial(9, 1.0) == 9
    for draw in (lambda: stream.poisson(-1), lambda: stream.binomial(3, 1.5)):
        with pytest.raises(ValueError, match=r"Poisson|binomial"):
            draw()
