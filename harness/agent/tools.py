"""The tools that an agent may call: their specifications, and how a call is carried out.

Every call is answered with a message; nothing that a model sends raises. The sandbox decides what
a tool can reach; here calls are only read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from generators.task import Limits
from harness.agent.images import SHOWN_SIDE, ImageRefused, show_image
from harness.episode import SECONDS_DIGITS, ToolUse
from harness.model import Image, Message, Role, ToolCall, ToolSpec
from harness.sandboxes.sandbox import ExecResult, Sandbox, SandboxRefused
from registry.files import read_beside

# One megabyte of program or file is more than any task needs; more is not even parsed.
MAX_ARGUMENT_CHARS = 1_000_000
# As one argument of a program it must fit Linux's 128 KiB, whatever characters it has.
MAX_COMMAND_CHARS = 20_000
MAX_TEXT_BYTES = 4_000_000  # of a file that read_file will look at
MAX_IMAGE_BYTES = 5_000_000  # of a file that view_image will look at


class BadCall(Exception):  # noqa: N818 - an answer for the model, not our own error
    """A call that cannot be carried out: states the error and a right call."""


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """Result of a tool call: text, images, exit code, the limits that were hit, and the seconds
    that a program or the reader of an image ran."""

    text: str
    images: tuple[Image, ...] = ()
    exit_code: int | None = None
    limits: tuple[str, ...] = ()
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class _Use:
    """The arguments of a call, and what it is carried out with."""

    arguments: Mapping[str, str]
    sandbox: Sandbox
    limits: Limits
    seconds: float

    @property
    def path(self) -> str:
        path = self.arguments["path"]
        if not path or "\0" in path or len(path) > 1024:
            raise BadCall("'path' must be a relative path of 1 to 1,024 characters without NUL")
        return path


def use_tool(
    call: ToolCall, sandbox: Sandbox, limits: Limits, seconds: float, tick: Callable[[], float]
) -> ToolUse:
    """Carry out one call, within ``seconds`` of wall time.

    ``tick`` is a monotonic clock in seconds. A program, or the reader of an image, takes the time
    it ran, without its wait for those of other episodes. Raises AttemptFailed if the sandbox is
    lost.
    """
    begun = tick()
    outcome = _answer_call(call, sandbox, limits, seconds)
    result = Message(Role.TOOL, outcome.text, outcome.images, call_id=call.id)
    took = tick() - begun if outcome.seconds is None else outcome.seconds
    return ToolUse(
        call_id=call.id,
        name=call.name,
        result=result,
        seconds=round(took, SECONDS_DIGITS),
        exit_code=outcome.exit_code,
        limits=outcome.limits,
    )


def _answer_call(call: ToolCall, sandbox: Sandbox, limits: Limits, seconds: float) -> ToolOutcome:
    try:
        if call.name not in _ACTS:
            raise BadCall(f"there is no tool {call.name[:80]!r}; there are: {', '.join(_ACTS)}")
        arguments = read_arguments(call.arguments, tuple(_TEXTS[call.name]["arguments"]))
        return _ACTS[call.name](_Use(arguments, sandbox, limits, seconds))
    except BadCall as bad:
        return ToolOutcome(f"Error: {bad}")
    except SandboxRefused as refused:
        return ToolOutcome(f"Refused: {refused}", limits=refused.limits)


def read_arguments(text: str, fields: tuple[str, ...]) -> Mapping[str, str]:
    """The arguments of a call: a JSON object with exactly the given text fields. Raises BadCall."""
    if len(text) > MAX_ARGUMENT_CHARS:
        raise BadCall(
            f"the arguments have {len(text):,} characters; at most {MAX_ARGUMENT_CHARS:,} are read"
        )
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise BadCall("the arguments are not valid JSON") from None
    if not isinstance(value, dict) or set(value) != set(fields):
        raise BadCall(f"the arguments must be one JSON object with exactly: {', '.join(fields)}")
    for name in fields:
        _check_text(name, value[name])
    return value


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise BadCall(f"{name!r} must be a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadCall(f"{name!r} holds half of a surrogate pair, which is not text") from None


def check_command(command: str) -> str:
    """The command line, if bash can be given it. Raises BadCall."""
    if len(command) > MAX_COMMAND_CHARS:
        raise BadCall(
            f"the command has {len(command):,} characters; at most {MAX_COMMAND_CHARS:,} are read: "
            "use write_file or execute_python"
        )
    if not command.strip():
        raise BadCall("the command is empty")
    if "\0" in command:
        raise BadCall("the command holds a NUL")
    return command


def cut_text(text: str, limit: int) -> str:
    """The text, or its head and tail with a notice of what was cut from between them."""
    if len(text) <= limit:
        return text
    half = limit // 2
    notice = f"\n[… {len(text) - 2 * half:,} of {len(text):,} characters cut …]\n"
    return text[:half] + notice + text[-half:]


def _execute_python(use: _Use) -> ToolOutcome:
    program = use.arguments["code"].encode()
    return _report(use.sandbox.run(("python3", "-"), use.seconds, stdin=program), use.limits)


def _run_command(use: _Use) -> ToolOutcome:
    command = check_command(use.arguments["command"])
    return _report(use.sandbox.run(("bash", "-c", command), use.seconds), use.limits)


def _report(result: ExecResult, limits: Limits) -> ToolOutcome:
    text = cut_text(result.output.decode("utf-8", "replace"), limits.output_bytes)
    if result.output_bytes > len(result.output):
        text += f"\n[output cut: {result.output_bytes:,} bytes in all; its head and tail are kept]"
    status = f"exit code {result.exit_code}, {result.seconds:.2f} s"
    if result.limits:
        status += f", limits hit: {', '.join(result.limits)}"
    separator = "" if not text or text.endswith("\n") else "\n"
    text = f"{text}{separator}[{status}]"
    return ToolOutcome(text, (), result.exit_code, result.limits, result.seconds)


def _read_file(use: _Use) -> ToolOutcome:
    data = use.sandbox.read(use.path, MAX_TEXT_BYTES)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise BadCall("this is not a text file; use view_image or execute_python")
    return ToolOutcome(cut_text(text, use.limits.output_bytes))


def _write_file(use: _Use) -> ToolOutcome:
    data = use.arguments["content"].encode()
    use.sandbox.write(use.path, data)
    return ToolOutcome(f"Wrote {len(data):,} bytes.")


def _view_image(use: _Use) -> ToolOutcome:
    data = use.sandbox.read(use.path, MAX_IMAGE_BYTES)
    run = show_image(data)
    try:
        shown = run.value()
    except ImageRefused as refused:
        return ToolOutcome(f"Error: {refused}", seconds=run.seconds)
    width, height = shown.size
    text = f"{shown.image.media_type}, {width} × {height} pixels{shown.scaled}."
    return ToolOutcome(text, (shown.image,), seconds=run.seconds)


_ACTS: Mapping[str, Callable[[_Use], ToolOutcome]] = {
    "execute_python": _execute_python,
    "run_command": _run_command,
    "read_file": _read_file,
    "write_file": _write_file,
    "view_image": _view_image,
}
_TEXTS: Mapping[str, Any] = read_beside(__file__, "tools.yaml")


def _spec(name: str) -> ToolSpec:
    texts, arguments = _TEXTS[name], _TEXTS[name]["arguments"]
    schema = {
        "type": "object",
        "properties": {
            argument: {"type": "string", "description": text}
            for argument, text in arguments.items()
        },
        "required": list(arguments),
        "additionalProperties": False,
    }
    return ToolSpec(name, texts["description"].format(side=f"{SHOWN_SIDE:,}"), schema)


TOOLS: tuple[ToolSpec, ...] = tuple(map(_spec, _ACTS))
