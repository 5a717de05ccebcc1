"""The probes of closed waves, joined to the arms and tested."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from analysis.plan.markers import MarkerCounts, MarkerExposure, test_markers
from analysis.probe.part import exposure_part
from analysis.probe.probes import MEASURES, Exposure, TextExposure, test_exposure, test_texts
from analysis.report.part import Part
from harness.probe.markers import MarkerProbe
from harness.storage import PROBES
from harness.sweep.schedule import WaveInstance
from registry.ledger.records import ModelPin, Plan
from registry.result_row import Arm
from study.extras.probe.kinds import (
    MARKERS,
    NO_LOGPROBS,
    QUESTIONS,
    TEXTS,
    P,
    ProbeKind,
    instances_of_kind,
    instances_of_model,
    stored_probes,
)
from study.steps.report.contributors import LookContext, LookShare
from study.workspace.study import Study

Groups = dict[tuple[WaveInstance, ...], dict[tuple[str, str], list[float]]]
"""A value of each instance, by model and measure, by the instances that the models run."""
R = TypeVar("R", Exposure, TextExposure)


class ProbeShare(LookShare):
    """The share of probes in a look at the data."""

    def parts(self, look: LookContext) -> Sequence[Part]:
        """Return the part on exposure."""
        study, waves = self.scope.study, self.scope.numbers
        texts, notes = texts_of(study, look.plan, look.registration, waves)
        exposure = exposure_of(study, look.plan, look.registration, waves)
        return (exposure_part(exposure, markers_of(study, look.plan, waves), texts, notes),)


look = ProbeShare


def exposure_of(
    study: Study, plan: Plan, registration: str, waves: Sequence[int]
) -> tuple[Exposure, ...]:
    """Return the test of the probes of some waves for each model that was asked about every
    instance. Needs the study's key."""
    if next(iter(study.store.list(PROBES)), None) is None:
        return ()
    askable, _ = instances_of_kind(study, QUESTIONS)
    score = {"score": attrgetter("score")}
    return tuple(
        row
        for wave in waves
        for row in _tested(
            study,
            _complete_columns(study, wave, QUESTIONS, askable, score),
            partial(test_exposure, plan, wave=wave, registration=registration),
        )
    )


def _tested(study: Study, groups: Groups, test: Callable[..., Iterable[R]]) -> list[R]:
    """Return the tests of groups of models, with p over all of them."""
    arms = _arms(study)
    rows = []
    for entries, columns in groups.items():
        made = test(columns, *_labels(entries, arms))
        rows += [_adjusted(row, len(groups)) for row in made]
    return rows


def _adjusted(row: R, groups: int) -> R:
    """Return a row with its p over all groups of models that were asked about other tranches than
    the rest."""
    p = min(1.0, groups * row.p_adjusted)
    if isinstance(row, Exposure):
        return replace(row, p_adjusted=p, exposed=p <= row.alpha)
    return replace(row, p_adjusted=p)


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


def texts_of(
    study: Study, plan: Plan, registration: str, waves: Sequence[int]
) -> tuple[tuple[TextExposure, ...], tuple[str, ...]]:
    """Return the test of the text probes of each model that was asked about every instance, and a
    note on each model without all measures; nothing if no text was put to any model. Needs the
    study's key."""
    records = [entry.record for entry in study.ledger.find("probed")]
    begun = {record.wave for record in records if record.what == TEXTS.what}
    probed_waves = [wave for wave in waves if wave in begun]
    if not probed_waves:
        return (), ()
    readable, _ = instances_of_kind(study, TEXTS)
    measures = {name: attrgetter(f"membership.{name}") for name in MEASURES}
    exposures: list[TextExposure] = []
    notes: list[str] = []
    for wave in probed_waves:
        groups = _complete_columns(study, wave, TEXTS, readable, measures)
        test = partial(test_texts, plan, wave=wave, registration=registration)
        rows = _tested(study, groups, test)
        for pin in study.protocol.wave_models(wave):
            notes += _text_notes(wave, pin, {r.measure for r in rows if r.model == pin.name})
        exposures += rows
    return tuple(exposures), tuple(notes)


def _complete_columns(
    study: Study,
    wave: int,
    kind: ProbeKind[P],
    entries: Sequence[WaveInstance],
    measures: Mapping[str, Callable[[P], float | None]],
) -> Groups:
    """Return the measures that models have of every instance that they run, grouped by these
    instances: models of a group are tested together."""
    groups: Groups = defaultdict(dict)
    for pin in study.protocol.wave_models(wave):
        asked = instances_of_model(study, wave, pin, entries)
        probes = stored_probes(study, wave, pin, asked, kind)
        if not asked or len(probes) < len(asked):
            continue
        for name, measure in measures.items():
            values = [measure(probes[entry.instance]) for entry in asked]
            known = [value for value in values if value is not None]
            if len(known) == len(asked):
                groups[asked][pin.name, name] = known
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


def _text_notes(wave: int, pin: ModelPin, measures: Collection[str]) -> list[str]:
    """Return a report's notes on a model that lacks some of the measures."""
    who = f"{pin.name}, wave {wave}"
    if "min_k_plus" in measures:
        return []
    if measures:
        return [
            f"{who}: no Min-K%++: its server reports a part of the distribution only, whose mean "
            "and deviation are others than the measure's"
        ]
    return [f"{who}: {NO_LOGPROBS}, or it was not asked"]
