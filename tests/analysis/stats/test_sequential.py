"""Monitoring over looks: against its definition in plain Python, recomputed, and under a null."""

from __future__ import annotations

import hashlib
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.errors import AnalysisError
from analysis.stats.adjustment import control_means
from analysis.stats.permutation import max_t, permute_gaps, westfall_young
from analysis.stats.sequential import (
    LookScores,
    linear_spending,
    monitor,
    permute_looks,
    remove_rows,
    scan_windows,
    tie_keys,
)

pytestmark = pytest.mark.filterwarnings("error")

PLAN = {"alpha": 0.1, "looks_planned": 4, "permutations": 199, "seed": 11}


def look(rng, stratum, public, *, tranche=0, names="u", effect=0.0, shared=0.0):
    """One look's scores; ``shared`` are what a unit keeps over looks."""
    n = len(stratum)
    return LookScores(
        np.array([f"{names}{i:03d}" for i in range(n)], dtype=object),
        np.array([f"h{h}" for h in stratum], dtype=object),
        np.full(n, tranche),
        np.asarray(public, dtype=bool),
        rng.normal(0.5, 0.2, n) + shared + effect * np.asarray(public),
    )


def join(*parts):
    """Several tranches at one look."""
    names = ("unit", "stratum", "tranche", "public", "scores")
    return LookScores(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))


def without(held, places):
    scores = held.scores.copy()
    scores[list(places)] = np.nan
    return LookScores(held.unit, held.stratum, held.tranche, held.public, scores)


def drop(held, places):
    keep = ~np.isin(np.arange(len(held.unit)), list(places))
    return LookScores(held.unit[keep], held.stratum[keep], held.tranche[keep],
                      held.public[keep], held.scores[keep])  # fmt: skip


@pytest.fixture
def looks():
    """Four looks: a panel; one with a missing score; one with a new tranche; one with a unit of
    the panel that was never listed before, and a new stratum."""
    rng = np.random.default_rng(3)
    stratum, public = [0] * 6 + [1] * 8, [1, 0] * 3 + [1, 0, 0, 0] * 2
    first = drop(look(rng, stratum, public), [13])
    second = without(drop(look(rng, stratum, public), [13]), [2, 7])
    third = join(drop(look(rng, stratum, public), [13]),
                 look(rng, [0] * 4, [1, 1, 0, 0], tranche=1, names="t"))  # fmt: skip
    fourth = join(look(rng, stratum, public), look(rng, [2] * 4, [0, 1, 0, 1], names="v"))
    return [first, second, third, fourth]


# By definition


