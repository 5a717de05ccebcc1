"""Google's models, by generateContent: by the Gemini API, and on Google Cloud's Vertex AI.

Thought signatures go back on the parts they came with.
"""

from __future__ import annotations

from typing import Any

from harness.model import ModelRequest
from harness.models.providers.base import Connection, ProviderModel
from harness.models.providers.google_cloud import cloud_credentials
from harness.models.providers.transport import keeping_client
from harness.models.settings import GoogleSettings, VertexSettings


class GoogleModel(ProviderModel):
    """A model by the Gemini API."""

    libraries = ("google", "google.genai")
    protocol = "gemini"
    settings: GoogleSettings | VertexSettings

    async def _connect(self) -> Connection:
        return self._connection(api_key=self._api_key, vertexai=False)

    def _connection(self, **access: Any) -> Connection:
        from google.genai import Client
        from google.genai.types import HttpOptions
        from pydantic_ai.models.google import GoogleModel as Chat
        from pydantic_ai.providers.google import GoogleProvider

        http = keeping_client(self.settings.seconds)
        options = HttpOptions(
            base_url=self._base_url or None,
            httpx_async_client=http,
            timeout=int(self.settings.seconds * 1000),
            extra_body=dict(self.settings.extra_body) or None,
        )
        provider = GoogleProvider(client=Client(http_options=options, **access))
        return Connection(Chat(self._version, provider=provider), http.aclose)

    def _settings(self, request: ModelRequest) -> dict[str, Any]:
        settings = super()._settings(request)
        settings |= {"max_retries": 0, "timeout": self.settings.seconds}
        if budget := self.settings.reasoning_budget:
            thinking = {"thinking_budget": budget, "include_thoughts": True}
            settings["google_thinking_config"] = thinking
        return settings


class VertexModel(GoogleModel):
    """A model of Google's on Vertex AI, in a ``region`` of a ``project``."""

    extra = "google"
    settings: VertexSettings

    async def _connect(self) -> Connection:
        place = {"project": self.settings.project, "location": self.settings.region}
        return self._connection(
            vertexai=True, credentials=cloud_credentials(self._api_key), **place
        )
