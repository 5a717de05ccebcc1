"""Many patterns in one pass: the same answer as looking for each by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publish.leakcheck.matcher import Matcher

# Few letters, so that windows collide, patterns overlap and one lies inside another.
LETTERS = st.binary(min_size=0, max_size=60).map(
    lambda data: bytes(b"ab"[each % 2] for each in data)
)


@given(
    patterns=st.sets(LETTERS.filter(lambda each: len(each) >= 11), max_size=40),
    text=st.lists(LETTERS, max_size=20).map(b"".join),
)
def test_finds_exactly_what_is_there(patterns: set[bytes], text: bytes) -> None:
    assert Matcher(patterns).find(text) == {each for each in patterns if each in text}


@pytest.mark.parametrize("place", range(24))
def test_finds_a_pattern_at_every_alignment_and_at_both_ends(place: int) -> None:
    pattern = bytes(range(100, 133))
    for after in (0, 1, 7, 50):
        assert Matcher([pattern]).find(b"." * place + pattern + b"." * after) == {pattern}


def test_a_common_beginning_costs_nothing_to_correctness() -> None:
    patterns = [b'{"columns":["total"],"rows":[[%d]]}' % number for number in range(500)]
    text = b" ".join(patterns[100:110])
    assert Matcher(patterns).find(text) == set(patterns[100:110])


def test_refuses_a_pattern_too_short_to_be_found_so() -> None:
    with pytest.raises(ValueError, match="fewer than 11"):
        Matcher([b"seven.."])
