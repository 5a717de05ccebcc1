"""The manifests, cells and results of a study's waves, as ledger and store have them."""

from __future__ import annotations

from collections.abc import Iterator

from generators.seed import Seed
from generators.task import TaskSpec
from harness.episode import Cell
from harness.episodes import EpisodeResult
from harness.store_keys import RESULTS, result_key
from harness.sweep import Subject, read_result, schedule_cells
from registry.errors import BrokenPromise
from registry.ledger import (
    RunManifest,
    WaveClosed,
    record_digest,
)
from study.workspace import Study


def closed_wave(study: Study, wave: int) -> WaveClosed | None:
    """The record of a wave that is closed, if it is."""
    for entry in study.ledger.find("wave-closed"):
        record: WaveClosed = entry.record
        if record.wave == wave:
            return record
    return None


def manifests_of(study: Study, wave: int) -> tuple[RunManifest, ...]:
    """The manifests of a wave, first first: one for each state of the code and image that it
    was run with. They share their run key, models and schedule."""
    records = (entry.record for entry in study.ledger.find("run-manifest"))
    return tuple(record for record in records if record.wave == wave)


def manifest_of(study: Study, wave: int) -> RunManifest | None:
    """The newest manifest of a wave, if it was begun."""
    begun = manifests_of(study, wave)
    return begun[-1] if begun else None


def closing_manifest(study: Study, closed: WaveClosed) -> RunManifest:
    """The manifest that a closed wave names. Raises BrokenPromise."""
    for manifest in manifests_of(study, closed.wave):
        if record_digest(manifest) == closed.manifest:
            return manifest
    raise BrokenPromise(
        f"wave {closed.wave} was closed for run {closed.manifest}, of which the ledger has no "
        "manifest: see `dosimeter verify`"
    )


def cells_of(study: Study, manifest: RunManifest) -> tuple[Cell, ...]:
    """Every cell of a wave, in the order of its schedule."""
    subjects = (
        Subject(
            TaskSpec(entry.family, entry.version, entry.difficulty, ()),
            entry.instance,
            Seed.from_hex(entry.seed),
            entry.tranche,
        )
        for entry in study.entries()
    )
    return schedule_cells(
        manifest.study,
        manifest.wave,
        subjects,
        manifest.models,
        manifest.replicates,
        Seed.from_hex(manifest.schedule_seed),
        manifest.tranches,
    )


def finished_of(study: Study, cells: tuple[Cell, ...]) -> frozenset[str]:
    """Store keys of the results that are there, of the cells given."""
    wanted = {result_key(cell.episode) for cell in cells}
    return frozenset(key for key in study.store.list(RESULTS) if key in wanted)


def read_results(study: Study, manifest: RunManifest) -> Iterator[EpisodeResult]:
    """The results of a wave that are there, for who holds the key."""
    identities = study.identities()
    for key in sorted(finished_of(study, cells_of(study, manifest))):
        yield read_result(study.store, key, identities)
