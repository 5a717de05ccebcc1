"""Checkpoints of a study's ledger: made, and stamped with a time."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

from registry.checkpoints.checkpoint import (
    SignedCheckpoint,
    leaf_hashes,
    put_checkpoint,
    read_checkpoint,
    sign_checkpoint,
)
from registry.checkpoints.timestamp import stamp_record
from registry.errors import RegistryError, StoreError
from study.errors import StudyError
from study.workspace.study import Study

logger = logging.getLogger(__name__)


def make_checkpoint(study: Study) -> SignedCheckpoint:
    """Store the checkpoint of the ledger as it is, signed by the study's key. Raises
    RegistryError."""
    entries = study.ledger.entries()
    signed = sign_checkpoint(entries, study.signer())
    put_checkpoint(study.store, signed, leaf_hashes(entries))
    return signed


def stamp_ledger(study: Study) -> None:
    """Store a time-stamp of the ledger's newest record by each authority of study.yaml. One that
    gives none is logged: the next stamp covers this record too. Raises StoreError."""
    refused: list[str] = []
    for url in study.protocol.stamps:
        try:
            stamp_record(study.store, study.ledger.entries()[-1], url)
        except StoreError:
            raise
        except RegistryError as error:
            refused.append(str(error))
    if refused:
        logger.warning("%s; the next record's stamp covers this one too", "; ".join(refused))


def release_checkpoint(study: Study, built: Path) -> str:
    """Return the checkpoint that goes out with a release: the one in a file of a release that was
    ``built`` before, if it is of this ledger; else that of the ledger before the first release was
    recorded. So a study that publishes again, or goes on after it was killed, publishes the
    same."""
    entries, signer = study.ledger.entries(), study.signer()
    with suppress(OSError, RegistryError):
        data = built.read_bytes()
        size = read_checkpoint(data, str(built)).checkpoint.size
        if sign_checkpoint(entries[:size], signer).note == data:
            return data.decode()
    first = next((entry.sequence for entry in entries if entry.kind == "release"), len(entries))
    return sign_checkpoint(entries[:first], signer).note.decode()


def read_file(path: Path) -> bytes:
    """Return the bytes of a file that the user named. Raises StudyError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise StudyError(f"{path}: {error.strerror}") from None
