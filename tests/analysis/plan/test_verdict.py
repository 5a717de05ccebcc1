"""Three words, and when each is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analysis.plan.verdict import Evidence, Rule, decide, decide_nothing
from analysis.stats.clearing import Bound
from analysis.stats.intervals import GapEstimate
from tests.cases import cases

RULE = Rule(alpha=0.0125, margin=0.05)


def gap(value, upper, se=0.01):
    return GapEstimate(value, se, 90.0, (value - 0.02, value + 0.02), upper, 48, 47)


def evidence(estimate, p, p_adjusted, bound, lower=None):
    cleared = bound < RULE.margin and (lower is None or lower > -RULE.margin)
    decided = Bound(bound, "fraction", lower, 0.01, cleared)
    return Evidence("score", estimate, p, p_adjusted, 0.00005, decided)


@pytest.mark.parametrize(("p_adjusted", "upper", "word", "note"), cases(__file__, "rules"))
def test_each_word_has_its_rule(p_adjusted, upper, word, note):
    found = decide("m", 1, evidence(gap(0.02, 0.3), 0.001, p_adjusted, upper), RULE)
    assert (found.verdict, found.note) == (word, note)
    assert (found.p, found.p_adjusted, found.alpha) == (0.001, p_adjusted, 0.0125)
    assert (found.n_public, found.n_private, found.exploratory) == (48, 47, False)


def test_it_is_the_adjusted_p_that_decides():
    assert decide("m", 1, evidence(gap(0.2, 0.3), 0.001, 0.02, 0.3), RULE).verdict == "inconclusive"


def test_no_interval_rules_nothing_out():
    blind = GapEstimate(0.0, None, None, (-1.0, 1.0), 1.0, 4, 4)
    found = decide("m", 0, evidence(blind, 1.0, 1.0, 1.0), RULE)
    assert found.verdict == "inconclusive"
    assert "not estimable" in found.note


def test_a_lucky_low_gap_is_noted():
    found = decide("m", 0, evidence(gap(-0.06, 0.0), 0.9, 0.9, 0.01, -0.09), RULE)
    assert found.verdict == "inconclusive"
    assert "fewer than 50 instances" in found.note
    assert (found.deciding_bound, found.bound_outcome, found.deciding_lower) == (
        0.01, "fraction", -0.09,
    )  # fmt: skip


def test_an_untestable_model_has_no_estimate():
    found = decide_nothing("m", 0, (0, 12), RULE)
    assert (found.verdict, found.estimate, found.p, found.n_public) == (
        "inconclusive",
        None,
        1.0,
        0,
    )


def test_a_claim_that_no_p_can_make_is_noted():
    found = evidence(gap(0.5, 0.9), 0.05, 0.05, 0.9)
    few = decide("m", 0, replace(found, p_floor=0.05), RULE)
    assert few.note.startswith("too few instances: the least p is 0.05, and a claim needs 0.0")
    assert "too few" not in decide("m", 0, found, RULE).note


def test_a_doubt_is_the_reason_why_a_low_bound_clears_nothing():
    found = evidence(gap(0.0, 0.02), 0.5, 0.5, 0.02)
    one = decide("m", 0, replace(found, doubt="no information: …"), RULE)
    assert (one.verdict, one.note) == ("inconclusive", "no information: …")
