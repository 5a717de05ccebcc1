"""`dosimeter verify`: what the store holds, what was released and reported, the code that records
name, and every grade."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.agent.rules import rules_digest
from publish.release import CHECKPOINT, CHECKSUMS, COMMITMENTS, OPENINGS
from registry.canonical import digest_bytes
from registry.checkpoints.checkpoint import CHECKPOINTS
from registry.checkpoints.timestamp import Authorities
from registry.draws.allocation import places_of
from registry.errors import BrokenPromise, RegistryError
from registry.ledger.chain import LEDGER, Entry, inspect_chain
from registry.ledger.draw_records import SealedSet
from registry.ledger.records import Provenance, Release, ReportIssued, RunManifest, WaveClosed
from registry.provenance import lock_of_commit, read_provenance
from registry.result_row import Arm
from registry.sealing import commit
from registry.verify.findings import Promise, Standing, Verification, promise_of
from registry.verify.promises import SHOWN, selection_words
from registry.verify.verify import verify_study
from study.errors import StudyError
from study.steps.report.context import find_report
from study.steps.verify.regrade import regrade_study
from study.workspace.checkpoints import read_file
from study.workspace.setup import Watch, registration_of
from study.workspace.study import CHECKOUT, Study
from study.workspace.tables import WaveTable

_REPORTS = "reports"


def check_release(
    study: Study, entries: Sequence[Entry], folder: Path | None
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the files of the public arm: each is the one of the ledger's record,
    and opens a commitment of the draw, in the public arm. ``folder`` is a copy, from the Hub for
    one; by default that of the study. Raises StudyError if a folder that is given is none."""
    if folder is not None and not folder.is_dir():
        raise StudyError(f"--release {folder}: no folder; give one with the released files")
    if not (released := [entry.record for entry in entries if entry.kind == "release"]):
        if folder is not None:
            yield str(folder), "the ledger has no record of a release"
        return
    place = release_folder(study, folder)
    if not place.is_dir():
        yield "", f"the released files: they are not in {place}; give a copy with --release"
        return
    sealed = [entry.record for entry in entries if entry.kind == "sealed-set"]
    yield from _check_files(place, released[-1])
    yield from _check_public(place, sealed, released[-1].tranches)


def kept_checkpoints(study: Study, release: Path | None) -> Iterator[Path]:
    """Yield the checkpoints that lie with the released files and with the reports."""
    reports = sorted((study.folder / _REPORTS).glob(f"wave-*/{CHECKPOINT}"))
    for path in (release_folder(study, release) / CHECKPOINT, *reports):
        if path.is_file():
            yield path


def release_folder(study: Study, copy: Path | None) -> Path:
    """Return where the released files are: a copy that was given, or in the study's folder."""
    return copy or study.folder / study.protocol.release.folder


def _check_files(folder: Path, record: Release) -> Iterator[tuple[str, str]]:
    listed = folder / CHECKSUMS
    try:
        data = listed.read_bytes()
    except OSError as error:
        yield str(listed), f"cannot be read ({error.strerror}): these are not the released files"
        return
    if (digest := digest_bytes(data)) != record.content:
        yield str(listed), f"was altered: digest {record.content} expected, {digest} found"
        return
    promised: Mapping[str, str] = json.loads(data)
    for name, expected in promised.items():
        try:
            found = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        except OSError as error:
            yield str(folder / name), f"missing from the release ({error.strerror})"
            continue
        if found != expected:
            yield str(folder / name), f"was altered: digest {expected} expected, {found} found"
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        hidden = any(part.startswith(".") for part in Path(name).parts)  # a copy's own, as .cache
        if path.is_file() and not hidden and name not in (*promised, CHECKSUMS):
            yield str(path), "not a file of the release"


def _check_public(
    folder: Path, drawn: Sequence[SealedSet], tranches: Sequence[int]
) -> Iterator[tuple[str, str]]:
    path = folder / COMMITMENTS
    try:
        listed, shown = json.loads(path.read_bytes()), set[int]()
        sealed = next(each for each in drawn if each.root == listed["root"])
        if tuple(listed["commitments"]) != sealed.commitments:
            yield str(path), "not the commitments that the ledger records"
        places = places_of(sealed)
        for path in sorted((folder / OPENINGS).glob("*.json")):
            body: Any = json.loads(path.read_bytes())
            for row in body["public"]:
                leaf, seed = row["leaf"], bytes.fromhex(row["seed"])
                shown.add(leaf)
                opened = commit(bytes.fromhex(row["nonce"]), row["instance"], seed)
                if opened != sealed.commitments[leaf] or places[leaf].arm is not Arm.PUBLIC:
                    yield str(path), f"leaf {leaf} is no public instance of the draw"
                elif places[leaf].tranche != body["tranche"]:
                    yield str(path), f"leaf {leaf} is of tranche {places[leaf].tranche}"
        owed = {n for n, (arm, at) in enumerate(places) if arm is Arm.PUBLIC and at in tranches}
        if owed - shown:
            yield str(folder / OPENINGS), f"{len(owed - shown)} public seeds are left out"
    except (OSError, ValueError, LookupError, TypeError, StopIteration, RegistryError):
        yield str(path), "not of the draw that the ledger has"


