"""A server of the batch interfaces of OpenAI, Anthropic and Google, for tests. It keeps their
rules, counts what it sells, and forgets nothing."""

from __future__ import annotations

import email
import email.policy
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]
EXPIRED, INVALID, OVERLOAD = "expired", "invalid", "overload"


@dataclass
class Batch:
    """A batch: its id, the mark that it carries, and its requests by name."""

    id: str
    mark: str
    requests: dict[str, Json]
    polls: int = 0


@dataclass
class Sold:
    """The running server. ``fate`` returns the text of the reply to a request's body, or one of
    EXPIRED, INVALID, OVERLOAD; a batch ends at the poll of this number, once ``gate`` is open.
    ``deaf`` is the number of submissions that are accepted and answered by a hang-up."""

    url: str = ""
    fate: Callable[[Json], str] = lambda body: "<answer>\n{}\n</answer>"
    polls: int = 1
    deaf: int = 0
    refused: int = 0  # submissions that are answered by HTTP 429
    batches: list[Batch] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    single: int = 0  # requests that came by themselves
    gate: threading.Event = field(default_factory=threading.Event)

    @property
    def bought(self) -> Counter[str]:
        """How often each request was answered, over all batches."""
        return Counter(name for batch in self.batches for name in batch.requests)

    def ended(self, batch: Batch) -> bool:
        return self.gate.is_set() and batch.polls >= self.polls

    def submit(self, mark: str, requests: list[tuple[str, Json]]) -> Batch:
        names = [name for name, _ in requests]
        if len(set(names)) < len(names):
            self.faults.append("a name twice")
        if not all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names):
            self.faults.append("a name that Anthropic refuses")
        batch = Batch(f"b{len(self.batches)}", mark, dict(requests))
        self.batches.append(batch)
        return batch


