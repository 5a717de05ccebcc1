"""Whose failure a response is. One of four: a reply of the model's own, its refusal, a conversation
that is too long, or a failure of what lies between, which is retried and never scored. What is
not clear is such a failure. ``replies.yaml`` has the ends and words of each protocol.

A filter that blocked the model's output, or its prompt, is the model's refusal, in any provider's
words. An end that names recitation alone is retried first, since another sample may recite nothing;
if every try ends so, the recitation is the model's, and a refusal. A provider that reports a call
or JSON of the model's that it could not parse reports a turn of the model's.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from harness.model import OVERFLOW, REFUSED, Usage
from harness.models.providers.retry import NO_REPLY, UNFINISHED, ProviderError
from registry.files import read_beside

REFUSAL = "refusal"  # finish of a reply that declines the task
BAD_CALL = "bad_call"  # finish of a reply with a call that its server could not parse
CUT_OFF = "length"  # finish of a reply that met the limit on output tokens
TABLES: Mapping[str, Any] = read_beside(__file__, "replies.yaml")


def _compile(causes: list[dict[str, Any]]) -> list[tuple[str, re.Pattern[str], list[int | None]]]:
    compiled = []
    for cause in causes:
        words, near = "|".join(cause["words"]), "|".join(cause.get("near", ()))
        between = rf"({words})[^\n]{{0,80}}({near})|({near})[^\n]{{0,80}}({words})"
        statuses = cause.get("statuses", [None, *TABLES["understood"]])
        compiled.append((cause["kind"], re.compile(between if near else words, re.I), statuses))
    return compiled


_CAUSES, _NAMES = _compile(TABLES["causes"]), _compile(TABLES["names"])
_STATUS = re.compile(r'"(?:\w*code|status\w*)": "?([45]\d\d)\b', re.I)
_PAGE_STATUS = re.compile(r"<(?:title|h1)>[^<\d]{0,40}([45]\d\d)\b", re.I)
_WAIT = re.compile(r'"retryDelay": "(\d{1,9}(?:\.\d{1,9})?)s"')
_QUOTES = re.compile(
    r'(?<="failed_generation)": |"(?:inputs?|prompt|messages)": '
)  # of a request or reply
_QUOTED = 2000  # characters; a server that quotes a prompt does so behind its own words
_REPLY = ("choices", "candidates", "promptFeedback", "output", "content")
# Fields of an error, if there is no reply.
_STATED = re.compile(r"^err|msg$|message$|^detail|^base_resp$|^response$", re.I)
_EVENT_NAMES = ("error", "stop_reason", "stopReason")


def kind_of_status(status: int) -> str:
    """Return the class of a failure by the HTTP status of its response."""
    refused = status < 400 or status in TABLES["understood"]
    kind: str = TABLES["statuses"].get(status, REFUSED if refused else "overload")
    return kind


def kind_of_error(status: int | None, words: str) -> str:
    """Return the class of an error by its status, None if it has none, and its words."""
    for kind, pattern, statuses in _CAUSES:
        limited = status == 429 and kind in ("quota", "rate_limit")
        if (status in statuses or limited) and pattern.search(words):
            return kind
    if status is not None:
        return kind_of_status(status)
    return next((kind for kind, pattern, _ in _NAMES if pattern.search(words)), NO_REPLY)


def find(value: Any, paths: str) -> Any:
    """Return the first value of some paths that is there: of names, 0 for a first item; an empty
    path is the value itself."""
    for path in paths.split("|"):
        found = value
        for step in path.split("."):
            if isinstance(found, dict):
                found = found.get(step) if step else found
            else:
                found = found[0] if step == "0" and isinstance(found, list) and found else None
        if found is not None:
            return found
    return None


def read_body(body: bytes, status: int = 200) -> Any:
    """Return a response's JSON; of a stream of events, what they say of its end. Raises
    ProviderError for what is no JSON, and for a page: what lies between has sent it."""
    text = body.decode("utf-8", "replace").lstrip("\ufeff \r\n\t")
    try:
        if body.startswith(b"\0"):  # the length of a frame
            return _join_events(_read_frames(body))
        if not text.startswith(("data:", "event:", ":")):
            return json.loads(text)
        lines = (line[5:].strip() for line in text.splitlines() if line.startswith("data:"))
        return _join_events(json.loads(line) for line in lines if line.startswith("{"))
    except (ValueError, RecursionError):
        if not text.startswith("<"):
            raise ProviderError("malformed", "not JSON") from None
    page = _PAGE_STATUS.search(text)
    kind = kind_of_status(status if status >= 400 else int(page[1]) if page else 400)
    raise ProviderError(NO_REPLY if kind == REFUSED else kind, "a page")


def _read_frames(body: bytes) -> Iterator[dict[str, Any]]:
    """Yield the events of Bedrock's binary stream: lengths, checksum, headers, JSON, checksum."""
    while len(body) >= 16:
        length, size = struct.unpack_from(">II", body)
        headers, event = body[12 : 12 + size], json.loads(body[12 + size : length - 4])
        failed = b":exception-type" in headers
        if isinstance(event, dict):
            yield {"error": {"type": headers.decode("latin-1"), **event}} if failed else event
        body = body[max(length, 16) :]


