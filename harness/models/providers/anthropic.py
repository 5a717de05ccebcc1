"""Anthropic's models, by the Messages API: at Anthropic, and on Google Cloud's Vertex AI.

Thinking blocks go back with their signatures. A conversation is cached up to two points: the end of
tools and rules, and its last message, which stays marked in the next request.
"""

from __future__ import annotations

from typing import Any, ClassVar

from harness.model import ModelRequest
from harness.models.providers.base import Connection, ProviderModel
from harness.models.providers.google_cloud import cloud_credentials
from harness.models.providers.transport import keeping_client
from harness.models.settings import AnthropicSettings, VertexAnthropicSettings


class AnthropicModel(ProviderModel):
    """A model at Anthropic, or at a server of the same protocol."""

    libraries: ClassVar[tuple[str, ...]] = ("anthropic",)
    protocol = "messages"
    settings: AnthropicSettings | VertexAnthropicSettings

    async def _connect(self) -> Connection:
        from anthropic import AsyncAnthropic

        client = AsyncAnthropic(
            base_url=self._base_url,
            api_key=self._api_key,
            http_client=keeping_client(self.settings.seconds),
            max_retries=0,
        )
        return self._connection(client)

    def _connection(self, client: Any) -> Connection:
        from pydantic_ai.models.anthropic import AnthropicModel as Chat
        from pydantic_ai.profiles.anthropic import AnthropicModelProfile
        from pydantic_ai.providers.anthropic import AnthropicProvider

        # A temperature that is set is sent, also to a model that is known to refuse it.
        profile = AnthropicModelProfile(anthropic_disallows_sampling_settings=False)
        provider = AnthropicProvider(anthropic_client=client)
        return Connection(Chat(self._version, provider=provider, profile=profile), client.close)

    def _settings(self, request: ModelRequest) -> dict[str, Any]:
        settings = super()._settings(request)
        settings |= {"max_retries": 0, "timeout": self.settings.seconds}
        if budget := self.settings.reasoning_budget:
            settings["anthropic_thinking"] = {"type": "enabled", "budget_tokens": budget}
        if self.settings.extra_body:
            settings["extra_body"] = dict(self.settings.extra_body)
        if request.conversation:
            settings |= {"anthropic_cache_instructions": True, "anthropic_cache_messages": True}
        return settings

    def _marked(self, messages: list[Any], request: ModelRequest) -> list[Any]:
        """The messages, with the end of the previous request marked again: from a mark the cache
        looks back over 20 blocks, and a turn with many calls has more."""
        from pydantic_ai.messages import CachePoint, UserPromptPart
        from pydantic_ai.messages import ModelRequest as Incoming

        ends = [index for index, each in enumerate(messages) if isinstance(each, Incoming)]
        if not request.conversation or len(ends) < 2:
            return messages
        mark = UserPromptPart([CachePoint()])
        previous = ends[-2]
        marked = Incoming(parts=[*messages[previous].parts, mark])
        return [*messages[:previous], marked, *messages[previous + 1 :]]


class VertexAnthropicModel(AnthropicModel):
    """A model of Anthropic's on Vertex AI, in a ``region`` of a ``project``."""

    libraries = ("anthropic", "google.auth")
    extra = "anthropic,google"
    settings: VertexAnthropicSettings

    async def _connect(self) -> Connection:
        from anthropic import AsyncAnthropicVertex

        client = AsyncAnthropicVertex(
            region=self.settings.region,
            project_id=self.settings.project,
            credentials=cloud_credentials(self._api_key),
            base_url=self._base_url or None,
            http_client=keeping_client(self.settings.seconds),
            max_retries=0,
        )
        return self._connection(client)
