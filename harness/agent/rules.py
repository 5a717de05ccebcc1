"""The digest of what the agent loop sets for every model, which pins a run's prompts and tools."""

from __future__ import annotations

from harness.agent import caps, conversation, images, prompts, tools
from registry.canonical import digest_value

_CAPS = {
    "calls": caps.MAX_CALLS,
    "text": caps.MAX_TEXT_CHARS,
    "arguments": tools.MAX_ARGUMENT_CHARS,
    "command": tools.MAX_COMMAND_CHARS,
    "pictures": conversation.MAX_PICTURES,
    "picture_bytes": conversation.MAX_PICTURE_BYTES,
    "picture_side": images.SHOWN_SIDE,
}


def rules_digest() -> str:
    """Return ``sha256:`` and the digest of the loop's texts, its tools and its caps."""
    specs = [[each.name, each.description, dict(each.parameters)] for each in tools.TOOLS]
    markers = [conversation.NO_PICTURE, conversation.NO_RESULT]
    return digest_value(
        {"texts": [*prompts.TEXTS, *markers], "tools": specs, "caps": _CAPS, "reminders": 1}
    )
