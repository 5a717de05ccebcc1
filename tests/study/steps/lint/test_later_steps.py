"""Whatever passes the draw and the registration is refused by no later step: many combinations of
tasks, models, waves, controls, judges, prices and budgets."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.judge.grade import build_judge
from harness.spending.budget import Budget
from registry.provenance import utc_now
from study.errors import StudyError
from study.main import main
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.sweep import sweep as sweeping
from study.steps.sweep.spending import attempt_turns, price_pins
from study.steps.sweep.sweep import SweepRequest, sweep_wave
from study.workspace.address import open_study
from study.workspace.setup import NO_IMAGE
from tests.cases import cases
from tests.study.conftest import SMALLNESS

CASES = 24 if os.environ.get("DOSIMETER_ALL_SEEDS") else 8
URL = "http://127.0.0.1:9/v1"
TEMPLATE = cases(__file__, "template")
PRICES = cases(__file__, "prices")
TASKS = ("compute_average/easy", "count_circles/easy", "hubble_constant/easy", "own.yml")
FORMS = cases(__file__, "forms")
MODES = (
    "",
    "",
    *3 * (", modes: {ONE: single_turn}",),
    ", modes: {ONE: single_turn, TWO: single_turn}",
)
RETENTION = ("", *3 * (", retention: none",), *3 * (", retention: kept",))
NEW = cases(__file__, "new")
JUDGE = cases(__file__, "judges")
WAVES = cases(__file__, "waves")
PLAN = cases(__file__, "plans")
RESERVE = ("", "reserve: {tranches: 1, seeds_per_arm: 2}\n")
BUDGET = cases(__file__, "budgets")
SANDBOX = ("local", "docker", "docker")


def text_of(seed: int) -> str:
    """A study file with one choice of each list."""
    choose = random.Random(seed).choice
    tasks = sorted({choose(TASKS), choose(TASKS)})
    one, two = (task.replace("own.yml", "own/wide") for task in (tasks[0], tasks[-1]))
    modes = choose(MODES) if one != two else choose(MODES[:-1])
    waves = choose(WAVES).replace("MODES", modes).replace("ONE", one).replace("TWO", two)
    new = choose(NEW).format(url=URL, form=choose(FORMS), kept=choose(RETENTION))
    return (
        f"study: case-{seed}\ntasks: [{', '.join(tasks)}]\nseeds_per_arm: 5\n{choose(RESERVE)}"
        "models:\n"
        "  old-1: {provider: scripted, agent: honest, error_rate: 0.1, released: 2024-01-01}\n"
        "  old-2: {provider: scripted, agent: honest, error_rate: 0.1, released: 2024-01-01}\n"
        f"  new: {new}\n{choose(JUDGE).replace('URL', URL)}waves:\n{waves}{choose(PLAN)}"
        f"{choose(BUDGET)}sandbox: {{kind: {choose(SANDBOX)}}}\n"
    )


class ReachedError(Exception):
    """The sweep would start Ray, workers and sandboxes now."""


@pytest.fixture(autouse=True)
def _no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is run: a digest stands for the sandbox image, and a sweep ends where it begins."""

    def reach(*given: object) -> None:
        raise ReachedError

    for module in ("study.workspace.setup", "study.steps.sweep.sweep"):
        monkeypatch.setattr(f"{module}.pinned_image", lambda *given: NO_IMAGE)
    monkeypatch.setattr("study.steps.register.gate._engine_problem", lambda: "")
    monkeypatch.setattr(sweeping, "_run_owed", reach)
    monkeypatch.setenv("A_KEY", "secret")


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--study", str(folder)])


def run_later_steps(folder: Path) -> None:
    """All that later steps do without a request. Fails if one of them refuses."""
    study = open_study(folder)
    free = study.protocol.budget is None  # a warning named the unknown prices
    pipeline.publish(study, None, lambda *step: None)  # which spiked agents read
    for wave in range(len(study.protocol.waves)):
        for option in ("--dry-run", "--estimate"):
            result = run(folder, "sweep", "--wave", str(wave), option)
            assert result.exit_code == 0, result.output
        request = SweepRequest(wave, allow_dirty=True, allow_unknown_price=free)
        with pytest.raises(ReachedError):
            sweep_wave(study, request, lambda progress: None, utc_now)
        turns = attempt_turns(study.protocol.wave_tasks(wave), study.protocol.catalog)
        pricing = price_pins(study, study.protocol.wave_models(wave), free, turns)
        if pricing.limits is not None:
            Budget(pricing.limits, pricing.models)
    for pin in study.protocol.judges:
        price_pins(study, [pin], free)
        build_judge(pin, str(folder))


def passes(folder: Path, seed: int) -> bool:
    """Report whether a case is drawn; if it is, neither the registration nor a later step refuses
    it. If not, the refusal names a line, which `lint` names too."""
    folder.mkdir()
    (folder / "prices.yaml").write_text(PRICES)
    (folder / "own.yml").write_text(TEMPLATE)
    try:
        init_study(folder, text_of(seed))
    except StudyError:  # a section of the file is wrong
        return False
    drawn = run(folder, "register", "--draw", "--underpowered", SMALLNESS)
    if drawn.exit_code:
        place = drawn.stderr.partition(f"dosimeter: {folder}/study.yaml:")[2].partition(":")[0]
        assert (drawn.exit_code, place.isdecimal()) == (2, True), drawn.stderr
        assert f"study.yaml:{place}: " in CliRunner().invoke(main, ["lint", str(folder)]).output
        return False
    registered = run(folder, "register")
    assert registered.exit_code == 0, registered.output
    run_later_steps(folder)
    return True


def test_no_later_step_refuses_what_was_registered(tmp_path: Path) -> None:
    passed = [passes(tmp_path / f"case-{seed}", seed) for seed in range(CASES)]
    assert CASES / 5 < sum(passed) < 4 * CASES / 5, "there are cases of both kinds"
