"""Study-level monitoring as a plan registers it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.plan.presets import RegisteredPlan
from analysis.plan.primary import LookData
from analysis.stats.adjustment import control_means
from analysis.stats.intervals import one_armed
from analysis.stats.sequential import LookScores, Monitoring, monitor

Looks = Sequence[tuple[int, LookData]]  # each its wave and its data, in order


@dataclass(frozen=True, slots=True)
class MonitoredLook:
    """The study at one look. ``gap`` is of the average model of this look alone; ``statistic`` is
    the largest over windows of looks that end here, the window ``onset``…``wave`` (waves);
    ``crossed`` says that the study rejects here."""

    wave: int
    models: tuple[str, ...]
    gap: float
    statistic: float
    onset: int
    threshold: float | None
    share: float
    spent: float  # of alpha, up to here
    crossed: bool


@dataclass(frozen=True, slots=True)
class Monitored:
    """Result of P4. ``alpha`` is its error rate; ``rejected_at`` the wave at which it rejected,
    ``window`` the waves of the gap that led to it. ``note`` is the reason if looks are left out."""

    alpha: float
    looks: tuple[MonitoredLook, ...]
    rejected_at: int | None
    window: tuple[int, int] | None
    note: str = ""


def monitor_looks(registered: RegisteredPlan, looks: Looks, worst: Looks = ()) -> Monitored:
    """P4 over the registered looks so far. ``worst`` are the
    same looks with their missing runs as adverse to a claim as a score can be: it rejects only if
    it does with these too.

    A look of which every model is excluded, or every run missing, is passed over. One that has
    an arm of a stratum without a score ends the monitoring before it, with a note; the results
    until then stand.
    """
    monitored = _monitor(registered, looks)
    if monitored.rejected_at is None or not worst:
        return monitored
    adverse = _monitor(registered, worst)
    since = adverse.rejected_at and max(adverse.rejected_at, monitored.rejected_at)
    if since == monitored.rejected_at:
        return monitored
    why = f"If missing runs resemble the others, they do from wave {monitored.rejected_at} on."
    return replace(
        monitored,
        looks=tuple(replace(look, crossed=look.wave == since) for look in monitored.looks),
        rejected_at=since,
        window=None if since is None else adverse.window,
        note=f"{why} {monitored.note}".rstrip(),
    )


def _monitor(registered: RegisteredPlan, looks: Looks) -> Monitored:
    plan, rules = registered.plan, registered.rules
    alpha = rules.study_alpha
    monitored, note = _sound(looks[: plan.looks])
    if not monitored:
        return Monitored(alpha, (), None, None, note or "No look has a model that is tested.")
    monitoring = monitor(
        [_scores(data) for _, data in monitored],
        alpha=alpha,
        looks_planned=plan.looks,
        permutations=plan.permutations,
        seed=registered.seed("P4"),
    )
    return replace(_monitored(alpha, monitored, monitoring), note=note)


def _sound(looks: Looks) -> tuple[list[tuple[int, LookData]], str]:
    """The looks that have models, up to the first without a gap; and the reason for the end."""
    sound: list[tuple[int, LookData]] = []
    for wave, data in looks:
        if np.isnan(data.means.values[:, :, :1]).all():  # no model, or no run that has a score
            continue
        if lacking := _one_armed(data):
            where = ", ".join(lacking)
            return sound, f"It ends before wave {wave}: an arm of {where} has no score there."
        sound.append((wave, data))
    return sound, ""


def _one_armed(data: LookData) -> list[str]:
    """The strata of a look that have scores in one arm only, all models taken together."""
    means = data.means
    there = ~np.isnan(means.values[:, :, 0]).all(axis=1)
    some = np.zeros(int(there.sum()))
    return [means.strata[h] for h in one_armed(some, means.stratum[there], means.public[there])]


def _scores(data: LookData) -> LookScores:
    means = data.means
    names = np.array(means.strata, dtype=object)[means.stratum]
    return LookScores(
        unit=means.unit,
        stratum=names,
        tranche=means.tranche,
        public=means.public,
        scores=control_means(data.adjusted.residuals[:, :, :1], means.stratum)[:, 0],
    )


def _monitored(alpha: float, looks: Looks, monitoring: Monitoring) -> Monitored:
    waves = [wave for wave, _ in looks]
    steps = tuple(
        MonitoredLook(
            wave=wave,
            models=data.means.models,
            gap=step.gap,
            statistic=step.statistic,
            onset=waves[step.onset - 1],
            threshold=step.threshold,
            share=step.share,
            spent=monitoring.spending[place],
            crossed=step.rejected,
        )
        for place, ((wave, data), step) in enumerate(zip(looks, monitoring.looks, strict=True))
    )
    at, window = monitoring.rejected_at, monitoring.window
    return Monitored(
        alpha,
        steps,
        None if at is None else waves[at - 1],
        None if window is None else (waves[window[0] - 1], waves[window[1] - 1]),
    )
