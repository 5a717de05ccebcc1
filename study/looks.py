"""Looks at the data: result rows, the registered test on them, the report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from analysis.load import make_table
from analysis.look import analyse
from analysis.report import Report, build_report, write_report
from harness.tabulate import row_of
from registry.canon import digest_bytes, digest_value
from registry.records import ReportIssued, RunManifest, record_body
from registry.tables import ResultRow, columns_of
from study.errors import StudyError
from study.folder import Study
from study.runs import closed_wave, manifest_of, read_results
from study.setup import registration_of

REPORTS = "reports"


def report_study(study: Study, through: int | None, now: str) -> tuple[Report, Path]:
    """Test the closed waves by the registered plan; the report, and its HTML file.

    Every look that says something new is put into the ledger. The same look again gives the
    same bytes, and the time of the first.
    """
    registered = registration_of(study)
    runs = _closed_runs(study, through)
    rows = _sorted(read_rows(study, runs))
    last = runs[-1].wave
    table_digest = digest_value(columns_of(rows))
    plan_digest = digest_value(record_body(registered))
    issued = _issued_before(study, last, table_digest) or now
    table = make_table(rows)
    report = build_report(
        registered=registered,
        sealed=study.sealed_set(),
        runs=runs,
        table=table,
        analysis=analyse(registered.plan, table, plan_digest),
        issued=issued,
    )
    page, data = write_report(study.folder / REPORTS / f"wave-{last}", report)
    if issued == now:
        record = ReportIssued(
            through_wave=last,
            plan=plan_digest,
            table=table_digest,
            report=digest_bytes(data.read_bytes()),
            deviations=report.deviations,
        )
        study.ledger.append(record, now)
    return report, page


def read_rows(study: Study, runs: list[RunManifest]) -> Iterator[ResultRow]:
    """The results of some waves, joined to the arms. Only for who holds the study's key."""
    arms = {entry.instance: entry.arm for entry in study.entries()}
    for manifest in runs:
        for result in read_results(study, manifest):
            yield row_of(result, arms[result.instance])


def _closed_runs(study: Study, through: int | None) -> list[RunManifest]:
    """The manifests of the waves to look at: closed, without a gap, up to ``through``."""
    planned = len(study.protocol.waves)
    if through is not None and through >= planned:
        raise StudyError(f"--through {through}: study.yaml plans waves 0 to {planned - 1}")
    wanted = range(planned if through is None else through + 1)
    closed = [wave for wave in wanted if closed_wave(study, wave) is not None]
    missing = [wave for wave in wanted if wave not in closed]
    if not closed or (through is not None and missing):
        first = missing[0]
        raise StudyError(
            f"wave {first} is not closed; run `dosimeter sweep --wave {first}` to its end first"
        )
    manifests = [manifest_of(study, wave) for wave in closed]
    return [manifest for manifest in manifests if manifest is not None]


def _sorted(rows: Iterator[ResultRow]) -> list[ResultRow]:
    return sorted(rows, key=lambda r: (r.wave, r.model, r.stratum, r.instance, r.replicate))


def _issued_before(study: Study, through: int, table: str) -> str | None:
    """When this very look was first reported, if it was."""
    for entry in study.ledger.find("report"):
        record: ReportIssued = entry.record
        if (record.through_wave, record.table) == (through, table):
            return entry.time
    return None
