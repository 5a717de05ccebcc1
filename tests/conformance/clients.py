"""The models of each provider at the conformance server, built from pins as a study does it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from harness.build_model import build_model
from harness.models.providers.base import ProviderModel
from registry.ledger.records import ModelPin
from tests.conformance.server import KEY, USER, Server

# Of a machine that has other keys too: they may not be used.
ENVIRONMENT = {
    "OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY, "GEMINI_API_KEY": KEY,
    "AZURE_OPENAI_API_KEY": KEY, "CLOUD_TOKEN": KEY,
    "AWS_DEFAULT_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": USER,
    "AWS_SECRET_ACCESS_KEY": "secret", "ANTHROPIC_AUTH_TOKEN": "from-the-environment",
}  # fmt: skip


@dataclass(frozen=True)
class Client:
    """A provider of ours, the wire format that it speaks, and a model of it."""

    name: str
    provider: str
    format: str  # of the server
    version: str
    root: str = ""  # of the address
    settings: dict[str, Any] = field(default_factory=dict)
    thinking: dict[str, Any] = field(default_factory=dict)  # settings that make it think
    signs: bool = True  # reasoning goes back as it came

    def pin(self, url: str, **settings: Any) -> ModelPin:
        """The model's pin, with its address and further settings."""
        every = {"base_url": url + self.root, **self.settings, **settings}
        texts = tuple((name, json.dumps(value)) for name, value in sorted(every.items()))
        return ModelPin(self.name, self.provider, self.version, texts)

    @contextmanager
    def model(
        self, server: Server, sleep: Callable[[float], None] | None = None, **settings: Any
    ) -> Iterator[ProviderModel]:
        """The model at a running server. ``sleep`` stands in for pauses between tries."""
        model = build_model(self.pin(server.url, **settings), ENVIRONMENT)
        assert isinstance(model, ProviderModel)
        model._sleep = sleep or (lambda seconds: None)
        try:
            yield model
        finally:
            model.close()


_THINKS = {"reasoning_effort": "low", "max_tokens": 8000}
_CLOUD = {"region": "us-east5", "project": "p", "api_key_env": "CLOUD_TOKEN"}
CLIENTS = (
    Client("chat", "openai", "chat", "gpt-4.1-mini", "/v1", {"send_cache_key": True}, signs=False),
    Client("azure_chat", "azure", "chat", "gpt-4.1", "/openai/v1", signs=False),
    Client(
        "responses", "openai", "responses", "gpt-5-mini", "/v1",
        {"protocol": "responses", "send_cache_key": True, "reasoning_effort": "low"},
    ),
    Client(
        "azure_responses", "azure", "responses", "gpt-5", "/openai/v1",
        {"protocol": "responses", "reasoning_effort": "low"},
    ),
    Client("messages", "anthropic", "messages", "claude-opus-4-8", thinking=_THINKS),
    Client(
        "vertex_messages", "vertex_anthropic", "messages", "claude-opus-4-7", "/v1", _CLOUD, _THINKS
    ),
    Client("gemini", "google", "gemini", "gemini-3-pro-preview",
           thinking={"reasoning_effort": "low"}),
    Client("vertex_gemini", "vertex", "gemini", "gemini-2.5-flash", "", _CLOUD,
           {"reasoning_effort": "low"}),
    Client("converse", "bedrock", "converse", "anthropic.claude-opus-4-8", thinking=_THINKS),
)  # fmt: skip
BY_NAME = {client.name: client for client in CLIENTS}
