"""Estimates of the tokens and cost that a wave still takes, as intervals: its episodes, their
grading by judges, and the regrading of the first wave.

The intervals come from pilots. A pilot is a finished episode of the same model in any wave, or of
another model if the caller names one; for a judge, an episode that it has graded. Its tokens are
those of every paid reply, of failed attempts too. The interval is for the owed work: a t interval
for a sum of future draws, by stratum, which covers both the error of the mean and the scatter of
single episodes; replicates of an instance are taken as dependent. With fewer than two pilots there
are bounds only: from a model's limits, and for a judge from an example of each stratum."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from itertools import chain
from statistics import fmean, variance
from types import MappingProxyType
from typing import Any

from analysis.plan.presets import control_models
from generators.catalog import Catalog
from harness.agent.single_turn import estimate_text
from harness.episode import Cell, Mode
from harness.judge.judge import MAX_CHARS, TRIES, Submission, call_texts, chunks_of, questions_of
from harness.model import Usage
from harness.spending.budget import PricedModel
from harness.spending.prices import Price, total_cost
from harness.spending.purchases import CallKind, read_episode_usages, read_paid_calls
from harness.storage import JUDGE_CALLS
from registry.ledger.records import JudgePin, ModelPin, record_digest
from study.errors import StudyError
from study.extras.judge.records import FIRST, archived_cells, graded_by, judge_pin
from study.protocol.protocol import Protocol, Task
from study.steps.sweep.spending import Pricing, attempt_turns, example_of, price_pins
from study.workspace.snapshot import StudySnapshot, WaveSnapshot, take_snapshot
from study.workspace.study import Study

LEVEL = 0.9
MOST_PILOTS = 1000  # of one model and wave that are read
REPLY = 60  # typical tokens of a verdict with its evidence
_BYTES = 4  # the most of a character
QUANTITIES = ("input_tokens", "cached_tokens", "output_tokens", "cost_usd")
BOUNDS, OWN, FREE = "bounds", "pilots", "free"


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval of a quantity. ``high`` is None if it is unbounded, ``mean`` if it is unknown."""

    low: float
    mean: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """The estimate of the episodes that a model, or a judge, owes. A quantity is None if it is
    unknown, as is the cost without a price."""

    model: str
    episodes: int
    basis: str  # "pilots", "bounds", or "free": run by ourselves
    price: Price | None
    pilots: int = 0
    pilot_model: str = ""  # the model of the pilots
    pooled: tuple[str, ...] = ()  # strata with fewer than two pilots, estimated from all
    input_tokens: Interval | None = None
    cached_tokens: Interval | None = None
    output_tokens: Interval | None = None
    cost_usd: Interval | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimate of a wave: its owed episodes by model, their grading by each judge, and the
    regrading of the first wave's answers for its look."""

    wave: int
    forecasts: tuple[Forecast, ...]
    judges: tuple[Forecast, ...]
    regrading: Forecast | None  # None if the plan has none at this wave
    pricing: Pricing = field(repr=False)  # of the models


def total_usd(forecasts: Iterable[Forecast]) -> Interval | None:
    """Return the sum of the intervals of all paid models; None if one is unknown."""
    paid = [forecast for forecast in forecasts if forecast.basis != FREE and forecast.episodes]
    costs = [forecast.cost_usd for forecast in paid if forecast.cost_usd is not None]
    if len(costs) < len(paid):
        return None
    means = [cost.mean for cost in costs if cost.mean is not None]
    highs = [cost.high for cost in costs if cost.high is not None]
    return Interval(
        math.fsum(cost.low for cost in costs),
        math.fsum(means) if len(means) == len(costs) else None,
        math.fsum(highs) if len(highs) == len(costs) else None,
    )


Owed = Mapping[str, Sequence[int]]
"""Of each stratum, how many episodes each of its instances still owes."""


@dataclass(frozen=True, slots=True)
class Pilot:
    """A finished episode and the quantities that it took."""

    stratum: str
    instance: str
    values: Mapping[str, float]  # by quantity


Modes = Mapping[str, Mode]
"""The mode of each stratum in a wave; strata that it does not name are all of one mode."""

Pilots = tuple[str, Sequence[Pilot]]
"""The pilots of a model or judge, with its name."""


