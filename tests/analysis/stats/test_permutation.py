"""The permutation test against exact references, brute force, scipy, and a simulated null; the
two-sided test by its definition."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import permutation_test

from analysis.stats import permutation as labels
from analysis.stats.permutation import (
    Block,
    count_allocations,
    draw_labels,
    fold,
    max_t,
    p_values,
    permutation_seed,
    permute_gaps,
    smallest,
    two_sided_p,
    westfall_young,
)
from analysis.stats.permutation import product as product_of

pytestmark = pytest.mark.filterwarnings("error")


def run(values, stratum, public, *, permutations=999, enumerate_up_to=20_000, seed=7):
    """p by model; values are (n,), (n, outcomes) or (n, models, outcomes)."""
    values = np.asarray(values, dtype=float)
    values = values.reshape(len(values), *((1, -1) if values.ndim < 3 else values.shape[1:]))
    gaps = permute_gaps(
        values, np.asarray(stratum), np.asarray(public, dtype=bool),
        permutations=permutations, enumerate_up_to=enumerate_up_to, seed=seed,
    )  # fmt: skip
    return p_values(max_t(gaps)), gaps


def test_four_against_four_apart_is_one_in_seventy():
    p, gaps = run([0.9, 0.8, 0.7, 0.6, 0.4, 0.3, 0.2, 0.1], [0] * 8, [1] * 4 + [0] * 4)
    assert gaps.exact
    assert p[0] == pytest.approx(1 / 70, abs=1e-15)


def test_the_stratified_reference():
    p, gaps = run([0.9, 0.7, 0.5, 0.6, 0.6, 0.8, 0.4, 0.7], [0] * 4 + [1] * 4, [1, 1, 0, 0] * 2)
    assert gaps.observed[0, 0] == pytest.approx(0.20, abs=1e-12)
    assert (len(gaps.permuted), p[0]) == (36, pytest.approx(3 / 36, abs=1e-15))


def brute_force(values, stratum, public):
    """p by definition: every allocation, plain Python, max-T over outcomes."""
    strata = sorted(set(stratum))
    places = [[i for i, s in enumerate(stratum) if s == h] for h in strata]
    counts = [sum(public[i] for i in own) for own in places]

    def gap(chosen, outcome):
        parts = []
        for own in places:
            pub = [values[i][outcome] for i in own if i in chosen]
            prv = [values[i][outcome] for i in own if i not in chosen]
            parts.append(math.fsum(pub) / len(pub) - math.fsum(prv) / len(prv))
        return math.fsum(parts) / len(parts)

    every = [
        {i for part in pick for i in part}
        for pick in product(*(combinations(o, c) for o, c in zip(places, counts, strict=True)))
    ]
    outcomes = range(len(values[0]))
    gaps = {o: [gap(chosen, o) for chosen in every] for o in outcomes}
    sd = {o: float(np.std(gaps[o])) for o in outcomes}
    observed_at = every.index({i for i, flag in enumerate(public) if flag})
    m = [max(gaps[o][b] / sd[o] if sd[o] > 1e-12 else 0.0 for o in outcomes)
         for b in range(len(every))]  # fmt: skip
    return sum(value >= m[observed_at] - 1e-9 for value in m) / len(every)


@st.composite
def small_cases(draw):
    """One or two strata of two to five seeds, both arms in each, two outcomes, many ties."""
    values, stratum, public = [], [], []
    for h in range(draw(st.integers(1, 2))):
        n = draw(st.integers(2, 5))
        k = draw(st.integers(1, n - 1))
        flags = draw(st.permutations([True] * k + [False] * (n - k)))
        score = st.integers(0, 4).map(lambda x: x / 4)
        values += draw(st.lists(st.tuples(score, score), min_size=n, max_size=n))
        stratum += [h] * n
        public += flags
    order = draw(st.permutations(range(len(values))))
    return [values[i] for i in order], [stratum[i] for i in order], [public[i] for i in order]


@settings(max_examples=150, deadline=None)
@given(small_cases())
def test_enumeration_is_the_definition(case):
    values, stratum, public = case
    p, gaps = run(values, stratum, public)
    assert gaps.exact
    assert len(gaps.permuted) == count_allocations(np.array(stratum), np.array(public))
    assert p[0] == pytest.approx(brute_force(values, stratum, public), abs=1e-12)


@settings(max_examples=10, deadline=None)
@given(small_cases())
def test_drawn_permutations_agree_with_enumeration(case):
    both, stratum, public = case
    # One outcome: maxima of two that tie by their exact SDs part by those of a draw.
    values = [(first, first) for first, _ in both]
    exact, _ = run(values, stratum, public)
    drawn, gaps = run(values, stratum, public, enumerate_up_to=0, permutations=4_000)
    assert not gaps.exact
    assert drawn[0] == pytest.approx(exact[0], abs=5 * 0.5 / math.sqrt(4_000))


def test_agreement_with_scipy():
    rng = np.random.default_rng(2)
    public, private = rng.normal(0.2, 1, 30), rng.normal(0, 1, 25)
    values, flags = np.concatenate([public, private]), [1] * 30 + [0] * 25
    ours, _ = run(values, [0] * 55, flags, permutations=19_999)
    theirs = permutation_test(
        (public, private), lambda x, y, axis: x.mean(axis) - y.mean(axis),
        n_resamples=19_999, alternative="greater", vectorized=True, rng=rng,
    )  # fmt: skip
    assert ours[0] == pytest.approx(theirs.pvalue, abs=5 * math.sqrt(0.5 * 0.5 / 10_000))
    few = permutation_test(
        (public[:5], private[:6]), lambda x, y, axis: x.mean(axis) - y.mean(axis),
        alternative="greater", vectorized=True,
    )  # fmt: skip
    small, gaps = run([*public[:5], *private[:6]], [0] * 11, [1] * 5 + [0] * 6)
    assert gaps.exact
    assert small[0] == pytest.approx(few.pvalue, abs=1e-12)


def labels_by_hand(seed, blocks, row, key=16):
    """One row's public units as the docstring of draw_labels has them, in plain Python."""
    words, each = -(-blocks[-1].columns.stop * key // 64), 64 // key
    public = []
    for block in blocks:
        own, jumps = range(block.columns.start, block.columns.stop), 0
        while True:
            bits = np.random.PCG64(seed)
            bits = bits.jumped(jumps) if jumps else bits
            raw = bits.random_raw((row + 1) * words).tolist()[row * words :]
            keys = [word >> key * i & (1 << key) - 1 for word in raw for i in range(each)]
            order = sorted(own, key=lambda i: keys[i])
            chosen, rest = order[: block.public], order[block.public :]
            if not chosen or not rest or keys[chosen[-1]] != keys[rest[0]]:
                break
            jumps += 1
        public.append([i in chosen for i in own])
    return public


BLOCKS = [Block(slice(0, 20), 10), Block(slice(20, 27), 2), Block(slice(27, 29), 0),
          Block(slice(29, 62), 16)]  # fmt: skip


@pytest.mark.parametrize(
    ("short", "up_to", "key"), [("<u2", 4096, 16), ("<u2", 32, 32), ("u1", 4096, 8)]
)
def test_labels_are_drawn_as_stated(monkeypatch, short, up_to, key):
    """Keys of 8 bits, which nothing draws, are often equal: then it is drawn again."""
    monkeypatch.setattr(labels, "_SHORT", np.dtype(short))
    monkeypatch.setattr(labels, "_SHORT_UP_TO", up_to)
    drawn = list(draw_labels(3, BLOCKS, 5, 60))
    for row in range(60):
        expected = labels_by_hand(3, BLOCKS, 5 + row, key)
        assert [part[row].tolist() for part in drawn] == expected
    _, tied = smallest(labels._Source(3, BLOCKS).keys(5, 60)[:, :20], 10)
    assert (len(tied) > 0) == (key == 8)


@pytest.fixture
def many():
    """A call of permute_gaps over two strata, with a score missing."""
    values = np.random.default_rng(0).random((41, 2, 2))
    values[3, 0] = np.nan
    stratum, public = [0] * 20 + [1] * 21, [1, 0] * 20 + [1]
    return lambda: run(values, stratum, public, enumerate_up_to=0, permutations=501)[1].permuted


def test_draws_do_not_depend_on_how_they_are_chunked(monkeypatch, many):
    whole = many()
    monkeypatch.setattr("analysis.stats.permutation._CHUNK", 100)
    np.testing.assert_allclose(whole, many(), atol=1e-12)


def test_draws_do_not_depend_on_threads(monkeypatch, many):
    monkeypatch.setattr("analysis.stats.permutation._CHUNK", 100)
    held = []
    for threads in "1", "2", "7":
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        held.append(many())
    np.testing.assert_array_equal(held[0], held[1])
    np.testing.assert_array_equal(held[0], held[2])


@pytest.mark.parametrize("short", ["<u2", "u1"])
def test_every_allocation_is_as_likely(monkeypatch, short):
    """Six allocations of two public among four: a chi-square that a fair draw passes. With keys
    of 8 bits, a row in sixty must be drawn again."""
    monkeypatch.setattr(labels, "_SHORT", np.dtype(short))
    values = np.array([1.0, 2.0, 4.0, 8.0])  # each allocation has its own gap
    _, gaps = run(values, [0] * 4, [1, 1, 0, 0], enumerate_up_to=0, permutations=60_000)
    _, counts = np.unique(gaps.permuted.round(9), return_counts=True)
    assert len(counts) == 6
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 25.7  # chi-square, 5 df, p = .0001


def test_rows_with_equal_keys_at_the_count_are_named():
    keys = np.array([[5, 5, 5, 1], [1, 2, 3, 4], [7, 7, 8, 9]], dtype=np.uint16)
    chosen, tied = smallest(keys, 2)
    assert tied.tolist() == [0]
    assert chosen[1:].tolist() == [[True, True, False, False]] * 2
    assert [len(smallest(keys, count)[1]) for count in (0, 4)] == [0, 0]


@pytest.mark.parametrize(("rows", "deep", "columns"), [(1, 3, 2), (300, 900, 48), (45, 256, 48)])
def test_a_product_in_slices_is_the_product(rows, deep, columns):
    rng = np.random.default_rng(6)
    chosen = (rng.random((rows, deep)) < 0.5).astype(float)
    weights = rng.normal(size=(deep, columns))
    np.testing.assert_allclose(product_of(chosen, weights), chosen @ weights, atol=1e-11)


def test_the_seed_is_the_first_eight_bytes_of_the_digest():
    assert permutation_seed("abc") == 0xBA7816BF8F01CFEA  # SHA-256("abc"), FIPS 180-4
    assert len({permutation_seed("r", "m", "0"), permutation_seed("r", "m", "1"),
                permutation_seed("r", "0"), permutation_seed("s", "0")}) == 4  # fmt: skip


@pytest.mark.parametrize("limit", [0, 20_000])
def test_constant_scores_give_one(limit):
    p, _ = run([[0.3, 0.1]] * 8, [0] * 8, [1, 0] * 4, enumerate_up_to=limit)
    assert p[0] == 1.0


def test_one_seed_an_arm():
    p, gaps = run([1.0, 0.0], [0, 0], [1, 0])
    assert (len(gaps.permuted), p[0]) == (2, 0.5)


def test_a_missing_seed_stays_out_of_one_model_and_in_the_others():
    values = np.random.default_rng(4).random((9, 2, 1))
    values[[0, 5], 1] = np.nan
    public = np.array([1, 1, 1, 1, 0, 0, 0, 0, 0], dtype=bool)
    _, gaps = run(values, [0] * 9, public)
    alone, own = run(values[:, 0], [0] * 9, public)
    np.testing.assert_allclose(np.sort(gaps.permuted[:, 0, 0]), np.sort(own.permuted[:, 0, 0]))
    there = ~np.isnan(values[:, 1, 0])
    expected = values[there & public, 1, 0].mean() - values[there & ~public, 1, 0].mean()
    assert gaps.observed[1, 0] == pytest.approx(expected, abs=1e-12)
    by_hand = []
    for chosen in combinations(range(9), 4):
        mask = np.isin(np.arange(9), chosen)
        by_hand.append(values[there & mask, 1, 0].mean() - values[there & ~mask, 1, 0].mean())
    np.testing.assert_allclose(gaps.permuted[:, 1, 0], by_hand, atol=1e-12)
    assert p_values(max_t(gaps))[0] == pytest.approx(alone[0])


# Simulation gates: 4 strata of 16 seeds an arm. A seed's criteria
# are a cluster: 8 groups of 16 that pass or fail together, with an SD of scores near .25 and a
# design effect of 20 to 39, as published.

B, PERMUTATIONS, GROUPS, SIZE = 1_000, 199, 8, 16
WEIGHTS = np.array([4, 3, 3, 2, 2, 1, 1, 1]) / 17


def simulate_null(rng, strata=4, seeds=16):
    stratum = np.repeat(np.arange(strata), 2 * seeds)
    public = np.tile([True, False], strata * seeds)
    groups = rng.normal(0, 1.7, (len(stratum), 1)) + rng.normal(0, 2.5, (len(stratum), GROUPS))
    passed = rng.binomial(SIZE, 1 / (1 + np.exp(-groups)))
    return passed, np.stack([(passed / SIZE) @ WEIGHTS, passed.mean(1) / SIZE], 1), stratum, public


def pooled_z(passed, public):
    """The wrong analysis: every criterion as a trial of its own."""
    n = GROUPS * SIZE * public.sum()
    a, b = passed[public].sum() / n, passed[~public].sum() / n
    both = (a + b) / 2
    return (a - b) / math.sqrt(2 * both * (1 - both) / n)


def test_size_holds_where_pooled_criteria_fail():
    rng = np.random.default_rng(20_261)
    rejected = pooled = 0
    _, many, _, _ = simulate_null(rng, seeds=500)
    sd, rate = many[:, 1].std(), many[:, 1].mean()
    assert 0.22 < sd < 0.29
    assert 20 < sd**2 / (rate * (1 - rate) / (GROUPS * SIZE)) < 39  # the design effect
    for b in range(B):
        passed, values, stratum, public = simulate_null(rng)
        p, _ = run(values, stratum, public, permutations=PERMUTATIONS, enumerate_up_to=0, seed=b)
        rejected += p[0] <= 0.05
        pooled += abs(pooled_z(passed, public)) > 1.96
    assert 0.035 <= rejected / B <= 0.065
    assert pooled / B > 0.5


def test_power_is_what_the_specification_says():
    """K4/S64, SD .25, a gap of .10: .995; of .05 about .60 (two-sided .05)."""
    rng, hits = np.random.default_rng(3), {0.05: 0, 0.10: 0}
    stratum, public = np.repeat(np.arange(4), 128), np.tile([True, False], 256)
    for gap in hits:
        for b in range(200):
            scores = np.clip(rng.normal(0.5, 0.25, 512) + gap * public, 0, 1)
            p, _ = run(scores, stratum, public, permutations=199, enumerate_up_to=0, seed=b)
            hits[gap] += p[0] <= 0.025
    assert hits[0.10] / 200 > 0.95
    assert 0.45 < hits[0.05] / 200 < 0.75


def test_family_wise_error_over_models_that_share_seeds():
    rng, false = np.random.default_rng(8), 0
    stratum, public = np.zeros(32, dtype=int), np.tile([True, False], 16)
    for b in range(1_000):
        values = rng.normal(0, 1, (32, 1, 1)) * 0.7 + rng.normal(0, 1, (32, 4, 1))
        values[:, 0] += 2.0 * public[:, None]  # one model is contaminated, three are clean
        gaps = permute_gaps(
            values, stratum, public, permutations=199, enumerate_up_to=0, seed=b
        )  # fmt: skip
        false += (westfall_young(max_t(gaps))[1:] <= 0.05).any()
    assert false / 1_000 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 1_000)


