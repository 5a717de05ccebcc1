"""What a sweep asks of a remote store before its first reply, however many waves came before."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from botocore.httpsession import URLLib3Session

from harness.models.scripted import SolvingAgent
from harness.storage import finished_names, instances_key
from harness.sweep.epochs import HeartbeatSender, WorkerClaims
from harness.sweep.run_cell import run_cell
from harness.sweep.schedule import INSTANCES_CODEC
from harness.sweep.workbench import RunContext, Workbench
from registry.ledger.chain import COPY, Ledger
from registry.ledger.records import WaveClosed
from registry.provenance import utc_now
from registry.stores import open_store
from study.steps import pipeline
from study.steps.sweep import sweep as sweeping
from study.steps.sweep.command import note_early
from study.steps.sweep.sweep import SweepRequest
from tests.study.conftest import TINY, make_study

pytestmark = pytest.mark.s3
MOST, WAVES = 25, 30


def ask_a_model(study: object, request: object, context: RunContext, *_: object) -> None:
    """Do what driver, coordinator and a worker do until a model is asked."""
    epochs = context.epochs
    beats = HeartbeatSender(epochs, epochs.open(), lambda: None)
    epochs.claims()
    store, key = open_store(context.store), instances_key(context.run_recipient)
    cells = context.schedule(INSTANCES_CODEC.read(store, key, context.run_keys))
    assert not all(cells.marks(finished_names(store)))
    bench = Workbench.open(context, "000001-1")
    bench.purchases.renew(math.inf)
    assert WorkerClaims(epochs, "000001-1", lambda: False).take([cells[0].episode])
    try:
        run_cell(cells[0], bench, utc_now)
    finally:
        bench.close()
        beats.close()


def test_few_requests_come_before_the_first_reply(
    moto: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_study(tmp_path / "study", f"{TINY}store: {moto.uri('many-waves')}\n")
    for wave in range(1, WAVES):
        made.ledger.append(WaveClosed(wave, "sha256:" + "0" * 64, 0, 0, 0, ""), utc_now())
    sent: list[str] = []
    send = URLLib3Session.send

    def count(session: Any, request: Any) -> Any:
        sent.append(f"{request.method} {request.url}")
        return send(session, request)

    def respond(*_: Any) -> Any:
        assert len(sent) <= MOST, "\n".join(sent)
        raise KeyboardInterrupt

    monkeypatch.setattr(URLLib3Session, "send", count)
    ledger = Ledger(made.store)
    assert ledger.entries() == made.ledger.entries()
    assert ledger.entries() is not None
    assert len(sent) == 5, "the copy, its last record, and each time the record that may follow"
    for altered in (b"", b"not a record\n", made.store.get(COPY).replace(b"wave", b"wove")):
        made.store.replace(COPY, altered)
        assert Ledger(made.store).entries() == ledger.entries()
    made.ledger.append(WaveClosed(WAVES, "sha256:" + "0" * 64, 0, 0, 0, ""), utc_now())
    sent.clear()
    monkeypatch.setattr(SolvingAgent, "respond", respond)
    monkeypatch.setattr(sweeping, "_run_owed", ask_a_model)
    study = pipeline.open_study(made.folder)
    note_early(study, 0)
    with pytest.raises(KeyboardInterrupt):
        pipeline.sweep(study, SweepRequest(0, allow_dirty=True), lambda progress: None)
