"""The report's tables as text, for the page and the Markdown: columns as data."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from analysis.plan.controls import ControlResult
from analysis.plan.monitoring import Monitored
from analysis.plan.negative_controls import AGREES, DISAGREES, NOT_RUN, UNINFORMATIVE
from analysis.plan.presets import OUTCOME_WORDS, SENSITIVITY, look_alpha
from analysis.plan.results import PrimaryResult
from analysis.plan.sensitivity import SensitivityResult
from analysis.plan.verdict import BOUNDED, ESTIMATE, Verdict
from analysis.report.figures.timeline import make_timeline
from analysis.report.part import NONE, ColumnHead, Columns, ReportTable, StatusCell, tabulate
from analysis.report.report import FunnelRow, Report
from analysis.report.wording import gap_words, range_words, score_words, window_words
from analysis.stats.intervals import p_words, points, signed
from analysis.words import words_in
from registry.result_row import Arm, Status

_WHOLE = "whole"
_ENDS = {" floor": 0.0, " ceiling": 1.0}  # of the scale
_BURNED = "burned-versus-virgin"
_Columns = Columns | Callable[[Report], Columns]  # they may depend on the report


def tables_of(report: Report) -> dict[str, ReportTable]:
    """The tables of a report by name, those without rows too."""
    return {name: table_of(report, name) for name in _TABLES}


def table_of(report: Report, name: str) -> ReportTable:
    """One table of a report; its words stand in ``words.yaml``."""
    rows, columns = _TABLES[name]
    words = words_in("analysis.report", "words.yaml")["tables"][name]
    calibrated = any(look.covered for look in report.looks)
    caption = words["caption"].format(
        calibrated=", calibrated by the control models" if calibrated else "",
        alpha=look_alpha(report.plan),
        outcomes="; ".join(f"{o}, {OUTCOME_WORDS.get(o, o)}" for o in report.plan.outcomes),
        margin=signed(report.plan.margin),
    )
    made = columns(report) if callable(columns) else columns
    return tabulate(name, caption, rows(report), made, words.get("fold", ""))


def sensitivity_tables(report: Report) -> tuple[ReportTable, ...]:
    """A table for each sensitivity analysis; of strata left out, the extremes."""
    grouped: dict[str, list[SensitivityResult]] = defaultdict(list)
    for row in report.sensitivity:
        grouped[row.analysis].append(row)
    return tuple(_sensitivity_table(name, rows) for name, rows in grouped.items())


def burn_test_table(report: Report) -> ReportTable | None:
    """Burned against unexposed private instances; None if no look has both."""
    rows = [row for row in report.sensitivity if row.analysis == _BURNED]
    return _sensitivity_table(_BURNED, rows) if rows else None


def _sensitivity_table(analysis: str, results: Sequence[SensitivityResult]) -> ReportTable:
    others = words_in("analysis.report", "words.yaml")["sensitivity"]
    words = others.get(analysis) or SENSITIVITY.get(analysis, analysis)
    name, caption = f"sensitivity-{analysis}", f"{words[:1].upper()}{words[1:]}."
    if analysis == "leave-one-stratum-out":
        table = tabulate(name, caption, _extremes(results), _EXTREMES, analysis)
        heads = (*table.columns[:-1], ColumnHead("Without"))  # a label that another column has
        return replace(table, columns=heads)
    table = tabulate(name, caption, results, _SENSITIVITY_COLUMNS, analysis)
    # Columns that say something: not those in which every row has a dash, or is whole.
    kept = [i for i, cells in enumerate(zip(*table.rows, strict=True)) if {*cells} - {NONE, _WHOLE}]
    return replace(
        table,
        columns=tuple(table.columns[place] for place in kept),
        rows=tuple(tuple(row[place] for place in kept) for row in table.rows),
    )


def _extremes(results: Sequence[SensitivityResult]) -> Iterator[tuple[object, ...]]:
    """Of each model, the smallest gap and the largest p, with the stratum that is left out."""
    by_model: dict[tuple[int, str], list[SensitivityResult]] = defaultdict(list)
    for result in results:
        by_model[result.wave, result.model].append(result)
    for (wave, model), parts in by_model.items():
        gaps = [(a.estimate, a.detail) for a in parts if a.estimate is not None]
        ps = [(a.p, a.detail, a.p_floor) for a in parts if a.p is not None]
        if gaps and ps:
            (gap, smallest), (p, largest, floor) = min(gaps), max(ps)
            without = [stratum.removeprefix("without ") for stratum in (smallest, largest)]
            yield model, wave, signed(gap), without[0], p_words(p, floor), without[1]


# -- values of cells


def _rejection(wave: int, process: Monitored | None) -> str:
    rejected = None if process is None else process.rejected_at
    if rejected is None or wave < rejected:
        return "does not reject"
    return "rejects" if wave == rejected else f"rejected at wave {rejected}"


def _p(value: float | None, floor: float = 0.0) -> str:
    return NONE if value is None else p_words(value, floor)


def _percent(share: float) -> str:
    return NONE if share != share else f"{points(share)} %".replace("-", "−")


def _usd(value: float | None, *, free: bool) -> str:
    if value is not None:
        return f"{value:.2f}" if value >= 0.1 or value == 0 else f"{value:.4f}"
    return "built-in, none" if free else "unknown"


def _count(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _settings(pairs: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {json.loads(value)}" for name, value in pairs) or NONE


def _ranks(result: PrimaryResult) -> str:
    ranks = result.missing.rank_public, result.missing.rank_private
    return ", ".join(NONE if rank is None else f"{rank:.2f}" for rank in ranks)


def _tipping(result: PrimaryResult) -> str:
    missing = result.missing
    if missing.tipping is None:
        return NONE
    if missing.tipping.share is None:
        return "none"
    return f"{missing.tipping.runs} of {missing.public + missing.private}"


def _bound(verdict: Verdict) -> str:
    decides = verdict.verdict in BOUNDED and verdict.estimate is not None
    return signed(verdict.deciding_bound) if decides else NONE


def _score(report: Report, arm: Arm) -> Callable[[Verdict], str]:
    """The mean score of an arm; marked if no score of either arm is above 0, or below 1."""

    def of(verdict: Verdict) -> str:
        arms = report.arms(verdict)
        end = next((word for word, end in _ENDS.items() if {*arms.values()} == {end}), "")
        return f"{points(arms[arm])}{end}" if arm in arms else NONE

    return of


def _verdict_p(name: str) -> Callable[[Verdict], str]:
    return lambda v: NONE if v.verdict == ESTIMATE else p_words(getattr(v, name), v.p_floor)


# -- rows that are joined from several parts of a report


def _score_rows(report: Report, *, by_stratum: bool) -> Iterator[tuple[object, ...]]:
    means: dict[tuple[int, str, str], dict[Arm, str]] = defaultdict(dict)
    for mean in report.means:
        if bool(mean.stratum) == by_stratum:
            words = score_words(mean.estimate.mean, mean.estimate.interval)
            means[mean.wave, mean.model, mean.stratum][mean.arm] = words
    for (wave, model, stratum), arms in sorted(means.items()):
        yield model, wave, stratum, arms.get(Arm.PUBLIC, NONE), arms.get(Arm.PRIVATE, NONE)


def _dimension_rows(report: Report) -> Iterator[tuple[object, ...]]:
    means: dict[tuple[object, ...], dict[Arm, str]] = defaultdict(dict)
    for mean in report.dimensions:
        words = score_words(mean.mean, mean.interval)
        means[mean.model, mean.wave, mean.dimension, mean.strata][mean.arm] = words
    for key, arms in means.items():
        yield *key, arms[Arm.PUBLIC], arms[Arm.PRIVATE]


def _funnel_rows(report: Report) -> list[FunnelRow]:
    return sorted(report.funnel, key=lambda row: (row.wave, row.model, row.arm != Arm.PUBLIC))


def _cause_rows(report: Report) -> Iterator[tuple[object, ...]]:
    counts: dict[tuple[object, ...], dict[Arm, int]] = defaultdict(dict)
    for loss in report.losses:
        kind = "missing" if loss.status is Status.MISSING else "model failure"
        counts[loss.model, loss.wave, kind, loss.cause][loss.arm] = loss.episodes
    for key, arms in counts.items():
        yield *key, arms.get(Arm.PUBLIC, 0), arms.get(Arm.PRIVATE, 0)


def _control_rows(controls: Sequence[ControlResult]) -> list[tuple[str, dict[str, list[int]]]]:
    """Each control with its waves by state."""
    rows: dict[str, dict[str, list[int]]] = {}
    for control in controls:
        states = rows.setdefault(f"{control.kind}, {control.what}", defaultdict(list))
        states[control.state].append(control.wave)
    return list(rows.items())


def _control_columns(report: Report) -> Columns:
    states = [AGREES, UNINFORMATIVE, DISAGREES]
    if any(control.state == NOT_RUN for control in report.controls):
        states.append(NOT_RUN)

    def of(state: str) -> Callable[[Any], object]:
        return lambda row: _waves(row[1][state])

    return {"Control": 0, **{state.capitalize(): of(state) for state in states}}


def _waves(waves: Sequence[int]) -> str:
    """Waves in words; three or more in a row as a range."""
    if not waves:
        return NONE
    runs = [
        [wave for _, wave in run]
        for _, run in groupby(enumerate(sorted(waves)), lambda at: at[1] - at[0])
    ]
    parts = (f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return f"{'wave' if len(waves) == 1 else 'waves'} {', '.join(parts)}"


# -- the tables

_MODEL: Columns = {"Model": "model", "#Wave": "wave"}
_GAP: Columns = {
    "#Gap": lambda row: gap_words(row.estimate),
    "#95 % interval": lambda row: range_words(None if row.estimate is None else row.interval),
}
_SENSITIVITY_COLUMNS: Columns = {
    **_MODEL,
    "Part": lambda a: a.detail or _WHOLE,
    **_GAP,
    "#p": lambda a: _p(a.p, a.p_floor),
    "#Adjusted p": lambda a: _p(a.p_adjusted, a.p_floor),
    "Note": lambda a: a.note or NONE,
}
_EXTREMES: Columns = {
    **{"Model": 0, "#Wave": 1, "#Smallest gap": 2, "Without": 3},
    **{"#Largest p": 4, "Without, of p": 5},
}
_TABLES: Mapping[str, tuple[Callable[[Report], Iterable[Any]], _Columns]] = {
    "verdicts": (
        lambda report: report.verdicts,
        lambda report: {
            **_MODEL,
            "Verdict": lambda v: StatusCell(v.verdict),
            "#Public": _score(report, Arm.PUBLIC),
            "#Private": _score(report, Arm.PRIVATE),
            "Outcome": lambda v: v.outcome or NONE,
            **_GAP,
            "#Bound": _bound,
            "#Adjusted p": _verdict_p("p_adjusted"),
            "#Instances": lambda v: f"{v.n_public} + {v.n_private}",
        },
    ),
    "before_publication": (
        lambda report: report.before_publication,
        {
            **_MODEL,
            "#Gap": lambda e: gap_words(e.gap),
            "#95 % interval": lambda e: range_words(None if e.gap is None else e.interval),
            "#Instances": lambda e: f"{e.n_public} + {e.n_private}",
        },
    ),
    "exploratory": (
        lambda report: report.exploratory,
        {
            **_MODEL,
            "Test": lambda v: f"{v.hypothesis} (exploratory)",
            "Would be": "verdict",
            **_GAP,
            "#Adjusted p": _verdict_p("p_adjusted"),
        },
    ),
    "control_states": (lambda report: _control_rows(report.controls), _control_columns),
    "controls": (
        lambda report: report.controls,
        {
            "Control": lambda c: f"{c.kind}, {c.what}",
            "#Wave": "wave",
            "Result": "state",
            "#Gap": lambda c: gap_words(c.gap),
            "#90 % interval": lambda c: range_words(c.interval90),
            "#p": lambda c: _p(c.p, c.p_floor),
            "What was seen": "says",
        },
    ),
    "monitoring": (
        lambda report: report.monitoring.looks if report.monitoring else (),
        lambda report: {
            "Wave": lambda look: f"wave {look.wave}",
            "Models": lambda look: ", ".join(look.models),
            "#Gap of this look": lambda look: signed(look.gap),
            "#T": lambda look: f"{look.statistic:.2f}",
            "Window": lambda look: window_words(look.onset, look.wave),
            "#Threshold": lambda look: NONE if look.threshold is None else f"{look.threshold:.2f}",
            "#Alpha spent": lambda look: f"{look.spent:.4g}",
            "Result": lambda look: _rejection(look.wave, report.monitoring),
        },
    ),
    "time": (
        lambda report: [p.verdict for _, points in make_timeline(report).families for p in points],
        lambda report: {
            "Model": "model",
            "Family": lambda v: report.fact(v.model).family or NONE,
            "Released": lambda v: report.fact(v.model).released or NONE,
            "Training cut-off": lambda v: report.fact(v.model).cutoff or NONE,
            "#Wave": "wave",
            **_GAP,
            "Verdict": lambda v: StatusCell(v.verdict),
        },
    ),
    "scores": (
        lambda report: _score_rows(report, by_stratum=False),
        {"Model": 0, "#Wave": 1, "#Public": 3, "#Private": 4},
    ),
    "strata": (
        lambda report: _score_rows(report, by_stratum=True),
        {"Model": 0, "#Wave": 1, "Stratum": 2, "#Public": 3, "#Private": 4},
    ),
    "dimensions": (
        _dimension_rows,
        {"Model": 0, "#Wave": 1, "Dimension": 2, "#Strata": 3, "#Public": 4, "#Private": 5},
    ),
    "episodes": (
        _funnel_rows,
        {
            **_MODEL,
            "Arm": "arm",
            "#Owed": "owed",
            "#Run": lambda row: row.owed - row.absent,
            "#Scored": "scored",
            "#Model failure": "model_failure",
            "#Missing": "missing",
            "#Not run": "absent",
            "#Instances dropped": "seeds_dropped",
        },
    ),
    "causes": (
        _cause_rows,
        {"Model": 0, "#Wave": 1, "Kind": 2, "Cause": 3, "#Public": 4, "#Private": 5},
    ),
    "effort": (
        lambda report: report.effort,
        {
            **_MODEL,
            "#Episodes": "episodes",
            "#Rounds": lambda e: f"{e.rounds:.1f}",
            "#Most rounds": "most_rounds",
            "#Calls": lambda e: f"{e.calls:.1f}",
            "#Without calls": "without_calls",
            "#Hit a limit": "limited",
            "#Seconds": lambda e: f"{e.seconds:.1f}",
        },
    ),
    "costs": (
        lambda report: report.costs,
        {
            **_MODEL,
            "#Episodes": "episodes",
            "#USD": lambda c: _usd(c.usd, free=c.free),
            "#Priced": "priced",
            "#Input tokens": lambda c: _count(c.input_tokens),
            "#Output tokens": lambda c: _count(c.output_tokens),
        },
    ),
    "tests": (
        lambda report: report.tested,
        {
            "Model": "verdict.model",
            "#Wave": "verdict.wave",
            "#Unadjusted gap": lambda r: gap_words(r.unadjusted and r.unadjusted.gap),
            "#Its adjusted p": lambda r: (
                NONE
                if r.unadjusted is None
                else p_words(r.p_adjusted_unadjusted, r.p_floor_unadjusted)
            ),
            "#Variance taken off": lambda r: _percent(r.outcomes[0].rho2) if r.outcomes else NONE,
            "#90 % interval": lambda r: range_words(r.equivalence and r.equivalence.interval90),
            "#p of the gap": lambda r: p_words(r.verdict.p, r.verdict.p_floor),
            "#p of clearing": lambda r: p_words(r.verdict.p_clear),
        },
    ),
    "stratum_gaps": (
        lambda report: [
            (result.model, result.verdict.wave, gap)
            for result in report.tested
            for gap in result.strata
        ],
        {
            "Model": 0,
            "#Wave": 1,
            "Stratum": lambda row: row[2].stratum,
            "#Gap": lambda row: signed(row[2].gap),
            "#95 % interval": lambda row: range_words(row[2].interval),
            "#Instances": lambda row: f"{row[2].n_public} + {row[2].n_private}",
        },
    ),
    "missing": (
        lambda report: [r for r in report.tested if r.missing.public or r.missing.private],
        {
            "Model": "verdict.model",
            "#Wave": "verdict.wave",
            "#Public": lambda r: f"{r.missing.public} ({_percent(r.missing.share_public)})",
            "#Private": lambda r: f"{r.missing.private} ({_percent(r.missing.share_private)})",
            "#p": lambda r: p_words(r.missing.p),
            "#Ranks": _ranks,
            "#p of ranks": lambda r: _p(r.missing.rank_p),
            "#Gap, filled": lambda r: gap_words(r.missing.blind_gap),
            "#Adjusted p, filled": lambda r: _p(r.missing.blind_p),
            "#Tipping point": _tipping,
        },
    ),
    "excluded": (
        lambda report: [
            (model, look.wave, why) for look in report.looks for model, why in look.excluded
        ],
        {"Model": 0, "#Wave": 1, "Why": 2},
    ),
    "served": (
        lambda report: report.served,
        {
            **_MODEL,
            "Provider": "provider",
            "Asked for": "asked",
            "Served": lambda s: ", ".join(s.served) or "nothing served",
            "Settings": lambda s: _settings(s.settings),
            "Tranches": lambda s: ", ".join(map(str, s.tranches)),
            "Data kept": lambda s: s.retention or NONE,
        },
    ),
    "burned": (
        lambda report: report.burned,
        {
            **_MODEL,
            "#Burned": "burned",
            "#Unexposed": "unexposed",
            "#Left out": "left_out",
            "#Staying in the test": "staying",
        },
    ),
}
