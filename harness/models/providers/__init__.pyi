from .base import Connection, ProviderModel, Sampling
from .openai import OpenAIModel, post_json
from .retry import RETRIED, ProviderError, pause

__all__ = [
    "RETRIED",
    "Connection",
    "OpenAIModel",
    "ProviderError",
    "ProviderModel",
    "Sampling",
    "pause",
    "post_json",
]
