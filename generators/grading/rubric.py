"""Rubrics: metarubrics filled from the tables of the truth.

A metarubric asks one fact of each row of its table. Alike rows are the parts of one criterion,
whose value is the share of them that are met. The score of a metarubric is the share of its parts
that are met, and the task's score is the weighted mean over metarubrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from statistics import fmean
from typing import Any

from generators.grading.answer import Answer
from generators.grading.checks import (
    Check,
    Gated,
    NumberWithin,
    check_as_json,
    gates_of,
    passes,
    ungated,
)
from generators.task import Scalar, TruthTable

# Scientific reasoning, data handling, image data extraction, instructions following.
DIMENSIONS = ("SR", "DH", "IM", "IF")


Row = Mapping[str, Scalar]
RowCheck = Callable[[Row], Check]  # reads a check's bounds from a row of the truth


Verdicts = tuple[bool | None, ...]  # one for each part of a rubric; None where it is undecided


@dataclass(frozen=True, slots=True)
class Part:
    """One yes-or-no question about an answer: one fact, with its truth."""

    id: str  # "<metarubric key>/<row>"
    criterion: str  # that it is a part of
    metarubric: str
    text: str  # for a judge who reads the prose; gates are not part of it
    dimension: str
    weight: float  # of the whole metarubric
    source: str  # "<table>/<row>", or "" for a static one
    check: Check | None
    headline: bool = False


@dataclass(frozen=True, slots=True)
class Rubric:
    """The parts of the criteria of one instance, those of a criterion one after another."""

    parts: tuple[Part, ...]

    @property
    def criteria(self) -> tuple[tuple[Part, ...], ...]:
        """The parts of each criterion."""
        return criteria_of(self.parts)

    def as_json(self) -> list[dict[str, Any]]:
        """Return the parts as plain JSON."""
        shared = dict[int, dict[str, Any]]()
        return [
            {name: getattr(part, name) for name in Part.__slots__}
            | {"check": None if part.check is None else check_as_json(part.check, shared)}
            for part in self.parts
        ]


def criteria_of(parts: Iterable[Part]) -> tuple[tuple[Part, ...], ...]:
    """The parts by the criterion that they belong to, in their order."""
    return tuple(tuple(group) for _, group in groupby(parts, attrgetter("criterion")))


@dataclass(frozen=True, slots=True)
class Metarubric:
    """A row of a family's metarubric table; a static one (no source) makes one criterion of one
    part. ``text`` states one fact and its truth; gates stand in ``check`` only."""

    key: str
    dimension: str
    weight: float
    text: str  # a str.format template over the columns of the source row
    check: Check | RowCheck | None  # None: only a judge can decide
    source: str | None = None
    headline: bool = False  # a value that a reader of the release would remember: headline_credit
    criteria: int = 10  # at most, into which the rows are dealt in their order


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
    """The criteria that the metarubrics ask for, with a part for each row of their source table."""
    parts: list[Part] = []
    for meta in metarubrics:
        rows = [{}] if meta.source is None else tables[meta.source].records()
        dealt = min(meta.criteria, len(rows))
        for index, row in enumerate(rows):
            number = index * dealt // len(rows) + 1
            parts.append(
                Part(
                    id=f"{meta.key}/{index}",
                    criterion=meta.key if dealt == 1 else f"{meta.key}-{number}",
                    metarubric=meta.key,
                    text=meta.text.format(**row),
                    dimension=meta.dimension,
                    weight=meta.weight,
                    source="" if meta.source is None else f"{meta.source}/{index}",
                    check=meta.check(row) if callable(meta.check) else meta.check,
                    headline=meta.headline,
                )
            )
    return Rubric(tuple(parts))


def check_answer(rubric: Rubric, answer: Answer | None) -> Verdicts:
    """The deterministic verdict on each part; None if only a judge can decide."""
    return apply_gates(rubric, check_facts(rubric, answer), answer)


def check_facts(rubric: Rubric, answer: Answer | None) -> Verdicts:
    """The deterministic verdict on the fact of each part, whatever the gates before it."""
    return tuple(
        None if part.check is None else passes(ungated(part.check), answer) for part in rubric.parts
    )


def apply_gates(rubric: Rubric, facts: Sequence[bool | None], answer: Answer | None) -> Verdicts:
    """The verdicts on the facts, less what the gates withhold (R8). Gates are decided on the
    answer's block. Without one, which only a judge can read, all of them open together: where at
    least half of the rows that the rubric asks about are met."""
    open_by_id: dict[int, bool] = {}  # one gate may guard hundreds of parts: decided once
    by_rows = answer is None and _most_rows_met(rubric, facts)

    def opens(gate: Check) -> bool:
        if answer is None:
            return by_rows
        if id(gate) not in open_by_id:
            open_by_id[id(gate)] = gate.passes(answer)
        return open_by_id[id(gate)]

    return tuple(
        fact and all(opens(gate) for gate in gates_of(part.check))
        for part, fact in zip(rubric.parts, facts, strict=True)
    )


def _most_rows_met(rubric: Rubric, facts: Sequence[bool | None]) -> bool:
    """Report if at least half of the decided parts are met of metarubrics with several."""
    rows = Counter(part.metarubric for part in rubric.parts)
    met = [
        fact
        for part, fact in zip(rubric.parts, facts, strict=True)
        if fact is not None and rows[part.metarubric] > 1
    ]
    return bool(met) and 2 * sum(met) >= len(met)


def score_verdicts(
    rubric: Rubric, verdicts: Verdicts, dimensions: tuple[str, ...] = DIMENSIONS
) -> float | None:
    """Weighted mean of the metarubrics' shares met over the decided parts of the given
    dimensions; None if none is decided (missing is never zero)."""
    decided: dict[str, list[bool]] = {}
    weights: dict[str, float] = {}
    for part, verdict in zip(rubric.parts, verdicts, strict=True):
        if verdict is not None and part.dimension in dimensions:
            decided.setdefault(part.metarubric, []).append(verdict)
            weights[part.metarubric] = part.weight
    total = sum(weights.values())
    if total == 0:
        return None
    return sum(weights[key] * sum(seen) / len(seen) for key, seen in decided.items()) / total


def is_static(part: Part) -> bool:
    """Report if a part asks the same of every instance: it is of no row of the truth, and no
    gate, which holds values of the truth, guards it. All others need the instance's answer key.

    `dosimeter tasks check` holds families to it (validation/validate.py)."""
    return not part.source and not isinstance(part.check, Gated)


def score_parts(rubric: Rubric, verdicts: Verdicts) -> tuple[float | None, float | None]:
    """Score over what needs the answer key, and over what is static. The gap of the second between
    the arms is a negative control. None for either without anything decided."""
    static = tuple(map(is_static, rubric.parts))

    def over(wanted: bool) -> float | None:
        wanted_verdicts = (
            v if s is wanted else None for v, s in zip(verdicts, static, strict=True)
        )
        return score_verdicts(rubric, tuple(wanted_verdicts))

    return over(False), over(True)


def key_fraction(rubric: Rubric, verdicts: Verdicts) -> float | None:
    """Mean share met of the criteria that need the answer key and have a weight, each counted
    once, over their decided parts; None without any."""
    met: dict[str, list[bool]] = {}
    for part, verdict in zip(rubric.parts, verdicts, strict=True):
        if verdict is not None and part.weight and not is_static(part):
            met.setdefault(part.criterion, []).append(verdict)
    return fmean(map(fmean, met.values())) if met else None


def headline_parts(rubric: Rubric) -> tuple[Part, ...]:
    """The parts with headline values; where a rubric marks none, those that need the answer key
    and have a weight. Parts that only a judge decides count in a rubric of such alone."""
    decided = [part for part in rubric.parts if part.check is not None] or rubric.parts
    marked = tuple(part for part in decided if part.headline)
    return marked or tuple(part for part in decided if part.weight and not is_static(part))


def headline_credit(rubric: Rubric, facts: Verdicts) -> float | None:
    """Score over the headline parts by their facts, without the gates before them, so that a value
    that was remembered shows whatever the readings; None without any."""
    headline = frozenset(part.id for part in headline_parts(rubric))
    credited = zip(rubric.parts, facts, strict=True)
    return score_verdicts(
        rubric, tuple(fact if part.id in headline else None for part, fact in credited)
    )
