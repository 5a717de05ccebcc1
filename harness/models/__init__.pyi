from .membership import SHARE, Membership, membership_scores
from .text_tool_calls import TextCalls, as_text
from .token_logprobs import read_likelihood

__all__ = ["SHARE", "Membership", "TextCalls", "as_text", "membership_scores", "read_likelihood"]
