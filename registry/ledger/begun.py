"""Attempts that were begun and ended: lists that anybody can read, so that attempts cannot be
chosen from several without a trace.

Each worker process keeps one list for its run, ``begun/<run>/<worker>/<number, 6 digits>.txt``:

    before <SHA-256 of the page before, or 64 zeros>
    begin <episode> <attempt> <time>
    end <episode> <attempt> <time> <SHA-256 of the sealed attempt>

A beginning is stored before a request is sent for it, an end before the attempt is stored. From
time to time the driver records in the ledger how far each list has come (``AttemptsBegun``), and a
last time when it closes the wave. A time-stamp of that record fixes all before it. A copy of the
store in which other replies are bought has other lists, so that one store cannot hold the attempts
of both.

Episodes have the 64 digits of their keyed names, which show neither arm nor model.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from registry.errors import BrokenPromise, RegistryError
from registry.ledger.records import ListHead
from registry.stores.base import Store
from registry.stores.parallel import parallel_map

BEGUN = "begun/"
_GATHER_SECONDS = 0.01  # in which other threads may add to a page
_PAGE = re.compile(rf"{BEGUN}[0-9a-f]{{64}}/([0-9]{{6}}-[0-9]+)/([0-9]{{6}})\.txt")
_STEP = r"([0-9a-f]{64}) ([1-9][0-9]{0,3}) (\d{4}-\d\d-\d\dT[\d:]{8}Z)"
_LINES = (re.compile(f"begin {_STEP}()"), re.compile(f"end {_STEP} ([0-9a-f]{{64}})"))


@dataclass(frozen=True, slots=True)
class Step:
    """A line of a list: an attempt began, or ended with a sealed object."""

    episode: str  # 64 digits
    attempt: int
    time: str  # UTC, ISO 8601
    digest: str = ""  # of the object, 64 digits; "" for a beginning

    @property
    def line(self) -> str:
        """The line, with its end."""
        words = f"{self.episode} {self.attempt} {self.time}"
        return f"end {words} {self.digest}\n" if self.digest else f"begin {words}\n"


def begun_folder(run_recipient: str) -> str:
    """Return the folder of a run's lists, by the public key of the run."""
    return f"{BEGUN}{hashlib.sha256(run_recipient.encode()).hexdigest()}/"


@dataclass
class BegunList:
    """The list of one worker process. Threads that add steps at the same time share a page."""

    store: Store
    folder: str  # of the run's lists
    worker: str
    now: Callable[[], str]
    _waiting: list[str] = field(default_factory=list)  # lines of no page yet
    _added: int = 0
    _stored: int = 0  # of the added lines
    _pages: int = 0
    _before: str = "0" * 64
    _failure: RegistryError | None = None
    _adding: threading.Lock = field(default_factory=threading.Lock)
    _storing: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, episode: str, attempt: int) -> None:
        """Store that an attempt begins. Raises RegistryError."""
        self._add(Step(episode, attempt, self.now()))

    def end(self, episode: str, attempt: int, sealed: bytes) -> None:
        """Store that an attempt ended with an object that is stored next. Raises RegistryError."""
        self._add(Step(episode, attempt, self.now(), hashlib.sha256(sealed).hexdigest()))

    def _add(self, step: Step) -> None:
        with self._adding:
            self._waiting.append(step.line)
            self._added = number = self._added + 1
        with self._storing:
            if self._failure is not None:  # a later page would name one that is not there
                raise self._failure
            if number > self._stored:
                time.sleep(_GATHER_SECONDS)
                with self._adding:
                    lines, self._waiting, self._stored = self._waiting, [], self._added
                self._put_page(f"before {self._before}\n{''.join(lines)}".encode())

    def _put_page(self, page: bytes) -> None:
        key = _page_key(self.folder, self.worker, self._pages)
        self._pages, self._before = self._pages + 1, hashlib.sha256(page).hexdigest()
        try:
            if not self.store.put(key, page):
                raise BrokenPromise(f"{key}: another process keeps this worker's list")
        except RegistryError as error:
            self._failure = error
            raise


def find_heads(store: Store, folder: str) -> tuple[ListHead, ...]:
    """Return how far each list of a run has come, by worker. A page before may be missing: it lies
    in the outbox of a machine. Raises StoreError."""
    pages: dict[str, int] = {}
    for key in store.list(folder):
        if found := _PAGE.fullmatch(key):
            pages[found[1]] = int(found[2]) + 1
    keys = [_page_key(folder, worker, number - 1) for worker, number in pages.items()]
    digests = (hashlib.sha256(page).hexdigest() for page in parallel_map(store, store.get, keys))
    return tuple(
        ListHead(worker, number, digest)
        for (worker, number), digest in zip(pages.items(), digests, strict=True)
    )


def read_list(store: Store, folder: str, head: ListHead) -> Iterator[tuple[str, list[Step]]]:
    """Yield digest and steps of each page of a list up to its head. Raises BrokenPromise that names
    a page which is not the one that the next page or the head names, MissingKey, StoreError."""
    keys = [_page_key(folder, head.worker, number) for number in range(head.pages)]
    before = "0" * 64
    if not keys or not _PAGE.fullmatch(keys[0]):
        raise BrokenPromise(f"{folder}: a head of no list, {head.worker[:40]!r}")
    for key, page in zip(keys, parallel_map(store, store.get, keys), strict=True):
        first, *lines = page.decode("ascii", "replace").splitlines()
        steps = [found for line in lines for form in _LINES if (found := form.fullmatch(line))]
        if first != f"before {before}" or len(steps) < len(lines):
            raise BrokenPromise(f"{key}: it, or the page before it, was altered or replaced")
        before = hashlib.sha256(page).hexdigest()
        yield before, [Step(s[1], int(s[2]), s[3], s[4]) for s in steps]
    if before != head.digest:
        raise BrokenPromise(f"{keys[-1]}: was altered: {head.digest} expected, {before} found")


def _page_key(folder: str, worker: str, number: int) -> str:
    return f"{folder}{worker}/{number:06d}.txt"
