"""Checkpoints of a ledger, by c2sp.org/tlog-checkpoint: a signed note of four lines

    dosimeter/<the study's public key>
    <number of records>
    <base64 of the RFC 6962 root over the records' bytes>
    head <digest of the last record>

The study's key signs it under the name of the first line; witnesses add cosignatures. In a store,
``checkpoints/<number of records, 8 digits>/`` holds notes (``.txt``), each of them whole with the
study's signature; the leaf hashes under a root, in hex, a line each (``.leaves``); and RFC 3161
responses for the study's own note (``.tsr``). Each object is named by its SHA-256.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from registry.canonical import Digest
from registry.checkpoints.note import (
    COSIGNATURE,
    SIGNATURE,
    Note,
    NoteKey,
    merge_signatures,
    read_key,
    read_note,
    sign_note,
    signatures_by,
)
from registry.errors import BrokenPromise, RegistryError
from registry.ledger import Announcement, Entry, MerkleTree, entry_bytes, head_digest, leaf_hash
from registry.signing import Signer
from registry.stores import Store

CHECKPOINTS = "checkpoints/"
NOTE, LEAVES, TOKEN = ".txt", ".leaves", ".tsr"
_TEXT = re.compile(
    r"dosimeter/([0-9a-f]{64})\n(0|[1-9][0-9]{0,7})\n([A-Za-z0-9+/]{43}=)\n"
    r"head (sha256:[0-9a-f]{64})\n"
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a ledger at a number of records."""

    study: str  # its public key, 64 hexadecimal digits
    size: int  # records
    root: bytes  # 32
    head: Digest  # of the last record

    @property
    def key(self) -> NoteKey:
        """The study's key, by which it is signed."""
        return NoteKey(f"dosimeter/{self.study}", SIGNATURE, bytes.fromhex(self.study))

    @property
    def text(self) -> str:
        """The text of its note."""
        root = base64.b64encode(self.root).decode()
        return f"{self.key.name}\n{self.size}\n{root}\nhead {self.head}\n"


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Those whom a study's first record names as witnesses of its ledger, and how many of them
    must have signed a checkpoint."""

    keys: tuple[NoteKey, ...]
    threshold: int


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """A checkpoint that the study's key signed. ``witnesses`` are names, with the time of each
    cosignature, UTC ISO 8601, of witnesses that the study names; ``note`` has the study's signature
    and after it theirs, all valid."""

    checkpoint: Checkpoint
    note: Note
    witnesses: tuple[tuple[str, str], ...]

    @property
    def signers(self) -> str:
        """Who signed it, in words."""
        signed = (f"{name} on {time}" for name, time in self.witnesses)
        return " and ".join(("the study's key", *signed))

    @property
    def own(self) -> bytes:
        """The note with the study's signature alone: the same bytes whoever asks, since Ed25519
        is deterministic. Time-stamps are of these."""
        return bytes(Note(self.note.text, self.note.signatures[:1]))


def leaf_hashes(entries: Iterable[Entry]) -> list[bytes]:
    """Return the RFC 6962 leaf hash of each record's bytes."""
    return [leaf_hash(entry_bytes(entry)) for entry in entries]


def root_of(leaves: Iterable[bytes]) -> bytes:
    """Return the RFC 6962 root over leaves that are given by their hashes."""
    tree = MerkleTree()
    for leaf in leaves:
        tree.add_hash(leaf)
    return tree.root()


def witnesses_of(first: Sequence[Entry]) -> Witnesses:
    """Return the witnesses that a ledger with this first record has. Raises BrokenPromise for an
    announcement of another form."""
    record = first[0].record if first and first[0].kind == "announcement" else None
    if not isinstance(record, Announcement):
        return Witnesses((), 0)
    try:
        keys = tuple(map(read_key, record.witnesses))
        check_witnesses(keys, record.witness_threshold)
    except RegistryError as error:
        raise BrokenPromise(f"{first[0].place}: {error}") from None
    return Witnesses(keys, record.witness_threshold)


def check_witnesses(keys: Sequence[NoteKey], threshold: int) -> None:
    """Raise RegistryError unless so many of these keys can have signed, each by itself."""
    if any(key.kind != COSIGNATURE for key in keys):
        raise RegistryError("a witness's key is of the type 04: `dosimeter witness init` prints it")
    if len({key.public for key in keys}) < len(keys) or len({k.name for k in keys}) < len(keys):
        raise RegistryError("a witness is named twice: each has a name and a key of its own")
    if not (1 <= threshold <= len(keys) or threshold == len(keys) == 0):
        raise RegistryError(f"threshold {threshold}: of {len(keys)} witnesses 1 to all must sign")


# --- Making and reading ---


def sign_checkpoint(entries: Sequence[Entry], signer: Signer) -> SignedCheckpoint:
    """Return the checkpoint of a ledger that holds, signed by the study's key. Raises
    RegistryError for an empty ledger and for another key."""
    if not entries:
        raise RegistryError("the ledger has no records yet: draw first, then make a checkpoint")
    if entries[0].signer != signer.public:
        raise RegistryError("checkpoints are signed by the study's key, which this one is not")
    root = root_of(leaf_hashes(entries))
    checkpoint = Checkpoint(signer.public, len(entries), root, head_digest(entries))
    signature = sign_note(checkpoint.text, checkpoint.key, signer)
    return SignedCheckpoint(checkpoint, Note(checkpoint.text, (signature,)), ())


