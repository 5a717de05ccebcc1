"""LORD++ and SAFFRON against online-fdr 1.0.0 (spec/statistics.md, §6)."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.errors import AnalysisError
from benchmarks.statistics.online_fdr import lord_plus_plus, saffron

P = (2.9e-8, 0.06743, 0.01514, 0.08174, 0.00171, 3.6e-5, 0.79149, 0.27201, 0.28295, 7.59e-8,
     0.69274, 0.30443, 0.00136, 0.72342, 0.54757)  # fmt: skip
LORD_LEVELS = (
    0.0013379192728, 0.0016288744174, 0.0005387676144, 0.0004539026213, 0.0003808118942,
    0.0003258692513, 0.0029599721596, 0.0008335270304, 0.0007212792909, 0.0006166603159,
    0.0032121781529, 0.0010562735431, 0.0009209965872, 0.0007978939560, 0.0007023906772,
)  # fmt: skip
SAFFRON_LEVELS = (
    0.0054686270725, 0.0109372541450, 0.0109372541450, 0.0109372541450, 0.0109372541450,
    0.0218745082900, 0.0328117624350, 0.0108238450248, 0.0108238450248, 0.0108238450248,
    0.0217610991698, 0.0092655914869, 0.0092655914869, 0.0202028456319, 0.0090643666738,
)  # fmt: skip


def places(found):
    return [place for place, hit in enumerate(found.rejected, start=1) if hit]


def test_the_first_level_of_lord():
    assert lord_plus_plus([0.5], 0.05, 0.005).levels[0] == pytest.approx(0.000268, abs=5e-7)


def test_lord_on_fifteen_p_values():
    found = lord_plus_plus(P)
    np.testing.assert_allclose(found.levels, LORD_LEVELS, rtol=1e-9)
    assert places(found) == [1, 6, 10]


def test_saffron_on_fifteen_p_values():
    found = saffron(P)
    np.testing.assert_allclose(found.levels, SAFFRON_LEVELS, rtol=1e-9)
    assert places(found) == [1, 5, 6, 10, 13]


def test_levels_do_not_look_ahead():
    for rule in (lord_plus_plus, saffron):
        for stop in range(1, len(P)):
            assert rule(P[:stop]).levels == rule(P).levels[:stop]


def test_the_false_discovery_rate_holds_under_the_null():
    rng = np.random.default_rng(6)
    for rule in (lord_plus_plus, saffron):
        false = sum(any(rule(rng.random(24).tolist()).rejected) for _ in range(400)) / 400
        assert false <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


def test_what_is_no_p_value_is_refused():
    with pytest.raises(AnalysisError, match="between 0 and 1"):
        lord_plus_plus([1.2])
    with pytest.raises(AnalysisError, match="wealth"):
        saffron([0.5], 0.05, 0.06)
    with pytest.raises(AnalysisError, match="candidate"):
        saffron([0.5], candidate=1.0)
