"""docs/statistics.md from what benchmarks/statistics/run.py has stored."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.statistics.jobs import (
    CLEARING,
    FAULTS,
    LOOK_FAULTS,
    ONE,
    POWER,
    SELECTIVE,
    UNPROTECTED,
    VERDICTS,
    fault_key,
    looks_key,
    one_key,
    verdicts_key,
)
from benchmarks.statistics.mixed_strata import CONTROL_RUNS
from benchmarks.statistics.trials import LOOKS, LOST

COMMAND = "nice -n 15 .venv/bin/python -m benchmarks.statistics.run --write"
FAR = 3.0  # Monte-Carlo errors beyond a target

StoredJobs = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """One cell: a stored rate, and the target that it is held against."""

    job: str
    cell: str
    most: float | None = None
    least: float | None = None
    about: float | None = None

    def rate(self, stored: StoredJobs) -> tuple[float, float] | None:
        """The rate and its error, None if it was not simulated."""
        cell = stored.get(self.job, {}).get("cells", {}).get(self.cell)
        if cell is None and self.job in stored:
            of = stored[self.job]["of"]  # never counted
            return 0.0, (1 / of * (1 - 1 / of) / of) ** 0.5
        return None if cell is None else (cell[0], cell[1])

    def missed(self, stored: StoredJobs) -> bool:
        """True if the rate lies beyond its target by more than ``FAR`` errors."""
        rate = self.rate(stored)
        if rate is None:
            return False
        value, error = rate
        above, below = (
            target is not None and sign * (value - target) > FAR * error
            for target, sign in ((self.most, 1), (self.least, -1))
        )
        apart = self.about is not None and abs(value - self.about) > FAR * error
        return above or below or apart


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    figures: tuple[Figure | None, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A section of the page: words, and rows under heads."""

    title: str
    words: str
    heads: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def figures(self) -> list[Figure]:
        """Its cells that are simulated."""
        return [figure for row in self.rows for figure in row.figures if figure is not None]


def render(stored: StoredJobs) -> str:
    """The page. Cells that are not there yet read "…"."""
    return "\n".join(map(_wrapped, _page(stored))).rstrip() + "\n"


def missed_targets(stored: StoredJobs) -> list[str]:
    """The figures that lie beyond their targets."""
    figures = dict.fromkeys(figure for table in tables() for figure in table.figures)
    return [f"{f.job}: {f.cell}" for f in figures if f.missed(stored)]


def tables() -> list[Table]:
    """The tables in the order of the page."""
    return [
        _wrong(),
        _one(),
        _power(),
        _looks(),
        _verdicts(),
        _clearing(),
        _look_faults(),
        _selective(),
    ]


def _one() -> Table:
    rows = []
    for per_arm, gap, lost in ONE:
        key = one_key(per_arm, gap, lost)
        label = f"{_size(per_arm)} | {_percent(lost[0])} and {_percent(lost[1])}"
        figures = (
            Figure(key, "plan", about=0.025),
            Figure(key, "contaminated", most=0.025),
            Figure(key, "coverage", least=0.95),
        )
        rows.append(Row(label, figures))
    words = (
        "A clean model at one look with all of the alpha. Runs are lost at random, more of them in "
        "the private arm. The test holds its level; a claim stands only if missing runs could not "
        "undo it. The 95 % interval is held against the true gap of 0."
    )
    heads = (
        "instances",
        "lost public and private",
        "adjusted p ≤ .025",
        "contaminated",
        "coverage",
    )
    return Table("False alarms and coverage for one model", words, heads, tuple(rows))


def _power() -> Table:
    rows = []
    for per_arm, gap, lost in POWER:
        key = one_key(per_arm, gap, lost)
        figures = (
            Figure(key, "plan"),
            Figure(key, "oracle"),
            Figure(key, "uncalibrated"),
            Figure(key, "coverage", least=0.95),
        )
        rows.append(Row(f"{_size(per_arm)} | {_points(gap)}", figures))
    words = (
        "One model at one look, .025. The oracle takes off what a clean model is expected to score "
        "on each instance, which nobody knows. The scores as they are have no protection against "
        "faults of the harness."
    )
    heads = ("instances", "leak", "the plan", "oracle", "scores as they are", "coverage")
    return Table("Power against an oracle", words, heads, tuple(rows))