def read_checkpoint(note: Note, witnesses: Witnesses, place: str) -> SignedCheckpoint:
    """Return the checkpoint of a note. Raises BrokenPromise for a note of another form, and for
    one that the key which it names has not signed."""
    match = _TEXT.fullmatch(note.text)
    if match is None:
        raise BrokenPromise(f"{place}: not a checkpoint of a study's ledger")
    root = base64.b64decode(match[3])
    checkpoint = Checkpoint(match[1], int(match[2]), root, Digest(match[4]))
    own = signatures_by(note, checkpoint.key)
    if not own or checkpoint.text != note.text:
        raise BrokenPromise(f"{place}: not signed by {match[1][:16]}…, the study that it names")
    cosigned = [found[0] for key in witnesses.keys if (found := signatures_by(note, key))]
    cosigned.sort(key=lambda pair: pair[0])
    kept = tuple(signature for _, signature in (own[0], *cosigned))
    times = tuple((signature.name, iso_time(seconds)) for seconds, signature in cosigned)
    return SignedCheckpoint(checkpoint, Note(note.text, kept), times)


def iso_time(seconds: int) -> str:
    """Return a time as the ledger writes it; one that no calendar has as its number."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"second {seconds}"


# --- In a store ---


def put_checkpoint(store: Store, signed: SignedCheckpoint, leaves: Sequence[bytes]) -> bool:
    """Store a note and the leaf hashes under its root; return True if the note was not there.
    Raises StoreError."""
    size = signed.checkpoint.size
    put_beside(store, size, LEAVES, "".join(f"{leaf.hex()}\n" for leaf in leaves[:size]).encode())
    return put_beside(store, size, NOTE, bytes(signed.note))


def put_beside(store: Store, size: int, suffix: str, data: bytes) -> bool:
    """Store an object of the checkpoint at a size; return True if it was not there."""
    return store.put(f"{_folder(size)}{hashlib.sha256(data).hexdigest()}{suffix}", data)


def stored_checkpoints(
    store: Store, study: str, witnesses: Witnesses, doubt: Callable[[str, str], None]
) -> tuple[SignedCheckpoint, ...]:
    """Return the checkpoints that a store holds and a study signed, by size; those with the same
    text as one, with the signatures of all. ``doubt`` gets place and reason of each other note."""
    notes: dict[str, list[Note]] = {}
    for key in store.list(CHECKPOINTS):
        if not key.endswith(NOTE):
            continue
        try:
            note = read_note(store.get(key), key)
            if read_checkpoint(note, witnesses, key).checkpoint.study != study:
                raise BrokenPromise(f"{key}: a checkpoint of another study's ledger")
        except BrokenPromise as error:
            doubt(key, str(error).removeprefix(f"{key}: "))
            continue
        notes.setdefault(note.text, []).append(note)
    return merge_checkpoints(
        (Note(text, merge_signatures(same)) for text, same in notes.items()), witnesses
    )


def merge_checkpoints(notes: Iterable[Note], witnesses: Witnesses) -> tuple[SignedCheckpoint, ...]:
    """Return the checkpoints of notes that were read before, by size."""
    read = (read_checkpoint(note, witnesses, "checkpoint") for note in notes)
    return tuple(sorted(read, key=lambda signed: (signed.checkpoint.size, signed.note.text)))


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


def stored_tokens(store: Store, size: int) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of the RFC 3161 responses beside the checkpoint at a size."""
    for key in store.list(_folder(size)):
        if key.endswith(TOKEN):
            yield key, store.get(key)


def checkpoints_until(
    store: Store, entries: Sequence[Entry], signer: Signer, until: str
) -> tuple[SignedCheckpoint, ...]:
    """Return the checkpoints up to a ledger's last record, by size, with the cosignatures of a time
    up to ``until``, UTC ISO 8601. The last one is of the whole ledger, and is made if need be. The
    same call later gives the same, unless a witness sent an old cosignature late. Raises
    RegistryError."""
    made, witnesses = sign_checkpoint(entries, signer), witnesses_of(entries[:1])
    stored = stored_checkpoints(store, signer.public, witnesses, lambda place, reason: None)
    known = {made.note.text: made}
    for one in stored:
        if one.checkpoint.size < len(entries) or one.note.text == made.note.text:
            known[one.note.text] = _signed_until(one, until)
    return tuple(sorted(known.values(), key=lambda one: one.checkpoint.size))


def _signed_until(one: SignedCheckpoint, until: str) -> SignedCheckpoint:
    """Return a checkpoint without the cosignatures of a later time."""
    count = sum(time <= until for _, time in one.witnesses)  # the earliest come first
    note = Note(one.note.text, one.note.signatures[: 1 + count])
    return SignedCheckpoint(one.checkpoint, note, one.witnesses[:count])


def checkpoint_text(store: Store, entries: Sequence[Entry], signer: Signer, until: str) -> str:
    """Return the checkpoint of a ledger as a file for others: the last of ``checkpoints_until``."""
    return bytes(checkpoints_until(store, entries, signer, until)[-1].note).decode()


def _folder(size: int) -> str:
    return f"{CHECKPOINTS}{size:08d}/"
