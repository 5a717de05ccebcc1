"""Running one cell: an ordinary function, independent of Ray."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count

from generators.catalog import Catalog
from generators.grading.programs import hidden_inputs
from generators.task import TaskInstance
from harness.agent.agent import Agent
from harness.build_model import read_window
from harness.episode import Cell, Episode, Mode, StopReason
from harness.episodes.grading import grade_episode
from harness.episodes.result import RESULT_CODEC, summarise_episode
from harness.episodes.rollout import AttemptRequest, resumes, run_attempt
from harness.errors import AttemptFailed, Boundary, HarnessError, RateWait, name_error
from harness.logs import CELL
from harness.model import Reply, Try, Usage
from harness.models.providers.retry import RETRIED
from harness.spending.budget import Budget, PricedModel, Spend
from harness.spending.purchases import Journal, inherited_replies, read_episode_spends
from harness.storage import (
    EPISODE_CODEC,
    attempt_key,
    attempted_names,
    hex_of,
    put_signed,
    replied_names,
    result_key,
)
from harness.sweep.governor import KILLED, RATE_WAIT, Consumption, LeaseOutcome, is_provider_failure
from harness.sweep.purchases import Purchases
from harness.sweep.schedule import Schedule
from harness.sweep.workbench import RunContext, Workbench, instance_of
from registry.errors import RegistryError
from registry.ledger.begun import BegunList
from registry.sealing import Keys
from registry.stores.base import Store

_LONGEST_PAUSE = 10.0  # seconds that an attempt waits at its provider's request
CONGESTION = frozenset(("rate_limit", "overload"))  # classes of a request, for which rates fall


def run_cell(cell: Cell, bench: Workbench, now: Callable[[], str]) -> LeaseOutcome:
    """Bring one cell forward: run the next attempt it needs, or finish what a crash left.

    Safe to run any number of times, anywhere, at once: attempts and results are written
    put-if-absent under names that follow from the cell. The result is held if the workbench holds
    results: lost with its process, it is made again from the attempt. Waits while the store is
    away. Raises
    BrokenPromise, HarnessError and StoreError: replies that cannot be stored must not be bought.
    Any other failure is a LeaseOutcome that is not finished, with class and place of an unexpected
    error only.
    """
    CELL.set(cell.episode)
    try:
        bench.recover()  # replies of this cell too, if a process died with them
        outcome = _advance(cell, bench, now)
    except RateWait:
        outcome = LeaseOutcome(cell.episode, False, RATE_WAIT)
    except (HarnessError, RegistryError):
        raise
    except Exception as bug:
        outcome = LeaseOutcome(cell.episode, False, f"{Boundary.WORKER}:{name_error(bug)}")
    return replace(outcome, spend=count_spend(cell, bench.store, bench.context))


def count_spend(cell: Cell, store: Store, context: RunContext) -> Spend | None:
    """Return the cost of a cell so far, read from the store; None without a budget, or if the
    price is unknown. Raises RegistryError."""
    if context.limits is None:
        return None
    spends = read_episode_spends(store, context.keys_of, [cell], context.priced)
    return next((spend for _, spend in spends), None)


def _advance(cell: Cell, bench: Workbench, now: Callable[[], str]) -> LeaseOutcome:
    if bench.store.exists(result_key(cell.episode)):
        return LeaseOutcome(cell.episode, finished=True)
    instance = instance_of(cell, bench.catalog)
    attempts = list(_read_attempts(cell, bench.store, bench.context))
    traffic = _Traffic()
    if not attempts or attempts[-1].stop is StopReason.FAILED:
        number, inherited = len(attempts) + 1, inherited_replies(attempts)
        episode, journal = _run_attempt(cell, instance, number, inherited, bench, traffic, now)
        keys = bench.context.keys_of(cell)
        if not _put_attempt(bench.store, keys, episode, bench.begun):
            return _advance(cell, bench, now)  # another worker was first: go on from its attempt
        bench.store.delete(journal)
        attempts.append(episode)
        if not traffic.usages:  # replies that cost nothing are in no journal
            own = enumerate(step.reply.usage for step in episode.steps)
            traffic.usages.update((turn, usage) for turn, usage in own if turn >= len(inherited))
    if finished := attempts[-1].stop is not StopReason.FAILED:
        bench.keep_result(cell.episode, _seal_result(cell, instance, attempts, bench.context))
    error = attempts[-1].error_class
    return LeaseOutcome(
        cell.episode,
        finished,
        error,
        replies=traffic.replies,
        wait=traffic.wait if is_provider_failure(error) else 0.0,
        lost=0 if finished else max(0, len(attempts[-1].steps) - attempts[-1].replies),
        used=traffic.used(bench.context.priced.get(cell.model)),
    )


@dataclass(slots=True)
class _Traffic:
    """What an attempt had of its provider."""

    replies: int = 0
    wait: float = 0.0  # seconds that the last failed request was asked to wait
    refused: bool = False  # whether the journal saw a refusal for the rate, or for overload
    usages: dict[int, Usage] = field(default_factory=dict)  # of its own turns
    failed: list[Usage] = field(default_factory=list)  # of failed requests that were billed

    def used(self, model: PricedModel | None) -> Consumption:
        """What the attempt used, at the model's price."""
        return Consumption.of((*self.usages.values(), *self.failed), model)


