"""Rubrics: metarubrics filled from the tables of the truth.

A metarubric has a weight; its score is the share of its criteria that pass. The task's score
is the weighted mean over metarubrics (spec/physics.md, §0).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from generators.grading.answer import Answer
from generators.grading.checks import Check, Gated, NumberWithin, check_as_json, passes, ungated
from generators.task import Scalar, TruthTable

# Scientific reasoning, data handling, image data extraction, instructions following.
DIMENSIONS = ("SR", "DH", "IM", "IF")


Row = Mapping[str, Scalar]
RowCheck = Callable[[Row], Check]  # reads a check's bounds from a row of the truth


@dataclass(frozen=True, slots=True)
class Criterion:
    """One yes-or-no question about an answer."""

    id: str  # "<metarubric key>/<row>"
    metarubric: str
    text: str  # for a judge who reads the prose
    dimension: str
    weight: float  # of the whole metarubric
    source: str  # "<table>/<row>", or "" for a static one
    check: Check | None
    headline: bool = False


@dataclass(frozen=True, slots=True)
class Rubric:
    """The criteria of one instance."""

    criteria: tuple[Criterion, ...]

    def as_json(self) -> list[dict[str, Any]]:
        """Return the criteria as plain JSON."""
        return [
            {name: getattr(criterion, name) for name in Criterion.__slots__}
            | {"check": None if criterion.check is None else check_as_json(criterion.check)}
            for criterion in self.criteria
        ]


@dataclass(frozen=True, slots=True)
class Metarubric:
    """A row of a family's metarubric table; a static one (no source) makes one criterion."""

    key: str
    dimension: str
    weight: float
    text: str  # a str.format template over the columns of the source row
    check: Check | RowCheck | None  # None: only a judge can decide
    source: str | None = None
    headline: bool = False  # a value that a reader of the release would remember: headline_credit


def number_between(path: str, low: str, high: str, gate: Check) -> RowCheck:
    """The check that a number of the answer lies between two columns of the row, behind a gate."""

    def check(row: Row) -> Check:
        return Gated(NumberWithin((path,), float(row[low]), float(row[high])), gate)

    return check


def number_near(name: str, tolerance: float, gate: Check) -> RowCheck:
    """The check that a number of the answer is near the column of its name, behind a gate."""

    def check(row: Row) -> Check:
        value = float(row[name])
        return Gated(NumberWithin((name,), value - tolerance, value + tolerance), gate)

    return check


def fill_rubric(metarubrics: tuple[Metarubric, ...], tables: Mapping[str, TruthTable]) -> Rubric:
    """The criteria that the metarubrics ask for, one for each row of their source table."""
    criteria: list[Criterion] = []
    for meta in metarubrics:
        rows = [{}] if meta.source is None else tables[meta.source].records()
        for index, row in enumerate(rows):
            criteria.append(
                Criterion(
                    id=f"{meta.key}/{index}",
                    metarubric=meta.key,
                    text=meta.text.format(**row),
                    dimension=meta.dimension,
                    weight=meta.weight,
                    source="" if meta.source is None else f"{meta.source}/{index}",
                    check=meta.check(row) if callable(meta.check) else meta.check,
                    headline=meta.headline,
                )
            )
    return Rubric(tuple(criteria))


def check_answer(rubric: Rubric, answer: Answer | None) -> tuple[bool | None, ...]:
    """The deterministic verdict on each criterion; None if only a judge can decide."""
    gates: dict[int, bool] = {}  # one gate may guard hundreds of criteria: decided once

    def decide(check: Check) -> bool:
        if not isinstance(check, Gated):
            return passes(check, answer)
        if id(check.gate) not in gates:
            gates[id(check.gate)] = passes(check.gate, answer)
        return gates[id(check.gate)] and passes(check.check, answer)

    return tuple(None if c.check is None else decide(c.check) for c in rubric.criteria)


def score_verdicts(
    rubric: Rubric, verdicts: tuple[bool | None, ...], dimensions: tuple[str, ...] = DIMENSIONS
) -> float | None:
    """Weighted mean of the metarubrics' pass shares over the decided criteria of the given
    dimensions; None if none is decided (missing is never zero)."""
    decided: dict[str, list[bool]] = {}
    weights: dict[str, float] = {}
    for criterion, verdict in zip(rubric.criteria, verdicts, strict=True):
        if verdict is not None and criterion.dimension in dimensions:
            decided.setdefault(criterion.metarubric, []).append(verdict)
            weights[criterion.metarubric] = criterion.weight
    total = sum(weights.values())
    if total == 0:
        return None
    return sum(weights[key] * sum(seen) / len(seen) for key, seen in decided.items()) / total


def is_static(criterion: Criterion) -> bool:
    """Report if a criterion asks the same of every instance: it is of no row of the truth, and no
    gate, which holds values of the truth, guards it. All others need the instance's answer key.

    `dosimeter tasks check` holds families to it (validation/validate.py)."""
    return not criterion.source and not isinstance(criterion.check, Gated)


def score_parts(
    rubric: Rubric, verdicts: tuple[bool | None, ...]
) -> tuple[float | None, float | None]:
    """Score over the criteria that need the answer key, and over static criteria. The gap of
    the second between the arms is a negative control (spec/statistics.md, S2). None for a part
    without a decided criterion."""
    static = tuple(map(is_static, rubric.criteria))

    def over(wanted: bool) -> float | None:
        wanted_verdicts = (
            v if s is wanted else None for v, s in zip(verdicts, static, strict=True)
        )
        return score_verdicts(rubric, tuple(wanted_verdicts))

    return over(False), over(True)


def key_fraction(rubric: Rubric, verdicts: tuple[bool | None, ...]) -> float | None:
    """Share passed of the decided criteria that need the answer key and have a weight, each
    counted once; None without any."""
    decided = [
        verdict
        for criterion, verdict in zip(rubric.criteria, verdicts, strict=True)
        if verdict is not None and criterion.weight and not is_static(criterion)
    ]
    return sum(decided) / len(decided) if decided else None


def headline_criteria(rubric: Rubric) -> tuple[Criterion, ...]:
    """The criteria of headline values; where a rubric marks none, those that need the answer key
    and have a weight."""
    decided = [criterion for criterion in rubric.criteria if criterion.check is not None]
    marked = tuple(criterion for criterion in decided if criterion.headline)
    return marked or tuple(c for c in decided if c.weight and not is_static(c))


def headline_credit(rubric: Rubric, answer: Answer | None) -> float | None:
    """Score over the headline criteria without the gates before them, so that a value that was
    remembered shows whatever the readings (spec/episodes.md, section 4); None without any."""
    criteria = headline_criteria(rubric)
    verdicts = tuple(c.check and passes(ungated(c.check), answer) for c in criteria)
    return score_verdicts(Rubric(criteria), verdicts)
