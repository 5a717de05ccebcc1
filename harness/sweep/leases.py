"""The cells that a wave owes, in an order blind to the arms, and leases over those of one run.

Pure bookkeeping; the clock is passed in. A lost lease book is rebuilt from the store, so nothing
here needs to survive: exactly-once comes from the names of the results, not from leases.
"""

from __future__ import annotations

import heapq
import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from generators.seed import Seed
from generators.task import TaskSpec
from harness.episode import Cell, Mode
from harness.spending import Account, Budget, Spend
from registry.canonical import digest_value
from registry.ledger import ModelPin, record_body

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WaveInstance:
    """An instance that a wave runs, without its arm."""

    spec: TaskSpec
    instance: str = field(repr=False)
    seed: Seed = field(repr=False)
    tranche: int = 0


def episode_id(
    study: str, wave: int, instance: str, model: ModelPin, replicate: int, mode: Mode
) -> str:
    """The digest of what defines an episode. Unguessable, as the instance's id is."""
    return digest_value(
        {
            "study": study,
            "wave": wave,
            "instance": instance,
            "model": record_body(model),
            "replicate": replicate,
            "mode": str(mode),
        }
    )


def schedule_cells(
    study: str,
    wave: int,
    subjects: Iterable[WaveInstance],
    models: Iterable[ModelPin],
    replicates: Sequence[int],
    order: Seed,
    tranches: Sequence[Collection[int]] = (),
    single_turn: Collection[str] = (),
) -> tuple[Cell, ...]:
    """Every cell of the wave, shuffled by a recorded stream, which interleaves the arms.

    ``replicates`` are the runs of each of the models on an instance, and ``tranches`` those that
    each runs; () is the panel, 0, for all of them. ``single_turn`` names the strata that are given
    in a single turn.
    """
    pins = tuple(models)
    runs = list(zip(pins, replicates, tranches or ((0,),) * len(pins), strict=True))
    cells = [
        Cell(
            episode=episode_id(study, wave, subject.instance, pin, replicate, mode),
            spec=subject.spec,
            instance=subject.instance,
            seed=subject.seed,
            model=pin.name,
            replicate=replicate,
            mode=mode,
        )
        for subject in subjects
        for mode in (Mode.SINGLE_TURN if subject.spec.stratum in single_turn else Mode.AGENTIC,)
        for pin, count, pin_tranches in runs
        if subject.tranche in pin_tranches
        for replicate in range(count)
    ]
    return order.child("schedule", wave).rng().shuffle(cells)


# Seconds before a failed cell is tried again, by the number of its failures so far.
_BACKOFF = (1.0, 5.0, 20.0)


@dataclass(frozen=True, slots=True)
class LeaseOutcome:
    """Outcome of one lease, without content: ids and an error class only."""

    episode: str
    finished: bool
    error_class: str = ""
    spend: Spend | None = None  # on the cell so far, if there is a budget


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
    failing: tuple[tuple[str, str, int], ...] = ()  # model, error class, how often

    @property
    def done(self) -> bool:
        """True if every cell is finished or exhausted."""
        return self.finished + self.exhausted >= self.owed


