"""Estimates of the tokens and cost that a wave still takes, as intervals from pilot episodes.

A pilot is a finished episode of the same model in any wave, or of another model if the caller names
one. Its tokens are those of every paid reply, of failed attempts too. The interval is for the owed
episodes: a t interval for a sum of future draws, by stratum, which covers both the error of the
mean and the scatter of single episodes; replicates of an instance are taken as dependent. With
fewer than two pilots there are bounds from the limits only."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean, variance

from harness.episode import Cell
from harness.spending import Price, PricedModel, read_episode_usages, total_cost
from harness.store_keys import result_key
from registry.ledger import ModelPin
from study.errors import StudyError
from study.protocol import Protocol
from study.sweeps.spending import Pricing, attempt_turns, price_models
from study.workspace import Study, cells_of, closed_wave, finished_of, manifest_of

LEVEL = 0.9
MOST_PILOTS = 1000  # of one model that are read
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
    """The estimate of a model's owed episodes. ``cost_usd`` is None if the price is unknown."""

    model: str
    episodes: int
    basis: str  # "pilots", "bounds", or "free": run by ourselves
    pilots: int
    pilot_model: str  # whose pilots they are
    pooled: tuple[str, ...]  # strata with fewer than two pilots, estimated from all of the model's
    price: Price | None
    input_tokens: Interval | None
    cached_tokens: Interval | None
    output_tokens: Interval | None
    cost_usd: Interval | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimate of a wave's owed episodes."""

    """The estimate of a wave's owed episodes."""

    wave: int
    forecasts: tuple[Forecast, ...]
    pricing: Pricing = field(repr=False)

    @property
    def cost_usd(self) -> Interval | None:
        """The sum of the intervals of all paid models; None if one is unknown."""
        return total_usd(self.forecasts)


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

    """A finished episode and the quantities that it took."""

    stratum: str
    instance: str
    values: Mapping[str, float]  # by quantity


def estimate_wave(study: Study, wave: int, pilot: str | None = None) -> Estimate:
    """Estimate the owed episodes of a wave. ``pilot`` names a model with pilots that count for the
    models of the wave without any. Raises StudyError, HarnessError, RegistryError."""
    pins = study.protocol.wave_models(wave)
    turns = partial(attempt_turns, study.protocol)
    pricing = price_models(study.folder, study.protocol, pins, turns=turns)
    priced = {model.name: model for model in pricing.models}
    owed = _owed(study, wave, pins)
    lent = None if pilot is None else _pilot_pin(study, pilot)
    forecasts = tuple(_forecast(study, pin, priced[pin.name], owed[pin.name], lent) for pin in pins)
    return Estimate(wave, forecasts, pricing)


def _owed(study: Study, wave: int, pins: Sequence[ModelPin]) -> dict[str, Owed]:
    """Return the owed episodes by model and stratum; the planned ones before the wave is begun."""
    if closed_wave(study.ledger, wave) is not None:
        return {pin.name: {} for pin in pins}
    manifest = manifest_of(study.ledger, wave)
    if manifest is None:
        return _planned(study.protocol, wave)
    cells = cells_of(study.entries(), manifest)
    finished = finished_of(study.store, cells)
    left = Counter(
        (cell.model, cell.spec.stratum, cell.instance)
        for cell in cells
        if result_key(cell.episode) not in finished
    )
    owed: dict[str, dict[str, list[int]]] = {pin.name: {} for pin in pins}
    for (model, stratum, _), count in left.items():
        owed[model].setdefault(stratum, []).append(count)
    return dict(owed)


def _planned(protocol: Protocol, wave: int) -> dict[str, Owed]:
    """Return the planned episodes of each model: its tranches, both arms."""
    planned: dict[str, Owed] = {}
    for model, tranches in protocol.wave_tranches(wave).items():
        counts = [protocol.replicates] * sum(map(protocol.tranche_size, tranches))
        planned[model] = {task.stratum: counts for task in protocol.tasks}
    return planned


def _pilot_pin(study: Study, name: str) -> ModelPin:
    for pin in study.protocol.models:
        if pin.name == name:
            return pin
    known = ", ".join(pin.name for pin in study.protocol.models)
    raise StudyError(f"--pilot: there is no model {name!r} in study.yaml; it has {known}")


