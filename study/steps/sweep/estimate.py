"""Estimates of the tokens and cost that a wave still takes, as intervals.

The intervals come from pilots. A pilot is a finished episode of the same model in any wave. Its
tokens are those of every paid reply, of failed attempts too. The interval is for the owed work: a t
interval for a sum of future draws, by stratum, which covers both the error of the mean and the
scatter of single episodes; replicates of an instance are taken as dependent. With fewer than two
pilots of a stratum there are bounds only, from the model's limits.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from statistics import fmean, variance
from typing import Any

from generators.catalog import Catalog
from harness.episode import Cell, Mode
from harness.episodes.result import RESULT_CODEC
from harness.spending.budget import attempt_bound
from harness.spending.prices import Price, total_cost
from harness.spending.purchases import read_episode_usages
from harness.storage import result_key
from registry.ledger.records import ModelPin
from registry.stores.parallel import parallel_map
from study.printing import print_json, print_line, print_records, range_words
from study.protocol.protocol import Protocol, Task
from study.steps.sweep.manifests import check_resumed
from study.steps.sweep.spending import ALLOW, Pricing, attempt_turns, price_pins
from study.workspace.snapshot import StudySnapshot, take_snapshot
from study.workspace.study import Study

LEVEL = 0.9
MOST_PILOTS = 1000  # of one model and wave that are read
QUANTITIES = ("input_tokens", "cached_tokens", "output_tokens", "cost_usd")
SECONDS = "seconds"
BOUNDS, OWN, FREE = "bounds", "pilots", "free"


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval of a quantity. ``high`` is None if it is unbounded, ``mean`` if it is unknown."""

    low: float
    mean: float | None
    high: float | None

    def times(self, factor: float) -> Interval:
        """The interval of the quantity times a number."""
        mean, high = (None if end is None else factor * end for end in (self.mean, self.high))
        return Interval(factor * self.low, mean, high)


