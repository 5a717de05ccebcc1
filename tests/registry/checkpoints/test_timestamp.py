"""RFC 3161 time-stamps: of an authority that ``openssl ts`` plays, checked offline."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from registry.checkpoints.timestamp import (
    Authorities,
    check_token,
    request_token,
    stamp_record,
    stamped_at,
)
from registry.errors import BrokenPromise, RegistryError
from registry.ledger.chain import Ledger, inspect_chain
from registry.stores.base import MemoryStore, Store
from tests.ledgers import SIGNER
from tests.registry.checkpoints.watched import NOBODY, begin, grow, seen
from tests.tsa import Authority, make_authority, serve

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")

DATA = b"a checkpoint"


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Authority, Authority]]:
    """Two authorities, of which the first is served."""
    folder = tmp_path_factory.mktemp("tsa")
    with serve(make_authority(folder / "first")) as first:
        yield first, make_authority(folder / "second")


@pytest.fixture
def authority(authorities: tuple[Authority, Authority]) -> Iterator[Authority]:
    yield authorities[0]
    authorities[0].answer, authorities[0].status = None, 200


def test_a_time_stamp_is_checked_here_and_by_openssl(
    authorities: tuple[Authority, Authority], tmp_path: Path
) -> None:
    first, second = authorities
    response = request_token(DATA, first.url)
    roots = [_roots(one) for one in authorities]
    time = check_token(response, DATA, roots[0], "token")
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", time)
    assert stamped_at(response, DATA, "token") == time
    unknown = r"token: not signed by an authority .*--tsa-ca \([a-z ]+\)$"
    with pytest.raises(BrokenPromise, match=unknown):
        check_token(response, DATA, roots[1], "token")
    with pytest.raises(BrokenPromise, match="a time-stamp of other bytes"):
        check_token(response, DATA + b"!", roots[0], "token")
    (tmp_path / "data").write_bytes(DATA)
    (tmp_path / "token").write_bytes(response)
    assert first.verifies(tmp_path / "data", tmp_path / "token")
    assert not second.verifies(tmp_path / "data", tmp_path / "token")


def test_every_altered_byte_of_a_stamp_is_noticed(authority: Authority) -> None:
    """A response that still reads as of these bytes is not by the authority, or is the same."""
    response = request_token(DATA, authority.url)
    roots = _roots(authority)
    time, accepted = check_token(response, DATA, roots, "token"), 0
    for place in range(0, len(response), 7):
        altered = bytearray(response)
        altered[place] ^= 1
        try:
            assert check_token(bytes(altered), DATA, roots, "token") == time
            accepted += 1
        except BrokenPromise:
            continue
    assert accepted < len(response) // 7 // 3, "unsigned parts: other certificates, status texts"


def test_an_authority_that_fails_is_one_error_and_stores_nothing(authority: Authority) -> None:
    earlier = request_token(DATA, authority.url)
    cases = [
        (earlier, 200, "its time-stamp is of another request"),
        (b"junk", 200, "not an RFC 3161 response"),
        (b"0\x050\x03\x02\x01\x02", 200, "the time-stamp was refused|not an RFC 3161 response"),
        (b"", 503, "no time-stamp: it answers 503"),
    ]
    for authority.answer, authority.status, match in cases:
        with pytest.raises(RegistryError, match=match) as caught:
            request_token(DATA, authority.url)
        assert not isinstance(caught.value, BrokenPromise)
    with pytest.raises(RegistryError, match=r"127.0.0.1: no time-stamp: it cannot be reached"):
        request_token(DATA, "http://127.0.0.1:1/tsr")


def test_the_stamps_in_a_store_are_counted(
    store: Store, authorities: tuple[Authority, Authority]
) -> None:
    first, second = authorities
    begin(store, 3)
    entries = inspect_chain(store)[0]
    stamp_record(store, entries[2], first.url)
    stamp_record(store, entries[2], first.url)
    found = seen(store, _roots(first))
    assert found.counts["time-stamps"] == 2
    assert found.counts["records under time-stamps"] == 3
    assert len({stamp.serial for stamp in found.stamps}) == 2, "each number is given once"
    assert {stamp.authority for stamp in found.stamps} == {"CN=Root"}
    dated = [words.partition(" as it says")[0] for words in found.unchecked]
    assert dated == ["whether ledger record 0, the announcement, is of 2026-11-01"]
    for known in (_roots(second), NOBODY):
        findings = seen(store, known)
        assert findings.stamps == ()
        assert any("records 0 to 2 were rewritten" in text for text in findings.unchecked)
    grow(Ledger(store, lambda: SIGNER), 4)
    left, _ = seen(store, _roots(first)).unchecked
    assert left.startswith("whether record 3 was rewritten by the study's own key")


def test_a_stamp_of_something_else_counts_for_nothing(
    authorities: tuple[Authority, Authority],
) -> None:
    store, other = MemoryStore(), MemoryStore()
    begin(store, 3)
    stamp_record(other, begin(other, 4).entries()[3], authorities[0].url)
    (key,) = other.list("stamps/")
    store.put(key, other.get(key))  # of a record that is not there
    store.put(key.replace("00000003", "00000001"), other.get(key))  # of another record
    store.put(key.replace("00000003", "00000002"), b"junk")
    found = seen(store, _roots(authorities[0]))
    assert found.stamps == ()
    texts = "\n".join(found.unchecked)
    for problem in ("of no record of this", "of other bytes", "not an RFC 3161 response"):
        assert texts.count(problem) == 1, problem


def _revocations(authority: Authority, reason: x509.ReasonFlags | None, days: int) -> bytes:
    """A list of the authority's that revokes its certificate, days from now."""
    root = x509.load_pem_x509_certificate(authority.root.read_bytes())
    leaf = x509.load_pem_x509_certificate((authority.folder / "tsa.pem").read_bytes())
    key: Any = load_pem_private_key((authority.folder / "ca.key").read_bytes(), None)
    now = datetime.now(UTC)
    since = now + timedelta(days=days)
    entry = x509.RevokedCertificateBuilder(leaf.serial_number, since)
    if reason is not None:
        entry = entry.add_extension(x509.CRLReason(reason), critical=False)
    made = x509.CertificateRevocationListBuilder(
        root.subject, now, now + timedelta(days=9), revoked_certificates=[entry.build()]
    )
    return made.sign(key, SHA256()).public_bytes(Encoding.PEM)


