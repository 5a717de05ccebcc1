"""`dosimeter pilot`: a few runs on instances of its own, over turn budgets and difficulties.

A pilot is no part of any wave, table or test. Its instances are drawn apart from the study's; its
replies are stored before they are used, so that a killed pilot resumes and pays for none twice.

Each turn budget has runs of its own. They do not follow from those with a larger one: an agent
reads the turns it has left in each result, and meets the last question at the end of its budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TypeVar

from analysis.planning import (
    StratumVariance,
    TurnScore,
    score_by_turns,
    variance_by_stratum,
)
from generators.grading import hidden_inputs
from harness.agent import read_ceiling
from harness.build_model import build_model, read_window
from harness.episode import Mode, StopReason
from harness.episodes import (
    AttemptRequest,
    grade_episode,
    run_attempt,
    summarise_episode,
)
from harness.errors import AttemptFailed, Boundary, HarnessError, WorkStopped
from harness.external_agents import AgentServer
from harness.model import Model, close_model
from harness.sandboxes import LocalSandboxes, SandboxProvider
from harness.spending import Account, CallKind, PricedModel, ReplyStore
from harness.storage import PILOTS
from registry.ledger import ModelPin
from study.protocol import Protocol
from study.sweeps.pilot_plan import (
    PilotCell,
    PilotRequest,
    most_requests,
    pilot_cells,
    pilot_pins,
    pilot_tasks,
)
from study.sweeps.pilot_runs import PILOT_CODEC, PilotRun, read_runs, table_of
from study.sweeps.spending import (
    OVER_BUDGET,
    Caller,
    CallResult,
    CallTotals,
    lock_budget,
    open_budget,
    price_pins,
    sum_calls,
)
from study.sweeps.sweep import check_single_turns
from study.workspace import Study, Watch, draw_pilot, pinned_image

N = TypeVar("N", int, float)

_NO_WAVE = -1  # in the results of a pilot
_WARM = 16  # containers kept ready, at most


@dataclass(frozen=True, slots=True)
class PilotModel:
    """A model's runs and their cost. Tokens and USD are sums over its finished runs, None if
    unknown; ``calls`` counts this call's episodes and their cost."""

    model: str
    free: bool
    owed: int
    done: int
    input_tokens: int | None
    output_tokens: int | None
    usd: float | None
    calls: CallTotals

    @property
    def usd_of_run(self) -> float | None:
        """Mean cost of a finished run; None if it is unknown."""
        return self.usd / self.done if self.usd is not None and self.done else None


@dataclass(frozen=True, slots=True)
class PilotOutcome:
    """Results of a pilot so far. ``variance`` is that of runs with the tasks' own turns."""

    scores: tuple[TurnScore, ...]
    limits: Mapping[str, int]  # the tasks' own turns, by stratum
    variance: tuple[StratumVariance, ...]
    models: tuple[PilotModel, ...]
    skipped: tuple[tuple[str, str], ...]  # models that are not run, and why
    accounts: tuple[Account, ...]

    @property
    def complete(self) -> bool:
        """True if nothing more is owed."""
        return all(model.done == model.owed for model in self.models)

    @property
    def over_budget(self) -> bool:
        """True if the budget does not pay for the rest."""
        return any(OVER_BUDGET in dict(model.calls.failures) for model in self.models)


def run_pilot(
    study: Study, request: PilotRequest, watch: Watch, now: Callable[[], str]
) -> PilotOutcome:
    """Run the episodes that a pilot still owes, as far as the budget goes, and return the results
    of all. After a kill at any moment, the next call resumes. Raises StudyError for models, tasks
    or budgets that cannot be run; RegistryError, HarnessError."""
    pins, skipped = pilot_pins(study, request)
    tasks = pilot_tasks(study, request)
    check_single_turns(pins, [each.task for each in tasks], study.protocol.catalog)
    most = most_requests(tasks)
    pricing = price_pins(study, pins, request.allow_unknown_price, turns=most)
    with ExitStack() as stack:
        folder = str(study.folder.resolve())
        models = [_build(pin, folder) for pin in pins]
        for model in models:
            stack.callback(close_model, model)
        lock_budget(study, (), stack)
        instances = draw_pilot(study, [each.task for each in tasks], request.instances, watch)
        cells = [tuple(pilot_cells(study, pin, tasks, instances, request.runs)) for pin in pins]
        stored = frozenset(study.store.list(PILOTS))
        finished = {each.cell.episode for each in chain(*cells) if each.key in stored}
        budget = open_budget(
            study, None, pricing, CallKind.PILOT, pins, lambda charge: charge.subject in finished
        )
        owed = [[each for each in planned if each.key not in stored] for planned in cells]
        begun, total = 0, sum(map(len, owed))
        sandboxes = (
            open_sandboxes(study.protocol, request.parallel, watch) if total else LocalSandboxes()
        )
        stack.callback(sandboxes.close)
        totals = []
        for pin, model, priced, now_owed in zip(pins, models, pricing.models, owed, strict=True):
            caller = Caller(study, CallKind.PILOT, pin, None, priced.price, budget)
            runner = _Runner(caller, pin, model, priced, most, sandboxes, now)
            show = partial(_show, watch, pin.name, begun, total)
            totals.append(runner.run_all(now_owed, request.parallel, show))
            begun += len(now_owed)
    runs = [read_runs(study, [each.key for each in planned]) for planned in cells]
    every = list(chain(*runs))
    return PilotOutcome(
        scores=score_by_turns((run.turns, run.result) for run in every),
        limits={each.task.stratum: each.limit for each in tasks},
        variance=_variance(study, every, [each.task.stratum for each in tasks]),
        models=tuple(
            _model_outcome(priced, len(planned), own, calls)
            for priced, planned, own, calls in zip(pricing.models, cells, runs, totals, strict=True)
        ),
        skipped=skipped,
        accounts=budget.accounts() if budget is not None else (),
    )


