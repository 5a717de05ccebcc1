from .base import Connection, ProviderModel, Sampling
from .batch import EXPIRED, BatchAnswer, BatchService, Outgoing, batch_service
from .messages import cut_native
from .openai import CHAT, PROTOCOLS, OpenAIModel, post_json
from .retry import RETRIED, ProviderError, pause
from .transport import Received

__all__ = [
    "CHAT",
    "EXPIRED",
    "PROTOCOLS",
    "RETRIED",
    "BatchAnswer",
    "BatchService",
    "Connection",
    "OpenAIModel",
    "Outgoing",
    "ProviderError",
    "ProviderModel",
    "Received",
    "Sampling",
    "batch_service",
    "cut_native",
    "pause",
    "post_json",
]
