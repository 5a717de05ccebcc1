"""Looks at the data: result rows, the registered test on them, the report; and the internal report,
with every row, sealed to the study's recipients."""

from __future__ import annotations

import io
import logging
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from analysis.data import ResultTable, make_table
from analysis.judges import JudgeColumn, JudgeFacts, Labels, judge_column
from analysis.picard import TableSet, make_tables, table_csv
from analysis.plan import (
    Analysis,
    Drift,
    Regrading,
    WaveHistory,
    analyse,
    bridging_models,
    explore,
    measure_drift,
)
from analysis.report import DATA, Report, ReportRequest, build_report, report_files, write_files
from harness.episodes import judged_row
from registry.canonical import digest_bytes, digest_value
from registry.checkpoints import (
    SignedCheckpoint,
    leaf_hashes,
    put_checkpoint,
    sign_checkpoint,
)
from registry.files import write_whole
from registry.ledger import Entry, Plan, Preregistration, ReportIssued, record_body
from registry.provenance import find_changes
from registry.result_row import ResultRow, columns_of
from registry.sealing import encrypt
from study.calibration import calibrations_of
from study.errors import StudyError
from study.judging import graded_records, judge_grades, labelled, rates_of, regradings_of
from study.picard import answers_of_rows, facts_of_study
from study.probing import exposure_of, markers_of, texts_of
from study.protocol import relatives_of
from study.reporting.context import (
    REPORTS,
    add_changes,
    check_report,
    describe_checkpoint,
    facts_of,
    first_issue,
    free_models,
    known_before,
    published_on,
)
from study.reporting.tool_use import tools_of_waves
from study.sweeps import (
    address_of,
    burned_tranches,
    check_listed,
    count_stored,
    exact_rows,
    history_of,
    join_draw,
    look_words,
    record_look,
    unclosed_waves,
    unclosed_words,
)
from study.workspace import (
    Study,
    StudySnapshot,
    Watch,
    WaveSnapshot,
    registration_of,
    take_snapshot,
)

logger = logging.getLogger(__name__)

ROWS = "rows.csv"
_STEPS = 3  # of a report: read, test, draw; the check is counted by instances


@dataclass(frozen=True, slots=True)
class StudyLook:
    """A report and its rows, which name instances and arms, so only holders of the key may see
    them. ``table`` is the digest of the rows; ``unclosed`` are the waves that were begun and not
    closed, each with its number of stored episodes; ``checkpoint`` is the ledger's."""

    report: Report
    rows: tuple[ResultRow, ...]
    table: str
    unclosed: tuple[tuple[int, int], ...]
    checkpoint: SignedCheckpoint


def report_study(
    study: Study, through: int | None, now: str, watch: Watch = lambda what, done, of: None
) -> tuple[Report, Path]:
    """Test the closed waves by the registered plan. Return the report and its HTML file.

    Every look that says something new is put into the ledger. The same look again gives the
    same bytes, and the time of the first. Raises BrokenPromise, and writes nothing, where the
    report would hold anything that follows from a private seed.
    """
    snapshot = take_snapshot(study, watch)
    look = build_look(snapshot, through, now, watch)
    report = look.report
    watch("drawing figures", 2, _STEPS)
    files = report_files(report)
    check_report(snapshot, files, report.through_wave, watch)
    digests = {name: digest_bytes(text.encode()) for name, text in files.items()}
    record = ReportIssued(
        through_wave=report.through_wave,
        plan=report.registration,
        table=look.table,
        report=digests[DATA],
        deviations=report.deviations,
        calibrations=tuple(calibration.result for calibration in report.calibrations),
        unclosed=look.unclosed,
        files=tuple(sorted(digests.items())),
    )

    def is_same(entry: Entry) -> bool:
        return entry.kind == "report" and entry.record == record

    # Before it is written: nothing is shown that the ledger does not record.
    if not any(map(is_same, snapshot.ledger.entries())):
        leaves = leaf_hashes(snapshot.ledger.entries())
        put_checkpoint(study.store, look.checkpoint, leaves)
        study.ledger.append_unless(record, now, is_same)
    folder = study.folder / REPORTS / f"wave-{report.through_wave}"
    page, _ = write_files(folder, files)
    logger.info("report through wave %d written to %s", report.through_wave, folder)
    return report, page


def write_internal(study: Study, through: int | None, path: Path, now: str) -> Path:
    """Write a look as one age file, sealed to the study's recipients: a ZIP of the report's files
    and ``rows.csv``, which has a row for every episode and grader, with instance and arm.

    It is put together in memory: nothing of it lies on disk in the clear. The ledger records the
    look first. Raises StudyError if the file exists or cannot be written, or the look cannot be
    recorded.
    """
    if path.exists():
        raise StudyError(f"{path}: is there already; name another file, or move it away")
    snapshot = take_snapshot(study)
    record_look(snapshot, _closed_waves(snapshot, through), "report --internal", lambda: now)
    look = build_look(snapshot, through, now)
    rows = table_csv([asdict(row) for row in look.rows])
    files = {**report_files(look.report), ROWS: rows}
    _write_new(path, encrypt(_zip(files.items()), study.recipients()))
    return path