@dataclass(frozen=True, slots=True)
class Forecast:
    """The estimate of the episodes that a model owes. A quantity is None if it is unknown, as
    is the cost without a price."""

    model: str
    episodes: int
    basis: str  # "pilots", "bounds", or "free": run by ourselves
    price: Price | None
    pilots: int = 0
    input_tokens: Interval | None = None
    cached_tokens: Interval | None = None
    output_tokens: Interval | None = None
    cost_usd: Interval | None = None
    node_hours: Interval | None = None  # of machines that run as many at once as study.yaml says


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimate of a wave: its owed episodes by model."""

    wave: int
    forecasts: tuple[Forecast, ...]
    pricing: Pricing = field(repr=False)  # of the models


def print_estimate(made: Estimate, as_json: bool) -> None:
    """Print the estimate of a wave, with notes on its numbers."""
    total = total_usd(made.forecasts)
    hours = sum_intervals([each.node_hours for each in made.forecasts if each.episodes])
    node = made.pricing.prices.node
    usd = None if hours is None or node is None else hours.times(float(node.usd_per_hour))
    if as_json:
        print_json(
            {
                "wave": made.wave,
                "level": LEVEL,
                "prices": made.pricing.prices.digest or None,
                "models": [_forecast_json(forecast) for forecast in made.forecasts],
                "cost_usd": None if total is None else asdict(total),
                "node_hours": None if hours is None else asdict(hours),
                "node_usd": None if usd is None else asdict(usd),
            }
        )
        return
    title = f"What wave {made.wave} still owes"
    print_records([_forecast_row(forecast) for forecast in made.forecasts], title=title)
    print_line(
        f"intervals at {100 * LEVEL:.0f} %; what failed attempts took is counted in the pilots"
    )
    for forecast in made.forecasts:
        model, price = forecast.model, forecast.price
        if forecast.basis == BOUNDS:
            print_line(
                f"{model}: no two pilots of each stratum, so these are bounds from the limits, for "
                "one attempt at each episode; without `context` and `max_tokens` there is no upper "
                "one"
            )
        if price is not None:
            print_line(f"{model}: priced as of {price.date} ({price.source})")
    for priced in made.pricing.unknown:
        print_line(f"{priced.name}: its price is unknown; sweeping it needs {ALLOW}")
    print_line("in all: " + ("unknown" if total is None else f"USD {_words(total, 2)}"))
    if node is not None and usd is not None:
        print_line(
            f"nodes: {_words(hours, 1)} hours, more if episodes wait for a provider's rate: USD "
            f"{_words(usd, 2)} at {node.usd_per_hour} an hour ({node.date}, {node.source})"
        )
    elif node is not None:
        print_line("nodes: unknown; no two finished episodes of each stratum and model show it")


def _forecast_json(forecast: Forecast) -> dict[str, Any]:
    price = forecast.price
    usd = ("input", "cached_input", "output")
    return asdict(forecast) | {
        "price": None
        if price is None
        else {name: float(getattr(price, name)) for name in usd}
        | {"date": price.date, "source": price.source}
    }


def _forecast_row(forecast: Forecast) -> dict[str, Any]:
    cost = _words(forecast.cost_usd, 2, "unknown") if forecast.episodes else "–"
    return {
        "model": forecast.model,
        "owed": forecast.episodes,
        "basis": f"{forecast.pilots} pilots" if forecast.pilots else forecast.basis,
        "input tokens": _words(forecast.input_tokens),
        "cached": _words(forecast.cached_tokens),
        "output tokens": _words(forecast.output_tokens),
        "USD": "no call is paid for" if forecast.basis == FREE else cost,
    }


def _words(interval: Interval | None, digits: int = 0, unknown: str = "–") -> str:
    return unknown if interval is None else range_words(interval.low, interval.high, digits)


def total_usd(forecasts: Iterable[Forecast]) -> Interval | None:
    """Return the sum of the intervals of all paid models; None if one is unknown."""
    paid = [forecast for forecast in forecasts if forecast.basis != FREE and forecast.episodes]
    return sum_intervals([forecast.cost_usd for forecast in paid])


def sum_intervals(intervals: Sequence[Interval | None]) -> Interval | None:
    """Return the sum of intervals, end by end; None if one is unknown."""
    known = [interval for interval in intervals if interval is not None]
    if len(known) < len(intervals):
        return None
    low, mean, high = (
        _sum([getattr(one, end) for one in known]) for end in ("low", "mean", "high")
    )
    return Interval(low or 0.0, mean, high)


def _sum(values: Sequence[float | None]) -> float | None:
    """Return the sum; None if a value is unknown."""
    known = [value for value in values if value is not None]
    return math.fsum(known) if len(known) == len(values) else None


Owed = Mapping[str, Sequence[int]]
"""Of each stratum, how many episodes each of its instances still owes."""


Quantities = dict[str, float] | None


@dataclass(frozen=True, slots=True)
class Pilot:
    """A finished episode and the quantities that it took."""

    stratum: str
    instance: str
    values: Mapping[str, float]  # by quantity


Pilots = Sequence[Pilot]
"""The pilots of a model."""


def estimate_wave(study: Study, wave: int) -> Estimate:
    """Estimate the rest of a wave. Raises StudyError, HarnessError, RegistryError; BrokenPromise if
    study.yaml changes what a begun one runs."""
    snapshot, protocol = take_snapshot(study), study.protocol
    if (begun := snapshot.waves.get(wave)) is not None and begun.closed is None:
        check_resumed(study, begun.manifest)
    pins = protocol.wave_models(wave)
    tasks = protocol.wave_tasks(wave)
    pricing = price_pins(study, pins, allow_unknown=True)
    modes = {task.stratum: task.mode for task in tasks}
    forecasts = []
    for pin, priced in zip(pins, pricing.models, strict=True):
        owed = _owed_episodes(snapshot, wave, pin.name)
        episodes = sum(map(sum, owed.values()))
        forecast = Forecast(priced.name, episodes, FREE if priced.free else OWN, priced.price)
        finished = _finished_cells(snapshot, pin, modes) if episodes else []
        timed = _pilots(snapshot, finished, _read_seconds) if pricing.prices.node else ()
        if timed and _suffice(timed, owed) and (seconds := sum_interval(owed, timed, SECONDS)):
            hours = seconds.times(1 / (3600 * protocol.sweep.parallel))
            forecast = replace(forecast, node_hours=hours)
        if episodes and not priced.free:
            pilots = _pilots(snapshot, finished, partial(_read_quantities, pin, priced.price))
            if _suffice(pilots, owed):
                sums: dict[str, Any] = {q: sum_interval(owed, pilots, q) for q in QUANTITIES}
                forecast = replace(forecast, pilots=len(pilots), **sums)
            else:
                bounds = _episode_bounds(tasks, protocol.catalog, pin, priced.price, owed)
                forecast = replace(forecast, basis=BOUNDS, **bounds)
        forecasts.append(forecast)
    return Estimate(wave, tuple(forecasts), pricing)


def _suffice(pilots: Pilots, owed: Owed) -> bool:
    """True if there are pilots of two instances of each stratum."""
    instances = Counter(stratum for stratum, _ in {(p.stratum, p.instance) for p in pilots})
    return all(instances[stratum] >= 2 for stratum in owed)


def _pilots(
    study: StudySnapshot, cells: Sequence[Cell], read: Callable[[StudySnapshot, Cell], Quantities]
) -> Pilots:
    """Return the finished episodes of which the quantities are known."""
    values = parallel_map(study.store, partial(read, study), cells)
    found = zip(cells, values, strict=True)
    return [Pilot(cell.spec.stratum, cell.instance, known) for cell, known in found if known]


def _read_seconds(study: StudySnapshot, cell: Cell) -> Quantities:
    """Return the seconds of an episode's last attempt."""
    result = RESULT_CODEC.read(study.store, result_key(cell.episode), study.keys())
    return {SECONDS: result.seconds}


