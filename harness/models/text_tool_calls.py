"""Tool calls as text, for models that have none of their own.

The prompt explains how to write a call. Calls are read leniently, and from the model's own message
only. The tools' answers go back between marks in a user's message, in which any text that looks
like a call, like one of the marks or like a control token of a chat template has its first bracket
replaced by one that only looks alike: so a file can neither pose as a call nor, quoted by the
model, become one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.model import (
    Message,
    Model,
    ModelRequest,
    ModelWrapper,
    Reply,
    Role,
    ToolCall,
    ToolSpec,
    clean_text,
)
from harness.models.providers.bodies import sendable_name
from registry.files import read_beside

_TEXTS: dict[str, str] = read_beside(__file__, "text_tool_calls.yaml")

MAX_CHARS = 1_000_000  # of a message; no more is looked at
_TAG = re.compile(r"<\s*+(/?)\s*+tool_call\s*+>", re.I)
_FENCE = re.compile(r"```[a-z_]*+[^\S\n]*+\n")
_THOUGHT = re.compile(r"<think>(?:[^<]|<(?!/think>))*+(?:</think>)?+")
# Not allowed in the answer of a tool: our marks, and control tokens of chat templates.
_MARKS = re.compile(
    r"<(?=\s*+(?:/\s*+)?+(?:tool_call|tool_result|think)\b|\|)|\[(?=/?INST\])", re.I
)
_BROKEN = {"<": "‹", "[": "［"}  # alike to read, and read by no parser
_NAMES = ("name", "tool", "tool_name", "function")
_ARGUMENTS = ("arguments", "args", "parameters", "input")


@dataclass(frozen=True, slots=True)
class TextCalls(ModelWrapper):
    """A model that writes its tool calls out in text."""

    model: Model

    def respond(self, request: ModelRequest) -> Reply:
        """Ask the inner model without tools and read the calls in its text, if it may make any."""
        messages = as_text(request.messages, request.tools)
        plain = replace(request, messages=messages, tools=(), tool_choice="auto")
        reply = self.model.respond(plain)
        if not request.may_call:
            return reply
        turn = sum(message.role is Role.ASSISTANT for message in request.messages)
        calls = tuple(
            replace(call, id=f"text-{turn}-{index}")
            for index, call in enumerate(read_calls(reply.message.text, request.tools))
        )
        finish = "tool_call" if calls else reply.finish
        return replace(reply, message=replace(reply.message, calls=calls), finish=finish)


def as_text(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[Message, ...]:
    """The conversation without calls: tools are explained to begin with, answers are quoted."""
    made: list[Message] = []
    calls: dict[str, ToolCall] = {}
    for message in messages:
        if message.role is Role.SYSTEM and tools and not made:
            made.append(replace(message, text=message.text + explain(tools)))
        elif message.role is Role.ASSISTANT:
            calls.update({call.id: call for call in message.calls})
            made.append(replace(message, calls=()))
        elif message.role is Role.TOOL:
            _append_answer(made, message, calls[message.call_id], tools)
        else:
            made.append(message)
    return tuple(made)


def explain(tools: Sequence[ToolSpec]) -> str:
    """Return the part of the prompt that explains calls and lists the tools."""
    lines = (
        f"- {tool.name}({', '.join(_fields(tool))}): {tool.description}\n  {_example(tool)}"
        for tool in tools
    )
    return _TEXTS["how"].format(example=_example(tools[0]), tools="\n".join(lines))


def read_calls(text: str, tools: Sequence[ToolSpec]) -> tuple[ToolCall, ...]:
    """The calls of a model's own message, in the order written, without ids. Arguments are the JSON
    of an object, or what stood there. A block without an end ends with
    the message; without any block, a message that is one JSON object, fenced or bare, counts if
    it names a tool and gives arguments."""
    text = _THOUGHT.sub("", text[:MAX_CHARS])
    names = tuple(tool.name for tool in tools)
    if blocks := tuple(_blocks(text)):
        return tuple(each for block in blocks for each in _read_block(block, names))
    value = _parse(text)
    known = isinstance(value, dict) and _pick(value, _NAMES) in names
    if known and isinstance(_pick(value, _ARGUMENTS), dict):
        return (_read_value(value, names, text),)
    return ()


def quote(text: str) -> str:
    """The text as data: nothing in it reads as a call, a mark or a control token."""
    return _MARKS.sub(lambda mark: _BROKEN[mark[0]], text)


def _append_answer(
    made: list[Message], message: Message, call: ToolCall, tools: Sequence[ToolSpec]
) -> None:
    text = f"<tool_result name={sendable_name(call.name)}>\n{quote(message.text)}\n</tool_result>"
    if problem := problem_of(call, tools):
        text += f"\n{problem}"
    if made and made[-1].role is Role.USER:  # answers of one turn are one message
        last = made[-1]
        made[-1] = replace(
            last, text=f"{last.text}\n\n{text}", images=(*last.images, *message.images)
        )
    else:
        made.append(Message(Role.USER, text, message.images))


def problem_of(call: ToolCall, tools: Sequence[ToolSpec]) -> str:
    """Return the right way to write a call that is wrong; "" for a right one."""
    tool = next((tool for tool in tools if tool.name == call.name), None)
    if tools and tool is None:
        return f"There is no such tool. A call is written like this:\n{_example(tools[0])}"
    if tool is None or _holds(call.arguments, _fields(tool)):
        return ""
    return f"This call was not right. It is written like this:\n{_example(tool)}"


def _holds(arguments: str, names: Sequence[str]) -> bool:
    value = _parse(arguments)
    right = isinstance(value, dict) and set(value) == set(names)
    return right and all(isinstance(text, str) for text in value.values())


def _fields(tool: ToolSpec) -> tuple[str, ...]:
    return tuple(tool.parameters.get("properties", {}))


def _example(tool: ToolSpec) -> str:
    arguments = json.dumps(dict.fromkeys(_fields(tool), "..."))
    return _TEXTS["example"].format(name=tool.name, arguments=arguments)


def _blocks(text: str) -> Iterator[str]:
    start: int | None = None
    for tag in _TAG.finditer(text):
        if start is not None:
            yield text[start : tag.start()]
        start = None if tag[1] else tag.end()
    if start is not None:
        yield text[start:]


def _read_block(block: str, names: Sequence[str]) -> Iterator[ToolCall]:
    value = _parse(block)
    for call in value if isinstance(value, list) and value else [value]:
        yield _read_value(call, names, block)


def _read_value(value: Any, names: Sequence[str], block: str) -> ToolCall:
    if not isinstance(value, dict):
        return ToolCall("", _guess(block, names), block.strip())
    inner = value.get("function")
    if isinstance(inner, dict):
        value = inner
    name, arguments = _pick(value, _NAMES), _pick(value, _ARGUMENTS)
    if isinstance(arguments, str):
        arguments = _parse(arguments)
    if not isinstance(name, str):
        return ToolCall("", "", block.strip())
    if arguments is None:
        arguments = {key: each for key, each in value.items() if key not in _NAMES}
    return ToolCall("", clean_text(name.strip()), json.dumps(arguments))


def _guess(block: str, names: Sequence[str]) -> str:
    """The tool that a block names that cannot be read."""
    positions = [(block.find(f'"{name}"'), name) for name in names if f'"{name}"' in block]
    return min(positions)[1] if positions else ""


def _pick(value: dict[str, Any], keys: Sequence[str]) -> Any:
    return next((value[key] for key in keys if key in value), None)


def _parse(text: str) -> Any:
    """The JSON of a text, or None: in a fence or not, line breaks within strings allowed, and
    what follows the value ignored."""
    text = text[:MAX_CHARS].strip()
    fence = _FENCE.match(text)
    if fence and text.endswith("```"):
        text = text[fence.end() : -3].strip()
    try:
        value, _ = json.JSONDecoder(strict=False).raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return value