def _show(watch: Watch, model: str, begun: int, total: int, done: int) -> None:
    """Report the progress of one model as a part of the whole."""
    watch(f"pilot of {model}", begun + done, total)


def _build(pin: ModelPin, folder: str) -> Model:
    model = build_model(pin, folder=folder)
    if isinstance(model, AgentServer):  # _pins has left these out
        raise HarnessError(f"model {pin.name!r}: no turn budget binds it")
    return model


def open_sandboxes(protocol: Protocol, parallel: int, watch: Watch) -> SandboxProvider:
    """Open the sandboxes of a study on this machine. Raises HarnessError without an engine or the
    image."""
    section = protocol.sandbox
    if section.kind == "local":
        return LocalSandboxes()
    from harness.sandboxes.docker import DockerSandboxes

    return DockerSandboxes(
        pinned_image(protocol, watch).tag,
        runtime=section.runtime,
        warm=min(parallel, _WARM),
        creating=section.creating or 0,
        executing=section.executing or 0,
        memory_bytes=int(1e9 * (section.memory_gb or 0)),
        run="pilot",
    )


@dataclass(frozen=True, slots=True)
class _Runner:
    """Runs the episodes of one model. The bound of its price is for ``most`` requests."""

    caller: Caller
    pin: ModelPin
    model: Model
    priced: PricedModel
    most: int
    sandboxes: SandboxProvider
    now: Callable[[], str]

    def run_all(
        self, owed: Sequence[PilotCell], parallel: int, show: Callable[[int], None]
    ) -> CallTotals:
        """Run episodes, several at once, until the budget is spent or the provider fails for
        good. ``show`` receives the number that was tried."""
        results: list[CallResult] = []
        for result in self.caller.call_each(self._run, owed, parallel):
            results.append(result)
            show(len(results))
        return sum_calls(results, self.priced.price is None and not self.priced.free)

    def _run(self, each: PilotCell) -> CallResult:
        bound = self.priced.bound
        if bound is not None:
            bound = bound * each.requests / self.most
        return self.caller.pay(each.cell.episode, bound, partial(self._attempt, each))

    def _attempt(self, each: PilotCell, replies: ReplyStore) -> None:
        """Run an episode, grade it and store its result. Raises AttemptFailed."""
        cell, price, study = each.cell, self.priced.price, self.caller.study
        family = study.protocol.catalog.family(cell.spec.family, cell.spec.version)
        instance = family.generate(cell.spec.difficulty, cell.seed)
        once = cell.mode is Mode.SINGLE_TURN
        limits = replace(instance.brief.limits, turns=each.turns)
        attempt = AttemptRequest(
            cell,
            1,
            instance.brief if once else replace(instance.brief, limits=limits),
            run="",
            journal=replies.pilot(self.caller.stop.is_set),
            ceiling=read_ceiling(self.pin, None if price is None else price.cost),
            window=read_window(self.pin) if once else None,
            hidden_inputs=hidden_inputs(instance.rubric),
        )
        try:
            episode = run_attempt(attempt, self.model, self.sandboxes, self.now)
        except WorkStopped:
            raise AttemptFailed(Boundary.WORKER, "stopped") from None
        if episode.stop is StopReason.FAILED:
            boundary, _, error_class = episode.error_class.partition(":")
            raise AttemptFailed(Boundary(boundary), error_class)
        grade = grade_episode(instance, episode)
        result = summarise_episode(_NO_WAVE, cell, episode, grade, 1, price)
        run = PilotRun(cell.spec.version, each.turns, each.limit, result)
        PILOT_CODEC.write(study.store, each.key, run, study.keys())


def _variance(
    study: Study, runs: Iterable[PilotRun], strata: Sequence[str]
) -> tuple[StratumVariance, ...]:
    """Return how the scores of runs with the tasks' own turns vary."""
    whole = [run for run in runs if run.turns == run.limit]
    if not whole:
        return ()
    outcomes = study.protocol.registered_plan().outcomes
    return variance_by_stratum(table_of(whole), outcomes, strata)


def _model_outcome(
    priced: PricedModel, owed: int, runs: Sequence[PilotRun], calls: CallTotals
) -> PilotModel:
    results = [run.result for run in runs]
    return PilotModel(
        priced.name,
        priced.free,
        owed,
        len(runs),
        _sum([result.input_tokens for result in results]),
        _sum([result.output_tokens for result in results]),
        _sum([result.cost_usd for result in results]),
        calls,
    )


def _sum(values: Sequence[N | None]) -> N | None:
    """Return the sum; None if a value is unknown, or there is none."""
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(values) else None
