from .base import Connection, ProviderModel
from .batch import EXPIRED, BatchAnswer, BatchService, Outgoing, batch_service
from .messages import cut_native
from .openai import OpenAIModel, post_json
from .retry import RETRIED, ProviderError, kind_of_status, pause
from .transport import Received

__all__ = [
    "EXPIRED",
    "RETRIED",
    "BatchAnswer",
    "BatchService",
    "Connection",
    "OpenAIModel",
    "Outgoing",
    "ProviderError",
    "ProviderModel",
    "Received",
    "batch_service",
    "cut_native",
    "kind_of_status",
    "pause",
    "post_json",
]
