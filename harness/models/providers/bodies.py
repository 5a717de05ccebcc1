"""The bodies of replies: what is read of each protocol's, in the one form that the client libraries
take. What is missing or of another type is filled in, and what is unknown is left out. The bytes
that are stored stay as received.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from generators.seed import Seed
from harness.model import ModelRequest, Reply, Usage, estimate_text
from harness.models.providers.retry import ProviderError
from harness.models.providers.verdict import TABLES, bare, check_error, find, read_body, read_finish
from registry.canonical import digest_bytes

USAGE_UNKNOWN = Usage()
_MOST_ITEMS = 10_000  # of a list that are read
_MAX_COUNT = 2**53  # of tokens; a larger one is no number that JSON carries


@dataclass(frozen=True, slots=True)
class Reading:
    """A reply of the model's own: its body in the form that libraries take, how it ended, and its
    tokens."""

    body: bytes
    finish: str = "stop"
    usage: Usage = USAGE_UNKNOWN


@dataclass(frozen=True, slots=True)
class Expected:
    """What a response is read for: its protocol, the request, and the model's context in tokens, if
    that is stated."""

    protocol: str
    request: ModelRequest
    context: int | None = None

    def read(self, status: int, headers: Mapping[str, str], body: bytes) -> Reading:
        """Return the reading of a response. Raises ProviderError if it is no reply of the
        model's, with the tokens that it was billed for all the same, if it states them."""
        try:
            value = read_body(body, status)
        except ProviderError as failed:
            if status < 400 or failed.kind != "malformed":  # a page
                raise
            value = body.decode("utf-8", "replace")
        try:
            check_error(value, status, headers.get("x-amzn-errortype", ""), self._too_long)
            return self._read_reply(value, body)
        except ProviderError as failed:
            usage = read_usage(self.protocol, value)
            failed.usage = usage if usage.tokens else failed.usage
            raise

    def _read_reply(self, value: Any, body: bytes) -> Reading:
        request = self.request
        table = TABLES["protocols"][self.protocol]
        if not isinstance(value, dict) or not isinstance(
            find(value, table["reply"]), dict | list | str
        ):
            raise ProviderError("malformed", "no reply in it")
        usage = read_usage(self.protocol, value)
        finish = read_finish(self.protocol, value, usage)
        if body.lstrip(b"\xef\xbb\xbf \r\n\t")[:1] == b"{":  # no stream
            taken = {call.id for message in request.messages for call in message.calls}
            repair = _Repair(taken, [tool.name for tool in request.tools])
            body = json.dumps(repair.fit(table["form"], value)).encode()
        return Reading(body, finish, usage)

    def _too_long(self) -> bool:
        messages = () if self.context is None else self.request.messages
        texts = (text for m in messages for text in (m.text, *(c.arguments for c in m.calls)))
        return sum(map(estimate_text, texts)) > (self.context or 0)


def digest_reading(protocol: str, status: int, body: bytes) -> str:
    """Return the protocol, the status, and the digest of what this code reads of a response on its
    own: the text, calls, end and tokens of a reply, or the class of a failure."""
    try:
        read = Expected(protocol, ModelRequest((), (), Seed(bytes(32)))).read(status, {}, body)
        made = (read.body, read.finish, read.usage)
    except ProviderError as failed:
        made = (failed.text.encode(), failed.kind, failed.usage)
    return f"{protocol} {status} {digest_bytes(repr(made).encode())}"


def is_read_alike(reply: Reply) -> bool:
    """Report whether this code reads a stored reply as it was read then; true for a reply of which
    that is not known."""
    protocol, status, _ = (reply.reading or "- 0 -").split()
    return not reply.reading or digest_reading(protocol, int(status), reply.raw) == reply.reading


