"""docs/statistics.md from what benchmarks/statistics/run.py has stored."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import hypot
from typing import Any

from analysis.plan.verdict import NO_INFLATION
from benchmarks.statistics.jobs import (
    BORDERS,
    CLEARING,
    COVERAGE,
    FAULTS,
    FORECAST,
    LOOK_FAULTS,
    ONE,
    POWER,
    RANDOM_LOSS,
    SELECTIVE,
    UNPROTECTED,
    VERDICTS,
    fault_key,
    looks_key,
    loss_key,
    one_key,
    random_loss_key,
    verdicts_key,
)
from benchmarks.statistics.mixed_strata import CONTROL_RUNS
from benchmarks.statistics.trials import LOOKS, LOST, Look

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
    forecast: str = ""  # of the same cell, the name of its job

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
        return above or below or apart or self._unforeseen(stored, value, error)

    def _unforeseen(self, stored: StoredJobs, value: float, error: float) -> bool:
        expected = Figure(self.forecast, self.cell).rate(stored)
        return expected is not None and abs(value - expected[0]) > FAR * hypot(error, expected[1])


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    figures: tuple[Figure | None, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A section of the page: words, and rows under heads."""

    title: str
    words: str
    heads: str  # of the columns, as in the page
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
        _random_loss(),
        _borders(),
    ]


def _one() -> Table:
    rows = []
    for case in ONE:
        per_arm, _, lost = case
        figures = (
            Figure(one_key(*case), "plan", about=0.025),
            Figure(one_key(*case), "contaminated", most=0.025),
            *_coverage(case),
        )
        losses = f"{_percent(lost[0])} and {_percent(lost[1])}"
        rows.append(Row(f"{_size(per_arm)} | {losses}", figures))
    words = (
        "A clean model at one look with all of the alpha. Runs are lost at random, more of them in "
        "the private arm. The test holds its level; a claim stands only if missing runs could not "
        "undo it. The true gap of 0 is held against the 95 % interval and the one-sided 95 % bound."
    )
    heads = (
        "instances | lost public and private | adjusted p ≤ .025 | contaminated | "
        "inside the interval | above the bound"
    )
    return Table("False alarms and coverage for one model", words, heads, tuple(rows))


def _power() -> Table:
    rows = []
    for case in POWER:
        per_arm, gap, _ = case
        claims = (Figure(one_key(*case), name) for name in ("plan", "oracle", "uncalibrated"))
        figures = (*claims, *_coverage(case))
        rows.append(Row(f"{_size(per_arm)} | {_points(gap)}", figures))
    words = (
        "One model at one look, .025. The oracle, which is the target, takes off what a clean "
        "model is expected to score on each instance, which nobody knows; the difference is the "
        "price of eight control runs in its place. The scores as they are have no protection "
        "against faults of the harness."
    )
    heads = (
        "instances | leak | the plan | oracle | scores as they are | inside the interval | "
        "above the bound"
    )
    return Table("Power against an oracle", words, heads, tuple(rows))


def _coverage(case: tuple[int, float, tuple[float, float]]) -> tuple[Figure, Figure]:
    key = one_key(*case, COVERAGE)
    return Figure(key, "coverage", least=0.95), Figure(key, "above the bound", most=0.05)


def _looks() -> Table:
    rows = []
    for fault in FAULTS:
        keys = [looks_key(per_arm, fault) for per_arm in (16, 64)]
        models = [Figure(key, "models", most=0.025) for key in keys]
        study = [Figure(key, "study", most=0.025) for key in keys]
        rows.append(Row(f"{_points(fault)}", (*models, *study)))
    sizes = ", ".join(map(str, LOOKS))
    words = (
        f"Eight looks of {sum(LOOKS)} new, clean models on the same instances ({sizes} a look), of "
        "which there are 64 an arm (4 × 16) or 256 (4 × 64). A faulty harness raises all public "
        "scores alike, those of the control models too. Studies with at least one false claim of a "
        "model, and of the study as a whole (P4). The goal was .05 for models; the plan promises "
        ".025."
    )
    heads = "shared fault | models, 64 an arm | models, 256 | study, 64 an arm | study, 256"
    return Table("Eight looks under faults that all models share", words, heads, tuple(rows))


