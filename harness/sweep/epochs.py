"""Epochs and claims: who may buy replies for a run, by objects in its store.

A driver opens an epoch, put if absent, ``epochs/<run>/000007.age``. Only the highest may buy. A
driver with a lower one still stores what it has bought: buying is fenced, storing never is. While
it may buy, it replaces the heartbeat of its epoch every few seconds, which has the progress that
``dosimeter wave attach`` shows, and reads what an operator asks for. No time is written down, since
clocks may differ by an hour: another driver goes on with a run once it has seen the same heartbeat
for a minute of its own clock. By then no worker of the silent driver buys any more:

=====================  =========================================================
heartbeat              every 5 s
the driver fences      20 s after the last heartbeat that the store took
itself
its workers stop       half a lease (30 s) after the driver last answered them
buying
another driver begins  60 s after the heartbeat last changed
=====================  =========================================================

A worker claims its cells in the store before it buys replies to them, and buys none if a higher
epoch is there by then; who opens an epoch reads the claims after that. So either the worker sees
the epoch, or the driver sees the claim, and leaves those cells alone while replies to them may
be on their way: until the worker has dropped the claim, is known to be dead, or was silent.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.errors import SweptElsewhere
from harness.storage import Codec, T, epoch_folder
from harness.sweep.leases import Progress, SweepOrder
from registry.errors import MissingKey, StoreError, StoreUnavailable
from registry.sealing import decrypt, encrypt
from registry.stores.base import Store
from registry.stores.parallel import parallel_map

logger = logging.getLogger(__name__)

BEAT_SECONDS = 5.0
FENCE_SECONDS = 20.0
TAKEOVER_SECONDS = 60.0
LOOK_SECONDS = 1.0  # between two looks at the heartbeat or claim of another process
_OPENED = re.compile(r"(\d{6})\.age")
_CLAIMED = re.compile(r"(\d{6}-\d+)\.age")
_ASKED = re.compile(rb'\{"asked":"(go|pause|stop)"\}\n?')


@dataclass(frozen=True, slots=True)
class Process:
    """A process, distinguished from all others by boot and start."""

    host: str
    boot: str
    pid: int
    start: int  # in ticks after the boot

    @classmethod
    def current(cls) -> Process:
        """This process."""
        return cls(socket.gethostname(), _boot(), os.getpid(), _start_of(os.getpid()))

    @property
    def has_ended(self) -> bool:
        """True if it was a process here that is no more."""
        return self.boot == _boot() and _start_of(self.pid) != self.start


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The last sign of life of an epoch. ``ended`` once its driver buys no more, by a ``failure``
    if that has words."""

    number: int
    asked: SweepOrder
    ended: bool
    progress: Progress | None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """The cells to which a worker process may be buying replies. ``number`` counts its claims."""

    process: Process
    number: int
    episodes: tuple[str, ...]


_PROCESS_CODEC: Codec[Process] = Codec("epoch", 1, Process)
_HEARTBEAT_CODEC: Codec[Heartbeat] = Codec("heartbeat", 1, Heartbeat)
_CLAIM_CODEC: Codec[Claim] = Codec("claim", 1, Claim)


