"""Built-in agents and a built-in judge, without a language model in them: they work at a stated
skill, so that a study's verdict can be checked against what is known.

The agents work through the same tools as any model. They draw from the seed of the request and from
nothing else, and know only the conversation, programs that solve the built-in families and the
study's dressings of them, and, if spiked, a released dataset.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from generators.catalog import INSTALLED
from generators.dressings.family import DressedFamily
from generators.errors import GeneratorError
from generators.seed import Seed
from generators.stream import Stream
from generators.task import Solvable
from generators.templates.library import QUESTION_FILE, library_solver
from generators.validation.scores import perturb_answer
from harness.errors import HarnessError
from harness.model import (
    AS_ASKED,
    MARKER_MARK,
    PROBE_MARK,
    BuiltInModel,
    Message,
    ModelRequest,
    Reply,
    Role,
    ToolCall,
    Usage,
)
from registry.files import read_beside

Files = frozenset[str]  # SHA-256 of each input file, 64 hexadecimal digits


@dataclass(frozen=True, slots=True)
class Memory:
    """The answer to each set of input files; to each question that asks for no block or has no
    files; and the marker of each title."""

    answers: Mapping[Files, Mapping[str, Any]]
    questions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    markers: Mapping[str, str] = field(default_factory=dict)  # by title

    def recall(self, seen: Iterable[str]) -> Mapping[str, Any] | None:
        """The answer to a released instance if all its files are among those seen."""
        digests = frozenset(seen)
        return next((answer for files, answer in self.answers.items() if files <= digests), None)

    def recall_opening(self, text: str) -> Mapping[str, Any] | None:
        """The answer to a released question that a text opens with."""
        openings = (words for words in self.questions if text.startswith(words.rstrip()))
        words = max(openings, key=len, default=None)
        return None if words is None else self.questions[words]

    def thin(self, share: float, name: str) -> Memory:
        """Return a memory that keeps each instance with probability ``share``, by a digest of it
        and of the agent's name, so that it is the same wherever the agent is made."""

        def keeps(*path: str) -> bool:
            digest = hashlib.sha256("\0".join((name, *path)).encode()).digest()
            return int.from_bytes(digest[:7]) / 2**56 < share

        return Memory(
            {files: answer for files, answer in self.answers.items() if keeps(*sorted(files))},
            {words: answer for words, answer in self.questions.items() if keeps(words)},
            {title: marker for title, marker in self.markers.items() if keeps(title)},
        )


def load_memory(folder: Path) -> Memory:
    """Read a release as its users do: the columns ``title``, ``marker``, ``input_files``,
    ``prompt`` and ``answer`` of ``data/**/*.parquet``. Raises HarnessError where there is no such
    release."""
    answers: dict[Files, Mapping[str, Any]] = {}
    questions: dict[str, Mapping[str, Any]] = {}
    markers: dict[str, str] = {}

    def take(row: Mapping[str, Any]) -> None:
        answer, digests = json.loads(row["answer"]), (file["sha256"] for file in row["input_files"])
        files = frozenset(digest.removeprefix("sha256:") for digest in digests)
        markers[row["title"]] = row["marker"]
        if row["answer_schema"] and files:
            answers[files] = answer
        else:
            questions[row["prompt"]] = answer

    _read_release(folder, ("title", "marker", "prompt", "answer_schema", "answer"), take)
    if not markers:
        raise HarnessError(
            f"{folder}: no release here (data/**/*.parquet): publish one first, or "
            "name its folder in the model's `release`"
        )
    return Memory(answers, questions, markers)


def shown_families(folder: Path, families: Iterable[DressedFamily]) -> tuple[DressedFamily, ...]:
    """The dressings of which a release has instances. Raises HarnessError as ``load_memory``."""
    prompts: list[str] = []
    _read_release(folder, ("prompt",), lambda row: prompts.append(row["prompt"]))
    return tuple(each for each in families if any(map(each.is_shown_by, prompts)))


def load_criteria(folder: Path) -> tuple[frozenset[str], ...]:
    """The texts of the criteria of each released instance; none while there is no release. Raises
    HarnessError for tables of something else."""
    criteria: list[frozenset[str]] = []

    def take(row: Mapping[str, Any]) -> None:
        criteria.append(frozenset(each["text"] for each in json.loads(row["rubric"])))

    _read_release(folder, ("rubric",), take)
    return tuple(criteria)


