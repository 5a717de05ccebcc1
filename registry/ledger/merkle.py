"""Merkle trees as RFC 6962, section 2.1, has them, over SHA-256.

A leaf hashes as ``SHA-256(0x00 ‖ leaf)``, a node as ``SHA-256(0x01 ‖ left ‖ right)``; the left
subtree of n leaves holds the largest power of two below n; the empty tree is ``SHA-256("")``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


class MerkleTree:
    """A tree that grows leaf by leaf, and keeps no more than a hash for each level."""

    def __init__(self) -> None:
        self.size = 0
        self._full: list[tuple[int, bytes]] = []  # perfect subtrees from the left: height, hash

    def add(self, leaf: bytes) -> None:
        """Append a leaf."""
        self.add_hash(leaf_hash(leaf))

    def add_hash(self, node: bytes) -> None:
        """Append a leaf by its hash."""
        height, full = 0, self._full
        while full and full[-1][0] == height:
            node = _node(full.pop()[1], node)
            height += 1
        full.append((height, node))
        self.size += 1

    def root(self) -> bytes:
        """The root over the leaves so far, 32 bytes."""
        if not self._full:
            return hashlib.sha256(b"").digest()
        *subtrees, (_, root) = self._full
        for _, left in reversed(subtrees):
            root = _node(left, root)
        return root


def merkle_root(leaves: Iterable[bytes]) -> bytes:
    """The root over the leaves, 32 bytes."""
    tree = MerkleTree()
    for leaf in leaves:
        tree.add(leaf)
    return tree.root()


def leaf_hash(data: bytes) -> bytes:
    """The hash of a leaf, 32 bytes."""
    return hashlib.sha256(b"\x00" + data).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()
