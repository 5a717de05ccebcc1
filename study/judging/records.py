"""Grades by judges in the store, and records of judges in the ledger."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from analysis.judges import JudgeRates, read_rates
from harness.codec import decode_episode
from harness.episode import Cell, Episode, Grade
from harness.episodes import LENIENT, EpisodeResult
from harness.judging import read_grade
from harness.store_keys import attempt_key, check_key, hex_of, result_key
from harness.sweep import read_result
from registry.canonical import canonical_bytes, digest_bytes
from registry.errors import BrokenPromise
from registry.ledger import (
    Graded,
    JudgeChecked,
    JudgePin,
    Regraded,
    RunManifest,
    WaveClosed,
    grades_folder,
    judge_objects,
    record_digest,
    write_inventory,
)
from registry.sealing import decrypt
from study.errors import StudyError
from study.protocol import FILE_NAME
from study.workspace import Study, cells_of, closed_wave, closing_manifest, finished_of, manifest_of

FIRST = 0  # the wave with the archived answers
Labelled = tuple[str, Grade]  # with the judge's name


def record_graded(
    study: Study, pin: JudgePin, wave: int, episodes: Collection[str], now: Callable[[], str]
) -> Graded | None:
    """Promise a judge's grades of a wave and its replies in the ledger; None while the wave is
    open. To be called once the judge has graded all the ``episodes`` of the wave."""
    closed = closed_wave(study.ledger, wave)
    if closed is None or closed.owed != len(episodes):
        return None
    if (known := find_graded(study, pin, wave)) is not None:
        return known
    entry, _ = study.ledger.append_unless(
        _graded(study, pin, closed, episodes),
        now(),
        lambda entry: entry.kind == "graded" and _is_of(entry.record, pin, wave),
    )
    record: Graded = entry.record
    return record


def _graded(study: Study, pin: JudgePin, closed: WaveClosed, episodes: Collection[str]) -> Graded:
    before = list(_roots(study, pin))
    keys = judge_objects(study.store, record_digest(pin), episodes, before)
    inventory = write_inventory(study.store, keys)
    return Graded(
        wave=closed.wave,
        manifest=closed.manifest,
        judge=pin,
        pinned=pin in closing_manifest(study.ledger, closed).judges,
        graded=len(episodes),
        objects=inventory.objects,
        objects_root=inventory.objects_root,
        retention=_retention(study, pin),
    )


def _retention(study: Study, pin: JudgePin) -> str:
    return dict(study.protocol.retention).get(pin.name, "")


def find_graded(study: Study, pin: JudgePin, wave: int) -> Graded | None:
    """Return the record that a judge has graded a wave, if any."""
    records = (entry.record for entry in study.ledger.find("graded"))
    return next((record for record in records if _is_of(record, pin, wave)), None)


def _is_of(record: Graded | Regraded, pin: JudgePin, wave: int) -> bool:
    return record.wave == wave and record.judge == pin


def graded_records(study: Study, pin: JudgePin) -> tuple[Graded, ...]:
    """Return the records of the waves that a judge has graded whole."""
    records = (entry.record for entry in study.ledger.find("graded"))
    return tuple(record for record in records if record.judge == pin)


def record_regraded(
    study: Study,
    pin: JudgePin,
    look: int,
    share: float,
    episodes: Collection[str],
    now: Callable[[], str],
) -> Regraded:
    """Promise a judge's second grades of the first wave's answers, at a look's wave, and its
    replies in the ledger. To be called once it has made them all; the first grades have a record
    already."""
    if (known := find_regraded(study, pin, look)) is not None:
        return known
    before = list(_roots(study, pin))
    keys = judge_objects(study.store, record_digest(pin), episodes, before, look)
    inventory = write_inventory(study.store, keys)
    first = closed_wave(study.ledger, FIRST)
    if first is None:
        raise BrokenPromise(f"wave {FIRST} is not closed, and its answers were graded again")
    record = Regraded(
        wave=look,
        first=FIRST,
        manifest=first.manifest,
        judge=pin,
        share=share,
        graded=len(episodes),
        objects=inventory.objects,
        objects_root=inventory.objects_root,
        retention=_retention(study, pin),
    )
    entry, _ = study.ledger.append_unless(
        record,
        now(),
        lambda entry: entry.kind == "regraded" and _is_of(entry.record, pin, look),
    )
    first_record: Regraded = entry.record
    return first_record


def find_regraded(study: Study, pin: JudgePin, look: int) -> Regraded | None:
    """Return the record that a judge has graded the first wave again at a look's wave, if any."""
    records = (entry.record for entry in study.ledger.find("regraded"))
    return next((record for record in records if _is_of(record, pin, look)), None)


def rates_of(study: Study, pin: JudgePin) -> JudgeRates | None:
    """Return a judge's measured accuracy: that on the most criteria, and of several such the last;
    None if it was never measured. Raises BrokenPromise if the result is not the one that the ledger
    promises."""
    records = (entry.record for entry in study.ledger.find("judge-checked"))
    checks = [record for record in records if record.judge == pin]
    if not checks:
        return None
    best: JudgeChecked = max(reversed(checks), key=lambda record: record.criteria)
    data = study.store.get(best.uri)
    if digest_bytes(data) != best.result:
        raise BrokenPromise(f"{best.uri}: not the judge check that the ledger names")
    return read_rates(json.loads(data), best.uri)


