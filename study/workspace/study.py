"""A study's folder, opened: its protocol, store, ledger and keys."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from registry.canonical import digest_bytes
from registry.draws.allocation import place_seeds, sealed_key
from registry.errors import BrokenPromise, RegistryError
from registry.ledger.chain import Ledger, signers_of
from registry.ledger.draw_records import Announcement, SealedSet
from registry.ledger.records import RunManifest, WaveClosed, record_digest
from registry.sealing import (
    DrawnInstance,
    DrawnSeed,
    Keys,
    SealedSeeds,
    decrypt,
    open_run,
    open_seeds,
    read_identities,
    recipient_of,
    run_name,
)
from registry.signing import Signer
from registry.stores.base import Store
from study.errors import StudyError
from study.protocol.protocol import FILE_NAME, Protocol
from study.protocol.sections import OPERATOR_KEYS

if TYPE_CHECKING:
    from harness.sweep.schedule import WaveInstance

KEY_VARIABLE = "DOSIMETER_KEY_FILE"
OPERATOR_VARIABLE = "DOSIMETER_OPERATOR_KEY_FILE"
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
        named = os.environ.get(KEY_VARIABLE)
        return Path(named) if named else self.folder / self.protocol.keys

    @property
    def operator_key_file(self) -> Path:
        """The file of the operator's key; DOSIMETER_OPERATOR_KEY_FILE overrides study.yaml."""
        named = os.environ.get(OPERATOR_VARIABLE)
        stated = self.protocol.operator
        return Path(named) if named else self.folder / (stated.keys if stated else OPERATOR_KEYS)

    @property
    def _has_operator_key_only(self) -> bool:
        return not self.key_file.exists() and self.operator_key_file.exists()

    def identities(self) -> tuple[str, ...]:
        """Return the age identities of the key that is here: the study's, otherwise the operator's.
        Raises RegistryError."""
        if not self._has_operator_key_only:
            return read_identities(self.key_file)
        identities, path = read_identities(self.operator_key_file), self.operator_key_file
        announced = self.announcement()
        if announced is None or not announced.operator_signer:
            raise RegistryError(f"{path}: this study's draw has announced no operator's key")
        if announced.operator_signer not in {Signer.of(each).public for each in identities}:
            raise RegistryError(
                f"{path}: not the operator's key that the draw has announced, "
                f"{announced.operator_recipient}"
            )
        return identities

    def own_identities(self) -> tuple[str, ...]:
        """Return the age identities of the study's own key, which opens the draw. Raises
        RegistryError, in words of its own if only the operator's key is here."""
        if self._has_operator_key_only:
            raise RegistryError(
                f"{self.key_file}: this needs the study's key, which is not here; the operator's "
                f"key, {self.operator_key_file}, runs waves and cannot open the draw"
            )
        return read_identities(self.key_file)

    def announcement(self) -> Announcement | None:
        """Return the ledger's first record; None before the draw."""
        for entry in self.ledger.first():
            if isinstance(entry.record, Announcement):
                return entry.record
        return None

    def signer(self) -> Signer:
        """Return the key that signs what the study records. Raises RegistryError."""
        signers = [Signer.of(identity) for identity in self.identities()]
        trusted = signers_of(self.ledger.first())
        return next((signer for signer in signers if signer.public in trusted), signers[0])

    def secret_keys(self) -> dict[str, str]:
        """Return the age identities of the study and of its runs, by their kind. Needs the study's
        key. Raises RegistryError."""
        own = self.own_identities()
        keys = {f"study's key {number}": identity for number, identity in enumerate(own, 1)}
        for entry in self.ledger.find("run-manifest"):
            place = entry.record.run_key
            sealed = self.store.get(place)
            keys[f"run key of record {entry.sequence}"] = decrypt(sealed, own, place).decode()
        return keys

    def keys(self) -> Keys:
        """Return the keys of what the study stores itself. Raises RegistryError, BrokenPromise if
        the ledger is signed by another key."""
        signer, trusted = self.signer(), self.trusted()
        if trusted and signer.public not in trusted:
            raise BrokenPromise(
                f"{self.store.uri}: its ledger is signed by none of the keys in {self.key_file}: "
                "use the study's key file, or the store that the study was drawn in"
            )
        runs = cache(self._run_identity)
        return Keys(self.readers(), self.identities(), signer, trusted | {signer.public}, runs)

    def _run_identity(self, run: str) -> str | None:
        """Return the identity of a run by its name, if the ledger has the run."""
        runs = [entry.record for entry in self.ledger.find("run-manifest")]
        named: dict[str, RunManifest] = {run_name(each.run_recipient): each for each in runs}
        return self.run_identity(named[run]) if run in named else None

    def run_identity(self, manifest: RunManifest) -> str:
        """Return the key of a run. Needs the study's key or the operator's. Raises RegistryError,
        BrokenPromise if it is another than the manifest names."""
        sealed = read_once(self.store, manifest.run_key)  # type: ignore[arg-type]  # no protocol has a hash
        return open_run(sealed, manifest, self.identities())

    def trusted(self) -> frozenset[str]:
        """Return the public keys that sign for the study, as its ledger has them."""
        return frozenset(signers_of(self.ledger.first()))

    def recipients(self) -> tuple[str, ...]:
        """Return the public keys of those who may open the draw: those that study.yaml names, else
        those of the draw, before it that of the study's key file."""
        if self.protocol.recipients:
            return self.protocol.recipients
        if (drawn := self.ledger.last("sealed-set")) is not None:
            return tuple(drawn.record.recipients)
        return tuple(recipient_of(identity) for identity in self.own_identities())

    def readers(self) -> tuple[str, ...]:
        """Return the public keys of those who may read what pilots and waves store, where no arm
        is: the recipients and the operator, who is that of study.yaml until the draw."""
        announced, stated = self.announcement(), self.protocol.operator
        if announced is None:
            operator = stated.recipient if stated else ""
        else:
            operator = announced.operator_recipient
        return (*self.recipients(), *([operator] if operator else []))

    def sealed_set(self) -> SealedSet:
        """Return the record of the draw. Raises StudyError if nothing was drawn."""
        if (entry := self.ledger.last("sealed-set")) is None:
            raise StudyError(f"{self.folder}: nothing is drawn yet; run `dosimeter register` first")
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
        return open_seeds(ciphertext, self.own_identities(), place)

    def drawn_seeds(self) -> Iterator[DrawnSeed]:
        """Yield the seeds of every announced draw, replaced ones too. Needs the study's key if
        there is one. Raises RegistryError."""
        for entry in self.ledger.find("announcement"):
            yield from self.open_announced(entry.record).seeds

    def instances(self) -> tuple[WaveInstance, ...]:
        """Return the drawn instances of both arms, without their arms, in an order that does not
        reveal them. Raises RegistryError, BrokenPromise if the study's key has not signed them."""
        from harness.sweep.schedule import INSTANCES_CODEC  # which few commands need

        signers = {entry.signer for entry in self.ledger.entries()[:1]}
        keys = replace(self.keys(), trusted=signers)
        key = drawn_key(self.sealed_set().root)
        return INSTANCES_CODEC.decode(keys.open(key, read_once(self.store, key)), key)  # type: ignore[arg-type]  # no protocol has a hash


