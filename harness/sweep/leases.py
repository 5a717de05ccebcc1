"""Leases over the cells that a wave owes, in the order of its schedule.

Pure bookkeeping; the clock is passed in. A lost lease book is rebuilt from the store, so nothing
here needs to survive: exactly-once comes from the names of the results, not from leases. Cells are
computed when they are leased; only those that are at work or were tried take memory.

Free workers are shared fairly among the models that may run. Failures of a provider hold its models
back and count against no cell (``governor``).
"""

from __future__ import annotations

import heapq
import logging
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain

from harness.episode import Cell
from harness.spending.budget import Account, Budget, PricedModel, Spend, SpendingLimits
from harness.sweep.governor import (
    KILLED,
    PROBE_SECONDS,
    RATE_LIMIT,
    RATE_WAIT,
    REFUSED_KEY,
    Consumption,
    FailedAttempts,
    LeaseOutcome,
    ModelProgress,
    ProviderGate,
    StatedLimit,
    WaitReason,
    asked_pause,
    open_gates,
)
from harness.sweep.outbox import StorePause
from harness.sweep.purchases import CallCounts, CallLimit
from harness.sweep.schedule import Schedule

logger = logging.getLogger(__name__)


# Seconds before a failed cell is tried again, by the number of its own failures so far.
_BACKOFF = (1.0, 5.0, 20.0)
_TRIED = 2  # in the book's bytes by number: of a cell that is owed, and no new one


class SweepOrder(StrEnum):
    """What the operator of a sweep asks it to do."""

    GO = "go"
    PAUSE = "pause"  # lease nothing more
    STOP = "stop"  # buy nothing more, and end


class WorkerEnd(StrEnum):
    """How a worker ended that has leases."""

    LEFT = "left"  # what it bought is stored, and nothing is on its way
    LOST = "lost"  # with its host, as far as is known
    KILLED = "killed"  # its process alone, as for its memory


@dataclass(frozen=True, slots=True)
class Progress:
    """Number of cells of a run in each state, and their cost."""

    owed: int  # at the start of the run, finished ones included
    finished: int
    leased: int
    waiting: int
    exhausted: int  # failed as often as is allowed in one sweep
    failures: tuple[tuple[str, int], ...]  # error class, how often
    held: int = 0  # waiting because the budget does not pay for them
    accounts: tuple[Account, ...] = ()  # the budget's limits
    models: tuple[ModelProgress, ...] = ()
    pauses: tuple[StorePause, ...] = ()  # processes that wait for the store
    asked: SweepOrder = SweepOrder.GO  # what an operator asks the sweep for
    fenced: bool = False  # another driver goes on with the run
    # Episodes whose worker was lost; of each, at most one reply on its way is paid for twice.
    lost: int = 0

    @property
    def done(self) -> bool:
        """True if every cell is finished or exhausted."""
        return self.finished + self.exhausted >= self.owed

    @property
    def used(self) -> Consumption:
        """What the attempts of this sweep used, of all models."""
        return sum((model.used for model in self.models), Consumption())

    @property
    def stopped(self) -> tuple[ModelProgress, ...]:
        """The models that were stopped because their keys were refused."""
        return tuple(each for each in self.models if each.reason is WaitReason.STOPPED)


@dataclass(frozen=True, slots=True)
class LeaseRules:
    """When cells are leased and given up.

    A worker loses its leases after ``silence_seconds`` without a heartbeat. ``providers`` has the
    provider key of each model that others serve: its rate of requests is searched for from the
    start. A provider that is down gets a cell every ``probe_seconds``, however long that takes; to
    ``give_up``, its failures and refused keys count as failures of the cell. ``limits`` are those
    that are known, by model.
    """

    silence_seconds: float = 60.0
    max_failures: int = 3
    probe_seconds: float = PROBE_SECONDS
    give_up: bool = False
    providers: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, StatedLimit] = field(default_factory=dict)