def test_what_a_revoked_certificate_stamped_before_counts_unless_its_key_was_stolen(
    authority: Authority,
) -> None:
    flags = x509.ReasonFlags
    response = request_token(DATA, authority.url)
    for reason, days, holds in (
        (flags.superseded, 1, True),
        (flags.superseded, -1, False),
        (flags.key_compromise, 1, False),
        (None, 1, False),
    ):
        known = _roots(authority, _revocations(authority, reason, days))
        if holds:
            check_token(response, DATA, known, "token")
            continue
        with pytest.raises(BrokenPromise, match="certificate was revoked on"):
            check_token(response, DATA, known, "token")
    forged = _revocations(authority, None, -1).replace(b"MI", b"MJ", 1)
    with pytest.raises((RegistryError, BrokenPromise)):
        check_token(response, DATA, _roots(authority, forged), "token")


def test_a_certificate_that_has_expired_since_stamps_what_it_stamped(tmp_path: Path) -> None:
    with serve(make_authority(tmp_path / "short")) as authority:
        leaf = x509.load_pem_x509_certificate((authority.folder / "tsa.pem").read_bytes())
        end = datetime.now(UTC) + timedelta(seconds=3)
        short = x509.CertificateBuilder(
            *(leaf.issuer, leaf.subject, leaf.public_key(), leaf.serial_number),  # type: ignore[arg-type]
            not_valid_before=leaf.not_valid_before_utc,
            not_valid_after=end,
            extensions=[*leaf.extensions],
        )
        key: Any = load_pem_private_key((authority.folder / "ca.key").read_bytes(), None)
        signed = short.sign(key, SHA256()).public_bytes(Encoding.PEM)
        (authority.folder / "tsa.pem").write_bytes(signed)
        early = request_token(DATA, authority.url)
        while datetime.now(UTC) <= end + timedelta(seconds=1):
            time.sleep(0.2)
        late = request_token(DATA, authority.url)
    check_token(early, DATA, _roots(authority), "token")
    with pytest.raises(BrokenPromise, match="not signed by an authority known here"):
        check_token(late, DATA, _roots(authority), "token")


def _roots(authority: Authority, *more: bytes) -> Authorities:
    return Authorities.known(b"".join((authority.root.read_bytes(), *more)), "ca.pem")


def test_a_file_that_is_no_certificate_is_refused() -> None:
    with pytest.raises(RegistryError, match=r"ca.pem: not a certificate in PEM form"):
        Authorities.known(b"hello", "ca.pem")
