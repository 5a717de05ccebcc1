"""A study's folder, opened: its protocol, store, ledger and keys."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from registry.canonical import digest_bytes
from registry.draws import place_seeds, sealed_key
from registry.errors import BrokenPromise
from registry.ledger import Announcement, Ledger, SealedSet, signers_of
from registry.sealing import (
    DrawnInstance,
    DrawnSeed,
    Keys,
    SealedSeeds,
    decrypt,
    open_seeds,
    read_identities,
    recipient_of,
)
from registry.signing import Signer
from registry.stores import Store, open_store
from study.errors import StudyError
from study.protocol import FILE_NAME, Protocol, read_protocol

logger = logging.getLogger(__name__)
CHECKOUT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True, slots=True)
class Study:
    """An opened study: all that its steps need, without its secrets."""

    folder: Path
    protocol: Protocol
    store: Store
    ledger: Ledger

    @property
    def key_file(self) -> Path:
        """The file of the study's key; the variable DOSIMETER_KEY_FILE overrides study.yaml."""
        named = os.environ.get("DOSIMETER_KEY_FILE")
        return Path(named) if named else self.folder / self.protocol.keys

    def identities(self) -> tuple[str, ...]:
        """Return the age identities that decrypt sealed files. Raises RegistryError."""
        return read_identities(self.key_file)

    def announcement(self) -> Announcement | None:
        """Return the ledger's first record; None before the draw."""
        for entry in self.ledger.entries()[:1]:
            if isinstance(entry.record, Announcement):
                return entry.record
        return None

    def signer(self) -> Signer:
        """Return the key that signs what the study records. Raises RegistryError."""
        signers = [Signer.of(identity) for identity in self.identities()]
        trusted = signers_of(self.ledger.entries()[:1])
        return next((signer for signer in signers if signer.public in trusted), signers[0])

    def secret_keys(self) -> dict[str, str]:
        """Return the age identities of the study and of its runs, by their kind. Needs the study's
        key. Raises RegistryError."""
        own = self.identities()
        keys = {f"study's key {number}": identity for number, identity in enumerate(own, 1)}
        for entry in self.ledger.find("run-manifest"):
            place = entry.record.run_key
            sealed = self.store.get(place)
            keys[f"run key of record {entry.sequence}"] = decrypt(sealed, own, place).decode()
        return keys

    def keys(self) -> Keys:
        """Return the keys of what the study stores itself. Needs the study's key. Raises
        RegistryError, BrokenPromise if the ledger is signed by another key."""
        signer, trusted = self.signer(), self.trusted()
        if trusted and signer.public not in trusted:
            raise BrokenPromise(
                f"{self.store.uri}: its ledger is signed by none of the keys in {self.key_file}: "
                "use the study's key file, or the store that the study was drawn in"
            )
        return Keys(self.recipients(), self.identities(), signer, trusted | {signer.public})

    def trusted(self) -> frozenset[str]:
        """Return the public keys that sign for the study and for its runs, as its ledger has
        them."""
        entries = self.ledger.entries()
        runs = (entry.record.run_signer for entry in entries if entry.kind == "run-manifest")
        return frozenset((*signers_of(entries[:1]), *runs))

    def recipients(self) -> tuple[str, ...]:
        """Return the public keys that the study encrypts to: those it names, else of its own key
        file."""
        named = self.protocol.recipients
        return named or tuple(recipient_of(identity) for identity in self.identities())

    def sealed_set(self) -> SealedSet:
        """Return the record of the draw. Raises StudyError if nothing was drawn."""
        entry = self.ledger.last("sealed-set")
        if entry is None:
            raise StudyError(f"{self.folder}: nothing is drawn yet; run `dosimeter draw` first")
        sealed: SealedSet = entry.record
        return sealed

    def entries(self) -> tuple[DrawnInstance, ...]:
        """Return the seeds of both arms. Needs the study's key. Raises RegistryError."""
        sealed = self.sealed_set()
        return place_seeds(self._open_seeds(sealed.ciphertext).seeds, sealed)

    def open_announced(self, announced: Announcement) -> SealedSeeds:
        """Return what is sealed of an announced draw. Needs the study's key. Raises
        RegistryError."""
        return self._open_seeds(announced.ciphertext)

    def _open_seeds(self, digest: str) -> SealedSeeds:
        place = sealed_key(digest)
        ciphertext = self.store.get(place)
        if digest_bytes(ciphertext) != digest:
            raise BrokenPromise(f"{place}: not the sealed seeds that the ledger names")
        return open_seeds(ciphertext, self.identities(), place)

    def drawn_seeds(self) -> Iterator[DrawnSeed]:
        """Yield the seeds of every announced draw, replaced ones too. Needs the study's key if
        there is one. Raises RegistryError."""
        for entry in self.ledger.find("announcement"):
            yield from self.open_announced(entry.record).seeds


def open_study(folder: Path) -> Study:
    """Open a study's folder. Raises StudyError, RegistryError."""
    protocol = read_protocol(folder)
    uri = protocol.store
    named = uri.startswith(("s3:", "file:"))  # else a folder, whatever is in its name
    store = open_store(uri if named else f"file:{(folder / uri).absolute()}")
    logger.info("study %s in %s, store %s", protocol.name, folder, store.uri)
    study = Study(folder, protocol, store, Ledger(store, lambda: study.signer()))
    return study


def is_study(folder: Path) -> bool:
    """Report whether a folder holds a study.yaml."""
    return (folder / FILE_NAME).is_file()
