"""docs/statistics.md from what benchmarks/statistics/run.py has stored."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.statistics.alternative_tests import detectable_effect
from benchmarks.statistics.jobs import (
    ADJUSTED,
    DETECTABLE,
    EQUIVALENT,
    NEEDED,
    POWER_GAPS,
    POWER_ROWS,
    SIZES,
    equivalence_key,
    power_key,
    saved_key,
    size_key,
)
from benchmarks.statistics.simulate_process import REGIMES, Design, Effect

COMMAND = "nice -n 15 .venv/bin/python -m benchmarks.statistics.run --write"
SPEC_REPLICATIONS = 1000  # where the specification does not say; for how near is near enough
NEAR = 3.0  # in units of the combined Monte-Carlo error of this run and the specification's

StoredJobs = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """One cell: a stored value, and what the specification has."""

    job: str
    cell: str
    spec: float | None = None
    look: bool = False  # a mean look, not a rate


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    figures: tuple[Figure | None, ...]


@dataclass(frozen=True, slots=True)
class Table:
    heads: tuple[str, ...]
    rows: tuple[Row, ...]


def render(stored: StoredJobs) -> str:
    """The page. Cells that are not there yet read "…"."""
    return "\n".join(map(_wrapped, _page(stored))).rstrip() + "\n"


def _wrapped(line: str) -> str:
    """Prose in lines of 110 characters; tables and headings as they are."""
    return line if line.startswith(("|", "#")) else textwrap.fill(line, 110)


def agreement(stored: StoredJobs) -> tuple[int, list[str]]:
    """How many figures stand beside one of the specification's, and which differ by more than
    NEAR errors."""
    checked, apart = 0, []
    for table in _tables().values():
        for row in table.rows:
            for figure in row.figures:
                value = figure and _find(stored, figure)
                if figure is None or not value or figure.spec is None:
                    continue
                checked += 1
                if not _near(figure, value):
                    apart.append(f"{figure.job}: {figure.cell}")
    return checked, apart


def _find(stored: StoredJobs, figure: Figure) -> tuple[float, float] | None:
    cell = stored.get(figure.job, {}).get("cells", {}).get(figure.cell)
    return None if cell is None else (cell[0], cell[1])


def _near(figure: Figure, cell: tuple[float, float]) -> bool:
    assert figure.spec is not None
    value, error = cell
    other = 0.1 if figure.look else _spec_error(figure.spec)
    rounding = 0.05 if figure.look else 0.005 if figure.spec >= 0.1 else 0.0005
    return abs(value - figure.spec) <= NEAR * math.hypot(error, other) + rounding


def _spec_error(rate: float) -> float:
    kept = min(max(rate, 1 / SPEC_REPLICATIONS), 1 - 1 / SPEC_REPLICATIONS)
    return math.sqrt(kept * (1 - kept) / SPEC_REPLICATIONS)


def _words(stored: StoredJobs, figure: Figure | None) -> str:
    if figure is None:
        return "–"
    cell = _find(stored, figure)
    if cell is None:
        return "…"
    value, error = cell
    text = f"{value:.1f}" if figure.look else _rate(value)
    if error and not figure.look:
        text += f" ± {_rate(error) if error >= 0.0005 else '<.001'}"
    if figure.spec is not None:
        other = f"{figure.spec:.1f}" if figure.look else _rate(figure.spec)
        text += f" ({other})" if _near(figure, cell) else f" (**{other}**)"
    return text


def _rate(value: float) -> str:
    text = f"{value:.3f}"
    return text.removeprefix("0") if value < 1 else text


def _markdown(stored: StoredJobs, table: Table) -> Iterator[str]:
    yield "| " + " | ".join(table.heads) + " |"
    yield "|" + "---|" * len(table.heads)
    for row in table.rows:
        yield (
            f"| {row.label} | "
            + " | ".join(_words(stored, figure) for figure in row.figures)
            + " |"
        )
    yield ""


def _tables() -> dict[str, Table]:
    return {
        "regimes": _regimes(),
        "sizes": _sizes(),
        "power": _power(),
        "detectable": _detectable(),
        "needed": _needed(),
        "covariate": _covariate(),
        "outcomes": _outcomes(),
        "equivalence": _equivalence(),
        "coverage": _coverage(),
        "looks": _looks(),
        "models": _models(),
        "wrong": _wrong(),
    }


def _regimes() -> Table:
    names = ("SD of a score", "SD of a fraction", "stable share")
    spec = {"A": (0.267, None, 0.04), "B": (0.267, None, 0.32), "C": (0.267, None, 0.50)}
    rows = [
        Row(
            name,
            tuple(Figure(f"regime {name}", n, s) for n, s in zip(names, spec[name], strict=True)),
        )
        for name in REGIMES
    ]
    return Table(("regime", *names), tuple(rows))


_SIZE_ROWS: tuple[tuple[str, str, tuple[float | None, ...]], ...] = (
    ("pooled criteria, z (about Fisher's)", "pooled criteria", (0.734, 0.725, 0.721, 0.815, 0.821)),
    (
        "the article's interval (criteria independent)",
        "article",
        (0.173, 0.180, 0.184, 0.351, 0.336),
    ),
    ("runs as independent, z", "runs", (None, None, None, 0.198, 0.164)),
    ("cluster-robust CR1, z", "cr1", (0.069, 0.057, 0.052, 0.096, 0.052)),
    ("Welch's t on seed means, tasks pooled", "welch", (0.038, 0.046, 0.044, 0.047, 0.036)),
    ("stratified t, Satterthwaite (P2)", "satterthwaite", (0.041, 0.050, 0.051, 0.047, 0.042)),
    ("**stratified permutation (P1)**", "permutation", (0.047, 0.051, 0.049, 0.056, 0.042)),
    (
        "**permutation with ANCOVA (D5)**",
        "permutation, ANCOVA",
        (0.047, 0.051, 0.050, 0.049, 0.050),
    ),
    ("GEE of criteria, sandwich", "gee", (0.098, 0.063, None, 0.080, None)),
    ("GEE of criteria, bias-reduced (S3)", "gee, bias-reduced", (0.042, 0.053, None, 0.044, None)),
)


def _sizes() -> Table:
    rows = [
        Row(
            label,
            tuple(
                Figure(size_key(d, r), name, s) if name != "runs" or d.runs > 1 else None
                for (d, r), s in zip(SIZES, spec, strict=True)
            ),
        )
        for label, name, spec in _SIZE_ROWS
    ]
    mixed = Figure("mixed C K4 S4 R3", "mixed", 0.064)
    rows.append(Row("mixed model, seed intercept (S3)", (None, None, None, mixed, None)))
    bayes = [
        Figure(f"bayes {where}", "bayes", spec)
        for where, spec in (("A K4 S4 R1", 0.78), ("C K4 S4 R3", 0.77))
    ]
    label = "mixed logistic model of criteria, variational Bayes (120 and 60 replications)"
    rows.append(Row(label, (bayes[0], None, None, bayes[1], None)))
    heads = tuple(
        f"{regime} K{d.tasks} S{d.seeds}" + (f" R{d.runs}" if d.runs > 1 else "")
        for d, regime in SIZES
    )
    return Table(("test", *heads), tuple(rows))


def _power() -> Table:
    spec: tuple[tuple[float | None, ...], ...] = (
        (0.04, 0.09, 0.17, 0.61),
        (0.06, 0.18, 0.59, 1.0),
        (0.15, 0.60, 0.995, 1.0),
        (0.38, 0.998, 1.0, 1.0),
        (0.11, 0.45, 0.97, 1.0),
        (0.30, 0.96, 1.0, 1.0),
        (None, 0.95, 1.0, 1.0),
    )
    rows = [
        Row(
            _design(d),
            tuple(
                Figure(power_key(d, "A", Effect("all", gap)), "score", s)
                for gap, s in zip(POWER_GAPS, row, strict=True)
            ),
        )
        for d, row in zip(POWER_ROWS, spec, strict=True)
    ]
    sparse = zip(POWER_GAPS[1:], (0.48, 0.98, 1.0), strict=True)
    rows.append(
        Row(
            "K4 S64, on few seeds nine in ten failures fixed",
            (
                None,
                *(
                    Figure(power_key(Design(4, 64), "A", Effect("sparse", gap)), "score", s)
                    for gap, s in sparse
                ),
            ),
        )
    )
    return Table(("design", *(f"{100 * gap:.0f} points" for gap in POWER_GAPS)), tuple(rows))


def _design(design: Design) -> str:
    runs = f" R{design.runs}" if design.runs > 1 else ""
    return f"K{design.tasks} S{design.seeds}{runs}"


def _detectable() -> Table:
    rows = []
    for design, gap in DETECTABLE:
        formula = detectable_effect(design, REGIMES["A"])
        label = f"{_design(design)} | {100 * gap:.1f} | {100 * formula:.1f}"
        figure = Figure(power_key(design, "A", Effect("all", gap)), "score", 0.80)
        rows.append(Row(label, (figure,)))
    heads = ("design", "specified, points", "by formula, points", "power at the specified (.80)")
    return Table(heads, tuple(rows))


def _needed() -> Table:
    spec = (0.81, 0.83, 0.83, 0.90, 0.80)
    rows = [
        Row(
            f"{_design(d)} | {d.tasks * d.seeds} | {100 * gap:.0f}",
            (Figure(power_key(d, "A", Effect("all", gap)), "score", s),),
        )
        for (d, gap), s in zip(NEEDED, spec, strict=True)
    ]
    return Table(("design", "instances an arm", "gap, points", "power"), tuple(rows))


def _covariate() -> Table:
    saved = {
        ("A", 1): None,
        ("A", 3): None,
        ("B", 1): 0.13,
        ("B", 3): 0.23,
        ("C", 1): 0.33,
        ("C", 3): 0.50,
    }
    power = {
        ("A", 1): (0.605, 0.603, 0.50),
        ("A", 3): (0.95, None, 0.81),
        ("C", 3): (0.75, 0.96, None),
    }
    known = {(r, d.runs): power_key(d, r, Effect("all", 0.05)) for d, r in ADJUSTED}
    rows = []
    for (regime, runs), share in saved.items():
        figures: list[Figure | None] = [Figure(saved_key(regime, runs), "saved", share)]
        key = known.get((regime, runs))
        spec = power.get((regime, runs), (None, None, None))
        figures += [
            Figure(key, name, s) if key else None  # where there is no such job
            for name, s in zip(("score", "ANCOVA", "difference"), spec, strict=True)
        ]
        rows.append(Row(f"{regime} R{runs}", tuple(figures)))
    heads = (
        "regime",
        "variance saved",
        "power unadjusted",
        "power, ANCOVA",
        "power, difference in differences",
    )
    return Table(heads, tuple(rows))


def _outcomes() -> Table:
    design, names = Design(4, 64), ("score", "fraction", "max-T")
    cases = (
        ("all criteria, 5 points", Effect("all", 0.05), (0.56, 0.77, 0.74)),
        ("final answers only, 3.3 points", Effect("final", 0.033), (0.29, 0.03, 0.23)),
        ("nothing", Effect("all", 0), (None, None, 0.027)),
    )
    rows = [
        Row(
            label,
            tuple(
                Figure(power_key(design, "A", effect), n, s)
                for n, s in zip(names, spec, strict=True)
            ),
        )
        for label, effect, spec in cases
    ]
    return Table(
        ("inflated", "weighted score", "fraction of criteria", "max-T of both"), tuple(rows)
    )


def _equivalence() -> Table:
    rows = []
    for d, s in zip(EQUIVALENT, (0.80, 0.90), strict=True):
        without, at = equivalence_key(d, 0.0), equivalence_key(d, 0.05)
        figures = (
            Figure(without, "equivalent", s),
            Figure(without, "no inflation"),
            Figure(at, "equivalent"),
            Figure(at, "no inflation", 0.05),
        )
        rows.append(Row(f"{_design(d)} | {d.tasks * d.seeds}", figures))
    heads = (
        "design",
        "instances an arm",
        "“equivalent” where there is none",
        "“no material inflation” where there is none",
        "“equivalent” at 5 points",
        "“no material inflation” at 5 points",
    )
    return Table(heads, tuple(rows))


def _coverage() -> Table:
    rows = [
        Row(f"{regime} {_design(d)}, no effect", (Figure(size_key(d, regime), "coverage", 0.95),))
        for d, regime in SIZES
    ]
    cases = [(d, "A", 0.05) for d in POWER_ROWS] + [(Design(4, 16, 3), "C", 0.05)]
    rows += [
        Row(
            f"{regime} {_design(d)}, 5 points",
            (Figure(power_key(d, regime, Effect("all", gap)), "coverage", 0.95),),
        )
        for d, regime, gap in cases
    ]
    return Table(("design", "intervals that hold the truth"), tuple(rows))


_LOOK_ROWS: tuple[tuple[str, str, tuple[float | None, ...], tuple[float | None, ...]], ...] = (
    # rule, cell; null A, null C, A, C, C + ANCOVA, C fresh; mean looks of the powers
    ("each look at .025, uncorrected", "uncorrected", (0.190, 0.108, None, None, None, None), ()),
    (
        "Bonferroni over looks",
        "Bonferroni",
        (0.034, 0.020, 0.91, 0.41, 0.87, 0.67),
        (5.0, None, 4.7, None),
    ),
    (
        "LD-OBF on Stouffer's sum (looks as independent)",
        "LD-OBF, Stouffer",
        (0.050, 0.214, None, None, None, 0.88),
        (None, None, None, 6.4),
    ),
    (
        "LD-OBF on cumulative seed means",
        "LD-OBF, cumulative",
        (0.025, 0.021, 0.95, 0.24, 0.70, 0.88),
        (6.1, None, None, 6.4),
    ),
    (
        "joint randomisation, spending, cumulative",
        "joint, cumulative",
        (0.029, 0.028, 0.93, 0.27, 0.68, None),
        (6.0, None, None, None),
    ),
    (
        "**joint randomisation, spending, window scan (P4)**",
        "joint, window scan",
        (0.027, 0.027, 0.996, 0.49, 0.92, None),
        (5.1, None, 4.9, None),
    ),
    (
        "product of the looks' e-values",
        "product of e-values",
        (0.011, 0.100, 0.64, None, None, 0.51),
        (),
    ),
    (
        "e-process, cumulative normal mixture",
        "e-process, cumulative",
        (0.009, 0.004, 0.75, 0.06, 0.34, 0.61),
        (),
    ),
    (
        "e-process, onset mixture (P4's continuation)",
        "e-process, onset",
        (0.009, 0.001, 0.97, 0.29, 0.97, 0.81),
        (5.6, None, 5.4, None),
    ),
)
_LOOK_SCENES = ("null A", "null C, same seeds", "A", "C, same seeds", "C, ANCOVA", "C, fresh seeds")


def _looks() -> Table:
    rows = []
    for label, cell, spec, looks in _LOOK_ROWS:
        figures = [
            Figure(f"looks {scene}", cell, s) for scene, s in zip(_LOOK_SCENES, spec, strict=True)
        ]
        mean = looks[0] if looks else None
        figures.append(Figure("looks A", f"{cell}, look", mean, look=True))
        rows.append(Row(label, tuple(figures)))
    heads = (
        "rule",
        "null A",
        "null C, same seeds",
        "power A",
        "power C, same seeds",
        "power C, ANCOVA",
        "power C, fresh seeds",
        "mean look, A",
    )
    return Table(heads, tuple(rows))


def _models() -> Table:
    spec: tuple[tuple[str, str, tuple[float | None, ...]], ...] = (
        ("uncorrected at .025", "uncorrected", (0.38, 0.09, 0.82)),
        ("Holm within a look at .025/8", "Holm", (0.03, 0.014, 0.47)),
        ("**Westfall–Young within a look at .025/8 (P3)**", "Westfall–Young", (0.027, 0.011, 0.45)),
        ("LORD++, .05", "LORD++", (0.01, 0.003, 0.31)),
        ("SAFFRON, .05", "SAFFRON", (0.12, 0.027, 0.54)),
        ("Benjamini–Hochberg at the end, .05", "BH", (0.20, 0.039, 0.72)),
        ("Benjamini–Yekutieli at the end, .05", "BY", (0.06, 0.017, 0.53)),
    )
    rows = []
    for label, rule, figures in spec:
        own = [
            Figure("models A", f"{rule}, {n}", s)
            for n, s in zip(("FWER", "FDR", "power"), figures, strict=True)
        ]
        westfall = rule == "Westfall–Young"
        own.append(Figure("models C", f"{rule}, power", 0.42 if westfall else None))
        own.append(Figure("models C, ANCOVA", f"{rule}, power", 0.69 if westfall else None))
        rows.append(Row(label, tuple(own)))
    heads = ("rule", "FWER, A", "FDR, A", "power, A", "power, C", "power, C, ANCOVA")
    return Table(heads, tuple(rows))


def _wrong() -> Table:
    small, repeated = size_key(*SIZES[0]), size_key(*SIZES[3])
    rows = (
        Row(
            "Criteria are not trials | pooled Fisher over criteria | .05",
            (Figure(small, "pooled criteria", 0.734), Figure(small, "permutation", 0.047)),
        ),
        Row(
            "… nor made so by a mixed model of them | variational Bayes, its SD as an error | .05",
            (Figure("bayes A K4 S4 R1", "bayes", 0.78), Figure(small, "permutation", 0.047)),
        ),
        Row(
            "Runs are not instances | runs as independent, z (C, R3) | .05",
            (Figure(repeated, "runs", 0.198), Figure(repeated, "permutation", 0.056)),
        ),
        Row(
            "Looks that share seeds are not independent | Stouffer's sum against LD-OBF (C) | .025",
            (
                Figure("looks null C, same seeds", "LD-OBF, Stouffer", 0.214),
                Figure("looks null C, same seeds", "joint, window scan"),
            ),
        ),
        Row(
            "… nor made so by adjusting | the same after ANCOVA (C) | .025",
            (
                Figure("looks null C, ANCOVA", "LD-OBF, Stouffer", 0.138),
                Figure("looks null C, ANCOVA", "joint, window scan"),
            ),
        ),
        Row(
            "… nor are their e-values | product of e-values ≥ 40 (C) | .025",
            (
                Figure("looks null C, same seeds", "product of e-values", 0.100),
                Figure("looks null C, same seeds", "joint, window scan"),
            ),
        ),
        Row(
            "A look costs alpha | each of 8 looks at .025 (A) | .025",
            (
                Figure("looks null A", "uncorrected", 0.190),
                Figure("looks null A", "joint, window scan"),
            ),
        ),
        Row(
            "… also where data accumulate | the sum so far at .025, every look (A) | .025",
            (Figure("looks null A", "peeking"), Figure("looks null A", "joint, window scan")),
        ),
    )
    return Table(
        ("rule of the plan", "what breaks it", "promised", "false alarms", "the plan's instead"),
        rows,
    )


def _page(stored: StoredJobs) -> Iterator[str]:
    tables = _tables()
    checked, apart = agreement(stored)
    most = max((job["of"] for job in stored.values()), default=0)
    yield "# What the tests do, simulated"
    yield ""
    yield (
        f"Made by `{COMMAND}` from `docs/statistics.json`, which the same command fills; do not "
        "edit. The tests of the quick gates are "
        "`tests/benchmarks/statistics/test_simulate_process.py`."
    )
    yield ""
    yield (
        f"Each cell is ours ± its Monte-Carlo error, of {most:,} replications unless said, and in "
        "brackets the figure of the project's specification, found by other code and drawn by "
        f"another stream. Of {checked} pairs {checked - len(apart)} agree within {NEAR:.0f} errors "
        f"(with {SPEC_REPLICATIONS:,} replications assumed of theirs); the others are bold. K is "
        "tasks (strata), S seeds an arm and task, R runs a seed. Sizes are two-sided at .05; power "
        "counts public above private at one-sided .025; permutation tests draw 999, which 100 "
        "replications share."
    )
    yield ""
    yield from _section(
        stored,
        tables,
        "regimes",
        "Where scores come from",
        "`benchmarks/statistics/simulate_process.py`: four tasks of 7 to 9 metarubrics and 38 to "
        "211 criteria, passed "
        "by chances that share normal latents of the seed, of the seed and model, of the run and "
        "of the metarubric in a run. A resembles published results (a seed's own difficulty is "
        "4 % of the variance); B and C are hypothetical. By quadrature, without error.",
    )
    yield from _section(
        stored,
        tables,
        "wrong",
        "One wrong analysis for each rule",
        "No model has seen anything here, so every alarm is false.",
    )
    yield from _section(
        stored,
        tables,
        "sizes",
        "False alarms without effect",
        "Only what takes the seed's mean as its unit keeps its promise with few seeds.",
    )
    yield from _section(stored, tables, "coverage", "Coverage of the 95 % interval (P2)", "")
    yield from _section(
        stored, tables, "power", "Power of the permutation test", "Regime A, weighted score."
    )
    yield from _section(
        stored,
        tables,
        "needed",
        "Instances needed",
        "Equal numbers of runs buy about equal power: rather more seeds than more runs.",
    )
    yield from _section(
        stored,
        tables,
        "detectable",
        "Detectable effects at 80 % power",
        "Regime A. The specification's figures are those of the formula, (z.975 + z.80) × SE. It "
        "takes the public arm to vary as the private one does; large inflation presses scores "
        "towards 1, and the power is then higher (bold).",
    )
    yield from _section(
        stored,
        tables,
        "covariate",
        "What scores from before exposure save (D5)",
        "Four runs of four other models. K4 S64, 5 points. A slope of one (difference in "
        "differences) costs power where they tell little; the fitted one costs nothing.",
    )
    yield from _section(
        stored,
        tables,
        "outcomes",
        "Which outcome (P1)",
        "K4 S64, regime A, one-sided .025. The larger of both standardised gaps is near the better "
        "one, whichever that is.",
    )
    yield from _section(
        stored,
        tables,
        "equivalence",
        "“No material inflation” and “equivalent” (P5)",
        "Of one model and one outcome; a plan asks it of every outcome, with Holm's method over "
        "the models of a look. The upper one-sided 95 % bound lies below 5 points; “equivalent” "
        "asks that the 90 % "
        "interval lie within ±5 (TOST), which is what the specification's numbers of instances are "
        "for. At a true 5 points at most one study in twenty may say either.",
    )
    yield from _section(
        stored,
        tables,
        "looks",
        "Eight looks (P4)",
        "Three new models at each look, 128 instances an arm, one stratum, Gaussian scores, "
        "one-sided .025 over all looks; powers for 5 points from look 4 on. Powers of rules that "
        "do not keep .025 mean nothing.",
    )
    yield from _section(
        stored,
        tables,
        "models",
        "Claims about models (P3)",
        "24 models in eight looks, six of them at random inflated by 10 points, 128 instances an "
        f"arm; power is the share of inflated models that are named. {_of(stored, 'models A')}",
    )


def _of(stored: StoredJobs, job: str) -> str:
    return f"Of {stored[job]['of']:,} replications." if job in stored else ""


def _section(
    stored: StoredJobs, tables: Mapping[str, Table], name: str, title: str, words: str
) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    if words:
        yield words
        yield ""
    yield from _markdown(stored, tables[name])
