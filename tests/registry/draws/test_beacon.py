"""drand's rounds: published values hold, and nothing else does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from registry.draws.beacon import (
    QUICKNET,
    beacon_value,
    check_ahead,
    is_signed_round,
    read_signature,
    round_of,
    round_time,
)
from registry.errors import BrokenPromise, RegistryError
from registry.ledger.draw_records import Beacon
from tests.cases import cases

# Published by drand's quicknet.
SIGNATURES = cases(__file__, "signatures")
VALUES = {
    1000: "fe290beca10872ef2fb164d2aa4442de4566183ec51c56ff3cd603d930e54fdd",
    657413: "fc1873a13f3545aeade8401532ef5519920652eee6b0d2b19ca12643b87b3587",
}


@pytest.mark.parametrize("number", SIGNATURES)
def test_a_published_round_holds_and_gives_its_published_value(number: int) -> None:
    assert is_signed_round(round_of(f"drand:{number}"), SIGNATURES[number])
    assert beacon_value(SIGNATURES[number]).hex() == VALUES[number]


@pytest.mark.parametrize(
    "signature",
    [
        "",
        SIGNATURES[657413],
        SIGNATURES[1000].upper(),
        SIGNATURES[1000][:-2],
        "c0" + "00" * 47,  # the point at infinity
        "8f" * 48,  # no point
        "é" * 96,
    ],
)
def test_no_other_signature_is_of_the_round(signature: str) -> None:
    assert not is_signed_round(Beacon(QUICKNET.hash, 1000), signature)


def test_another_chain_is_refused() -> None:
    with pytest.raises(RegistryError, match="not of quicknet"):
        is_signed_round(Beacon("ab" * 32, 1000), SIGNATURES[1000])


@pytest.mark.parametrize("text", ["drand", "drand:0", "drand:-1", "drand:x", "nist:5", "drand:١"])
def test_what_names_no_round_is_refused(text: str) -> None:
    with pytest.raises(RegistryError, match="write drand:34567890"):
        round_of(text)


def test_a_round_has_its_time() -> None:
    assert round_time(round_of("drand:1")).isoformat() == "2023-08-23T15:09:27+00:00"
    assert round_time(round_of("drand:1000")).isoformat() == "2023-08-23T15:59:24+00:00"


def test_a_round_must_be_ahead_and_the_message_names_one_that_is() -> None:
    beacon = round_of("drand:1000")
    check_ahead(beacon, "2023-08-23T15:59:23.9Z")
    with pytest.raises(RegistryError, match=r"public since 2023-08-23 15:59:24 UTC") as caught:
        check_ahead(beacon, "2023-08-23T15:59:24Z")
    suggested = str(caught.value).split("such as ")[1].split(" ")[0]
    check_ahead(round_of(suggested), "2023-08-23T15:59:24Z")
    assert round_time(round_of(suggested)).isoformat() == "2023-08-23T16:04:24+00:00"


REPLIES = {
    "good": json.dumps({"round": 1000, "signature": SIGNATURES[1000], "more": 1}),
    "other": json.dumps({"round": 1000, "signature": SIGNATURES[657413]}),
    "moved": json.dumps({"round": 657413, "signature": SIGNATURES[657413]}),
    "torn": '{"round": 1000, "signa',
    "list": "[]",
    "deep": "[" * 60_000,
    "number": json.dumps({"round": 1000, "signature": 5}),
}


class Relay(BaseHTTPRequestHandler):
    """A relay that replies by the first part of a path."""

    def do_GET(self) -> None:
        _, kind, chain, public, number = self.path.split("/")
        assert (chain, public, number) == (QUICKNET.hash, "public", "1000")
        self.send_response(200 if kind in REPLIES else 500)
        self.end_headers()
        self.wfile.write(REPLIES.get(kind, "").encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def relay() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Relay)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_the_first_relay_with_the_rounds_signature_is_believed(relay: str) -> None:
    bad = [f"{relay}/{kind}" for kind in (*REPLIES, "broken") if kind != "good"]
    signature = read_signature(
        Beacon(QUICKNET.hash, 1000), [*bad, "http://127.0.0.1:9", f"{relay}/good/"]
    )
    assert signature == SIGNATURES[1000]


def test_without_a_relay_that_gives_it_the_error_names_each_reason(relay: str) -> None:
    relays = [*(f"{relay}/{kind}" for kind in (*REPLIES, "broken") if kind != "good")]
    with pytest.raises(RegistryError, match="name another by --relay") as caught:
        read_signature(Beacon(QUICKNET.hash, 1000), [*relays, "http://127.0.0.1:9", "/no/file"])
    assert all(relay in str(caught.value) for relay in relays)
    assert "its signature is not of round 1000" in str(caught.value)
    assert "refused" in str(caught.value)
    assert "/no/file" in str(caught.value)


def test_a_file_holds_a_relays_reply(tmp_path: Path) -> None:
    path = tmp_path / "round.json"
    path.write_text(REPLIES["good"])
    assert read_signature(Beacon(QUICKNET.hash, 1000), [str(path)]) == SIGNATURES[1000]
    path.write_text(REPLIES["other"])
    with pytest.raises(BrokenPromise, match="its signature is not of round 1000"):
        read_signature(Beacon(QUICKNET.hash, 1000), [str(path)])
