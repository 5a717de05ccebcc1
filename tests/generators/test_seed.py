"""Seeds: secrets that name streams without ambiguity; degenerate draws are drawn again, and not for
ever (R4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generators.errors import GeneratorError, GuardExhausted
from generators.seed import MAX_ATTEMPTS, Seed, SeedStreams, redraw

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


STREAMS = SeedStreams(Seed(bytes(32)), "family", "1", "easy")


def test_every_part_of_a_streams_name_counts():
    seed = Seed(bytes(32))
    names = [
        STREAMS.at("purpose"),
        STREAMS.at("other"),
        STREAMS.at("purpose", 1),
        STREAMS.at("purpose", 0, 1),
        SeedStreams(seed, "other", "1", "easy").at("purpose"),
        SeedStreams(seed, "family", "2", "easy").at("purpose"),
        SeedStreams(seed, "family", "1", "hard").at("purpose"),
        SeedStreams(Seed(bytes(31) + b"\x01"), "family", "1", "easy").at("purpose"),
    ]
    assert len({stream.word() for stream in names}) == len(names)


def test_a_stream_starts_afresh_each_time_it_is_named():
    assert STREAMS.at("purpose", 3).word() == STREAMS.at("purpose", 3).word()


def test_streams_do_not_show_their_seed():
    assert "00000000" not in repr(STREAMS)
    assert "\\x00" not in repr(STREAMS)


def test_the_first_good_draw_is_kept_with_its_attempt():
    assert redraw(lambda attempt: "good" if attempt >= 3 else None, "it") == ("good", 3)


def test_a_good_draw_may_be_zero_or_empty():
    assert redraw(lambda attempt: 0, "it") == (0, 0)
    assert redraw(lambda attempt: (), "it") == ((), 0)


def test_after_a_hundred_it_fails_loudly():
    tried = []
    with pytest.raises(GuardExhausted, match="counts: degenerate in 100 draws"):
        redraw(tried.append, "counts")
    assert tried == list(range(MAX_ATTEMPTS))
