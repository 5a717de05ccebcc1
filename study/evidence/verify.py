"""`dosimeter verify`: what the store holds, what was released and reported, and every grade."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from registry.errors import BrokenPromise
from registry.ledger import Entry, WaveClosed, inspect_chain
from registry.verify import Verification, verify_study
from study.errors import StudyError
from study.evidence.files import check_code, check_release, check_reports
from study.evidence.regrade import regrade_study
from study.workspace import Study, Watch, WaveTable, registration_of

Finding = tuple[str, str]  # place, problem; a place "" is a check that was not possible


def verify(
    study: Study,
    head: str | None,
    watch: Watch,
    release: Path | None = None,
    regrade: bool = False,
    processes: int = 1,
) -> Verification:
    """Recompute every promise of the study. ``release`` is a copy of the released files, by default
    the one in the study's folder. With ``regrade`` every grade is made again from its stored
    attempt, by so many ``processes``, which takes the study's key.

    Raises StudyError for a release folder that is none and for ``regrade`` without the key,
    BrokenPromise if this code grades otherwise than the registered one.
    """
    identities = study.identities() if study.key_file.is_file() else None
    if regrade and identities is None:
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
        head,
        progress=lambda done, of: watch("verifying", done, of),
        derive=derive,
    )
    entries = _readable(inspect_chain(study.store)[0])
    findings: list[Finding] = [
        *check_release(study, entries, release),
        *check_reports(study, entries),
        *check_code(entries),
    ]
    counts: dict[str, int] = {}
    plan = [*_check_plan(study)]
    if regrade and found.holds and not plan:
        findings += regrade_study(study, watch, processes, counts)
    elif regrade:
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