@dataclass(frozen=True, slots=True)
class _SweepJournal:
    """The journal of an attempt in a sweep. It counts the attempt's traffic, and ends the attempt
    where the provider asks for a pause of more than ``longest_pause`` seconds: the cell waits in
    the lease book, and holds neither this worker nor a sandbox."""

    journal: Journal
    traffic: _Traffic
    longest_pause: float
    inherited: int  # turns with replies that earlier attempts paid for
    model: str
    purchases: Purchases

    def admit(self) -> None:
        """Wait until a request may be sent. Raises WorkStopped, and RateWait rather than to wait
        for long, if the attempt can go on elsewhere."""
        self.purchases.admit(self.model, math.isinf(self.longest_pause))

    def load(self, turn: int) -> Reply | None:
        """Return the reply to a turn, if any."""
        reply = self.journal.load(turn)
        if reply is not None and turn >= self.inherited:
            self.traffic.usages[turn] = reply.usage
        return reply

    def save(self, turn: int, reply: Reply) -> Reply:
        """Keep a reply. Returns the one that counts."""
        self.traffic.replies += 1
        self.traffic.usages[turn] = reply.usage
        self.purchases.use(self.model, reply.usage.tokens)
        return self.journal.save(turn, reply)

    def keep_failed(self, turn: int, failed: Try) -> None:
        """Keep a failed request. Raises AttemptFailed after one that asks for a long pause."""
        self.journal.keep_failed(turn, failed)
        self.purchases.use(self.model, failed.usage.tokens)
        self.traffic.failed += [failed.usage] if failed.usage.tokens else []
        if failed.kind in CONGESTION:
            self.purchases.refuse(self.model)
            self.traffic.refused = True
        self.traffic.wait = failed.wait or 0.0
        if failed.kind in RETRIED and self.traffic.wait > self.longest_pause:
            raise AttemptFailed(Boundary.PROVIDER, failed.kind, "it asks for a long pause")


def open_budget(
    cells: Schedule, finished: bytes | bytearray, store: Store, context: RunContext
) -> Budget | None:
    """Return the budget of a run, with the cost of its cells so far, of which ``finished`` has a
    byte each, 1 for those with a result; None if the run has no limits. Raises HarnessError if the
    limits cannot be enforced, RegistryError."""
    if context.limits is None:
        return None
    place = context.store, str(context.plan.wave)
    budget = Budget(context.limits, context.prices, context.allow_unknown_price, place)
    for model, spent in context.spent_elsewhere:
        budget.charge(model, spent)
    begun = cells.marks(chain(replied_names(store), attempted_names(store)))
    for done in (1, 0):
        own = (cells[n] for n in range(len(cells)) if begun[n] and finished[n] == done)
        for cell, spend in read_episode_spends(store, context.keys_of, own, context.priced):
            if spend.usd or spend.unknown:
                budget.settle(cell.model, cell.episode, spend, bool(done))
    return budget


