"""What the ledger keeps of calibrations, and which of them a report shows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from analysis.calibration import RUN, RecordedCalibration, read_calibration
from analysis.json_values import plain_values
from harness.store_keys import calibration_key
from registry.canonical import canonical_bytes, digest_bytes
from registry.errors import BrokenPromise
from registry.ledger import CalibrationMade, Entry, write_inventory
from study.workspace import Study

if TYPE_CHECKING:
    from study.calibration.from_scores import Calibrated


def record_calibration(study: Study, made: Calibrated, now: str) -> CalibrationMade:
    """Keep what a calibration found in the store, and promise it. The same again is the record
    that there is."""
    data = canonical_bytes(plain_values(made.as_json()))
    digest = digest_bytes(data)
    key = calibration_key(digest)
    study.store.put(key, data)
    inventory = write_inventory(study.store, [key])
    record = CalibrationMade(
        plan=made.registration,
        how=made.how,
        wave=None if made.how == RUN else made.wave,
        trials=sum(each.replicates for each in made.found.doses),
        result=digest,
        uri=key,
        objects=inventory.objects,
        objects_root=inventory.objects_root,
    )
    entry, _ = study.ledger.append_unless(
        record, now, lambda entry: entry.kind == "calibrated" and entry.record == record
    )
    kept: CalibrationMade = entry.record
    return kept


def as_kept(made: Calibrated, result: str = "", time: str = "") -> RecordedCalibration:
    """A calibration as it is read back."""
    return read_calibration(plain_values(made.as_json()), "the calibration", result, time)


def calibrations_of(
    study: Study, registration: str, through: int
) -> tuple[RecordedCalibration, ...]:
    """What a report through a wave shows: of stored scores and of agents one each, on the newest
    wave, of such the one with most trials, of such the last. Raises BrokenPromise where one is
    not what the ledger promises."""
    best: dict[str, Entry] = {}
    for entry in study.ledger.find("calibrated"):
        record: CalibrationMade = entry.record
        if record.plan != registration or (record.wave or 0) > through:
            continue
        current = best.get(record.how)
        if current is None or _weight(record) >= _weight(current.record):
            best[record.how] = entry
    return tuple(_read(study, best[how]) for how in sorted(best))


def _weight(record: CalibrationMade) -> tuple[int, int]:
    return (record.wave or 0, record.trials)


def _read(study: Study, entry: Entry) -> RecordedCalibration:
    record: CalibrationMade = entry.record
    data = study.store.get(record.uri)
    if digest_bytes(data) != record.result:
        raise BrokenPromise(f"{record.uri}: not the calibration that the ledger names")
    return read_calibration(json.loads(data), record.uri, record.result, entry.time)
