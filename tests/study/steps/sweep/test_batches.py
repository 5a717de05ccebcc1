"""Probes and single-turn episodes of a study, bought in batches."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from harness.errors import SweptElsewhere, WorkStopped
from harness.models.providers import batch
from harness.spending.purchases import CallKind, read_paid_calls
from harness.storage import ATTEMPTS, EPISODE_CODEC
from harness.sweep import epochs
from harness.sweep.leases import LeaseBook, LeaseRules, Progress
from harness.sweep.run_cell import run_cell
from harness.sweep.workbench import RunContext, Workbench
from registry.provenance import utc_now
from registry.verify.verify import verify_study
from study.errors import StudyError
from study.main import main
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.sweep.sweep import SweepRequest, sweep_wave
from study.steps.sweep.wave_command import ask_sweep, follow_sweep
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study
from tests.batch_server import EXPIRED, Sold, sell
from tests.progress import wait_until
from tests.study.conftest import promise_unchecked

STUDY = """\
study: batches
tasks: [{{family: compute_average, difficulty: easy, mode: single_turn}}]
seeds_per_arm: 3
models:
  sold:
    {{provider: openai, model: sold-1, base_url: "{url}/v1", api_key_env: "", batch: true,
     context: 40000, max_tokens: 1000}}
waves: [[sold]]
plan: {{permutations: 199}}
sandbox: {{kind: local}}
prices: prices.yaml
budget: {{run: {budget}}}
"""
PRICES = """\
prices:
  - {provider: openai, model: sold-1, input: 10, output: 100, date: 2026-11-01, source: a test}