def build_look(
    study: StudySnapshot,
    through: int | None,
    now: str,
    watch: Watch = lambda what, done, of: None,
) -> StudyLook:
    """Return a look at the closed waves. Nothing is written."""
    registered = registration_of(study)
    study.own_identities()  # before rows are read, which may take long
    check_listed(study)
    waves = _closed_waves(study, through)
    numbers = [wave.number for wave in waves]
    last = numbers[-1]
    labels: dict[str, Labels] = defaultdict(Labels)
    watch("reading results", 0, _STEPS)
    rows = _sorted(graded_rows(study, waves, labels))
    logger.info("look through wave %d: %d rows", last, len(rows))
    regradings = regradings_of(study, numbers)
    table_digest = _digest(rows, regradings)
    plan_digest = digest_value(record_body(registered))
    entries = study.ledger.entries()
    calibrations = calibrations_of(study, plan_digest, last)
    now_unclosed = unclosed_waves(entries) if through is None else None
    shown = tuple(c.result for c in calibrations)
    issue = first_issue(entries, last, table_digest, shown, now_unclosed)
    unclosed = count_stored(study) if issue is None else issue.record.unclosed
    entries = known_before(entries, issue)
    history = history_of(entries, registered.plan)
    watch("testing", 1, _STEPS)
    table = make_table(rows)
    drifts = tuple(measure_drift(registered.plan, r, plan_digest) for r in regradings)
    judges = _judge_columns(study, registered.plan, table, plan_digest, labels, drifts)
    texts, text_notes = texts_of(study, registered.plan, plan_digest, numbers)
    request = ReportRequest(
        registered=registered,
        sealed=study.sealed_set(),
        runs=[wave.manifest for wave in waves],
        table=table,
        analysis=analyse(
            registered.plan,
            table,
            plan_digest,
            history=history,
            drifts=drifts,
        ),
        issued=issue.time if issue else now,
        explored=_by_judges(registered.plan, table, plan_digest, judges, history),
        judges=judges,
        tools=tools_of_waves(study, waves),
        free=free_models(study.protocol),
        published=published_on(entries),
        history=history,
    )
    checkpoint = sign_checkpoint(entries, study.signer())
    report = build_report(request)
    report = replace(
        report,
        deviations=tuple(
            dict.fromkeys(
                (
                    *unclosed_words(entries, registered.plan, unclosed),
                    *look_words(entries),
                    *report.deviations,
                    *shortfalls_of(registered),
                    *drift_of(registered, waves),
                )
            )
        ),
        templates=_templated(study, rows, table_digest),
        facts=facts_of(study.protocol),
        ledger_head=entries[-1].digest,
        checkpoint=describe_checkpoint(checkpoint),
        exposure=exposure_of(study, registered.plan, plan_digest, numbers),
        markers=markers_of(study, registered.plan, numbers),
        calibrations=tuple(calibrations),
        description=study.protocol.description,
        texts=tuple(texts),
        text_notes=tuple(text_notes),
    )
    report = add_changes(study, entries, report)
    return StudyLook(report, tuple(rows), table_digest, unclosed, checkpoint)


def _digest(rows: Sequence[ResultRow], regradings: Sequence[Regrading]) -> str:
    """Return the digest of the rows of a look, and of the rows that judges graded again."""
    columns = columns_of(rows)
    if not regradings:
        return digest_value(columns)
    regraded = [
        [regrading.judge, regrading.wave, columns_of(regrading.before), columns_of(regrading.after)]
        for regrading in regradings
    ]
    return digest_value([columns, regraded])


def _judge_columns(
    study: Study,
    plan: Plan,
    table: ResultTable,
    registration: str,
    labels: Mapping[str, Labels],
    drifts: Sequence[Drift],
) -> tuple[JudgeColumn, ...]:
    """Return the columns of judges that graded a whole wave or have a rule in the plan."""
    released = {facts.name: facts.released for facts in study.protocol.judge_facts}
    wanted = {*table["grader"].tolist(), *(rule.name for rule in plan.judges)}
    return tuple(
        judge_column(
            plan,
            table,
            JudgeFacts(
                pin,
                rates_of(study, pin),
                graded_records(study, pin),
                relatives_of(study.protocol, pin.name),
                labels.get(pin.name),
                tuple(drift for drift in drifts if drift.judge == pin.name),
                day.isoformat() if (day := released[pin.name]) else "",
            ),
            registration,
        )
        for pin in study.protocol.judges
        if pin.name in wanted
    )


def _by_judges(
    plan: Plan,
    table: ResultTable,
    registration: str,
    columns: Sequence[JudgeColumn],
    history: WaveHistory,
) -> list[Analysis]:
    """Return the registered test on the scores of each judge with a shown column: exploratory."""
    return [
        explore(
            plan,
            table,
            registration,
            f"graded by {column.judge}",
            grader=column.judge,
            history=history,
        )
        for column in columns
        if column.waves and not column.withheld
    ]


