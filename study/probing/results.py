"""The probes of closed waves, joined to the arms and tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from analysis.probes import MEASURES, Exposure, TextExposure, test_exposure, test_texts
from harness.store_keys import PROBES
from registry.ledger import ModelPin, Plan
from registry.result_row import Arm
from registry.sealing import SealedEntry
from study.probing.probe import askable_entries, entries_of_model, read_probes
from study.probing.texts import TEXTS, read_texts, text_entries, text_notes
from study.workspace import Study


def exposure_of(
    study: Study, plan: Plan, registration: str, waves: Sequence[int]
) -> tuple[Exposure, ...]:
    """Return the test of the probes of some waves for each model that was asked about every
    instance. Needs the study's key."""
    if next(iter(study.store.list(PROBES)), None) is None:
        return ()
    every = askable_entries(study)
    exposures: list[Exposure] = []
    for wave in waves:
        groups: dict[tuple[SealedEntry, ...], dict[str, list[float]]] = {}
        for pin in study.protocol.wave_models(wave):
            entries = entries_of_model(study, wave, pin, every)
            there = read_probes(study, wave, pin, entries)
            if entries and len(there) == len(entries):
                scores = [there[entry.instance].score for entry in entries]
                groups.setdefault(entries, {})[pin.name] = scores
        for entries, columns in groups.items():
            rows = _tested(plan, entries, columns, wave, registration)
            exposures += (_adjusted(row, len(groups)) for row in rows)
    return tuple(exposures)


def texts_of(
    study: Study, plan: Plan, registration: str, waves: Sequence[int]
) -> tuple[tuple[TextExposure, ...], tuple[str, ...]]:
    """Return the test of the text probes of each model that was asked about every instance, and a
    note on each model without all measures; nothing if no text was put to any model. Needs the
    study's key."""
    records = [entry.record for entry in study.ledger.find("probed")]
    begun = {record.wave for record in records if record.what == TEXTS}
    here = [wave for wave in waves if wave in begun]
    every = text_entries(study)[0] if here else ()
    exposures: list[TextExposure] = []
    notes: list[str] = []
    for wave in here:
        groups: dict[tuple[SealedEntry, ...], dict[tuple[str, str], list[float]]] = {}
        for pin in study.protocol.wave_models(wave):
            entries = entries_of_model(study, wave, pin, every)
            columns = _measured(study, wave, pin, entries)
            groups.setdefault(entries, {}).update(columns)
            notes += text_notes(study, wave, pin, [measure for _, measure in columns])
        tested = {entries: columns for entries, columns in groups.items() if columns}
        for entries, columns in tested.items():
            stratum, public = _labels(entries)
            rows = test_texts(plan, columns, stratum, public, wave=wave, registration=registration)
            exposures += (
                replace(row, p_adjusted=min(1.0, len(tested) * row.p_adjusted)) for row in rows
            )
    return tuple(exposures), tuple(notes)


def _measured(
    study: Study, wave: int, pin: ModelPin, entries: Sequence[SealedEntry]
) -> dict[tuple[str, str], list[float]]:
    """The measures that a model has of every text, by model and measure."""
    there = read_texts(study, wave, pin, entries)
    if not entries or len(there) < len(entries):
        return {}
    columns = {}
    for measure in MEASURES:
        values = [getattr(there[entry.instance].membership, measure) for entry in entries]
        if None not in values:
            columns[pin.name, measure] = values
    return columns


def _labels(entries: Sequence[SealedEntry]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Stratum and arm of each entry."""
    strata = sorted({entry.stratum for entry in entries})
    stratum = np.array([strata.index(entry.stratum) for entry in entries], dtype=np.int64)
    return stratum, np.array([entry.arm is Arm.PUBLIC for entry in entries])


def _tested(
    plan: Plan,
    entries: Sequence[SealedEntry],
    columns: Mapping[str, Sequence[float]],
    wave: int,
    registration: str,
) -> tuple[Exposure, ...]:
    """The test of the models that were asked about the same instances."""
    stratum, public = _labels(entries)
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