def estimate_wave(study: Study, wave: int, pilot: str | None = None) -> Estimate:
    """Estimate the rest of a wave. ``pilot`` names a model with pilots that count for the
    models of the wave without any. Raises StudyError, HarnessError, RegistryError."""
    snapshot, protocol = take_snapshot(study), study.protocol
    pins = protocol.wave_models(wave)
    tasks = protocol.wave_tasks(wave)
    turns = attempt_turns(tasks, protocol.catalog)
    pricing = price_pins(study, pins, allow_unknown=True, turns=turns)
    modes = {task.stratum: task.mode for task in tasks}
    lent = [] if pilot is None else [_pilot_pin(study, pilot)]
    forecasts = tuple(
        _forecast(
            priced,
            _owed_episodes(snapshot, wave, pin.name),
            [
                partial(_episode_pilots, snapshot, source, priced.price, modes)
                for source in (pin, *lent)
            ],
            partial(_episode_bounds, tasks, protocol.catalog, pin, priced),
            modes,
        )
        for pin, priced in zip(pins, pricing.models, strict=True)
    )
    judges = tuple(
        _judge_forecast(snapshot, pin, _owed_grades(snapshot, wave, record_digest(pin)))
        for pin in protocol.judges
    )
    return Estimate(wave, forecasts, judges, _regrading_forecast(snapshot, wave), pricing)


def _judge_forecast(study: StudySnapshot, pin: JudgePin, owed: Owed) -> Forecast:
    (priced,) = price_pins(study, [pin], allow_unknown=True).models
    pilots = partial(_judge_pilots, study, pin, priced.price)
    return _forecast(priced, owed, [pilots], partial(_judge_bounds, study.protocol, pin, priced))


def _regrading_forecast(study: StudySnapshot, wave: int) -> Forecast | None:
    """Return the forecast for the second grader's regrading of the first wave's answers;
    None if the plan has no regrading at this wave."""
    plan = study.protocol.registered_plan()
    tested = set(study.protocol.waves[wave]) - control_models(plan)
    if wave <= FIRST or not tested or plan.standard is None or not plan.standard.regrade:
        return None
    pin = judge_pin(study, plan.standard.second_grader)
    return _judge_forecast(study, pin, _owed_regrades(study, wave, pin, plan.standard.regrade))


def _forecast(
    priced: PricedModel,
    owed: Owed,
    sources: Iterable[Callable[[], Pilots]],
    bounds: Callable[[Owed], dict[str, Any]],
    modes: Modes = MappingProxyType({}),
) -> Forecast:
    """Return the estimate from the first of the ``sources`` with pilots of two instances in each
    mode, else from ``bounds``. Pilots are read and bounds computed only if they are needed."""
    episodes = sum(map(sum, owed.values()))
    forecast = Forecast(priced.name, episodes, FREE if priced.free else OWN, priced.price)
    if priced.free or not episodes:
        return forecast
    for read_pilots in sources:
        model, pilots = read_pilots()
        if found := groups_of(owed, pilots, modes):
            groups, pooled = found
            sums: dict[str, Any] = {name: sum_interval(groups, name) for name in QUANTITIES}
            return replace(forecast, pilots=len(pilots), pilot_model=model, pooled=pooled, **sums)
    return replace(forecast, basis=BOUNDS, **bounds(owed))


def _owed_episodes(study: StudySnapshot, wave: int, model: str) -> Owed:
    """Return the owed episodes of a model; the planned ones before the wave is begun."""
    begun = study.waves.get(wave)
    if begun is None:
        return _planned(study.protocol, wave, [model])
    if begun.closed is not None:
        return {}
    return _count_owed(cell for cell in begun.owed_cells() if cell.model == model)


def _owed_grades(study: StudySnapshot, wave: int, judge: str) -> Owed:
    """Return the episodes that a judge has not graded, by the plan before the wave is begun."""
    begun = study.waves.get(wave)
    if begun is None:
        return _planned(study.protocol, wave)
    done = graded_by(study, judge)
    return _count_owed(cell for cell in begun.cells if cell.episode not in done)


