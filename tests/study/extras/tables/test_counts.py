"""``dosimeter analyze`` on counts: right answers by arm and stratum, without the instances."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import ttest_ind_from_stats

from analysis.tables.counts import Counts
from analysis.tables.verdicts import estimate_count_gaps, gap_tail
from study.main import main
from tests.cases import cases

HEADER = "model,arm,stratum,k,n,allocation"


def write(path: Path, *rows: str, header: str = HEADER) -> Path:
    path.write_text("\n".join((header, *rows)) + "\n", encoding="utf-8")
    return path


def analyze(path: Path, *options: str) -> tuple[int, dict[str, dict[str, Any]], str]:
    result = CliRunner().invoke(main, ["analyze", str(path), "--json", *options])
    rows = json.loads(result.stdout)["models"] if result.exit_code == 0 else []
    return result.exit_code, {row["model"]: row for row in rows}, result.stderr


def pairs(model: str, public: int, private: int, n: int = 1000, how: str = "random") -> list[str]:
    counts = (("public", public), ("private", private))
    return [f"{model},{arm},s,{k},{n},{how}" for arm, k in counts]


def test_a_leak_is_found_and_a_clean_model_cleared(tmp_path: Path) -> None:
    rows = [*pairs("leaky", 700, 500), *pairs("clean", 501, 500), *pairs("perfect", 1000, 1000)]
    code, found, _ = analyze(write(tmp_path / "t.csv", *rows))
    assert code == 0
    assert found["leaky"]["verdict"] == "contaminated"
    assert found["clean"]["verdict"].startswith("no inflation of the published")
    assert found["perfect"]["verdict"] == "inconclusive", "scores without spread clear nothing"


def test_means_with_their_sd_are_tested_as_welch_does(tmp_path: Path) -> None:
    rows = ["m,public,s,.6,.3,50,random", "m,private,s,.5,.2,80,random"]
    path = write(tmp_path / "t.csv", *rows, header="model,arm,stratum,mean,sd,n,allocation")
    _, found, _ = analyze(path)
    peer = ttest_ind_from_stats(0.6, 0.3, 50, 0.5, 0.2, 80, equal_var=False, alternative="greater")
    assert found["m"]["p"] == pytest.approx(peer.pvalue)


def test_one_stratum_that_is_known_by_heart_is_not_averaged_away(tmp_path: Path) -> None:
    rows = pairs("m", 95, 50, 100)
    for n in range(11):
        rows += [row.replace(",s,", f",clean-{n},") for row in pairs("m", 490, 500)]
    _, found, _ = analyze(write(tmp_path / "t.csv", *rows))
    assert found["m"]["verdict"] == "inconclusive"
    assert "s has a gap by itself" in found["m"]["note"]


def test_what_a_model_lacks_neither_makes_a_claim_nor_clears_it(tmp_path: Path) -> None:
    rows = pairs("whole", 5010, 5000, 10_000)
    for model, public, of, private, own in cases(__file__, "counted"):
        counts = ("public", public, of), ("private", private, own)
        rows += [f"{model},{arm},s,{k},{n},random" for arm, k, n in counts]
    _, found, _ = analyze(write(tmp_path / "t.csv", *rows))
    words = {model: row["verdict"].split()[0] for model, row in found.items()}
    assert words == cases(__file__, "words")
    assert "fewer instances of s than another model" in found["gone"]["note"]


@pytest.mark.parametrize("how", ["time", "authored", "unknown"])
def test_arms_that_were_not_random_are_held_against_unexposed_models(
    tmp_path: Path, how: str
) -> None:
    rows = [*pairs("old-hat", 620, 500, how=how), *pairs("new", 800, 505, how=how)]
    controls = [f"old-{n}" for n in range(9)]
    for n, name in enumerate(controls):
        rows += pairs(name, 560 + 15 * n, 440 + 15 * n + n % 3, how=how)
    path = write(tmp_path / "t.csv", *rows)
    named = [part for name in controls for part in ("--pre-exposure", name)]
    _, found, _ = analyze(path, *named)
    assert found["old-hat"]["verdict"] == "within what unexposed models show"
    assert found["new"]["verdict"] == "beyond what unexposed models show"
    _, few, _ = analyze(path, *named[:14])
    assert {row["verdict"] for row in few.values()} == {"an estimate without a verdict"}


def test_few_instances_and_unequal_arms_raise_no_false_alarms() -> None:
    """2PL-like answers with heavy-tailed difficulties, arms drawn anew for each study."""
    rng, studies, sizes = np.random.default_rng(7), 4000, (6, 30)
    cut, n = sum(sizes), np.broadcast_to(np.array(sizes, float), (studies, 2, 2))
    hard = rng.standard_t(3, (studies, 2, cut))
    right = rng.random(hard.shape) < 1 / (1 + np.exp(hard - rng.standard_normal((studies, 1, 1))))
    mean = np.stack([right[..., : sizes[0]].mean(-1), right[..., sizes[0] :].mean(-1)], axis=-1)
    names = tuple(map(str, range(studies)))
    spread = mean * (1 - mean) * n / (n - 1)
    counts = Counts(
        names, ("a", "b"), n=n, mean=mean, variance=spread, shares=True, allocation=frozenset()
    )
    assert (gap_tail(counts) <= 0.025).mean() <= 0.025 + 3 * np.sqrt(0.025 * 0.975 / studies)
    assert estimate_count_gaps(counts).gap.mean() == pytest.approx(0, abs=0.01)


def test_of_a_plan_counts_take_what_they_can_use(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", *pairs("m", 5, 5))
    plan = write(tmp_path / "plan.yaml", header="looks: 3")
    assert "plan.yaml: looks: with counts a plan has" in analyze(path, "--plan", str(plan))[2]
    assert "no rows of the control 'x'" in analyze(path, "--pre-exposure", "x")[2]
    assert "every model is a control" in analyze(path, "--pre-exposure", "m")[2]
    code, found, _ = analyze(path, "--out", str(tmp_path / "report"))
    body = json.loads((tmp_path / "report" / "report.json").read_text("utf-8"))
    assert (code, body["models"]) == (0, [*found.values()])
