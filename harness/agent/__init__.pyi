from .caps import MAX_CALLS, cap_reply
from .limits import Ceiling, read_ceiling
from .loop import ANSWER_FILE, WALL_LIMIT, AgentRun, buy_reply, run_agent
from .prompts import UNLIMITED, opening_messages
from .rules import rules_digest
from .single_turn import (
    REPLY_TOKENS,
    ContextWindow,
    estimate_text,
    fit_context,
    run_single_turn,
    single_turn,
    turn_request,
)
from .tools import MAX_ARGUMENT_CHARS, TOOLS, use_tool

__all__ = [
    "ANSWER_FILE",
    "MAX_ARGUMENT_CHARS",
    "MAX_CALLS",
    "REPLY_TOKENS",
    "TOOLS",
    "UNLIMITED",
    "WALL_LIMIT",
    "AgentRun",
    "Ceiling",
    "ContextWindow",
    "buy_reply",
    "cap_reply",
    "estimate_text",
    "fit_context",
    "opening_messages",
    "read_ceiling",
    "rules_digest",
    "run_agent",
    "run_single_turn",
    "single_turn",
    "turn_request",
    "use_tool",
]
