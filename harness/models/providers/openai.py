"""Any server that speaks OpenAI's protocols, by its base URL: Chat Completions, or Responses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from harness.model import ModelRequest
from harness.models.providers.base import Connection, ProviderModel
from harness.models.providers.transport import keeping_client
from harness.models.settings import AzureSettings, OpenAISettings

if TYPE_CHECKING:
    from pydantic_ai.models.openai import OpenAIResponsesModel

_OWN_HOST = "api.openai.com"


class OpenAIModel(ProviderModel):
    """A model behind an OpenAI-compatible server. By Chat Completions each server has its own field
    for what a model thought, or none: it is sent back where the pin names one. By Responses the
    server keeps nothing, and reasoning goes back in the encrypted form in which it came."""

    libraries = ("openai",)
    extra = "models"
    settings: OpenAISettings | AzureSettings
    system: ClassVar[str] = "openai-compatible"  # name of the endpoint's state in pydantic-ai

    async def _connect(self) -> Connection:
        from openai import AsyncOpenAI
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        client = AsyncOpenAI(
            base_url=self._base_url,
            api_key=self._api_key,
            http_client=keeping_client(self.settings.seconds),
            max_retries=0,
        )
        provider = OpenAICompatibleProvider(self.system, openai_client=client)
        if self.protocol == "responses":
            return Connection(self._responses(provider), client.close)
        return Connection(OpenAIChatModel(self._version, provider=provider), client.close)

    def _responses(self, provider: Any) -> OpenAIResponsesModel:
        """A model that reasons, as its name says or because an effort is set, is asked for its
        reasoning in encrypted form; others refuse that."""
        from pydantic_ai.models.openai import OpenAIResponsesModel
        from pydantic_ai.profiles.openai import OpenAIModelProfile

        known = OpenAIModelProfile(openai_supports_encrypted_reasoning_content=True)
        profile = None if self.settings.reasoning_effort is None else known
        return OpenAIResponsesModel(self._version, provider=provider, profile=profile)

    def _settings(self, request: ModelRequest) -> dict[str, Any]:
        settings = super()._settings(request)
        settings |= {"max_retries": 0, "timeout": self.settings.seconds}
        body = dict(self.settings.extra_body)
        # pydantic-ai drops these for models that it knows to refuse them: what is set is sent.
        body |= {key: settings.pop(key) for key in ("temperature", "top_p") if key in settings}
        # Under the protocol's own name: a compatible server's model has no profile to map it by.
        effort = settings.pop("thinking", None)
        if self.protocol == "responses":
            settings["openai_store"] = False
            if effort:
                settings["openai_reasoning_effort"] = effort
        elif effort:
            body["reasoning_effort"] = effort
        if body:
            settings["extra_body"] = body
        if request.conversation and self._sends_cache_key:
            settings["openai_prompt_cache_key"] = request.conversation
        return settings

    @property
    def _sends_cache_key(self) -> bool:
        """As set; else True at OpenAI's own address and at Azure, since some other servers refuse
        the key."""
        if isinstance(self.settings, AzureSettings):
            return True
        stated = self.settings.send_cache_key
        return urlsplit(self._base_url).hostname == _OWN_HOST if stated is None else stated

    def _fingerprint(self, body: bytes) -> str:
        try:
            found = json.loads(body).get("system_fingerprint")
        except (ValueError, AttributeError):
            return ""
        return found if isinstance(found, str) else ""


class AzureModel(OpenAIModel):
    """A deployment of Azure OpenAI, by its v1 interface. The key is the resource's, or a token of
    Microsoft Entra."""

    system = "azure"
