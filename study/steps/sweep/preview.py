"""The first requests of a sweep, rendered without a network: an example of each stratum for each
model.

The example has a fixed seed that no study draws: the sealed draw is not opened, no key is needed,
and nothing is written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from generators.task import Brief, Limits
from harness.agent.limits import read_ceiling
from harness.agent.prompts import opening_messages
from harness.agent.single_turn import fit_context, single_turn
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
from study.protocol.protocol import Protocol, Task
from study.steps.sweep.spending import example_of
from study.workspace.study import Study


@dataclass(frozen=True, slots=True)
class Rendered:
    """One first request. Tokens are estimates on the safe side, of this request only."""

    model: str
    provider: str
    version: str
    stratum: str
    mode: Mode
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    files: tuple[tuple[str, int], ...]  # in the work folder, with their bytes
    limits: Limits
    text_tokens: int
    picture_tokens: int
    tool_tokens: int
    settings: tuple[tuple[str, str], ...]

    @property
    def tokens(self) -> int:
        """The estimated tokens of text, pictures and tools together."""
        return self.text_tokens + self.picture_tokens + self.tool_tokens

    @property
    def turns(self) -> int:
        """The turns of the built-in loop; 1 without it: a single turn, or an agent server."""
        once = self.mode is Mode.SINGLE_TURN or self.provider == "agent_server"
        return 1 if once else self.limits.turns


@dataclass(frozen=True, slots=True)
class RenderedCall:
    """A request that an extra sends, on an example: as a row of a table, and as JSON values."""

    title: str
    messages: tuple[Message, ...]
    row: Mapping[str, object]
    body: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ExtraPreview:
    """The first requests of an extra; ``name`` is their key in JSON and the title of a table."""

    name: str
    calls: tuple[RenderedCall, ...]


def render_wave(study: Study, wave: int) -> tuple[Rendered, ...]:
    """Render every stratum for every model of a wave. Raises StudyError if a task does not fit a
    model."""
    protocol = study.protocol
    return render_tasks(protocol, protocol.wave_tasks(wave), protocol.wave_models(wave))


def preview_extras(study: Study, wave: int) -> tuple[ExtraPreview, ...]:
    """Return the first requests of each extra that sends any beside a wave's."""
    return tuple(preview(study, wave) for preview in contributions("preview"))


def render_tasks(
    protocol: Protocol, tasks: Iterable[Task], pins: Sequence[ModelPin]
) -> tuple[Rendered, ...]:
    """Render tasks for models. Raises StudyError if a task does not fit a model."""
    # The libraries of the project's own sandbox image; those of other images are unknown.
    own_image = protocol.sandbox.kind == "docker" and protocol.sandbox.image is None
    libraries = locked_libraries() if own_image else ()
    examples = [(task, example_of(task, protocol.catalog)) for task in tasks]
    return tuple(
        _render(task, instance.brief, pin, libraries) for task, instance in examples for pin in pins
    )


def rendered_json(rendered: Rendered) -> dict[str, object]:
    """Return the request as JSON values; pictures by type and size."""
    plain = ("model", "provider", "version", "stratum", "mode", "tokens")
    tokens = ("text_tokens", "picture_tokens", "tool_tokens")
    return {
        **{name: getattr(rendered, name) for name in plain + tokens},
        "limits": asdict(rendered.limits),
        "settings": {name: json.loads(value) for name, value in rendered.settings},
        "files": [{"path": path, "bytes": size} for path, size in rendered.files],
        "messages": messages_json(rendered.messages),
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in rendered.tools
        ],
    }


def messages_json(messages: Sequence[Message]) -> list[dict[str, object]]:
    """Return messages as JSON values; pictures by type and size."""
    return [
        {
            "role": str(message.role),
            "text": message.text,
            "pictures": [
                {"media_type": image.media_type, "bytes": len(image.data)}
                for image in message.images
            ],
        }
        for message in messages
    ]


def _render(
    task: Task, brief: Brief, pin: ModelPin, libraries: tuple[tuple[str, str], ...]
) -> Rendered:
    settings = dict(pin.settings)
    tools, pictures = TOOLS, 0
    messages: tuple[Message, ...]
    files = tuple((asset.path, len(asset.data)) for asset in brief.assets)
    if task.mode is Mode.SINGLE_TURN:
        tools, files = (), ()
        messages, pictures = _one_message(task, brief, pin)
    elif agent := agent_class(pin):  # it adds its own rules and tools
        tools, messages = (), (Message(Role.USER, agent.show(brief)),)
    else:
        ceiling = read_ceiling(pin, lambda usage: None)  # without its cost
        messages = opening_messages(brief, libraries, ceiling)
        usual = '"text"' if pin.provider == "local" else '"native"'
        if settings.get("tools", usual) == '"text"':  # they are described in the first message
            messages, tools = as_text(messages, tools), ()
    text = sum(estimate_text(message.text) for message in messages)
    return Rendered(
        pin.name,
        pin.provider,
        pin.version,
        task.stratum,
        task.mode,
        messages=messages,
        tools=tools,
        files=files,
        limits=brief.limits,
        text_tokens=text,
        picture_tokens=pictures,
        tool_tokens=estimate_text(_schemas(tools)),
        settings=pin.settings,
    )


def _one_message(task: Task, brief: Brief, pin: ModelPin) -> tuple[tuple[Message, ...], int]:
    try:
        made = fit_context(single_turn(brief), read_window(pin))
    except HarnessError as error:
        reason = str(error).removeprefix(f"model {pin.name!r}: ")
        raise StudyError(f"model {pin.name!r}, task {task.stratum}: {reason}") from None
    return made.messages, made.picture_tokens


def _schemas(tools: Sequence[ToolSpec]) -> str:
    return "".join(
        json.dumps([tool.name, tool.description, tool.parameters], default=dict) for tool in tools
    )
