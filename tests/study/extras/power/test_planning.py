"""`dosimeter power`, as people run it."""

from __future__ import annotations

import json
import re
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from analysis.power.power import PowerDesign
from analysis.power.variance_components import ARTICLE, SimulationSize
from study.extras.power.planning import PowerRequest, plan_setting, registered_design
from study.main import main
from study.protocol.protocol import read_protocol
from tests.cases import cases

LATER = ("medium", "hard")
SMALL = cases(__file__, "small")
RESULTS = "model,arm,stratum,instance,replicate,grader,score,cost_usd"


@pytest.fixture(autouse=True)
def _few_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    few = partial(PowerRequest, effort=SimulationSize(40))
    monkeypatch.setattr("study.extras.power.planning.PowerRequest", few)


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["power", *arguments])


def _json(*arguments: str) -> dict[str, Any]:
    result = _run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.fixture
def small(tmp_path: Path) -> tuple[str, ...]:
    """A study of two strata, two looks and two new models a look, with other seeds than its own."""
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "study.yaml").write_text(SMALL)
    return ("--study", str(tmp_path / "small"), "--gap", "0.3", "--seeds", "6")


def _table(path: Path) -> str:
    """Write results of two models on 24 instances, two runs of each by two graders."""
    lines = [RESULTS]
    for i in range(24):
        for model in ("m", "n"):
            for run in (0, 1):
                score = ((i * 7) % 24) / 30 + 0.1 * ((i + run + (model == "m")) % 2)
                arm = "public" if i % 4 < 2 else "private"
                row = f"{model},{arm},s{i % 2},i{i:02},{run}"
                lines += [f"{row},flash,{score:.3f},0.125", f"{row},kind,1,0.5"]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_json_holds_the_plan_and_powers(small: tuple[str, ...]) -> None:
    found = _json(*small)
    assert (found["plan"]["name"], found["plan"]["seeds_per_arm"]) == ("standard-v1", 6)
    assert found["plan"]["look_alpha"] == pytest.approx(0.0125)
    planned = found["planned"]
    # Instances x (looks x models + controls).
    assert planned["episodes"] == 2 * 6 * 2 * (2 * 2 * 1 + 8)
    assert planned["cost_usd"] is None
    needed = found["needed"]
    powers = {point["seeds"]: point["power"] for point in needed["points"]}
    assert powers[needed["seeds"]] == pytest.approx(0.8, abs=0.25)
    assert min(powers.values()) < max(powers.values())
    assert 0 < found["detectable"]["gap"] < 0.9
    assert found == _json(*small)  # the same seed, the same answer


def test_words(small: tuple[str, ...]) -> None:
    result = _run(*small)
    assert result.exit_code == 0, result.output
    assert "For power 0.8 at 30 points" in result.stdout
    assert "published results" in result.stdout
    assert "As planned, a model without inflation is cleared" in result.stdout
    assert "calibrated by 8 control runs" in result.stdout


def test_a_sealed_unit_runs_too(small: tuple[str, ...]) -> None:
    (Path(small[1]) / "study.yaml").write_text(SMALL.replace(*cases(__file__, "units")))
    assert _json(*small)["planned"]["episodes"] == 2 * 6 * 2 * (2 * 2 * 1 + 8)
    assert "1 stratum with both arms, of 2 strata" in " ".join(_run(*small).stdout.split())


def test_controls_are_those_of_the_study(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text((files("study.steps.demo") / "demo.yaml").read_text())
    protocol = read_protocol(tmp_path)
    answer = plan_setting(0.1, protocol.registered_plan(), protocol)
    assert (answer.control_models, answer.control_runs) == (4, 1)
    assert (answer.gap, answer.study_gap) == (0.10, 0.05)


PHYSICS = cases(__file__, "physics")


def _design(folder: Path, families: tuple[str, ...], difficulty: str) -> PowerDesign:
    demo = (files("study.steps.demo") / "demo.yaml").read_text()
    tasks = ", ".join(f"{name}/{difficulty}" for name in families)
    folder.mkdir()
    wanted = f"tasks: [{tasks}]\nseeds_per_arm: 12"
    (folder / "study.yaml").write_text(re.sub(r"tasks:(\n  .*)+\nseeds_per_arm: 2", wanted, demo))
    return registered_design(read_protocol(folder), 0.1)


@pytest.mark.parametrize(
    "difficulty", ["easy", *(pytest.param(each, marks=pytest.mark.slow) for each in LATER)]
)
def test_the_rubrics_of_the_physics_tasks_have_the_published_variance(
    tmp_path: Path, difficulty: str
) -> None:
    """One number, the correlation of two criteria, gives both SDs and their correlation."""
    found = _design(tmp_path / "study", PHYSICS, difficulty).components
    assert found.sd == pytest.approx(ARTICLE.sd, rel=0.1)
    assert found.correlation == pytest.approx(ARTICLE.correlation, rel=0.15)


def test_power_goes_by_the_weights_of_the_tasks(tmp_path: Path) -> None:
    """compute_average at difficulty easy: of 13.2 parts of the weight 5 for 18 numbers, 5 for 6
    averages of blocks and 3 for that of all, the headline value; 0.2 for the form of the answer in
    two, which needs no key. The numbers are 10 criteria, 8 of them with two parts."""
    found = _design(tmp_path / "study", ("compute_average",), "easy").components
    weights = (5**2 / 18 + 5**2 / 6 + 3**2 + 2 * 0.1**2) / 13.2**2
    fraction = (8 / 2 + 2 + 6 + 1) / 17**2
    expected = [0.17 + 0.83 * squares for squares in (weights, fraction, 1.0)]
    assert found.sd == pytest.approx([0.5 * share**0.5 for share in expected])


def test_a_plan_without_controls_says_so(tmp_path: Path) -> None:
    demo = (files("study.steps.demo") / "demo.yaml").read_text()
    (tmp_path / "study.yaml").write_text(demo[: demo.index("plan:")] + "entropy: system\n")
    result = _run("--study", str(tmp_path), "--gap", "0.4")
    assert result.exit_code == 0, result.output
    assert "not calibrated" in result.stdout


def test_a_table_gives_variance_and_price(tmp_path: Path) -> None:
    table = _table(tmp_path / "pilot.csv")
    (tmp_path / "study.yaml").write_text(SMALL.replace("plan: {", "plan: {outcomes: [score], "))
    study = ("--study", str(tmp_path), "--gap", "0.3")
    assert "choose one with --grader" in _run("--from", table, *study).stderr
    found = _json("--from", table, "--grader", "flash", *study)
    assert found["cost_per_episode_usd"] == 0.125
    planned = found["planned"]
    assert planned["cost_usd"] == pytest.approx(0.125 * planned["episodes"])
    assert found["pilot"]["runs"] == 96
    assert found["components"]["seed_share"] > 0.8
    assert found["components"]["from"] == table


@pytest.mark.parametrize(("arguments", "said"), cases(__file__, "refused"))
def test_what_cannot_be_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "study.yaml").write_text(SMALL)
    monkeypatch.chdir(tmp_path / "small")
    before = sorted(tmp_path.rglob("*"))
    result = _run(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before
