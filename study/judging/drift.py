"""The archive: the first wave's answers, which judges grade once more at each later look."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from analysis.plan import Regrading
from harness.episode import Cell
from harness.episodes import judged_row
from harness.judging import read_grade
from harness.store_keys import result_key
from harness.sweep import read_result
from registry.canonical import digest_value
from registry.errors import BrokenPromise
from registry.ledger import JudgePin, Regraded, record_body, record_digest
from registry.result_row import Arm, ResultRow
from study.errors import StudyError
from study.judging.records import FIRST, find_graded, find_regraded, finished_cells
from study.workspace import Study, closed_wave, manifest_of, registration_of


def archive_to_grade(study: Study, pins: Sequence[JudgePin], look: int) -> tuple[Cell, ...]:
    """Return the episodes that judges grade again at a look's wave. Raises StudyError if that wave
    has not begun, and if there is nothing to compare with: the first wave must be closed, and
    graded by each of them."""
    if look <= FIRST:
        raise StudyError(f"--again-at {look}: name a wave after wave {FIRST}, whose answers it is")
    if manifest_of(study.ledger, look) is None:
        raise StudyError(
            f"wave {look} was not begun; `dosimeter sweep --wave {look}` makes its episodes, and "
            "its look is what answers are graded again for"
        )
    if closed_wave(study.ledger, FIRST) is None:
        raise StudyError(
            f"wave {FIRST} is not closed: its answers are not all there to be graded again"
        )
    for pin in pins:
        if find_graded(study, pin, FIRST) is None:
            raise StudyError(
                f"judge {pin.name!r} has not graded wave {FIRST} whole; run `dosimeter grade "
                f"--judge {pin.name} --wave {FIRST}` first: a change is from those grades"
            )
    return archived_cells(study, share_of(study))


def share_of(study: Study) -> float:
    """Return the share of instances to grade again: the registered one; all of them if the plan has
    none and regrading is run nonetheless."""
    rules = registration_of(study).plan.standard
    return rules.regrade if rules is not None and rules.regrade else 1.0


def archived_cells(study: Study, share: float) -> tuple[Cell, ...]:
    """Return the first wave's episodes on a share of the instances, as many in either arm of each
    stratum, by an order that follows from the registration and does not depend on arms. The same at
    each look and for each judge."""
    plan = digest_value(record_body(registration_of(study)))
    cells = tuple(finished_cells(study, FIRST))
    archived = {cell.instance for cell in cells}
    by_arm: dict[tuple[str, Arm], list[str]] = defaultdict(list)
    for entry in study.entries():
        if entry.instance in archived:
            by_arm[entry.stratum, entry.arm].append(entry.instance)
    drawn = {
        instance
        for instances in by_arm.values()
        for instance in sorted(instances, key=lambda name: digest_value(["regrade", plan, name]))[
            : math.ceil(share * len(instances) - 1e-9)
        ]
    }
    return tuple(cell for cell in cells if cell.instance in drawn)


def regradings_of(study: Study, looks: Sequence[int]) -> tuple[Regrading, ...]:
    """Return the second grades by judges of study.yaml at these waves with their first grades, as
    far as the ledger promises them. Needs the study's key."""
    records = [
        record
        for pin in study.protocol.judges
        for look in looks
        if (record := find_regraded(study, pin, look)) is not None
    ]
    return tuple(_read(study, record) for record in records)


def _read(study: Study, record: Regraded) -> Regrading:
    arms = {entry.instance: entry.arm for entry in study.entries()}
    digest, identities = record_digest(record.judge), study.identities()
    pairs: list[tuple[ResultRow, ResultRow]] = []
    for cell in archived_cells(study, record.share):
        result = read_result(study.store, result_key(cell.episode), identities)
        grades = [
            read_grade(study.store, digest, cell.episode, identities, look)
            for look in (None, record.wave)
        ]
        rows = [judged_row(result, grade, arms[cell.instance]) for grade in grades if grade]
        if len(rows) < 2:
            raise BrokenPromise(
                f"wave {record.wave}: an answer that judge {record.judge.name} graded again, says "
                "the ledger, is without its grades"
            )
        pairs.append((rows[0], rows[1]))
    before, after = zip(*pairs, strict=True) if pairs else ((), ())
    return Regrading(
        record.judge.name, record.wave, record.first, record.share, tuple(before), tuple(after)
    )
