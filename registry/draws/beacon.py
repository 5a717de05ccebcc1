"""drand, the public randomness beacon: the value of a round is not known to anybody before its
time, and carries a signature that anybody can check without the network.

The chain is quicknet (unchained, scheme ``bls-unchained-g1-rfc9380``): a round every 3 seconds. Its
signature is a point of BLS12-381's G1, of 48 bytes, over the SHA-256 of the round as 8 bytes,
big-endian; its value is the SHA-256 of the signature (https://docs.drand.love).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from registry.errors import BrokenPromise, RegistryError
from registry.files import read_beside
from registry.ledger.draw_records import Beacon

_PUBLISHED = read_beside(__file__, "beacon.yaml")
RELAYS: tuple[str, ...] = tuple(_PUBLISHED["relays"])
_DOMAIN = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_"
_NAME = re.compile(r"drand:([1-9][0-9]{0,14})")
_SIGNATURE = re.compile("[0-9a-f]{96}")
_TIMEOUT = 10.0  # seconds, of one relay
_MOST_BYTES = 1 << 16  # of a relay's reply
_SUGGESTED = timedelta(seconds=300)  # from now, of the round that a message suggests


@dataclass(frozen=True, slots=True)
class BeaconChain:
    """The parameters of a chain of drand."""

    hash: str
    public: str  # point of G2, 192 hexadecimal digits
    genesis: int  # Unix time of round 1
    period: int  # seconds


QUICKNET = BeaconChain(**_PUBLISHED["quicknet"])


def round_of(text: str) -> Beacon:
    """Return the round that a text such as ``drand:34567890`` names. Raises RegistryError."""
    if (named := _NAME.fullmatch(text)) is None:
        raise RegistryError(f"{text!r} is no round of a beacon: write drand:34567890")
    return Beacon(QUICKNET.hash, int(named[1]))


def find_chain(beacon: Beacon) -> BeaconChain:
    """Return the parameters of a round's chain. Raises RegistryError for an unknown one."""
    if beacon.chain != QUICKNET.hash or beacon.round < 1:
        raise RegistryError(f"beacon {beacon.chain[:16]}…, round {beacon.round}: not of quicknet")
    return QUICKNET


def round_time(beacon: Beacon) -> datetime:
    """Return the time at which a round is published, and before which nobody knows its value.
    Raises RegistryError."""
    chain = find_chain(beacon)
    return datetime.fromtimestamp(chain.genesis + (beacon.round - 1) * chain.period, UTC)


def round_at(time: datetime) -> Beacon:
    """Return the first round that is published after a time."""
    rounds = math.ceil((time.timestamp() - QUICKNET.genesis) / QUICKNET.period)
    return Beacon(QUICKNET.hash, rounds + 1)


def check_ahead(beacon: Beacon, now: str) -> None:
    """Raise RegistryError, with a round that can be named, unless a round's value is still to
    come."""
    present, due = datetime.fromisoformat(now), round_time(beacon)
    if due <= present:
        later = round_at(present + _SUGGESTED)
        raise RegistryError(
            f"drand:{beacon.round}: the value of this round has been public since {due:%F %T} UTC: "
            f"name one to come, such as drand:{later.round} at {round_time(later):%F %T} UTC"
        )


def is_signed_round(beacon: Beacon, signature: str) -> bool:
    """Report whether a signature is that of a round. Raises RegistryError for an unknown chain."""
    from py_arkworks_bls12381 import GT, G1Point, G2Point

    chain = find_chain(beacon)
    if not _SIGNATURE.fullmatch(signature):
        return False
    try:
        signed = G1Point.from_compressed_bytes(bytes.fromhex(signature))  # in the subgroup
    except ValueError:
        return False
    message = hashlib.sha256(beacon.round.to_bytes(8, "big")).digest()
    hashed = G1Point.hash_to_curve(message, _DOMAIN)
    public = G2Point.from_compressed_bytes(bytes.fromhex(chain.public))
    return GT.pairing_check([hashed, signed], [public, -G2Point()])


def beacon_value(signature: str) -> bytes:
    """Return the 32 bytes of randomness of a round's signature."""
    return hashlib.sha256(bytes.fromhex(signature)).digest()


def read_signature(beacon: Beacon, relays: Sequence[str] = RELAYS) -> str:
    """Return the signature of a round, checked: from the first relay that gives it. A relay is the
    address of one, or the path of a file with its reply. Raises RegistryError that says why each
    did not, BrokenPromise for a file with another signature."""
    from http.client import HTTPException

    problems = []
    for relay in relays:
        try:
            signature = _signature_in(_ask(relay, beacon), beacon)
        except (OSError, ValueError, RecursionError, HTTPException) as error:
            problems.append(f"{relay}: {getattr(error, 'reason', None) or error}")
            continue
        if is_signed_round(beacon, signature):
            return signature
        problems.append(f"{relay}: its signature is not of round {beacon.round}")
        if not _is_address(relay):
            raise BrokenPromise(problems[-1])
    raise RegistryError(
        f"drand:{beacon.round}: no relay gave its value ({'; '.join(problems)}): name another by "
        "--relay, an address or a file that holds its reply"
    )


def _is_address(relay: str) -> bool:
    return relay.startswith(("https://", "http://"))


def _ask(relay: str, beacon: Beacon) -> bytes:
    """Return the reply of a relay, or what its file holds. Raises OSError, ValueError."""
    import urllib.request

    if not _is_address(relay):
        with Path(relay).open("rb") as file:
            return file.read(_MOST_BYTES)
    url = f"{relay.rstrip('/')}/{beacon.chain}/public/{beacon.round}"
    request = urllib.request.Request(url, headers={"User-Agent": "dosimeter"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as reply:  # noqa: S310 - see above
        data: bytes = reply.read(_MOST_BYTES)
    return data


def _signature_in(reply: bytes, beacon: Beacon) -> str:
    """Return the signature in a relay's reply. Raises ValueError."""
    value: Any = json.loads(reply)
    if not isinstance(value, dict) or value.get("round") != beacon.round:
        raise ValueError(f"its reply is not of round {beacon.round}")
    signature = value.get("signature")
    if not isinstance(signature, str) or not _SIGNATURE.fullmatch(signature):
        raise ValueError("its reply has no signature of 96 hexadecimal digits")
    return signature
