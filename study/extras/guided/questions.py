"""Questions of ``dosimeter init --guided``, and the size and cost of the study that is written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

import click

from analysis.power.power import formula_seeds
from analysis.power.variance_components import PilotVariance
from harness.model import Usage
from harness.spending.prices import Price
from registry.provenance import utc_now
from study.errors import StudyError
from study.extras.power.planning import read_variance, registered_design
from study.extras.power.target_power import LEAST_POWER, find_power
from study.printing import print_line, print_records, progress_watch
from study.protocol.protocol import FILE_NAME, PRICES_NAME
from study.steps.init import new_study
from study.steps.init.folder import create_study
from study.steps.init.new_study import (
    CONTROLS,
    NewStudy,
    is_address,
    is_name,
    is_variable,
    on_this_machine,
    prices_text,
    stand_in,
    study_name,
    study_text,
)
from study.steps.sweep.preview import render_wave
from study.steps.sweep.spending import price_pins
from study.workspace.address import open_study
from study.workspace.study import Study

if TYPE_CHECKING:
    from datetime import date

    from study.steps.init.new_study import NewModel, NewStudy

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


T = TypeVar("T")


_LOCAL_URL = "http://127.0.0.1:8000/v1"


_SERVED = ("openai", "anthropic", "google", "bedrock")


_USUAL_KEY = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "google": "GEMINI_API_KEY",
    "bedrock": "",
}


_RETENTION = ("none", "kept", "training", "unknown")


def write_guided(place: Path, yes: bool, source: Path | None) -> Path:
    """Ask, estimate, show, ask once more, write."""

    now = utc_now()
    results = None if source is None else read_source(source, now)  # before any question
    try:
        new = _Questions(yes).study(study_name(place))
        with progress_watch("simulating the plan") as watch:
            forecast = forecast_study(new, now, watch, results)
        _print_forecast(forecast)
        if not yes and not click.confirm(f"Write {place}?", default=True):
            raise click.Abort
    except (click.Abort, KeyboardInterrupt):
        click.echo("nothing was written (a script gives --yes)", err=True)
        click.get_current_context().exit(130)
    return create_study(place, forecast.new, now)


@dataclass(frozen=True, slots=True)
class _Questions:
    """The questions of --guided, each with a default, which --yes takes."""

    yes: bool

    def study(self, name: str) -> NewStudy:
        """Ask for all of a study."""
        usual = new_study.NewStudy(name)
        tested = self._models("Models under test", [model.name for model in usual.tested], 1)
        names = [model.name for model in usual.controls]
        text = "Models released before the publication (controls, each run twice)"
        before = self._models(text, names, CONTROLS, taken=tested)
        models = [self._model(each, "openai", _SERVED) for each in tested]
        controls = [
            self._model(each, "scripted", ("scripted", *_SERVED), place)
            for place, each in enumerate(before)
        ]
        tasks = self.ask("Tasks, as family/difficulty", ", ".join(usual.tasks), _read_tasks)
        looks = self.ask("Waves of models under test over the years (looks)", "2", _count(1, 20))
        gap = self.ask("Gap to detect in a model, in points of 100", "10", _number(0.5, 90))
        budget = self.ask("Budget of a wave in USD", f"{usual.budget:g}", _number(0.01, 1e9))
        return new_study.NewStudy(
            name, tuple(models), tuple(controls), tasks, looks=looks, gap=gap / 100, budget=budget
        )

    def ask(self, text: str, default: str, read: Callable[[str], T]) -> T:
        """Return the answer, read; ask again until it can be read."""
        if self.yes:
            return read(default)
        return click.prompt(text, default=default, value_proc=read)

    def _models(
        self, text: str, default: list[str], least: int, taken: tuple[str, ...] = ()
    ) -> tuple[str, ...]:
        def read(answer: str) -> tuple[str, ...]:
            names = _words(answer)
            if len(names) < least:
                raise click.UsageError(f"name {least} or more, with commas between them")
            for name in names:
                if not is_name(name):
                    raise click.UsageError(
                        f"{name!r}: a name has lower-case letters, digits, . _ and -"
                    )
                if name in taken:
                    raise click.UsageError(f"{name!r} is under test; a control is another model")
            return names

        return self.ask(text, ", ".join(default), read)

    def _model(self, name: str, usual: str, known: tuple[str, ...], place: int = 0) -> NewModel:
        """Ask for one model; a built-in agent, which stands in for a control, needs no more."""
        provider = self.ask(f"{name}: provider ({', '.join(known)})", usual, _choice(known))
        if provider == "scripted":
            return stand_in(name, place)
        control = "scripted" in known
        version = self.ask(f"{name}: model id at the provider", "name-at-the-server", _text)
        url = ""
        if provider == "openai":
            url = self.ask(f"{name}: address of the server", _LOCAL_URL, _address)
        local = bool(url) and on_this_machine(url)
        usual_key = "" if local else _USUAL_KEY[provider]
        variable = self.ask(
            f"{name}: environment variable with the key (- for none)", usual_key or "-", _variable
        )
        retention = self.ask(
            f"{name}: what the provider keeps of its inputs ({', '.join(_RETENTION)})",
            "none" if local else "unknown",
            _choice(_RETENTION),
        )
        released = self.ask(
            f"{name}: documented day of its release, YYYY-MM-DD"
            + ("" if control else " (- if open)"),
            "" if control else "-",
            _day(control),
        )
        free = "0" if local else "-"
        return new_study.NewModel(
            name,
            provider,
            version,
            url,
            variable,
            retention,
            released,
            self.ask(f"{name}: USD per million input tokens (- if unknown)", free, _price),
            self.ask(f"{name}: USD per million output tokens (- if unknown)", free, _price),
        )


def _words(answer: str) -> tuple[str, ...]:
    """Return the words between commas, each once."""
    return tuple(dict.fromkeys(word for part in answer.split(",") if (word := part.strip())))


def _text(answer: str) -> str:
    if not answer.strip() or not answer.isprintable():
        raise click.UsageError("give a printable text")
    return answer.strip()


def _choice(known: tuple[str, ...]) -> Callable[[str], str]:
    def read(answer: str) -> str:
        if answer.strip() not in known:
            raise click.UsageError(f"{answer!r} is not one of {', '.join(known)}")
        return answer.strip()

    return read


def _number(least: float, most: float) -> Callable[[str], float]:
    def read(answer: str) -> float:
        try:
            value = float(answer)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            raise click.UsageError(f"give a number from {least:g} to {most:g}")
        return value

    return read


def _count(least: int, most: int) -> Callable[[str], int]:
    def read(answer: str) -> int:
        if not answer.strip().isdecimal() or not least <= int(answer) <= most:
            raise click.UsageError(f"give a whole number from {least} to {most}")
        return int(answer)

    return read


def _price(answer: str) -> float | None:
    return None if answer.strip() == "-" else _number(0, 1_000_000)(answer)


def _variable(answer: str) -> str:
    if answer.strip() == "-":
        return ""
    if not is_variable(answer.strip()):
        raise click.UsageError("a variable has capital letters, digits and _; the key stays out")
    return answer.strip()


def _address(answer: str) -> str:
    if not is_address(answer.strip()):
        raise click.UsageError(
            "an address is http(s)://HOST[:PORT]/PATH, without a user or password"
        )
    return answer.strip()


def _day(control: bool) -> Callable[[str], date | None]:
    """Return a reader of days; that of a control is needed, and lies in the past."""

    def read(answer: str) -> date | None:
        from datetime import date

        if answer.strip() == "-" and not control:
            return None
        try:
            day = date.fromisoformat(answer.strip())
        except ValueError:
            raise click.UsageError("give a day, such as 2025-01-31") from None
        if control and day >= date.fromisoformat(utc_now()[:10]):
            raise click.UsageError("a control model was released before today")
        return day

    return read


def _read_tasks(answer: str) -> tuple[str, ...]:
    """Read tasks, each of which is in the catalogue."""
    from generators.catalog import INSTALLED
    from generators.errors import GeneratorError
    from generators.task import DIFFICULTIES

    names = _words(answer)
    if not names:
        raise click.UsageError("name one task or more; `dosimeter tasks list` lists them")
    for name in names:
        family, _, difficulty = name.partition("/")
        try:
            INSTALLED.family(family)
        except GeneratorError as error:
            raise click.UsageError(str(error)) from None
        if difficulty not in DIFFICULTIES:
            raise click.UsageError(f"{name}: write family/difficulty, of {', '.join(DIFFICULTIES)}")
    return names


def _print_forecast(forecast: StudyForecast) -> None:
    new = forecast.new
    print_line(
        f"{new.seeds_per_arm} instances in each arm of {len(new.tasks)} strata: a gap of "
        f"{100 * new.gap:g} points in one model is found with a chance of "
        f"{100 * forecast.power:.0f} % (simulated, if scores vary as in published results"
        + (f" and as in {forecast.source.words})" if forecast.source else ")")
    )
    rows: list[dict[str, Any]] = [
        {
            "wave": model.wave,
            "model": model.model,
            "episodes": model.episodes,
            "USD, first requests": "free"
            if model.free
            else "unknown"
            if model.first_usd is None
            else f"{model.first_usd:,.2f}",
        }
        for model in forecast.models
    ]
    print_records(rows, title="What it takes")
    source = forecast.source
    if source is not None and source.variance.cost_usd is not None:
        paid, mean = _paid_episodes(forecast), source.variance.cost_usd
        print_line(
            f"an episode of {source.words} costs USD {mean:,.4f} on average: USD "
            f"{paid * mean:,.2f} for the {paid:,} episodes of paid models"
        )
    for wave in sorted({model.wave for model in forecast.models}):
        usd = forecast.first_usd(wave)
        if usd is not None and usd > new.budget:
            print_line(
                f"wave {wave}: the first request of each episode alone costs about "
                f"USD {usd:,.2f}, more than the budget of USD {new.budget:,.2f}"
            )
    print_line(
        "An episode takes several requests, and each repeats what came before: after the first "
        "episodes of a model, `dosimeter sweep --wave N --estimate` has the cost with an interval. "
        "Hours depend on the server."
    )


def _paid_episodes(forecast: StudyForecast) -> int:
    return sum(model.episodes for model in forecast.models if not model.free)
