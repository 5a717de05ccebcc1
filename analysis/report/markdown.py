"""The report's summary as Markdown, for a wiki, an issue or a message."""

from __future__ import annotations

import re

from analysis.report.part import Cell, StatusCell
from analysis.report.report import Report
from analysis.report.tables import burn_test_table, tables_of
from analysis.report.wording import finding, summary_words, time_words_of, with_margin
from analysis.words import templates_in

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~#])")


def render_markdown(report: Report) -> str:
    """The summary: verdicts, controls, monitoring, parts, changes, deviations, limits."""
    filters = {"plain": _plain, "cell": _cell, "stamp": time_words_of, "finding": finding}
    pages = templates_in("analysis.report", escape=False, **filters)
    text: str = pages.get_template("report.md.j2").render(
        report=report,
        tables=tables_of(report),
        burn_test=burn_test_table(report),
        **summary_words(report),
    )
    return with_margin(text.rstrip(), report.plan.margin) + "\n"


def _cell(cell: Cell) -> str:
    return f"**{cell.word}**" if isinstance(cell, StatusCell) else _plain(cell)


def _plain(text: str) -> str:
    """Text that Markdown shows as it stands, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
