from .base import Connection, Sampling, ServedModel
from .openai import OpenAIModel
from .openai_logprobs import post_json
from .retry import RETRIED, ProviderError, pause

__all__ = [
    "RETRIED",
    "Connection",
    "OpenAIModel",
    "ProviderError",
    "Sampling",
    "ServedModel",
    "pause",
    "post_json",
]
