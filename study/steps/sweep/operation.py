"""Operation of a running sweep, wherever it runs: its heartbeat in the study's store has its
progress, and the requests of operators are stored beside that."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from harness.sweep.epochs import Epochs, Heartbeat, Process
from harness.sweep.leases import Progress, SweepOrder
from study.errors import StudyError
from study.workspace.snapshot import manifest_of, run_identity_of
from study.workspace.study import Study

_LOOK_SECONDS = 1.0
_SILENT_SECONDS = 60.0


def ask_sweep(study: Study, wave: int, asked: Literal["go", "pause", "stop"]) -> Process:
    """Ask the sweep of a wave to do something, and return its process. Raises StudyError if no
    sweep of it is at work, RegistryError."""
    epochs, number, driver = _at_work(study, wave)
    epochs.ask(number, SweepOrder(asked))
    return driver


def follow_sweep(
    study: Study,
    wave: int,
    watch: Callable[[Progress], None],
    begin: Callable[[str], None] = lambda step: None,
) -> Progress:
    """Watch the sweep of a wave until it ends, and return its last count. ``begin`` gets what it
    does before its first episode. Raises StudyError if no sweep of it is at work, or its heartbeat
    stops; RegistryError."""
    epochs, number, driver = _at_work(study, wave)
    seen: Heartbeat | None = None
    since = time.monotonic()
    while True:
        now = epochs.heartbeat(number)
        if now is not None and now != seen:
            seen, since = now, time.monotonic()
            if now.failure:
                raise StudyError(f"the sweep of wave {wave} on {driver.host} failed: {now.failure}")
            if now.progress is None:
                begin(f"the sweep on {driver.host} prepares its episodes, or waits for batches")
            else:
                watch(now.progress)
                if now.ended:
                    return now.progress
        if epochs.latest() > number:
            epochs, number, driver = _at_work(study, wave)
        elif driver.has_ended or time.monotonic() - since > _SILENT_SECONDS:
            raise StudyError(
                f"the sweep of wave {wave} on {driver.host} (process {driver.pid}) is silent: it "
                "was killed, or its host or store is lost; continue it with `dosimeter sweep "
                f"--wave {wave}`"
            )
        time.sleep(_LOOK_SECONDS)


def _at_work(study: Study, wave: int) -> tuple[Epochs, int, Process]:
    """Return the epochs of a wave's run, the number of the last one, and its process. Raises
    StudyError if that has ended."""
    manifest = manifest_of(study.ledger, wave)
    if manifest is not None:
        identity = run_identity_of(study, manifest)
        readers = (*study.readers(), manifest.run_recipient)
        epochs = Epochs(study.store, manifest.run_recipient, readers, (identity,))
        if number := epochs.latest():
            heartbeat, driver = epochs.heartbeat(number), epochs.driver(number)
            if not (heartbeat is not None and heartbeat.ended) and not driver.has_ended:
                return epochs, number, driver
    raise StudyError(
        f"no sweep of wave {wave} is at work: `dosimeter sweep --wave {wave}` runs what it owes"
    )
