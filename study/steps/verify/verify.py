"""`dosimeter verify`: what the store holds, what was released and reported, and every grade."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from registry.checkpoints.timestamp import read_certificates
from registry.errors import BrokenPromise
from registry.ledger.chain import Entry, inspect_chain
from registry.ledger.records import WaveClosed
from registry.verify.findings import Verification
from registry.verify.verify import verify_study
from study.errors import StudyError
from study.steps.verify.files import check_code, check_release, check_reports, kept_checkpoints
from study.steps.verify.regrade import regrade_study
from study.workspace.checkpoints import read_file
from study.workspace.setup import Watch, registration_of
from study.workspace.study import Study
from study.workspace.tables import WaveTable

Finding = tuple[str, str]  # place, problem; a place "" is a check that was not possible


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """What a study is compared with beyond its store, and whether grades are made again."""

    head: str | None = None  # digest of the ledger's last record, as noted elsewhere
    release: Path | None = None  # a copy of the released files; None: the one in the study's folder
    regrade: bool = False  # make every grade again from its stored attempt; takes the study's key
    checkpoints: tuple[Path, ...] = ()  # kept elsewhere than with the release and reports
    authorities: Path | None = None  # PEM file of root certificates of those who stamp times
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
        authorities=read_certificates(pem, str(authorities)) if pem else (),
    )
    entries = _readable(inspect_chain(study.store)[0])
    findings: list[Finding] = [
        *check_release(study, entries, request.release),
        *check_reports(study, entries),
        *check_code(entries),
    ]
    counts: dict[str, int] = {}
    plan = [*_check_plan(study)]
    if request.regrade and found.holds and not plan:
        findings += regrade_study(study, watch, request.processes, counts)
    elif request.regrade:
        findings.append(("", "the grades: what they rest on does not hold"))
    else:
        findings.append(
            ("", "whether each grade follows from its attempt: --regrade was not given")
        )
    return _with(found, [*plan, *findings], counts)


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
