"""What the three protocols of the model proxy have in common: an agent's call in our terms, and the
parts of its messages.

Everything here comes from inside a sandbox. A body is validated while it is parsed, and what a
protocol has beyond these fields is not kept.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.model import Image, Message, Reply, Role, ToolSpec

MEDIA_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
Json = dict[str, Any]


class RefusedCall(Exception):  # noqa: N818 - what a client sent, not our own error
    """A call that our server refuses: the HTTP status, and a reason for the client. ``code``
    is the error code that OpenAI's clients know it by, if any."""

    def __init__(self, status: int, reason: str, code: str = "") -> None:
        super().__init__(reason)
        self.status, self.reason, self.code = status, reason, code


@dataclass(frozen=True, slots=True)
class AgentCall:
    """One model call of an agent."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    tool_choice: Literal["auto", "none"]
    stream: bool


@dataclass(frozen=True, slots=True)
class WireProtocol:
    """A protocol that agents speak: how a call is read, and how a reply or a refusal is written.
    ``events`` yields a whole reply as server-sent events. Replies are numbered: clients know them
    by an id."""

    read: Callable[[bytes], AgentCall]
    reply: Callable[[Reply, str, int], Json]
    events: Callable[[Reply, str, int], Iterator[bytes]]
    error: Callable[[RefusedCall], Json]


class FromAgent(BaseModel):
    """Base of the parts of a body. Unknown fields are ignored, as servers do."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class Tool(FromAgent):
    """A tool that the model may call; without parameters it takes an empty object."""

    name: str = ""
    description: str | None = None
    parameters: Json | None = None


class Body(FromAgent):
    """What the bodies of all protocols have."""

    model: str
    stream: bool | None = None

    def call(self, messages: Iterable[Message], tools: Iterable[Tool], closed: bool) -> AgentCall:
        """Return the call with these messages and tools, which may be ``closed``. Raises
        RefusedCall."""
        empty = {"type": "object", "properties": {}}
        specs = (ToolSpec(t.name, t.description or "", t.parameters or empty) for t in tools)
        return AgentCall(
            self.model,
            join_turns(messages),
            tuple(specs),
            tool_choice="none" if closed else "auto",
            stream=bool(self.stream),
        )


class ImageUrl(FromAgent):
    """An image by its address."""

    url: str


class ImageSource(FromAgent):
    """An image in Anthropic's form."""

    type: str
    media_type: str = ""
    data: str = ""


class ContentPart(FromAgent):
    """A part of a message's content, in any of the three protocols."""

    type: str
    text: str = ""
    refusal: str = ""
    image_url: ImageUrl | str | None = None
    source: ImageSource | None = None
    id: str = ""
    name: str = ""
    input: Json | None = None
    tool_use_id: str = ""
    content: str | list[ContentPart] | None = None


Content = str | list[ContentPart] | None
B = TypeVar("B", bound=FromAgent)


MAX_VALUES = 500_000  # lists and objects of a body: an empty one takes 60 times its own bytes


def parse_body(kind: type[B], body: bytes) -> B:
    """Parse a body. Raises RefusedCall, which names the first field that is wrong."""
    if body.count(b"[") + body.count(b"{") > MAX_VALUES:
        raise RefusedCall(413, f"the body has more than {MAX_VALUES:,} opening brackets")
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "body"
        raise RefusedCall(400, f"{place[:200]}: {first['msg'][:200]}") from None


def read_content(content: Content) -> tuple[str, tuple[Image, ...]]:
    """Return the text and the images of a content. Raises RefusedCall for parts of other kinds."""
    if not isinstance(content, list):
        return content or "", ()
    texts: list[str] = []
    images: list[Image] = []
    for part in content:
        if part.type in ("text", "input_text", "output_text"):
            texts.append(part.text)
        elif part.type == "refusal":
            texts.append(part.refusal)
        elif part.type in ("image_url", "input_image", "image"):
            images.append(_read_image(part))
        else:
            raise RefusedCall(
                400, f"content of type {part.type[:40]!r} is not served: text and images"
            )
    return "\n".join(texts), tuple(images)


def _read_image(part: ContentPart) -> Image:
    if part.source is not None:
        media_type, data = part.source.media_type, part.source.data
    else:
        url = part.image_url.url if isinstance(part.image_url, ImageUrl) else part.image_url or ""
        head, _, data = url.partition(";base64,")
        media_type = head.removeprefix("data:")
    if media_type not in MEDIA_TYPES:
        raise RefusedCall(400, f"an image is given in base64, of type {', '.join(MEDIA_TYPES)}")
    try:
        return Image(media_type, base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        raise RefusedCall(400, "an image is not valid base64") from None


def join_turns(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages, with neighbouring ones of the assistant made one, and without those of
    the system and the assistant that are empty. Raises RefusedCall for a tool's result without its
    call, or if no message is left to reply to."""
    joined: list[Message] = []
    known: set[str] = set()
    for message in messages:
        if message.role is Role.TOOL and message.call_id not in known:
            raise RefusedCall(
                400, f"a tool result for {message.call_id[:80]!r}, which was not called"
            )
        known |= {call.id for call in message.calls}
        before = joined[-1] if joined else None
        if message.role is Role.ASSISTANT and before and before.role is Role.ASSISTANT:
            text = "\n".join(text for text in (before.text, message.text) if text)
            joined[-1] = Message(Role.ASSISTANT, text, calls=before.calls + message.calls)
        elif message.text or message.calls or message.role in (Role.USER, Role.TOOL):
            joined.append(message)
    if not joined or joined[-1].role is Role.ASSISTANT:
        raise RefusedCall(400, "messages: the last one must be for the model to reply to")
    return tuple(joined)


def sse(data: Json | str, name: str = "") -> bytes:
    """Return one server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data)
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {text}\n\n".encode()
