from .check import check_checkpoints, covered
from .checkpoint import (
    CHECKPOINTS,
    TOKEN,
    SignedCheckpoint,
    check_witnesses,
    checkpoint_text,
    checkpoints_until,
    leaf_hashes,
    put_beside,
    put_checkpoint,
    sign_checkpoint,
    witnesses_of,
)
from .note import read_key
from .timestamp import check_url, read_certificates, request_token
from .witness import (
    WitnessState,
    cosign,
    new_witness,
    read_cosigned,
    read_own,
    read_witness,
    write_witness,
)

__all__ = [
    "CHECKPOINTS",
    "TOKEN",
    "SignedCheckpoint",
    "WitnessState",
    "check_checkpoints",
    "check_url",
    "check_witnesses",
    "checkpoint_text",
    "checkpoints_until",
    "cosign",
    "covered",
    "leaf_hashes",
    "new_witness",
    "put_beside",
    "put_checkpoint",
    "read_certificates",
    "read_cosigned",
    "read_key",
    "read_own",
    "read_witness",
    "request_token",
    "sign_checkpoint",
    "witnesses_of",
    "write_witness",
]
