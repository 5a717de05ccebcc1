"""Seeds: secrets that name streams without ambiguity."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generators.errors import GeneratorError
from generators.seed import Seed

ROOT = Seed(bytes(range(32)))
parts = st.lists(st.one_of(st.text(max_size=4), st.integers(-20, 20)), max_size=4).map(tuple)


def test_a_child_is_known_for_good():
    assert ROOT.child("a", 1).hex == (
        "699de1f00d401e91882883c54beb84a37a6e3aa32d1aa7996b434654e290772a"
    )


@given(parts, parts)
def test_two_paths_never_meet(one, other):
    assert (ROOT.child(*one) == ROOT.child(*other)) == (
        [(type(part), part) for part in one] == [(type(part), part) for part in other]
    )


def test_the_boundaries_and_types_of_parts_count():
    paths = [("ab", "c"), ("a", "bc"), ("abc",), ("ab", "c", ""), (1,), ("1",), (), ("",)]
    assert len({ROOT.child(*path) for path in paths}) == len(paths)


def test_a_path_is_not_its_steps():
    assert ROOT.child("a", "b") != ROOT.child("a").child("b")


def test_neighbouring_seeds_have_nothing_in_common():
    one, other = ROOT.rng(), Seed(bytes(31) + b"\x01").rng()
    assert not {one.word() for _ in range(1000)} & {other.word() for _ in range(1000)}


def test_no_text_of_a_seed_shows_it():
    shown = f"{ROOT} {ROOT!r} {[ROOT]} {ROOT.rng()!r}"
    assert ROOT.hex not in shown
    assert repr(ROOT.value) not in shown
    assert "\\x01" not in shown


def test_hex_goes_there_and_back():
    assert Seed.from_hex(ROOT.hex) == ROOT


@pytest.mark.parametrize("text", ["", "00", "0" * 63, "0" * 65, "g" * 64, "00 " * 21 + "0"])
def test_what_is_not_64_digits_is_refused_without_being_shown(text):
    with pytest.raises(GeneratorError, match="64 hexadecimal digits") as refused:
        Seed.from_hex(text)
    assert text == "" or text not in str(refused.value)


def test_a_seed_has_32_bytes():
    with pytest.raises(GeneratorError, match="32 bytes, not 31"):
        Seed(bytes(31))
