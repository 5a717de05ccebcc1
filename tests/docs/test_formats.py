"""docs/formats.md has the vectors that the code makes now, and that a stranger's code makes too."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from registry.ledger.records import KINDS
from registry.sealing import recipient_of
from tests import external_check
from tests.docs.format_vectors import BLOCK, IDENTITY, PAGE, vectors

(VECTORS,) = (json.loads(block) for block in BLOCK.findall(PAGE.read_text(encoding="utf-8")))


def test_the_page_is_not_stale() -> None:
    assert json.loads(json.dumps(vectors())) == VECTORS, "run python -m tests.docs.format_vectors"


def test_a_stranger_derives_the_same_keys() -> None:
    vector = VECTORS["key derivation"]
    assert recipient_of(IDENTITY), "a valid age key"

    def derive(salt: bytes, info: str) -> bytes:
        return HKDF(SHA256(), 32, salt, info.encode()).derive(vector["identity"].encode())

    secret = derive(b"dosimeter/derived-key", "dosimeter/signing/1")
    assert secret.hex() == vector["signing secret"]
    public = Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
    assert public.hex() == vector["signing public"]


@pytest.fixture
def records(tmp_path: Path) -> list[Any]:
    """The records of the vectors, as a stranger reads them."""
    read: list[Any] = []
    for number, name in enumerate(("ledger record", "leak")):
        path = tmp_path / f"{number:08d}.json"
        path.write_text(VECTORS[name]["bytes"])
        key = VECTORS["key derivation"]["signing public"]
        assert [*external_check.broken(name, external_check.check_record(path, key, read))] == []
        assert read[-1]["digest"] == VECTORS[name]["digest"]
    return read


def test_a_stranger_checks_an_object() -> None:
    key, vector = VECTORS["key derivation"]["signing public"], VECTORS["object"]
    line, _, rest = vector["plain"].partition("\n")
    assert rest == vector["data"]
    tag, signer, signature = line.split(" ")
    assert (tag, signer) == ("dosimeter-object/1", key)
    digest = hashlib.sha256(rest.encode()).digest()
    message = external_check.join(b"dosimeter/object/1", vector["name"].encode(), digest, size=8)
    assert external_check.is_signed(key, signature, message)


def test_an_object_of_a_cell_is_opened_by_the_page_alone() -> None:
    vector = VECTORS["object of a cell"]
    episode = vector["name"].rpartition("/")[2].partition(".")[0].encode()
    secret = HKDF(SHA256(), 32, b"dosimeter/cell-key", episode).derive(
        vector["run's identity"].encode()
    )
    assert secret.hex() == vector["key"]
    line, _, rest = bytes.fromhex(vector["object"]).partition(b"\n")
    run = hashlib.sha256(vector["run_recipient"].encode()).hexdigest()
    assert line.decode() == f"dosimeter-cell/1 {run}"
    opened = ChaCha20Poly1305(secret).decrypt(rest[:12], rest[12:], vector["name"].encode())
    assert opened.decode() == vector["data"]


def test_a_stranger_checks_a_list_of_begun_attempts(tmp_path: Path) -> None:
    vector = VECTORS["list of begun attempts"]
    folder = f"begun/{hashlib.sha256(vector['run_recipient'].encode()).hexdigest()}"
    for key, page in vector["pages"].items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_text(page)
    sealed = {f"{'ab' * 32}-000{n}": hashlib.sha256(b"sealed %d" % n).hexdigest() for n in (1, 2)}
    for attempts, holds in ((sealed, True), (sealed | {f"{'cd' * 32}-0001": "0" * 64}, False)):
        rules = external_check.check_lists([vector["head"]], attempts, tmp_path / folder)
        assert all(right for right, _ in rules) is holds


def test_the_page_lists_fields_that_records_have() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", text, re.MULTILINE)
    assert len(rows) >= 9
    for kind, words in rows:
        fields = {field.name for field in dataclasses.fields(KINDS[kind])}
        named = set(re.findall(r"`([a-z_]+)`", words)) - {"chain", "round"}  # of a beacon
        assert named <= fields, kind


def test_the_page_names_every_tag_that_the_code_signs_or_hashes() -> None:
    text = PAGE.read_text(encoding="utf-8")
    root = PAGE.parent.parent / "registry"
    code = "".join(path.read_text() for path in root.rglob("*.py"))
    tags = set(re.findall(r'"(dosimeter/[a-z-]+(?:/\d)?)"', code))
    private = {"dosimeter/entropy/1"}  # of fixed entropy
    assert {tag for tag in tags - private if tag not in text} == set()
    assert len(tags - private) >= 8
