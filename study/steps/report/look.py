"""Looks at the data: result rows, the registered test on them, the report."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from analysis.data.table import ResultTable, make_table, without_strata
from analysis.plan.look import analyse
from analysis.plan.presets import bridging_models
from analysis.report.report import Report, ReportRequest, build_report
from analysis.report.write import DATA, report_files, write_files
from harness.spending.prices import OWN_PROVIDERS
from registry.canonical import digest_bytes, digest_value
from registry.checkpoints.checkpoint import (
    SignedCheckpoint,
    leaf_hashes,
    put_checkpoint,
    sign_checkpoint,
)
from registry.draws.allocation import sealed_strata
from registry.ledger.chain import Entry
from registry.ledger.records import Preregistration, ReportIssued, record_body
from registry.provenance import find_changes
from registry.result_row import ResultRow, columns_of
from registry.verify.promises import selection_words
from study.errors import StudyError
from study.steps.report.context import (
    REPORTS,
    add_changes,
    check_report,
    describe_checkpoint,
    first_issue,
)
from study.steps.report.contributors import LookContext, LookScope, LookShare, shares_of
from study.steps.sweep.exposure_ledger import exact_rows
from study.steps.sweep.failing import address_of
from study.steps.sweep.history import (
    check_listed,
    count_stored,
    history_of,
    look_words,
    unclosed_waves,
    unclosed_words,
)
from study.workspace.setup import Watch, registration_of
from study.workspace.snapshot import StudySnapshot, WaveSnapshot, take_snapshot
from study.workspace.study import Study

logger = logging.getLogger(__name__)

_STEPS = 3  # of a report: read, test, draw; the check is counted by instances


@dataclass(frozen=True, slots=True)
class StudyLook:
    """A report and its rows, which name instances and arms, so only holders of the key may see
    them. ``table`` is the digest of the rows; ``unclosed`` are the waves that were begun and not
    closed, each with its number of stored episodes; ``results`` the digests of recorded results
    that extras show; ``checkpoint`` is the ledger's."""

    report: Report
    rows: tuple[ResultRow, ...]
    table: str
    unclosed: tuple[tuple[int, int], ...]
    results: tuple[str, ...]
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
        calibrations=look.results,
        unclosed=look.unclosed,
        files=tuple(sorted(digests.items())),
        selection=report.selection,
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


def build_look(
    study: StudySnapshot, through: int | None, now: str, watch: Watch = lambda what, done, of: None
) -> StudyLook:
    """Return a look at the closed waves. Nothing is written."""
    registered = registration_of(study)
    study.own_identities()  # before rows are read, which may take long
    check_listed(study)
    waves = _closed_waves(study, through)
    last = waves[-1].number
    shares = shares_of(LookScope(study, tuple(waves)))
    watch("reading results", 0, _STEPS)
    rows = _sorted(_rows(study, waves, shares))
    logger.info("look through wave %d: %d rows", last, len(rows))
    table_digest = _digest(rows, shares)
    plan_digest = digest_value(record_body(registered))
    entries = study.ledger.entries()
    shown = tuple(result for share in shares for result in share.results(plan_digest))
    now_unclosed = unclosed_waves(entries) if through is None else None
    issue = first_issue(entries, last, table_digest, shown, now_unclosed)
    unclosed = count_stored(study) if issue is None else issue.record.unclosed
    if issue is not None:  # so that the same look again gives the same report
        entries = entries[: issue.sequence]
    history = history_of(entries, registered.plan)
    watch("testing", 1, _STEPS)
    table, sealed = make_table(rows), study.sealed_set()
    plan = without_strata(registered.plan, sealed_strata(sealed))
    controls = [c for share in shares for c in share.controls(plan, plan_digest)]
    analysis = analyse(plan, table, plan_digest, history=history, controls=controls)
    published = next((entry.time[:10] for entry in entries if entry.kind == "release"), "")
    context = LookContext(
        plan=plan,
        registration=plan_digest,
        rows=rows,
        table=table,
        digest=table_digest,
        history=history,
        published=published,
        verdicts=analysis.verdicts,
    )
    request = ReportRequest(
        registered=replace(registered, plan=plan),
        sealed=sealed,
        runs=[wave.manifest for wave in waves],
        table=table,
        analysis=analysis,
        issued=issue.time if issue else now,
        parts=[part for share in shares for part in share.parts(context)],
        free={pin.name for pin in study.protocol.models if pin.provider in OWN_PROVIDERS},
        published=published,
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
                    *stand_ins_of(registered, waves),
                    *drift_of(registered, waves),
                )
            )
        ),
        facts=study.protocol.facts,
        ledger_head=entries[-1].digest,
        selection=issue.record.selection if issue else selection_words(study.store, entries),
        checkpoint=describe_checkpoint(checkpoint),
        description=study.protocol.description,
    )
    report = add_changes(study, entries, report)
    return StudyLook(
        report=report,
        rows=tuple(rows),
        table=table_digest,
        unclosed=unclosed,
        results=shown,
        checkpoint=checkpoint,
    )


