"""The stream of an agent server: one JSON object a line, read as rounds.

A round is a message of the model (``chunk`` after ``chunk``, ended by ``done``) and the results of
the tools that it then called (``tool_call``). A line may be framed as ``data: {…}``. Lines that are
no JSON, such as comments, are skipped, as the original does. All of it is untrusted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness.model import Usage, clean_text

MAX_STREAM_BYTES = 64 << 20
MAX_LINE_BYTES = 16 << 20
_MAX_NAME = 200  # characters of a model's name
_MAX_COUNT = 2**53  # of tokens; a larger one is no number that JSON carries


class MalformedStream(Exception):  # noqa: N818 - what a server sent, not our own error
    """The stream does not follow the protocol. The message names the line and quotes nothing."""


@dataclass(slots=True)
class Round:
    """One inference round, as far as it has come."""

    text: str = ""
    results: list[tuple[str, str]] = field(default_factory=list)  # name of the tool, text
    usage: Usage = field(default_factory=Usage)
    version: str = ""
    lines: list[bytes] = field(default_factory=list)  # as they came
    done: bool = False

    @property
    def raw(self) -> bytes:
        """Its lines as they came."""
        return b"\n".join((*self.lines, b""))

    @property
    def blank(self) -> bool:
        """True if it has neither a message nor results of tools."""
        return not self.text.strip() and not self.results


class ChatStream:
    """Reads the stream's bytes as they come, up to ``limit`` rounds."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest: list[bytes] = []  # of a line that is not at its end, as its bytes came
        self._waiting = 0  # bytes of it
        self._lines = 0
        self._events = 0  # lines that are an object
        self._closed: list[Round] = []
        self._open = Round()
        self._chunks: list[str] = []
        self.bytes = 0
        self.stopped = False

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds so far; the last may not be done. A blank message at the end, without results
        of tools, is no round: its usage is that of the round before it."""
        self._open.text = "".join(self._chunks)
        if self._open.text or self._open.results:
            return (*self._closed, self._open)
        if len(self._closed) > 1 and self._closed[-1].blank:
            *earlier, before, last = self._closed
            usage, version = before.usage + last.usage, before.version or last.version
            lines = [*before.lines, *last.lines]
            return (*earlier, replace(before, usage=usage, version=version, lines=lines))
        return tuple(self._closed)

    @property
    def done(self) -> int:
        """Number of rounds that are done."""
        return len(self._closed)

    @property
    def full(self) -> bool:
        """True if as many rounds are done as are allowed."""
        return len(self._closed) >= self._limit

    def take(self, data: bytes) -> bool:
        """Read on and return whether to stop, because a round beyond the limit begins. The results
        of the last round's tools are still read, so that none is under way at the end. Raises
        MalformedStream."""
        self.bytes += len(data)
        if self.bytes > MAX_STREAM_BYTES:
            raise MalformedStream(f"more than {MAX_STREAM_BYTES:,} bytes")
        # Nothing is joined without it: a line in small pieces is not read over and over.
        if b"\n" in data:
            *lines, rest = b"".join((*self._rest, data)).split(b"\n")
            self._rest, self._waiting = [], 0
            for line in lines:
                self._take_line(line)
                if self.stopped:
                    return True
        else:
            rest = data
        self._rest.append(rest)
        self._waiting += len(rest)
        if self._waiting > MAX_LINE_BYTES:
            raise MalformedStream(f"line {self._lines + 1} has more than {MAX_LINE_BYTES:,} bytes")
        return False

    def end(self) -> bool:
        """Take the end; return True if the stream is whole. Raises MalformedStream."""
        rest, self._rest = b"".join(self._rest), []
        events = self._events
        try:
            self._take_line(rest)
        except MalformedStream:
            return False
        if events == self._events and _unframed(rest).startswith(b"{"):
            return False  # half a line
        if not self._events:
            raise MalformedStream("no event at all")
        return bool(self._closed) and not "".join(self._chunks).strip()

    def _take_line(self, line: bytes) -> None:
        self._lines += 1
        event = self._read(line)
        if event is None:
            return
        self._events += 1
        role, kind = event.get("role"), event.get("type")
        if role == "assistant" and kind in ("chunk", "done"):
            self._say(event, kind, line)
        elif role == "tool_call":
            self._answer(event, line)
        elif not isinstance(role, str):
            raise MalformedStream(f"line {self._lines} has no role")

    def _say(self, event: Mapping[str, Any], kind: str, line: bytes) -> None:
        if self.full:
            self.stopped = True
            return
        if kind == "chunk" or "content" in event:
            self._chunks.append(self._content(event))
        self._open.lines.append(line)
        if kind == "done":
            self._open.text = "".join(self._chunks)
            self._open.usage = _usage(event.get("usage"))
            self._open.version = (_text(event, "model") or "")[:_MAX_NAME]
            self._open.done = True
            self._closed.append(self._open)
            self._open, self._chunks = Round(), []

    def _answer(self, event: Mapping[str, Any], line: bytes) -> None:
        """A tool's result belongs to the round under way, or else to the one just done."""
        round = self._open if self._chunks or not self._closed else self._closed[-1]
        name = _text(event, "name")
        round.results.append(("tool" if name is None else name[:80], self._content(event)))
        round.lines.append(line)

    def _read(self, line: bytes) -> Mapping[str, Any] | None:
        """The event of a line; None for a blank line, a comment or a stray one."""
        try:
            event = json.loads(_unframed(line))
        except (ValueError, RecursionError):
            return None
        if not isinstance(event, dict):
            raise MalformedStream(f"line {self._lines} is not an object")
        return event

    def _content(self, event: Mapping[str, Any]) -> str:
        content = _text(event, "content")
        if content is None:
            raise MalformedStream(f"line {self._lines} has no text under 'content'")
        return content


def _unframed(line: bytes) -> bytes:
    """The line without the framing of a server-sent event."""
    return line.strip().removeprefix(b"data:").lstrip()


def _text(event: Mapping[str, Any], key: str) -> str | None:
    value = event.get(key)
    return clean_text(value) if isinstance(value, str) else None


def _usage(value: Any) -> Usage:
    """Return the tokens that the server reports: an extension of the protocol."""
    given = value if isinstance(value, dict) else {}
    return Usage(_count(given.get("input_tokens")), _count(given.get("output_tokens")))


def _count(tokens: Any) -> int | None:
    known = isinstance(tokens, int) and not isinstance(tokens, bool) and 0 <= tokens < _MAX_COUNT
    return tokens if known else None
