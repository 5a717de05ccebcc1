"""docs/formats.md has the vectors that the code makes now, and that a stranger's code makes too."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import bech32
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from registry.draws.beacon import is_signed_round
from registry.ledger.draw_records import Beacon
from registry.ledger.records import KINDS
from registry.sealing import recipient_of
from tests import external_check
from tests.docs.format_vectors import BLOCK, IDENTITY, PAGE, vectors

(VECTORS,) = (json.loads(block) for block in BLOCK.findall(PAGE.read_text(encoding="utf-8")))


def test_the_page_is_not_stale() -> None:
    assert json.loads(json.dumps(vectors())) == VECTORS, "run python -m tests.docs.format_vectors"


def test_a_stranger_gets_the_same_commitments_and_root() -> None:
    vector = VECTORS["commitment"]
    assert external_check.commitment(vector) == vector["commitment"]
    vector = VECTORS["root"]
    leaves = [bytes.fromhex(text) for text in vector["commitments"]]
    assert external_check.merkle(leaves).hex() == vector["root"]


@pytest.mark.parametrize("how", ["secret", "beacon"])
def test_a_stranger_gets_the_same_allocation(how: str) -> None:
    vector = VECTORS[f"allocation by a {how}"]
    announced = {"beacon": how == "beacon", "commitment": vector.get("commitment"), **vector}
    announced["beacon"] = how == "beacon"
    value = vector["signature" if how == "beacon" else "secret"]
    assert external_check.allocation_seed(announced, value) == vector["allocation_seed"]
    if how == "secret":
        places = [[arm, tranche] for arm, tranche, _ in external_check.places(vector)]
        assert places == vector["places"]
    else:
        assert is_signed_round(Beacon(vector["chain"], vector["round"]), value)
        assert hashlib.sha256(bytes.fromhex(value)).hexdigest() == vector["value"]


def test_a_stranger_derives_the_same_keys() -> None:
    vector = VECTORS["key derivation"]
    assert recipient_of(IDENTITY), "a valid age key"

    def derive(salt: bytes, info: str) -> bytes:
        return HKDF(SHA256(), 32, salt, info.encode()).derive(vector["identity"].encode())

    secret = derive(b"dosimeter/derived-key", "dosimeter/signing/1")
    assert secret.hex() == vector["signing secret"]
    public = Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
    assert public.hex() == vector["signing public"]
    derived = derive(b"dosimeter/derived-identity", vector["derived name"])
    words = bech32.convertbits(derived, 8, 5)
    identity = bech32.bech32_encode("age-secret-key-", words).upper()
    assert recipient_of(identity) == vector["derived recipient"]


@pytest.fixture
def records(tmp_path: Path) -> list[Any]:
    """The records of the vectors, as a stranger reads them."""
    read: list[Any] = []
    for number, name in enumerate(("ledger record", "withdrawal")):
        path = tmp_path / f"{number:08d}.json"
        path.write_text(VECTORS[name]["bytes"])
        key = VECTORS["key derivation"]["signing public"]
        assert [*external_check.broken(name, external_check.check_record(path, key, read))] == []
        assert read[-1]["digest"] == VECTORS[name]["digest"]
    return read


def test_a_stranger_checks_the_records_and_their_checkpoint(
    records: list[Any], tmp_path: Path
) -> None:
    assert [record["kind"] for record in records] == ["announcement", "withdrawal"]
    assert set(records[1]["body"]) == {"content", "location", "reason"}
    vector, path = VECTORS["checkpoint"], tmp_path / "note.txt"
    path.write_text(vector["note"])
    assert [*external_check.broken("", external_check.check_checkpoint(path, records))] == []
    assert external_check.merkle([record["data"] for record in records]).hex() == vector["root"]
    signature = base64.b64decode(vector["note"].splitlines()[-1].split(" ")[2])
    assert signature[:4].hex() == vector["key ID"]


def test_a_stranger_checks_an_object() -> None:
    key, vector = VECTORS["key derivation"]["signing public"], VECTORS["object"]
    line, _, rest = vector["plain"].partition("\n")
    assert rest == vector["data"]
    tag, signer, certificate, signature = line.split(" ")
    assert (tag, signer, certificate) == ("dosimeter-object/1", key, "-")
    digest = hashlib.sha256(rest.encode()).digest()
    message = external_check.join(b"dosimeter/object/1", vector["name"].encode(), digest, size=8)
    assert external_check.is_signed(bytes.fromhex(key), bytes.fromhex(signature), message)


def test_the_revealed_seeds_open_their_commitments() -> None:
    data = VECTORS["reveal"]["bytes"].encode()
    assert external_check.sha256(data) == VECTORS["reveal"]["content"]
    value, commitments = json.loads(data), VECTORS["root"]["commitments"]
    places = VECTORS["allocation by a secret"]["places"]
    assert value["leaves"] == [n for n, (_, tranche) in enumerate(places) if tranche == 1]
    for leaf, seed in zip(value["leaves"], value["seeds"], strict=True):
        assert external_check.commitment(seed) == commitments[leaf]
        assert [seed["arm"], seed["tranche"]] == places[leaf]


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
