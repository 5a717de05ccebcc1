"""A model whose provider is dead is named, with its address: in words, in a sweep, in status."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.seaweedfs import free_ports
from generators.seed import Seed
from harness.storage import hex_of
from harness.sweep.leases import LeaseBook, LeaseRules, Progress
from harness.sweep.run_cell import run_cell
from harness.sweep.workbench import RunContext, Workbench
from registry.ledger.records import ModelPin
from registry.provenance import utc_now
from study.main import main
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.sweep.failing import Failing, address_of, failing_words
from study.steps.sweep.sweep import SweepRequest
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study
from tests.cases import cases
from tests.study.conftest import promise_unchecked

STUDY = cases(__file__, "study")


@pytest.fixture
def dead_port() -> int:
    """A port of this machine on which nothing listens."""
    return free_ports(1)[0]


def pin(name: str, provider: str, **settings: object) -> ModelPin:
    return ModelPin(name, provider, "v", tuple((k, json.dumps(v)) for k, v in settings.items()))


def test_the_address_is_the_pin_s_or_the_provider_s() -> None:
    assert address_of(pin("a", "openai", base_url="http://h:1/v1")) == "http://h:1/v1"
    assert address_of(pin("a", "anthropic")) == "https://api.anthropic.com"
    assert address_of(pin("a", "scripted")) == ""


@pytest.mark.parametrize(("failure", "words"), cases(__file__, "failures"))
def test_a_failure_names_model_address_and_remedy(failure: str, words: str) -> None:
    pins = [pin("gone", "openai", base_url="http://h:1/v1")]
    (line,) = failing_words(pins, [Failing("gone", failure, 3)])
    assert words in line


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
    book = LeaseBook(wave.cells, wave.finished, LeaseRules(60.0, max_failures=1, give_up=True))
    while cells := book.lease("worker", 4, 0.0):
        book.report("worker", [run_cell(cell, bench, utc_now) for cell in cells], 0.0)
    bench.close()
    watch(book.progress())
    return book.progress()


def private_words(study: Study) -> list[str]:
    """The study's keys, and the seed, id and prompt of each instance."""
    words = list(study.identities())
    for entry in study.entries():
        family = study.protocol.catalog.family(entry.family, entry.version)
        prompt = family.generate(entry.difficulty, Seed.from_hex(entry.seed)).brief.prompt
        words += [entry.seed, hex_of(entry.instance), prompt[:80]]
    return words


def test_a_dead_provider_is_named_by_sweep_probe_and_status(
    tmp_path: Path, dead_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("study.steps.sweep.sweep._run_owed", in_this_process)
    init_study(tmp_path, STUDY.format(port=dead_port))
    study = pipeline.open_study(tmp_path)
    promise_unchecked(study)
    runner, place = CliRunner(), ["--study", str(tmp_path)]
    free = ["--allow-unknown-price", *place]
    swept = runner.invoke(main, ["-vv", "sweep", "--wave", "0", "--allow-dirty", *free])
    assert swept.exit_code == 1, swept.output
    assert "harness.sweep.leases: a cell's attempt failed (provider:connection)" in swept.stderr
    for private in private_words(study):
        assert private not in swept.output, "neither in the log nor in the table"
    address = f"http://127.0.0.1:{dead_port}/v1"
    (row,) = [line for line in swept.stdout.splitlines() if line.startswith(" gone")]
    cells = [cell for cell in re.split(r"\s{2,}", row.strip()) if cell]
    assert cells[:4] == ["gone", "connection (provider)", "4", "4"], "episodes, attempts"
    assert cells[4] == f"nothing answers at {address}"
    assert cells[5].startswith("is the server running")
    status = runner.invoke(main, ["status", "--json", *place])
    (wave,) = [row for row in json.loads(status.stdout) if row["step"] == "sweep --wave 0"]
    assert f"gone: connection (provider) × 4; nothing answers at {address}" in wave["about"]
    again = runner.invoke(main, ["sweep", "--wave", "0", "--allow-dirty", "--json", *free])
    assert again.exit_code == 1
    told = json.loads(again.stdout)
    expected = {"model": "gone", "address": address, "failure": "provider:connection"}
    assert told["failing"] == [expected | {"times": 4, "episodes": 4}]
    lines = [line for line in again.stderr.splitlines() if not line.startswith("note: ")]
    last = json.loads(lines[-1])
    assert (last["owed"], last["exhausted"]) == (4, 4)
    assert last["models"] == [told["models"][0] | {"replies_per_minute": None}]
    probed = runner.invoke(main, ["probe", "--wave", "0", "--model", "gone", *free])
    assert probed.exit_code == 1
    assert re.search(
        rf"gone +connection \(provider\) .* nothing answers at {address}", probed.stdout
    )