@lru_cache(maxsize=2)
def read_once(store: Store, key: str) -> bytes:
    """Return the bytes of an object; of the last two they are kept. Raises StoreError."""
    return store.get(key)


def drawn_key(root: str) -> str:
    """Return the store key of the instances of a draw, without their arms, by its Merkle root."""
    return f"drawn/{root}.age"


def is_study(folder: Path) -> bool:
    """Report whether a folder holds a study.yaml."""
    return (folder / FILE_NAME).is_file()


def closed_wave(ledger: Ledger, wave: int) -> WaveClosed | None:
    """Return the record of a closed wave; None while it is open."""
    records: Iterable[WaveClosed] = (entry.record for entry in ledger.find("wave-closed"))
    return next((record for record in records if record.wave == wave), None)


def manifests_of(ledger: Ledger, wave: int) -> tuple[RunManifest, ...]:
    """Return the manifests of a wave, oldest first: one for each state of code and image that it
    was run with. They share their run key, models and schedule."""
    records = (entry.record for entry in ledger.find("run-manifest"))
    return tuple(record for record in records if record.wave == wave)


def manifest_of(ledger: Ledger, wave: int) -> RunManifest | None:
    """Return the newest manifest of a wave; None before it is begun."""
    begun = manifests_of(ledger, wave)
    return begun[-1] if begun else None


def closing_manifest(ledger: Ledger, closed: WaveClosed) -> RunManifest:
    """Return the manifest that a closed wave names. Raises BrokenPromise."""
    for manifest in manifests_of(ledger, closed.wave):
        if record_digest(manifest) == closed.manifest:
            return manifest
    raise BrokenPromise(
        f"wave {closed.wave} was closed for run {closed.manifest}, of which the ledger has no "
        "manifest: see `dosimeter verify`"
    )
