"""Verification of files outside the store: a release, the reports in the study's folder, and the
code that records name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.agent.rules import rules_digest
from publish.release import CHECKPOINT, CHECKSUMS, COMMITMENTS, OPENINGS
from registry.canonical import digest_bytes
from registry.draws.allocation import allocate
from registry.errors import RegistryError
from registry.ledger.chain import Entry
from registry.ledger.draw_records import SealedSet
from registry.ledger.records import Provenance, Release, ReportIssued, RunManifest
from registry.provenance import lock_of_commit, read_provenance
from registry.result_row import Arm
from registry.sealing import commit
from study.errors import StudyError
from study.steps.report.context import find_report
from study.workspace.study import CHECKOUT, Study

_REPORTS = "reports"


def check_release(
    study: Study, entries: Sequence[Entry], folder: Path | None
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the files of the public arm: each is the one of the ledger's record,
    and opens a commitment of the draw, in the public arm. ``folder`` is a copy, from the Hub for
    one; by default that of the study. Raises StudyError if a folder that is given is none."""
    if folder is not None and not folder.is_dir():
        raise StudyError(f"--release {folder}: no folder; give one with the released files")
    released = [entry.record for entry in entries if entry.kind == "release"]
    if not released:
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
    digest = digest_bytes(data)
    if digest != record.content:
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
        places = allocate(
            sealed.strata, sealed.seeds_per_arm, sealed.allocation_seed, sealed.reserve
        )
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
    for through, record in newest.items():
        folder = study.folder / _REPORTS / f"wave-{through}"
        if not folder.is_dir():
            yield "", f"the report through wave {through}: its files are not in {folder}"
            continue
        for name, expected in record.files:
            path = folder / name
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
        lock = lock_of_commit(CHECKOUT, made.commit)
        if lock is None:
            yield "", f"the code of {entry.place}: this repository has no commit {made.commit[:40]}"
        elif lock != made.lock:
            problem = f"lock {made.lock} is not that of its commit, {lock}"
            yield entry.place, f"{entry.kind}: its {problem}"
        if entry.kind == "run-manifest" and (now.commit, now.dirty) == (made.commit, False):
            rules = rules_digest()
            if record.agent_rules != rules:
                problem = f"agent rules {record.agent_rules} are not those of its commit, {rules}"
                yield entry.place, f"{entry.kind}: its {problem}"
    if changed:
        records = ", ".join(changed)
        yield "", f"the code of ledger records {records}: the tree had changes that no commit has"
