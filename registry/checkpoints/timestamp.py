"""Time-stamps by RFC 3161: an authority signs that some bytes existed at a time.

What is stamped is the file of a ledger record, which fixes all records before it. The response lies
in the store as ``stamps/<number of the record, 8 digits>/<SHA-256>.tsr``, with the certificates of
the authority in it. It is checked offline against the certificate of the authority's root, as
``openssl ts -verify -data RECORD -in RESPONSE -CAfile ROOT`` does too. A certificate must have been
valid at the time of the stamp. One that was revoked later stamps nothing after that, and if its key
was compromised nothing at all (RFC 3161, section 4).
"""

from __future__ import annotations

import hashlib
import math
import re
import ssl
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from registry.errors import BrokenPromise, RegistryError
from registry.ledger.chain import Entry, entry_bytes
from registry.stores.base import Store

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, CertificateRevocationList
    from rfc3161_client import TimeStampResponse

STAMPS = "stamps/"
_STAMP = re.compile(rf"{STAMPS}(\d{{8}})/[0-9a-f]{{64}}\.tsr")
_CRL = b"-----BEGIN X509 CRL-----"
_SECONDS = 10.0  # for an answer
_LONGEST = 1 << 20  # bytes of an answer
_SHA256 = "2.16.840.1.101.3.4.2.1"
_REASON = re.compile(r'data: "(?:Verify error: )?([^"]{1,200})"')  # in OpenSSL's list of errors


