"""Numbers as people read them."""

from __future__ import annotations


def points(value: float) -> str:
    """A share of 1 in points of 100."""
    return f"{100 * value:.1f}"


def signed(value: float) -> str:
    """A gap in points of 100."""
    text = f"{100 * value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")


def p_words(value: float) -> str:
    return f"{value:.4f}" if value >= 0.001 else f"{value:.5f}"
