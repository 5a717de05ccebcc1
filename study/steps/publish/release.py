"""The public arm, out of the house: built, checked for leaks, and put on the Hub if named."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from publish.dataset_card import HUB, ReleaseText
from publish.leakcheck.check import LeakFound, check_folder, release_needles, scan_paths
from publish.leakcheck.secrets import Needles
from publish.release import CHECKPOINT, ReleaseManifest, build_release
from registry.draws.reveal import units_revealed
from registry.ledger.records import Release
from registry.result_row import Arm
from study.errors import StudyError
from study.steps.publish.asked import ask
from study.workspace.checkpoints import release_checkpoint
from study.workspace.setup import Watch, registration_of
from study.workspace.study import Study

if TYPE_CHECKING:
    from publish.hub import HubPlace

logger = logging.getLogger(__name__)


def publish_arm(
    study: Study,
    upload: bool | None,
    watch: Watch,
    now: Callable[[], str],
    tranches: Sequence[int] = (),
) -> tuple[Release, bool]:
    """Release the public arm; the record, and whether it is new.

    ``upload`` None means: if study.yaml names a repository. ``tranches`` are added to those that
    are released already; () for all that were drawn. Raises PublishError if anything that follows
    from a private seed would go out; the ledger has no record then.
    """
    place = _place(study) if upload is not False else None
    if upload and place is None:
        raise StudyError("--upload needs `release: {repository: owner/name}` in study.yaml")
    if place is not None:
        from publish.hub import check_token

        check_token()  # before anything is built
    wanted = study.protocol.release
    given = _given(study, tranches, watch)
    built = build_release(study.folder / wanted.folder, **given)
    check = _check(study, built, watch)
    location, revision = wanted.folder, ""
    if place is not None:
        from publish.hub import upload_release

        files = len(built.files)
        watch(f"uploading {files} files to {place.repository}, and reading them back", 0, 0)
        uploaded = upload_release(built.folder, place, check)
        location, revision = uploaded.repository, uploaded.revision
    record = Release(
        Arm.PUBLIC.value,
        built.instances_root,
        built.count,
        built.content,
        location,
        revision=revision,
        tranches=built.tranches,
    )
    return record, study.ledger.append_once(record, now())[1]


def _place(study: Study) -> HubPlace | None:
    from publish.hub import HubPlace

    wanted = study.protocol.release
    if wanted.repository is None:
        return None
    return HubPlace(wanted.repository, wanted.endpoint, wanted.private, wanted.gated)


def _given(study: Study, tranches: Sequence[int], watch: Watch) -> dict[str, Any]:
    """What a release is built from. Raises StudyError for what cannot be released."""
    registration_of(study)  # the analysis is promised before anything is published
    sealed, entries = study.sealed_set(), study.entries()
    drawn = range(len(sealed.reserve) + 1)
    for tranche in tranches:
        if tranche not in drawn:
            raise StudyError(f"tranche {tranche} was not drawn: 0 to {drawn[-1]} were")
    earlier = [n for entry in study.ledger.find("release") for n in entry.record.tranches]
    chosen = {*earlier, *(tranches or drawn)}
    public = [e for e in entries if e.arm is Arm.PUBLIC and e.tranche in chosen]
    progress = _progress(watch, "building the release, by instance", len(public))
    return {
        "entries": public,
        "sealed": sealed,
        "find_family": study.protocol.catalog.family,
        "text": _text(study),
        "progress": progress,
        "checkpoint": release_checkpoint(
            study, study.folder / study.protocol.release.folder / CHECKPOINT
        ),
        "ask": ask,
    }


def _text(study: Study) -> ReleaseText:
    wanted, name = study.protocol.release, study.protocol.name
    registered = study.ledger.last("preregistration")
    return ReleaseText(
        study=name,
        title=wanted.title or f"{name}: public arm",
        licence=wanted.licence,
        repository=wanted.repository or "",
        hub=(wanted.endpoint or HUB).rstrip("/"),
        authors=wanted.authors,
        homepage=wanted.homepage or "",
        doi=wanted.doi or "",
        year=registered.time[:4] if registered else "",
    )


def _check(study: Study, built: ReleaseManifest, watch: Watch) -> Callable[[Path], object]:
    """Check a release for leaks, and return the check for its copies. Raises PublishError."""
    needles = study_needles(study, watch, "checking it for leaks, by instance")
    check = partial(check_folder, needles=needles)
    check(built.folder)
    logger.info("release of %d instances: no leak", built.count)
    return check


def _progress(watch: Watch, step: str, instances: int) -> Callable[[int], None]:
    watch(step, 0, instances)
    return lambda done: watch(step, done, instances)


def study_needles(study: Study, watch: Watch, step: str, excused: bool = True) -> Needles:
    """Return what to look for: what follows from private seeds, also of units that stay sealed if
    their files are not revealed, and the study's keys; ``excused`` as ``release_needles`` has it.
    Raises PublishError, RegistryError."""
    entries = study.entries()
    units = units_revealed(study.ledger.entries(), study.sealed_set())
    shown = {name for unit in units for name in unit.strata}
    made = sum(excused or entry.arm is Arm.PRIVATE for entry in entries)
    family, progress = study.protocol.catalog.family, _progress(watch, step, made)
    return release_needles(entries, family, progress, study.secret_keys(), shown, excused)


def scan_for_leaks(study: Study, paths: Iterable[Path], watch: Watch) -> tuple[LeakFound, ...]:
    """Return what follows from private seeds in files and folders, the study's and its runs' keys,
    and what could not be read there, sorted. Raises PublishError, RegistryError."""
    needles = study_needles(study, watch, "making the private instances")

    def read(files: int, size: int) -> None:
        watch(f"{files} files read, {size >> 20} MiB", 0, 0)

    return tuple(
        sorted(
            {
                replace(leak, file=str((path if path.is_dir() else path.parent) / leak.file))
                for path in paths
                for leak in scan_paths([path], needles, read)
            },
            key=str,
        )
    )
