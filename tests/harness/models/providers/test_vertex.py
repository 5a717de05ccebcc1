"""Models on Google Cloud's Vertex AI, over real HTTP: their addresses and credentials; the messages
are those of their makers' own interfaces."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from generators.seed import Seed
from harness.build_model import build_model
from harness.errors import HarnessError
from harness.model import Message, ModelRequest, Role
from registry.ledger import ModelPin
from tests.harness.dialects import ANTHROPIC, GOOGLE, Dialect

REQUEST = ModelRequest(
    (Message(Role.SYSTEM, "Rules."), Message(Role.USER, "Find x.")), (), Seed(bytes(32))
)
PLACE = "/projects/my-project/locations/europe-west1/publishers"
VERTEX = replace(
    GOOGLE,
    name="vertex",
    path=rf"/v1beta1{PLACE}/google/models/asked-model:generateContent",
    key_header="Authorization",
)
VERTEX_ANTHROPIC = replace(
    ANTHROPIC,
    name="vertex_anthropic",
    path=rf"/v1{PLACE}/anthropic/models/asked-model:rawPredict",
    check=lambda request: [] if "model" not in request else ["the model stands in the address"],
)


def pin(provider: str, url: str, **settings: object) -> ModelPin:
    url = f"{url}/v1" if provider == "vertex_anthropic" else url
    given = {"base_url": url, "region": "europe-west1", "project": "my-project", **settings}
    texts = tuple((name, json.dumps(value)) for name, value in given.items())
    return ModelPin("m", provider, "asked-model", texts)


@pytest.mark.parametrize("dialect", [VERTEX, VERTEX_ANTHROPIC], ids=lambda each: each.name)
def test_a_named_variable_holds_an_access_token(dialect: Dialect) -> None:
    with dialect.serve(dialect.speak("It is 1.", [], "")) as served:
        environment = {"CLOUD_TOKEN": "ya29.token"}
        model = build_model(
            pin(dialect.name, served.url, api_key_env="CLOUD_TOKEN", extra_body={"labels": {}}),
            environment,
        )
        reply = model.respond(REQUEST)
        model.close()
    assert served.faults == []
    assert served.keys == ["Bearer ya29.token"]
    assert (reply.message.text, reply.served_version) == ("It is 1.", dialect.served)
    assert served.requests[0]["labels"] == {}


class _Tokens(BaseHTTPRequestHandler):
    """Exchanges the signed assertion of a service account for a token (RFC 7523)."""

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        granted = form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
        token = {"access_token": "ya29.fresh", "expires_in": 3600, "token_type": "Bearer"}
        data = json.dumps(token if granted and form["assertion"] else {}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def token_server() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Tokens)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("dialect", [VERTEX, VERTEX_ANTHROPIC], ids=lambda each: each.name)
def test_without_one_google_s_library_finds_credentials(
    dialect: Dialect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with token_server() as token_url, dialect.serve(dialect.speak("x", [], "")) as served:
        account = {
            "type": "service_account", "client_email": "a@my-project.iam.gserviceaccount.com",
            "private_key": key.decode(), "token_uri": token_url, "project_id": "my-project",
        }  # fmt: skip
        path = tmp_path / "account.json"
        path.write_text(json.dumps(account))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
        model = build_model(pin(dialect.name, served.url), {})
        assert model.respond(REQUEST).message.text == "x"
        model.close()
    assert served.keys == ["Bearer ya29.fresh"]


@pytest.mark.parametrize("name", ["region", "project"])
def test_a_model_without_its_place_is_refused(name: str) -> None:
    with pytest.raises(HarnessError, match=f"setting '{name}': \"\": String should match"):
        build_model(pin("vertex", "http://127.0.0.1:1", **{name: ""}), {})
