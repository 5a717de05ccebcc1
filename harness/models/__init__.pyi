from .local import WEIGHTS, LocalModel, Weights, find_weights, holds, weights_path
from .scripted import (
    CarelessJudge,
    HonestAgent,
    SpikedAgent,
    TrivialAgent,
    load_criteria,
    load_memory,
)
from .text_tool_calls import TextCalls, as_text
from .token_logprobs import SHARE, Membership, membership_scores, read_likelihood
from .trained import TRAINED_CONTEXT, load_trained

__all__ = [
    "SHARE",
    "TRAINED_CONTEXT",
    "WEIGHTS",
    "CarelessJudge",
    "HonestAgent",
    "LocalModel",
    "Membership",
    "SpikedAgent",
    "TextCalls",
    "TrivialAgent",
    "Weights",
    "as_text",
    "find_weights",
    "holds",
    "load_criteria",
    "load_memory",
    "load_trained",
    "membership_scores",
    "read_likelihood",
    "weights_path",
]
