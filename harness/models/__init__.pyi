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
from .token_logprobs import SHARE, Membership, mean_of_least, membership_scores, read_likelihood

__all__ = [
    "SHARE",
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
    "mean_of_least",
    "membership_scores",
    "read_likelihood",
    "weights_path",
]
