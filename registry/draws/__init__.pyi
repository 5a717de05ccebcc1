from .allocation import allocate, check_draws, pending_draw, place_seeds, sealed_key
from .beacon import (
    RELAYS,
    check_ahead,
    read_signature,
    round_of,
    round_time,
)
from .reveal import check_reveal, check_reveals, read_reveal, reveal_bytes, write_reveal
from .seeds import (
    Draw,
    Entropy,
    FixedEntropy,
    Identify,
    SystemEntropy,
    allot_draw,
    announce_draw,
    draw,
    record_draw,
)

__all__ = [
    "RELAYS",
    "Draw",
    "Entropy",
    "FixedEntropy",
    "Identify",
    "SystemEntropy",
    "allocate",
    "allot_draw",
    "announce_draw",
    "check_ahead",
    "check_draws",
    "check_reveal",
    "check_reveals",
    "draw",
    "pending_draw",
    "place_seeds",
    "read_reveal",
    "read_signature",
    "record_draw",
    "reveal_bytes",
    "round_of",
    "round_time",
    "sealed_key",
    "write_reveal",
]
