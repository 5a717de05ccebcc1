"""Findings as rows: a model of a study at a level and wave, with all that tables, figures and data
say of it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from analysis.plan.verdict import (
    BOUNDED,
    CONTAMINATED,
    INCONCLUSIVE,
    NO_INFLATION,
    WITHHELD,
    Verdict,
    Word,
)
from analysis.report.wording import finding, with_margin
from analysis.stats.intervals import points, signed
from study.extras.site.facts import LevelFinding, ModelDates, ReportFacts, StudyFacts, Tested

INSTANCE = "instance"
LEVELS: Mapping[str, str] = {
    INSTANCE: "memorised instances",
    "variant": "trained on the variant",
    "family": "trained on the questions",
}
# The answer that a page gives for each kind of finding, in the order of the page.
KINDS: Mapping[str, str] = {
    "contaminated": "Contaminated",
    "unsure": "Cannot tell",
    "clean": "No inflation found",
    "withheld": "Withheld",
    "compared": "Compared, no verdict",
}
_OF_WORD = {
    CONTAMINATED: "contaminated",
    INCONCLUSIVE: "unsure",
    NO_INFLATION: "clean",
    WITHHELD: "withheld",
}
_OF_FINDING = {"shown": "contaminated", "excluded": "clean"}
_PLAIN = re.compile(r"(?!.*-[0-9a-f]{8}$)[a-z0-9][a-z0-9._-]{0,60}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A finding. Gaps are shares of 1, public minus private; ``gap`` is None if there is none.
    ``since`` is the time of the first report with this verdict."""

    study: str
    model: str
    maker: str
    released: str
    level: str
    wave: int
    verdict: str
    kind: str
    gap: float | None
    low: float
    high: float
    bound: float | None
    p_adjusted: float
    p_floor: float
    alpha: float
    outcome: str
    units: str
    since: str
    words: str
    detectable: str
    change: str

    @property
    def study_path(self) -> str:
        """The folder of the study's page."""
        return f"studies/{slug(self.study)}/"

    @property
    def model_path(self) -> str:
        """The folder of the model's page."""
        return f"models/{slug(self.model)}/"


def slug(name: str) -> str:
    """Return the part of an address for a name: itself if it is plain, else with a digest, so that
    no two names share one."""
    if _PLAIN.fullmatch(name):
        return name
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower())[:40].strip("-")
    return f"{plain or 'x'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def rows_of(study: StudyFacts) -> tuple[Row, ...]:
    """Return the findings of a study's newest report, oldest look first."""
    report = study.newest
    if report is None:
        return ()
    instances = (_instance_row(study, report, verdict) for verdict in report.models)
    levels = (_level_row(study, report, found) for found in report.levels)
    return (*instances, *levels)