@dataclass(slots=True)
class _Repair:
    """Fits a body to its form; ids of calls are made unique. Raises ProviderError for a list of
    which nothing can be read."""

    taken: set[str]
    tools: Collection[str]

    def fit(self, form: Any, value: Any) -> Any:
        """Return the value in this form."""
        if isinstance(form, dict):
            given = value if isinstance(value, dict) else {"content": value}
            made = ((name, self.fit(each, find(given, name))) for name, each in form.items())
            return {name.partition("|")[0]: each for name, each in made if each is not None}
        if isinstance(form, list):
            pairs = ((_form_of(form[0], item), item) for item in _items(value) if form)
            read = [self.fit(each, item) for each, item in pairs if each]
            if form and value and not read:
                raise ProviderError("malformed", "nothing of a known kind in it")
            return read
        match form:
            case "$id":
                return self._new_id(_as_text(value))
            case "$name":  # the harmony format has marks around it
                name = _as_text(value)
                plain = name.rpartition("functions.")[2].partition("<|")[0].strip()
                return plain if plain in self.tools else name
            case "$maybe" if value is None or value is False:
                return None
            case "$text" | "$maybe":
                return _as_text(value)
            case "$object":
                return as_object(value)
        return value if form == "$any" else form

    def _new_id(self, given: str) -> str:
        number = len(self.taken)
        while not given or given in self.taken:
            given, number = f"call_{number}", number + 1
        self.taken.add(given)
        return given


def _items(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; a text is one of its own."""
    listed = value[:_MOST_ITEMS] if isinstance(value, list) else [value] if value else []
    items = ({"type": "text", "text": each} if isinstance(each, str) else each for each in listed)
    return [each for each in items if isinstance(each, dict)]


def _form_of(form: dict[str, Any], item: dict[str, Any]) -> dict[str, Any] | None:
    """The form of an item, None if it is of no known kind."""
    if (kinds := form.get("$kinds")) is None:
        return form
    names = (str(item.get("type")), *item)
    found: dict[str, Any] | None = next((kinds[name] for name in names if name in kinds), None)
    return found


def _as_text(value: Any) -> str:
    if isinstance(value, list) and any("text" in each for each in _items(value)):
        return "".join(_as_text(each.get("text")) for each in _items(value))
    return value or "" if value is None or isinstance(value, str) else json.dumps(value)


def as_object(value: Any) -> dict[str, Any]:
    """A call's arguments as an object, which some protocols and servers ask for."""
    if isinstance(value, str):
        try:
            value = json.loads(value or "{}")
        except (ValueError, RecursionError):
            return {"arguments": value}
    return value if isinstance(value, dict) else {} if value is None else {"arguments": value}


def sendable(arguments: str) -> str:
    """Return a call's arguments as they can be sent back: servers parse them."""
    made = as_object(arguments)
    return json.dumps(made) if "arguments" in made else arguments or "{}"


def sendable_name(name: str) -> str:
    """Return a called tool's name as it can be sent back: servers refuse other signs than these,
    though a model may write any. The tool's result has the name as it was written."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unknown"


def read_usage(protocol: str, value: Any) -> Usage:
    """Return the tokens of a reply: all of the input, that from and to a cache included, and all of
    the output with its reasoning. If the counts contradict each other the output is unknown, and
    has a bound."""
    flat = _flatten(find(value, "usage|usageMetadata"))
    counts = dict(reversed(list(flat)))  # the outermost of a name
    given, output, total, reasoning, cached, written = (
        next((counts[name] for name in map(bare, names.split()) if name in counts), None)
        for names in TABLES["counts"].values()
    )
    stored, thought, total, bound = (cached or 0) + (written or 0), reasoning or 0, total or 0, None
    if protocol in ("messages", "converse") and given is not None:  # they count it beside the input
        given, total = given + stored, 0
    if protocol == "gemini" and given is not None:  # it counts thoughts beside the output
        output = (output or 0) + thought
    if total and given is None and output is not None:
        given = max(total - output, 0)
    if total and output is None and given is not None:
        output = max(total - given, 0)
    if given and output is not None:
        beside = total - given - output if total else thought if thought > output else 0
        if stored > given or (beside and beside == stored != thought):
            given, beside = given + stored, 0
        if beside < 0 or (beside and thought not in (0, beside)) or thought > output + beside:
            bound = output + max(beside, thought)
        output += beside
    elif given:
        bound = estimate_text(json.dumps(value))
    output = None if bound or not given else output
    found = Usage(given or None, output, cached or None, written or None, thought or None)
    return replace(found, output_bound=bound)


def _flatten(value: Any) -> Iterator[tuple[str, int]]:
    for name, each in value.items() if isinstance(value, dict) else ():
        number = float(each) if isinstance(each, str) and each.isdecimal() else each
        if isinstance(number, int | float) and 0 <= number < _MAX_COUNT:
            yield bare(name), int(number)
        yield from _flatten(each)