def check_reports(study: Study, entries: Sequence[Entry]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the reports in the study's folder: each file is as the newest report
    through its wave has it in the ledger."""
    newest: dict[int, ReportIssued] = {
        entry.record.through_wave: entry.record for entry in entries if entry.kind == "report"
    }
    recorded = {study.folder / _REPORTS / f"wave-{n}" / CHECKPOINT for n in newest}
    for through, record in newest.items():
        folder = study.folder / _REPORTS / f"wave-{through}"
        if not folder.is_dir():
            yield "", f"the report through wave {through}: its files are not in {folder}"
            continue
        for name, expected in record.files:
            path = folder / name
            recorded.add(path)
            try:
                found = digest_bytes(path.read_bytes())
            except OSError as error:
                yield str(path), f"missing from the report ({error.strerror})"
                continue
            if found != expected:
                yield str(path), f"was altered: digest {expected} expected, {found} found"
        body = find_report(study.folder, record)
        if body is not None and tuple(body["deviations"]) != record.deviations:
            yield str(folder), "its deviations are not those that the ledger records with it"
    for path in sorted((study.folder / _REPORTS).rglob("*")):
        if path.is_file() and path not in recorded:
            yield str(path), "not a file of a recorded report"
    for entry in entries:
        if entry.kind == "wave-closed" and newest and entry.record.wave > max(newest):
            yield "", f"wave {entry.record.wave} is closed, and no report has it"


def check_claims(
    study: Study, entries: Sequence[Entry], authorities: Authorities
) -> Iterator[tuple[str, str]]:
    """Yield the reports that say of an owner's choices what cannot be shown here."""
    for entry in entries:
        if entry.kind == "report" and entry.record.selection.startswith(SHOWN):
            before = entries[: entry.sequence]
            if not selection_words(study.store, before, authorities).startswith(SHOWN):
                yield "", f"what the report of {entry.place} says of the arms, plan and attempts"


def check_code(entries: Sequence[Entry]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the code that the plan and the waves name, as far as this repository
    has their commits: the lock of libraries, and at the same commit the digest of the agents'
    rules."""
    now = read_provenance(CHECKOUT, "none")
    changed: list[str] = []
    for entry in entries:
        if entry.kind not in ("preregistration", "run-manifest"):
            continue
        record: RunManifest = entry.record
        made: Provenance = record.provenance
        if made.dirty:
            changed.append(str(entry.sequence))
            continue
        here = (now.commit, now.dirty) == (made.commit, False)
        lock = lock_of_commit(CHECKOUT, made.commit)
        if lock is None and not here:
            yield "", f"the code of {entry.place}: it names {made.code}, and this is {now.code}"
        elif lock not in (None, made.lock):
            problem = f"lock {made.lock} is not that of its commit, {lock}"
            yield entry.place, f"{entry.kind}: its {problem}"
        if entry.kind == "run-manifest" and here:
            rules = rules_digest()
            if record.agent_rules != rules:
                problem = f"agent rules {record.agent_rules} are not those of its commit, {rules}"
                yield entry.place, f"{entry.kind}: its {problem}"
    if changed:
        records = ", ".join(changed)
        yield ("", f"the code of ledger records {records}: it had changes of its own")


Finding = tuple[str, str]  # place, problem; a place "" is a check that was not possible


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """What a study is compared with beyond its store, and whether grades are made again."""

    head: str | None = None  # digest of the ledger's last record, as noted elsewhere
    release: Path | None = None  # a copy of the released files; None: the one in the study's folder
    regrade: bool = False  # make every grade again from its stored attempt; takes the study's key
    checkpoints: tuple[Path, ...] = ()  # kept elsewhere than with the release and reports
    authorities: Path | None = None  # PEM file of those who stamp times, beside the system's
    processes: int = 1  # that grades are made again by


def verify(study: Study, request: VerifyRequest, watch: Watch) -> Verification:
    """Recompute every promise of the study.

    Raises StudyError for a release folder that is none, for a file that cannot be read and for
    ``regrade`` without the key, BrokenPromise if this code grades otherwise than the registered
    one, RegistryError for certificates that are none.
    """
    checkpoints = (*request.checkpoints, *kept_checkpoints(study, request.release))
    given = {str(path): read_file(path) for path in checkpoints}
    authorities = request.authorities
    pem = b"" if authorities is None else read_file(authorities)
    known = Authorities.known(pem, str(authorities))
    identities = study.identities() if study.key_file.exists() else None
    if request.regrade and identities is None:
        raise StudyError(
            f"--regrade opens every attempt, and {study.key_file} is not there: give the study's "
            "key file, by `keys:` in study.yaml or in DOSIMETER_KEY_FILE"
        )

    def derive(closed: WaveClosed) -> Iterator[tuple[str, str]]:
        # Without a ledger or an inventory that holds nothing is derived: a problem of its own.
        with suppress(BrokenPromise):
            yield from WaveTable(study, closed).check()

    found = verify_study(
        study.store,
        identities,
        request.head,
        progress=lambda done, of: watch("verifying", done, of),
        derive=derive,
        checkpoints=given,
        authorities=known,
    )
    entries = _readable(inspect_chain(study.store)[0])
    plan = [*_check_plan(study)]
    counts: dict[str, int] = {}
    grades = [("", "whether each grade follows from its attempt: --regrade was not given")]
    if request.regrade and found.holds and not plan:
        grades = [*regrade_study(study, watch, request.processes, counts)]
    elif request.regrade:
        grades = [("", "the grades: what they rest on does not hold")]
    reported = "that their numbers follow: `dosimeter report` with the key makes them again"
    ran = "that this code ran, and asked all models alike, is the owner's word"
    release, reports = check_release(study, entries, request.release), check_reports(study, entries)
    shown = all(promise.standing is Standing.HOLDS for promise in found.promises[:3])
    claims = () if shown else check_claims(study, entries, known)
    groups: list[tuple[str, str, list[Finding], tuple[str, ...]]] = [
        ("release", "what was published is what was recorded", [*release], ()),
        ("report", "the reports are those recorded", [*reports, *claims], (reported,)),
        ("preregistration", "the code is what the records name", [*check_code(entries)], (ran,)),
        ("wave-closed", "each grade follows from its attempt", grades, ()),
    ]
    promises = [*found.promises, *_record_promises(found, plan)]
    for kind, promise, group, never in groups:
        none = () if any(entry.kind == kind for entry in entries) else (f"no {kind} is recorded",)
        unshown = (*none, *(words for place, words in group if not place), *never)
        problems = [f"{place}: {words}" for place, words in group if place]
        promises.append(promise_of(promise, "each was compared", unshown, problems))
    findings = [*plan, *(finding for _, _, group, _ in groups for finding in group)]
    return _with(replace(found, promises=tuple(promises)), findings, counts)


def _record_promises(found: Verification, plan: Sequence[Finding]) -> Iterator[Promise]:
    """Yield the promises that rest on the store alone."""
    problems = [f"{place}: {words}" for place, words in (*plan, *found.problems)]
    ledger = [text for text in problems if text.startswith((LEDGER, CHECKPOINTS, "ledger record"))]
    ends = ("rewritten by the study's own key", "dropped from the ledger's end", "as it says")
    rewritten = [words for words in found.unchecked if any(end in words for end in ends)]
    holds = "they hold the head that was noted elsewhere"
    yield promise_of("the records are as they were made", holds, rewritten, ledger)
    others = [text for text in problems if text not in ledger]
    unopened = [words for words in found.unchecked if words.startswith("what is sealed")]
    yield promise_of("each stored object is as recorded", "each was opened", unopened, others)


def _check_plan(study: Study) -> Iterator[Finding]:
    """Yield how study.yaml differs from the registered plan, if one can be read."""
    try:
        if study.ledger.find("preregistration"):
            registration_of(study)
    except BrokenPromise as error:
        place, _, problem = str(error).partition(": ")
        yield place, problem


def _readable(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries whose bodies have the form of their kind; the others are problems already."""
    readable = []
    for entry in entries:
        with suppress(BrokenPromise):
            entry.record  # noqa: B018
            readable.append(entry)
    return tuple(readable)


def _with(found: Verification, findings: Iterable[Finding], counts: dict[str, int]) -> Verification:
    listed = [*findings]
    return replace(
        found,
        counts=(*found.counts, *counts.items()),
        problems=(*found.problems, *(finding for finding in listed if finding[0])),
        unchecked=(*found.unchecked, *dict.fromkeys(words for place, words in listed if not place)),
    )
