"""Anthropic's models, by the Messages API. Thinking blocks go back with their signatures."""

from __future__ import annotations

from typing import Any

from generators.seed import Seed
from harness.models.providers.base import Connection, ProviderModel, keeping_client


class AnthropicModel(ProviderModel):
    libraries = ("anthropic",)
    usual_address = "https://api.anthropic.com"
    key_variable = "ANTHROPIC_API_KEY"

    async def _connect(self) -> Connection:
        from anthropic import AsyncAnthropic
        from pydantic_ai.models.anthropic import AnthropicModel as Chat
        from pydantic_ai.providers.anthropic import AnthropicProvider

        client = AsyncAnthropic(
            base_url=self._base_url,
            api_key=self._api_key,
            http_client=keeping_client(self._sampling.seconds),
            max_retries=0,
        )
        provider = AnthropicProvider(anthropic_client=client)
        return Connection(Chat(self._version, provider=provider), client.close)

    def _settings(self, seed: Seed) -> dict[str, Any]:
        return {**super()._settings(seed), "max_retries": 0, "timeout": self._sampling.seconds}
