"""The lists of begun attempts of a wave that is swept: recorded in the ledger, and stamped."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from harness.sweep.leases import Progress
from registry.errors import RegistryError
from registry.ledger.begun import begun_folder, find_heads
from registry.ledger.records import AttemptsBegun, ListHead, RunManifest, record_digest
from study.workspace.checkpoints import stamp_ledger
from study.workspace.study import Study

logger = logging.getLogger(__name__)

_SECONDS = 600.0  # between two records, at most while attempts are begun
_EPISODES = 200  # after which the next record may come sooner,
_SHORTEST = 60.0  # but not before this


class BegunRecorder:
    """Records and stamps beside a sweep, in a thread, so that no reply waits for an authority."""

    def __init__(self, study: Study, manifest: RunManifest, now: Callable[[], str]) -> None:
        self._study, self._manifest, self._now = study, manifest, now
        last = study.ledger.last("attempts-begun")
        self._heads: tuple[ListHead, ...] = last.record.heads if last else ()
        self._progress: Progress | None = None
        self._last, self._finished = time.monotonic(), 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="begun")

    def __enter__(self) -> Self:
        """Stamp the begin of the wave."""
        self._thread.submit(stamp_ledger, self._study)
        return self

    def watch(self, progress: Progress) -> None:
        """Record how far the lists have come, if it is time."""
        self._progress = progress
        seconds = time.monotonic() - self._last
        many = progress.finished - self._finished >= _EPISODES and seconds >= _SHORTEST
        if many or seconds >= _SECONDS:
            self._last, self._finished = time.monotonic(), progress.finished
            self._thread.submit(self._record)

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        """Record once more, unless the wave is closed next, which does so."""
        if kind is not None or self._progress is None or not self._progress.done:
            self._thread.submit(self._record)
        self._thread.shutdown()

    def _record(self) -> None:
        study, manifest = self._study, self._manifest
        try:
            heads = find_heads(study.store, begun_folder(manifest.run_recipient))
            if heads != self._heads:
                record = AttemptsBegun(manifest.wave, record_digest(manifest), heads)
                study.ledger.append(record, self._now())
                self._heads = heads
            stamp_ledger(study)
        except RegistryError as error:
            logger.warning("the lists of begun attempts are recorded later: %s", error)
