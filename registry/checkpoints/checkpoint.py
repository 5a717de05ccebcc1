"""Checkpoints of a ledger, by c2sp.org/tlog-checkpoint: a signed note of four lines

    dosimeter/<the study's public key>
    <number of records>
    <base64 of the RFC 6962 root over the records' bytes>
    head <digest of the last record>

then an empty line, and a signature (c2sp.org/signed-note): "— ", the first line, a space, and the
base64 of a key ID of 4 bytes and an Ed25519 signature of the study's key over the text. The key ID
begins SHA-256(first line ‖ 0x0A ‖ 0x01 ‖ public key). Ed25519 is deterministic, so that the same
ledger always has the same note.

In a store, ``checkpoints/<number of records, 8 digits>/`` holds notes (``.txt``); the leaf hashes
under a root, in hex, a line each (``.leaves``). Each object is named by its SHA-256.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from registry.canonical import Digest
from registry.errors import BrokenPromise, RegistryError
from registry.ledger.chain import Entry, entry_bytes, head_digest
from registry.ledger.merkle import MerkleTree, leaf_hash
from registry.signing import Signer, is_signed_text
from registry.stores.base import Store

CHECKPOINTS = "checkpoints/"
NOTE, LEAVES = ".txt", ".leaves"
_NOTE = re.compile(
    r"dosimeter/([0-9a-f]{64})\n(0|[1-9][0-9]{0,7})\n([A-Za-z0-9+/]{43}=)\n"
    r"head (sha256:[0-9a-f]{64})\n\n— dosimeter/\1 ([A-Za-z0-9+/]+={0,2})\n"
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a ledger at a number of records."""

    study: str  # its public key, 64 hexadecimal digits
    size: int  # records
    root: bytes  # 32
    head: Digest  # of the last record

    @property
    def origin(self) -> str:
        """The first line of its text, which is also the name of the key that signs it."""
        return f"dosimeter/{self.study}"

    @property
    def text(self) -> str:
        """The text that is signed."""
        root = base64.b64encode(self.root).decode()
        return f"{self.origin}\n{self.size}\n{root}\nhead {self.head}\n"

    @property
    def key_id(self) -> bytes:
        """The ID of the study's key in a signature line, 4 bytes."""
        key = b"\n\x01" + bytes.fromhex(self.study)
        return hashlib.sha256(self.origin.encode() + key).digest()[:4]


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """A checkpoint with its signed note, as a file holds it."""

    checkpoint: Checkpoint
    note: bytes


def leaf_hashes(entries: Iterable[Entry]) -> list[bytes]:
    """Return the RFC 6962 leaf hash of each record's bytes."""
    return [leaf_hash(entry_bytes(entry)) for entry in entries]


def root_of(leaves: Iterable[bytes]) -> bytes:
    """Return the RFC 6962 root over leaves that are given by their hashes."""
    tree = MerkleTree()
    for leaf in leaves:
        tree.add_hash(leaf)
    return tree.root()


def sign_checkpoint(entries: Sequence[Entry], signer: Signer) -> SignedCheckpoint:
    """Return the checkpoint of a ledger that holds, signed by the study's key. Raises
    RegistryError for an empty ledger and for another key."""
    if not entries:
        raise RegistryError("the ledger has no records yet: draw first, then make a checkpoint")
    if entries[0].signer != signer.public:
        raise RegistryError("checkpoints are signed by the study's key, which this one is not")
    root = root_of(leaf_hashes(entries))
    return sign_note(Checkpoint(signer.public, len(entries), root, head_digest(entries)), signer)


def sign_note(checkpoint: Checkpoint, signer: Signer) -> SignedCheckpoint:
    """Return a checkpoint with the note that a key signs of it."""
    signature = signer.sign_text(checkpoint.text.encode())
    return SignedCheckpoint(checkpoint, _note_of(checkpoint, signature))


def read_checkpoint(data: bytes, place: str) -> SignedCheckpoint:
    """Return the checkpoint of a note. Raises BrokenPromise for a note of another form, and for
    one that the key which it names has not signed."""
    if (match := _NOTE.fullmatch(data.decode("utf-8", "replace"))) is None:
        raise BrokenPromise(f"{place}: not a checkpoint of a study's ledger")
    study, size, root, head, signature = match.groups()
    checkpoint = Checkpoint(study, int(size), base64.b64decode(root), Digest(head))
    try:
        signed = base64.b64decode(signature, validate=True)[4:]
    except binascii.Error:
        signed = b""
    text, key = checkpoint.text.encode(), bytes.fromhex(study)
    if data != _note_of(checkpoint, signed) or not is_signed_text(key, signed, text):
        raise BrokenPromise(f"{place}: not signed by {study[:16]}…, the study that it names")
    return SignedCheckpoint(checkpoint, data)


def _note_of(checkpoint: Checkpoint, signature: bytes) -> bytes:
    line = base64.b64encode(checkpoint.key_id + signature).decode()
    return f"{checkpoint.text}\n— {checkpoint.origin} {line}\n".encode()


# --- In a store ---


def put_checkpoint(store: Store, signed: SignedCheckpoint, leaves: Sequence[bytes]) -> bool:
    """Store a note and the leaf hashes under its root; return True if the note was not there.
    Raises StoreError."""
    size = signed.checkpoint.size
    put_beside(store, size, LEAVES, "".join(f"{leaf.hex()}\n" for leaf in leaves[:size]).encode())
    return put_beside(store, size, NOTE, signed.note)


def put_beside(store: Store, size: int, suffix: str, data: bytes) -> bool:
    """Store an object of the checkpoint at a size; return True if it was not there."""
    return store.put(f"{_folder(size)}{hashlib.sha256(data).hexdigest()}{suffix}", data)


def stored_checkpoints(
    store: Store, study: str, doubt: Callable[[str, str], None]
) -> Iterator[SignedCheckpoint]:
    """Yield the checkpoints that a store holds and a study signed. ``doubt`` gets place and reason
    of each other note."""
    for key in store.list(CHECKPOINTS):
        if not key.endswith(NOTE):
            continue
        try:
            signed = read_checkpoint(store.get(key), key)
            if signed.checkpoint.study != study:
                raise BrokenPromise(f"{key}: a checkpoint of another study's ledger")
            yield signed
        except BrokenPromise as error:
            doubt(key, str(error).removeprefix(f"{key}: "))


def stored_leaves(store: Store, checkpoint: Checkpoint) -> list[bytes] | None:
    """Return the leaf hashes under a checkpoint's root, if the store has them."""
    for key in store.list(_folder(checkpoint.size)):
        if key.endswith(LEAVES):
            lines = store.get(key).decode("ascii", "replace").split()
            if all(re.fullmatch("[0-9a-f]{64}", line) for line in lines):
                leaves = [bytes.fromhex(line) for line in lines]
                if root_of(leaves) == checkpoint.root:
                    return leaves
    return None


def _folder(size: int) -> str:
    return f"{CHECKPOINTS}{size:08d}/"
