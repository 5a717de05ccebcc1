"""The size and the cost of a study that is about to be written, for ``dosimeter init --guided``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

from analysis.power.power import formula_seeds
from analysis.power.variance_components import PilotVariance
from harness.model import Usage
from harness.spending.prices import Price
from study.errors import StudyError
from study.extras.power.planning import read_variance, registered_design
from study.extras.power.target_power import LEAST_POWER, find_power
from study.protocol.protocol import FILE_NAME, PRICES_NAME
from study.steps.init.new_study import NewStudy, prices_text, study_text
from study.steps.sweep.preview import render_wave
from study.steps.sweep.spending import price_pins
from study.workspace.address import open_study
from study.workspace.study import Study

Watch = Callable[[str, int, int], None]
_MOST_SEEDS = 20_000  # in each arm of a stratum
_STEP, _TRIES = 1.05, 10  # by how much a number grows that falls short, and how often


@dataclass(frozen=True, slots=True)
class ModelForecast:
    """The episodes of a model in a wave. ``first_usd`` is the cost of the first request of each,
    which is a part of the whole; None if the price is unknown or nobody is paid."""

    wave: int
    model: str
    episodes: int
    free: bool
    first_usd: float | None


@dataclass(frozen=True, slots=True)
class VarianceSource:
    """Results whose variance counts for the seeds of a new study, with their source in words."""

    variance: PilotVariance
    words: str


@dataclass(frozen=True, slots=True)
class StudyForecast:
    """A new study with the seeds that its target gap needs, its power and its episodes."""

    new: NewStudy
    power: float
    models: tuple[ModelForecast, ...]
    source: VarianceSource | None = None

    def episodes(self, wave: int) -> int:
        """Return the episodes of a wave."""
        return sum(model.episodes for model in self.models if model.wave == wave)

    def first_usd(self, wave: int) -> float | None:
        """Return the cost of the first requests of a wave; None if it is unknown."""
        paid = [model.first_usd for model in self.models if model.wave == wave and not model.free]
        known = [usd for usd in paid if usd is not None]
        return math.fsum(known) if len(known) == len(paid) else None


def read_source(source: Path, now: str) -> VarianceSource:
    """Return the variance of the outcomes of a new study, from a table, or a study with results or
    a pilot. Raises StudyError, AnalysisError."""
    with _draft(NewStudy(), now) as study:
        outcomes = study.protocol.registered_plan().outcomes
    return VarianceSource(*read_variance(source, None, outcomes))


def forecast_study(
    new: NewStudy, now: str, watch: Watch, source: VarianceSource | None = None
) -> StudyForecast:
    """Find the seeds that the target gap needs, simulated as before a draw, and count the episodes.
    With a ``source`` they are also enough for its variance; they are never fewer than the draw asks
    for. Raises StudyError if no reachable number is enough, AnalysisError, and as reading the study
    does."""
    variances = (None,) if source is None else (None, source.variance.components)
    with _draft(new, now) as study:
        seeds = max(
            formula_seeds(registered_design(study.protocol, new.gap, variance), LEAST_POWER)
            for variance in variances
        )
    basis = f"This number finds a gap of {100 * new.gap:g} points in a model with a chance of 80 %."
    for attempt in range(_TRIES):
        if seeds > _MOST_SEEDS:
            break
        watch("simulating", attempt, 0)
        sized = replace(new, seeds_per_arm=seeds, basis=basis)
        with _draft(sized, now) as study:
            powers = [find_power(study.protocol, variance) for variance in variances]
            if all(power.suffices for power in powers):
                least = min(power.power for power in powers)
                return StudyForecast(sized, least, tuple(_forecast_models(study)), source)
        seeds = math.ceil(_STEP * seeds) + 1
    raise StudyError(
        f"a gap of {100 * new.gap:g} points needs more instances than anybody runs: give a "
        "larger target gap, or fewer looks"
    )


@contextmanager
def _draft(new: NewStudy, now: str) -> Iterator[Study]:
    """Open the study as it would be written, in a temporary folder."""
    with TemporaryDirectory(prefix="dosimeter-") as name:
        folder = Path(name)
        (folder / FILE_NAME).write_text(study_text(new), encoding="utf-8")
        (folder / PRICES_NAME).write_text(prices_text(new, now[:10]), encoding="utf-8")
        yield open_study(folder)


def _forecast_models(study: Study) -> Iterator[ModelForecast]:
    protocol = study.protocol
    for wave in range(len(protocol.waves)):
        requests = render_wave(study, wave)
        pins = protocol.wave_models(wave)
        for priced in price_pins(study, pins, allow_unknown=True).models:
            sizes = [request.tokens for request in requests if request.model == priced.name]
            runs = 2 * protocol.seeds_per_arm * protocol.replicates_of(priced.name)
            usd = None if priced.price is None else _cost(priced.price, runs * sum(sizes))
            episodes = runs * len(protocol.tasks)
            yield ModelForecast(wave, priced.name, episodes, priced.free, usd)


def _cost(price: Price, tokens: int) -> float:
    return float(price.cost(Usage(tokens, 0)) or Decimal())
