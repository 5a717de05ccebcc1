"""Merkle trees, against the published vectors of RFC 6962 logs and a literal reading of it."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.ledger.merkle import merkle_root

# The eight leaves and the roots over the first n of them that Certificate Transparency's
# reference implementation tests with (certificate-transparency, merkle_tree_test.cc).
LEAVES = tuple(
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
)
ROOTS = (
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)


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
