"""The first requests of a sweep, rendered without a network: an example of each stratum for each
model.

The example has a fixed seed that no study draws: the sealed draw is not opened, no key is needed,
and nothing is written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from generators.task import Brief
from harness.agent.limits import read_ceiling
from harness.agent.prompts import opening_messages
from harness.agent.single_turn import SingleTurn, fit_context, single_turn
from harness.agent.tools import TOOLS
from harness.build_model import agent_class, read_window
from harness.episode import Mode
from harness.errors import HarnessError
from harness.model import Message, Role, ToolSpec, estimate_text
from harness.models.text_tool_calls import as_text
from harness.sandboxes.image import locked_libraries
from registry.ledger.records import ModelPin
from study.catalogue import contributions
from study.errors import StudyError
from study.printing import print_json, print_line, print_records, stdout, styled
from study.protocol.protocol import Task
from study.steps.sweep.spending import example_of
from study.workspace.study import Study


@dataclass(frozen=True, slots=True)
class FirstRequest:
    """The first request about an example: facts with their labels, messages, and further values as
    a row of a table and as JSON. Tokens are estimates on the safe side, of this request only."""

    title: str
    messages: tuple[Message, ...]
    row: Mapping[str, object]
    body: Mapping[str, object]
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Preview:
    """First requests of one kind; ``name`` is their key in JSON, ``title`` that of their table."""

    name: str
    title: str
    requests: tuple[FirstRequest, ...]


def previews_of(study: Study, wave: int) -> tuple[Preview, ...]:
    """Return the first requests of every stratum to every model of a wave, and of each extra that
    sends any. Raises StudyError if a task does not fit a model."""
    protocol = study.protocol
    # The libraries of the project's own sandbox image; those of other images are unknown.
    own_image = protocol.sandbox.kind == "docker" and protocol.sandbox.image is None
    libraries = locked_libraries() if own_image else ()
    requests = [
        _first_request(task, example_of(task, protocol.catalog).brief, pin, libraries)
        for task in protocol.wave_tasks(wave)
        for pin in protocol.wave_models(wave)
    ]
    own = Preview("requests", "First requests", tuple(requests))
    return (own, *(preview(study, wave) for preview in contributions("preview")))


def print_previews(previews: Sequence[Preview], as_json: bool) -> None:
    """Print requests whole, and a table of each kind."""
    if as_json:
        print_json({each.name: [_request_json(r) for r in each.requests] for each in previews})
        return
    for request in (request for preview in previews for request in preview.requests):
        stdout().rule(styled(request.title), align="left")
        texts = [(str(message.role), message.text) for message in request.messages]
        for label, text in (*request.facts, *texts):
            print_line(text, label, "bold")
    for preview in previews:
        if preview.requests:
            print_records([request.row for request in preview.requests], title=preview.title)
    print_line("tokens are estimates on the safe side; nothing was sent and nothing written")


def _request_json(request: FirstRequest) -> dict[str, object]:
    """Return the request as JSON values; pictures by type and size."""
    messages = [
        {
            "role": str(message.role),
            "text": message.text,
            "pictures": [
                {"media_type": image.media_type, "bytes": len(image.data)}
                for image in message.images
            ],
        }
        for message in request.messages
    ]
    return {**request.body, "messages": messages}


def _first_request(
    task: Task, brief: Brief, pin: ModelPin, libraries: tuple[tuple[str, str], ...]
) -> FirstRequest:
    messages, tools, pictures = _opening(task, brief, pin, libraries)
    settings = {name: json.loads(value) for name, value in pin.settings}
    tool_values = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in tools
    ]
    schemas = "".join(json.dumps([*tool.values()], default=dict) for tool in tool_values)
    text, tool_tokens = sum(estimate_text(m.text) for m in messages), estimate_text(schemas)
    single = task.mode is Mode.SINGLE_TURN
    files = [] if single else [{"path": a.path, "bytes": len(a.data)} for a in brief.assets]
    stated = "".join(f", {name}: {value}" for name, value in pin.settings)
    named = {
        "model": pin.name,
        "stratum": task.stratum,
        "mode": str(task.mode),
        "tokens": text + pictures + tool_tokens,
    }
    return FirstRequest(
        title=f"{task.stratum} for {pin.name}",
        facts=(
            (pin.name, f"{pin.provider}, {pin.version}{stated}"),
            *(("tool", f"{tool.name}: {tool.description}") for tool in tools),
        ),
        messages=messages,
        row=named
        | {
            "text": text,
            "pictures": pictures,
            "tools": tool_tokens,
            "files": len(files),
            # Without the built-in loop: a single turn, or an agent behind a server.
            "turns": 1 if single or pin.provider == "agent_server" else brief.limits.turns,
            "working minutes": brief.limits.working_seconds / 60,
        },
        body=named
        | {
            "provider": pin.provider,
            "version": pin.version,
            "text_tokens": text,
            "picture_tokens": pictures,
            "tool_tokens": tool_tokens,
            "limits": asdict(brief.limits),
            "settings": settings,
            "files": files,
            "tools": tool_values,
        },
    )


def _opening(
    task: Task, brief: Brief, pin: ModelPin, libraries: tuple[tuple[str, str], ...]
) -> tuple[tuple[Message, ...], tuple[ToolSpec, ...], int]:
    """Return the first messages to a model, the tools beside them, and the tokens of pictures."""
    if task.mode is Mode.SINGLE_TURN:
        made = fit_single_turn(task, brief, pin)
        return made.messages, (), made.picture_tokens
    if agent := agent_class(pin):  # it adds its own rules and tools
        return (Message(Role.USER, agent.show(brief)),), (), 0
    ceiling = read_ceiling(pin, lambda usage: None)  # without its cost
    messages = opening_messages(brief, libraries, ceiling)
    usual = '"text"' if pin.provider == "local" else '"native"'
    if dict(pin.settings).get("tools", usual) == '"text"':  # described in the first message
        return as_text(messages, TOOLS), (), 0
    return messages, TOOLS, 0


def fit_single_turn(task: Task, brief: Brief, pin: ModelPin, spare: int = 0) -> SingleTurn:
    """Return the one message of a task to a model, as its context window takes it. One ``spare``-th
    of its tokens is kept free. Raises StudyError, naming model and task, if the task has no such
    form or does not fit, or the model states no window."""
    try:
        window = read_window(pin)
        made = single_turn(brief)
        more = made.tokens // spare if spare else 0
        return fit_context(made, replace(window, reply=window.reply + more))
    except HarnessError as error:
        reason = str(error).removeprefix(f"model {pin.name!r}: ")
        raise StudyError(f"model {pin.name!r}, task {task.stratum}: {reason}") from None
