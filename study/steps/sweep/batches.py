"""Purchase of replies in batches. Those of single-turn episodes are bought before the sweep, which
finds them in the store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from harness.agent.single_turn import turn_request
from harness.build_model import build_plain_model, read_window
from harness.episode import Cell, Mode
from harness.episodes.rollout import model_seed
from harness.errors import AttemptFailed, HarnessError, WorkStopped
from harness.model import ModelRequest, close_model
from harness.models.providers.batch import batch_service
from harness.spending.batches import (
    BatchDesk,
    BatchOutcome,
    batch_bound,
    provider_model,
    uses_batches,
)
from harness.spending.budget import Budget
from harness.spending.purchases import Journal, Payer
from harness.storage import EPISODE_CODEC, attempt_key, hex_of
from harness.sweep.epochs import Pulse
from harness.sweep.leases import SweepOrder
from harness.sweep.run_cell import open_budget
from harness.sweep.workbench import RunContext, instance_of
from registry.errors import RegistryError
from registry.ledger.records import ModelPin
from study.errors import StudyError
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study

_LOOK_SECONDS = 1.0  # between two looks at the epoch while the store takes no heartbeat


def buy_single_turns(study: Study, context: RunContext, begin: Callable[[str], None]) -> None:
    """Buy, in batches, a reply for each owed single-turn cell of the models with ``batch: true``.
    After a kill at any moment, the next call goes on with the batches that were submitted. It holds
    an epoch of the run meanwhile, so that of two drivers only one buys.

    Raises StudyError if a batch cannot be bought now, WorkStopped, SweptElsewhere, HarnessError,
    RegistryError.
    """
    pins = [pin for pin in context.models if uses_batches(pin)]
    if not pins or not context.single_turn:
        return
    with _epoch(context, begin) as refused:
        snapshot = take_snapshot(study).waves[context.wave]
        owed = [cell for cell in snapshot.owed_cells() if cell.mode is Mode.SINGLE_TURN]
        budget = open_budget(snapshot.cells, snapshot.finished, study.store, context)
        for pin in pins:
            if cells := [cell for cell in owed if cell.model == pin.name]:
                begin(
                    f"buying {len(cells)} episodes of {pin.name} in batches, which may take a day"
                )
                _buy(study, context, pin, cells, budget, refused)


@contextmanager
def _epoch(context: RunContext, begin: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
    """Open an epoch of the run for this process, and end it at the end. Yield a function that waits
    until a batch may be submitted, and returns True if none may be any more. Raises WorkStopped at
    the end if an operator stopped the sweep."""
    number = context.epochs.open(lambda host: begin(waiting_words(host)))
    pulse = Pulse(context.epochs, number, lambda: None)

    def refused() -> bool:
        while not pulse.alive and pulse.asked is not SweepOrder.STOP:
            time.sleep(_LOOK_SECONDS)
        return pulse.asked is SweepOrder.STOP

    failure = ""
    try:
        yield refused
        if pulse.asked is SweepOrder.STOP:
            raise WorkStopped("the sweep was stopped after its batches: run this again to go on")
    except BaseException as error:
        explained = isinstance(error, (HarnessError, RegistryError, StudyError))
        failure = str(error) if explained else type(error).__name__
        raise
    finally:
        pulse.close(failure)


def waiting_words(host: str) -> str:
    """Return what a sweep does while it watches the heartbeat of an earlier driver."""
    return f"waiting to see if the sweep on {host} is still at work"


def buy_batches(
    desk: BatchDesk, requests: Mapping[str, ModelRequest], journals: Mapping[str, Journal]
) -> dict[str, BatchOutcome]:
    """Buy requests by name and store the replies in their journals. Raises StudyError if the
    provider does not take a batch or cannot be reached; HarnessError, RegistryError."""
    try:
        return desk.buy(requests, journals.__getitem__)
    except AttemptFailed as failed:
        raise StudyError(
            f"model {desk.payer.name!r}: its batches cannot be bought now ({failed}): run this "
            "again; what was submitted is found again and not paid for twice"
        ) from None


def _buy(
    study: Study,
    context: RunContext,
    pin: ModelPin,
    cells: Iterable[Cell],
    budget: Budget | None,
    refused: Callable[[], bool],
) -> None:
    """Buy the replies of a model's cells that have none."""
    payer, price = Payer.of(pin), context.price(pin.name)
    window = read_window(pin)
    journals: dict[str, Journal] = {}
    requests: dict[str, ModelRequest] = {}
    for cell in cells:
        attempt = _next_attempt(cell, study, context)
        journal = context.replies(cell, study.store).attempt(attempt)
        if attempt and journal.load(0) is None:
            brief = instance_of(cell, study.protocol.catalog).brief
            name = hex_of(cell.episode)
            journals[name] = journal
            requests[name] = turn_request(brief, window, model_seed(cell, attempt))
    model = build_plain_model(pin, folder=context.folder)
    try:
        served = provider_model(model)
        desk = BatchDesk(
            study.store,
            payer,
            f"episode-{context.wave:04d}",
            served,
            batch_service(served),
            keys=context.run_keys,
            budget=budget,
            price=price,
            bound=batch_bound(pin, price, budget),
            refused=refused,
        )
        buy_batches(desk, requests, journals)
    finally:
        close_model(model)


def _next_attempt(cell: Cell, study: Study, context: RunContext) -> int:
    """Return the number of the next attempt at a cell; 0 if that inherits a reply."""
    attempt = 1
    while True:
        key = attempt_key(cell.episode, attempt)
        stored = EPISODE_CODEC.find(study.store, key, context.keys_of(cell))
        if stored is None:
            return attempt
        if stored.replies:
            return 0
        attempt += 1
