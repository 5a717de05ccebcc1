"""What extras add to a look at the data: rows of other graders, controls, parts of the report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis.data.table import ResultTable
from analysis.plan.controls import ControlResult
from analysis.plan.history import WaveHistory
from analysis.plan.verdict import Verdict
from analysis.report.part import Part
from registry.ledger.records import Plan
from registry.result_row import ResultRow
from study.catalogue import contributions
from study.workspace.snapshot import StudySnapshot, WaveSnapshot


@dataclass(frozen=True, slots=True)
class LookScope:
    """The waves that a look reads."""

    study: StudySnapshot
    waves: tuple[WaveSnapshot, ...]

    @property
    def numbers(self) -> list[int]:
        """The numbers of the waves."""
        return [wave.number for wave in self.waves]


@dataclass(frozen=True, slots=True)
class LookContext:
    """A look as far as parts may rest on it. ``registration`` is the digest of the record with the
    plan, ``digest`` that of the look's rows, ``published`` the day of the first release, ""
    before it."""

    plan: Plan
    registration: str
    rows: Sequence[ResultRow]
    table: ResultTable
    digest: str
    history: WaveHistory
    published: str
    verdicts: Sequence[Verdict]


class LookShare:
    """One extra's share of a look: each method may be overridden. They are called in this order,
    with the study's key at hand."""

    def __init__(self, scope: LookScope) -> None:
        self.scope = scope

    def rows(self) -> Iterable[ResultRow]:
        """Return rows beside those of the exact grader."""
        return ()

    def digested(self) -> Sequence[object]:
        """Return canonical values that the digest of the look's rows covers too."""
        return ()

    def results(self, registration: str) -> Sequence[str]:
        """Return the digests of recorded results that the report shows: its record names them."""
        return ()

    def controls(self, plan: Plan, registration: str) -> Sequence[ControlResult]:
        """Return controls of the plan that the extra has run."""
        return ()

    def parts(self, look: LookContext) -> Sequence[Part]:
        """Return the parts of the report."""
        return ()


def shares_of(scope: LookScope) -> tuple[LookShare, ...]:
    """Return the share of each extra."""
    return tuple(contribute(scope) for contribute in contributions("look"))