def newest_rows(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the newest finding of each model, study and level, latest release first; models
    without a date come last."""
    newest = {(row.study, row.model, row.level): row for row in sorted(rows, key=_wave)}
    return tuple(sorted(newest.values(), key=_by_release))


def _wave(row: Row) -> int:
    return row.wave


def _by_release(row: Row) -> tuple[bool, int, str, str, int]:
    day = int(row.released.replace("-", "") or 0)
    return not day, -day, row.model, row.study, [*LEVELS, row.level].index(row.level)


def _instance_row(study: StudyFacts, report: ReportFacts, verdict: Verdict) -> Row:
    tested = next((m for at in report.looks for m in at.models if _at(m) == _at(verdict)), None)
    kind = _OF_WORD.get(verdict.verdict, "compared")
    margin = report.plan.margin
    words = {"unsure": "cannot tell", "clean": f"no inflation above {100 * margin:g} points"}
    return Row(
        study=study.name,
        **_about(report, verdict.model, verdict.wave),
        level=INSTANCE,
        wave=verdict.wave,
        verdict=words.get(kind, verdict.verdict),
        kind=kind,
        gap=verdict.estimate,
        low=verdict.interval[0],
        high=verdict.interval[1],
        bound=verdict.deciding_bound if verdict.verdict in BOUNDED else None,
        p_adjusted=verdict.p_adjusted,
        p_floor=verdict.p_floor,
        alpha=verdict.alpha,
        outcome=verdict.outcome,
        units=f"{verdict.n_public} + {verdict.n_private}",
        since=_since(study, verdict),
        words=with_margin(finding(verdict, report.controls), margin),
        detectable=_detectable(verdict, tested),
        change=_CHANGES[kind](verdict, tested, margin),
    )


def _level_row(study: StudyFacts, report: ReportFacts, found: LevelFinding) -> Row:
    kind = _OF_FINDING.get(found.finding, "unsure")
    bound = points(max(found.deciding_bound, 0.0))
    word = f"no effect above {bound} points" if kind == "clean" else found.finding
    return Row(
        study=study.name,
        **_about(report, found.model, found.wave),
        level=found.level,
        wave=found.wave,
        verdict=word,
        kind=kind,
        gap=found.estimate,
        low=found.interval[0],
        high=found.interval[1],
        bound=None if kind == "contaminated" else found.deciding_bound,
        p_adjusted=found.p_adjusted,
        p_floor=found.p_floor,
        alpha=found.alpha,
        outcome="score",
        units=str(found.units),
        since=report.issued,
        words=f"{LEVELS.get(found.level, found.level)}: {found.finding}. {found.why}".rstrip(),
        detectable="",
        change="",
    )


def _at(row: Verdict | Tested) -> tuple[str, int]:
    return row.model, row.wave


def _about(report: ReportFacts, model: str, wave: int) -> dict[str, str]:
    """Return name, maker (the family that the study documents, else the provider) and date."""
    of = {fact.model: fact for fact in report.facts}.get(model, ModelDates(model))
    providers = [at.provider for at in report.served if (at.model, at.wave) == (model, wave)]
    return {
        "model": model,
        "maker": of.family or (providers[0] if providers else "not stated"),
        "released": of.released.isoformat() if of.released else "",
    }


def _since(study: StudyFacts, verdict: Verdict) -> str:
    """Return the time of the first report that has this verdict."""
    return next(
        report.issued
        for report in study.reports
        if any((_at(row), row.verdict) == (_at(verdict), verdict.verdict) for row in report.models)
    )


# -- what was found, and what would change it


def _detectable(verdict: Verdict, tested: Tested | None) -> str:
    se = _se(verdict, tested)
    if se is None:
        return "The scores give no standard error, and so no limit of detection."
    normal = NormalDist()
    least = (normal.inv_cdf(1 - verdict.alpha) + normal.inv_cdf(0.8)) * se
    return (
        f"The gap has a standard error of {points(se)} points: one of about {points(least)} points "
        f"is found with probability 0.8, at the one-sided level of {verdict.alpha:.4g} and before "
        "the adjustment for other models."
    )


def _se(verdict: Verdict, tested: Tested | None) -> float | None:
    return verdict.se if tested is None else tested.se


def _if_contaminated(verdict: Verdict, tested: Tested | None, margin: float) -> str:
    text = (
        "It would be withheld if a control that it rests on disagreed, and fall if the adjusted p "
        f"rose above {verdict.alpha:.4g}"
    )
    if (se := _se(verdict, tested)) is not None:
        least = NormalDist().inv_cdf(1 - verdict.alpha) * se
        text += f", which with this spread takes a gap below about {points(least)} points"
    tipping = tested.missing.tipping if tested else None
    if tipping is not None and tipping.runs is not None:
        text += f"; so would {tipping.runs} of its missing runs, if they were as adverse as can be"
    return f"{text}."


def _if_unsure(verdict: Verdict, tested: Tested | None, margin: float) -> str:
    text = f"An adjusted p of at most {verdict.alpha:.4g} would show contamination"
    if (se := _se(verdict, tested)) is not None:
        least = NormalDist().inv_cdf(1 - verdict.alpha) * se
        text += f": with this spread a gap of about {points(least)} points"
    bound = signed(verdict.deciding_bound)
    text += f". A bound below {points(margin)} points, now {bound}, would clear the model"
    half = verdict.upper - (verdict.estimate or 0.0)
    if verdict.estimate is None or half <= margin:
        return f"{text}."
    size = round(verdict.n_public * (half / margin) ** 2, -1)
    return f"{text}: if there is no inflation, that takes about {size:.0f} instances an arm."


def _if_clean(verdict: Verdict, tested: Tested | None, margin: float) -> str:
    return (
        f"A later look with an adjusted p of at most {verdict.alpha:.4g}, or with a bound above "
        f"{points(margin)} points."
    )


def _if_withheld(verdict: Verdict, tested: Tested | None, margin: float) -> str:
    return f"A look at which the control agrees: {verdict.note}."


def _if_compared(verdict: Verdict, tested: Tested | None, margin: float) -> str:
    return (
        "Only a study with a random draw can show contamination: these arms were not allotted at "
        "random."
    )


_CHANGES = {
    "contaminated": _if_contaminated,
    "unsure": _if_unsure,
    "clean": _if_clean,
    "withheld": _if_withheld,
    "compared": _if_compared,
}


def turned(study: StudyFacts) -> Iterator[tuple[ReportFacts, Verdict]]:
    """Yield each verdict with the first report that has it, oldest first."""
    known: dict[tuple[str, int], Word] = {}
    for report in study.reports:
        for verdict in report.models:
            if known.get(_at(verdict)) != verdict.verdict:
                known[_at(verdict)] = verdict.verdict
                yield report, verdict


def counts_of(rows: Sequence[Row]) -> Iterator[tuple[str, str, list[Row]]]:
    """Yield each kind, its label, and the rows on instances of that kind, largest gap first; kinds
    without a row only if a verdict could have that word."""
    for kind, label in KINDS.items():
        own = [row for row in rows if row.kind == kind and row.level == INSTANCE]
        if own or kind in ("contaminated", "unsure", "clean"):
            yield kind, label, sorted(own, key=lambda row: -(row.gap or 0.0))