class LeaseBook:
    """The owed cells of a run, those at work, and those to be tried again."""

    def __init__(
        self,
        cells: Schedule,
        finished: bytes | bytearray,
        rules: LeaseRules,
        budget: Budget | None = None,
        recount: Callable[[Cell], Spend] = lambda cell: Spend(),
        keep_killed: Callable[[Cell], None] = lambda cell: None,
    ) -> None:
        """Open the book over the cells without a result, each model's in the order of their
        numbers; ``finished`` has a byte for each cell, 1 if it has one and else 0. With a budget, a
        cell is leased only if that pays for it; ``recount`` reads the cost of a cell from the
        store. ``keep_killed`` stores that a cell is given up because the processes of its workers
        were killed.
        """
        self._schedule, self._done = cells, bytearray(finished)
        self._cells: dict[str, Cell] = {}  # that were tried or set aside, and are owed, by episode
        self._numbers: dict[str, int] = {}  # theirs
        self._rules = rules
        unpriced = (PricedModel(name, provider="", price=None) for name in cells.ranges)
        self.budget, self.recount = budget or Budget(SpendingLimits(), unpriced), recount
        self._keep_killed = keep_killed
        self._models: dict[str, _ModelCells] = {}
        breaks = None if rules.give_up else rules.probe_seconds
        gates = open_gates(cells.ranges, rules.providers, rules.limits, breaks)
        self._gates = tuple(dict.fromkeys(gates.values()))
        for name, numbers in cells.ranges.items():
            owed = self._done.count(0, numbers.start, numbers.stop)
            model = _ModelCells(gates[name], numbers.start, numbers.stop, owed, len(numbers) - owed)
            self._models[name] = model
        self._later: list[tuple[float, str]] = []
        self._leases: dict[str, str] = {}  # episode → worker
        self._heartbeats: dict[str, float] = {}  # worker → time of the last
        self._clock = 0.0  # time of the last message
        self._granted = 0  # leases so far
        self._failed: Counter[str] = Counter()
        self._lost = 0  # leases, with their workers

    def lease(
        self, worker: str, count: int, now: float, holding: frozenset[str] = frozenset()
    ) -> tuple[Cell, ...]:
        """Lease up to ``count`` cells to a worker; none if none is ready now.

        ``holding`` are the cells that the worker is working on. Other leases of it were lost with
        an answer that never reached it, and are queued again.
        """
        self.hear(worker, now)
        self._requeue(
            episode
            for episode, holder in self._leases.items()
            if holder == worker and episode not in holding
        )
        self._recall(now)
        taken: list[Cell] = []
        while len(taken) < count and (episode := self._next(now)) is not None:
            self._begin_lease(episode, worker, now)
            taken.append(self._cells[episode])
        return tuple(taken)

    def over(self) -> bool:
        """Return True if no cell is leased, and none that is owed can be in this sweep: its model
        was stopped, or the budget does not pay for it. To be called after ``lease`` returned
        none."""
        if self._leases:
            return False
        later = {self._cells[e].model for _, e in self._later if e in self._cells}
        for name, model in self._models.items():
            if model.stopped:
                continue
            if self._has_ready(model) and not model.over_budget:
                return False  # its provider admits none for now
            waits = name in later or any(map(self._is_waiting, model.over_budget))
            if waits and self.budget.affords(name):
                return False
        return True

    def report(self, worker: str, outcomes: Iterable[LeaseOutcome], now: float) -> None:
        """Record a worker's outcomes. A late outcome of a lease that was passed on counts too,
        once: the result is in the store."""
        self.hear(worker, now)
        for outcome in outcomes:
            cell = self._cells.get(outcome.episode) or self._untried(outcome.episode)
            if cell is None:
                continue
            if outcome.spend is not None:
                self.budget.settle(cell.model, cell.episode, outcome.spend, outcome.finished)
            model = self._models[cell.model]
            model.used += outcome.used
            model.provider.record(outcome, now)
            holder = self._leases.get(outcome.episode)
            if holder is not None and (outcome.finished or holder == worker):
                self._end_lease(outcome.episode)
            if outcome.finished:
                self._remove(cell)
                model.finished += 1
            elif holder == worker:
                self._fail(cell, outcome, now)

    def adopt(self, worker: str, episodes: Iterable[str]) -> None:
        """Record that a worker has leases on these cells already, of a book before this one."""
        for episode in episodes:
            known = self._cells.get(episode) or self._untried(episode)
            if known is not None and self._is_waiting(episode):
                self._done[self._numbers[episode]] = _TRIED
                self._pays(episode)
                self._begin_lease(episode, worker, self._clock)

    def hear(self, worker: str, now: float) -> None:
        """Record a heartbeat of a worker."""
        self._heartbeats[worker] = self._clock = now

    def limit_calls(
        self, worker: str, calls: Mapping[str, CallCounts], now: float
    ) -> dict[str, CallLimit]:
        """Record a worker's calls by model since its last report. Return what it may send each
        model that has a limit."""
        limits: dict[str, CallLimit] = {}
        for gate in self._gates:
            limits |= gate.limit_calls(worker, calls, now)
        return limits

    def demand(self) -> float:
        """Return how many episodes are of use at once: those that are owed and within the budget,
        as far as their providers' rates allow."""
        owed: Counter[ProviderGate] = Counter()
        for name, model in self._models.items():
            owed[model.provider] += model.running if model.stopped else model.owed
            owed[model.provider] -= self._count_held(name)
        return sum(min(count, gate.places()) for gate, count in owed.items())

    def workers(self, now: float) -> list[str]:
        """Return the workers that were heard lately, in the order of their start."""
        late = now - self._rules.silence_seconds / 4
        lately = (worker for worker, last in self._heartbeats.items() if last >= late)
        return sorted(lately, key=lambda worker: int(worker.rpartition("-")[2]))

    def silent(self, now: float) -> tuple[str, ...]:
        """Return, once, the workers that were heard before but not for ``silence_seconds``."""
        late = now - self._rules.silence_seconds
        silent = tuple(worker for worker, last in self._heartbeats.items() if last < late)
        for worker in silent:
            del self._heartbeats[worker]
        return silent

    def try_now(self) -> None:
        """Have what waits for its next try not wait any longer, as an operator asks for."""
        self._later = [(self._clock, episode) for _, episode in self._later]
        for gate in self._gates:
            gate.next_probe = None if gate.next_probe is None else self._clock

    def release(
        self, worker: str, end: WorkerEnd = WorkerEnd.LOST, at_once: int | None = None
    ) -> int:
        """Take back the leases of a worker that has ended and return how many there were. If its
        process was killed, each of its cells may have been the reason: that is a failure of
        theirs, unless it held more than it works on ``at_once``, so that nobody knows which it
        worked on. The store may be away: then nothing is taken back yet."""
        held = [episode for episode, holder in self._leases.items() if holder == worker]
        blamed = held if end is WorkerEnd.KILLED and len(held) <= (at_once or len(held)) else []
        for episode in blamed:
            if self._failed[episode] + 1 >= self._rules.max_failures:
                self._keep_killed(self._cells[episode])
        count = self._requeue(held)
        self._lost += 0 if end is WorkerEnd.LEFT else count
        self._heartbeats.pop(worker, None)
        for gate in self._gates:
            gate.leave(worker)
        for episode in blamed:
            cell = self._cells[episode]
            self._models[cell.model].ready.remove(episode)
            self._fail(cell, LeaseOutcome(episode, False, KILLED), self._clock)
        return count

    def progress(self) -> Progress:
        """Count the cells by state, as of the last message."""
        models = tuple(map(self._model_progress, sorted(self._models)))
        classes: Counter[str] = Counter()
        for failed in chain.from_iterable(model.failures for model in models):
            classes[failed.error_class] += failed.attempts
        return Progress(
            owed=len(self._schedule),
            finished=sum(model.finished for model in models),
            leased=len(self._leases),
            waiting=sum(model.waiting for model in models),
            exhausted=sum(model.exhausted for model in models),
            lost=self._lost,
            failures=tuple(sorted(classes.items())),
            held=sum(map(self._count_held, self._models)),
            accounts=self.budget.accounts(),
            models=models,
        )

    def _model_progress(self, name: str) -> ModelProgress:
        model = self._models[name]
        waiting = model.owed - model.running
        reason, failure, seconds = self._wait(name) if waiting else (WaitReason.NOTHING, "", 0.0)
        return ModelProgress(
            name,
            running=model.running,
            waiting=waiting,
            reason=reason,
            failure=failure,
            seconds=seconds,
            owed=model.owed + model.finished + model.exhausted,
            finished=model.finished,
            exhausted=model.exhausted,
            failures=tuple(
                FailedAttempts(error, len(cells), len(set(cells)))
                for error, cells in sorted(model.failed.items())
            ),
            used=model.used,
        )

    def _wait(self, name: str) -> tuple[WaitReason, str, float]:
        """Return what the waiting cells of a model wait for, the error class, and the seconds."""
        model, provider = self._models[name], self._models[name].provider
        if model.stopped:
            return WaitReason.STOPPED, REFUSED_KEY, 0.0
        if provider.next_probe is not None:
            left = max(0.0, provider.next_probe - self._clock)
            return WaitReason.OUTAGE, provider.failure, left
        if not provider.admits(self._clock):
            return WaitReason.LIMIT, RATE_LIMIT, 0.0
        if model.over_budget:
            affords = self.budget.affords(name)
            return WaitReason.NOTHING if affords else WaitReason.BUDGET, "", 0.0
        if self._has_ready(model):
            return WaitReason.NOTHING, "", 0.0
        ends = (end for end, e in self._later if e in self._cells and self._cells[e].model == name)
        left = max(0.0, min(ends, default=self._clock) - self._clock)
        return WaitReason.PAUSE, provider.failure, left

    def _next(self, now: float) -> str | None:
        """The next cell that is ready, admitted by its provider and within the budget: of the model
        with the fewest at work, in turn."""
        for model in sorted(
            self._models.values(), key=lambda each: (each.running, each.last_lease)
        ):
            ready = not model.stopped and model.provider.admits(now)
            if ready and (episode := self._next_of(model)) is not None:
                return episode
        return None

    def _next_of(self, model: _ModelCells) -> str | None:
        """A model's next cell that is within the budget: first of those that were not before. If
        one is not, no other is."""
        queue = model.over_budget
        while queue and not self._is_waiting(queue[0]):
            queue.popleft()
        if queue:
            return queue.popleft() if self._pays(queue[0]) else None
        episode = self._next_ready(model)
        if episode is None or self._pays(episode):
            return episode
        queue.append(episode)
        return None

    def _next_ready(self, model: _ModelCells) -> str | None:
        """A model's next cell that waits for a worker: of those that were tried, else a new one."""
        while model.ready:
            episode = model.ready.popleft()
            if self._is_waiting(episode):
                return episode
        if (number := self._done.find(0, model.first, model.stop)) < 0:
            model.first = model.stop
            return None
        model.first = number + 1
        return self._keep(number).episode

    def _has_ready(self, model: _ModelCells) -> bool:
        fresh = self._done.find(0, model.first, model.stop) >= 0
        return fresh or any(map(self._is_waiting, model.ready))

    def _count_held(self, name: str) -> int:
        """Count the waiting cells of a model if the budget does not pay for them."""
        model = self._models[name]
        held = not model.stopped and (model.over_budget or not self.budget.affords(name))
        return model.owed - model.running if held else 0

    def _keep(self, number: int) -> Cell:
        """Compute a cell, and keep it as long as it is owed."""
        cell = self._schedule[number]
        self._cells[cell.episode], self._numbers[cell.episode] = cell, number
        return cell

    def _untried(self, episode: str) -> Cell | None:
        """An owed cell that this book has not leased: the book before it did, which was lost."""
        number = self._schedule.find(episode)
        return None if number is None or self._done[number] else self._keep(number)

    def _is_waiting(self, episode: str) -> bool:
        return episode in self._cells and episode not in self._leases

    def _pays(self, episode: str) -> bool:
        return self.budget.reserve(self._cells[episode].model, episode)

    def _begin_lease(self, episode: str, worker: str, now: float) -> None:
        self._leases[episode] = worker
        self._granted += 1
        model = self._models[self._cells[episode].model]
        model.running, model.last_lease = model.running + 1, self._granted
        model.provider.begin(episode, worker, self._cells[episode].model, now)

    def _end_lease(self, episode: str) -> None:
        del self._leases[episode]
        name = self._cells[episode].model
        self._models[name].running -= 1
        self._models[name].provider.end(episode, self._clock)
        self.budget.release(name, episode)

    def _remove(self, cell: Cell) -> None:
        """Take a cell that is owed no more out of the book."""
        del self._cells[cell.episode]
        self._done[self._numbers.pop(cell.episode)] = 1
        self._models[cell.model].owed -= 1

    def _requeue(self, episodes: Iterable[str]) -> int:
        # All costs first: the store may be away, and then they are queued again later.
        lost = [(cell, self.recount(cell)) for cell in map(self._cells.__getitem__, episodes)]
        for cell, spend in reversed(lost):
            self.budget.settle(cell.model, cell.episode, spend)
            self._end_lease(cell.episode)
            self._models[cell.model].ready.appendleft(cell.episode)
        return len(lost)

    def _fail(self, cell: Cell, outcome: LeaseOutcome, now: float) -> None:
        """Record a failed attempt. The cell waits, unless it has failed too often by itself. An
        attempt of an external agent that lost paid turns counts, whatever failed it."""
        error, model = outcome.error_class, self._models[cell.model]
        if error == RATE_WAIT:
            model.ready.appendleft(cell.episode)
            return
        model.failed[error].append(cell.episode)
        wait = asked_pause(outcome)
        if error == REFUSED_KEY and not self._rules.give_up:
            if not model.stopped:
                logger.warning("model %s is stopped: its key was refused", cell.model)
            model.stopped = True
        elif not model.provider.excuses(error) or self._rules.give_up or outcome.lost:
            self._failed[cell.episode] += 1
            failures = self._failed[cell.episode]
            named = {"cell": cell.episode}
            logger.info("a cell's attempt failed (%s), number %d", error, failures, extra=named)
            if failures >= self._rules.max_failures:
                self._remove(cell)
                model.exhausted += 1
                return
            wait = max(wait, _BACKOFF[min(failures, len(_BACKOFF)) - 1])
        if wait:
            heapq.heappush(self._later, (now + wait, cell.episode))
        else:
            model.ready.append(cell.episode)

    def _recall(self, now: float) -> None:
        """Queue again the failed cells after their pause."""
        while self._later and self._later[0][0] <= now:
            if (episode := heapq.heappop(self._later)[1]) in self._cells:
                self._models[self._cells[episode].model].ready.append(episode)


@dataclass(slots=True)
class _ModelCells:
    """Cells of one model in a lease book."""

    provider: ProviderGate
    first: int  # number from which on none was tried
    stop: int
    owed: int  # those at work included
    finished: int
    ready: deque[str] = field(default_factory=deque)  # tried before
    over_budget: deque[str] = field(default_factory=deque)
    running: int = 0
    last_lease: int = 0  # number of the lease that was granted last
    stopped: bool = False  # its key was refused
    exhausted: int = 0
    used: Consumption = field(default_factory=Consumption)
    failed: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