def _templated(study: Study, rows: list[ResultRow], seed: str) -> TableSet | None:
    """Return the tables of the strata that come from template files; None if there are none."""
    facts = facts_of_study(study.protocol)
    return make_tables(answers_of_rows(rows, facts), seed, of_study=True) if facts else None


def shortfalls_of(registered: Preregistration) -> tuple[str, ...]:
    """Return a sentence on a plan that was registered although it cannot be expected to answer, and
    one on template questions that were registered although they are not proved."""
    sentences = []
    if (known := registered.underpowered) is not None:
        shortfalls = "; ".join(known.shortfalls)
        sentences.append(
            f"The plan was registered with known shortfalls ({shortfalls}), since {known.reason}."
        )
    if (unproved := registered.unproved) is not None:
        questions = "; ".join(unproved.questions)
        sentences.append(
            f"Questions were registered that are not proved ({questions}), since {unproved.reason}."
        )
    return tuple(sentences)


def drift_of(registered: Preregistration, waves: Iterable[WaveSnapshot]) -> tuple[str, ...]:
    """Return a sentence for each manifest of a wave with other code, libraries or image than
    registered, and for each model at another address than before. Frozen models that ran with the
    change bridge it (spec/verdicts.md, 7)."""
    rules = registered.plan.standard
    addresses: dict[str, str] = {}
    agent_rules: set[str] = set()
    sentences: list[str] = []
    for number, manifests in ((wave.number, wave.manifests) for wave in waves):
        for manifest in manifests:
            if manifest.provenance.dirty:
                sentences.append(f"Wave {number} ran from a working tree with uncommitted changes.")
            names = [pin.name for pin in manifest.models]
            bridging = () if rules is None else bridging_models(rules, names)
            verb = "bridge" if len(bridging) > 1 else "bridges"
            bridge = (
                f"{', '.join(bridging)}, run again, {verb} it" if bridging else "nothing bridges it"
            )
            changes = find_changes(manifest.provenance, registered.provenance)
            if changes:
                sentences.append(
                    f"Wave {number} ran with another harness than registered "
                    f"({'; '.join(changes)}); {bridge}."
                )
            if agent_rules and manifest.agent_rules not in agent_rules:
                sentences.append(
                    f"Wave {number} ran with other prompts, tools or caps of the agent loop than "
                    f"an earlier wave; {bridge}."
                )
            agent_rules.add(manifest.agent_rules)
            for pin in manifest.models:
                address = address_of(pin)
                if address != addresses.setdefault(pin.name, address):
                    sentences.append(
                        f"Wave {number} ran {pin.name} at {address}, and an earlier wave at "
                        f"{addresses[pin.name]}."
                    )
    return tuple(sentences)


def graded_rows(
    study: StudySnapshot, waves: Sequence[WaveSnapshot], labels: Mapping[str, Labels] | None = None
) -> Iterator[ResultRow]:
    """Yield the rows of some waves as the exact grader and the judges scored them. Needs the
    study's key. ``labels``, by judge, count each judge's verdicts on criteria with a truth that
    the exact grader knows."""
    yield from exact_rows(study, waves)
    entries = {entry.instance: entry for entry in study.entries()}
    burned = burned_tranches(study.ledger.entries())
    for wave in waves:
        for result, grade in judge_grades(study, wave.results.values(), study.keys()):
            entry = entries[result.instance]
            if labels is not None:
                verdicts = labelled(result.grade, grade)
                labels[grade.grader].add(result.instance, result.stratum, entry.arm, verdicts)
            yield join_draw(judged_row(result, grade, entry.arm), entry, burned)


def _closed_waves(study: StudySnapshot, through: int | None) -> list[WaveSnapshot]:
    """Return the waves to look at: those closed up to ``through``, which must be closed. Each
    earlier one must have been begun."""
    planned = len(study.protocol.waves)
    if through is not None and through >= planned:
        raise StudyError(f"--through {through}: study.yaml plans waves 0 to {planned - 1}")
    wanted = range(planned if through is None else through + 1)
    closed = [wave for wave in study.closed_waves if wave.number in wanted]
    missing = [wave for wave in wanted if wave not in {wave.number for wave in closed}]
    if through is not None:
        missing = [wave for wave in missing if wave == through or wave not in study.waves]
    if not closed or (through is not None and missing):
        first = missing[0]
        raise StudyError(
            f"wave {first} is not closed; run `dosimeter sweep --wave {first}` to its end first"
        )
    return closed


def _sorted(rows: Iterator[ResultRow]) -> list[ResultRow]:
    return sorted(rows, key=lambda r: (r.wave, r.model, r.stratum, r.instance, r.replicate))


def _zip(files: Iterable[tuple[str, str]]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files:
            archive.writestr(name, text)
    return data.getvalue()


def _write_new(path: Path, data: bytes) -> None:
    """Write a new file, whole or not at all."""
    try:
        write_whole(path, data, mode=0o600, new=True)
    except OSError as error:
        raise StudyError(f"{path}: {error.strerror}; name a file in a folder of yours") from None
