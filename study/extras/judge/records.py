"""Grades by judges in the store, records of judges in the ledger, and the archive: the first wave's
answers, which judges grade once more at each later look."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from analysis.judge.drift import Regrading
from analysis.judge.error_rates import JudgeRates, read_rates
from generators.family import FORM_CRITERIA
from harness.episode import Cell, Episode, Grade
from harness.episodes.result import LENIENT, RESULT_CODEC, EpisodeResult, judged_row
from harness.judge.grade import read_grade
from harness.storage import EPISODE_CODEC, attempt_key, check_key, hex_of, result_key
from registry.canonical import canonical_bytes, digest_bytes, digest_value
from registry.errors import BrokenPromise
from registry.ledger.inventory import grades_folder, judge_objects, write_inventory
from registry.ledger.records import (
    Graded,
    JudgeChecked,
    JudgePin,
    Regraded,
    pin_digest,
    record_body,
)
from registry.result_row import Arm, ResultRow
from registry.sealing import Keys
from registry.stores.parallel import parallel_map
from study.errors import StudyError
from study.protocol.protocol import FILE_NAME
from study.workspace.setup import registration_of
from study.workspace.snapshot import StudySnapshot, take_snapshot
from study.workspace.study import Study, closed_wave, closing_manifest, manifest_of

Clock = Callable[[], str]
FIRST = 0  # the wave with the archived answers
Labelled = tuple[str, Grade]  # with the judge's name
G = TypeVar("G", Graded, Regraded)
_KINDS = {Graded: "graded", Regraded: "regraded"}


def record_graded(
    study: Study, pin: JudgePin, wave: int, episodes: Collection[str], now: Clock
) -> Graded | None:
    """Promise a judge's grades of a wave and its replies in the ledger; None while the wave is
    open. To be called once the judge has graded all the ``episodes`` of the wave."""
    closed = closed_wave(study.ledger, wave)
    if closed is None or closed.owed != len(episodes):
        return None
    if (known := find_grading(study, Graded, pin, wave)) is not None:
        return known
    pinned = pin_digest(pin) in map(pin_digest, closing_manifest(study.ledger, closed).judges)
    own = {"wave": wave, "manifest": closed.manifest, "pinned": pinned}
    return _append_grading(study, Graded, pin, episodes, now, own)


def record_regraded(
    study: Study, pin: JudgePin, look: int, share: float, episodes: Collection[str], now: Clock
) -> Regraded:
    """Promise a judge's second grades of the first wave's answers, at a look's wave, and its
    replies in the ledger. To be called once it has made them all; the first grades have a record
    already."""
    if (known := find_grading(study, Regraded, pin, look)) is not None:
        return known
    first = closed_wave(study.ledger, FIRST)
    if first is None:
        raise BrokenPromise(f"wave {FIRST} is not closed, and its answers were graded again")
    own = {"wave": look, "first": FIRST, "manifest": first.manifest, "share": share}
    return _append_grading(study, Regraded, pin, episodes, now, own, look)


def _promised(
    study: Study, pin: JudgePin, episodes: Collection[str], look: int | None = None, *more: str
) -> dict[str, Any]:
    """Write the inventory of a judge's grades and replies, and ``more`` objects; return its fields
    of a record."""
    promised = [
        entry.record.objects_root
        for kind in ("graded", "regraded", "judge-checked")
        for entry in study.ledger.find(kind)
        if pin_digest(entry.record.judge) == pin_digest(pin)
    ]
    keys = judge_objects(study.store, pin_digest(pin), episodes, promised, look)
    inventory = write_inventory(study.store, [*more, *keys])
    return {"objects": inventory.objects, "objects_root": inventory.objects_root}


def _append_grading(
    study: Study,
    made: type[G],
    pin: JudgePin,
    episodes: Collection[str],
    now: Clock,
    own: dict[str, Any],
    look: int | None = None,
) -> G:
    """Append a record of a judge's grades at a wave, unless there is one; return the one that
    counts. ``own`` are the fields of its kind."""
    retention = dict(study.protocol.retention).get(pin.name, "")
    promised = _promised(study, pin, episodes, look)
    record = made(judge=pin, graded=len(episodes), retention=retention, **own, **promised)
    kind = _KINDS[made]
    entry, _ = study.ledger.append_unless(
        record,
        now(),
        lambda entry: entry.kind == kind and _subject(entry.record) == _subject(record),
    )
    counted: G = entry.record
    return counted


def _subject(record: Graded | Regraded) -> tuple[str, int]:
    """Return the judge and wave of a record, of which the ledger has one."""
    return pin_digest(record.judge), record.wave


def find_grading(study: Study, kind: type[G], pin: JudgePin, wave: int) -> G | None:
    """Return the record of a judge's grades of a wave, or of the first wave's answers again at a
    later look's wave, if any."""
    records: Iterable[G] = (entry.record for entry in study.ledger.find(_KINDS[kind]))
    return next((r for r in records if _subject(r) == (pin_digest(pin), wave)), None)


