"""Budgets kept for real: sweeps through Ray of a served model whose provider counts what it sold,
with several workers, and with drivers that are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.model import Usage
from harness.spending.prices import read_prices
from harness.spending.purchases import read_episode_usages
from harness.spending.team import TeamBudget
from harness.storage import attempted_names, replied_names
from harness.sweep.leases import Progress
from registry.verify.verify import verify_study
from study.errors import StudyError
from study.main import main
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.sweep.estimate import estimate_wave
from study.steps.sweep.sweep import SweepOutcome, SweepRequest
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study, manifest_of
from tests.cases import cases
from tests.harness.openai_server import Answer, Json, Served, completion, serve
from tests.progress import wait_until
from tests.study.conftest import promise_unchecked

SEEDS = 9
EPISODES = 2 * SEEDS
PROTOCOL = cases(__file__, "protocol")
PRICES = cases(__file__, "prices")
DEAREST = Decimal("0.265")  # of a reply: 30 000 tokens, half of them cached, and 1 000 out
JSON = ("--json", "--allow-dirty")


@dataclass
class Provider:
    """Sells replies at prices that differ by as much as three to two, and keeps the bill."""

    seconds: float = 0.0
    sold: list[Usage] = field(default_factory=list)
    delivered: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: Json) -> Answer:
        with self.lock:
            tokens = 20_000 + 2_000 * (len(self.sold) % 6)
            self.sold.append(Usage(tokens, 1_000, tokens // 2))
        time.sleep(self.seconds)
        with self.lock:
            self.delivered += 1
        told = {
            "prompt_tokens": tokens,
            "completion_tokens": 1_000,
            "total_tokens": tokens + 1_000,
            "prompt_tokens_details": {"cached_tokens": tokens // 2},
        }
        return completion("I give up.", usage=told)

    @property
    def idle(self) -> bool:
        """True if no reply is on its way from the model."""
        with self.lock:
            return self.delivered == len(self.sold)

    def bill(self, folder: Path) -> Decimal:
        """USD for all that was sold, by the price file."""
        (price,) = read_prices(folder / "prices.yaml").prices
        return sum((price.cost(usage) or Decimal() for usage in self.sold), Decimal())


@contextmanager
def selling(provider: Provider) -> Iterator[Served]:
    with serve(always=provider.answer) as served:
        yield served


def make_study(
    folder: Path, url: str, budget: float, prices: str = PRICES, protocol: str = PROTOCOL
) -> Study:
    init_study(folder, protocol.format(url=url, budget=budget, seeds=SEEDS))
    (folder / "prices.yaml").write_text(prices)
    study = pipeline.open_study(folder)
    promise_unchecked(study)
    return study


def raise_budget(study: Study, before: float, after: float) -> Study:
    path = study.folder / "study.yaml"
    text = path.read_text()
    assert f"run: {before}," in text
    path.write_text(text.replace(f"run: {before},", f"run: {after},"))
    return pipeline.open_study(study.folder)


def sweep(
    study: Study, seen: list[Progress] | None = None, allow_unknown_price: bool = False
) -> SweepOutcome:
    request = SweepRequest(0, allow_dirty=True, allow_unknown_price=allow_unknown_price)
    return pipeline.sweep(study, request, (seen if seen is not None else []).append)


def files(folder: Path) -> dict[str, float]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


def run(study: Study, *options: str) -> Result:
    arguments = ["sweep", "--wave", "0", "--study", str(study.folder), *options]
    return CliRunner().invoke(main, arguments)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_KEY", "sk-none")


@pytest.mark.slow
def test_a_model_without_a_price_is_swept_if_allowed_and_costs_the_unknown(tmp_path: Path) -> None:
    """Whatever the budget."""
    with selling(Provider()) as served:
        study = make_study(tmp_path, served.url, 0.01, PRICES.replace("sold-*", "other-*"))
        assert sweep(study, allow_unknown_price=True).closed is not None
    manifest = manifest_of(study.ledger, 0)
    assert manifest is not None
    results = list(take_snapshot(study).waves[manifest.wave].results.values())
    assert len(results) == EPISODES
    assert {result.cost_usd for result in results} == {None}
    assert all(result.input_tokens for result in results)


def test_a_budget_holds_over_several_workers_and_the_wave_goes_on_when_it_is_raised(
    tmp_path: Path,
) -> None:
    provider, seen = Provider(0.05), list[Progress]()
    with selling(provider) as served:
        study = make_study(tmp_path / "study", served.url, 2.5)
        stopped = sweep(study, seen)
        assert stopped.closed is None
        assert stopped.progress is not None
        account = stopped.progress.accounts[0]
        bought = len(provider.sold)
        assert 2 < bought < EPISODES
        assert stopped.progress.held == EPISODES - bought
        assert account.spent == provider.bill(study.folder) <= Decimal("2.5")
        assert account.reserved == 0
        for progress in seen:
            each = progress.accounts[0]
            assert each.spent + each.reserved <= each.limit
        left = estimate_wave(study, 0)
        study = raise_budget(study, 2.5, 50)
        raised = PRICES.replace("output: 100", "output: 100\n    cache_write: 20")
        (study.folder / "prices.yaml").write_text(raised)
        done = sweep(study)
    assert done.closed is not None
    assert done.closed.finished == EPISODES
    assert len({entry.record.prices for entry in study.ledger.find("run-manifest")}) == 2
    assert len(provider.sold) == EPISODES, "nothing was bought twice"
    manifest = manifest_of(study.ledger, 0)
    assert manifest is not None
    assert manifest.prices == read_prices(study.folder / "prices.yaml").digest
    costs = [
        result.cost_usd for result in take_snapshot(study).waves[manifest.wave].results.values()
    ]
    assert sum(cost or 0 for cost in costs) == pytest.approx(float(provider.bill(study.folder)))
    assert verify_study(study.store, study.identities()).holds
    # What the pilots foretold of the rest.
    (forecast,) = left.forecasts
    assert (forecast.basis, forecast.pilots, forecast.episodes) == (
        "pilots",
        bought,
        EPISODES - bought,
    )
    rest = float(provider.bill(study.folder) - account.spent)
    assert forecast.cost_usd is not None
    assert forecast.cost_usd.high is not None
    assert forecast.cost_usd.low <= rest <= forecast.cost_usd.high
    assert forecast.node_hours is not None
    seconds = 3600 * (forecast.node_hours.mean or 0)
    assert 0.05 * (EPISODES - bought) / 2 < seconds < 5 * (EPISODES - bought), "two at once"
    assert estimate_wave(study, 0).forecasts[0].episodes == 0, "a closed wave owes nothing"


@pytest.mark.parametrize("place", ["folder", pytest.param("seaweedfs", marks=pytest.mark.s3)])
def test_studies_that_are_swept_at_once_keep_the_budget_of_their_team(
    tmp_path: Path, request: pytest.FixtureRequest, place: str
) -> None:
    limit, provider = Decimal(4), Provider(0.05)
    with selling(provider) as served:
        studies = []
        for name in ("ours", "theirs"):
            store = str(tmp_path / "stores" / name)
            if place != "folder":
                store = request.getfixturevalue(place).uri(f"team/{name}")
            shared = PROTOCOL.replace(
                "budget: {{", f'store: "{store}"\nbudget: {{{{team: {limit}, '
            )
            studies.append(make_study(tmp_path / name, served.url, 50, protocol=shared))
        with ThreadPoolExecutor() as pool:
            swept = list(pool.map(sweep, studies))
        assert [outcome.closed for outcome in swept] == [None, None]
        bill = provider.bill(studies[0].folder)
        assert limit - 4 * DEAREST < bill <= limit
        assert all(outcome.progress.accounts[-1].limit == limit for outcome in swept)
        team = TeamBudget(limit, studies[0].store.uri, "another wave")
        team.hold(Decimal(), Decimal(1))
        assert (team.others, team.held) == (bill, limit - bill)


@pytest.mark.slow
def test_a_killed_driver_loses_no_count_of_what_was_spent(tmp_path: Path) -> None:
    provider = Provider(0.4)
    with selling(provider) as served:
        study = make_study(tmp_path / "study", served.url, 2.5)
        command = [sys.executable, "-m", "study.main", "sweep", "--wave", "0", *JSON]
        command += ["--study", str(study.folder)]
        killed = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        wait_until(lambda: len(bought(study)) >= 3)
        with killed:  # its pipes are closed, too
            os.killpg(killed.pid, signal.SIGKILL)
        resumed = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert resumed.returncode == 1, resumed.stderr
    outcome = json.loads(resumed.stdout)
    (limit, _) = outcome["budget"]
    stored = len(bought(study))
    lost = len(provider.sold) - stored  # on their way when the driver was killed
    assert 0 <= lost <= 4, "at most one for each episode that was at work"
    assert Decimal(str(limit["spent_usd"])) <= Decimal("2.5")
    assert provider.bill(study.folder) <= Decimal("2.5") + lost * DEAREST
    assert outcome["held"] == EPISODES - stored
    assert stored > 3, "it went on after the kill"


def bought(study: Study) -> list[Usage]:
    """The usage of each paid reply in the store."""
    store, keys = study.store, study.keys()
    names = {*attempted_names(store), *replied_names(store)}
    return [usage for name in names for usage in read_episode_usages(store, keys, name, "openai")]


def test_an_unknown_price_is_refused_before_anything_is_begun(tmp_path: Path) -> None:
    prices = PRICES.replace("sold-*", "other-*")
    study = make_study(tmp_path / "study", "http://127.0.0.1:1/v1", 5, prices)
    before = files(study.folder / "store")
    with pytest.raises(StudyError, match=r"prices\.yaml.*'theirs'.*--allow-unknown-price"):
        sweep(study)
    assert files(study.folder / "store") == before
    told = json.loads(run(study, "--estimate", "--json").stdout)
    assert (told["models"][0]["price"], told["cost_usd"]) == (None, None)
    assert "unknown" in run(study, "--estimate").stdout


def test_without_pilots_there_are_bounds_and_it_is_said(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", "http://127.0.0.1:1/v1", 5)
    before = files(study.folder)
    told = json.loads(run(study, "--estimate", "--json").stdout)
    (model,) = told["models"]
    assert (model["basis"], model["episodes"], model["pilots"]) == ("bounds", EPISODES, 0)
    assert model["input_tokens"] == {"low": 0.0, "mean": None, "high": 40_000.0 * EPISODES}
    assert model["output_tokens"]["high"] is None, "no `max_tokens` bounds it"
    assert told["cost_usd"]["high"] is None
    shown = run(study, "--estimate").stdout
    assert "bounds from the limits" in shown
    assert "nodes: unknown" in shown
    assert files(study.folder) == before


def test_a_dry_run_shows_what_would_be_sent_and_touches_nothing(tmp_path: Path) -> None:
    with selling(Provider()) as served:
        study = make_study(tmp_path / "study", served.url, 5)
        before = files(study.folder)
        shown, told = run(study, "--dry-run"), run(study, "--dry-run", "--json")
        assert served.requests == []
    assert (shown.exit_code, told.exit_code) == (0, 0), shown.output
    assert files(study.folder) == before
    (request,) = json.loads(told.stdout)["requests"]
    assert (request["mode"], request["stratum"]) == ("single_turn", "compute_average/easy")
    assert request["tokens"] == request["text_tokens"] > 100
    assert "<answer>" in request["messages"][0]["text"]
    assert request["messages"][1]["text"] in shown.stdout
    for entry in study.entries():  # the instances that were drawn are not the one that is shown
        assert entry.seed not in told.stdout
        assert entry.instance not in told.stdout
