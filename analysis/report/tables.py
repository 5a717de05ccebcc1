"""The report's tables as text, for the page and the Markdown: what a reader sees of the numbers.

The first cell of a row names it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from analysis.plan import SENSITIVITY, PrimaryResult, SensitivityResult, look_alpha
from analysis.probes import MEASURES, TextExposure
from analysis.report.figures import Timeline
from analysis.report.report import FunnelRow, Report
from analysis.report.sections import DimensionMean
from analysis.report.wording import control_count, evidence_words, range_words, score_words
from analysis.stats import MeanEstimate, p_words, points, signed
from registry.result_row import Arm, Status

NONE = "–"
_WHOLE = "whole"
_SENSITIVITY = {
    "false-discovery": "Benjamini–Hochberg over all models and looks, exploratory",
    "burned-versus-virgin": "scores on burned private instances less those on unexposed ones: a "
    "gap here says that the private arm has leaked to the model",
}
_OPEN_ROWS = 24  # a longer table is folded
_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True)
class StatusCell:
    """A verdict's word as a cell."""

    word: str


Cell = str | StatusCell


@dataclass(frozen=True, slots=True)
class ColumnHead:
    """A column's label; ``number`` columns are aligned to the right."""

    label: str
    number: bool = False


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table of the page. A ``folded`` one is opened by its reader; ``tables/`` has its numbers
    too."""

    name: str
    caption: str
    columns: tuple[ColumnHead, ...]
    rows: tuple[tuple[Cell, ...], ...]
    folded: str = ""  # the label of the table while it is closed


def tabulate(
    name: str,
    caption: str,
    rows: Iterable[_Row],
    columns: Mapping[str, Callable[[_Row], object]],
    fold: str = "",
) -> ReportTable:
    """A table with a row for each item: ``columns`` maps a label to what its cell shows, as text.

    ``#`` before a label marks numbers; ``fold`` names a table that is folded when it is long.
    """
    cells = tuple(tuple(_cell(show(row)) for show in columns.values()) for row in rows)
    return ReportTable(name, caption, _heads(columns), cells, _fold(fold, cells) if fold else "")


def verdict_table(report: Report) -> ReportTable:
    """The registered verdicts."""
    adjusted = ", adjusted for the instances' difficulty"
    return tabulate(
        "verdicts",
        "Gap: mean score on public minus mean score on private instances, averaged over strata, "
        f"in points of 100{adjusted if any(look.covered for look in report.looks) else ''}. "
        "p is one-sided; adjusted p is held against "
        f"{look_alpha(report.plan):.4g} in each look. Controls: of those that the verdict rests "
        "on. Instances: public + private.",
        report.verdicts,
        {
            "Model": lambda v: v.model,
            "#Wave": lambda v: v.wave,
            "Verdict": lambda v: StatusCell(v.verdict),
            "#Gap": lambda v: _signed(v.estimate),
            "#95 % interval": lambda v: range_words(v.interval),
            "#p": lambda v: p_words(v.p),
            "#Adjusted p": lambda v: p_words(v.p_adjusted),
            "#Controls passed": lambda v: control_count(v, report.controls),
            "#Instances": lambda v: f"{v.n_public} + {v.n_private}",
        },
    )


def exploratory_table(report: Report) -> ReportTable:
    """Verdicts that were not registered."""
    return tabulate(
        "exploratory",
        "Exploratory: not registered. Gap in points of 100.",
        report.exploratory,
        {
            "Model": lambda v: v.model,
            "#Wave": lambda v: v.wave,
            "Test": lambda v: f"{v.hypothesis} (exploratory)",
            "Would be": lambda v: v.verdict,
            "#Gap": lambda v: _signed(v.estimate),
            "#95 % interval": lambda v: range_words(v.interval),
            "#Adjusted p": lambda v: p_words(v.p_adjusted),
        },
    )


def control_table(report: Report) -> ReportTable:
    """The controls at their waves."""
    passed = {True: "passed", False: "failed", None: "not run"}
    return tabulate(
        "controls",
        "Controls at their waves. C1: models that cannot have seen the published instances show no "
        "gap. C2: an agent that was given public keys is found. C3: all is graded exactly; or a "
        "second grader says the same, and what it now says of archived answers moved no arm alone.",
        report.controls,
        {
            "Control": lambda c: f"{c.kind}, {c.what}",
            "#Wave": lambda c: c.wave,
            "Result": lambda c: passed[c.passed],
            "#Gap": lambda c: _signed(c.gap),
            "#90 % interval": lambda c: range_words(c.interval90),
            "#p": lambda c: _p(c.p),
            "What was seen": lambda c: c.says,
        },
    )


def monitor_table(report: Report) -> ReportTable:
    """The study-level monitoring, look by look."""
    monitoring = report.monitoring
    rejected = None if monitoring is None else monitoring.rejected_at
    return tabulate(
        "monitoring",
        "Study-level monitoring. T: the largest standardised gap over windows of looks that end "
        "here. It rejects where T is removed by the threshold of the look.",
        () if monitoring is None else monitoring.looks,
        {
            "Wave": lambda look: f"wave {look.wave}",
            "Models": lambda look: ", ".join(look.models),
            "#Gap of this look": lambda look: signed(look.gap),
            "#T": lambda look: f"{look.statistic:.2f}",
            "Window": lambda look: _window(look.onset, look.wave),
            "#Threshold": lambda look: NONE if look.threshold is None else f"{look.threshold:.2f}",
            "#Alpha spent": lambda look: f"{look.spent:.4g}",
            "Result": lambda look: _rejection(look.wave, rejected),
        },
    )


def onset_table(report: Report) -> ReportTable:
    """The onset process, wave by wave."""
    onset = None if report.monitoring is None else report.monitoring.onset
    bound = "" if onset is None else f" It rejects where E reaches {1 / onset.alpha:g}."
    rejected = None if onset is None else onset.rejected_at
    return tabulate(
        "onset",
        f"Onset process: evidence for a gap that begins at any look.{bound}",
        () if onset is None else onset.values,
        {
            "Wave": lambda row: f"wave {row[0]}",
            "#E": lambda row: evidence_words(row[1]),
            "Result": lambda row: _rejection(row[0], rejected),
        },
    )


def exposure_table(report: Report) -> ReportTable:
    """The probes from memory."""
    return tabulate(
        "exposure",
        "Answers from memory, without the instance's data: mean score in points of 100.",
        report.exposure,
        {
            "Model": lambda e: e.model,
            "#Wave": lambda e: e.wave,
            "#Public": lambda e: points(e.public),
            "#Private": lambda e: points(e.private),
            "#Gap": lambda e: signed(e.gap),
            "#95 % interval": lambda e: range_words(e.interval),
            "#p": lambda e: p_words(e.p),
            "#Adjusted p": lambda e: p_words(e.p_adjusted),
            "Result": lambda e: "exposed" if e.exposed else "not shown",
        },
    )


def text_table(report: Report) -> ReportTable:
    """How likely the models find the texts."""

    def interval(row: TextExposure) -> str:
        return NONE if row.interval is None else " to ".join(_nats(e, "+") for e in row.interval)

    return tabulate(
        "texts",
        "Exploratory: how likely each model finds the text of public and of private instances. "
        "Loss: mean negative log-probability of a token, in nats; lower on public speaks for "
        "exposure. Min-K% and Min-K%++ (k = 20): higher on public does. Adjusted p: over all rows "
        "of a wave.",
        report.texts,
        {
            "Model": lambda t: t.model,
            "#Wave": lambda t: t.wave,
            "Measure": lambda t: MEASURES[t.measure][0],
            "#Public": lambda t: _nats(t.public),
            "#Private": lambda t: _nats(t.private),
            "#Gap": lambda t: _nats(t.gap, "+"),
            "#95 % interval": interval,
            "#p": lambda t: p_words(t.p),
            "#Adjusted p": lambda t: p_words(t.p_adjusted),
        },
    )


def time_table(report: Report, line: Timeline) -> ReportTable:
    """The verdicts by family of models, in the order of time."""
    verdicts = [point.verdict for _, points_of in line.families for point in points_of]
    return tabulate(
        "time",
        "Gaps in time. Dates are those that are documented of the models; a dash: not known.",
        [(verdict, report.fact(verdict.model)) for verdict in verdicts],
        {
            "Model": lambda row: row[0].model,
            "Family": lambda row: row[1].family or NONE,
            "Released": lambda row: row[1].released or NONE,
            "Training cut-off": lambda row: row[1].cutoff or NONE,
            "#Wave": lambda row: row[0].wave,
            "#Gap": lambda row: _signed(row[0].estimate),
            "#95 % interval": lambda row: range_words(row[0].interval),
            "Verdict": lambda row: StatusCell(row[0].verdict),
        },
    )


def score_table(report: Report, *, by_stratum: bool) -> ReportTable:
    """Mean scores by arm: over all strata, or in each."""
    means: dict[tuple[int, str, str], dict[Arm, MeanEstimate]] = defaultdict(dict)
    for mean in report.means:
        if bool(mean.stratum) == by_stratum:
            means[mean.wave, mean.model, mean.stratum][mean.arm] = mean.estimate

    def score(arm: Arm) -> Callable[[tuple[int, str, str]], str]:
        return lambda key: _mean(means[key].get(arm))

    return tabulate(
        "strata" if by_stratum else "scores",
        "Mean score in points of 100, with its 95 % interval where scores differ"
        + (", by stratum." if by_stratum else ", averaged over strata."),
        sorted(means),
        {
            "Model": lambda key: key[1],
            "#Wave": lambda key: key[0],
            **({"Stratum": lambda key: key[2]} if by_stratum else {}),
            "#Public": score(Arm.PUBLIC),
            "#Private": score(Arm.PRIVATE),
        },
        fold="Scores by stratum" if by_stratum else "",
    )


def dimension_table(report: Report) -> ReportTable:
    """Mean scores by dimension of the rubrics and by arm."""
    means: dict[tuple[int, str, str], dict[Arm, DimensionMean]] = defaultdict(dict)
    for mean in report.dimensions:
        means[mean.wave, mean.model, mean.dimension][mean.arm] = mean

    def score(arm: Arm) -> Callable[[tuple[int, str, str]], str]:
        return lambda key: score_words(means[key][arm].mean, means[key][arm].interval)

    return tabulate(
        "dimensions",
        "Mean score by dimension of the rubrics, in points of 100, with its 95 % interval, over "
        "the strata whose rubrics have it.",
        means,
        {
            "Model": lambda key: key[1],
            "#Wave": lambda key: key[0],
            "Dimension": lambda key: key[2],
            "#Strata": lambda key: means[key][Arm.PUBLIC].strata,
            "#Public": score(Arm.PUBLIC),
            "#Private": score(Arm.PRIVATE),
        },
        fold="Scores by dimension",
    )


def funnel_table(report: Report) -> ReportTable:
    """What became of the episodes owed, by model and arm."""

    def public_first(row: FunnelRow) -> tuple[int, str, bool]:
        return row.wave, row.model, row.arm != Arm.PUBLIC

    return tabulate(
        "episodes",
        "What became of the episodes owed. “Not run”: owed by the plan, without any result.",
        sorted(report.funnel, key=public_first),
        {
            "Model": lambda r: r.model,
            "#Wave": lambda r: r.wave,
            "Arm": lambda r: r.arm,
            "#Owed": lambda r: r.owed,
            "#Run": lambda r: r.owed - r.absent,
            "#Scored": lambda r: r.scored,
            "#Model failure": lambda r: r.model_failure,
            "#Missing": lambda r: r.missing,
            "#Not run": lambda r: r.absent,
            "#Instances dropped": lambda r: r.seeds_dropped,
        },
        fold="Episodes by model and arm",
    )


def cause_table(report: Report) -> ReportTable:
    """Why episodes have no score of their own."""
    counts: dict[tuple[int, str, str, str], dict[Arm, int]] = defaultdict(dict)
    for loss in report.losses:
        kind = "missing" if loss.status is Status.MISSING else "model failure"
        counts[loss.wave, loss.model, kind, loss.cause][loss.arm] = loss.episodes
    return tabulate(
        "causes",
        "Episodes without a score of their own, by cause and arm. Missing: the class of the error "
        "where infrastructure failed; model failure: how the attempt stopped.",
        counts.items(),
        {
            "Model": lambda row: row[0][1],
            "#Wave": lambda row: row[0][0],
            "Kind": lambda row: row[0][2],
            "Cause": lambda row: row[0][3],
            "#Public": lambda row: row[1].get(Arm.PUBLIC, 0),
            "#Private": lambda row: row[1].get(Arm.PRIVATE, 0),
        },
        fold="Causes",
    )


def effort_table(report: Report) -> ReportTable:
    """Rounds, calls and seconds by model."""
    return tabulate(
        "effort",
        "Rounds, calls and seconds, means over episodes; both arms together.",
        report.effort,
        {
            "Model": lambda e: e.model,
            "#Wave": lambda e: e.wave,
            "#Episodes": lambda e: e.episodes,
            "#Rounds": lambda e: f"{e.rounds:.1f}",
            "#Most rounds": lambda e: e.most_rounds,
            "#Calls": lambda e: f"{e.calls:.1f}",
            "#Without calls": lambda e: e.without_calls,
            "#Hit a limit": lambda e: e.limited,
            "#Seconds": lambda e: f"{e.seconds:.1f}",
        },
    )


def tool_table(report: Report) -> ReportTable:
    """Calls by model and tool."""
    return tabulate(
        "tools",
        "Calls by tool, both arms together. Failed: refused, or a program that ended with an "
        "error. Tools that no study has, or that are rarely called, are counted as (other).",
        () if report.tools is None else report.tools.by_tool,
        {
            "Model": lambda t: t.model,
            "#Wave": lambda t: t.wave,
            "Tool": lambda t: t.tool,
            "#Calls": lambda t: t.calls,
            "#Of all calls": lambda t: f"{100 * t.share:.0f} %",
            "#Episodes": lambda t: t.episodes,
            "#Median seconds": lambda t: (
                NONE if t.median_seconds is None else f"{t.median_seconds:.2f}"
            ),
            "#Failed": lambda t: t.failed,
            "Limits": lambda t: t.limits or NONE,
        },
        fold="Calls by tool",
    )


def cost_table(report: Report) -> ReportTable:
    """The cost of the attempts that count."""
    return tabulate(
        "costs",
        "Cost of the attempts that count, by the dated price file, both arms together. Attempts "
        "that failed and judges are counted by the budget, not here.",
        report.costs,
        {
            "Model": lambda c: c.model,
            "#Wave": lambda c: c.wave,
            "#Episodes": lambda c: c.episodes,
            "#USD": lambda c: _usd(c.usd, free=c.free),
            "#Priced": lambda c: c.priced,
            "#Input tokens": lambda c: _count(c.input_tokens),
            "#Output tokens": lambda c: _count(c.output_tokens),
        },
    )


def further_table(report: Report) -> ReportTable:
    """The numbers behind each verdict."""

    def adjusted_p(result: PrimaryResult) -> str:
        return NONE if result.unadjusted is None else p_words(result.p_adjusted_unadjusted)

    def interval90(result: PrimaryResult) -> str:
        return NONE if result.equivalence is None else range_words(result.equivalence.interval90)

    def missing(result: PrimaryResult) -> str:
        shares = result.missing.share_public, result.missing.share_private
        return ", ".join(map(_percent, shares))

    return tabulate(
        "tests",
        "Further numbers: the gap without the covariate; the share of variance that the "
        "covariate takes off; equivalence, whose 90 % interval is held against the margin; missing "
        "runs by arm, p of a difference, and, where that asks for it, adjusted p with them filled "
        "against the claim.",
        [result for look in report.looks for result in look.results],
        {
            "Model": lambda r: r.verdict.model,
            "#Wave": lambda r: r.verdict.wave,
            "#Unadjusted gap": lambda r: NONE if r.unadjusted is None else signed(r.unadjusted.gap),
            "#Its adjusted p": adjusted_p,
            "#Variance taken off": lambda r: _percent(r.outcomes[0].rho2) if r.outcomes else NONE,
            "#90 % interval": interval90,
            "#Missing, public and private": missing,
            "#p of missing": lambda r: p_words(r.missing.p),
            "#Adverse bound, p": lambda r: _p(r.missing.bound_p_adjusted),
        },
        fold="Behind each verdict",
    )


def excluded_table(report: Report) -> ReportTable:
    """Models that were left out of a look."""
    return tabulate(
        "excluded",
        "Left out of a look, as the plan says.",
        [(model, look.wave, why) for look in report.looks for model, why in look.excluded],
        {
            "Model": lambda row: row[0],
            "#Wave": lambda row: row[1],
            "Why": lambda row: row[2],
        },
    )


def burned_table(report: Report) -> ReportTable:
    """Burned private instances, by model."""
    return tabulate(
        "burned",
        "Private instances whose inputs the model's provider may have kept from an earlier run, or "
        "that have leaked. Left out: of the primary test, with the public ones of their tranche.",
        report.burned,
        {
            "Model": lambda b: b.model,
            "#Wave": lambda b: b.wave,
            "#Burned": lambda b: b.burned,
            "#Unexposed": lambda b: b.unexposed,
            "#Left out": lambda b: b.left_out,
            "#Staying in the test": lambda b: b.staying,
        },
    )


def burn_test_table(report: Report) -> ReportTable | None:
    """Burned against unexposed private instances; None if no look has both."""
    name = "burned-versus-virgin"
    rows = [row for row in report.sensitivity if row.analysis == name]
    return _sensitivity_table(name, rows) if rows else None


def sensitivity_tables(report: Report) -> tuple[ReportTable, ...]:
    """A table for each sensitivity analysis; of strata left out, the extremes."""
    grouped: dict[str, list[SensitivityResult]] = defaultdict(list)
    for row in report.sensitivity:
        grouped[row.analysis].append(row)
    return tuple(_sensitivity_table(name, rows) for name, rows in grouped.items())


def served_table(report: Report) -> ReportTable:
    """The models, as they were asked for and served."""

    def settings(pairs: Iterable[tuple[str, str]]) -> str:
        return ", ".join(f"{name} {json.loads(value)}" for name, value in pairs) or NONE

    return tabulate(
        "served",
        "Models: the version asked for, and what the provider said it served; the tranches run (0: "
        "the panel), and what is documented of what the provider keeps.",
        report.served,
        {
            "Model": lambda s: s.model,
            "#Wave": lambda s: s.wave,
            "Provider": lambda s: s.provider,
            "Asked for": lambda s: s.asked,
            "Served": lambda s: ", ".join(s.served) or "nothing served",
            "Settings": lambda s: settings(s.settings),
            "Tranches": lambda s: ", ".join(map(str, s.tranches)),
            "Data kept": lambda s: s.retention or NONE,
        },
    )


def _sensitivity_table(name: str, results: Sequence[SensitivityResult]) -> ReportTable:
    caption = _SENSITIVITY.get(name) or SENSITIVITY.get(name, name)
    if name == "leave-one-stratum-out":
        columns = _heads(("Model", "#Wave", "#Smallest gap", "Without", "#Largest p", "Without"))
        rows = tuple(_left_out_rows(results))
    else:
        table = tabulate(
            name,
            caption,
            results,
            {
                "Model": lambda a: a.model,
                "#Wave": lambda a: a.wave,
                "Part": lambda a: a.detail or _WHOLE,
                "#Gap": lambda a: _signed(a.estimate),
                "#95 % interval": lambda a: range_words(a.interval),
                "#p": lambda a: _p(a.p),
                "#Adjusted p": lambda a: _p(a.p_adjusted),
                "Note": lambda a: a.note or NONE,
            },
        )
        columns, rows = table.columns, table.rows
    # Columns that say something: not those in which every row has a dash, or is whole.
    kept = [place for place in range(len(columns)) if {row[place] for row in rows} - {NONE, _WHOLE}]
    return ReportTable(
        f"sensitivity-{name}",
        f"{caption[:1].upper()}{caption[1:]}.",
        tuple(columns[place] for place in kept),
        tuple(tuple(row[place] for place in kept) for row in rows),
        _fold(name, rows),
    )


def _left_out_rows(results: Sequence[SensitivityResult]) -> Iterable[tuple[Cell, ...]]:
    by_model: dict[tuple[int, str], list[SensitivityResult]] = defaultdict(list)
    for result in results:
        by_model[result.wave, result.model].append(result)
    for (wave, model), parts in by_model.items():
        gaps = [(a.estimate, a.detail) for a in parts if a.estimate is not None]
        ps = [(a.p, a.detail) for a in parts if a.p is not None]
        if gaps and ps:
            (gap, smallest), (p, largest) = min(gaps), max(ps)
            without = [stratum.removeprefix("without ") for stratum in (smallest, largest)]
            yield model, str(wave), signed(gap), without[0], p_words(p), without[1]


def _heads(labels: Iterable[str]) -> tuple[ColumnHead, ...]:
    return tuple(ColumnHead(label.removeprefix("#"), label.startswith("#")) for label in labels)


def _cell(value: object) -> Cell:
    return value if isinstance(value, StatusCell) else str(value)


def _fold(what: str, rows: Sequence[object]) -> str:
    return f"{what}: {len(rows)} rows" if len(rows) > _OPEN_ROWS else ""


def _rejection(wave: int, rejected: int | None) -> str:
    if rejected is None or wave < rejected:
        return "does not reject"
    return "rejects" if wave == rejected else f"rejected at wave {rejected}"


def _window(first: int, last: int) -> str:
    return f"wave {last}" if first == last else f"waves {first} to {last}"


def _mean(estimate: MeanEstimate | None) -> str:
    return NONE if estimate is None else score_words(estimate.mean, estimate.interval)


def _signed(value: float | None) -> str:
    return NONE if value is None else signed(value)


def _p(value: float | None) -> str:
    return NONE if value is None else p_words(value)


def _nats(value: float, sign: str = "") -> str:
    return f"{value:{sign}.3f}".replace("-", "−")


def _percent(share: float) -> str:
    return NONE if share != share else f"{points(share)} %"


def _usd(value: float | None, *, free: bool) -> str:
    if value is not None:
        return f"{value:.2f}" if value >= 0.1 or value == 0 else f"{value:.4f}"
    return "built-in, none" if free else "unknown"


def _count(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"
