"""The report's summary as Markdown, for a wiki, an issue or a message."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from analysis.report.part import (
    Block,
    Bullets,
    Cell,
    Heading,
    PartFigure,
    ReportTable,
    StatusCell,
)
from analysis.report.report import Report
from analysis.report.tables import burn_test_table, tables_of
from analysis.report.wording import (
    cite_words,
    command_words,
    finding,
    headline,
    monitored_words,
    time_words_of,
)

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~#])")


def render_markdown(report: Report) -> str:
    """The summary: verdicts, controls, monitoring, parts, changes, deviations, limits."""
    return "\n".join(_lines(report)).rstrip() + "\n"


def _lines(report: Report) -> Iterator[str]:
    tables = tables_of(report)
    yield from (f"# {_plain(report.study)}: contamination report", "")
    registered = "registered as" if report.registered else "not registered,"
    issued = time_words_of(report.issued)
    yield f"Through wave {report.through_wave}, issued {issued}; plan {report.plan.name},"
    yield f"{registered} `{report.registration}`."
    if report.description:
        yield from ("", _plain(report.description))
    yield from ("", _plain(headline(report)), "")
    yield from ("## Verdicts", "", *_table(tables["verdicts"]), "")
    for verdict in report.verdicts:
        word = f"**{_plain(verdict.model)}**, wave {verdict.wave}: **{verdict.verdict}**."
        yield f"- {word} {_plain(finding(verdict, report.controls))}"
    yield ""
    if report.remarks:
        yield from (*_bullets(report.remarks), "")
    if report.before_publication:
        early = tables["before_publication"]
        yield from ("### Before publication", "", early.caption, "", *_table(early), "")
    if words := monitored_words(report.monitoring):
        yield from ("## The study as a whole", "", words, "", *_table(tables["monitoring"]), "")
    yield from ("## Controls", "")
    if report.controls:
        yield from (*_table(tables["controls"]), "")
    else:
        yield from ("None is part of the plan.", "")
    for block in (block for part in report.parts for block in part.summary):
        yield from (*_block(block), "")
    yield from _change_lines(report)
    yield from ("## Deviations", "", *_bullets(report.deviations or ("None.",)), "")
    if report.burned:
        yield from ("## Burned instances", "", *_table(tables["burned"]), "")
        if (tested := burn_test_table(report)) is not None:
            yield from (tested.caption, "", *_table(tested), "")
    yield from ("## Episodes", "", *_table(tables["episodes"]), "")
    yield from ("## Cost", "", *_table(tables["costs"]), "")
    yield from ("## Limits", "", *_bullets(report.limits), "")
    yield from ("## How to cite and verify", "", _plain(cite_words(report)), "")
    if report.checkpoint is not None:
        records, key = report.checkpoint.records, report.checkpoint.study_key
        yield from (
            f"The ledger's checkpoint has {records} records. The study's key {key} signed it.",
            "",
        )
    yield "```sh"
    yield from (command_words(report), "```", "")
    yield "The page `report.html` beside this file has all of it, with figures; `report.json` and"
    yield "`tables/` have every number."


def _change_lines(report: Report) -> Iterator[str]:
    changes = report.changes
    if changes is None:
        return
    yield from ("## New since the last report", "")
    issued = time_words_of(changes.issued)
    yield f"The last one went through wave {changes.through_wave}, issued {issued}."
    yield ""
    for turned in changes.turned:
        note = f": {_plain(turned.note)}" if turned.note else ""
        where = f"{_plain(turned.model)} at wave {turned.wave}"
        yield f"- {where} was {turned.before} and is {turned.now}{note}."
    if not changes.turned:
        yield "- No earlier verdict has changed."
    for model, wave, word in changes.added:
        yield f"- New: {_plain(model)} at wave {wave}, {word}."
    if changes.study:
        yield f"- {changes.study}"
    yield from (f"- New deviation: {_plain(line)}" for line in changes.deviations)
    yield from (f"- No longer reported: {_plain(line)}" for line in changes.settled)
    yield ""


def _table(grid: ReportTable) -> Iterator[str]:
    yield f"| {' | '.join(column.label for column in grid.columns)} |"
    yield f"|{'|'.join('---:' if column.number else '---' for column in grid.columns)}|"
    for row in grid.rows:
        yield f"| {' | '.join(_cell(cell) for cell in row)} |"


def _block(block: Block) -> Iterator[str]:
    """A block of a part's summary."""
    if isinstance(block, Bullets):
        yield from _bullets(block.lines)
    elif isinstance(block, ReportTable):
        yield from (block.caption, "") if block.caption else ()
        yield from _table(block)
    elif not isinstance(block, PartFigure):
        yield f"{'## ' if isinstance(block, Heading) else ''}{_plain(block.text)}"


def _bullets(lines: Sequence[str]) -> Iterator[str]:
    return (f"- {_plain(line)}" for line in lines)


def _cell(cell: Cell) -> str:
    return f"**{cell.word}**" if isinstance(cell, StatusCell) else _plain(cell)


def _plain(text: str) -> str:
    """Text that Markdown shows as it stands, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
