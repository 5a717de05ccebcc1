"""No pattern takes more than linear time on some text."""

from __future__ import annotations

import pytest

from scripts.slow_patterns import ROOT, faults, is_ambiguous


def test_no_pattern_of_ours_can_take_very_long() -> None:
    assert list(faults(ROOT)) == []


@pytest.mark.parametrize(
    ("method", "patterns"),
    [
        ("match", (r"(a+)+$", r"\s*\s*x", r".*.*x", r"\s*\n\s*x", r"(?:a|ab|b)*c", r"(a*)*b")),
        ("match", (r"(?:\d{1,3})+x", r"(?:\s|/\*.*?(?:\*/|$))*x", r"x(?=\s*/?\s*y)", r"(?:a|a)*b")),
        ("search", (r"\s*x", r"\s+$", r"<a>.*?</a>", r"\s*+x", r"/\*.*?\*/", r"[a-z]+=")),
    ],
)
def test_repeats_that_can_share_a_text_are_found(method: str, patterns: tuple[str, ...]) -> None:
    assert [text for text in patterns if not is_ambiguous(text, 0, {method})] == []


@pytest.mark.parametrize(
    ("method", "patterns"),
    [
        ("match", (r"\s*+\n\s*+x", r"[a-z]+=[0-9]+", r"(?:ab)*abc", r"(?:[^,]++|,[^,]*+,?+)++x")),
        ("search", (r"(?<!\s)\s*+x", r"\d+", r"'(?:[^']|'')*+'?+", r"/\*(?:[^*]|\*(?!/))*+")),
    ],
)
def test_other_repeats_pass(method: str, patterns: tuple[str, ...]) -> None:
    assert [text for text in patterns if is_ambiguous(text, 0, {method})] == []
