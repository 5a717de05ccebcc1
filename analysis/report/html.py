"""The report as one self-contained HTML page: no script, no network, light and dark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from analysis.plan.verdict import CONTAMINATED, INCONCLUSIVE, NO_INFLATION, WITHHELD, Verdict
from analysis.report.figures.intervals import plot_gaps, plot_strata
from analysis.report.figures.levels import level_panels, plot_levels
from analysis.report.figures.style import CSS, NARROW, WIDE
from analysis.report.figures.timeline import make_timeline, plot_time
from analysis.report.figures.tipping import plot_tipping
from analysis.report.part import OPEN_ROWS
from analysis.report.report import Report
from analysis.report.tables import sensitivity_tables, table_of, tables_of
from analysis.report.wording import (
    all_control_words,
    finding,
    short,
    summary_words,
    time_words_of,
    with_margin,
)
from analysis.stats.intervals import p_words, points, signed
from analysis.words import templates_in
from registry.ledger.records import RunManifest

_WORDS = (CONTAMINATED, NO_INFLATION, INCONCLUSIVE, WITHHELD)


def render_html(report: Report, wide: Mapping[str, str] | None = None) -> str:
    """The report as one self-contained HTML file. ``wide`` are its ``figures_of`` if they are
    drawn already."""
    from markupsafe import Markup

    sensitivity, tables = sensitivity_tables(report), tables_of(report)
    top = _shown(report.verdicts)
    cut = len(top) < len(report.verdicts)
    shown = table_of(replace(report, verdicts=tuple(top)), "verdicts")
    wide, narrow = wide or figures_of(report), figures_of(report, NARROW)
    figures = {name: [Markup(svg), Markup(narrow[name])] for name, svg in wide.items()}  # noqa: S704  # our own SVG, in which matplotlib and html.escape have escaped every name
    filters = {"points": points, "signed": signed, "p": p_words, "short": short}
    pages = templates_in("analysis.report", **filters, stamp=time_words_of)
    rendered: str = pages.get_template("report.html.j2").render(
        report=report,
        tables=tables,
        sensitivity=sensitivity,
        words=_WORDS,
        summary=[finding(v, report.controls) for v in report.verdicts],
        shown=shown,
        every=replace(tables["verdicts"], name="all_verdicts") if cut else None,
        withheld=sum(v.verdict == WITHHELD for v in report.verdicts),
        all_controls=all_control_words(report.controls),
        pins=_pins(report),
        dated=make_timeline(report).dated,
        paragraphs=[text.split(". ", 1) for text in report.plan_in_words],
        **summary_words(report),
        variables=CSS,
        figures=figures,
    )
    page = with_margin(rendered.lstrip("\n"), report.plan.margin)
    return re.sub(r"(?<=\d) %", "\u00a0%", page)  # numbers and percent signs on one line


def figures_of(report: Report, width: float = WIDE) -> dict[str, str]:
    """The figures by name, without those that have nothing to draw."""
    margin, shown = report.plan.margin, _shown(report.verdicts)
    figures = {}
    if shown:
        figures["gaps"] = plot_gaps(shown, [*map(report.arms, shown)], margin, width)
    if any(verdict.estimate is not None for verdict in report.verdicts):
        figures["time"] = plot_time(make_timeline(report), margin, width)
    if stratified := [result for result in report.tested if result.strata]:
        figures["strata"] = plot_strata(stratified, margin, width)
    if tipping := [result for result in report.tested if result.missing.tipping is not None]:
        figures["tipping"] = plot_tipping(tipping, width)
    if level_panels(report.means):
        figures["levels"] = plot_levels(report.means, width)
    drawn = (figure for part in report.parts for figure in part.figures)
    return figures | {figure.name: figure.draw(width) for figure in drawn}


def _pins(report: Report) -> list[tuple[str, RunManifest]]:
    """The runs, those of one make together."""
    groups: dict[tuple[object, ...], list[RunManifest]] = {}
    for run in report.runs:
        groups.setdefault((run.provenance, run.sandbox, run.runtime, run.prices), []).append(run)
    return [
        (f"Wave{'s' if len(runs) > 1 else ''} {', '.join(str(run.wave) for run in runs)}", runs[0])
        for runs in groups.values()
    ]


def _shown(verdicts: Sequence[Verdict]) -> Sequence[Verdict]:
    """The verdicts that the top of the page has: of many those of the last wave."""
    if len(verdicts) <= OPEN_ROWS:
        return verdicts
    return [verdict for verdict in verdicts if verdict.wave == verdicts[-1].wave]
