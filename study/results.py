"""The stored results of a study as rows for analysis, joined to the arms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from analysis.data import ResultTable, make_table
from harness.episodes import rows_of
from registry.errors import BrokenPromise
from registry.result_row import Arm, ResultRow
from registry.sealing import SealedEntry
from study.sweeps import Burned, burned_tranches
from study.workspace import StudySnapshot, WaveSnapshot


def exact_rows(study: StudySnapshot, waves: Iterable[WaveSnapshot]) -> Iterator[ResultRow]:
    """Yield the exact grader's rows of some waves, joined to arms, tranches and burned seeds. Needs
    the study's key. Raises BrokenPromise for a result of no instance of the draw."""
    entries = {entry.instance: entry for entry in study.entries()}
    burned = burned_tranches(study.ledger.entries())
    for wave in waves:
        for result in wave.results.values():
            entry = entries.get(result.instance)
            if entry is None:
                raise BrokenPromise(f"wave {wave.number}: a result is of no instance of the draw")
            yield from (join_draw(row, entry, burned) for row in rows_of(result, entry.arm))


def exact_table(study: StudySnapshot, waves: Iterable[WaveSnapshot]) -> ResultTable:
    """Return the same as a table of columns."""
    return make_table(exact_rows(study, waves))


def join_draw(row: ResultRow, entry: SealedEntry, burned: Burned) -> ResultRow:
    """Return the row with the tranche of its instance, and whether that is burned for its model."""
    lost = entry.arm is Arm.PRIVATE and entry.tranche in burned.get((row.wave, row.model), ())
    return replace(row, tranche=entry.tranche, burned=int(lost)) if entry.tranche or lost else row
