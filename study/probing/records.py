"""Records of probes in the ledger: the models that were asked about every instance of a wave."""

from __future__ import annotations

from collections.abc import Callable, Collection

from registry.canonical import digest_value
from registry.ledger import (
    ModelPin,
    Probed,
    probe_objects,
    record_body,
    record_digest,
    write_inventory,
)
from study.probing.ask import ProbeKind
from study.workspace import Study, registration_of


def record_probed(
    study: Study,
    pin: ModelPin,
    wave: int,
    kind: ProbeKind,
    calls: Collection[str],
    done: int,
    now: Callable[[], str],
) -> Probed:
    """Promise a model's stored probes of a wave, named ``calls``, and the replies that they rest on
    in the ledger. To be called once all are ``done``, or as many as the model answers."""
    plan = digest_value(record_body(registration_of(study)))
    known = find_probed(study, pin, wave, kind.what)
    if known is not None and (known.method, known.probes) == (kind.method, done):
        return known
    inventory = write_inventory(study.store, probe_objects(study.store, record_digest(pin), calls))
    tranches = study.protocol.wave_tranches(wave)[pin.name]
    record = Probed(
        wave=wave,
        plan=plan,
        model=pin,
        what=kind.what,
        method=kind.method,
        probes=done,
        objects=inventory.objects,
        objects_root=inventory.objects_root,
        retention=dict(study.protocol.retention).get(pin.name, ""),
        tranches=() if tranches == (0,) else tranches,
    )
    entry, _ = study.ledger.append_unless(
        record, now(), lambda entry: entry.kind == "probed" and entry.record == record
    )
    kept: Probed = entry.record
    return kept


def find_probed(study: Study, pin: ModelPin, wave: int, what: str) -> Probed | None:
    """Return the newest record that a model was probed in this way at a wave, if any."""
    records: list[Probed] = [entry.record for entry in study.ledger.find("probed")]
    wanted = (wave, pin, what)
    return next((r for r in reversed(records) if (r.wave, r.model, r.what) == wanted), None)
