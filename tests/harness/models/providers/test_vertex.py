"""Models on Google Cloud's Vertex AI, over real HTTP: their addresses and credentials; the messages
are those of their makers' own interfaces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from generators.seed import Seed
from harness.build_model import build_model
from harness.errors import HarnessError
from harness.model import Message, ModelRequest, Role
from tests.conformance.agents import play
from tests.conformance.clients import BY_NAME
from tests.conformance.conversation import Said
from tests.conformance.server import KEY, serving
from tests.harness.chat_server import running

REQUEST = ModelRequest(
    (Message(Role.SYSTEM, "Rules."), Message(Role.USER, "Find x.")), (), Seed(bytes(32))
)


class _Tokens(BaseHTTPRequestHandler):
    """Exchanges the signed assertion of a service account for a token (RFC 7523)."""

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        granted = form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
        token = {"access_token": KEY, "expires_in": 3600, "token_type": "Bearer"}
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
    with running(ThreadingHTTPServer(("127.0.0.1", 0), _Tokens)) as url:
        yield f"{url}/token"


@pytest.mark.parametrize("name", ["vertex_messages", "vertex_gemini"])
def test_without_one_google_s_library_finds_credentials(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with token_server() as token_url, serving(play(Said("x"))) as server:
        account = {
            "type": "service_account", "client_email": "a@my-project.iam.gserviceaccount.com",
            "private_key": key.decode(), "token_uri": token_url, "project_id": "my-project",
        }  # fmt: skip
        path = tmp_path / "account.json"
        path.write_text(json.dumps(account))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
        client = BY_NAME[name]
        place = {n: client.settings[n] for n in ("region", "project")}
        model = build_model(replace(client, settings=place).pin(server.url), {})
        assert model.respond(REQUEST).message.text == "x"
        model.close()
    assert (server.keys, server.refused) == ([KEY], [])


@pytest.mark.parametrize("name", ["region", "project"])
def test_a_model_without_its_place_is_refused(name: str) -> None:
    with pytest.raises(HarnessError, match=f"setting '{name}': \"\": .* pattern"):
        build_model(
            BY_NAME["vertex_gemini"].pin("http://127.0.0.1:1", **{name: ""}), {"CLOUD_TOKEN": KEY}
        )
