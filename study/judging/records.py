"""What the ledger keeps of judges: which waves they have graded, and what they were measured at."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from typing import Any

from analysis.judges import JudgeRates, read_rates
from harness.store_keys import check_key
from registry.canonical import canonical_bytes, digest_bytes
from registry.errors import BrokenPromise
from registry.ledger import (
    Graded,
    JudgeChecked,
    JudgePin,
    Regraded,
    WaveClosed,
    judge_objects,
    record_digest,
    write_inventory,
)
from study.workspace import Study, closed_wave, closing_manifest

FIRST = 0  # the wave whose answers are the archive


def record_graded(
    study: Study, pin: JudgePin, wave: int, episodes: Collection[str], now: Callable[[], str]
) -> Graded | None:
    """Promise a judge's grades of a wave and its replies; None while the wave is open. To be
    called where the judge has graded all the ``episodes`` of the wave."""
    closed = closed_wave(study.ledger, wave)
    if closed is None or closed.owed != len(episodes):
        return None
    if (found := find_graded(study, pin, wave)) is not None:
        return found
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
    """The record that a judge has graded a wave, if it has."""
    records = (entry.record for entry in study.ledger.find("graded"))
    return next((record for record in records if _is_of(record, pin, wave)), None)


def _is_of(record: Graded | Regraded, pin: JudgePin, wave: int) -> bool:
    return record.wave == wave and record.judge == pin


def graded_records(study: Study, pin: JudgePin) -> tuple[Graded, ...]:
    """The records of the waves that a judge has graded whole."""
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
    replies. To be called where it has made them all; the first grades are promised already."""
    if (found := find_regraded(study, pin, look)) is not None:
        return found
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
    kept: Regraded = entry.record
    return kept


def find_regraded(study: Study, pin: JudgePin, look: int) -> Regraded | None:
    """The record that a judge has graded the first wave again at a look's wave, if it has."""
    records = (entry.record for entry in study.ledger.find("regraded"))
    return next((record for record in records if _is_of(record, pin, look)), None)


def rates_of(study: Study, pin: JudgePin) -> JudgeRates | None:
    """What a judge was measured at: on the most criteria, and of several such last; None where
    it never was. Raises BrokenPromise where the result is not what the ledger promises."""
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
    """Keep what a check found in the store, and promise it with the replies that it rests on.
    The result is plain: it may hold nothing of an instance of the study."""
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
    """Of the inventories that promise replies of this judge already."""
    for kind in ("graded", "regraded", "judge-checked"):
        for entry in study.ledger.find(kind):
            if entry.record.judge == pin:
                yield entry.record.objects_root
