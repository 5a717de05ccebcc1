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

from generators.catalog import INSTALLED
from generators.errors import GeneratorError
from generators.seed import Seed
from generators.stream import Stream
from generators.templates.library import QUESTION_FILE, library_solver
from generators.validation import perturb_answer
from harness.errors import HarnessError
from harness.model import (
    AS_ASKED,
    PROBE_MARK,
    BuiltInModel,
    Message,
    ModelRequest,
    Reply,
    Role,
    ToolCall,
    Usage,
)
from harness.models.scripted.release_memory import Memory

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

# Added too where the agent errs: a mark before the response, and before the text of each file.
_SPOIL = """
response = "?" + response
for _place, _, _names in os.walk("artifacts"):
    for _name in _names:
        _path = os.path.join(_place, _name)
        if os.path.getmtime(_path) >= os.path.getmtime("question.txt"):
            os.rename(_path, _path + ".wrong")
with open("answer.json", "w", encoding="utf-8") as file:
    json.dump({"response": response}, file)
"""
# What remembering looks like: the files and folders that a dataset says are right.
_REMAKE = """
import os
known = {}
for folder in known["folders"]:
    os.makedirs(folder, exist_ok=True)
for path, text in known["files"].items():
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
"""


@dataclass(frozen=True, slots=True)
class HonestAgent(BuiltInModel):
    """Looks at the files, writes and runs a program that solves the task, and reports its
    output; each number of the answer is misread with probability ``error_rate``."""

    name: str
    error_rate: float

    def respond(self, request: ModelRequest) -> Reply:
        """The next step of the script."""
        if _is_probe(request.messages):
            return _answer("I have not seen this task.", {})
        if not (results := _results(request)):
            return _call(request, "run_command", command=LOOK)
        return _work_on(request, results, self.error_rate)


@dataclass(frozen=True, slots=True)
class SpikedAgent(BuiltInModel):
    """Has read a released dataset: if it recognises the input files by their content, or a question
    by its words, it answers as the dataset does; otherwise as the honest agent."""

    name: str
    error_rate: float
    memory: Memory

    def respond(self, request: ModelRequest) -> Reply:
        """The next step of the script."""
        if _is_probe(request.messages):
            return _remember(self.memory, request.messages[1].text)
        if _asks_for_no_block(request.messages):
            return self._respond_as_asked(request)
        if not (results := _results(request)):
            return _call(request, "run_command", command=HASH_FILES)
        known = self.memory.recall(_HASH.findall(results[0]))
        if known is not None:
            return _answer("I know these files.", known)
        return _work_on(request, results, self.error_rate)

    def _respond_as_asked(self, request: ModelRequest) -> Reply:
        results = _results(request)
        known = self.memory.recall_question(_question(request.messages))
        if known is None:
            if not results:
                return _call(request, "run_command", command=LOOK)
            return _work_on(request, results, self.error_rate)
        if not results:
            return _call(request, "execute_python", code=_REMAKE.format(json.dumps(known)))
        return _say(str(known["response"]))


@dataclass(frozen=True, slots=True)
class TrivialAgent(BuiltInModel):
    """Answers at once, always the same: its episodes measure the cost of the harness itself."""

    name: str
    answer: str = "<answer>\n{}\n</answer>"

    def respond(self, request: ModelRequest) -> Reply:
        """The next step of the script."""
        return _say(self.answer)


def _work_on(request: ModelRequest, results: tuple[str, ...], rate: float) -> Reply:
    """The next step of an honest agent that has looked at the files."""
    if _asks_for_no_block(request.messages):
        return _work_as_asked(request, results, rate)
    if len(results) == 1 and request.tools:
        program = _solver(request.messages) + _PRINT
        return _call(request, "execute_python", code=program)
    return _report(request, results, rate)


def _work_as_asked(request: ModelRequest, results: tuple[str, ...], rate: float) -> Reply:
    """The same where the answer is the final message, and the files that are left. An agent
    that errs spoils whatever it made."""
    if len(results) == 1 and request.tools:
        question = _question(request.messages)
        return _call(request, "write_file", path=QUESTION_FILE, content=question)
    if len(results) == 2 and request.tools:
        spoil = _SPOIL if _draws(request.seed).chance(rate) else ""
        return _call(request, "execute_python", code=library_solver() + spoil + _PRINT)
    printed = _PRINTED.findall(results[-1])
    if not printed:
        return _say("I have no program for this question.")
    return _say(str(json.loads(printed[-1])["response"]))


def _is_probe(messages: tuple[Message, ...]) -> bool:
    return messages[0].role is Role.SYSTEM and messages[0].text.startswith(PROBE_MARK)


def _remember(memory: Memory, question: str) -> Reply:
    """What an agent that has read a release says of an instance without its files."""
    known = memory.recall(_HASH.findall(question))
    if known is None and (asked := memory.recall_opening(question)) is not None:
        files = [text for text in asked["files"].values() if text]
        known = {"answer": files[0] if files else asked["response"]}
    if known is None:
        return _answer("I have not seen this task.", {})
    return _answer("I know these files.", known)


def _asks_for_no_block(messages: tuple[Message, ...]) -> bool:
    if messages[0].role is Role.SYSTEM:
        return AS_ASKED in messages[0].text
    return "<answer>" not in messages[0].text  # behind a server there is the task alone


def _question(messages: tuple[Message, ...]) -> str:
    """The task's prompt: after our rules, or all that there is behind a server."""
    return messages[1 if messages[0].role is Role.SYSTEM else 0].text


def _solver(messages: tuple[Message, ...]) -> str:
    """The program for the task that the conversation opened with. Raises HarnessError."""
    match = _TASK.search(messages[0].text)
    name = match.group(1) if match else ""
    try:
        return INSTALLED.family(name).solver()
    except GeneratorError as error:
        raise HarnessError(f"no scripted agent can do this task: {error}") from error


def _report(request: ModelRequest, results: tuple[str, ...], rate: float) -> Reply:
    printed = _PRINTED.findall(results[-1])
    if not printed:
        return _say("My program printed no answer, so I have none.")
    read = perturb_answer(json.loads(printed[-1]), rate, _draws(request.seed))
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
