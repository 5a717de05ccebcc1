"""A chain of drand's form with a key of the tests: its rounds can be signed ahead of time."""

from __future__ import annotations

import hashlib

import pytest
from py_arkworks_bls12381 import G1Point, G2Point, Scalar

from registry.draws import beacon
from registry.draws.beacon import BeaconChain

SECRET = Scalar(123456789)
CHAIN = BeaconChain("dc" * 32, (G2Point() * SECRET).to_compressed_bytes().hex(), 1_700_000_000, 3)


def use_chain(patch: pytest.MonkeyPatch) -> None:
    """Put the tests' chain in the place of quicknet."""
    patch.setattr(beacon, "QUICKNET", CHAIN)


def sign_round(number: int) -> str:
    """Return the signature of a round."""
    message = hashlib.sha256(number.to_bytes(8, "big")).digest()
    point = G1Point.hash_to_curve(message, b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_")
    return (point * SECRET).to_compressed_bytes().hex()
