"""A server of the OpenAI chat protocol, for benchmarks, which supply its replies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

Json = dict[str, Any]
Say = Callable[[Json], Awaitable[Json]]
_GONE = (asyncio.IncompleteReadError, ConnectionError)


async def serve_chat(
    say: Say,
    listening: Callable[[int], None],
    on_reply: Callable[[Json, bool], None] = lambda asked, delivered: None,
) -> None:
    """Serve forever on a free port, which is passed to ``listening``. ``say`` makes a message of a
    request. ``on_reply`` is called for each request with whether its reply was delivered: as with
    a provider, a request is cancelled if its client hangs up first."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(*_GONE):
            while True:
                asked = await _read_request(reader)
                message = await _unless_gone(say(asked), reader)
                if message is None:
                    on_reply(asked, False)
                    break
                writer.write(_response(message))
                await writer.drain()
                on_reply(asked, True)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=4096)
    listening(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def _read_request(reader: asyncio.StreamReader) -> Json:
    head = await reader.readuntil(b"\r\n\r\n")
    fields = (line.partition(b":") for line in head.lower().split(b"\r\n"))
    length = next(int(value) for name, _, value in fields if name == b"content-length")
    asked: Json = json.loads(await reader.readexactly(length))
    return asked


async def _unless_gone(saying: Awaitable[Json], reader: asyncio.StreamReader) -> Json | None:
    """The message; None if the client hangs up first."""
    message, gone = asyncio.ensure_future(saying), asyncio.ensure_future(reader.read(1))
    await asyncio.wait((message, gone), return_when=asyncio.FIRST_COMPLETED)
    if not message.done():
        message.cancel()
        return None
    gone.cancel()
    with suppress(asyncio.CancelledError, *_GONE):
        await gone
    return message.result()


def text(content: str) -> Json:
    return {"role": "assistant", "content": content}


def call(name: str, **arguments: Any) -> Json:
    function = {"name": name, "arguments": json.dumps(arguments)}
    calls = [{"id": "call_1", "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def tool_results(asked: Json) -> list[str]:
    """Contents of the tools' messages so far."""
    return [str(entry["content"]) for entry in asked["messages"] if entry["role"] == "tool"]


def _response(message: Json) -> bytes:
    finish = "tool_calls" if "tool_calls" in message else "stop"
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": "mock-1",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 900, "completion_tokens": 60, "total_tokens": 960},
    }
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
    return head.encode() + b"\r\n\r\n" + data
