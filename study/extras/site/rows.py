"""Findings as rows: a model of a study at a level and wave, with what pages say of it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

from analysis.plan.verdict import CONTAMINATED, INCONCLUSIVE, NO_INFLATION, WITHHELD, Verdict
from analysis.report.wording import finding, with_margin
from analysis.words import words_in
from study.extras.site.facts import ModelDates, ReportFacts, StudyFacts

INSTANCE = "instance"
WORDS = words_in("study.extras.site", "words.yaml")
_ALWAYS = ("contaminated", "unsure", "clean")
_OF_WORD: Mapping[str, str] = {
    CONTAMINATED: "contaminated",
    INCONCLUSIVE: "unsure",
    NO_INFLATION: "clean",
    WITHHELD: "withheld",
}
_OF_FINDING = {"shown": "contaminated", "excluded": "clean"}
_PLAIN = re.compile(r"(?!.*-[0-9a-f]{8}$)[a-z0-9][a-z0-9._-]{0,60}")
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A finding: its numbers, in ``found``, and ``words``. ``since`` is the time of the first
    report that has it. Gaps are shares of 1, published minus secret."""

    study: str
    level: str
    kind: str
    label: str
    maker: str
    released: str
    since: str
    margin: float
    words: str
    found: Verdict

    @property
    def study_path(self) -> str:
        """The folder of the study's page."""
        return f"studies/{slug(self.study)}/"

    @property
    def model_path(self) -> str:
        """The folder of the model's page."""
        return f"models/{slug(self.found.model)}/"

    @property
    def bound(self) -> float | None:
        """The bound of a model that is not contaminated."""
        return self.found.deciding_bound if self.kind in ("unsure", "clean") else None

    @property
    def significant(self) -> float | None:
        """About the least gap that is significant by itself; None without a standard error."""
        return self.found.se and _NORMAL.inv_cdf(1 - self.found.alpha) * self.found.se

    @property
    def detectable(self) -> float | None:
        """About the gap that is found with probability 0.8, by itself."""
        return self.significant and self.significant + _NORMAL.inv_cdf(0.8) * (self.found.se or 0.0)

    @property
    def size_to_clear(self) -> int | None:
        """About the instances an arm that would clear a model without inflation, if they are more
        than it has."""
        if self.found.estimate is None or self.kind != "unsure":
            return None
        times = ((self.found.upper - self.found.estimate) / self.margin) ** 2
        return 10 * round(self.found.n_public * times / 10) if times > 1 else None

    def body(self) -> dict[str, Any]:
        """Return the row as data."""
        names = ("wave", "p_adjusted", "alpha", "outcome", "n_public", "n_private")
        return {
            "model": self.found.model,
            "study": self.study,
            **{name: getattr(self, name) for name in ("maker", "released", "level")},
            "finding": self.label,
            "kind": self.kind,
            "gap": self.found.estimate,
            "interval": [float(end) for end in self.found.interval],
            "bound": self.bound,
            **{name: getattr(self.found, name) for name in names},
            **{name: getattr(self, name) for name in ("since", "study_path", "model_path")},
        }


def slug(name: str) -> str:
    """Return the part of an address for a name: itself if it is plain, else with a digest, so that
    no two names share one."""
    if _PLAIN.fullmatch(name):
        return name
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower())[:40].strip("-")
    return f"{plain or 'x'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def rows_of(study: StudyFacts) -> Iterator[Row]:
    """Yield the findings of a study's newest report, those on instances first."""
    report = study.newest
    if report is None:
        return
    margin = report.plan.margin
    labels = {"unsure": "cannot tell", "clean": f"no inflation above {100 * margin:g} points"}
    se = {at: found.se for look in report.looks for at, found in _by_place(look.models)}
    for at, verdict in _by_place(report.models):
        kind = _OF_WORD.get(verdict.verdict, "compared")
        yield Row(
            study=study.name,
            level=INSTANCE,
            kind=kind,
            label=labels.get(kind, verdict.verdict),
            since=_since(study, verdict),
            margin=margin,
            words=with_margin(finding(verdict, report.controls), margin),
            found=replace(verdict, se=se.get(at, verdict.se)),
            **_model(report, verdict),
        )
    for level in report.levels:
        kind = _OF_FINDING.get(level.finding, "unsure")
        yield Row(
            study=study.name,
            level=level.level,
            kind=kind,
            label=level.finding,
            since=report.issued,
            margin=margin,
            words=f"{level.finding[:1].upper()}{level.finding[1:]}. {level.why}".rstrip(),
            found=level.verdict,
            **_model(report, level.verdict),
        )


def _by_place(verdicts: Iterable[Verdict]) -> Iterator[tuple[tuple[str, int], Verdict]]:
    return (((verdict.model, verdict.wave), verdict) for verdict in verdicts)


def _model(report: ReportFacts, verdict: Verdict) -> dict[str, str]:
    """Return a model's maker, the family that the study documents or the provider, and date."""
    name = verdict.model
    of = {fact.model: fact for fact in report.facts}.get(name, ModelDates(name))
    providers = [at.provider for at in report.served if at.model == name]
    released = of.released.isoformat() if of.released else ""
    return {"maker": of.family or [*providers, "not stated"][0], "released": released}


def _since(study: StudyFacts, verdict: Verdict) -> str:
    same = ((report, found) for report, found in turned(study) if found.model == verdict.model)
    times = [report.issued for report, found in same if found.wave == verdict.wave]
    return times[-1]


def turned(study: StudyFacts) -> Iterator[tuple[ReportFacts, Verdict]]:
    """Yield each verdict that is new or another one than before, with its report, oldest first."""
    known: dict[tuple[str, int], str] = {}
    for report in study.reports:
        for at, verdict in _by_place(report.models):
            if known.get(at) != verdict.verdict:
                known[at] = verdict.verdict
                yield report, verdict


def newest_rows(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the newest finding of each model, study and level, latest release first; models
    without a date come last."""
    by_wave = sorted(rows, key=lambda row: row.found.wave)
    newest = {(row.study, row.found.model, row.level): row for row in by_wave}
    return tuple(sorted(newest.values(), key=_by_release))


def _by_release(row: Row) -> tuple[bool, int, str, str, int]:
    day = int(row.released.replace("-", "") or 0)
    return not day, -day, row.found.model, row.study, [*WORDS["levels"], row.level].index(row.level)


def counts_of(rows: Sequence[Row]) -> Iterator[tuple[str, str, list[Row]]]:
    """Yield each kind, its label, and the rows of that kind, largest gap first; rare kinds only if
    there are any. A model has one row in each study: that on instances, unless a level above them
    alone shows contamination."""
    by_weight = sorted(rows, key=lambda row: (row.kind == "contaminated", row.level == INSTANCE))
    last = {(row.study, row.found.model): row for row in by_weight}
    for kind, label in WORDS["kinds"].items():
        own = [row for row in last.values() if row.kind == kind]
        if own or kind in _ALWAYS:
            yield kind, label, sorted(own, key=lambda row: -(row.found.estimate or 0.0))
