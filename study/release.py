"""The public arm, out of the house: built, checked for leaks, and put on the Hub if named."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from publish.leakcheck import (
    LeakFound,
    check_folder,
    release_files,
    release_needles,
    scan_paths,
)
from publish.release import ReleaseText, build_release
from registry.ledger import Release
from registry.result_row import Arm
from study.errors import StudyError
from study.workspace import Study, registration_of

logger = logging.getLogger(__name__)
TAG = "v1"


def publish_arm(
    study: Study,
    upload: bool | None,
    watch: Callable[[str, int, int], None],
    now: Callable[[], str],
) -> tuple[Release, bool]:
    """Release the public arm; the record, and whether it is new.

    ``upload`` None means: where study.yaml names a repository. Raises PublishError where
    anything that follows from a private seed would go out; the ledger has no record then.
    """
    registration_of(study)  # the analysis is promised before anything is published
    wanted = study.protocol.release
    if upload and wanted.repository is None:
        raise StudyError("--upload needs `release: {repository: owner/name}` in study.yaml")
    uploads = wanted.repository is not None and upload is not False
    if uploads:
        from publish.hub import check_token

        check_token()  # before anything is built
    entries, find_family = study.entries(), study.protocol.catalog.family
    folder = study.folder / wanted.folder
    public = [entry for entry in entries if entry.arm is Arm.PUBLIC]

    def watch_of(step: str, instances: int) -> Callable[[int], None]:
        watch(step, 0, instances)
        return lambda done: watch(step, done, instances)

    name = study.protocol.name
    text = ReleaseText(name, wanted.title or f"{name}: public arm", wanted.licence)
    progress = watch_of("building the release, by instance", len(public))
    built = build_release(folder, public, study.sealed_set(), find_family, text, progress)
    progress = watch_of("checking it for leaks, by instance", len(entries))
    needles = release_needles(entries, find_family, progress, study.secret_keys())
    check = partial(check_folder, needles=needles)
    check(folder)
    logger.info("release of %d instances: no leak", len(public))
    location, revision = wanted.folder, ""
    if uploads and wanted.repository is not None:
        from publish.hub import upload_release

        files = sum(1 for _ in release_files(folder))
        watch(f"uploading {files} files to {wanted.repository}, and reading them back", 0, 0)
        uploaded = upload_release(folder, wanted.repository, TAG, check, endpoint=wanted.endpoint)
        location, revision = uploaded.repository, uploaded.revision
    root, count, content = built.instances_root, built.count, built.content
    record = Release(Arm.PUBLIC.value, root, count, content, location, revision)
    _, fresh = study.ledger.append_unless(
        record, now(), lambda entry: entry.kind == "release" and entry.record == record
    )
    return record, fresh


def scan_for_leaks(
    study: Study, paths: Iterable[Path], watch: Callable[[str, int, int], None]
) -> tuple[LeakFound, ...]:
    """Return what follows from private seeds in files and folders, the study's and its runs' keys,
    and what could not be read there, sorted. Raises PublishError, RegistryError."""
    entries = study.entries()
    needles = release_needles(
        entries,
        study.protocol.catalog.family,
        lambda done: watch("making the private instances", done, len(entries)),
        study.secret_keys(),
    )

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
