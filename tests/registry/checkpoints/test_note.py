"""Signed notes: the reference implementation's example, and what is none."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from registry.checkpoints.note import (
    COSIGNATURE,
    SIGNATURE,
    Note,
    NoteKey,
    NoteSignature,
    cosign_note,
    read_key,
    read_note,
    sign_note,
    signatures_by,
)
from registry.errors import BrokenPromise, RegistryError
from registry.signing import Signer

# Of the reference implementation, golang.org/x/mod/sumdb/note, in its documentation and tests.
PETER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
PETERS = base64.b64decode("AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz")[1:]
TEXT = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
)
LINE = (
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdng"
    "otpRZb6KE6RyyBwJnAM=\n"
)
# The example of c2sp.org/tlog-cosignature.
SOFA = (
    "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n"
    "— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5"
    "/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"
    "— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJs"
    "X3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==\n"
)
ANNA = Signer(bytes([7]) * 32)


def test_the_reference_example_is_made_and_checked() -> None:
    key = read_key(PETER)
    assert (key.name, key.kind, key.id.hex(), str(key)) == (
        "PeterNeumann",
        SIGNATURE,
        "c74f20a3",
        PETER,
    )
    made = Note(TEXT, (sign_note(TEXT, key, Signer(PETERS)),))
    assert bytes(made) == (TEXT + "\n" + LINE).encode()
    note = read_note(bytes(made), "note")
    assert signatures_by(note, key) == [(0, made.signatures[0])]
    other = Note(TEXT.replace("your", "my"), note.signatures)
    assert signatures_by(other, key) == []


def test_the_example_of_a_cosignature_is_read() -> None:
    note = read_note(SOFA.encode(), "sofa")
    assert bytes(note) == SOFA.encode()
    assert [s.name for s in note.signatures] == [
        "example.com/behind-the-sofa",
        "witness.example.com/w1",
    ]
    assert int.from_bytes(note.signatures[1].data[4:12], "big") == 1679315147


def test_a_cosignature_signs_time_and_text() -> None:
    key = NoteKey("example.org/anna", COSIGNATURE, bytes.fromhex(ANNA.public))
    made = cosign_note(TEXT, key, ANNA, 1679315147)
    assert len(made.data) == 76
    public = Ed25519PublicKey.from_public_bytes(key.public)
    public.verify(made.data[12:], f"cosignature/v1\ntime 1679315147\n{TEXT}".encode())
    note = Note(TEXT, (made,))
    assert signatures_by(note, read_key(str(key))) == [(1679315147, made)]
    later = made.data[:4] + (1679315148).to_bytes(8, "big") + made.data[12:]
    assert signatures_by(Note(TEXT, (NoteSignature(key.name, later),)), key) == []
    as_log = NoteKey(key.name, SIGNATURE, key.public)
    assert signatures_by(note, as_log) == [], "a cosignature is no signature of a study"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        TEXT.encode(),
        (TEXT + "\n").encode(),
        (TEXT + "\n" + LINE)[:-1].encode(),
        (TEXT + "\n" + LINE).replace("— Peter", "- Peter").encode(),
        (TEXT + "\n— Peter AAAA\n").encode(),
        (TEXT + "\n— Peter !!!!AAAA\n").encode(),
        (TEXT + "\r\n" + LINE).encode(),
        TEXT.encode() + b"\xff\n\n" + LINE.encode(),
        b"a" * (1 << 20) + b"\n\n" + LINE.encode(),
    ],
)
def test_what_is_no_note_is_refused(data: bytes) -> None:
    with pytest.raises(BrokenPromise, match="note: not a signed note"):
        read_note(data, "note")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "anna",
        PETER[1:],
        PETER[:-1],
        PETER.replace("c74f20a3", "c74f20a4"),
        PETER.replace("+AR", "+CR"),
        "a b" + PETER,
        "anna+00000000+",
    ],
)
def test_a_damaged_key_is_refused(text: str) -> None:
    with pytest.raises(RegistryError, match="is not a"):
        read_key(text)
