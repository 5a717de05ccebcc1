"""The probes of closed waves, joined to the arms and tested."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from analysis.plan.markers import MarkerCounts, MarkerExposure, test_markers
from analysis.probe.part import exposure_part
from analysis.probe.probes import Exposure, compare_exposure
from analysis.report.part import Part
from harness.probe.markers import MarkerProbe
from harness.storage import PROBES
from harness.sweep.schedule import WaveInstance
from registry.ledger.records import Plan
from registry.result_row import Arm
from study.extras.probe.kinds import (
    MARKERS,
    QUESTIONS,
    instances_of_kind,
    instances_of_model,
    stored_probes,
)
from study.steps.report.contributors import LookContext, LookShare
from study.workspace.study import Study

Groups = dict[tuple[WaveInstance, ...], dict[str, list[float]]]
"""A score of each instance, by model, by the instances that the models run."""


class ProbeShare(LookShare):
    """The share of probes in a look at the data."""

    def parts(self, look: LookContext) -> Sequence[Part]:
        """Return the part on exposure."""
        study, waves = self.scope.study, self.scope.numbers
        exposure = exposure_of(study, look.plan, look.registration, waves)
        return (exposure_part(exposure, markers_of(study, look.plan, waves)),)


look = ProbeShare


def exposure_of(
    study: Study, plan: Plan, registration: str, waves: Sequence[int]
) -> tuple[Exposure, ...]:
    """Return the test of the probes of some waves for each model that was asked about every
    instance. Needs the study's key."""
    if next(iter(study.store.list(PROBES)), None) is None:
        return ()
    askable, _ = instances_of_kind(study, QUESTIONS)
    arms = _arms(study)
    return tuple(
        _adjusted(row, len(groups))
        for wave in waves
        for groups in (_complete_columns(study, wave, askable),)
        for entries, columns in groups.items()
        for row in compare_exposure(
            plan, columns, *_labels(entries, arms), wave=wave, registration=registration
        )
    )


def _adjusted(row: Exposure, groups: int) -> Exposure:
    """Return a row with its p over all groups of models that were asked about other tranches than
    the rest."""
    p = min(1.0, groups * row.p_adjusted)
    return replace(row, p_adjusted=p, exposed=p <= row.alpha)


def markers_of(study: Study, plan: Plan, waves: Sequence[int]) -> tuple[MarkerExposure, ...]:
    """Return the test of the markers of some waves for each model that was asked about every
    instance. Needs the study's key."""
    if next(iter(study.store.list(PROBES)), None) is None:
        return ()
    askable, _ = instances_of_kind(study, MARKERS)
    arms = _arms(study)
    rows: list[MarkerExposure] = []
    for wave in waves:
        counts = []
        for pin in study.protocol.wave_models(wave):
            asked = instances_of_model(study, wave, pin, askable)
            probes = stored_probes(study, wave, pin, asked, MARKERS)
            if asked and len(probes) == len(asked):
                public, private = (
                    _count_markers([probes[n.instance] for n in asked if arms[n.instance] is arm])
                    for arm in (Arm.PUBLIC, Arm.PRIVATE)
                )
                counts.append((pin.name, public, private))
        rows += test_markers(plan, counts, wave)
    return tuple(rows)


def _count_markers(probes: Sequence[MarkerProbe]) -> MarkerCounts:
    return MarkerCounts(
        asked=len(probes),
        right=sum(probe.score == 1 for probe in probes),
        unnamed=sum(not probe.named for probe in probes),
    )


def _complete_columns(study: Study, wave: int, entries: Sequence[WaveInstance]) -> Groups:
    """Return the scores that models have of every instance that they run, grouped by these
    instances: models of a group are tested together."""
    groups: Groups = defaultdict(dict)
    for pin in study.protocol.wave_models(wave):
        asked = instances_of_model(study, wave, pin, entries)
        probes = stored_probes(study, wave, pin, asked, QUESTIONS)
        if asked and len(probes) == len(asked):
            groups[asked][pin.name] = [probes[entry.instance].score for entry in asked]
    return groups


def _arms(study: Study) -> dict[str, Arm]:
    """Return the arm of each instance. Needs the study's key."""
    return {entry.instance: entry.arm for entry in study.entries()}


def _labels(
    instances: Sequence[WaveInstance], arms: Mapping[str, Arm]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the stratum of each instance, and whether it is public."""
    strata = sorted({each.spec.stratum for each in instances})
    stratum = np.array([strata.index(each.spec.stratum) for each in instances], dtype=np.int64)
    return stratum, np.array([arms[each.instance] is Arm.PUBLIC for each in instances])