def test_four_against_four_apart_is_two_in_seventy_either_way():
    values = np.array([0.9, 0.8, 0.7, 0.6, 0.4, 0.3, 0.2, 0.1])[:, None, None]
    for public in (np.arange(8) < 4, np.arange(8) >= 4):
        gaps = permute_gaps(
            values, np.zeros(8, int), public, permutations=1, enumerate_up_to=70, seed=0
        )
        assert two_sided_p(gaps)[0] == pytest.approx(2 / 70)


def test_it_is_the_larger_of_both_signs_over_outcomes():
    values, stratum = np.random.default_rng(2).normal(0, 1, (40, 3, 2)), np.repeat([0, 1], 20)
    public = np.tile([True, False], 20)
    gaps = permute_gaps(values, stratum, public, permutations=199, enumerate_up_to=0, seed=4)
    up = max_t(gaps)
    down = max_t(
        permute_gaps(-values, stratum, public, permutations=199, enumerate_up_to=0, seed=4)
    )
    both = fold(gaps)
    np.testing.assert_allclose(both.observed, np.maximum(up.observed, down.observed))
    np.testing.assert_allclose(both.permuted, np.maximum(up.permuted, down.permuted))
    assert (two_sided_p(gaps) >= np.minimum(p_values(up), p_values(down))).all()


def test_studentised_rows_are_gaps_over_their_own_errors():
    values, public = np.random.default_rng(6).random((9, 1, 1)), np.arange(9) < 3
    draws = {"permutations": 9, "enumerate_up_to": 999, "seed": 1, "studentise": True}
    found = permute_gaps(values, np.zeros(9, int), public, **draws)
    errors = []
    for chosen in combinations(range(9), 3):
        arms = values[list(chosen), 0, 0], np.delete(values[:, 0, 0], chosen)
        errors.append(math.sqrt(sum(arm.var(ddof=1) / len(arm) for arm in arms)))
    plain = permute_gaps(values, np.zeros(9, int), public, **draws | {"studentise": False})
    expected = plain.permuted[:, 0, 0] / errors * errors[0]
    np.testing.assert_allclose(found.permuted[:, 0, 0], expected, atol=1e-12)
    assert found.observed == plain.observed