def _owed_regrades(study: StudySnapshot, wave: int, judge: JudgePin, share: float) -> Owed:
    """Return the same of the archive, by the plan until the first wave is closed: a share of the
    instances of each arm, spread over the tranches."""
    first = study.waves.get(FIRST)
    if first is not None and first.closed is not None:
        done = graded_by(study, record_digest(judge), wave)
        cells = archived_cells(study, share)
        return _count_owed(cell for cell in cells if cell.episode not in done)
    owed = {}
    for stratum, counts in _planned(study.protocol, FIRST).items():
        drawn = 2 * math.ceil(share * len(counts) / 2 - 1e-9)
        owed[stratum] = [counts[place * len(counts) // drawn] for place in range(drawn)]
    return owed


def _count_owed(cells: Iterable[Cell]) -> Owed:
    counts = Counter((cell.spec.stratum, cell.instance) for cell in cells)
    owed: dict[str, list[int]] = defaultdict(list)
    for (stratum, _), count in counts.items():
        owed[stratum].append(count)
    return owed


def _planned(protocol: Protocol, wave: int, models: Collection[str] | None = None) -> Owed:
    """Return the planned episodes of a wave's models, or of some of them, on both arms."""
    runs: Counter[int] = Counter()
    for model, tranches in protocol.wave_tranches(wave).items():
        if models is None or model in models:
            times = protocol.replicates_of(model)
            runs.update(dict.fromkeys(tranches, times))
    counts = [
        times
        for tranche, times in sorted(runs.items())
        for _ in range(protocol.tranche_size(tranche))
    ]
    return {task.stratum: counts for task in protocol.tasks}


def _pilot_pin(study: Study, name: str) -> ModelPin:
    for pin in study.protocol.models:
        if pin.name == name:
            return pin
    known = ", ".join(pin.name for pin in study.protocol.models)
    raise StudyError(f"--pilot: there is no model {name!r} in study.yaml; it has {known}")


def _episode_pilots(
    study: StudySnapshot, pin: ModelPin, price: Price | None, modes: Modes
) -> Pilots:
    """Return the finished episodes of a model with known tokens, at most MOST_PILOTS of a wave, in
    the mode that their stratum has in the wave that is estimated."""
    store, pilots = study.store, []
    for cell in chain.from_iterable(_finished_cells(wave, pin) for wave in study.waves.values()):
        if cell.mode is not modes.get(cell.spec.stratum):
            continue
        usages = read_episode_usages(store, study.keys(), cell.episode, pin.provider)
        if values := _quantities(usages, price):
            pilots.append(Pilot(cell.spec.stratum, cell.instance, values))
    return pin.name, pilots


def _finished_cells(wave: WaveSnapshot, pin: ModelPin) -> list[Cell]:
    wanted = (pin.provider, pin.version)
    models = {m.name for m in wave.manifest.models if (m.provider, m.version) == wanted}
    cells = [cell for cell in wave.finished_cells() if cell.model in models] if models else []
    return sorted(cells, key=lambda cell: cell.episode)[:MOST_PILOTS]  # a digest: any of them


def _judge_pilots(study: StudySnapshot, pin: JudgePin, price: Price | None) -> Pilots:
    """Return the episodes that this judge has graded, with any prompt and settings."""
    if next(iter(study.store.list(JUDGE_CALLS)), None) is None:
        return pin.name, ()  # and no key is needed
    usages: dict[tuple[int | None, str], list[Usage]] = defaultdict(list)
    for call in read_paid_calls(study.store, study.keys(), CallKind.JUDGE):
        charge, payer = call.charge, call.charge.payer
        if (payer.provider, payer.version) == (pin.provider, pin.version):
            # An answer that is graded again is charged to another wave than its own.
            usages[charge.wave, charge.subject].append(call.reply.usage)
    return pin.name, [
        Pilot(cell.spec.stratum, cell.instance, values)
        for wave in study.waves.values()
        for cell in wave.cells
        if (values := _quantities(usages.get((wave.number, cell.episode), ()), price))
    ]


def _quantities(usages: Sequence[Usage], price: Price | None) -> dict[str, float] | None:
    """Return the quantities of the replies for one episode; None if there is none, or one has no
    token counts."""
    sums: dict[str, float] = {"cached_tokens": sum(usage.cached_tokens or 0 for usage in usages)}
    for name in ("input_tokens", "output_tokens"):
        counts = [getattr(usage, name) for usage in usages]
        if not counts or None in counts:
            return None
        sums[name] = sum(counts)
    cost = total_cost(price, usages)
    return sums if cost is None else {**sums, "cost_usd": float(cost)}


Group = tuple[Sequence[Pilot], Sequence[int]]


def groups_of(
    owed: Owed, pilots: Sequence[Pilot], modes: Modes = MappingProxyType({})
) -> tuple[list[Group], tuple[str, ...]] | None:
    """Return pilots with the owed episodes that they estimate, each stratum by its own pilots and
    the others of a mode together by all of that mode; and these other strata. Return None if there
    are pilots of fewer than two instances for one of them."""
    by_stratum: dict[str, list[Pilot]] = defaultdict(list)
    for pilot in pilots:
        by_stratum[pilot.stratum].append(pilot)
    groups: list[Group] = []
    pooled: list[str] = []
    for stratum, counts in owed.items():
        if len({pilot.instance for pilot in by_stratum[stratum]}) < 2:
            pooled.append(stratum)
        else:
            groups.append((by_stratum[stratum], counts))
    for mode in dict.fromkeys(map(modes.get, pooled)):
        alike = [pilot for pilot in pilots if modes.get(pilot.stratum) is mode]
        if len({pilot.instance for pilot in alike}) < 2:
            return None
        strata = [stratum for stratum in pooled if modes.get(stratum) is mode]
        groups.append((alike, [count for stratum in strata for count in owed[stratum]]))
    return groups, tuple(pooled)


def sum_interval(groups: Iterable[Group], quantity: str) -> Interval | None:
    """Return the interval of a quantity's sum over all owed episodes; None if the pilots lack
    it."""
    from scipy.stats import t

    mean = spread = weights = 0.0
    for pilots, counts in groups:
        by_instance: dict[str, list[float]] = defaultdict(list)
        for pilot in pilots:
            if quantity not in pilot.values:
                return None
            by_instance[pilot.instance].append(pilot.values[quantity])
        values = [fmean(amounts) for amounts in by_instance.values()]
        owed, squares = sum(counts), sum(count * count for count in counts)
        part = variance(values) * (owed * owed / len(values) + squares)
        mean += owed * fmean(values)
        spread += part
        weights += part * part / (len(values) - 1)
    if not spread:
        return Interval(mean, mean, mean)
    freedom = spread * spread / weights  # Welch and Satterthwaite
    reach = float(t.ppf((1 + LEVEL) / 2, freedom)) * math.sqrt(spread)
    return Interval(max(mean - reach, 0.0), mean, mean + reach)


def _episode_bounds(
    tasks: Sequence[Task], catalog: Catalog, pin: ModelPin, priced: PricedModel, owed: Owed
) -> dict[str, Any]:
    """Return bounds: from zero to full contexts and the longest replies in every turn, for one
    attempt at each episode."""
    settings = dict(pin.settings)
    turns = {task.stratum: attempt_turns([task], catalog) for task in tasks}
    external = pin.provider == "agent_server"  # nothing bounds the requests of its own loop
    requests = 0 if external else sum(sum(owed.get(name, ())) * turns[name] for name in turns)

    def most(setting: str) -> Interval:
        known = requests and setting in settings
        return Interval(0.0, None, requests * float(settings[setting]) if known else None)

    request = None if priced.bound is None else float(priced.bound) / max(turns.values())
    high = None if request is None else requests * request
    return {
        "input_tokens": most("context"),
        "cached_tokens": most("context"),
        "output_tokens": most("max_tokens"),
        "cost_usd": None if priced.price is None else Interval(0.0, None, high),
    }


def _judge_bounds(
    protocol: Protocol, pin: JudgePin, priced: PricedModel, owed: Owed
) -> dict[str, Any]:
    """Return bounds: between nothing and the most that may be requested; the mean is that of one
    request a call, about an answer as long as the key of an example."""
    longest, price = dict(pin.settings).get("max_tokens"), priced.price
    likely_read = likely_written = most_read = requests = 0
    for task in protocol.tasks:
        episodes = sum(owed.get(task.stratum, ()))
        instance = example_of(task, protocol.catalog)
        questions, prompt = questions_of(instance.rubric), instance.brief.prompt
        key = json.dumps(protocol.catalog.family(task.family, task.version).key(instance.truth))
        texts = call_texts(Submission(prompt, key), questions)
        likely_read += episodes * sum(map(estimate_text, texts))
        likely_written += episodes * REPLY * len(questions)
        calls = len(list(chunks_of(questions)))
        texts = call_texts(Submission(prompt, ""), questions)
        size = sum(len(text.encode()) for text in texts) + calls * _BYTES * MAX_CHARS
        most_read += episodes * TRIES * size
        requests += episodes * TRIES * calls
    most_written = None if longest is None else requests * int(longest)
    cost = None
    if price is not None:
        high = None if most_written is None else _cost(price, most_read, most_written)
        cost = Interval(0.0, _cost(price, likely_read, likely_written), high)
    return {
        "input_tokens": Interval(0.0, likely_read, most_read),
        "cached_tokens": Interval(0.0, None, most_read),
        "output_tokens": Interval(0.0, likely_written, most_written),
        "cost_usd": cost,
    }


def _cost(price: Price, read: int, written: int) -> float:
    return float(price.cost(Usage(read, written)) or Decimal())
