"""Merkle trees, against the published vectors of RFC 6962 logs and a literal reading of it."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.ledger.merkle import merkle_root
from tests.cases import cases

# The eight leaves and the roots over the first n of them that Certificate Transparency's
# reference implementation tests with (certificate-transparency, merkle_tree_test.cc).
LEAVES = tuple(bytes.fromhex(text) for text in cases(__file__, "leaves"))
ROOTS = cases(__file__, "roots")


@pytest.mark.parametrize("size", range(9))
def test_roots_are_those_of_certificate_transparency(size: int) -> None:
    assert merkle_root(LEAVES[:size]).hex() == ROOTS[size]


def _by_the_letter(leaves: list[bytes]) -> bytes:
    """MTH of RFC 6962, section 2.1, as it stands there."""
    n = len(leaves)
    if n == 0:
        return hashlib.sha256().digest()
    if n == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    k = max(2**power for power in range(n) if 2**power < n)
    left, right = _by_the_letter(leaves[:k]), _by_the_letter(leaves[k:])
    return hashlib.sha256(b"\x01" + left + right).digest()


@given(st.lists(st.binary(max_size=40), max_size=70))
def test_the_streamed_root_is_the_recursive_one(leaves: list[bytes]) -> None:
    assert merkle_root(iter(leaves)) == _by_the_letter(leaves)
