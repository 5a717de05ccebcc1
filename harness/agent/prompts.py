"""What the agent loop says to a model: the rules, the last question, and the one reminder."""

from __future__ import annotations

from typing import Any

from generators.task import Brief
from harness.agent.limits import Ceiling
from harness.episode import StopReason
from harness.model import AS_ASKED, Message, Role
from registry.files import read_beside

Libraries = tuple[tuple[str, str], ...]  # name, version
UNLIMITED: Ceiling = Ceiling()

_TEXTS: dict[str, Any] = read_beside(__file__, "prompts.yaml")
BLOCK_RULES: str = _TEXTS["block"]
SYSTEM = f"{_TEXTS['rules']}\n{BLOCK_RULES}"
SYSTEM_AS_ASKED = f"{_TEXTS['rules']}\n{_TEXTS['as_asked'].replace('{as_asked}', AS_ASKED)}"
# All of them, to be pinned.
TEXTS = (
    *(
        SYSTEM,
        SYSTEM_AS_ASKED,
        _TEXTS["image"],
        _TEXTS["tokens"],
        _TEXTS["closed"],
        *_TEXTS["budgets"].values(),
    ),
    *(*_TEXTS["endings"].values(), *_TEXTS["faults"].values(), _TEXTS["reminder"]),
)


def opening_messages(
    brief: Brief, libraries: Libraries = (), ceiling: Ceiling = UNLIMITED
) -> tuple[Message, ...]:
    """The first messages: the rules, then the task's prompt. ``libraries`` are those of the
    sandbox, Python among them."""
    limits = brief.limits
    rules = SYSTEM if brief.answer_schema else SYSTEM_AS_ASKED
    system = rules.format(
        libraries=_spell_libraries(libraries) if brief.environment is None else _TEXTS["image"],
        tokens="" if ceiling.tokens is None else _TEXTS["tokens"].format(ceiling.tokens),
        turns=limits.turns,
        minutes=limits.working_seconds / 60,
        seconds=limits.tool_seconds,
        schema=brief.answer_schema,
    )
    return Message(Role.SYSTEM, system), Message(Role.USER, brief.prompt)


def last_question(limit: StopReason, brief: Brief) -> str:
    """The question for an answer once a limit has closed the tools."""
    closed: str = _TEXTS["closed"].format(budget=_TEXTS["budgets"][limit])
    return closed + _ending(brief)


def reminder(brief: Brief, cut_off: bool, turns_left: int) -> str:
    """The message to a model after one of its own with neither a call nor an answer."""
    fault = _TEXTS["faults"]["cut_off" if cut_off else "no_answer"]
    text = _TEXTS["reminder"].format(fault, _ending(brief))
    return f"{text}\n\n{spell_turns_left(turns_left)}"


def spell_turns_left(count: int) -> str:
    """The number of turns left, as each turn's note to the model has it."""
    return f"[{count} turn{'' if count == 1 else 's'} left]"


def _ending(brief: Brief) -> str:
    return str(_TEXTS["endings"]["block" if brief.answer_schema else "as_asked"])


def _spell_libraries(libraries: Libraries) -> str:
    versions = dict(libraries)
    python = f"Python {versions.pop('Python', '3')}"
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{python} and these libraries: {named}" if named else python
