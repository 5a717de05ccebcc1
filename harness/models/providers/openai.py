"""Any server that speaks the OpenAI chat protocol, by its base URL."""

from __future__ import annotations

from typing import Any

from generators.seed import Seed
from harness.model import Reply, TextRequest
from harness.models.providers.base import Connection, ProviderModel, Sampling, keeping_client
from harness.models.providers.openai_logprobs import post_json, reply_from_completion, request_body

BASE_URL = "https://api.openai.com/v1"


class OpenAIModel(ProviderModel):
    """A model behind an OpenAI-compatible server. Each server has its own field for what a model
    thought, or none: it is sent back where the pin names one."""

    native_replay = False

    async def _connect(self) -> Connection:
        from openai import AsyncOpenAI
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        client = AsyncOpenAI(
            base_url=self._base_url,
            api_key=self._api_key,
            http_client=keeping_client(self._sampling.seconds),
            max_retries=0,
        )
        provider = OpenAICompatibleProvider("openai-compatible", openai_client=client)
        return Connection(OpenAIChatModel(self._version, provider=provider), client.close)

    def _settings(self, seed: Seed) -> dict[str, Any]:
        settings = super()._settings(seed)
        settings |= {"max_retries": 0, "timeout": self._sampling.seconds}
        # Under the protocol's own name: a compatible server's model has no profile to map it by.
        if effort := settings.pop("thinking", None):
            settings["extra_body"] = {"reasoning_effort": effort}
        if self._sampling.send_seed:
            settings["seed"] = seed.child("server").rng().integer(0, 2**31 - 1)
        return settings

    def text_logprobs(self, request: TextRequest) -> Reply:
        """Return the log-probabilities of a text as far as the server reports them; raises as
        ``respond``."""
        return self._with_retries(
            lambda: self._run(lambda line: self._text_logprobs(line.connection.chat, request)),
            request.seed,
            request.keep,
        )

    async def _text_logprobs(self, chat: Any, request: TextRequest) -> Reply:
        with self._receiving() as received:
            body = request_body(request, self._version)
            answer = await post_json(chat.client, "/completions", body)
            return reply_from_completion(answer, self._raw(received), self._version)


__all__ = ["BASE_URL", "OpenAIModel", "Sampling"]
