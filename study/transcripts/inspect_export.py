"""Episodes for other people's viewers: Inspect AI's logs, one a model, task and wave.

They hold transcripts in plain text. By default those of the public arm only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from registry.ledger import ModelPin, RunManifest, record_digest
from registry.result_row import Arm
from study.errors import StudyError
from study.files import new_folder
from study.judging import grades_of
from study.transcripts.find import (
    Listed,
    begun_waves,
    instance_of,
    list_episodes,
    read_attempt,
    require_key,
)
from study.transcripts.inspect_log import LogHead, Sampled, write_log
from study.workspace import Study, StudySnapshot, take_snapshot


@dataclass(frozen=True, slots=True)
class Exported:
    """One log that was written."""

    log: str
    wave: int
    task: str
    model: str
    samples: int


def export_inspect(
    study: Study, out: Path, wave: int | None, arm: str, reveal: bool
) -> tuple[Exported, ...]:
    """Write the logs of the episodes that have a result into a new folder, whole or not at all,
    readable by its owner only.

    Raises StudyError where private episodes are asked for without ``reveal``, where there is
    nothing to write, or where ``out`` is there already.
    """
    if arm != Arm.PUBLIC and not reveal:
        raise StudyError(
            f"--arm {arm} writes private transcripts in plain text; add --reveal if that is "
            "meant, and keep the folder as you keep the key"
        )
    require_key(study, "dosimeter export")
    snapshot = take_snapshot(study)
    manifests = {manifest.wave: manifest for manifest in begun_waves(snapshot, wave)}
    chosen = _choose(snapshot, wave, arm)
    if not any(each.result for each in chosen):
        raise StudyError(f"no episode of the {arm} arm has a result yet: sweep its wave first")
    with new_folder(out) as draft:
        draft.chmod(0o700)
        return tuple(_write_logs(snapshot, draft, manifests, chosen))


def _choose(study: StudySnapshot, wave: int | None, arm: str) -> list[Listed]:
    arms = {entry.instance: str(entry.arm) for entry in study.entries()}
    return [e for e in list_episodes(study, wave) if arm in ("all", arms[e.cell.instance])]


def _write_logs(
    study: Study, folder: Path, manifests: dict[int, RunManifest], chosen: list[Listed]
) -> Iterator[Exported]:
    def key(each: Listed) -> tuple[int, str, str]:
        return each.wave, each.cell.model, each.cell.spec.stratum

    for (wave, model, stratum), group in groupby(sorted(chosen, key=key), key=key):
        own = list(group)
        if not any(each.result for each in own):
            continue
        head = _head(study, manifests[wave], own)
        samples = (_sampled(study, each) for each in own if each.result is not None)
        handle = os.open(folder / head.file_name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "wb") as file:
            count = write_log(file, head, samples)
        yield Exported(head.file_name, wave, stratum, model, count)


def _sampled(study: Study, listed: Listed) -> Sampled:
    result = listed.result
    if result is None:
        raise StudyError("an episode without a result is not exported")
    episode = listed.cell.episode
    earlier = range(1, result.attempt)
    return Sampled(
        listed.seed,
        read_attempt(study, episode, result.attempt),
        result,
        tuple(read_attempt(study, episode, attempt) for attempt in earlier),
        grades_of(study, episode, study.identities()),
    )


def _head(study: Study, manifest: RunManifest, own: list[Listed]) -> LogHead:
    cell = own[0].cell
    entry = next(each for each in study.entries() if each.instance == cell.instance)
    instance = instance_of(study, entry)
    limits = None if instance is None else instance.brief.limits
    pin = _pin(manifest, cell.model)
    return LogHead(
        study=manifest.study,
        wave=manifest.wave,
        task=cell.spec.family,
        version=cell.spec.version,
        difficulty=cell.spec.difficulty,
        model=cell.model,
        provider=pin.provider,
        asked=pin.version,
        created=_created(study, manifest),
        run=record_digest(manifest),
        commit=manifest.provenance.commit,
        dirty=manifest.provenance.dirty,
        sandbox=manifest.sandbox,
        image=manifest.provenance.image,
        replicates=manifest.replicates,
        turns=limits.turns if limits else None,
        seconds=limits.episode_seconds if limits else None,
        packages=manifest.provenance.packages,
        complete=all(each.result is not None for each in own),
    )


def _pin(manifest: RunManifest, model: str) -> ModelPin:
    return next(pin for pin in manifest.models if pin.name == model)


def _created(study: Study, manifest: RunManifest) -> str:
    """When the wave was begun."""
    entries = study.ledger.find("run-manifest")
    return next(entry.time for entry in entries if entry.record == manifest)