class LeaseBook:
    """The owed cells of a run, those at work, and those to be tried again."""

    def __init__(
        self,
        cells: Iterable[Cell],
        finished: frozenset[str],
        silence_seconds: float,
        max_failures: int = 3,
        budget: Budget | None = None,
        recount: Callable[[Cell], Spend] | None = None,
        batched: Collection[str] = (),
    ) -> None:
        """Open the book over the cells that have no result yet, in the order given. A worker loses
        its leases after ``silence_seconds`` without a heartbeat. With a budget, a cell is leased
        only if that pays for it; ``recount`` reads the cost of a cell from the store. Replies of
        single turns of the ``batched`` models were paid for before the run."""
        every = tuple(cells)
        self._cells = {cell.episode: cell for cell in every if cell.episode not in finished}
        self._owed, self.finished = len(every), len(every) - len(self._cells)
        self._silence_seconds, self._max_failures = silence_seconds, max_failures
        self.budget, self.recount = budget, recount
        self._batched = frozenset(batched)
        self._ready = deque(self._cells)
        self._later: list[tuple[float, str]] = []
        self._leases: dict[str, str] = {}  # episode → worker
        self._heartbeats: dict[str, float] = {}  # worker → time of the last
        self._failed: Counter[str] = Counter()
        self._classes: Counter[tuple[str, str]] = Counter()  # by model and error class
        self._exhausted = 0
        self._over_budget: dict[str, deque[str]] = {}  # by model

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
        while len(taken) < count and (episode := self._next()) is not None:
            self._leases[episode] = worker
            taken.append(self._cells[episode])
        return tuple(taken)

    def stalled(self) -> bool:
        """Return True if no cell is leased and the budget pays for none that waits. To be called
        after ``lease`` returned none."""
        if self.budget is None or self._leases or self._ready or not self._cells:
            return False
        waiting = (self._cells[episode].model for _, episode in self._later)
        return not any(map(self.budget.affords, waiting))

    def report(self, worker: str, outcomes: Iterable[LeaseOutcome], now: float) -> None:
        """Record a worker's outcomes. A late outcome of a lease that was passed on counts too,
        once: the result is in the store."""
        self.hear(worker, now)
        for outcome in outcomes:
            holder = self._leases.get(outcome.episode)
            self._settle(outcome)
            if holder is not None and (outcome.finished or holder == worker):
                self._end_lease(outcome.episode)
            if outcome.episode not in self._cells:
                continue
            if outcome.finished:
                del self._cells[outcome.episode]
                self.finished += 1
            elif holder == worker:
                self._fail(outcome, now)

    def hear(self, worker: str, now: float) -> None:
        """Record a heartbeat of a worker."""
        self._heartbeats[worker] = now

    def release(self, worker: str) -> int:
        """Take back the leases of a dead worker and return how many there were."""
        return self._requeue(
            episode for episode, holder in self._leases.items() if holder == worker
        )

    def progress(self) -> Progress:
        """Count the cells by state."""
        classes: Counter[str] = Counter()
        for (_, error_class), times in self._classes.items():
            classes[error_class] += times
        return Progress(
            owed=self._owed,
            finished=self.finished,
            leased=len(self._leases),
            waiting=len(self._cells) - len(self._leases),
            exhausted=self._exhausted,
            failures=tuple(sorted(classes.items())),
            held=sum(map(len, self._over_budget.values())),
            accounts=() if self.budget is None else self.budget.accounts(),
            failing=tuple((*key, times) for key, times in sorted(self._classes.items())),
        )

    def _next(self) -> str | None:
        """The next cell that is ready and within the budget: first of those that were not
        before."""
        for queue in self._over_budget.values():
            while queue and not self._is_waiting(queue[0]):
                queue.popleft()
            if queue and self._pays(queue[0]):
                return queue.popleft()
        while self._ready:
            episode = self._ready.popleft()
            if not self._is_waiting(episode):
                continue
            if self._pays(episode):
                return episode
            self._over_budget.setdefault(self._cells[episode].model, deque()).append(episode)
        return None

    def _is_waiting(self, episode: str) -> bool:
        return episode in self._cells and episode not in self._leases

    def _pays(self, episode: str) -> bool:
        if self.budget is None:
            return True
        cell = self._cells[episode]
        batched = cell.model in self._batched and cell.mode is Mode.SINGLE_TURN
        paid = batched and self.budget.has_paid(cell.model, episode)
        return self.budget.reserve(cell.model, episode, Decimal() if paid else None)

    def _settle(self, outcome: LeaseOutcome) -> None:
        cell = self._cells.get(outcome.episode)
        if self.budget is not None and cell is not None and outcome.spend is not None:
            self.budget.settle(cell.model, cell.episode, outcome.spend, outcome.finished)

    def _end_lease(self, episode: str) -> None:
        del self._leases[episode]
        if self.budget is not None and episode in self._cells:
            self.budget.release(self._cells[episode].model, episode)

    def _requeue(self, episodes: Iterable[str]) -> int:
        lost = tuple(episodes)
        for episode in lost:
            if self.budget is not None and self.recount is not None and episode in self._cells:
                cell = self._cells[episode]
                self.budget.settle(cell.model, episode, self.recount(cell))
            self._end_lease(episode)
        self._ready.extendleft(reversed(lost))
        return len(lost)

    def _fail(self, outcome: LeaseOutcome, now: float) -> None:
        self._failed[outcome.episode] += 1
        self._classes[self._cells[outcome.episode].model, outcome.error_class] += 1
        failures = self._failed[outcome.episode]
        logger.info("an attempt failed (%s), number %d of its cell", outcome.error_class, failures)
        if failures >= self._max_failures:
            del self._cells[outcome.episode]
            self._exhausted += 1
        else:
            delay = _BACKOFF[min(failures, len(_BACKOFF)) - 1]
            heapq.heappush(self._later, (now + delay, outcome.episode))

    def _recall(self, now: float) -> None:
        """Queue again the failed cells after their pause, and the leases of silent workers."""
        while self._later and self._later[0][0] <= now:
            self._ready.append(heapq.heappop(self._later)[1])
        silent = [
            worker
            for worker, last in self._heartbeats.items()
            if now - last > self._silence_seconds
        ]
        for worker in silent:
            del self._heartbeats[worker]
            lost = self.release(worker)
            logger.warning("worker %s is silent: %d leases lost", worker, lost)
