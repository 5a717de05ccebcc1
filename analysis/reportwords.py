"""Numbers and verdicts in words, for pages that people read."""

from __future__ import annotations

from analysis.verdict import CONTAMINATED, NO_INFLATION, Verdict


def summarise(verdict: Verdict) -> str:
    """One verdict in a sentence or two of plain words."""
    if verdict.estimate is None:
        return "Not testable: an arm of a stratum holds no scored instance."
    gap, (low, high) = verdict.estimate, verdict.interval
    direction = "higher" if gap >= 0 else "lower"
    said = f"Scores {points(abs(gap))} points {direction} on public than on private instances"
    said += f" (95 % interval {signed(low)} to {signed(high)})."
    if verdict.verdict == CONTAMINATED:
        more = f" Chance alone gives so much with probability {p_words(verdict.p_adjusted)}"
        said += f"{more}, adjusted for the models of this look."
    elif verdict.verdict == NO_INFLATION:
        bound = f"An inflation above {points(verdict.upper)} points"
        said += f" {bound if verdict.upper > 0 else 'Any inflation'} is ruled out (95 % bound)."
    else:
        said += f" Neither is a gap shown, nor one up to {signed(verdict.upper)} points ruled out."
    return said + (f" Note: {verdict.note}." if verdict.note else "")


def points(value: float) -> str:
    return f"{100 * value:.1f}"


def signed(value: float) -> str:
    text = f"{100 * value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")


def p_words(value: float) -> str:
    return f"{value:.4f}" if value >= 0.001 else f"{value:.5f}"


def short(text: str) -> str:
    """A digest or commit, shortened for reading; the JSON has it whole."""
    head, _, digits = text.rpartition(":")
    return f"{head}:{digits[:12]}…" if head and len(digits) > 20 else text
