"""`dosimeter pilot`: a scratch study apart from the study, resumed, within the study's budget, and
read by `power`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from harness.spending.budget import PricedModel, Spend
from harness.sweep.leases import Progress
from registry.errors import RegistryError
from registry.verify.verify import verify_study
from study.extras.pilot import pilot
from study.main import main
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.register.draw import pilots_of
from study.steps.sweep.sweep import SweepOutcome, SweepRequest
from study.workspace.setup import Watch
from study.workspace.study import Study, closed_wave
from tests.cases import cases
from tests.study.conftest import draw_tiny, run_wave

BUILT_IN = cases(__file__, "built_in")
PRICES = cases(__file__, "prices")


def sweep_here(
    study: Study,
    request: SweepRequest,
    watch: Callable[[Progress], None],
    now: Callable[[], str],
    steps: Watch,
    spent: tuple[tuple[PricedModel, Spend], ...],
) -> SweepOutcome:
    """Sweep a wave in this process, without Ray."""
    closed = closed_wave(study.ledger, request.wave)
    return SweepOutcome(closed or run_wave(study, request.wave, now, parallel=2), None)


def run_pilot(study: Study, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["pilot", "--study", str(study.folder), *arguments])


def outcome(study: Study, *arguments: str, code: int = 0) -> dict[str, Any]:
    result = run_pilot(study, *arguments, "--json")
    assert result.exit_code == code, result.output
    body: dict[str, Any] = json.loads(result.stdout)
    return body


def new_study(folder: Path, text: str = BUILT_IN) -> Study:
    init_study(folder, text)
    return pipeline.open_study(folder)


@pytest.fixture(scope="module")
def piloted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Study, dict[str, Any]]]:
    """A study with a pilot before its draw, and what that showed."""
    study = new_study(tmp_path_factory.mktemp("piloted") / "study")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pilot, "sweep_wave", sweep_here)
        yield study, outcome(study)


def test_it_shows_scores_against_turns_and_cost(piloted: tuple[Study, dict[str, Any]]) -> None:
    """A built-in agent takes three turns of ten: after two, no run has ended."""
    _, shown = piloted
    rows = {(row["model"], row["turns"]): row for row in shown["scores"]}
    turns = (2, 5, 10)
    assert sorted(rows) == [(model, t) for model in ("clumsy", "skilled") for t in turns]
    for model in ("skilled", "clumsy"):
        short, half, whole = (rows[model, t] for t in turns)
        assert (short["runs"], short["instances"], short["limit"]) == (8, 4, 10)
        assert (short["score"], short["floor"], short["at_limit"]) == (0, 1, 1)
        assert (whole["floor"], whole["at_limit"]) == (0, 0)
        assert half["score"] == whole["score"]
    assert rows["skilled", 10]["score"] > rows["clumsy", 10]["score"] > 0
    models = {row["model"]: row for row in shown["models"]}
    assert (models["skilled"]["runs"], models["skilled"]["usd"]) == (8, None)
    assert shown["complete"]
    assert [row["model"] for row in shown["skipped"]] == ["spiked"]


def test_it_is_a_study_of_its_own(piloted: tuple[Study, dict[str, Any]]) -> None:
    """Nothing of it is in the study's store, and both verify."""
    study, shown = piloted
    (scratch,) = pilots_of(study.folder)
    assert str(scratch.folder) == shown["folder"]
    assert {entry.kind for entry in scratch.ledger.entries()} >= {"run-manifest", "wave-closed"}
    assert verify_study(scratch.store, scratch.identities(), None).holds
    assert not {entry.kind for entry in study.ledger.entries()} & {"run-manifest", "wave-closed"}
    assert not any(key.startswith(("attempts/", "results/")) for key in study.store.list(""))
    secrets = [seed.seed for seed in scratch.drawn_seeds()]
    texts = [path.read_bytes() for path in study.folder.rglob("*") if path.is_file()]
    assert not any(secret.encode() in text for secret in secrets for text in texts)


def test_no_instance_or_seed_of_it_is_in_either_arm(piloted: tuple[Study, dict[str, Any]]) -> None:
    study, _ = piloted
    if study.ledger.last("sealed-set") is None:
        draw_tiny(study)
    (scratch, *_) = pilots_of(study.folder)
    for secret in ("instance", "seed"):
        names = {getattr(each, secret) for each in scratch.drawn_seeds()}
        assert len(names) == 4
        assert not names & {getattr(entry, secret) for entry in study.entries()}


def test_the_same_request_runs_nothing_again(
    piloted: tuple[Study, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    study, shown = piloted
    monkeypatch.setattr("tests.study.conftest.run_cell", None)  # would fail
    again = outcome(study)
    assert (again["scores"], again["folder"]) == (shown["scores"], shown["folder"])


def test_power_takes_its_variance(piloted: tuple[Study, dict[str, Any]]) -> None:
    study, shown = piloted
    place = str(study.folder)
    for source, words in ((place, f"the pilot of {place}"), (shown["folder"], shown["folder"])):
        quick = ("--json", "--gap", "0.3", "--from", source)
        result = CliRunner().invoke(main, ["power", "--study", place, *quick])
        assert result.exit_code == 0, result.output
        answer = json.loads(result.stdout)
        assert answer["components"]["from"] == words
        found = answer["pilot"]
        assert (found["runs"], found["instances"], found["repeats"]) == (16, 4, 8)
        assert found["models"] == ["clumsy", "skilled"]


@pytest.mark.parametrize(("arguments", "message"), cases(__file__, "refused"))
def test_what_cannot_be_run_is_one_line(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    study = new_study(tmp_path / "study")
    before = sorted(study.folder.rglob("*"))
    result = run_pilot(study, *arguments)
    assert result.exit_code == 2
    assert sorted(study.folder.rglob("*")) == before
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (study.folder / "pilot").exists()


@pytest.mark.parametrize(("store", "placed"), cases(__file__, "stores"))
def test_its_store_is_beside_that_of_the_study(store: str, placed: str) -> None:
    assert pilot._store(store, "ab") == placed


def test_pilots_share_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep of a pilot is told what the study's other pilots have cost."""
    told: list[Any] = []

    def sweep(*arguments: Any) -> SweepOutcome:
        told.append(arguments[-1])
        return sweep_here(*arguments)

    monkeypatch.setattr(pilot, "sweep_wave", sweep)
    monkeypatch.setattr(pilot, "wave_spends", lambda study, wave: [(study.folder.name, wave)])
    (tmp_path / "prices.yaml").write_text(PRICES)
    study = new_study(tmp_path, f"{BUILT_IN}prices: prices.yaml\nbudget: {{run: 2}}\n")
    once = ("--model", "skilled", "--runs")
    first = Path(outcome(study, *once, "1")["folder"]).name
    second = Path(outcome(study, *once, "2")["folder"]).name
    outcome(study, *once, "1")
    assert told == [(), ((first, 0),), ((second, 0),)]


def test_without_the_study_s_key_nothing_is_written(tmp_path: Path) -> None:
    study = new_study(tmp_path / "study")
    study.key_file.unlink()
    assert run_pilot(study).exit_code == 2
    assert not (study.folder / "pilot").exists()
    with pytest.raises(RegistryError):
        study.keys()