def _digest(rows: Sequence[ResultRow], shares: Sequence[LookShare]) -> str:
    """Return the digest of the rows of a look, and of what extras have it cover."""
    columns = columns_of(rows)
    more = [value for share in shares for value in share.digested()]
    return digest_value([columns, more] if more else columns)


def shortfalls_of(registered: Preregistration) -> tuple[str, ...]:
    """Return a sentence on a plan that was registered although it cannot be expected to answer, and
    one on tasks that were registered although they are not proved."""
    sentences = []
    if (known := registered.underpowered) is not None:
        shortfalls = "; ".join(known.shortfalls)
        sentences.append(
            f"The plan was registered with known shortfalls ({shortfalls}), since {known.reason}."
        )
    if (unproved := registered.unproved) is not None:
        tasks = "; ".join(unproved.tasks)
        sentences.append(
            f"Tasks were registered that are not proved ({tasks}), since {unproved.reason}."
        )
    return tuple(sentences)


def stand_ins_of(registered: Preregistration, waves: Iterable[WaveSnapshot]) -> tuple[str, ...]:
    """Return a sentence on controls that are built-in agents, if other models are tested."""
    pins = [pin for wave in waves for manifest in wave.manifests for pin in manifest.models]
    own = {pin.name for pin in pins if pin.provider == "scripted"}
    rules = registered.plan.standard
    named = [name for name in (rules.pre_exposure if rules else ()) if name in own]
    if not named or own.issuperset(pin.name for pin in pins):
        return ()
    return (
        f"Built-in agents stand in for older models as controls ({', '.join(named)}): they show no "
        "more than that the test runs.",
    )


def drift_of(registered: Preregistration, waves: Iterable[WaveSnapshot]) -> tuple[str, ...]:
    """Return a sentence for each manifest of a wave with other code, libraries or image than
    registered, and for each model or judge at another address than before. Frozen models that ran
    with the change bridge it."""
    rules = registered.plan.standard
    addresses: dict[str, str] = {}
    agent_rules: set[str] = set()
    sentences: list[str] = []
    for wave in waves:
        number, elsewhere = wave.number, wave.closed.elsewhere if wave.closed else ()
        sentences += [f"Wave {number}: {ran.words}." for ran in elsewhere]
        for manifest in wave.manifests:
            if manifest.provenance.dirty:
                sentences.append(f"Wave {number} ran from a working tree with uncommitted changes.")
            names = [pin.name for pin in manifest.models]
            bridging = () if rules is None else bridging_models(rules, names)
            verb = "bridge" if len(bridging) > 1 else "bridges"
            bridge = (
                f"{', '.join(bridging)}, run again, {verb} it" if bridging else "nothing bridges it"
            )
            if changes := find_changes(manifest.provenance, registered.provenance):
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
        graded = (entry.record for entry in wave.study.ledger.find("graded"))
        models = [pin for manifest in wave.manifests for pin in manifest.models]
        for pin in (*models, *(record.judge for record in graded if record.wave == number)):
            address, verb = address_of(pin), "ran" if pin in models else "was graded by"
            if address != (before := addresses.setdefault(pin.name, address)):
                place = f"at {address}, and earlier at {before}"
                sentences.append(f"Wave {number} {verb} {pin.name} {place}.")
    return tuple(sentences)


def graded_rows(study: StudySnapshot, waves: Sequence[WaveSnapshot]) -> Iterator[ResultRow]:
    """Yield the rows of some waves as the exact grader and those of extras scored them. Needs the
    study's key."""
    return _rows(study, waves, shares_of(LookScope(study, tuple(waves))))


def graded_table(study: StudySnapshot, waves: Sequence[WaveSnapshot]) -> ResultTable:
    """Return the same as a table of columns."""
    return make_table(graded_rows(study, waves))


def _rows(
    study: StudySnapshot, waves: Sequence[WaveSnapshot], shares: Sequence[LookShare]
) -> Iterator[ResultRow]:
    yield from exact_rows(study, waves)
    for share in shares:
        yield from share.rows()


def _closed_waves(study: StudySnapshot, through: int | None) -> list[WaveSnapshot]:
    """Return the waves to look at: those closed up to ``through``, which must be closed. Each
    earlier one must have been begun."""
    planned = len(study.protocol.waves)
    if through is not None and through >= planned:
        raise StudyError(f"wave {through}: study.yaml plans waves 0 to {planned - 1}")
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
