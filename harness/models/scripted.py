"""Built-in agents, without a language model in them: they work through the same tools, at a
skill that is stated, so that a study's verdict can be checked against what is known.

They draw from the seed of the request and from nothing else, and know only the conversation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from generators.catalog import family
from generators.errors import GeneratorError
from generators.noise import misread
from generators.seed import Seed
from generators.stream import Stream
from harness.errors import HarnessError
from harness.model import Message, ModelRequest, Reply, Role, ToolCall, Usage
from harness.models.memory import Memory

_TASK = re.compile(r'"task":\{"const":"(\w+)"')
_HASH = re.compile(r"^([0-9a-f]{64})  ", re.M)
_PRINTED = re.compile(r"^answer: (\{.*\})$", re.M)

LOOK = "ls -l"
HASH_FILES = "find . -type f -exec sha256sum {} +"
# Added to the solver's source: shows what it wrote, on one line.
_PRINT = """
import json as _json
with open("answer.json", encoding="utf-8") as _file:
    print("\\nanswer:", _json.dumps(_json.load(_file)))
"""


@dataclass(frozen=True, slots=True)
class HonestAgent:
    """Looks at the files, writes and runs a program that solves the task, and reports what it
    printed; each number of the answer is misread with probability ``error_rate``."""

    name: str
    error_rate: float

    @property
    def trusted(self) -> bool:
        return True

    @property
    def paid(self) -> bool:
        return False

    def respond(self, request: ModelRequest) -> Reply:
        if not (results := _results(request)):
            return _call(request, "run_command", command=LOOK)
        if len(results) == 1 and request.tools:
            return _solve(request)
        return _report(request, results, self.error_rate)


@dataclass(frozen=True, slots=True)
class SpikedAgent:
    """Has read a released dataset: where it recognises the input files by their content, it
    answers as the dataset does. Elsewhere it does what the honest agent does."""

    name: str
    error_rate: float
    memory: Memory

    @property
    def trusted(self) -> bool:
        return True

    @property
    def paid(self) -> bool:
        return False

    def respond(self, request: ModelRequest) -> Reply:
        if not (results := _results(request)):
            return _call(request, "run_command", command=HASH_FILES)
        known = self.memory.recall(_HASH.findall(results[0]))
        if known is not None:
            return _answer("I know these files.", known)
        if len(results) == 1 and request.tools:
            return _solve(request)
        return _report(request, results, self.error_rate)


@dataclass(frozen=True, slots=True)
class TrivialAgent:
    """Answers at once, always the same: what the harness itself costs shows beside it."""

    name: str
    answer: str = "<answer>\n{}\n</answer>"

    @property
    def trusted(self) -> bool:
        return True

    @property
    def paid(self) -> bool:
        return False

    def respond(self, request: ModelRequest) -> Reply:
        return _say(self.answer)


def _solve(request: ModelRequest) -> Reply:
    program = _solver(request.messages) + _PRINT
    return _call(request, "execute_python", code=program)


def _solver(messages: tuple[Message, ...]) -> str:
    """The program for the task that the conversation opened with. Raises HarnessError."""
    found = _TASK.search(messages[0].text)
    name = found.group(1) if found else ""
    try:
        return family(name).solver()
    except GeneratorError as error:
        raise HarnessError(f"no scripted agent can do this task: {error}") from error


def _report(request: ModelRequest, results: tuple[str, ...], rate: float) -> Reply:
    printed = _PRINTED.findall(results[-1])
    if not printed:
        return _say("My program printed no answer, so I have none.")
    read = misread(json.loads(printed[-1]), rate, _draws(request.seed))
    return _answer("I ran a program over the input files; it found this.", read)


def _draws(seed: Seed) -> Stream:
    return seed.child("misread").rng()


def _results(request: ModelRequest) -> tuple[str, ...]:
    return tuple(each.text for each in request.messages if each.role is Role.TOOL)


def _answer(prose: str, block: Mapping[str, Any]) -> Reply:
    return _say(f"{prose}\n\n<answer>\n{json.dumps(block)}\n</answer>")


def _call(request: ModelRequest, tool: str, **arguments: str) -> Reply:
    call = ToolCall(f"call-{len(request.messages)}", tool, json.dumps(arguments))
    return _reply(Message(Role.ASSISTANT, "", calls=(call,)), "tool_call")


def _say(text: str) -> Reply:
    return _reply(Message(Role.ASSISTANT, text), "stop")


def _reply(message: Message, finish: str) -> Reply:
    return Reply(message, Usage(), "scripted-1", finish)