def _owed_episodes(study: StudySnapshot, wave: int, model: str) -> Owed:
    """Return the owed episodes of a model; the planned ones before the wave is begun."""
    if (begun := study.waves.get(wave)) is None:
        return planned_episodes(study.protocol, wave, [model])
    if begun.closed is not None:
        return {}
    counts = Counter(
        (cell.spec.stratum, cell.instance) for cell in begun.owed_cells() if cell.model == model
    )
    owed: dict[str, list[int]] = defaultdict(list)
    for (stratum, _), count in counts.items():
        owed[stratum].append(count)
    return owed


def planned_episodes(protocol: Protocol, wave: int, models: Collection[str] | None = None) -> Owed:
    """Return the planned episodes of a wave's models, or of some of them, on both arms."""
    runs: Counter[int] = Counter()
    for model, tranches in protocol.wave_tranches(wave).items():
        if models is None or model in models:
            times = protocol.replicates_of(model)
            runs.update(dict.fromkeys(tranches, times))
    owed: dict[str, list[int]] = {task.stratum: [] for task in protocol.tasks}
    for tranche, times in sorted(runs.items()):
        for stratum, size in protocol.tranche_sizes(tranche).items():
            owed[stratum] += [times] * size
    return owed


def _finished_cells(study: StudySnapshot, pin: ModelPin, modes: Mapping[str, Mode]) -> list[Cell]:
    """Return the finished episodes of a model, of at most MOST_PILOTS of a wave those in the mode
    that their stratum has in the wave that is estimated."""
    wanted, chosen = (pin.provider, pin.version), []
    for wave in study.waves.values():
        models = {m.name for m in wave.manifest.models if (m.provider, m.version) == wanted}
        cells = [cell for cell in wave.finished_cells() if cell.model in models] if models else []
        chosen += sorted(cells, key=lambda cell: cell.episode)[:MOST_PILOTS]  # a digest: any
    return [cell for cell in chosen if cell.mode is modes.get(cell.spec.stratum)]


def _read_quantities(
    pin: ModelPin, price: Price | None, study: StudySnapshot, cell: Cell
) -> Quantities:
    """Return the quantities of the replies for an episode; None if there is none, or one has no
    token counts."""
    usages = read_episode_usages(study.store, study.keys(), cell.episode, pin.provider)
    sums: dict[str, float] = {"cached_tokens": sum(usage.cached_tokens or 0 for usage in usages)}
    for name in ("input_tokens", "output_tokens"):
        counts = [getattr(usage, name) for usage in usages]
        if not counts or None in counts:
            return None
        sums[name] = sum(counts)
    cost = total_cost(price, usages)
    return sums if cost is None else {**sums, "cost_usd": float(cost)}


def sum_interval(owed: Owed, pilots: Pilots, quantity: str) -> Interval | None:
    """Return the interval of a quantity's sum over all owed episodes, of each stratum by its own
    pilots; None if they lack it."""
    from scipy.stats import t

    mean = spread = weights = 0.0
    for stratum, counts in owed.items():
        by_instance: dict[str, list[float]] = defaultdict(list)
        for pilot in pilots:
            if pilot.stratum == stratum:
                if quantity not in pilot.values:
                    return None
                by_instance[pilot.instance].append(pilot.values[quantity])
        values = [fmean(amounts) for amounts in by_instance.values()]
        total, squares = sum(counts), sum(count * count for count in counts)
        part = variance(values) * (total * total / len(values) + squares)
        mean += total * fmean(values)
        spread += part
        weights += part * part / (len(values) - 1)
    if not spread:
        return Interval(mean, mean, mean)
    freedom = spread * spread / weights  # Welch and Satterthwaite
    reach = float(t.ppf((1 + LEVEL) / 2, freedom)) * math.sqrt(spread)
    return Interval(max(mean - reach, 0.0), mean, mean + reach)


def _episode_bounds(
    tasks: Sequence[Task], catalog: Catalog, pin: ModelPin, price: Price | None, owed: Owed
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

    usd = attempt_bound(pin, price, requests) if price is not None and requests else None
    high = None if usd is None else float(usd)
    return {
        "input_tokens": most("context"),
        "cached_tokens": most("context"),
        "output_tokens": most("max_tokens"),
        "cost_usd": None if price is None else Interval(0.0, None, high),
    }
