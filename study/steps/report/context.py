"""Parts of a report other than the test: documented facts, the state of the ledger, changes since
the last report; and the check that it holds nothing private."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.report.facts import LedgerCheckpoint
from analysis.report.json import changes_since
from analysis.report.report import Report, report_json
from analysis.report.write import DATA
from publish.leakcheck.check import leaks_in
from registry.canonical import digest_bytes
from registry.checkpoints.checkpoint import SignedCheckpoint
from registry.errors import BrokenPromise
from registry.ledger.chain import Entry
from registry.ledger.records import ReportIssued
from study.steps.publish.release import study_needles
from study.workspace.setup import Watch
from study.workspace.study import Study

REPORTS = "reports"
_SHOWN = 10


def first_issue(
    entries: Sequence[Entry],
    through: int,
    table: str,
    calibrations: tuple[str, ...],
    unclosed: tuple[int, ...] | None,
) -> Entry | None:
    """Return the record of the first report of this very look, if there is one: of the reports
    that name the waves ``unclosed`` as begun and not closed; None for those that the newest report
    of the look names."""
    look = (through, table, calibrations)
    reports = ((entry, entry.record) for entry in entries if entry.kind == "report")
    same = [
        (entry, tuple(wave for wave, _ in r.unclosed))
        for entry, r in reports
        if (r.through_wave, r.table, r.calibrations) == look
    ]
    named = same[-1][1] if same and unclosed is None else unclosed
    return next((entry for entry, waves in same if waves == named), None)


def describe_checkpoint(signed: SignedCheckpoint) -> LedgerCheckpoint:
    """Return what a report shows of a checkpoint of the ledger."""
    shown = signed.checkpoint
    return LedgerCheckpoint(
        records=shown.size, root=shown.root.hex(), study_key=shown.study, note=signed.note.decode()
    )


def add_changes(study: Study, entries: Sequence[Entry], report: Report) -> Report:
    """Return the report with the changes since the last report, if its file is in the study's
    folder as the ledger has it."""
    for entry in reversed(entries):
        if entry.kind == "report" and entry.record.through_wave < report.through_wave:
            before = find_report(study.folder, entry.record)
            if before is not None and "models" in before and "deviations" in before:
                digest = entry.record.report
                return replace(report, changes=changes_since(before, report_json(report), digest))
    return report


def check_report(
    study: Study, files: Mapping[str, str], through: int, watch: Watch = lambda what, done, of: None
) -> None:
    """Raise BrokenPromise, which names files and kinds only, if a report holds anything that
    follows from a private seed. Raises PublishError if that cannot be checked."""

    def found(excused: bool) -> list[str]:
        needles = study_needles(study, watch, "checking the report for leaks, by instance", excused)
        each = (leaks_in(name, text.encode("utf-8"), needles) for name, text in files.items())
        return [str(leak) for leaks in each for leak in leaks]

    # Nearly always nothing is found, so nothing has to be excused by what other instances yield.
    if leaks := found(False) and found(True):
        more = f", and {len(leaks) - _SHOWN} more" if len(leaks) > _SHOWN else ""
        raise BrokenPromise(
            f"the report through wave {through} is not written, since it would reveal the "
            f"private arm: {'; '.join(leaks[:_SHOWN])}{more}"
        )


def find_report(folder: Path, record: ReportIssued) -> Mapping[str, Any] | None:
    """Return the report.json of a report in the ledger; None if the study's folder does not hold
    it, or holds other bytes."""
    path = folder / REPORTS / f"wave-{record.through_wave}" / DATA
    with suppress(OSError):
        if digest_bytes(data := path.read_bytes()) == record.report:
            body: Mapping[str, Any] = json.loads(data)
            return body
    return None
