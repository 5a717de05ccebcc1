"""Questions of ``dosimeter init --guided``, and the size of the study that is written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import click
from click import FloatRange, IntRange

from analysis.power.power import formula_seeds
from registry.provenance import utc_now
from study.errors import StudyError
from study.extras.power.planning import registered_design
from study.extras.power.target_power import LEAST_POWER, TargetPower, find_power
from study.printing import print_line, progress_watch
from study.protocol.protocol import FILE_NAME, PRICES_NAME, Protocol, read_protocol
from study.steps.init.folder import create_study
from study.steps.init.new_study import NewStudy, prices_text, study_name, study_text

T = TypeVar("T")
Watch = Callable[[str, int, int], None]
_MOST_SEEDS = 20_000  # in each arm of a stratum
_STEP, _TRIES = 1.05, 10  # by how much a number grows that falls short, and how often


def size_study(new: NewStudy, now: str, watch: Watch) -> tuple[NewStudy, TargetPower]:
    """Return the study with the seeds that its target gap needs, simulated as before a draw, and
    the power that they give. Raises StudyError if no reachable number is enough, and as reading the
    study does."""
    with _draft(new, now) as protocol:
        seeds = formula_seeds(registered_design(protocol, new.gap), LEAST_POWER)
    basis = f"This number finds a gap of {100 * new.gap:g} points in a model with a chance of 80 %."
    for attempt in range(_TRIES):
        if seeds > _MOST_SEEDS:
            break
        watch("simulating", attempt, 0)
        sized = replace(new, seeds_per_arm=seeds, basis=basis)
        with _draft(sized, now) as protocol:
            power = find_power(protocol)
        if power.suffices:
            return sized, power
        seeds = math.ceil(_STEP * seeds) + 1
    raise StudyError(
        f"a gap of {100 * new.gap:g} points needs more instances than anybody runs: give a "
        "larger target gap, or fewer looks"
    )


@contextmanager
def _draft(new: NewStudy, now: str) -> Iterator[Protocol]:
    """Read the study as it would be written, in a temporary folder."""
    with TemporaryDirectory(prefix="dosimeter-") as name:
        folder = Path(name)
        (folder / FILE_NAME).write_text(study_text(new), encoding="utf-8")
        (folder / PRICES_NAME).write_text(prices_text(now[:10]), encoding="utf-8")
        yield read_protocol(folder)


def write_guided(place: Path, yes: bool) -> Path:
    """Ask, compute the seeds, show them, ask once more, write."""
    now = utc_now()
    try:
        asked = _Questions(yes).study(study_name(place))
        with progress_watch("simulating the plan") as watch:
            new, power = size_study(asked, now, watch)
        print_line(
            f"{new.seeds_per_arm} instances in each arm of {len(new.tasks)} strata: a gap of "
            f"{100 * new.gap:g} points in one model is found with a chance of "
            f"{100 * power.power:.0f} % (simulated, if scores vary as in published results)"
        )
        if not yes and not click.confirm(f"Write {place}?", default=True):
            raise click.Abort
    except (click.Abort, KeyboardInterrupt):
        click.echo("nothing was written (a script gives --yes)", err=True)
        click.get_current_context().exit(130)
    return create_study(place, new, now)


@dataclass(frozen=True, slots=True)
class _Questions:
    """The questions of --guided, each with a default, which --yes takes."""

    yes: bool

    def study(self, name: str) -> NewStudy:
        """Ask for all of a study but its models, which are edited in the file."""
        usual = NewStudy(name)
        tasks = self.ask("Tasks, as family/difficulty", ", ".join(usual.tasks), _read_tasks)
        looks = self.ask("Waves of models under test over the years (looks)", "2", IntRange(1, 20))
        gap = self.ask("Gap to detect in a model, in points of 100", "10", _Range(0.5, 90))
        budget = self.ask("Budget of a wave in USD", f"{usual.budget:g}", _Range(0.01, 1e9))
        return NewStudy(name, tasks, looks=looks, gap=gap / 100, budget=budget)

    def ask(self, text: str, default: str, read: Callable[[str], T]) -> T:
        """Return the answer, read; ask again until it can be read."""
        if self.yes:
            return read(default)
        return click.prompt(text, default=default, value_proc=read)


class _Range(FloatRange):
    """A number in a range. NaN, which lies beside every range, is none."""

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> float:
        number = super().convert(value, parameter, context)
        if number != number:
            self.fail(f"{value} is not in the range {self._describe_range()}.", parameter, context)
        return float(number)


def _read_tasks(answer: str) -> tuple[str, ...]:
    """Read tasks, each of which is in the catalogue."""
    from generators.catalog import INSTALLED
    from generators.errors import GeneratorError
    from generators.task import DIFFICULTIES

    names = tuple(dict.fromkeys(word for part in answer.split(",") if (word := part.strip())))
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