class _Handler(BaseHTTPRequestHandler):
    sold: Sold

    def log_message(self, *given: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        for pattern, answer in _GET.items():
            if found := re.fullmatch(pattern, path):
                return self._answer(answer(self.sold, *found.groups()))
        self._answer({"error": {"message": "no such path"}}, 404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path, sold = urlsplit(self.path).path, self.sold
        if path == "/v1/files":
            return self._answer(self._file(body))
        submit = next((s for pattern, s in _POST.items() if re.fullmatch(pattern, path)), None)
        if submit is None:
            sold.single += 1
            return self._answer({"error": {"message": "a request by itself"}}, 400)
        if sold.refused:
            sold.refused -= 1
            return self._answer({"error": {}}, 429)
        answer = submit(sold, json.loads(body))
        if sold.deaf:
            sold.deaf -= 1
            self.close_connection = True
            self.connection.close()
        else:
            self._answer(answer)

    def _file(self, body: bytes) -> Json:
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        form = email.message_from_bytes(head + body, policy=email.policy.HTTP)
        parts = {p.get_param("name", header="content-disposition"): p for p in form.iter_parts()}  # type: ignore[attr-defined]
        if parts["purpose"].get_content().strip() != "batch":
            self.sold.faults.append("a file of another purpose")
        name = f"file-{len(self.sold.files)}"
        self.sold.files[name] = parts["file"].get_payload(decode=True)
        return {"id": name, "object": "file", "purpose": "batch"}

    def _answer(self, body: Json | bytes, status: int = 200) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


# --- OpenAI ---


def _openai_submit(sold: Sold, made: Json) -> Json:
    lines = [json.loads(line) for line in sold.files[made["input_file_id"]].splitlines()]
    alike = all(x["url"] == made["endpoint"] and x["method"] == "POST" for x in lines)
    if made["completion_window"] != "24h" or not alike:
        sold.faults.append("a batch of another form")
    batch = sold.submit(
        made["metadata"]["dosimeter"], [(line["custom_id"], line["body"]) for line in lines]
    )
    return _openai_record(sold, batch)


def _openai_record(sold: Sold, batch: Batch) -> Json:
    status = "completed" if sold.ended(batch) else "in_progress"
    files = {"output_file_id": f"out-{batch.id}", "error_file_id": f"err-{batch.id}"}
    record: Json = {"id": batch.id, "status": status, "metadata": {"dosimeter": batch.mark}}
    return record | (files if status == "completed" else {})


def _openai_file(sold: Sold, kind: str, name: str) -> bytes:
    lines = []
    for call, body in _batch(sold, name).requests.items():
        text = sold.fate(body)
        answered = text not in (EXPIRED, INVALID, OVERLOAD)
        if answered != (kind == "out"):
            continue
        status = {INVALID: 400, OVERLOAD: 500}.get(text, 200)
        line: Json = {"custom_id": call, "response": {"status_code": status, "body": {}}}
        if text == EXPIRED:
            line |= {"response": None, "error": {"code": "batch_expired", "message": "late"}}
        elif answered:
            line["response"]["body"] = _chat(text)
        lines.append(json.dumps(line))
    return "\n".join(reversed(lines)).encode()  # in no order of ours


def _chat(text: str) -> Json:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    made = {"id": "c", "object": "chat.completion", "created": 1, "model": "served-1"}
    return made | {"choices": [choice], "usage": usage}


# --- Anthropic ---


def _anthropic_submit(sold: Sold, made: Json) -> Json:
    requests = [(each["custom_id"], each["params"]) for each in made["requests"]]
    return _anthropic_record(sold, sold.submit("", requests))


def _anthropic_record(sold: Sold, batch: Batch) -> Json:
    ended = sold.ended(batch)
    counts = {"processing": 0, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
    counts["succeeded" if ended else "processing"] = len(batch.requests)
    status = "ended" if ended else "in_progress"
    return {"id": batch.id, "processing_status": status, "request_counts": counts} | {
        "created_at": "2126-01-01T00:00:00Z"
    }


def _anthropic_results(sold: Sold, name: str) -> bytes:
    lines = []
    for call, body in _batch(sold, name).requests.items():
        text = sold.fate(body)
        kinds: dict[str, Json] = {
            EXPIRED: {"type": "expired"},
            INVALID: {"type": "errored", "error": {"error": {"type": "invalid_request_error"}}},
            OVERLOAD: {"type": "errored", "error": {"error": {"type": "api_error"}}},
        }
        usage = {"input_tokens": 1000, "output_tokens": 100}
        message = {"id": "m", "type": "message", "role": "assistant", "model": "served-1"} | {
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": usage,
        }
        result = kinds.get(text, {"type": "succeeded", "message": message})
        lines.append(json.dumps({"custom_id": call, "result": result}))
    return "\n".join(lines).encode()


# --- Google ---


def _google_submit(sold: Sold, made: Json) -> Json:
    batch = made["batch"]
    listed = batch["inputConfig"]["requests"]["requests"]
    requests = [(each["metadata"]["key"], each["request"]) for each in listed]
    return _google_record(sold, sold.submit(batch["displayName"], requests))


def _google_record(sold: Sold, batch: Batch) -> Json:
    record: Json = {"name": f"batches/{batch.id}", "metadata": {"displayName": batch.mark}}
    if not sold.ended(batch):
        return record
    lines = []
    for call, body in batch.requests.items():
        text = sold.fate(body)
        line: Json = {"metadata": {"key": call}}
        if text == EXPIRED:
            continue
        if text in (INVALID, OVERLOAD):
            lines.append(line | {"error": {"code": 3 if text == INVALID else 14}})
            continue
        part = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}
        counts = {"promptTokenCount": 1000, "candidatesTokenCount": 100, "totalTokenCount": 1100}
        response = {"candidates": [part], "usageMetadata": counts, "modelVersion": "served-1"}
        lines.append(line | {"response": response})
    return record | {"done": True, "response": {"inlinedResponses": {"inlinedResponses": lines}}}


def _batch(sold: Sold, name: str) -> Batch:
    return next(batch for batch in sold.batches if batch.id == name)


def _polled(record: Callable[[Sold, Batch], Json]) -> Callable[[Sold, str], Json]:
    def poll(sold: Sold, name: str) -> Json:
        batch = _batch(sold, name)
        batch.polls += 1
        return record(sold, batch)

    return poll


def _list(record: Callable[[Sold, Batch], Json], name: str) -> Callable[[Sold], Json]:
    def listed(sold: Sold) -> Json:
        return {name: [record(sold, batch) for batch in reversed(sold.batches)], "has_more": False}

    return listed


_POST: dict[str, Callable[[Sold, Json], Json]] = {
    "/v1/batches": _openai_submit,
    "/v1/messages/batches": _anthropic_submit,
    r"/v1beta/models/[\w.-]+:batchGenerateContent": _google_submit,
}
_GET: dict[str, Callable[..., Json | bytes]] = {
    "/v1/batches": _list(_openai_record, "data"),
    r"/v1/batches/(\w+)": _polled(_openai_record),
    r"/v1/files/(out|err)-(\w+)/content": _openai_file,
    "/v1/messages/batches": _list(_anthropic_record, "data"),
    r"/v1/messages/batches/(\w+)": _polled(_anthropic_record),
    r"/v1/messages/batches/(\w+)/results": _anthropic_results,
    "/v1beta/batches": _list(_google_record, "operations"),
    r"/v1beta/batches/(\w+)": _polled(_google_record),
}


@contextmanager
def sell(open_gate: bool = True) -> Iterator[Sold]:
    """Run the server; its batches end only when the gate is open."""
    sold = Sold()
    if open_gate:
        sold.gate.set()
    handler = type("Handler", (_Handler,), {"sold": sold})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    sold.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield sold
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