def _looks() -> Table:
    rows = []
    for fault in FAULTS:
        keys = [looks_key(per_arm, fault) for per_arm in (16, 64)]
        models = [Figure(key, "models", most=0.025) for key in keys]
        study = [Figure(key, "study", most=0.025) for key in keys]
        rows.append(Row(f"{_points(fault)}", (*models, *study)))
    sizes = ", ".join(map(str, LOOKS))
    words = (
        f"Eight looks of {sum(LOOKS)} new, clean models on the same instances ({sizes} a look). A "
        "faulty harness raises all public scores alike, those of the control models too. Studies "
        "with at least one false claim of a model, and of the study as a whole (P4). The goal was "
        ".05 for models; the plan promises .025."
    )
    heads = ("shared fault", "models, 4 × 16", "models, 4 × 64", "study, 4 × 16", "study, 4 × 64")
    return Table("Eight looks under faults that all models share", words, heads, tuple(rows))


def _verdicts() -> Table:
    rows = []
    for look in VERDICTS:
        key, forecast = verdicts_key(look), verdicts_key(look, "forecast")
        figures = (
            Figure(key, "contaminated"),
            Figure(forecast, "contaminated") if look.gaps[0] else None,
            Figure(key, "cleared"),
            Figure(key, "inconclusive"),
        )
        label = f"{_size(look.per_arm)} | {look.looks} × {len(look.gaps)}"
        rows.append(Row(f"{label} | {_points(look.gaps[0])}", figures))
    words = (
        "Verdicts on one model of a look; the others of its look are clean. `power` was given the "
        "control models' runs on 64 instances an arm and stratum as its pilot, blind to the arms."
    )
    heads = (
        "instances",
        "looks × models",
        "leak",
        "contaminated",
        "forecast of `power`",
        "no material inflation",
        "inconclusive",
    )
    return Table("Verdicts of a look", words, heads, tuple(rows))


def _clearing() -> Table:
    rows = [
        Row(_size(look.per_arm), (Figure(verdicts_key(look), "any cleared", most=0.05),))
        for look in CLEARING
    ]
    words = (
        f"Looks of {len(CLEARING[0].gaps)} models that all leak by {100 * CLEARING[0].gaps[0]:.1f} "
        "points, half a point above the margin, and any of which the plan clears."
    )
    heads = ("instances", "looks with a false “no material inflation”")
    return Table("False clearing", words, heads, tuple(rows))


def _look_faults() -> Table:
    rows = []
    for fault, frozen in LOOK_FAULTS:
        key = fault_key(fault, frozen)
        figures = (
            Figure(key, "harness changed"),
            Figure(key, "contaminated", most=None if fault else 0.025),
            Figure(key, "no material inflation"),
            Figure(key, "inconclusive"),
        )
        rows.append(Row(f"{CONTROL_RUNS * frozen} | {_points(fault)}", figures))
    words = (
        "A clean model at one look, .025, 4 × 64 instances an arm. The control models ran before "
        "the fault, so that their runs cannot show it; runs of frozen models at the look can. The "
        "plan marks the look if the frozen models changed by arm (.05), and calibrates by their "
        "runs of the look if there are four or more."
    )
    heads = (
        "frozen runs an instance",
        "fault of the look",
        "marked “harness changed”",
        "contaminated",
        "no material inflation",
        "inconclusive",
    )
    return Table("Faults of one look", words, heads, tuple(rows))


def _selective() -> Table:
    rows = [
        Row(
            _size(per_arm),
            (
                Figure(f"selective loss, {per_arm}", "at random"),
                Figure(f"selective loss, {per_arm}", "contaminated", most=0.05),
            ),
        )
        for per_arm in SELECTIVE
    ]
    words = (
        f"Of a clean model {100 * LOST:.1f} % of the runs are lost in each arm: the worst public "
        "and the best private ones."
    )
    heads = ("instances", "adjusted p ≤ .025", "contaminated")
    return Table("Selective loss of runs", words, heads, tuple(rows))


