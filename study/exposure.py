"""The probes of closed waves, joined to the arms and tested. For who holds the study's key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from analysis.exposure import Exposure, test_exposure
from harness.keys import PROBES
from registry.records import Plan
from registry.seal import SealedEntry
from registry.tables import Arm
from study.folder import Study
from study.probes import askable_entries, entries_of_model, probes_there


def exposure_of(
    study: Study, plan: Plan, registration: str, waves: Sequence[int]
) -> tuple[Exposure, ...]:
    """What the probes of some waves say, of each model that was asked about every instance."""
    if next(iter(study.store.list(PROBES)), None) is None:
        return ()
    every = askable_entries(study)
    found: list[Exposure] = []
    for wave in waves:
        groups: dict[tuple[SealedEntry, ...], dict[str, list[float]]] = {}
        for pin in study.protocol.wave_models(wave):
            entries = entries_of_model(study, wave, pin, every)
            there = probes_there(study, wave, pin, entries)
            if entries and len(there) == len(entries):
                scores = [there[entry.instance].score for entry in entries]
                groups.setdefault(entries, {})[pin.name] = scores
        for entries, columns in groups.items():
            rows = _tested(plan, entries, columns, wave, registration)
            found += (_adjusted(row, len(groups)) for row in rows)
    return tuple(found)


def _tested(
    plan: Plan,
    entries: Sequence[SealedEntry],
    columns: Mapping[str, Sequence[float]],
    wave: int,
    registration: str,
) -> tuple[Exposure, ...]:
    """The test of the models that were asked about the same instances."""
    strata = sorted({entry.stratum for entry in entries})
    stratum = np.array([strata.index(entry.stratum) for entry in entries], dtype=np.int64)
    public = np.array([entry.arm is Arm.PUBLIC for entry in entries])
    scores = np.array(list(columns.values()), dtype=np.float64).T
    return test_exposure(
        plan, list(columns), scores, stratum, public, wave=wave, registration=registration
    )


def _adjusted(row: Exposure, groups: int) -> Exposure:
    """Its p over all groups of models that were asked about other tranches than the rest."""
    if groups == 1:
        return row
    p = min(1.0, groups * row.p_adjusted)
    return replace(row, p_adjusted=p, exposed=p <= row.alpha)
