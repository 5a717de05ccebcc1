from .base import Connection, ProviderModel, Sampling
from .messages import cut_native
from .openai import CHAT, PROTOCOLS, OpenAIModel, post_json
from .retry import RETRIED, ProviderError, pause
from .transport import Received

__all__ = [
    "CHAT",
    "PROTOCOLS",
    "RETRIED",
    "Connection",
    "OpenAIModel",
    "ProviderError",
    "ProviderModel",
    "Received",
    "Sampling",
    "cut_native",
    "pause",
    "post_json",
]
