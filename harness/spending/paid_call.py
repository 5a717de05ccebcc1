"""A paid call: one reply that was paid for, and what it is charged to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from harness.model import Reply
from harness.storage import Codec
from registry.ledger import JudgePin, ModelPin, record_digest


class CallKind(StrEnum):
    """What a call is made for."""

    EPISODE = "episode"
    JUDGE = "judge"
    PROBE = "probe"


@dataclass(frozen=True, slots=True)
class Payer:
    """The model or judge whose limits of the budget pay for a call."""

    name: str
    provider: str
    version: str
    pin: str  # digest of its pin

    @classmethod
    def of(cls, pin: ModelPin | JudgePin) -> Payer:
        """The payer of a pinned model or judge."""
        return cls(pin.name, pin.provider, pin.version, record_digest(pin))


@dataclass(frozen=True, slots=True)
class Charge:
    """What the calls of one subject are charged to. ``subject`` is the digest of an episode or a
    probe, or the id of an answer sheet; ``wave`` is None for the check of a judge."""

    kind: CallKind
    payer: Payer
    subject: str
    wave: int | None


@dataclass(frozen=True, slots=True)
class PaidCall:
    """A reply as the store keeps it."""

    charge: Charge
    reply: Reply


PAID_CALL_CODEC: Codec[PaidCall] = Codec("paid-call", 1, PaidCall)
