"""The report's tables as text, for the page and the Markdown, as ``words.yaml`` declares them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import groupby
from typing import Any

from analysis.plan.monitoring import Monitored
from analysis.plan.negative_controls import NOT_RUN
from analysis.plan.presets import OUTCOME_WORDS, SENSITIVITY, look_alpha
from analysis.plan.results import PrimaryResult
from analysis.plan.sensitivity import SensitivityResult
from analysis.plan.verdict import BOUNDED, ESTIMATE, Verdict
from analysis.report.figures.timeline import make_timeline
from analysis.report.part import NONE, ColumnHead, Columns, ReportTable, StatusCell, tabulate
from analysis.report.report import Report
from analysis.report.wording import gap_words, range_words, score_words, window_words
from analysis.stats.intervals import p_words, points, signed
from analysis.words import templates_in, words_in
from registry.result_row import Arm, Status

_ENDS = {" floor": 0.0, " ceiling": 1.0}  # of the scale
_BURNED = "burned-versus-virgin"


def tables_of(report: Report) -> dict[str, ReportTable]:
    """The tables of a report by name, those without rows too."""
    return {name: table_of(report, name) for name in _words()["tables"]}


def table_of(report: Report, name: str) -> ReportTable:
    """One table of a report, which ``words.yaml`` declares."""
    words = _words()["tables"][name]
    calibrated = any(look.covered for look in report.looks)
    caption = words["caption"].format(
        calibrated=", calibrated by the control models" if calibrated else "",
        alpha=look_alpha(report.plan),
        outcomes="; ".join(f"{o}, {OUTCOME_WORDS.get(o, o)}" for o in report.plan.outcomes),
        margin=signed(report.plan.margin),
    )
    columns = dict(words["columns"])
    if name == "control_states" and all(c.state != NOT_RUN for c in report.controls):
        del columns["Not run"]
    rows = _compiled(words["rows"])(report=report)
    return tabulate(name, caption, rows, _columns(columns, report), words.get("fold", ""))


def _words() -> Mapping[str, Any]:
    return words_in("analysis.report", "words.yaml")


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
    words = _words()["sensitivity"].get(analysis) or SENSITIVITY.get(analysis, analysis)
    name, caption = f"sensitivity-{analysis}", f"{words[:1].upper()}{words[1:]}."
    if analysis == "leave-one-stratum-out":
        columns = _columns(_words()["columns_of_strata_left_out"])
        table = tabulate(name, caption, _extremes(results), columns, analysis)
        heads = (*table.columns[:-1], ColumnHead("Without"))  # a label that another column has
        return replace(table, columns=heads)
    columns = _columns(_words()["columns_of_sensitivity"])
    table = tabulate(name, caption, results, columns, analysis)
    # Columns that say something: not those in which every row has a dash, or is whole.
    cells = enumerate(zip(*table.rows, strict=True))
    kept = [place for place, column in cells if {*column} - {NONE, "whole"}]
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


def _usd(value: float | None, *, free: bool) -> str:
    if value is not None:
        return f"{value:.2f}" if value >= 0.1 or value == 0 else f"{value:.4f}"
    return "built-in, none" if free else "unknown"


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


def _score(verdict: Verdict, report: Report, arm: str) -> str:
    """The mean score of an arm; marked if no score of either arm is above 0, or below 1."""
    arms = report.arms(verdict)
    end = next((word for word, end in _ENDS.items() if {*arms.values()} == {end}), "")
    return f"{points(arms[Arm(arm)])}{end}" if arm in arms else NONE


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


def _cause_rows(report: Report) -> Iterator[tuple[object, ...]]:
    counts: dict[tuple[object, ...], dict[Arm, int]] = defaultdict(dict)
    for loss in report.losses:
        kind = "missing" if loss.status is Status.MISSING else "model failure"
        counts[loss.model, loss.wave, kind, loss.cause][loss.arm] = loss.episodes
    for key, arms in counts.items():
        yield *key, arms.get(Arm.PUBLIC, 0), arms.get(Arm.PRIVATE, 0)


def _control_rows(report: Report) -> list[tuple[str, dict[str, list[int]]]]:
    """Each control with its waves by state."""
    rows: dict[str, dict[str, list[int]]] = {}
    for control in report.controls:
        states = rows.setdefault(f"{control.kind}, {control.what}", defaultdict(list))
        states[control.state].append(control.wave)
    return list(rows.items())


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


_FILTERS: Mapping[str, Callable[..., object]] = {
    "status": StatusCell,
    "score": _score,
    "bound": _bound,
    "adjusted_p": lambda v: NONE if v.verdict == ESTIMATE else p_words(v.p_adjusted, v.p_floor),
    "gap": gap_words,
    "range": range_words,
    "interval": lambda row: range_words(None if row.estimate is None else row.interval),
    "signed": signed,
    "p": lambda value, floor=0.0: NONE if value is None else p_words(value, floor),
    "waves": _waves,
    "window": window_words,
    "rejection": _rejection,
    "percent": lambda share: NONE if share != share else f"{points(share)} %".replace("-", "−"),
    "usd": _usd,
    "tokens": lambda count: "unknown" if count is None else f"{count:,}",
    "ranks": _ranks,
    "tipping": _tipping,
    "settings": lambda pairs: ", ".join(f"{n} {json.loads(v)}" for n, v in pairs) or NONE,
    "time_rows": lambda r: [p.verdict for _, own in make_timeline(r).families for p in own],
    "score_rows": _score_rows,
    "dimension_rows": _dimension_rows,
    "funnel_rows": lambda r: sorted(r.funnel, key=lambda f: (f.wave, f.model, f.arm != Arm.PUBLIC)),
    "cause_rows": _cause_rows,
    "control_rows": _control_rows,
    "stratum_rows": lambda r: [(t.model, t.verdict.wave, g) for t in r.tested for g in t.strata],
    "missing_rows": lambda r: [t for t in r.tested if t.missing.public or t.missing.private],
    "excluded_rows": lambda r: [(m, look.wave, w) for look in r.looks for m, w in look.excluded],
}


@cache
def _compiled(text: str) -> Callable[..., Any]:
    """An expression of ``words.yaml``."""
    pages = templates_in("analysis.report", escape=False, **_FILTERS)
    compiled: Callable[..., Any] = pages.compile_expression(text, undefined_to_none=False)
    return compiled


def _columns(texts: Mapping[str, str], report: Report | None = None) -> Columns:
    return {label: partial(_value, _compiled(text), report) for label, text in texts.items()}


def _value(column: Callable[..., object], report: Report | None, row: object) -> object:
    return column(report=report, row=row)