def graded_records(study: Study, pin: JudgePin) -> tuple[Graded, ...]:
    """Return the records of the waves that a judge has graded whole."""
    records = (entry.record for entry in study.ledger.find("graded"))
    return tuple(record for record in records if pin_digest(record.judge) == pin_digest(pin))


def rates_of(study: Study, pin: JudgePin) -> JudgeRates | None:
    """Return a judge's measured accuracy: that on the most criteria, and of several such the last;
    None if it was never measured. Raises BrokenPromise if the result is not the one that the ledger
    promises."""
    records = (entry.record for entry in study.ledger.find("judge-checked"))
    checks = [record for record in records if pin_digest(record.judge) == pin_digest(pin)]
    if not checks:
        return None
    best: JudgeChecked = max(reversed(checks), key=lambda record: record.criteria)
    data = study.store.get(best.uri)
    if digest_bytes(data) != best.result:
        raise BrokenPromise(f"{best.uri}: not the judge check that the ledger names")
    return read_rates(json.loads(data), best.uri)


def record_checked(study: Study, pin: JudgePin, result: dict[str, Any], now: Clock) -> None:
    """Store the result of a check, and promise it in the ledger with the replies that it rests on.
    The result is not encrypted: it may hold nothing of an instance of the study."""
    data = canonical_bytes(result)
    digest = digest_bytes(data)
    checks: Iterable[JudgeChecked] = (e.record for e in study.ledger.find("judge-checked"))
    if any((pin_digest(c.judge), c.result) == (pin_digest(pin), digest) for c in checks):
        return
    key = check_key(digest)
    study.store.put(key, data)
    record = JudgeChecked(
        judge=pin,
        sheets=result["sheets"],
        criteria=result["criteria"],
        result=digest,
        uri=key,
        **_promised(study, pin, (), None, key),
    )
    study.ledger.append(record, now())


def judge_pin(study: Study, name: str) -> JudgePin:
    """Return the judge of this name in study.yaml. Raises StudyError."""
    for pin in study.protocol.judges:
        if pin.name == name:
            return pin
    known = ", ".join(pin.name for pin in study.protocol.judges) or "none"
    raise StudyError(
        f"{study.folder / FILE_NAME}: no judge {name!r} under `judges`; known: {known}"
    )


def finished_waves(study: Study, wave: int | None = None) -> dict[int, tuple[Cell, ...]]:
    """Return the cells that have a result, by wave: of one wave or of all that were begun."""
    waves = take_snapshot(study).waves.items()
    return {
        number: tuple(begun.finished_cells()) for number, begun in waves if wave in (None, number)
    }


def read_attempt(study: Study, episode: str, keys: Keys) -> Episode:
    """Return the attempt that counts of an episode that has a result. Raises RegistryError."""
    result = RESULT_CODEC.read(study.store, result_key(episode), keys)
    key = attempt_key(episode, result.attempt)
    return EPISODE_CODEC.read(study.store, key, keys)