"""
HALF = 0.01  # USD for 1,000 tokens in and 100 out, at half price
CALLS = 6
REQUEST = SweepRequest(0, allow_dirty=True)


def make(folder: Path, sold: Sold, budget: float = 50) -> Study:
    init_study(folder, STUDY.format(url=sold.url, budget=budget))
    (folder / "prices.yaml").write_text(PRICES)
    study = pipeline.open_study(folder)
    promise_unchecked(study)
    return study


def run(study: Study, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--study", str(study.folder), "--json"])


def usages(study: Study, kind: CallKind) -> list[bool]:
    keys = study.keys()
    attempts = [EPISODE_CODEC.read(study.store, key, keys) for key in study.store.list(ATTEMPTS)]
    folded = [reply for attempt in attempts for reply in attempt.paid_replies().values()]
    calls = read_paid_calls(study.store, keys, kind)
    replies = [*(folded if kind is CallKind.EPISODE else ()), *(call.reply for call in calls)]
    return [reply.usage.batch for reply in replies]


@pytest.mark.parametrize("what", [(), ("--markers",)], ids=["questions", "markers"])
def test_probes_are_bought_in_one_batch_at_half_price(
    tmp_path: Path, what: tuple[str, ...]
) -> None:
    with sell() as sold:
        study = make(tmp_path, sold)
        result = run(study, "probe", "--wave", "0", *what)
        assert result.exit_code == 0, result.output
        (told,) = json.loads(result.stdout)["models"]
        assert (told["owed"], told["done"], told["fresh"]) == (CALLS, CALLS, CALLS)
        assert told["cost_usd"] == pytest.approx(CALLS * HALF)
        assert run(study, "probe", "--wave", "0", *what).exit_code == 0
    assert (len(sold.batches), sold.single, sold.faults) == (1, 0, [])
    assert usages(study, CallKind.PROBE) == [True] * CALLS
    assert verify_study(study.store, study.identities()).holds


def test_the_budget_pays_for_what_it_covers(tmp_path: Path) -> None:
    with sell() as sold:
        study = make(tmp_path, sold, budget=0.9)
        result = run(study, "probe", "--wave", "0")
        (told,) = json.loads(result.stdout)["models"]
    # A request may cost half of 40,000 tokens in, written to a cache, and 1,000 out: 0.30 USD.
    assert (told["done"], told["failures"]) == (3, [["not paid for by the budget", 3]])
    assert sum(sold.bought.values()) == 3


def in_this_process(
    study: Study,
    request: SweepRequest,
    context: RunContext,
    watch: Callable[[Progress], None],
    begin: object,
) -> Progress:
    """Run the owed cells as a worker does, without Ray: each is tried once."""
    bench = Workbench.open(context)
    wave = take_snapshot(study).waves[0]
    book = LeaseBook(wave.cells, wave.finished, LeaseRules(60.0, max_failures=1))
    while cells := book.lease("worker", 4, 0.0):
        book.report("worker", [run_cell(cell, bench, utc_now) for cell in cells], 0.0)
    bench.close()
    watch(book.progress())
    return book.progress()


def test_single_turn_episodes_are_bought_before_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("study.steps.sweep.sweep._run_owed", in_this_process)
    late: list[Any] = []

    def fate(body: dict[str, Any]) -> str:
        late[:] = late or [body]
        return EXPIRED if body == late[0] else '<answer>\n{"average": 1.0}\n</answer>'

    with sell() as sold:
        study = make(tmp_path, sold)
        sold.fate = fate
        first = run(study, "sweep", "--wave", "0", "--allow-dirty")
        assert first.exit_code == 1, first.output
        assert len(sold.batches) == 1
        sold.fate = lambda body: "late, and no answer"
        again = run(study, "sweep", "--wave", "0", "--allow-dirty")
        assert again.exit_code == 0, again.output
    models = [json.loads(each.stdout)["models"][0] for each in (first, again)]
    assert [model["replies"] for model in models] == [CALLS - 1, 1], "with their batches"
    assert sum(model["usd"] for model in models) == pytest.approx(CALLS * HALF)
    assert (sold.single, sold.faults) == (0, [])
    assert sorted(len(batch.requests) for batch in sold.batches) == [1, CALLS]
    assert usages(study, CallKind.EPISODE) == [True] * CALLS
    results = take_snapshot(study).waves[0].results.values()
    assert sorted(result.attempts for result in results) == [1] * (CALLS - 1) + [2]
    assert {result.mode for result in results} == {"single_turn"}
    assert sum(result.cost_usd or 0 for result in results) == pytest.approx(CALLS * HALF)
    assert verify_study(study.store, study.identities()).holds


def test_of_two_drivers_on_two_hosts_one_buys_the_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their folders are copies with one store, so that no lock on a folder keeps them apart."""
    monkeypatch.setattr("study.steps.sweep.sweep._run_owed", in_this_process)
    monkeypatch.setattr(epochs, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(epochs, "LOOK_SECONDS", 0.05)
    with sell(open_gate=False) as sold, ThreadPoolExecutor() as pool:
        first = make(tmp_path / "first", sold)
        file = first.folder / "study.yaml"
        file.write_text(file.read_text() + f"store: {first.store.uri}\n")
        shutil.copytree(first.folder, tmp_path / "second")
        here, there = pipeline.open_study(first.folder), pipeline.open_study(tmp_path / "second")
        assert here.store.uri == there.store.uri
        sweeping = pool.submit(sweep_wave, here, REQUEST, lambda _: None, utc_now)
        try:
            wait_until(lambda: any(batch.polls for batch in sold.batches))
            other = pool.submit(sweep_wave, there, REQUEST, lambda _: None, utc_now)
            with pytest.raises(SweptElsewhere, match="dosimeter wave attach"):
                other.result(timeout=120)
        finally:
            sold.gate.set()
        closed = sweeping.result().closed
    assert closed is not None
    assert (closed.finished, len(sold.batches)) == (CALLS, 1)
    assert set(sold.bought.values()) == {1}


def test_a_sweep_that_is_stopped_leaves_its_batch_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("study.steps.sweep.sweep._run_owed", in_this_process)
    monkeypatch.setattr(epochs, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(batch, "_PAUSES", (0.05,))
    with sell(open_gate=False) as sold, ThreadPoolExecutor() as pool:
        study = make(tmp_path, sold)
        sweeping = pool.submit(sweep_wave, study, REQUEST, lambda _: None, utc_now)
        try:
            wait_until(lambda: any(batch.polls for batch in sold.batches))
            steps: list[str] = []
            following = pool.submit(follow_sweep, study, 0, lambda _: None, steps.append)
            wait_until(lambda: any("waits for batches" in step for step in steps))
            ask_sweep(study, 0, "stop")
            with pytest.raises(StudyError, match="the batches go on at the provider"):
                following.result(timeout=120)
            with pytest.raises(WorkStopped):
                sweeping.result()
        finally:
            sold.gate.set()
        assert sweep_wave(study, REQUEST, lambda _: None, utc_now).closed is not None
    assert set(sold.bought.values()) == {1}
