"""The probes of closed waves, joined to the arms and tested. For who holds the study's key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.exposure import Exposure, test_exposure
from harness.keys import PROBES
from registry.records import Plan
from registry.tables import Arm
from study.folder import Study
from study.probes import askable_entries, probes_there


def exposure_of(
    study: Study, plan: Plan, registration: str, waves: Sequence[int]
) -> tuple[Exposure, ...]:
    """What the probes of some waves say, of each model that was asked about every instance."""
    if next(iter(study.store.list(PROBES)), None) is None:
        return ()
    entries = askable_entries(study)
    strata = sorted({entry.stratum for entry in entries})
    stratum = np.array([strata.index(entry.stratum) for entry in entries], dtype=np.int64)
    public = np.array([entry.arm is Arm.PUBLIC for entry in entries])
    found: list[Exposure] = []
    for wave in waves:
        columns = {}
        for pin in study.protocol.wave_models(wave):
            there = probes_there(study, wave, pin, entries)
            if entries and len(there) == len(entries):
                columns[pin.name] = [there[entry.instance].score for entry in entries]
        if columns:
            scores = np.array(list(columns.values()), dtype=np.float64).T
            found += test_exposure(
                plan, list(columns), scores, stratum, public, wave=wave, registration=registration
            )
    return tuple(found)