@dataclass(frozen=True, slots=True)
class Epochs:
    """The epochs of a run in its store, sealed for ``recipients``. Methods raise RegistryError."""

    store: Store
    recipient: str  # the run's
    recipients: tuple[str, ...]
    identities: tuple[str, ...] = field(repr=False)

    def latest(self) -> int:
        """The number of the highest epoch; 0 if there is none."""
        return max(map(int, self._names(_OPENED)), default=0)

    def open(self, waiting: Callable[[str], None] = lambda host: None) -> int:
        """Open the next epoch for this process and return its number. If the last one has not
        ended, watch its heartbeat first; ``waiting`` gets its host. Raises SweptElsewhere if that
        changes."""
        process = Process.current()
        while True:
            if last := self.latest():
                self._await_silence(last, waiting)
            data = encrypt(_PROCESS_CODEC.encode(process), self.recipients)
            if self.store.put(f"{self._folder}{last + 1:06d}.age", data):
                logger.info("opened epoch %d of the run", last + 1)
                return last + 1

    def driver(self, number: int) -> Process:
        """The process that opened an epoch."""
        return self._read(_PROCESS_CODEC, f"{self._folder}{number:06d}.age")

    def beat(self, number: int, heartbeat: Heartbeat) -> None:
        """Replace the heartbeat of an epoch."""
        data = encrypt(_HEARTBEAT_CODEC.encode(heartbeat), self.recipients)
        self.store.replace(self._place(number, "beat.age"), data)

    def heartbeat(self, number: int) -> Heartbeat | None:
        """The last heartbeat of an epoch, if any."""
        key = self._place(number, "beat.age")
        return self._read(_HEARTBEAT_CODEC, key) if self.store.exists(key) else None

    def ask(self, number: int, asked: SweepOrder) -> None:
        """Ask the driver of an epoch for something; it looks with every heartbeat."""
        data = f'{{"asked":"{asked}"}}\n'.encode()
        self.store.replace(self._place(number, "asked.json"), data)

    def asked(self, number: int) -> SweepOrder:
        """What the driver of an epoch was last asked for."""
        try:
            found = _ASKED.fullmatch(self.store.get(self._place(number, "asked.json")))
        except MissingKey:
            return SweepOrder.GO
        return SweepOrder(found[1].decode()) if found else SweepOrder.GO

    def put_claim(self, worker: str, claim: Claim) -> None:
        """Replace the claim of a worker, whose name begins with the number of its epoch."""
        data = encrypt(_CLAIM_CODEC.encode(claim), self.recipients)
        self.store.replace(f"{self._folder}{worker}.age", data)

    def drop_claim(self, worker: str) -> None:
        """Let other workers buy replies to what a worker has claimed."""
        self.put_claim(worker, Claim(Process.current(), 0, ()))

    def claim(self, worker: str) -> Claim | None:
        """The last claim of a worker; None if it has dropped it, or never made one."""
        key = f"{self._folder}{worker}.age"
        found = self._read(_CLAIM_CODEC, key) if self.store.exists(key) else None
        return found if found is not None and found.episodes else None

    def claims(self) -> dict[str, Claim]:
        """The claims that stand, by worker."""
        workers = tuple(self._names(_CLAIMED))
        found = zip(workers, parallel_map(self.store, self.claim, workers), strict=True)
        return {worker: claim for worker, claim in found if claim is not None}

    def _names(self, pattern: re.Pattern[str]) -> Iterator[str]:
        names = (key.rpartition("/")[2] for key in self.store.list(self._folder))
        return (found[1] for found in map(pattern.fullmatch, names) if found)

    def _await_silence(self, number: int, waiting: Callable[[str], None]) -> None:
        driver = self.driver(number)
        seen, since = self.heartbeat(number), time.monotonic()
        while not (seen is not None and seen.ended) and not driver.has_ended:
            if (left := TAKEOVER_SECONDS - (time.monotonic() - since)) <= 0:
                logger.warning("the driver on %s is silent: going on without it", driver.host)
                return
            waiting(driver.host)
            time.sleep(min(left, LOOK_SECONDS))
            now = self.heartbeat(number)
            if now is not None and now != seen and not now.ended:
                raise SweptElsewhere(
                    f"another sweep of this run is at work, by process {driver.pid} on "
                    f"{driver.host}: follow it with `dosimeter wave attach`, or end it with "
                    "`dosimeter wave stop`, and run this again"
                )
            seen = now

    def _read(self, codec: Codec[T], key: str) -> T:
        return codec.decode(decrypt(self.store.get(key), self.identities, key), key)

    def _place(self, number: int, name: str) -> str:
        return f"{self._folder}{number:06d}-{name}"

    @property
    def _folder(self) -> str:
        return epoch_folder(self.recipient)


