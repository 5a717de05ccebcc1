"""Degenerate draws are drawn again, and not for ever (R4)."""

from __future__ import annotations

import pytest

from generators.errors import GuardExhausted
from generators.seed import Seed
from generators.streams import MAX_ATTEMPTS, SeedStreams, redraw

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