def keep_killed(
    cell: Cell, store: Store, context: RunContext, begun: BegunList, now: Callable[[], str]
) -> None:
    """Store a failed attempt at a cell whose worker process was killed as often as is allowed,
    since that process stored none: the next attempt inherits its paid replies, and the wave can be
    closed with the cell missing. Raises RegistryError."""
    attempts = list(_read_attempts(cell, store, context))
    last = attempts[-1] if attempts else None
    if last is not None and (last.stop is not StopReason.FAILED or last.error_class == KILLED):
        return
    number, inherited = len(attempts) + 1, inherited_replies(attempts)
    keys = context.keys_of(cell)
    journal = context.replies(cell, store).attempt(number, inherited)
    paid = next(n for n in count() if not journal.load(n))
    episode = Episode(
        id=cell.episode,
        instance=cell.instance,
        run=context.run,
        model=cell.model,
        replicate=cell.replicate,
        attempt=number,
        stop=StopReason.FAILED,
        started=now(),
        error_class=KILLED,
        # A program starts from the beginning, so it inherits none.
        replies=0 if "agent" in dict(context.pin(cell.model).settings) else paid,
        inherited=len(inherited),
    )
    episode, names = journal.fold(episode)
    begun.begin(hex_of(cell.episode), number)
    if _put_attempt(store, keys, episode, begun):
        store.delete(names)


def _put_attempt(store: Store, keys: Keys, episode: Episode, begun: BegunList | None) -> bool:
    """Store an attempt, after its end is on the list of those begun; False if another worker was
    first. Raises RegistryError."""
    key = attempt_key(episode.id, episode.attempt)
    sealed = keys.seal(key, EPISODE_CODEC.encode(episode))
    try:
        if begun is not None:
            begun.end(hex_of(episode.id), episode.attempt, sealed)
    finally:  # a process that is stopped leaves both in its outbox
        written = put_signed(store, key, sealed, keys)
    return written


def close_cell(cell: Cell, store: Store, context: RunContext, catalog: Catalog) -> None:
    """Record a cell by its last attempt, in the place of a result that was not sealed by the cell's
    key. Raises HarnessError if it had no attempt."""
    if not (attempts := list(_read_attempts(cell, store, context))):
        raise HarnessError("a cell that was never tried cannot be closed; sweep the wave again")
    instance = instance_of(cell, catalog)
    sealed = _seal_result(cell, instance, attempts, context)
    put_signed(store, result_key(cell.episode), sealed, context.keys_of(cell))


def _run_attempt(
    cell: Cell,
    instance: TaskInstance,
    attempt: int,
    inherited: tuple[Reply, ...],
    bench: Workbench,
    traffic: _Traffic,
    now: Callable[[], str],
) -> tuple[Episode, tuple[str, ...]]:
    """Return an attempt with its journal, and the names of the journal's objects."""
    context = bench.context
    pin = context.pin(cell.model)
    if bench.begun is not None:
        bench.begun.begin(hex_of(cell.episode), attempt)
    journal = context.replies(cell, bench.store).attempt(attempt, inherited)
    model = bench.models[cell.model]
    # One that starts again from the beginning would pay for its replies again.
    longest_pause = _LONGEST_PAUSE if resumes(model) else math.inf
    episode = run_attempt(
        AttemptRequest(
            cell,
            attempt,
            instance.brief,
            run=context.run,
            journal=_SweepJournal(
                journal, traffic, longest_pause, len(inherited), cell.model, bench.purchases
            ),
            inherited=len(inherited),
            ceiling=context.ceiling(cell.model),
            window=read_window(pin) if cell.mode is Mode.SINGLE_TURN else None,
            hidden_inputs=hidden_inputs(instance.rubric),
            verifier=instance.truth.verifier,
        ),
        model,
        bench.sandboxes,
        now,
    )
    kind = episode.error_class.removeprefix(f"{Boundary.PROVIDER}:")
    if isinstance(model, Agent) and kind in CONGESTION and not traffic.refused:
        bench.purchases.refuse(cell.model)  # of a request that the journal has not seen
    return journal.fold(episode)


def _read_attempts(cell: Cell, store: Store, context: RunContext) -> Iterator[Episode]:
    """The stored attempts in order: all but the last have failed."""
    for attempt in count(1):
        key = attempt_key(cell.episode, attempt)
        if (stored := EPISODE_CODEC.find(store, key, context.keys_of(cell))) is None:
            return
        yield stored
        if stored.stop is not StopReason.FAILED:
            return


def _seal_result(
    cell: Cell, instance: TaskInstance, attempts: Sequence[Episode], context: RunContext
) -> bytes:
    """Return the sealed result of a cell, by the last of its attempts."""
    grade, price = grade_episode(instance, attempts[-1]), context.price(cell.model)
    result = summarise_episode(context.plan.wave, cell, attempts[-1], grade, len(attempts), price)
    return context.keys_of(cell).seal(result_key(cell.episode), RESULT_CODEC.encode(result))
