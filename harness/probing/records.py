"""The results of probes: a score or text measures, each stored once under a name of its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.models import Membership
from harness.spending import Charge, ReplyStore
from harness.storage import Codec, probe_key
from registry.canonical import digest_value
from registry.ledger import ModelPin, record_digest
from registry.stores import Store


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of an exposure probe: ``score`` is the share of the instance's own values that the
    reply had right."""

    charge: Charge
    instance: str = field(repr=False)
    score: float
    served_version: str


@dataclass(frozen=True, slots=True)
class TextProbe:
    """The result of a text probe: how likely a model finds the text of one instance."""

    charge: Charge
    instance: str = field(repr=False)
    membership: Membership
    served_version: str


_PROBE: Codec[Probe] = Codec("probe", 1, Probe)
_TEXT_PROBE: Codec[TextProbe] = Codec("text-probe", 1, TextProbe)


def name_call(kind: str, method: str, study: str, wave: int, pin: ModelPin, instance: str) -> str:
    """Return the name of a probe of an instance by a method with this digest. An instance's id
    holds a nonce, so that nobody can guess the name."""
    return digest_value(
        {
            kind: method,
            "study": study,
            "wave": wave,
            "model": record_digest(pin),
            "instance": instance,
        }
    )


def save_probe(replies: ReplyStore, probe: Probe | TextProbe) -> None:
    """Store a result beside the replies that it rests on."""
    key = probe_key(probe.charge.payer.pin, probe.charge.subject)
    if isinstance(probe, Probe):
        _PROBE.write(replies.store, key, probe, replies.recipients)
    else:
        _TEXT_PROBE.write(replies.store, key, probe, replies.recipients)


def read_probe(store: Store, model: str, call: str, identities: tuple[str, ...]) -> Probe | None:
    """Return a stored probe, None if there is none; ``model`` is the digest of its pin. Raises
    RegistryError."""
    return _PROBE.find(store, probe_key(model, call), identities)


def read_text_probe(
    store: Store, model: str, call: str, identities: tuple[str, ...]
) -> TextProbe | None:
    """Return a stored text probe, None if there is none; ``model`` is the digest of its pin.
    Raises RegistryError."""
    return _TEXT_PROBE.find(store, probe_key(model, call), identities)
