"""What a sweep asks of a remote store before its first reply, however many waves came before."""

from __future__ import annotations

import math
from typing import Any

import botocore.httpsession
import pytest

from harness.models.scripted import HonestAgent
from harness.storage import finished_names, instances_key
from harness.sweep.epochs import HeartbeatSender, WorkerClaims
from harness.sweep.run_cell import run_cell
from harness.sweep.schedule import INSTANCES_CODEC
from harness.sweep.workbench import RunContext, Workbench
from registry.ledger.chain import COPY, Ledger, inspect_chain
from registry.ledger.records import WaveClosed
from registry.provenance import utc_now
from registry.stores import open_store
from study.steps import pipeline
from study.steps.sweep import sweep as sweeping
from study.steps.sweep.command import note_early
from study.steps.sweep.sweep import SweepRequest
from study.workspace.study import Study
from tests.study.conftest import TINY, make_study

pytestmark = pytest.mark.s3
MOST = 25


@pytest.fixture(scope="module")
def after_many_waves(moto: Any, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A registered study whose ledger has the records of 29 further waves."""
    store = f"store: {moto.uri('many-waves')}\n"
    study = make_study(tmp_path_factory.mktemp("many") / "study", TINY + store)
    for wave in range(1, 30):
        study.ledger.append(WaveClosed(wave, "sha256:" + "0" * 64, 0, 0, 0, ""), utc_now())
    return study


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests to S3 from here on."""
    sent: list[str] = []
    send = botocore.httpsession.URLLib3Session.send

    def count(session: Any, request: Any) -> Any:
        sent.append(f"{request.method} {request.url}")
        return send(session, request)

    monkeypatch.setattr(botocore.httpsession.URLLib3Session, "send", count)
    return sent


def reply_once(study: Study, request: SweepRequest, context: RunContext, *_: Any) -> None:
    """Do what driver, coordinator and a worker do until a model is asked."""
    epochs = context.epochs
    beats = HeartbeatSender(epochs, epochs.open(), lambda: None)
    epochs.claims()
    store, key = open_store(context.store), instances_key(context.run_recipient)
    cells = context.schedule(INSTANCES_CODEC.read(store, key, context.run_keys))
    assert not all(cells.marks(finished_names(store)))
    bench = Workbench.open(context, holds=True)
    bench.purchases.renew(math.inf)
    assert WorkerClaims(epochs, "000001-1", lambda: False).take([cells[0].episode])
    try:
        run_cell(cells[0], bench, utc_now)
    finally:
        bench.close()
        beats.close()


def test_a_sweep_asks_its_store_little_before_the_first_reply(
    after_many_waves: Study, requests: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = []

    def respond(*_: Any) -> Any:
        counted.append(len(requests))
        raise KeyboardInterrupt

    monkeypatch.setattr(HonestAgent, "respond", respond)
    monkeypatch.setattr(sweeping, "_run_owed", reply_once)
    study = pipeline.open_study(after_many_waves.folder)
    note_early(study, 0)
    with pytest.raises(KeyboardInterrupt):
        pipeline.sweep(study, SweepRequest(0, allow_dirty=True), lambda progress: None)
    assert counted[0] <= MOST, "\n".join(requests)


def test_a_process_reads_the_copy_and_what_came_after_it(
    after_many_waves: Study, requests: list[str]
) -> None:
    ledger = Ledger(after_many_waves.store)
    entries = ledger.entries()
    assert len(requests) == 3
    assert ledger.entries() == entries
    assert len(requests) == 4, "each later question asks for the next record alone"


@pytest.mark.parametrize("altered", [b"", b"not a record\n", None])
def test_a_copy_that_is_not_the_ledgers_is_left_alone(
    after_many_waves: Study, altered: bytes | None
) -> None:
    store, entries = after_many_waves.store, inspect_chain(after_many_waves.store)[0]
    copied = store.get(COPY)
    store.replace(COPY, copied.replace(b"wave", b"wove") if altered is None else altered)
    assert Ledger(store).entries() == entries
    store.replace(COPY, copied)