def graded_by(study: Study, judge: str, look: int | None = None) -> frozenset[str]:
    """Return the episodes that a judge has graded, or graded again at a later look's wave;
    ``judge`` is the digest of its pin."""
    prefix = grades_folder(judge, look)
    keys = study.store.list(prefix)
    return frozenset(f"sha256:{key.removeprefix(prefix).removesuffix('.age')}" for key in keys)


def grades_of(study: Study, episode: str, keys: Keys) -> tuple[Labelled, ...]:
    """Return every judge's grade of an episode with its name, those of study.yaml first; older
    versions of a judge have a part of their digest in the name."""
    pins = [*study.protocol.judges, *(e.record.judge for e in study.ledger.find("graded"))]
    grades: dict[str, Grade] = {}
    for digest, name in {pin_digest(pin): pin.name for pin in pins}.items():
        grade = read_grade(study.store, digest, episode, keys)
        if grade is not None:
            grades[f"{name}@{hex_of(digest)[:8]}" if name in grades else name] = grade
    return tuple(grades.items())


def labelled(exact: Grade, judged: Grade) -> Iterator[tuple[bool, bool | None]]:
    """Yield the truth of each fact that a judge is asked, and its verdict, None for one that could
    not be parsed. A judge decides a templated question leniently (harness/judge/judge.py), so
    the verdict of the lenient column is its truth, as on the sheets of a check."""
    truths = dict(zip(exact.parts, exact.facts, strict=True))
    for part, verdict in zip(judged.parts, judged.facts, strict=True):
        if part == LENIENT or part.partition("/")[0] in FORM_CRITERIA:
            continue
        truth = truths.get(LENIENT)
        truth = truths.get(part) if truth is None else truth
        if truth is not None:
            yield truth, verdict


def judge_grades(
    study: Study, results: Iterable[EpisodeResult], keys: Keys
) -> Iterator[tuple[EpisodeResult, Grade]]:
    """Yield the results with each grade of a judge of study.yaml, for the judges that have graded
    them all: an incomplete column would compare other episodes than the next one."""
    graded = list(results)
    for pin in study.protocol.judges:
        digest = pin_digest(pin)
        done = graded_by(study, digest)
        if not all(result.episode in done for result in graded):
            continue

        def read(result: EpisodeResult, judge: str = digest) -> Grade | None:
            return read_grade(study.store, judge, result.episode, keys)

        for result, grade in zip(graded, parallel_map(study.store, read, graded), strict=True):
            if grade is not None:
                yield result, grade


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
        if find_grading(study, Graded, pin, FIRST) is None:
            raise StudyError(
                f"judge {pin.name!r} has not graded wave {FIRST} whole; run `dosimeter judge grade "
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
    cells = finished_waves(study, FIRST).get(FIRST, ())
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


def regradings_of(study: StudySnapshot, looks: Sequence[int]) -> tuple[Regrading, ...]:
    """Return the second grades by judges of study.yaml at these waves with their first grades, as
    far as the ledger promises them. Needs the study's key."""
    records = (
        find_grading(study, Regraded, pin, look) for pin in study.protocol.judges for look in looks
    )
    return tuple(_read_regrading(study, record) for record in records if record is not None)


def _read_regrading(study: StudySnapshot, record: Regraded) -> Regrading:
    arms = {entry.instance: entry.arm for entry in study.entries()}
    digest, keys = pin_digest(record.judge), study.keys()
    pairs: list[tuple[ResultRow, ResultRow]] = []
    results = study.waves[FIRST].results
    for cell in archived_cells(study, record.share):
        result = results[cell.episode]
        grades = [
            read_grade(study.store, digest, cell.episode, keys, look)
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
        record.judge.name, record.wave, record.first, record.share, before, after=after
    )