def _verdicts() -> Table:
    rows = []
    for look in VERDICTS:
        key, gap = verdicts_key(look), look.gaps[0]
        forecast = verdicts_key(look, FORECAST)
        figures: tuple[Figure | None, ...] = (
            Figure(key, "contaminated", most=0.025 / look.looks),
            None,
            Figure(key, "cleared", forecast=forecast),
            Figure(forecast, "cleared"),
        )
        if gap:
            figures = (
                Figure(key, "contaminated", forecast=forecast),
                Figure(forecast, "contaminated"),
                Figure(key, "cleared", most=0.05 if gap == look.plan.margin else None),
                None,
            )
        figures = (*figures, Figure(key, "inconclusive"))
        rows.append(Row(_setting(look), figures))
    words = (
        "Verdicts on one model of a look; the others of its look are clean. The forecasts are of "
        "`power`, from the control models' runs on 64 instances an arm and stratum as its pilot, "
        "blind to the arms. Cleared: no inflation of the published instances above the margin of "
        "5 points."
    )
    heads = (
        "instances | looks × models | leak | contaminated | forecast | cleared | forecast | "
        "inconclusive"
    )
    return Table("Verdicts of a look", words, heads, tuple(rows))


def _setting(look: Look) -> str:
    size = f"{_size(look.per_arm)} | {look.looks} × {len(look.gaps)}"
    return f"{size} | {_points(look.gaps[0])}"


def _clearing() -> Table:
    rows = [
        Row(_size(look.per_arm), (Figure(verdicts_key(look), "any cleared", most=0.05),))
        for look in CLEARING
    ]
    words = (
        f"Looks of {len(CLEARING[0].gaps)} models that all leak by {100 * CLEARING[0].gaps[0]:.1f} "
        "points, half a point above the margin, and any of which the plan clears."
    )
    heads = "instances | looks that clear a model"
    return Table("False clearing", words, heads, tuple(rows))


def _look_faults() -> Table:
    rows = []
    for fault, frozen in LOOK_FAULTS:
        key = fault_key(fault, frozen)
        figures = (
            Figure(key, "harness changed", None if fault or not frozen else 0.05),
            Figure(key, "contaminated", None if fault else 0.025),
            Figure(key, NO_INFLATION),
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
        "frozen runs an instance | fault of the look | marked “harness changed” | contaminated | "
        "cleared | inconclusive"
    )
    return Table("Faults of one look", words, heads, tuple(rows))


def _selective() -> Table:
    rows = []
    for per_arm, of in SELECTIVE:
        key = loss_key(per_arm, of)
        figures = Figure(key, "at random"), Figure(key, "contaminated", most=0.05)
        rows.append(Row(f"{_size(per_arm)} | {of}", figures))
    words = (
        f"{100 * LOST:.1f} % of the runs are lost in each arm: of a clean model the worst public "
        "and the best private ones, or of the control models the best public and the worst private "
        "ones; claims on this model. Or of each of three clean models at each of eight looks: "
        "claims on the study as a whole (P4)."
    )
    heads = "instances | runs lost of | the runs that are left, taken for all | contaminated"
    return Table("Selective loss of runs", words, heads, tuple(rows))


def _random_loss() -> Table:
    rows = [
        Row(
            _percent(share),
            (
                Figure(random_loss_key(share), "at random"),
                Figure(random_loss_key(share), "contaminated"),
            ),
        )
        for share in RANDOM_LOSS
    ]
    words = (
        "What that protection costs: a leak of 10 points at one look, .025, 4 × 64 instances an "
        "arm, of which control runs are lost at random. Run lost episodes again."
    )
    heads = "control runs lost | adjusted p ≤ .025 | contaminated"
    return Table("Random loss of control runs", words, heads, tuple(rows))


def _borders() -> Table:
    rows = []
    for key in BORDERS:
        costs = "nothing leaks" in key or key.endswith("found")
        most = None if costs else 0.025 if "alarm" in key else 0.01
        rows.append(Row(key, (Figure(key, "without"), Figure(key, "with", most=most))))
    words = (
        "What would be said wrongly without a rule of the plan, and with it; and, where nothing "
        "leaks or a leak is found, what the rule costs. Another process: items passed by a "
        "two-parameter logistic curve, with difficulties of heavy tails, in strata of equal size."
    )
    return Table(
        "Words that the data do not carry", words, "data: word | without | with", tuple(rows)
    )


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
            (Figure(loss_key(64), "at random"), Figure(loss_key(64), "contaminated", most=0.05)),
        ),
    ]
    for per_arm, fault, kind in UNPROTECTED:
        plan = Figure(looks_key(per_arm, fault), "models", most=0.025)
        label = f"Controls calibrate, slope 1 | {kind}, shared fault of {_points(fault)}"
        rows.append(Row(label, (Figure(looks_key(per_arm, fault, kind), "models"), plan)))
    words = "No model has seen anything here, so every alarm is false. Each promises .025."
    heads = "rule of the plan | what breaks it | false alarms | the plan's instead"
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
        f"the target, or off the forecast beside them, by more than {FAR:.0f} errors are bold; "
        f"there are {len(missed) or 'none'}."
    )
    yield ""
    for table in tables():
        yield from (f"## {table.title}", "", f"{table.words} {_studies(stored, table)}", "")
        yield f"| {table.heads} |"
        yield "|" + "---|" * len(table.heads.split(" | "))
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