class HeartbeatSender:
    """Keeps an epoch alive by a thread of its own. ``watch`` gives the progress for heartbeats."""

    def __init__(self, epochs: Epochs, number: int, watch: Callable[[], Progress | None]) -> None:
        """Beat once, and go on every few seconds. Raises RegistryError."""
        self._epochs, self._number, self._watch = epochs, number, watch
        self._beats = 0
        self._asked = SweepOrder.GO
        self.fenced = False  # another driver goes on with the run
        self._last = 0.0
        self._closed = threading.Event()
        self._beat()
        self._thread = threading.Thread(target=self._go_on, name="heartbeat", daemon=True)
        self._thread.start()

    @property
    def asked(self) -> SweepOrder:
        """What the driver is asked for; to stop if another driver has a higher epoch."""
        return SweepOrder.STOP if self.fenced else self._asked

    @property
    def alive(self) -> bool:
        """True if the store took a heartbeat lately, so that no other driver has begun."""
        return not self.fenced and time.monotonic() - self._last < FENCE_SECONDS

    def close(self, failure: str = "") -> None:
        """Record that the epoch has ended, by a ``failure`` if that has words. If the store does
        not take it, the next driver waits for a minute."""
        self._closed.set()
        self._thread.join(FENCE_SECONDS)
        try:
            self._epochs.beat(self._number, self._now(True, failure))
        except StoreError as error:
            logger.warning("the end of the epoch could not be stored: %s", error)

    def _go_on(self) -> None:
        while not self._closed.wait(BEAT_SECONDS) and not self.fenced:
            try:
                self._beat()
            except StoreError as error:
                logger.warning("no heartbeat: %s", error)

    def _beat(self) -> None:
        began = time.monotonic()  # an observer may see the heartbeat from here on
        if self._epochs.latest() > self._number:
            self.fenced = True
            return
        self._asked = self._epochs.asked(self._number)
        self._epochs.beat(self._number, self._now(False))
        self._last = began

    def _now(self, ended: bool, failure: str = "") -> Heartbeat:
        self._beats += 1
        return Heartbeat(self._beats, self._asked, ended, self._watch(), failure)


class WorkerClaims:
    """The claims of one worker, which it keeps alive. ``stopped`` is true once it buys no more."""

    def __init__(self, epochs: Epochs, worker: str, stopped: Callable[[], bool]) -> None:
        self._epochs, self._worker, self._stopped = epochs, worker, stopped
        self._epoch = int(worker.partition("-")[0])
        self._claim = Claim(Process.current(), 0, ())
        self.unavailable = ""  # why the store did not take the last claim, if it did not

    def take(self, episodes: Iterable[str]) -> bool:
        """Claim these cells instead of those before. Return False if replies to them may not be
        bought: another driver goes on with the run, or the worker was stopped. Waits while the
        store is away. Raises RegistryError."""
        self._claim = replace(self._claim, episodes=tuple(episodes))
        while not self._stopped():
            try:
                self.renew()
                latest, self.unavailable = self._epochs.latest(), ""
                return latest == self._epoch
            except StoreUnavailable as error:
                self.unavailable = error.reason
                time.sleep(LOOK_SECONDS)
        return False

    def renew(self) -> None:
        """Show that replies to the claimed cells may still be on their way. Raises
        RegistryError."""
        self._claim = replace(self._claim, number=self._claim.number + 1)
        self._epochs.put_claim(self._worker, self._claim)

    def drop(self) -> None:
        """Record that nothing is on its way any more. Raises RegistryError."""
        if self._claim.number:
            self._epochs.drop_claim(self._worker)


def _boot() -> str:
    """The boot of this host, and the namespace in which processes have their numbers."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot} {os.readlink('/proc/self/ns/pid')}"


def _start_of(pid: int) -> int:
    """When a process started, in ticks after the boot; -1 if there is none, or it is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return -1
    state, *rest = stat.rpartition(")")[2].split()
    return -1 if state in "ZX" else int(rest[18])
