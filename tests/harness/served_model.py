"""Models of all providers at the address of a scripted server."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from harness.models.providers.anthropic import AnthropicModel, VertexAnthropicModel
from harness.models.providers.base import ProviderModel
from harness.models.providers.bedrock import BedrockModel
from harness.models.providers.google import GoogleModel, VertexModel
from harness.models.providers.openai import AzureModel, OpenAIModel
from harness.models.settings import (
    AnthropicSettings,
    AzureSettings,
    BedrockSettings,
    GoogleSettings,
    OpenAISettings,
    ServedSettings,
    VertexAnthropicSettings,
    VertexSettings,
)

M = TypeVar("M", bound=ProviderModel)
NOWHERE = "http://127.0.0.1:9"
_SETTINGS: Mapping[type[ProviderModel], type[ServedSettings]] = {
    OpenAIModel: OpenAISettings,
    AzureModel: AzureSettings,
    AnthropicModel: AnthropicSettings,
    GoogleModel: GoogleSettings,
    VertexModel: VertexSettings,
    VertexAnthropicModel: VertexAnthropicSettings,
    BedrockModel: BedrockSettings,
}


def served_model(
    cls: type[M],
    url: str = NOWHERE,
    key: str = "key",
    sleep: Callable[[float], None] = time.sleep,
    model: str = "asked-model",
    **settings: Any,
) -> M:
    """The model "m" with these settings."""
    return cls("m", _SETTINGS[cls].make(model=model, base_url=url, **settings), key, sleep)
