"""No pattern takes more than linear time on some text."""

from __future__ import annotations

import pytest

from scripts.slow_patterns import ROOT, faults, is_ambiguous
from tests.cases import cases


def test_no_pattern_of_ours_can_take_very_long() -> None:
    assert list(faults(ROOT)) == []


@pytest.mark.parametrize(("method", "patterns"), cases(__file__, "shared"))
def test_repeats_that_can_share_a_text_are_found(method: str, patterns: tuple[str, ...]) -> None:
    assert [text for text in patterns if not is_ambiguous(text, 0, {method})] == []


@pytest.mark.parametrize(("method", "patterns"), cases(__file__, "passing"))
def test_other_repeats_pass(method: str, patterns: tuple[str, ...]) -> None:
    assert [text for text in patterns if is_ambiguous(text, 0, {method})] == []