def request_token(data: bytes, url: str) -> bytes:
    """Return the response of the authority at a URL for some bytes: it names them, and the nonce
    that was sent. Raises RegistryError."""
    from rfc3161_client import HashAlgorithm, TimestampRequestBuilder

    host = str(urlsplit(url).hostname)
    request = TimestampRequestBuilder().data(data).hash_algorithm(HashAlgorithm.SHA256).build()
    headers = {"Content-Type": "application/timestamp-query"}
    post = urllib.request.Request(url, data=request.as_bytes(), headers=headers)  # noqa: S310
    try:
        with urllib.request.urlopen(post, timeout=_SECONDS) as answer:  # noqa: S310
            response: bytes = answer.read(_LONGEST)
    except urllib.error.HTTPError as error:
        raise RegistryError(f"{host}: no time-stamp: it answers {error.code}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise RegistryError(f"{host}: no time-stamp: it cannot be reached ({reason})") from None
    try:
        decoded = _decode(response, host)
        if decoded.tst_info.nonce != request.nonce:
            raise BrokenPromise(f"{host}: its time-stamp is of another request")
        stamped_at(response, data, host)
    except BrokenPromise as error:
        raise RegistryError(f"{error}; nothing was stored") from None
    return response


def stamped_at(response: bytes, data: bytes, place: str) -> str:
    """Return the time that a response claims for some bytes, UTC ISO 8601. Its signature is not
    checked. Raises BrokenPromise for a response that is none, or is of other bytes."""
    info = _decode(response, place).tst_info
    imprint, digest = info.message_imprint, hashlib.sha256(data).digest()
    if imprint.hash_algorithm.dotted_string != _SHA256 or imprint.message != digest:
        raise BrokenPromise(f"{place}: a time-stamp of other bytes")
    return info.gen_time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class Authorities:
    """Root certificates of time-stamping authorities, and lists of certificates that were
    revoked."""

    roots: tuple[Certificate, ...]
    revoked: tuple[CertificateRevocationList, ...] = ()

    @classmethod
    def known(cls, pem: bytes = b"", place: str = "") -> Self:
        """Return those that this system trusts, and those of a PEM file, which may hold revocation
        lists too. Raises RegistryError for a file of another kind."""
        from cryptography.x509 import load_pem_x509_certificates, load_pem_x509_crl

        try:
            given = load_pem_x509_certificates(pem) if pem else []
            lists = [load_pem_x509_crl(_CRL + part) for part in pem.split(_CRL)[1:]]
        except ValueError:
            raise RegistryError(f"{place}: not a certificate in PEM form") from None
        return cls((*given, *_system_roots()), tuple(lists))


@lru_cache(maxsize=1)
def _system_roots() -> tuple[Certificate, ...]:
    """Return the certificates that this system trusts, but for malformed ones."""
    from cryptography.x509 import load_der_x509_certificate

    roots = []
    with warnings.catch_warnings(action="ignore"):
        for data in ssl.create_default_context().get_ca_certs(binary_form=True):
            with suppress(ValueError):
                roots.append(load_der_x509_certificate(data))
    return tuple(roots)


def check_token(response: bytes, data: bytes, authorities: Authorities, place: str) -> str:
    """Return the time, UTC ISO 8601, at which some bytes existed, by the word of an authority
    below one of the root certificates. Raises BrokenPromise."""
    from rfc3161_client import VerificationError, VerifierBuilder

    time, decoded = stamped_at(response, data, place), _decode(response, place)
    try:
        VerifierBuilder(roots=[*authorities.roots]).build().verify_message(decoded, data)
    except (VerificationError, ValueError) as error:
        unknown = "not signed by an authority known here: give its root by --tsa-ca"
        why = "; ".join(_REASON.findall(str(error))) or error
        raise BrokenPromise(f"{place}: {unknown} ({why})") from None
    for revoked in authorities.revoked:
        _check_revoked(decoded, revoked, authorities, place)
    return time


def _check_revoked(
    decoded: TimeStampResponse, revoked: CertificateRevocationList, known: Authorities, place: str
) -> None:
    """Raise BrokenPromise if a list that its issuer signed revokes the certificate of a stamp."""
    from cryptography.x509 import CRLReason, ReasonFlags, load_der_x509_certificate

    sent = map(load_der_x509_certificate, decoded.signed_data.certificates)
    issuers = [one for one in (*known.roots, *sent) if one.subject == revoked.issuer]
    keys: list[Any] = [one.public_key() for one in issuers]
    if not any(map(revoked.is_signature_valid, keys)):
        return
    lasting = {ReasonFlags.affiliation_changed, ReasonFlags.superseded}
    lasting.add(ReasonFlags.cessation_of_operation)
    for signer in decoded.signed_data.signer_infos:
        found = revoked.get_revoked_certificate_by_serial_number(signer.serial_number)
        if found is None or signer.issuer != revoked.issuer:
            continue
        reasons = {one.value.reason for one in found.extensions if isinstance(one.value, CRLReason)}
        since = found.revocation_date_utc
        if not reasons or reasons - lasting or decoded.tst_info.gen_time >= since:
            raise BrokenPromise(f"{place}: the authority's certificate was revoked on {since:%F}")


# --- In a store ---


@dataclass(frozen=True, slots=True)
class Stamp:
    """A time-stamp of a ledger record that holds."""

    sequence: int  # of the record
    time: str  # UTC, ISO 8601
    serial: int  # of the authority: it gives each number once
    authority: str  # the name on its certificate


def stamp_record(store: Store, entry: Entry, url: str) -> None:
    """Store a time-stamp of a record by the authority at a URL. Raises RegistryError."""
    token = request_token(entry_bytes(entry), url)
    store.put(f"{STAMPS}{entry.sequence:08d}/{hashlib.sha256(token).hexdigest()}.tsr", token)


def read_stamps(
    store: Store, entries: Sequence[Entry], authorities: Authorities, doubt: Callable[[str], None]
) -> tuple[Stamp, ...]:
    """Return the time-stamps of a ledger's records that hold, by record and time. ``doubt`` gets
    what is wrong with each other: anybody may have put it there. Raises StoreError."""
    stamps = []
    for key in store.list(STAMPS):
        try:
            if (found := _STAMP.fullmatch(key)) is None or int(found[1]) >= len(entries):
                raise BrokenPromise(f"{key}: a time-stamp of no record of this ledger")
            response = store.get(key)
            time = check_token(response, entry_bytes(entries[int(found[1])]), authorities, key)
        except BrokenPromise as error:
            doubt(str(error))
            continue
        decoded = _decode(response, key)
        names = [signer.issuer.rfc4514_string() for signer in decoded.signed_data.signer_infos]
        serial = decoded.tst_info.serial_number
        stamps.append(Stamp(int(found[1]), time, serial, ", ".join(names)))
    return tuple(sorted(stamps, key=lambda stamp: (stamp.sequence, stamp.time)))


def first_stamp(stamps: Sequence[Stamp], sequence: int, before: int | None = None) -> Stamp | None:
    """Return the earliest time-stamp that covers a record; with ``before``, of those that do not
    cover that later one. None if there is none."""
    covering = (s for s in stamps if sequence <= s.sequence and (before or math.inf) > s.sequence)
    return min(covering, key=lambda stamp: stamp.time, default=None)


def _decode(response: bytes, place: str) -> TimeStampResponse:
    from rfc3161_client import PKIStatus, decode_timestamp_response

    try:
        decoded = decode_timestamp_response(response)
        granted = decoded.status == PKIStatus.GRANTED
        if granted and decoded.tst_info:
            return decoded
    except ValueError as error:
        raise BrokenPromise(f"{place}: not an RFC 3161 response in DER ({error})") from None
    reason = "; ".join(map(str, decoded.status_string or ())) or f"status {decoded.status}"
    raise BrokenPromise(f"{place}: the time-stamp was refused ({reason[:200]})")
