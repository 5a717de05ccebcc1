"""The report as files: one self-contained HTML page, its JSON, and tables beside them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from analysis.breakdown import APART, GOOD, POOR
from analysis.breakdowntables import TableSet, write_tables
from analysis.figures import NARROW, WIDE, plot_arms, plot_gaps
from analysis.judgecolumns import JudgeColumn
from analysis.plan import look_alpha
from analysis.planwords import describe_plan
from analysis.report import LIMITS, Report
from analysis.reportjson import report_json
from analysis.reportwords import p_words, points, short, signed, summarise
from analysis.samplesize import Guidance
from analysis.verdict import Verdict
from analysis.wholefile import write_whole
from registry.tables import Arm

TEMPLATES = "templates"  # the folder of the tables of templated strata, beside the report


def render_html(report: Report) -> str:
    """The report as one self-contained HTML file: no script, no network, light and dark."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    page = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page.filters.update(points=points, signed=signed, p=p_words, short=short)
    source = _source("report")
    gaps = [v for v in report.verdicts if v.estimate is not None]
    return page.from_string(source).render(
        report=report,
        alpha=look_alpha(report.plan),
        summary=[summarise(v) for v in report.verdicts],
        counts=_verdict_counts(report.verdicts),
        paragraphs=[line.split(". ", 1) for line in describe_plan(report.plan).split("\n")],
        limits=LIMITS,
        # Our own SVG, in which matplotlib and html.escape have escaped every name.
        gap_plots=[Markup(plot_gaps(gaps, report.plan.margin, w)) for w in (WIDE, NARROW)],  # noqa: S704
        arm_plots=[Markup(plot_arms(report.means, w)) for w in (WIDE, NARROW)],  # noqa: S704
        strata=_score_rows(report),
        whole=_score_rows(report, by_stratum=False),
        # From the same environment, which has escaped every name in it.
        templated=Markup(_render_templated(page, report.templates)),  # noqa: S704
        judged=Markup(_render_judges(page, report.judges)),  # noqa: S704
    )


def write_report(folder: Path, report: Report) -> tuple[Path, Path]:
    """Write report.html and report.json into the folder, each whole or not at all; and, where
    there are tables of templated strata, those as CSV into ``templates/`` in it."""
    folder.mkdir(parents=True, exist_ok=True)
    body = json.dumps(report_json(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    page, data = folder / "report.html", folder / "report.json"
    html = render_html(report)
    if report.templates is not None:
        write_tables(folder / TEMPLATES, report.templates)
    write_whole(data, body)
    write_whole(page, html)
    return page, data


def _source(name: str) -> str:
    return files("analysis").joinpath(f"templates/{name}.html.j2").read_text("utf-8")


def _render_templated(page: Any, templates: TableSet | None) -> str:
    """The section on templated strata; empty without any."""
    if templates is None:
        return ""
    found, guidance = templates.breakdown, templates.guidance
    rendered: str = page.from_string(_source("breakdown")).render(
        found=found,
        formats={row.group: [name for name, _ in row.formats] for row in found.failure_modes},
        good=GOOD,
        poor=POOR,
        apart=APART,
        widths=list(dict.fromkeys(need.width for need in guidance.needs)),
        needs=_need_rows(guidance),
    )
    return rendered


def _render_judges(page: Any, columns: Sequence[JudgeColumn]) -> str:
    """The section on judges; empty without any."""
    rendered: str = page.from_string(_source("judges")).render(columns=columns) if columns else ""
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
        rows.append({
            "question": question,
            "seen": max(curve.points[-1].samples for curve in curves),
            "elbow": max((c.elbow for c in curves if c.elbow is not None), default=None),
            "needs": list(needs.values()),
        })  # fmt: skip
    return rows


def _score_rows(report: Report, by_stratum: bool = True) -> list[dict[str, Any]]:
    """Rows of the table of scores: both arms beside each other."""
    held = {(m.wave, m.model, m.stratum, m.arm): m.estimate for m in report.means}
    keys = sorted({key[:3] for key in held if bool(key[2]) == by_stratum})
    return [
        {"wave": wave, "model": model, "stratum": stratum,
         "public": held.get((wave, model, stratum, Arm.PUBLIC)),
         "private": held.get((wave, model, stratum, Arm.PRIVATE))}
        for wave, model, stratum in keys
    ]  # fmt: skip


def _verdict_counts(verdicts: Sequence[Verdict]) -> dict[str, int]:
    words = [verdict.verdict for verdict in verdicts]
    return {word: words.count(word) for word in dict.fromkeys(sorted(words))}
