"""The report as one self-contained HTML page: no script, no network, light and dark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from analysis.judges import JudgeColumn
from analysis.picard import APART, GOOD, POOR, Guidance, TableSet
from analysis.plan import CONTAMINATED, INCONCLUSIVE, NO_INFLATION, WITHHELD
from analysis.report.calibration import calibration_table, calibration_words, title_of
from analysis.report.figures import (
    NARROW,
    WIDE,
    Timeline,
    css_variables,
    make_timeline,
    plot_arms,
    plot_calibration,
    plot_gaps,
    plot_monitoring,
    plot_time,
)
from analysis.report.report import Report
from analysis.report.tables import sensitivity_tables, tables_of
from analysis.report.wording import (
    all_control_words,
    cite_words,
    command_words,
    conclusion,
    finding,
    monitored_words,
    onset_words,
    short,
    time_words_of,
)
from analysis.stats import p_words, points, signed
from registry.ledger import RunManifest

_WORDS = (CONTAMINATED, NO_INFLATION, INCONCLUSIVE, WITHHELD)


def render_html(report: Report) -> str:
    """The report as one self-contained HTML file."""
    from markupsafe import Markup

    page = _environment()
    line = make_timeline(report)
    sensitivity = sensitivity_tables(report)
    plots = {name: [Markup(svg) for svg in svgs] for name, svgs in _plots(report, line).items()}  # noqa: S704  # our own SVG, in which matplotlib and html.escape have escaped every name
    rendered: str = page.get_template("report").render(
        report=report,
        tables=tables_of(report),
        sensitivity=sensitivity,
        contents=_contents(report, bool(sensitivity)),
        words=_WORDS,
        summary=[finding(v, report.controls) for v in report.verdicts],
        conclusion=conclusion(report),
        withheld=sum(v.verdict == WITHHELD for v in report.verdicts),
        monitored=monitored_words(report.monitoring),
        onset=onset_words(report.monitoring),
        all_controls=all_control_words(report.controls),
        pins=_pins(report),
        dated=line.dated,
        paragraphs=[text.split(". ", 1) for text in report.plan_in_words],
        cite=cite_words(report),
        commands=command_words(report),
        variables=css_variables(),
        # From the same environment, which has escaped every name in it.
        templated=Markup(_render_templated(page, report.templates)),  # noqa: S704
        calibrations=_calibrations(report),
        judged=Markup(_render_judges(page, report.judges)),  # noqa: S704
        **plots,
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


def _plots(report: Report, line: Timeline) -> dict[str, list[str]]:
    """Each figure for a desktop and for a phone; none where there is nothing to draw."""
    widths = (WIDE, NARROW)
    gaps = [v for v in report.verdicts if v.estimate is not None]
    monitoring = report.monitoring
    return {
        "gap_plots": [plot_gaps(gaps, report.plan.margin, w) for w in widths] if gaps else [],
        "arm_plots": [plot_arms(report.means, w) for w in widths],
        "time_plots": [plot_time(line, report.plan.margin, w) for w in widths] if gaps else [],
        "monitor_plots": [
            plot_monitoring(monitoring, w) for w in widths if monitoring and monitoring.looks
        ],
    }


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


def _calibrations(report: Report) -> list[dict[str, Any]]:
    """What is shown of each calibration."""
    from markupsafe import Markup

    return [
        {
            "title": title_of(record),
            "sentences": calibration_words(record),
            "table": calibration_table(record),
            "plots": [
                Markup(plot_calibration(record.found, width, f"calibration-{record.how}"))  # noqa: S704  # as the other plots
                for width in (WIDE, NARROW)
            ],
            "curve": record.found.enough is not None,
            "made": record.made,
            "result": record.result,
        }
        for record in report.calibrations
    ]


def _contents(report: Report, sensitivity: bool) -> list[tuple[str, str]]:
    """The sections that the page has, by anchor."""
    every = [
        ("verdicts", "Verdicts", True),
        ("changes", "Changes", report.changes is not None),
        ("controls", "Controls", True),
        ("calibration", "Calibration", bool(report.calibrations)),
        ("monitoring", "The study as a whole", report.monitoring is not None),
        ("exposure", "Exposure", bool(report.exposure or report.texts or report.text_notes)),
        ("time", "Over time", True),
        ("deviations", "Deviations", True),
        ("burned", "Burned instances", bool(report.burned)),
        ("scores", "Scores", True),
        ("episodes", "Episodes", True),
        ("sensitivity", "Sensitivity", sensitivity),
        ("judges", "Judges", bool(report.judges)),
        ("effort", "Rounds and tools", True),
        ("costs", "Cost", True),
        ("templated", "Templated tasks", report.templates is not None),
        ("exploratory", "Exploratory", bool(report.exploratory)),
        ("plan", "Plan", True),
        ("pins", "Pins", True),
        ("limits", "Limits", True),
        ("verify", "Cite and verify", True),
    ]
    return [(anchor, title) for anchor, title, there in every if there]


def _render_templated(page: Any, templates: TableSet | None) -> str:
    """The section on templated strata; empty without any."""
    if templates is None:
        return ""
    breakdown, guidance = templates.breakdown, templates.guidance
    rendered: str = page.get_template("breakdown").render(
        found=breakdown,
        formats={row.group: [name for name, _ in row.formats] for row in breakdown.failure_modes},
        good=GOOD,
        poor=POOR,
        apart=APART,
        widths=list(dict.fromkeys(need.width for need in guidance.needs)),
        needs=_need_rows(guidance),
    )
    return rendered


def _render_judges(page: Any, columns: Sequence[JudgeColumn]) -> str:
    """The section on judges; empty without any."""
    rendered: str = page.get_template("judges").render(columns=columns) if columns else ""
    return rendered


def _need_rows(guidance: Guidance) -> list[dict[str, Any]]:
    """What each question asks for at most, over all who were asked it."""
    rows = []
    for question in dict.fromkeys(curve.question for curve in guidance.curves):
        curves = [curve for curve in guidance.curves if curve.question == question]
        needs: dict[float, tuple[int, int]] = {}
        for need in guidance.needs:
            if need.question == question:
                most = needs.get(need.width, (0, 0))
                both = need.samples, need.samples_cautious
                needs[need.width] = max(most[0], both[0]), max(most[1], both[1])
        rows.append(
            {
                "question": question,
                "seen": max(curve.points[-1].samples for curve in curves),
                "elbow": max((c.elbow for c in curves if c.elbow is not None), default=None),
                "needs": list(needs.values()),
            }
        )
    return rows