def _wrong() -> Table:
    clean = looks_key(64, 0.0)
    plan_units, plan_study = Figure("wrong units", "plan"), Figure(clean, "study", most=0.025)
    rows = [
        Row(
            "Criteria are not trials | pooled criteria, z",
            (Figure("wrong units", "criteria"), plan_units),
        ),
        Row(
            "Runs are not instances | six runs as six instances, z",
            (Figure("wrong units", "runs"), plan_units),
        ),
        Row(
            "A look costs alpha | each of eight looks at .025",
            (Figure(clean, "each look at .025"), plan_study),
        ),
        Row(
            "Looks share instances and controls | z of eight looks summed as independent",
            (Figure(clean, "sum of looks as independent"), plan_study),
        ),
        Row(
            "Lost runs are not lost at random | the runs that are left, taken for all",
            (
                Figure("selective loss, 64", "at random"),
                Figure("selective loss, 64", "contaminated", most=0.05),
            ),
        ),
    ]
    for per_arm, fault, kind in UNPROTECTED:
        plan = Figure(looks_key(per_arm, fault), "models", most=0.025)
        label = f"Controls calibrate, slope 1 | {kind}, shared fault of {_points(fault)}"
        rows.append(Row(label, (Figure(looks_key(per_arm, fault, kind), "models"), plan)))
    words = "No model has seen anything here, so every alarm is false. Each promises .025."
    heads = ("rule of the plan", "what breaks it", "false alarms", "the plan's instead")
    return Table("One wrong analysis for each rule", words, heads, tuple(rows))


def _size(per_arm: int) -> str:
    return f"4 × {per_arm}"


def _points(gap: float) -> str:
    return "1 point" if gap == 0.01 else f"{100 * gap:.0f} points"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _page(stored: StoredJobs) -> Iterator[str]:
    missed = missed_targets(stored)
    yield "# What the plan does, simulated"
    yield ""
    yield (
        f"Made by `{COMMAND}` from `docs/statistics.json`, which the same command fills; do not "
        "edit. `tests/benchmarks/statistics/test_gate.py` repeats the most important of it in "
        "seconds."
    )
    yield ""
    yield (
        "Scores come from `benchmarks/statistics/mixed_strata.py`, a process that the plan was not "
        "written against: four strata (pass or fail, a rubric of twelve weighted criteria, scores "
        "with many zeros, three ordered levels), skewed difficulty, model failures that score 0, "
        "and four control models with two runs each. The plan's own code decides. 4 × 64 is four "
        "strata of 64 instances an arm."
    )
    yield ""
    yield (
        "Each cell is a rate ± its Monte-Carlo error, and in brackets its target. Figures beyond "
        f"the target by more than {FAR:.0f} errors are bold; there are {len(missed) or 'none'}."
    )
    yield ""
    for table in tables():
        yield from (f"## {table.title}", "", f"{table.words} {_studies(stored, table)}", "")
        yield "| " + " | ".join(table.heads) + " |"
        yield "|" + "---|" * len(table.heads)
        for row in table.rows:
            cells = " | ".join(_words(stored, figure) for figure in row.figures)
            yield f"| {row.label} | {cells} |"
        yield ""


def _studies(stored: StoredJobs, table: Table) -> str:
    """The numbers of studies behind a table, in words."""
    keys = {figure.job for figure in table.figures}
    counts = sorted({stored[key]["of"] for key in keys if key in stored})
    return f"Of {' or '.join(f'{count:,}' for count in counts)} studies." if counts else ""


def _words(stored: StoredJobs, figure: Figure | None) -> str:
    if figure is None:
        return "–"
    rate = figure.rate(stored)
    if rate is None:
        return "…"
    text = f"{_rate(rate[0])} ± {_rate(rate[1]) if rate[1] >= 0.0005 else '<.001'}"
    if figure.missed(stored):
        text = f"**{text}**"
    if figure.most is not None:
        return f"{text} (≤ {_rate(figure.most)})"
    if figure.least is not None:
        return f"{text} (≥ {_rate(figure.least)})"
    return text if figure.about is None else f"{text} ({_rate(figure.about)})"


def _rate(value: float) -> str:
    text = f"{value:.3f}"
    return text.removeprefix("0") if value < 1 else text


def _wrapped(line: str) -> str:
    """Prose in lines of 110 characters; tables and headings as they are."""
    return line if line.startswith(("|", "#")) else textwrap.fill(line, 110)
