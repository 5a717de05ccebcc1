"""Google's models, by generateContent. Thought signatures go back on the parts they came with."""

from __future__ import annotations

from typing import Any

from generators.seed import Seed
from harness.models.providers.base import Connection, ProviderModel, keeping_client


class GoogleModel(ProviderModel):
    libraries = ("google", "google.genai")
    usual_address = "https://generativelanguage.googleapis.com"
    key_variable = "GEMINI_API_KEY"
    own_settings = ("send_seed",)

    async def _connect(self) -> Connection:
        from pydantic_ai.models.google import GoogleModel as Chat
        from pydantic_ai.providers.google import GoogleProvider

        http = keeping_client(self._sampling.seconds)
        provider = GoogleProvider(api_key=self._api_key, http_client=http, base_url=self._base_url)
        return Connection(Chat(self._version, provider=provider), http.aclose)

    def _settings(self, seed: Seed) -> dict[str, Any]:
        settings = super()._settings(seed)
        settings |= {"max_retries": 0, "timeout": self._sampling.seconds}
        if self._sampling.send_seed:
            settings["seed"] = seed.child("server").rng().integer(0, 2**31 - 1)
        return settings
