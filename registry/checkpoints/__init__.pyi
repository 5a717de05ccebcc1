from .check import check_checkpoints
from .checkpoint import (
    CHECKPOINTS,
    TOKEN,
    SignedCheckpoint,
    leaf_hashes,
    put_beside,
    put_checkpoint,
    read_checkpoint,
    sign_checkpoint,
)
from .timestamp import check_url, read_certificates, request_token

__all__ = [
    "CHECKPOINTS",
    "TOKEN",
    "SignedCheckpoint",
    "check_checkpoints",
    "check_url",
    "leaf_hashes",
    "put_beside",
    "put_checkpoint",
    "read_certificates",
    "read_checkpoint",
    "request_token",
    "sign_checkpoint",
]
