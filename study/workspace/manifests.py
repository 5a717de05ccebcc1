"""The waves of a study as ledger and store have them: manifests, cells, finished episodes."""

from __future__ import annotations

from collections.abc import Iterable

from generators.seed import Seed
from generators.task import TaskSpec
from harness.episode import Cell
from harness.storage import RESULTS, result_key
from harness.sweep import WaveInstance, schedule_cells
from registry.errors import BrokenPromise
from registry.ledger import Ledger, RunManifest, WaveClosed, record_digest
from registry.sealing import SealedEntry
from registry.stores import Store


def closed_wave(ledger: Ledger, wave: int) -> WaveClosed | None:
    """Return the record of a closed wave; None while it is open."""
    records: Iterable[WaveClosed] = (entry.record for entry in ledger.find("wave-closed"))
    return next((record for record in records if record.wave == wave), None)


def manifests_of(ledger: Ledger, wave: int) -> tuple[RunManifest, ...]:
    """Return the manifests of a wave, oldest first: one for each state of code and image that it
    was run with. They share their run key, models and schedule."""
    records = (entry.record for entry in ledger.find("run-manifest"))
    return tuple(record for record in records if record.wave == wave)


def manifest_of(ledger: Ledger, wave: int) -> RunManifest | None:
    """Return the newest manifest of a wave; None before it is begun."""
    begun = manifests_of(ledger, wave)
    return begun[-1] if begun else None


def closing_manifest(ledger: Ledger, closed: WaveClosed) -> RunManifest:
    """Return the manifest that a closed wave names. Raises BrokenPromise."""
    for manifest in manifests_of(ledger, closed.wave):
        if record_digest(manifest) == closed.manifest:
            return manifest
    raise BrokenPromise(
        f"wave {closed.wave} was closed for run {closed.manifest}, of which the ledger has no "
        "manifest: see `dosimeter verify`"
    )


def cells_of(entries: Iterable[SealedEntry], manifest: RunManifest) -> tuple[Cell, ...]:
    """Return every cell of a wave in the order of its schedule, for the entries of the draw."""
    subjects = (
        WaveInstance(
            TaskSpec(entry.family, entry.version, entry.difficulty, ()),
            entry.instance,
            Seed.from_hex(entry.seed),
            entry.tranche,
        )
        for entry in entries
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


def finished_of(store: Store, cells: Iterable[Cell]) -> frozenset[str]:
    """Return the store keys of the results that are stored, of the cells given."""
    wanted = {result_key(cell.episode) for cell in cells}
    return frozenset(key for key in store.list(RESULTS) if key in wanted)