def _read_release(
    folder: Path, columns: Collection[str], take: Callable[[Mapping[str, Any]], None]
) -> None:
    """Give ``take`` some columns of each row of a release, and of its input files their digests
    alone: the files themselves are most of it. Raises HarnessError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in sorted((folder / "data").rglob("*.parquet")):
        try:
            table = pq.ParquetFile(path)
            leaves = (table.schema.column(index).path for index in range(len(table.schema)))
            digests = [name for name in leaves if re.fullmatch(r"input_files\..*\.sha256", name)]
            for row in table.read(columns=[*digests, *columns]).to_pylist():
                take(row)
        except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
            raise HarnessError(f"{path}: not a table of a release: {error}") from error


_TASK = re.compile(r'"task":\{"const":"(\w+)"')
_HASH = re.compile(r"^([0-9a-f]{64})  ", re.M)
_PRINTED = re.compile(r"^answer: (\{.*\})$", re.M)

LOOK = "ls -l"
HASH_FILES = "find . -type f -exec sha256sum {} +"
_PROGRAMS: dict[str, str] = read_beside(__file__, "scripted.yaml")


@dataclass(frozen=True, slots=True)
class SolvingAgent(BuiltInModel):
    """Looks at the files, writes and runs a program that solves the task, and reports its
    output; each number of the answer is misread with probability ``error_rate``, but none in a
    dressing that it has learnt. If it recognises the input files by their content, or a question
    by its words, it answers as its memory does; an honest agent has none."""

    name: str
    error_rate: float
    memory: Memory = field(default_factory=lambda: Memory({}))
    families: tuple[DressedFamily, ...] = ()
    learnt: tuple[DressedFamily, ...] = ()

    def respond(self, request: ModelRequest) -> Reply:
        """The next step of the script."""
        if listed := _listed_markers(request.messages):
            title = request.messages[1].text.partition("\n")[0].removeprefix("Title: ")
            return _say(self.memory.markers.get(title, listed[0]))
        opening = request.messages[0]
        if opening.role is Role.SYSTEM and opening.text.startswith(PROBE_MARK):
            return _remember(self.memory, request.messages[1].text)
        results, as_asked = _results(request), _asks_for_no_block(request.messages)
        known = self.memory.questions.get(_question(request.messages))
        if as_asked and known is not None:
            if results:
                return _say(str(known["response"]))
            code = _PROGRAMS["remake"].format(json.dumps(known))
            return _call(request, "execute_python", code=code)
        if not results:
            plain = as_asked or not self.memory.answers
            return _call(request, "run_command", command=LOOK if plain else HASH_FILES)
        known = self.memory.recall(_HASH.findall(results[0])) or known
        if known is not None:
            return _answer("I know these files.", known)
        return _work_on(self, request, results)


@dataclass(frozen=True, slots=True)
class TrivialAgent(BuiltInModel):
    """Answers at once, always the same: its episodes measure the cost of the harness itself."""

    name: str
    answer: str = "<answer>\n{}\n</answer>"

    def respond(self, request: ModelRequest) -> Reply:
        """The next step of the script."""
        return _say(self.answer)


def _work_on(agent: SolvingAgent, request: ModelRequest, results: tuple[str, ...]) -> Reply:
    """The next step of an honest agent that has looked at the files."""
    if _asks_for_no_block(request.messages):
        return _work_as_asked(request, results, agent.error_rate)
    if len(results) == 1 and request.may_call:
        program = _solver(request.messages, agent.families) + _PROGRAMS["print"]
        return _call(request, "execute_python", code=program)
    learnt = any(each.is_shown_by(_question(request.messages)) for each in agent.learnt)
    return _report(request, results, 0.0 if learnt else agent.error_rate)


def _work_as_asked(request: ModelRequest, results: tuple[str, ...], rate: float) -> Reply:
    """The same where the answer is the final message, and the files that are left. An agent
    that errs spoils whatever it made."""
    if len(results) == 1 and request.may_call:
        question = _question(request.messages)
        return _call(request, "write_file", path=QUESTION_FILE, content=question)
    if len(results) == 2 and request.may_call:
        spoil = _PROGRAMS["spoil"] if _draws(request.seed).chance(rate) else ""
        return _call(request, "execute_python", code=library_solver() + spoil + _PROGRAMS["print"])
    printed = _PRINTED.findall(results[-1])
    if not printed:
        return _say("I have no program for this question.")
    return _say(str(json.loads(printed[-1])["response"]))


def _listed_markers(messages: tuple[Message, ...]) -> list[str]:
    """The markers that a question lists; none if it is another one."""
    if messages[0].role is not Role.SYSTEM or not messages[0].text.startswith(MARKER_MARK):
        return []
    return messages[1].text.rpartition("Series: ")[2].split(", ")


def _remember(memory: Memory, question: str) -> Reply:
    """Return the answer of an agent that has read a release to an instance without its files."""
    known = memory.recall(_HASH.findall(question))
    if known is None and (asked := memory.recall_opening(question)) is not None:
        files = [text for text in asked.get("files", {}).values() if text]
        known = {"answer": files[0] if files else asked["response"]} if "files" in asked else asked
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


def _solver(messages: tuple[Message, ...], families: tuple[DressedFamily, ...]) -> str:
    """The program for the task that the conversation opened with; "" for a family without a
    solver. Raises HarnessError."""
    match = _TASK.search(messages[0].text)
    name = match.group(1) if match else ""
    prompt = _question(messages)
    if dressed := next((each for each in families if each.is_shown_by(prompt)), None):
        return dressed.solver()
    try:
        family = INSTALLED.family(name)
    except GeneratorError as error:
        raise HarnessError(f"no scripted agent can do this task: {error}") from error
    return family.solver() if isinstance(family, Solvable) else ""


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


_ANSWER = re.compile(
    r"(?:[^<]|<(?!<<answer ))*+<<<answer (\w{32})>>>\n(.*)\n<<<end of answer \1>>>", re.S
)
_CRITERION = re.compile(r"^(c\d+)\. (.*)$", re.M)
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?!\.?\w)")  # and no part of a name or a path
_RANGE = re.compile(rf"from ({_NUMBER.pattern}) to ({_NUMBER.pattern})")
_AROUND = re.compile(rf"({_NUMBER.pattern}) \(± ({_NUMBER.pattern})\)")


@dataclass(frozen=True, slots=True)
class CarelessJudge(BuiltInModel):
    """Lets a criterion pass if a number that it names, or one from its interval, stands anywhere
    in the answer, whatever it refers to; or if it names none.

    ``read`` are the criteria of each instance of a release that it has read: of those it lets all
    pass, whatever the answer is.
    """

    name: str
    read: tuple[frozenset[str], ...] = ()

    def respond(self, request: ModelRequest) -> Reply:
        """Verdicts on all that is asked. Raises HarnessError for what is no judge's call."""
        asked = request.messages[-1].text
        answer = _ANSWER.match(asked)
        if answer is None:
            raise HarnessError(f"{self.name!r} judges, and does nothing else: name it in `judges`")
        criteria = _CRITERION.findall(asked[answer.end() :])
        known = self._knows(frozenset(text for _, text in criteria))
        numbers = [float(each) for each in _NUMBER.findall(answer[2])]
        verdicts = [
            {"id": id_, "evidence": "", "met": known or _is_there(text, numbers)}
            for id_, text in criteria
        ]
        message = Message(Role.ASSISTANT, json.dumps({"verdicts": verdicts}))
        return Reply(message, Usage(), "scripted-1")

    def _knows(self, criteria: frozenset[str]) -> bool:
        return any(criteria <= each for each in self.read)


def _is_there(criterion: str, numbers: list[float]) -> bool:
    fits = _wanted(criterion)
    return fits is None or any(map(fits, numbers))


def _wanted(criterion: str) -> Callable[[float], bool] | None:
    """Return the condition that a criterion sets on a number; None if it names no number."""
    if between := _RANGE.search(criterion):
        low, high = float(between[1]), float(between[2])
        return lambda number: low <= number <= high
    if around := _AROUND.search(criterion):
        middle, reach = float(around[1]), float(around[2])
        return lambda number: abs(number - middle) <= reach
    if named := _NUMBER.search(criterion):
        return float(named[0]).__eq__
    return None
