from .membership import SHARE, Membership, weigh_tokens
from .text_tool_calls import TextCalls, as_text
from .token_logprobs import read_likelihood

__all__ = ["SHARE", "Membership", "TextCalls", "as_text", "read_likelihood", "weigh_tokens"]
