"""The report as one self-contained HTML page: no script, no network, light and dark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any

from analysis.calibration import RESAMPLED, RecordedCalibration
from analysis.picard import APART, GOOD, POOR, Curve, TableSet
from analysis.plan import CONTAMINATED, INCONCLUSIVE, NO_INFLATION, WITHHELD, Verdict
from analysis.report.calibration import calibration_table, calibration_words, title_of
from analysis.report.figures import (
    NARROW,
    WIDE,
    css_variables,
    make_flow,
    make_timeline,
    plot_arms,
    plot_calibration,
    plot_flow,
    plot_gaps,
    plot_monitoring,
    plot_strata,
    plot_time,
    plot_tipping,
)
from analysis.report.report import Report
from analysis.report.tables import OPEN_ROWS, sensitivity_tables, tables_of
from analysis.report.wording import (
    all_control_words,
    cite_words,
    command_words,
    finding,
    headline,
    marker_words,
    monitored_words,
    short,
    time_words_of,
)
from analysis.stats import p_words, points, signed
from registry.ledger import RunManifest

_WORDS = (CONTAMINATED, NO_INFLATION, INCONCLUSIVE, WITHHELD)


def render_html(report: Report, wide: Mapping[str, str] | None = None) -> str:
    """The report as one self-contained HTML file. ``wide`` are its ``figures_of`` if they are
    drawn already."""
    from markupsafe import Markup

    sensitivity, tables = sensitivity_tables(report), tables_of(report)
    top = _shown(report.verdicts)
    cut = len(top) < len(report.verdicts)
    shown = tables_of(replace(report, verdicts=tuple(top)))["verdicts"]
    wide, narrow = wide or figures_of(report), figures_of(report, NARROW)
    figures = {name: [Markup(svg), Markup(narrow[name])] for name, svg in wide.items()}  # noqa: S704  # our own SVG, in which matplotlib and html.escape have escaped every name
    rendered: str = (
        _environment()
        .get_template("report")
        .render(
            report=report,
            tables=tables,
            sensitivity=sensitivity,
            words=_WORDS,
            summary=[finding(v, report.controls) for v in report.verdicts],
            markers=[marker_words(row) for row in report.markers],
            headline=headline(report),
            shown=shown,
            every=replace(tables["verdicts"], name="all_verdicts") if cut else None,
            withheld=sum(v.verdict == WITHHELD for v in report.verdicts),
            monitored=monitored_words(report.monitoring),
            all_controls=all_control_words(report.controls),
            pins=_pins(report),
            dated=make_timeline(report).dated,
            paragraphs=[text.split(". ", 1) for text in report.plan_in_words],
            cite=cite_words(report),
            commands=command_words(report),
            variables=css_variables(),
            templated=report.templates and _templated(report.templates),
            calibrations=[_calibration(record) for record in report.calibrations],
            figures=figures,
        )
    )
    return _hold_units(rendered.lstrip("\n"))


def _environment() -> Any:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    page = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(_source),
    )
    page.filters.update(points=points, signed=signed, p=p_words, short=short, stamp=time_words_of)
    return page


def _source(name: str) -> str:
    kind = "css" if name == "style" else "html"
    return files("analysis.report").joinpath(f"templates/{name}.{kind}.j2").read_text("utf-8")


def figures_of(report: Report, width: float = WIDE) -> dict[str, str]:
    """The figures by name, without those that have nothing to draw."""
    margin, shown = report.plan.margin, _shown(report.verdicts)
    figures = {
        "scores": plot_arms(report.means, width),
        "flow": plot_flow(make_flow(report), width),
    }
    if any(verdict.estimate is not None for verdict in shown):
        figures["gaps"] = plot_gaps(shown, margin, width)
    if any(verdict.estimate is not None for verdict in report.verdicts):
        figures["time"] = plot_time(make_timeline(report), margin, width)
    tested = [result for look in report.looks for result in look.results]
    if stratified := [result for result in tested if result.strata]:
        figures["strata"] = plot_strata(stratified, margin, width)
    if tipping := [result for result in tested if result.missing.tipping is not None]:
        figures["tipping"] = plot_tipping(tipping, width)
    if report.monitoring is not None and report.monitoring.looks:
        figures["monitoring"] = plot_monitoring(report.monitoring, width)
    for record in report.calibrations:
        name = _calibration_name(record)
        figures[name] = plot_calibration(record.found, width, name)
    return figures


def _hold_units(page: str) -> str:
    """The page with its numbers and percent signs on one line."""
    return re.sub(r"(?<=\d) %", "\u00a0%", page)


def _pins(report: Report) -> list[tuple[str, RunManifest]]:
    """The runs, those of one make together."""
    groups: dict[tuple[object, ...], list[RunManifest]] = {}
    for run in report.runs:
        groups.setdefault((run.provenance, run.sandbox, run.runtime, run.prices), []).append(run)
    return [
        (f"Wave{'s' if len(runs) > 1 else ''} {', '.join(str(run.wave) for run in runs)}", runs[0])
        for runs in groups.values()
    ]


def _calibration(record: RecordedCalibration) -> dict[str, Any]:
    """The parts of a calibration that the page shows."""
    return {
        "title": title_of(record),
        "sentences": calibration_words(record),
        "table": calibration_table(record),
        "figure": _calibration_name(record),
        "curve": record.found.enough is not None,
        "made": record.made,
        "result": record.result,
    }


def _calibration_name(record: RecordedCalibration) -> str:
    return "calibration" if record.how == RESAMPLED else f"calibration-{record.how}"


def _shown(verdicts: Sequence[Verdict]) -> Sequence[Verdict]:
    """The verdicts that the top of the page has: of many those of the last wave."""
    if len(verdicts) <= OPEN_ROWS:
        return verdicts
    return [verdict for verdict in verdicts if verdict.wave == verdicts[-1].wave]


def _templated(templates: TableSet) -> dict[str, Any]:
    """The parts of the section on templated strata."""
    tables, curves = templates.breakdown, templates.curves
    return {
        "tables": tables,
        "formats": {row.group: [name for name, _ in row.formats] for row in tables.failure_modes},
        **{"good": GOOD, "poor": POOR, "apart": APART},
        "widths": [need.width for need in curves[0].needs] if curves else [],
        "needs": _need_rows(curves),
    }


def _need_rows(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    """The most samples that each question asks for, over all models that were asked it."""
    by_question: dict[str, list[Curve]] = {}
    for curve in curves:
        by_question.setdefault(curve.question, []).append(curve)
    return [
        {
            "question": question,
            "seen": max(curve.points[-1].samples for curve in asked),
            "elbow": max((c.elbow for c in asked if c.elbow is not None), default=None),
            "needs": [
                (max(n.samples for n in needs), max(n.samples_cautious for n in needs))
                for needs in zip(*(curve.needs for curve in asked), strict=True)
            ],
        }
        for question, asked in by_question.items()
    ]
