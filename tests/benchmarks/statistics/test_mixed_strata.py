"""Each stratum has scores of its kind, and leaks and faults have the size that they promise."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.statistics.mixed_strata import (
    CONTROLS,
    KINDS,
    TOP,
    Model,
    draw_panel,
    run_model,
    true_difficulty,
)


def _stream(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def test_each_stratum_has_scores_of_its_kind() -> None:
    panel = draw_panel(200, 5, _stream(1))
    score = run_model(panel, Model("m"), _stream(2)).outcomes[:, :, 0, 0] / TOP
    values = [np.unique(score[panel.stratum == code].round(9)) for code in range(len(KINDS))]
    assert values[0].tolist() == [0, 1]
    assert len(values[1]) > 60  # sums of weights
    assert len(values[2]) <= 21
    assert values[3].tolist() == [0, 0.5, 1]
    zeros = (score[panel.stratum == KINDS.index("zero-inflated")] == 0).mean()
    assert 0.3 < zeros < 0.7
    difficulty = panel.difficulty.ravel()
    skewness = ((difficulty - 1) ** 3).mean() / difficulty.std() ** 3
    assert skewness > 1


@pytest.mark.parametrize("model", [Model("m"), CONTROLS[0]])
def test_true_difficulty_is_the_mean_of_what_is_drawn(model: Model) -> None:
    panel = draw_panel(100, 100, _stream(3))
    runs = run_model(panel, model, _stream(4), runs=2)
    expected = true_difficulty(panel, model)
    for code in range(len(KINDS)):
        here = panel.stratum == code
        score = runs.means[here, :, 0]
        assert score.mean() == pytest.approx(expected[here].mean(), abs=0.008)
        hard = panel.difficulty[here] > 2
        assert score[hard].mean() == pytest.approx(expected[here][hard].mean(), abs=0.02)
    assert runs.failed.mean() == pytest.approx(model.failures, abs=0.003)
    assert (runs.outcomes[runs.failed] == 0).all()


@pytest.mark.parametrize(("gap", "fault"), [(0.05, 0.0), (0.10, 0.0), (0.0, 0.10)])
def test_a_leak_and_a_fault_raise_the_public_arm_by_their_size(gap: float, fault: float) -> None:
    panel = draw_panel(400, 50, _stream(5))
    outcomes = run_model(panel, Model("m", gap=gap), _stream(6), fault=fault).outcomes[..., 0]
    found = outcomes[panel.public, ..., 0].mean() - outcomes[~panel.public, ..., 0].mean()
    assert found == pytest.approx(gap + fault, abs=0.006)
    assert outcomes.min() == 0
    assert outcomes.max() <= 1


def test_a_stream_repeats_and_the_private_arm_never_feels_a_fault() -> None:
    panel = draw_panel(5, 2, _stream(7))
    clean, again = (run_model(panel, Model("m"), _stream(8)).outcomes for _ in range(2))
    faulty = run_model(panel, Model("m"), _stream(8), fault=0.1).outcomes
    np.testing.assert_array_equal(clean, again)
    np.testing.assert_array_equal(clean[~panel.public], faulty[~panel.public])
    assert (faulty[panel.public] >= clean[panel.public]).all()
