"""The first requests of a sweep, rendered without a network: an example of each stratum for each
model.

The example has a fixed seed that no study draws: the sealed draw is not opened, no key is needed,
and nothing is written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal

from generators.task import Brief, Limits, TaskInstance
from harness.agent import (
    TOOLS,
    estimate_text,
    fit_context,
    opening_messages,
    read_ceiling,
    single_turn,
)
from harness.build_model import read_window
from harness.episode import Mode
from harness.errors import HarnessError
from harness.external_agents import ask, program_prompt
from harness.judging import (
    Judge,
    Submission,
    call_digest,
    call_texts,
    chunks_of,
    make_request,
    questions_of,
)
from harness.model import Message, ModelRequest, Reply, Role, ToolSpec, Usage
from harness.models import as_text
from harness.sandboxes import locked_libraries
from harness.spending import Price
from registry.ledger import JudgePin, ModelPin
from study.errors import StudyError
from study.protocol import Protocol, Task
from study.sweeps.spending import example_of, price_pins
from study.workspace import Study

ANSWER = "(here stands the answer that is graded)"


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
class RenderedJudge:
    """A judge's first call on an example, with a stand-in for the answer."""

    judge: str
    stratum: str
    messages: tuple[Message, ...]
    parts: int  # over all calls
    calls: int
    tokens: int  # of this call, without the answer
    every: int  # tokens of all calls, each with this answer
    usd: tuple[float, float | None] | None  # of an episode: input alone, and with longest replies


def render_wave(study: Study, wave: int) -> tuple[tuple[Rendered, ...], tuple[RenderedJudge, ...]]:
    """Render every stratum for every model of a wave, and for every judge of the study. Raises
    StudyError if a task does not fit a model."""
    protocol, pins = study.protocol, study.protocol.wave_models(wave)
    tasks = protocol.wave_tasks(wave)
    examples = [(task, example_of(task, protocol.catalog)) for task in tasks]
    rendered = tuple(_render_examples(protocol, examples, pins))
    pricing = price_pins(study, protocol.judges, allow_unknown=True)
    judges = tuple(
        _render_judge(task, instance, judge, pricing.price_of(judge.name))
        for task, instance in examples
        for judge in protocol.judges
    )
    return rendered, judges


def render_tasks(
    protocol: Protocol, tasks: Iterable[Task], pins: Sequence[ModelPin]
) -> tuple[Rendered, ...]:
    """Render tasks for models. Raises StudyError if a task does not fit a model."""
    examples = [(task, example_of(task, protocol.catalog)) for task in tasks]
    return tuple(_render_examples(protocol, examples, pins))


def _render_examples(
    protocol: Protocol, examples: Iterable[tuple[Task, TaskInstance]], pins: Sequence[ModelPin]
) -> Iterator[Rendered]:
    # The libraries of the project's own sandbox image; those of other images are unknown.
    own_image = protocol.sandbox.kind == "docker" and protocol.sandbox.image is None
    libraries = locked_libraries() if own_image else ()
    for task, instance in examples:
        for pin in pins:
            yield _render(task, instance.brief, pin, libraries)


def rendered_json(rendered: Rendered) -> dict[str, object]:
    """Return the request as JSON values; pictures by type and size."""
    plain = ("model", "provider", "version", "stratum", "mode", "tokens")
    tokens = ("text_tokens", "picture_tokens", "tool_tokens")
    return {
        **{name: getattr(rendered, name) for name in plain + tokens},
        "limits": asdict(rendered.limits),
        "settings": {name: json.loads(value) for name, value in rendered.settings},
        "files": [{"path": path, "bytes": size} for path, size in rendered.files],
        "messages": _messages_json(rendered.messages),
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in rendered.tools
        ],
    }


def judge_json(rendered: RenderedJudge) -> dict[str, object]:
    """Return a judge's call as JSON values."""
    sent, longest = rendered.usd or (None, None)
    return {
        "judge": rendered.judge,
        "stratum": rendered.stratum,
        "parts": rendered.parts,
        "calls": rendered.calls,
        "tokens": rendered.tokens,
        "tokens_of_all_calls": rendered.every,
        "usd_sent": sent,
        "usd_with_longest_replies": longest,
        "messages": _messages_json(rendered.messages),
    }


def _messages_json(messages: Sequence[Message]) -> list[dict[str, object]]:
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
    elif pin.provider == "agent_server":
        tools, messages = (), (Message(Role.USER, ask(brief, None)),)
    elif "agent" in settings and pin.provider != "scripted":  # it adds its own rules and tools
        tools, messages = (), (Message(Role.USER, program_prompt(brief)),)
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
        messages,
        tools,
        files,
        brief.limits,
        text,
        pictures,
        estimate_text(_schemas(tools)),
        pin.settings,
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


class _Unasked:
    """Stand-in for a judge's model, which a dry run never asks."""

    name, trusted, paid = "unasked", False, False

    def respond(self, request: ModelRequest) -> Reply:
        raise AssertionError("a dry run sends no request")


def _render_judge(
    task: Task, instance: TaskInstance, pin: JudgePin, price: Price | None
) -> RenderedJudge:
    judge = Judge(pin, _Unasked(), lambda: "0" * 32)
    parts = questions_of(instance.rubric)
    chunks = list(chunks_of(parts))
    first = chunks[0] if chunks else ()
    submission = Submission(instance.brief.prompt, ANSWER)
    call = call_digest(judge, submission, first)
    messages = make_request(judge, submission, first, call, 0).messages
    tokens = sum(estimate_text(message.text) for message in messages)
    calls = len(chunks)
    every = sum(map(estimate_text, call_texts(submission, parts)))
    usd = None if price is None else _usd(price, every, calls, dict(pin.settings).get("max_tokens"))
    return RenderedJudge(
        pin.name, task.stratum, messages if calls else (), len(parts), calls, tokens, every, usd
    )


def _usd(price: Price, tokens: int, calls: int, longest: str | None) -> tuple[float, float | None]:
    """Return the cost in USD of an episode's calls as sent, and with the longest replies."""
    low = price.cost(Usage(tokens, 0)) or Decimal()
    high = None if longest is None else price.cost(Usage(tokens, calls * int(longest)))
    return float(low), None if high is None else float(high)
