"""Numbers in the words of reports."""

from __future__ import annotations


def points(value: float) -> str:
    """A share of 1 as points of 100, with one decimal."""
    return f"{100 * value:.1f}"


def signed(value: float) -> str:
    """A gap (share of 1) as points of 100, with its sign; 0.0 has none."""
    text = f"{100 * value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")


def p_words(value: float) -> str:
    """A p-value with four decimals, five if it is below 0.001."""
    return f"{value:.4f}" if value >= 0.001 else f"{value:.5f}"


def counted(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun, in the plural unless it is 1."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
