from .limits import SETTINGS, Ceiling, read_ceiling
from .loop import MAX_CALLS, UNLIMITED, AgentRun, buy_reply, opening_messages, run_agent
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
    "MAX_ARGUMENT_CHARS",
    "MAX_CALLS",
    "REPLY_TOKENS",
    "SETTINGS",
    "TOOLS",
    "UNLIMITED",
    "AgentRun",
    "Ceiling",
    "ContextWindow",
    "buy_reply",
    "estimate_text",
    "fit_context",
    "opening_messages",
    "read_ceiling",
    "run_agent",
    "run_single_turn",
    "single_turn",
    "turn_request",
    "use_tool",
]
