"""Merkle trees as RFC 6962, section 2.1, has them, over SHA-256.

A leaf hashes as ``SHA-256(0x00 ‖ leaf)``, a node as ``SHA-256(0x01 ‖ left ‖ right)``; the left
subtree of n leaves holds the largest power of two below n; the empty tree is ``SHA-256("")``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence


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


def inclusion_proof(leaves: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """The audit path of a leaf, lowest first (section 2.1.1). Raises IndexError."""
    if not 0 <= index < len(leaves):
        raise IndexError(f"leaf {index} of {len(leaves)}")
    if len(leaves) == 1:
        return ()
    split = _split(len(leaves))
    left, right = leaves[:split], leaves[split:]
    if index < split:
        return (*inclusion_proof(left, index), merkle_root(right))
    return (*inclusion_proof(right, index - split), merkle_root(left))


def check_inclusion(
    leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes
) -> bool:
    """Report if the leaf is the one at ``index`` under the root of ``size`` leaves."""
    if not 0 <= index < size:
        return False
    turns = _turns(index, size)
    if len(turns) != len(proof):
        return False
    node = leaf_hash(leaf)
    for on_the_left, other in zip(turns, proof, strict=True):
        node = _node(other, node) if on_the_left else _node(node, other)
    return node == root


def _turns(index: int, size: int) -> list[bool]:
    """Return, for each level from the leaf up, True if the neighbour lies to the left."""
    turns: list[bool] = []
    while size > 1:
        split = _split(size)
        turns.append(index >= split)
        index, size = (index - split, size - split) if index >= split else (index, split)
    return turns[::-1]


def _split(size: int) -> int:
    """The largest power of two smaller than the size."""
    return 1 << ((size - 1).bit_length() - 1)


def leaf_hash(data: bytes) -> bytes:
    """The hash of a leaf, 32 bytes."""
    return hashlib.sha256(b"\x00" + data).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()