def record_checked(
    study: Study, pin: JudgePin, result: dict[str, Any], now: Callable[[], str]
) -> JudgeChecked:
    """Store the result of a check, and promise it in the ledger with the replies that it rests on.
    The result is not encrypted: it may hold nothing of an instance of the study."""
    data = canonical_bytes(result)
    digest = digest_bytes(data)
    for entry in study.ledger.find("judge-checked"):
        known: JudgeChecked = entry.record
        if (known.judge, known.result) == (pin, digest):
            return known
    key = check_key(digest)
    study.store.put(key, data)
    keys = [key, *judge_objects(study.store, record_digest(pin), (), _roots(study, pin))]
    inventory = write_inventory(study.store, keys)
    record = JudgeChecked(
        judge=pin,
        sheets=result["sheets"],
        criteria=result["criteria"],
        result=digest,
        uri=key,
        objects=inventory.objects,
        objects_root=inventory.objects_root,
    )
    study.ledger.append(record, now())
    return record


def _roots(study: Study, pin: JudgePin) -> Iterator[str]:
    """The roots of the inventories that promise replies of this judge already."""
    for kind in ("graded", "regraded", "judge-checked"):
        for entry in study.ledger.find(kind):
            if entry.record.judge == pin:
                yield entry.record.objects_root


def judge_pin(study: Study, name: str) -> JudgePin:
    """Return the judge of this name in study.yaml. Raises StudyError."""
    for pin in study.protocol.judges:
        if pin.name == name:
            return pin
    known = ", ".join(pin.name for pin in study.protocol.judges) or "none"
    raise StudyError(
        f"{study.folder / FILE_NAME}: no judge {name!r} under `judges`; known: {known}"
    )


def finished_cells(study: Study, wave: int | None = None, needed: bool = False) -> Iterator[Cell]:
    """Yield the cells that have a result, of one wave or of all. Raises StudyError if they are
    ``needed`` and no wave was begun."""
    for _, cells in finished_waves(study, wave, needed):
        yield from cells


def finished_waves(
    study: Study, wave: int | None, needed: bool
) -> Iterator[tuple[RunManifest, tuple[Cell, ...]]]:
    """Yield the same by wave, each with its newest manifest."""
    waves = range(len(study.protocol.waves)) if wave is None else [wave]
    manifests = (manifest_of(study.ledger, number) for number in waves)
    begun = [manifest for manifest in manifests if manifest is not None]
    if needed and not begun:
        first = wave or 0
        raise StudyError(
            f"wave {first} was not begun; `dosimeter sweep --wave {first}` makes its episodes"
        )
    for manifest in begun:
        cells = cells_of(study.entries(), manifest)
        finished = finished_of(study.store, cells)
        yield manifest, tuple(cell for cell in cells if result_key(cell.episode) in finished)


def read_attempt(study: Study, episode: str, identities: tuple[str, ...]) -> Episode:
    """Return the attempt that counts of an episode that has a result. Raises RegistryError."""
    result = read_result(study.store, result_key(episode), identities)
    key = attempt_key(episode, result.attempt)
    return decode_episode(decrypt(study.store.get(key), identities, key), key)


def graded_by(study: Study, judge: str, look: int | None = None) -> frozenset[str]:
    """Return the episodes that a judge has graded, or graded again at a later look's wave;
    ``judge`` is the digest of its pin."""
    prefix = grades_folder(judge, look)
    keys = study.store.list(prefix)
    return frozenset(f"sha256:{key.removeprefix(prefix).removesuffix('.age')}" for key in keys)


def grades_of(study: Study, episode: str, identities: tuple[str, ...]) -> tuple[Labelled, ...]:
    """Return every judge's grade of an episode with its name, those of study.yaml first; older
    versions of a judge have a part of their digest in the name."""
    pins = [*study.protocol.judges, *(e.record.judge for e in study.ledger.find("graded"))]
    names: dict[str, str] = {record_digest(pin): pin.name for pin in pins}
    grades: dict[str, Grade] = {}
    for digest, name in names.items():
        grade = read_grade(study.store, digest, episode, identities)
        if grade is not None:
            grades[f"{name}@{hex_of(digest)[:8]}" if name in grades else name] = grade
    return tuple(grades.items())


def labelled(exact: Grade, judged: Grade) -> Iterator[tuple[bool, bool]]:
    """Yield the truth and the judge's verdict of each criterion with both. A judge decides a
    templated question leniently (harness/judging/judge.py), so the verdict of the lenient column is
    its truth, as on the sheets of a check."""
    truths = dict(zip(exact.criteria, exact.verdicts, strict=True))
    for criterion, verdict in zip(judged.criteria, judged.verdicts, strict=True):
        if criterion == LENIENT or verdict is None:
            continue
        truth = truths.get(LENIENT)
        truth = truths.get(criterion) if truth is None else truth
        if truth is not None:
            yield truth, verdict


def judge_grades(
    study: Study, results: Iterable[EpisodeResult], identities: tuple[str, ...]
) -> Iterator[tuple[EpisodeResult, Grade]]:
    """Yield the results with each grade of a judge of study.yaml, for the judges that have graded
    them all: an incomplete column would compare other episodes than the next one."""
    graded = list(results)
    for pin in study.protocol.judges:
        digest = record_digest(pin)
        done = graded_by(study, digest)
        if not all(result.episode in done for result in graded):
            continue
        for result in graded:
            grade = read_grade(study.store, digest, result.episode, identities)
            if grade is not None:
                yield result, grade