def _forecast(
    study: Study, pin: ModelPin, priced: PricedModel, owed: Owed, lent: ModelPin | None
) -> Forecast:
    episodes = sum(map(sum, owed.values()))
    if priced.free or not episodes:
        basis = FREE if priced.free else OWN
        return Forecast(pin.name, episodes, basis, 0, "", (), priced.price, *([None] * 4))
    source, pilots = pin, _pilots(study, pin, priced.price)
    if len({pilot.instance for pilot in pilots}) < 2 and lent is not None:
        source, pilots = lent, _pilots(study, lent, priced.price)
    if len({pilot.instance for pilot in pilots}) < 2:
        return _bounded(study, pin, priced, episodes)
    groups, pooled = groups_of(owed, pilots)
    intervals = {name: sum_interval(groups, name) for name in QUANTITIES}
    return Forecast(
        pin.name, episodes, OWN, len(pilots), source.name, pooled, priced.price, **intervals
    )


def _pilots(study: Study, pin: ModelPin, price: Price | None) -> tuple[Pilot, ...]:
    """Return the finished episodes of a model with known tokens, at most MOST_PILOTS of a wave."""
    return tuple(
        Pilot(cell.spec.stratum, cell.instance, values)
        for wave in range(len(study.protocol.waves))
        for cell in _finished(study, wave, pin)
        if (values := _values(study, cell, pin, price)) is not None
    )


def _finished(study: Study, wave: int, pin: ModelPin) -> list[Cell]:
    manifest = manifest_of(study.ledger, wave)
    if manifest is None:
        return []
    same = {
        each.name
        for each in manifest.models
        if (each.provider, each.version) == (pin.provider, pin.version)
    }
    own = tuple(cell for cell in cells_of(study.entries(), manifest) if cell.model in same)
    finished = finished_of(study.store, own)
    done = (cell for cell in own if result_key(cell.episode) in finished)
    return sorted(done, key=lambda cell: cell.episode)[:MOST_PILOTS]  # a digest: any of them


def _values(
    study: Study, cell: Cell, pin: ModelPin, price: Price | None
) -> dict[str, float] | None:
    """Return the quantities of one episode, all attempts together; None if its tokens are
    unknown."""
    usages = read_episode_usages(study.store, study.identities(), cell.episode, pin.provider)
    sums: dict[str, float] = {"cached_tokens": sum(each.cached_tokens or 0 for each in usages)}
    for name in ("input_tokens", "output_tokens"):
        counts = [getattr(usage, name) for usage in usages]
        if not counts or None in counts:
            return None
        sums[name] = sum(counts)
    cost = total_cost(price, usages)
    return sums if cost is None else {**sums, "cost_usd": float(cost)}


Group = tuple[Sequence[Pilot], Sequence[int]]


def groups_of(owed: Owed, pilots: Iterable[Pilot]) -> tuple[list[Group], tuple[str, ...]]:
    """Return pilots with the owed episodes that they estimate: each stratum by its own pilots, the
    others together by all."""
    every = list(pilots)
    by_stratum: dict[str, list[Pilot]] = defaultdict(list)
    for pilot in every:
        by_stratum[pilot.stratum].append(pilot)
    groups: list[Group] = []
    pooled: list[str] = []
    for stratum, counts in owed.items():
        if len({pilot.instance for pilot in by_stratum[stratum]}) < 2:
            pooled.append(stratum)
        else:
            groups.append((by_stratum[stratum], counts))
    if pooled:
        groups.append((every, [count for stratum in pooled for count in owed[stratum]]))
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
        values = [fmean(each) for each in by_instance.values()]
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


def _bounded(study: Study, pin: ModelPin, priced: PricedModel, episodes: int) -> Forecast:
    """Return bounds: from zero to full contexts and the longest replies in every turn, for one
    attempt at each episode."""
    stated = dict(pin.settings)
    external = pin.provider == "agent_server"
    requests = None if external else episodes * attempt_turns(study.protocol, pin)

    def most(setting: str) -> Interval:
        known = requests is not None and setting in stated
        return Interval(
            0.0, None, requests * float(stated[setting]) if known and requests else None
        )

    high = None if priced.bound is None else episodes * float(priced.bound)
    cost = None if priced.price is None else Interval(0.0, None, high)
    reading = most("context")
    return Forecast(
        pin.name,
        episodes,
        BOUNDS,
        0,
        "",
        (),
        priced.price,
        reading,
        reading,
        most("max_tokens"),
        cost,
    )
