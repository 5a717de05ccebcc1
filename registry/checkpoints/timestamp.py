"""Time-stamps by RFC 3161: an authority signs that some bytes existed at a time.

A response is checked offline, against the certificate of the authority's root, as
``openssl ts -verify -data NOTE -in RESPONSE -CAfile ROOT`` does too.
"""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from datetime import UTC
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from registry.errors import BrokenPromise, RegistryError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate
    from rfc3161_client import TimeStampResponse

_SECONDS = 30.0  # for an answer
_LONGEST = 1 << 20  # bytes of an answer
_SHA256 = "2.16.840.1.101.3.4.2.1"


def request_token(data: bytes, url: str) -> bytes:
    """Return the response of the authority at a URL for some bytes: it names them, and the nonce
    that was sent. Raises RegistryError."""
    from rfc3161_client import HashAlgorithm, TimestampRequestBuilder

    host = check_url(url)
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


def check_url(url: str) -> str:
    """Return the host of an authority's URL. Raises RegistryError for a URL of another kind, and
    for one with a user or password."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RegistryError("a time-stamping authority has a URL such as https://HOST/PATH")
    if "@" in parts.netloc:
        raise RegistryError(f"{parts.hostname}: a URL must not hold a user or password")
    return parts.hostname


def stamped_at(response: bytes, data: bytes, place: str) -> str:
    """Return the time that a response claims for some bytes, UTC ISO 8601. Its signature is not
    checked. Raises BrokenPromise for a response that is none, or is of other bytes."""
    info = _decode(response, place).tst_info
    imprint, digest = info.message_imprint, hashlib.sha256(data).digest()
    if imprint.hash_algorithm.dotted_string != _SHA256 or imprint.message != digest:
        raise BrokenPromise(f"{place}: a time-stamp of other bytes")
    return info.gen_time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def check_token(response: bytes, data: bytes, roots: list[Certificate], place: str) -> str:
    """Return the time, UTC ISO 8601, at which some bytes existed, by the word of an authority
    below one of the root certificates. Raises BrokenPromise."""
    from rfc3161_client import VerificationError, VerifierBuilder

    time = stamped_at(response, data, place)
    try:
        VerifierBuilder(roots=roots).build().verify_message(_decode(response, place), data)
    except (VerificationError, ValueError) as error:
        raise BrokenPromise(f"{place}: not signed by that authority ({error})") from None
    return time


def read_certificates(data: bytes, place: str) -> list[Certificate]:
    """Return the certificates of a PEM file. Raises RegistryError."""
    from cryptography.x509 import load_pem_x509_certificates

    try:
        return load_pem_x509_certificates(data)
    except ValueError:
        raise RegistryError(f"{place}: not a certificate in PEM form") from None


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
