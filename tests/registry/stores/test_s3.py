"""What the S3 store adds: its URI, its errors, and puts whose answer was lost."""

from __future__ import annotations

import http.server
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, ClassVar, cast
from urllib.parse import urlsplit

import botocore.exceptions as failures
import pytest

from registry.errors import StoreError
from registry.stores.s3 import S3Store
from tests.cases import cases

pytestmark = pytest.mark.s3


def test_s3_uris_hold_no_secret_and_are_checked() -> None:
    uri = "s3://bucket/a/b?endpoint=http://127.0.0.1:9000&region=eu-west-1"
    assert S3Store.from_uri(uri).uri == uri
    assert S3Store.from_uri("s3://bucket").uri == "s3://bucket"
    for bad in cases(__file__, "bad_addresses"):
        with pytest.raises(StoreError) as caught:
            S3Store.from_uri(bad)
        assert "secret@" not in str(caught.value)


def _operations(store: S3Store) -> list[Any]:
    return [
        lambda: store.put("a", b""),
        lambda: store.get("a"),
        lambda: store.exists("a"),
        lambda: list(store.list()),
    ]


def _expect(store: S3Store, match: str) -> None:
    for operation in _operations(store):
        with pytest.raises(StoreError, match=match) as caught:
            operation()
        assert store.bucket in str(caught.value)
        assert type(caught.value) is StoreError


def test_a_missing_bucket_is_named(moto: Any) -> None:
    """SeaweedFS makes a bucket that an administrator puts into; others refuse."""
    store = S3Store("not-there", "p", moto.endpoint, "us-east-1")
    _expect(store, "s3://not-there/p.*no such bucket: create it")


def test_a_wrong_secret_is_told_from_an_unknown_key(
    seaweedfs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret")
    for operation in _operations(S3Store.from_uri(seaweedfs.uri("p")))[:2]:
        with pytest.raises(StoreError, match="AWS_SECRET_ACCESS_KEY") as caught:
            operation()
        assert "wrong-secret" not in str(caught.value)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "stranger")
    with pytest.raises(StoreError, match="AWS_ACCESS_KEY_ID"):
        S3Store.from_uri(seaweedfs.uri("p")).get("a")


def test_no_credentials_is_said(seaweedfs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    _expect(S3Store.from_uri(seaweedfs.uri("p")), "no credentials: set AWS_ACCESS_KEY_ID")


def test_a_server_that_is_not_there_is_named(s3_credentials: None) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{held.getsockname()[1]}"
        store = S3Store("bucket", "p", endpoint, "us-east-1")
        with pytest.raises(StoreError, match=f"{endpoint} cannot be reached"):
            store.put("a", b"")


HERE = {"endpoint_url": "http://h:1", "error": "x"}


@pytest.mark.parametrize(
    ("error", "match"),
    [
        (failures.ResponseStreamingError(error="x"), "http://h:1 cuts its answers short"),
        (failures.IncompleteReadError(actual_bytes=1, expected_bytes=2), "cuts its answers short"),
        (failures.SSLError(**HERE), "no TLS connection to http://h:1: correct endpoint, or name"),
        (failures.EndpointConnectionError(**HERE), "http://h:1 cannot be reached"),
        (
            failures.ClientError({"Error": {"Code": "RequestTimeTooSkewed"}}, "GetObject"),
            "this machine's clock is more than 15 minutes off: set it",
        ),
    ],
)
def test_an_errors_cause_is_named_with_the_remedy(error: Exception, match: str) -> None:
    store = S3Store("bucket", "p", "http://h:1", "us-east-1")

    def get_object(**_: str) -> None:
        raise error

    store._made = cast("Any", SimpleNamespace(get_object=get_object))
    with pytest.raises(StoreError, match=match):
        store.get("a")


class Troublesome(http.server.BaseHTTPRequestHandler):
    """Passes requests on to a real server, and spoils the answers to the first puts."""

    upstream: ClassVar[str] = ""
    troubles: ClassVar[list[str]] = []
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        trouble = self.troubles.pop(0) if self.troubles else ""
        if trouble == "conflict":
            self._answer(409, b"<Error><Code>ConditionalRequestConflict</Code></Error>")
            return
        status, answer = self._pass_on(body)
        if trouble == "lost":
            status, answer = 500, b"<Error><Code>InternalError</Code></Error>"
        self._answer(status, answer)

    def do_HEAD(self) -> None:
        request = self._request(None)
        with urllib.request.urlopen(request) as answer:
            self.send_response(200)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()

    def _request(self, body: bytes | None) -> urllib.request.Request:
        headers = dict(self.headers.items())
        return urllib.request.Request(
            self.upstream + self.path, data=body, headers=headers, method=self.command
        )

    def _pass_on(self, body: bytes) -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(self._request(body)) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture
def troubled(moto: Any) -> Iterator[S3Store]:
    Troublesome.upstream = moto.endpoint
    Troublesome.troubles = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Troublesome)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    yield S3Store(moto.bucket, "troubled", endpoint, "us-east-1")
    server.shutdown()
    thread.join()


def test_a_put_whose_answer_was_lost_knows_its_own_object(troubled: S3Store) -> None:
    """The first try arrives, its answer does not; the retry meets 412, and must not lose."""
    Troublesome.troubles = ["lost"]
    assert troubled.put("mine", b"same")
    assert not troubled.put("mine", b"same")


def test_a_retry_that_meets_another_writers_object_loses(troubled: S3Store, moto: Any) -> None:
    assert S3Store(moto.bucket, "troubled", moto.endpoint, "us-east-1").put("theirs", b"same")
    Troublesome.troubles = ["lost"]
    assert not troubled.put("theirs", b"same")


def test_conflicts_are_met_with_patience(troubled: S3Store) -> None:
    Troublesome.troubles = ["conflict", "conflict"]
    assert troubled.put("busy", b"1")
    assert urlsplit(troubled.uri).scheme == "s3"
