"""Checkpoints of a study's ledger: made, stamped with a time, and completed by its witnesses."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from registry.checkpoints import (
    TOKEN,
    SignedCheckpoint,
    check_checkpoints,
    check_url,
    checkpoint_text,
    leaf_hashes,
    put_beside,
    put_checkpoint,
    read_cosigned,
    read_own,
    request_token,
    sign_checkpoint,
)
from registry.errors import BrokenPromise, RegistryError
from registry.ledger import Entry
from study.errors import StudyError
from study.workspace.setup import check_parties
from study.workspace.study import Study


def make_checkpoint(study: Study, authority: str = "") -> tuple[SignedCheckpoint, bool]:
    """Store the checkpoint of the ledger as it is, signed by the study's key, and with a time-stamp
    of the authority at a URL, if one is given. Return it with the cosignatures that are known, and
    whether it is new. Raises StudyError, RegistryError."""
    if authority:
        check_url(authority)
    entries = study.ledger.entries()
    check_parties(study)
    signed = sign_checkpoint(entries, study.signer())
    fresh = store_checkpoint(study, entries, signed)
    if authority:
        token = request_token(signed.own, authority)
        put_beside(study.store, signed.checkpoint.size, TOKEN, token)
    return newest_checkpoint(study), fresh


def add_cosigned(study: Study, paths: Sequence[Path]) -> SignedCheckpoint:
    """Store checkpoints that witnesses cosigned and sent as files; all of them are checked first.
    Return the newest checkpoint. Raises StudyError, RegistryError."""
    entries = study.ledger.entries()
    signed = [read_cosigned(read_file(path), entries, str(path)) for path in paths]
    for one in signed:
        store_checkpoint(study, entries, one)
    return newest_checkpoint(study)


def newest_checkpoint(study: Study) -> SignedCheckpoint:
    """Return the newest checkpoint in the store, with its cosignatures. Raises BrokenPromise if
    the ledger differs from one, StudyError if there is none."""
    findings = check_checkpoints(study.store, study.ledger.entries())
    for place, problem in findings.problems:
        raise BrokenPromise(f"{place}: {problem}")
    if not findings.checkpoints:
        raise StudyError(f"{study.folder}: no checkpoint yet: run `dosimeter checkpoint`")
    return findings.checkpoints[-1]


def release_checkpoint(study: Study, built: Path, now: str) -> str:
    """Return the checkpoint that goes out with a release: the one in a file of a release that was
    ``built`` before, if it is of this ledger; else that of the ledger before the first release was
    recorded, with the cosignatures of before. So a study that publishes again, or goes on after it
    was killed, publishes the same."""
    entries = study.ledger.entries()
    with suppress(OSError, RegistryError):
        data = built.read_bytes()
        read_own(data, entries, str(built))
        return data.decode()
    first = next((entry for entry in entries if entry.kind == "release"), None)
    known = entries if first is None else entries[: first.sequence]
    until = now if first is None else first.time
    return checkpoint_text(study.store, known, study.signer(), until)


def store_checkpoint(study: Study, entries: Sequence[Entry], signed: SignedCheckpoint) -> bool:
    """Store a checkpoint of the ledger; return True if it is new."""
    return put_checkpoint(study.store, signed, leaf_hashes(entries))


def read_file(path: Path) -> bytes:
    """Return the bytes of a file that the user named. Raises StudyError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise StudyError(f"{path}: {error.strerror}") from None
