"""Going on from where a conversation was: its tool calls are carried out again, so that the work
folder is as it was; what the model saw stays what it saw."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from harness.model import ToolUse

# How long a program took, as a tool tells it at its end; no two runs share it.
_TOOK = re.compile(r"^(\[exit code \d+, )\d+\.\d\d s", re.MULTILINE)


def recall(again: Sequence[ToolUse], heard: Sequence[ToolUse]) -> tuple[ToolUse, ...]:
    """The uses as they were when the model was told of them; where carrying a call out again
    brought something else, that is noted as ``diverged``."""
    return tuple(_compared(*each) for each in zip(heard, again, strict=True))


def _compared(heard: ToolUse, again: ToolUse) -> ToolUse:
    same = _untimed(heard.result.text) == _untimed(again.result.text)
    if same and heard.result.images == again.result.images:
        return heard
    return replace(heard, diverged=again.result.text)


def _untimed(text: str) -> str:
    return _TOOK.sub(r"\1", text)