def _join_events(events: Iterable[dict[str, Any]]) -> dict[str, Any]:
    usage: dict[str, Any] = {}
    joined: dict[str, Any] = {"usage": usage}
    for event in events:
        for part in (event, event.get("message"), event.get("delta")):
            if isinstance(part, dict):
                usage |= part.get("usage") or {}
                joined |= {name: part[name] for name in _EVENT_NAMES if name in part}
    return joined


def check_error(
    value: Any, status: int, error_type: str = "", too_long: Callable[[], bool] = lambda: False
) -> None:
    """Raise ProviderError if a response reports a failure, by its status or, within HTTP 200, by
    an error in it. ``error_type`` is a header's name for it; ``too_long`` returns True if the
    request exceeds the model's context by our own estimate."""
    error = _find_error(value)
    if status < 400 and error is None:
        return
    text = json.dumps(value if error is None else error, ensure_ascii=False)
    words = f"{error_type} {_QUOTES.split(text, maxsplit=1)[0][:_QUOTED]}"
    inner, wait = _STATUS.search(words), _WAIT.search(text)
    code = status if status >= 400 else int(inner[1]) if inner else None
    kind = kind_of_error(code, words)
    if kind in (REFUSED, "overload") and code in (400, 413, 422, 500) and too_long():
        kind = OVERFLOW
    if kind == REFUSED and isinstance(value, str):  # no word of it is a protocol's
        kind = NO_REPLY
    asked, generated = float(wait[1]) if wait else None, find(error, "failed_generation")
    raise ProviderError(kind, f"HTTP {status}", asked, code, text=str(generated or ""))


def _find_error(value: Any) -> Any:
    """The error that a body reports, if any."""
    error = find(value, "error|choices.0.error|0.error")
    filled = any(error.values()) if isinstance(error, dict) else error  # some name empty fields
    if filled or not isinstance(value, dict):
        return error or None
    reply, stated = map(value.get, _REPLY), map(value.get, filter(_STATED.search, value))
    found = any(stated) and not any(reply)
    return value if found or "error" in (value.get("type"), value.get("object")) else None


def bare(name: str) -> str:
    """Return a name without case and signs, which servers write as they like."""
    return re.sub(r"^\w+_filter: |^finish_?reason[._]|[^a-z0-9]", "", name.lower())


def read_finish(protocol: str, value: Any, usage: Usage) -> str:
    """Return how the model ended its reply: stop, CUT_OFF or REFUSAL. Raises ProviderError, with
    the usage, if that is no end of the model's own."""
    table = TABLES["protocols"][protocol]
    name = str(find(value, table["finish"]))[:60].lower()
    ends = {bare(each): end for end, names in table["ends"].items() for each in names.split()}
    end: str = ends.get(bare(name), "")
    if end in ("stop", CUT_OFF, REFUSAL):
        return end
    name = re.sub(r"[^a-z0-9_]", "_", name)
    raise ProviderError(end or f"{UNFINISHED} {name}", usage=usage)