def labels_by_hand(looks, permutations, seed):
    """Row by row the public units, drawn as the module says, in plain Python."""
    entered, facts = {}, {}
    for k, held in enumerate(looks, start=1):
        for u, h, t, p in zip(held.unit, held.stratum, held.tranche, held.public, strict=True):
            entered.setdefault(u, (h, str(t), k))
            facts[u] = bool(p)
    rows = [{u for u, p in facts.items() if p}] + [set() for _ in range(permutations)]
    for block in sorted(set(entered.values())):
        units = sorted(u for u, b in entered.items() if b == block)
        h, t, k = block
        digest = hashlib.sha256(f"{seed}|rows|{len(h)}|{h}|{t}|{k}".encode()).digest()
        bits = np.random.PCG64(int.from_bytes(digest[:8], "big"))
        raw = bits.random_raw((permutations, -(-len(units) // 4))).tolist()
        keys = [[word >> 16 * i & 0xFFFF for word in row for i in range(4)] for row in raw]
        count = sum(facts[u] for u in units)
        for b in range(permutations):
            chosen = sorted(range(len(units)), key=lambda i: keys[b][i])[:count]
            rows[b + 1] |= {units[i] for i in chosen}
    return rows


def gap_by_hand(held, public):
    parts = []
    for h in sorted(set(held.stratum[~np.isnan(held.scores)])):
        arms = {True: [], False: []}
        for u, s, own in zip(held.unit, held.scores, held.stratum, strict=True):
            if own == h and not np.isnan(s):
                arms[u in public].append(s)
        whole = arms[True] and arms[False]
        parts.append(np.mean(arms[True]) - np.mean(arms[False]) if whole else 0.0)
    return math.fsum(parts) / len(parts)


def test_gaps_are_their_definition_with_one_label_a_unit_over_all_looks(looks):
    gaps = permute_looks(looks, permutations=60, seed=5)
    rows = labels_by_hand(looks, 60, 5)
    expected = [[gap_by_hand(held, public) for held in looks] for public in rows]
    np.testing.assert_allclose(gaps, expected, atol=1e-12)


def variance_by_hand(held, rows, j, k):
    """Of each row's gap summed over looks j…k: what each unit of an arm adds, spread as it is."""
    entered, by_look, found = {}, [], np.zeros(len(rows))
    for at, look in enumerate(held):
        for u, h, t in zip(look.unit, look.stratum, look.tranche, strict=True):
            entered.setdefault(u, (h, str(t), at))
        kept = ~np.isnan(look.scores)
        by_look.append(dict(zip(look.unit[kept], look.scores[kept], strict=True)))
    block = {u: [v in rows[0] for v in entered if entered[v] == entered[u]] for u in entered}
    of = {h: [u for u in entered if entered[u][0] == h] for h in {b[0] for b in entered.values()}}
    for units, arm in itertools.product(of.values(), (True, False)):
        share = {u: np.mean([public == arm for public in block[u]]) for u in units}
        adds = dict.fromkeys((u for u in units if any(u in by_look[i] for i in range(j, k + 1))), 0)
        for scores in by_look[j : k + 1]:
            here = [u for u in units if u in scores]
            strata = sum(any(u in scores for u in others) for others in of.values())
            for u in here:
                centred = scores[u] - np.mean([scores[v] for v in here])
                adds[u] += centred / (sum(share[v] for v in here) * strata)
        n = max(sum(share[u] for u in adds), 2)
        for b, public in enumerate(rows):
            own = [add for u, add in adds.items() if (u in public) == arm]
            found[b] += (math.fsum(a * a for a in own) - math.fsum(own) ** 2 / n) * n / (n - 1)
    return found


def statistics_by_hand(gaps, variance=lambda j, k: 1):
    rows, looks = gaps.shape
    found = np.zeros((rows, looks))
    for k in range(looks):
        windows = []
        for j in range(k + 1):
            sums = gaps[:, j : k + 1].sum(axis=1) / np.sqrt(variance(j, k))
            sd = float(np.std(sums))
            windows.append([s / sd if sd > 1e-12 else 0.0 for s in sums])
        found[:, k] = [max(w[b] for w in windows) for b in range(rows)]
    return found


def removal_by_hand(statistics, quota, keys):
    live, removed = set(range(len(statistics))), [0] * len(statistics)
    for k, most in enumerate(quota):
        while len(statistics) - len(live) < most:
            top = max(statistics[b, k] for b in live)
            out = min([b for b in live if statistics[b, k] > top - 1e-9], key=lambda b: keys[b])
            live.remove(out)
            removed[out] = k + 1
    return removed


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.integers(1, 4), st.booleans())
def test_windows_and_removal_are_their_definitions(seed, rows, looks, coarse):
    rng = np.random.default_rng(seed)
    gaps = rng.integers(-2, 3, (rows, looks)) / 4 if coarse else rng.normal(0, 1, (rows, looks))
    statistics = scan_windows(gaps)[0]
    np.testing.assert_allclose(statistics, statistics_by_hand(gaps), atol=1e-9)
    quota, keys = np.sort(rng.integers(0, rows + 1, looks)), rng.permutation(rows).astype(np.uint64)
    tied = np.round(statistics, 9)  # a plain loop cannot chain what rounding has split
    assert remove_rows(tied, quota, keys).tolist() == removal_by_hand(tied, quota, keys)


def test_the_whole_of_it_is_its_definition(looks):
    found = monitor(looks, **PLAN)
    rows = labels_by_hand(looks, 199, 11)
    gaps = np.array([[gap_by_hand(held, public) for held in looks] for public in rows])
    statistics = statistics_by_hand(gaps, lambda j, k: variance_by_hand(looks, rows, j, k))
    removed = removal_by_hand(statistics, [5, 10, 15, 20], tie_keys(200, 11))
    assert [step.gap for step in found.looks] == pytest.approx(gaps[0].tolist())
    assert [step.statistic for step in found.looks] == pytest.approx(statistics[0].tolist())
    assert [step.removed for step in found.looks] == [5, 5, 5, 5]
    assert found.rejected_at == (removed[0] or None)
    for k, step in enumerate(found.looks):
        fallen = [statistics[b, k] for b in range(200) if removed[b] == k + 1]
        assert step.threshold == pytest.approx(min(fallen))
        assert step.share == (statistics[:, k] >= statistics[0, k] - 1e-9).mean()


# Looks to come change nothing


@pytest.mark.parametrize("seed", range(6))
def test_a_later_look_repeats_what_earlier_ones_said(looks, seed):
    plan = PLAN | {"seed": seed}
    whole = monitor(looks, **plan)
    for k in range(1, 4):
        early = monitor(looks[:k], **plan)
        for before, after in zip(early.looks, whole.looks, strict=False):
            assert before.onset == after.onset
            assert before.rejected == after.rejected
            assert before.statistic == pytest.approx(after.statistic, abs=1e-12)
            assert before.threshold == pytest.approx(after.threshold, abs=1e-12)
        assert early.rejected_at in (None, whole.rejected_at)
    early, late = (permute_looks(held, permutations=99, seed=seed) for held in (looks[:2], looks))
    np.testing.assert_allclose(early, late[:, :2], atol=1e-12)


def test_more_permutations_leave_the_first_ones_as_they_are(looks):
    few, many = (permute_looks(looks, permutations=p, seed=2) for p in (50, 300))
    np.testing.assert_allclose(few, many[:51], atol=1e-12)


def test_the_order_of_units_does_not_matter(looks):
    turned = [LookScores(*(getattr(held, name)[::-1] for name in
              ("unit", "stratum", "tranche", "public", "scores"))) for held in looks]  # fmt: skip
    np.testing.assert_allclose(
        permute_looks(looks, permutations=50, seed=1),
        permute_looks(turned, permutations=50, seed=1), atol=1e-12,
    )  # fmt: skip


def test_a_unit_keeps_its_label_over_looks():
    one = look(np.random.default_rng(0), [0] * 12, [1, 0] * 6)
    gaps = permute_looks([one, one, one], permutations=99, seed=4)
    np.testing.assert_allclose(gaps[:, 1:], gaps[:, :1] @ [[1, 1]], atol=1e-12)


def test_equal_rows_fall_by_their_keys_and_no_faster_than_planned():
    constant = LookScores(np.arange(8), np.zeros(8), np.zeros(8), np.arange(8) % 2 > 0, np.ones(8))
    removed = [monitor([constant] * 4, **(PLAN | {"seed": seed})) for seed in range(200)]
    assert {step.removed for m in removed for step in m.looks} == {5}
    assert sum(m.rejected_at is not None for m in removed) / 200 == pytest.approx(0.1, abs=0.07)


# Size and power


def gaussian_looks(rng, stable, gap, onset, looks=4):
    stratum, public = np.repeat([0, 1], 16), np.tile([1, 0], 16)
    shared = rng.normal(0, 0.2 * stable, 32)
    return [look(rng, stratum, public, shared=shared, effect=gap * (k >= onset))
            for k in range(looks)]  # fmt: skip


@pytest.mark.parametrize("stable", [0.0, 2.0])
def test_size_is_what_is_spent_however_looks_depend(stable):
    """20 of 200 rows are removed over the looks: size .1 exactly, under any dependence."""
    rng, runs = np.random.default_rng(int(stable)), 300
    found = [monitor(gaussian_looks(rng, stable, 0.0, 0), **(PLAN | {"seed": b})).rejected_at
             for b in range(runs)]  # fmt: skip
    assert sum(at is not None for at in found) / runs == pytest.approx(0.1, abs=3.3 * 0.0173)


def test_arms_of_other_sizes_and_spread_keep_the_size():
    """40 units of SD 1 beside 160 of SD .2: without standard errors it is beyond .3."""
    rng, runs, public = np.random.default_rng(4), 300, np.arange(200) < 40
    found = [
        monitor([look(rng, [0] * 200, public, shared=rng.normal(0.0, public)) for _ in range(2)],
                **(PLAN | {"looks_planned": 2, "seed": b})).rejected_at for b in range(runs)
    ]  # fmt: skip
    assert sum(at is not None for at in found) / runs == pytest.approx(0.1, abs=3.3 * 0.0173)


def test_a_late_gap_is_found_after_it_begins_and_so_is_its_beginning():
    rng = np.random.default_rng(9)
    found = [monitor(gaussian_looks(rng, 0.0, 0.2, 2), **(PLAN | {"seed": b})) for b in range(60)]
    hits = [m for m in found if m.rejected_at in (3, 4)]
    assert len(hits) > 50
    assert sum(m.window[0] == 3 for m in hits) > 0.6 * len(hits)


def test_error_over_models_and_looks_with_alpha_shared_by_the_looks():
    """P3: Westfall–Young within each look at alpha/T; three clean models a look, eight looks."""
    rng, false, runs = np.random.default_rng(8), 0, 120
    stratum, public = np.zeros(24, dtype=int), np.tile([True, False], 12)
    for b in range(runs):
        shared = rng.normal(0, 1, (24, 1, 1))
        for k in range(8):
            gaps = permute_gaps(
                shared + rng.normal(0, 1, (24, 3, 1)), stratum, public, permutations=199,
                enumerate_up_to=0, seed=100 * b + k,
            )  # fmt: skip
            if (westfall_young(max_t(gaps)) <= 0.2 / 8).any():
                false += 1
                break
    assert false / runs <= 0.2 + 3 * math.sqrt(0.2 * 0.8 / runs)


# The scores of a look


def test_study_scores_are_the_average_over_models_less_what_each_stratum_has():
    values, stratum = np.random.default_rng(1).random((12, 3)), np.repeat([0, 1], 6)
    scores, mean = control_means(values[:, :, None], stratum)[:, 0], values.mean(axis=1)
    for h in (0, 1):
        np.testing.assert_allclose(
            scores[stratum == h], mean[stratum == h] - mean[stratum == h].mean()
        )


def test_a_missing_score_does_not_bring_in_the_level_of_its_model():
    values = np.array([[0.9, 0.1], [0.9, np.nan], [0.9, 0.1], [np.nan, np.nan]])
    scores = control_means(values[:, :, None], np.zeros(4))[:, 0]
    np.testing.assert_allclose(scores, [0, 0, 0, np.nan], atol=1e-15)


# What is refused


def test_spending_is_alpha_shared_by_the_looks():
    assert linear_spending(0.025, 8)[-1] == 0.025


def test_looks_that_contradict_each_other_are_refused(looks):
    one = looks[0]
    other = LookScores(one.unit, one.stratum, one.tranche, ~one.public, one.scores)
    with pytest.raises(AnalysisError, match="look 2: a unit has another arm"):
        monitor([one, other], **PLAN)
    with pytest.raises(AnalysisError, match="look 1: a unit stands twice"):
        monitor([join(one, one)], **PLAN)
    with pytest.raises(AnalysisError, match="differ in length"):
        LookScores(one.unit[1:], one.stratum, one.tranche, one.public, one.scores)
    with pytest.raises(AnalysisError, match="infinite"):
        LookScores(one.unit, one.stratum, one.tranche, one.public, one.scores + math.inf)
