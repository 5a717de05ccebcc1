"""Batch interfaces: many requests in one, answered within a day at half price.

Each request has the same body as a single one, and each response is read as a single one's is. A
batch carries our mark if the provider has a place for one, so that a batch that was submitted by a
process that died before it knew the batch's id is found again, and paid for once. Forms: OpenAI
``/files`` and ``/batches``, Anthropic ``/v1/messages/batches``, Google
``models/*:batchGenerateContent``. Bedrock has none here: its batches go through a bucket of S3,
with at least 100 requests each.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from harness.errors import AttemptFailed, Boundary, HarnessError, WorkStopped
from harness.models.providers.base import ProviderModel
from harness.models.providers.transport import MOST_BYTES
from harness.models.providers.verdict import kind_of_status

MARK = "dosimeter"  # name of our mark in a batch's metadata
EXPIRED = "expired"  # class of a request that the provider did not come to, and does not charge
_SKEW = 600.0  # seconds by which a provider's clock may be behind ours
_PAUSES = (2.0, 5.0, 10.0, 30.0, 60.0)  # seconds between polls, the last one for good
_LOST = 20  # polls in a row that may fail
_TEMPORARY = frozenset(("connection", "timeout", "overload", "rate_limit"))
Sleep = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request as it would be sent: the path of its address, and its body."""

    path: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """A provider's answer to a request of a batch: ``body`` and ``status`` of its response, or the
    class of its ``failure``."""

    call: str
    body: bytes = b""
    failure: str = ""
    status: int = 200


class BatchService(ABC):
    """The batch interface of one provider. All methods raise AttemptFailed(PROVIDER, class)."""

    most: ClassVar[int]  # requests in a batch
    most_bytes: ClassVar[int]  # of the bodies of a batch

    def __init__(self, address: str, key: str, version: str, sleep: Sleep = time.sleep) -> None:
        self._address, self._key, self._version = address.rstrip("/"), key, version
        self._sleep = sleep

    @abstractmethod
    def submit(self, mark: str, requests: Mapping[str, Outgoing]) -> str:
        """Submit requests by name and return the batch's id."""

    @abstractmethod
    def find(self, mark: str, calls: Collection[str], since: float) -> str | None:
        """Return the id of a batch that was submitted with this mark for these calls after
        ``since``, seconds since 1970; None if there is none."""

    @abstractmethod
    def results(self, batch: str) -> Iterator[BatchAnswer]:
        """Yield the answers of a batch that has ended. Calls without one have expired."""

    @abstractmethod
    def _ended(self, batch: str) -> bool: ...

    @abstractmethod
    def _headers(self) -> dict[str, str]: ...

    def wait(self, batch: str, refused: Callable[[], bool] = lambda: False) -> None:
        """Return when a batch has ended, which may take a day. Raises WorkStopped if ``refused``
        returns True before."""
        lost = polls = 0
        while True:
            try:
                if self._ended(batch):
                    return
                lost = 0
            except AttemptFailed as failed:
                lost += 1
                if failed.error_class not in _TEMPORARY or lost == _LOST:
                    raise
            if refused():
                raise WorkStopped("the batches go on at the provider: run this again to fetch them")
            self._sleep(_PAUSES[min(polls, len(_PAUSES) - 1)])
            polls += 1

    def _json(self, method: str, path: str, **content: Any) -> dict[str, Any]:
        try:
            value = json.loads(self._send(method, path, **content))
        except ValueError:
            raise _failed("malformed", "not JSON") from None
        if not isinstance(value, dict):
            raise _failed("malformed", "not an object")
        return value

    def _send(self, method: str, path: str, **content: Any) -> bytes:
        import httpx2

        url = path if path.startswith(f"{self._address}/") else self._address + path
        body = bytearray()
        try:
            with (
                httpx2.Client(timeout=httpx2.Timeout(60.0)) as client,
                client.stream(method, url, headers=self._headers(), **content) as response,
            ):
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > MOST_BYTES * 16:
                        raise _failed("too_large")
                if response.status_code >= 300:
                    raise _failed(
                        kind_of_status(response.status_code), f"HTTP {response.status_code}"
                    )
        except httpx2.TimeoutException:
            raise _failed("timeout") from None
        except httpx2.HTTPError:
            raise _failed("connection") from None
        return bytes(body)


class OpenAIBatches(BatchService):
    """Batches of OpenAI's protocol: a file of requests, and a batch of it."""

    most, most_bytes = 50_000, 190 * 2**20

    def submit(self, mark: str, requests: Mapping[str, Outgoing]) -> str:
        lines = (
            json.dumps({"custom_id": call, "method": "POST", "url": sent.path, "body": sent.body})
            for call, sent in requests.items()
        )
        file = (f"{mark}.jsonl", "\n".join(lines).encode(), "application/jsonl")
        made = self._json("POST", "/files", data={"purpose": "batch"}, files={"file": file})
        endpoints = {sent.path for sent in requests.values()}
        batch = {
            "input_file_id": made.get("id"),
            "endpoint": endpoints.pop(),
            "completion_window": "24h",
            "metadata": {MARK: mark},
        }
        return _id_of(self._json("POST", "/batches", json=batch), "id")

    def find(self, mark: str, calls: Collection[str], since: float) -> str | None:
        after = ""
        while True:
            page = self._json("GET", f"/batches?limit=100{after}")
            batches = _dicts(page.get("data"))
            for batch in batches:
                if isinstance(held := batch.get("metadata"), dict) and held.get(MARK) == mark:
                    return _id_of(batch, "id")
            if not batches or not page.get("has_more"):
                return None
            after = f"&after={_id_of(batches[-1], 'id')}"

    def results(self, batch: str) -> Iterator[BatchAnswer]:
        record = self._json("GET", f"/batches/{batch}")
        if record.get("status") == "failed":  # refused as a whole
            raise _failed("bad_request", "the batch was refused")
        for name in ("output_file_id", "error_file_id"):
            if record.get(name):
                content = self._send("GET", f"/files/{record[name]}/content")
                yield from map(self._answer, _lines(content))

    def _answer(self, line: dict[str, Any]) -> BatchAnswer:
        call, response = str(line.get("custom_id")), line.get("response")
        if isinstance(response, dict) and isinstance(status := response.get("status_code"), int):
            return BatchAnswer(call, json.dumps(response.get("body")).encode(), status=status)
        error = line.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        return BatchAnswer(call, failure=EXPIRED if code == "batch_expired" else "bad_request")

    def _ended(self, batch: str) -> bool:
        status = self._json("GET", f"/batches/{batch}").get("status")
        return status in ("completed", "failed", "expired", "cancelled")

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._key}"}


class AnthropicBatches(BatchService):
    """Message Batches. They carry no mark: a lost one is known by the names of its results."""

    most, most_bytes = 100_000, 240 * 2**20
    _path = "/v1/messages/batches"

    def submit(self, mark: str, requests: Mapping[str, Outgoing]) -> str:
        listed = [{"custom_id": call, "params": sent.body} for call, sent in requests.items()]
        return _id_of(self._json("POST", self._path, json={"requests": listed}), "id")

    def find(self, mark: str, calls: Collection[str], since: float) -> str | None:
        wanted, after = set(calls), ""
        while True:
            page = self._json("GET", f"{self._path}?limit=100{after}")
            for batch in _dicts(page.get("data")):  # newest first
                if _seconds(batch.get("created_at")) < since - _SKEW:
                    return None
                counts = batch.get("request_counts")
                total = sum(counts.values()) if isinstance(counts, dict) else 0
                name = _id_of(batch, "id")
                if total == len(wanted) and self._names(name) == wanted:
                    return name
            if not page.get("has_more"):
                return None
            after = f"&after_id={page.get('last_id')}"

    def _names(self, batch: str) -> set[str]:
        """The names of a batch's requests, which it lists when it has ended."""
        self.wait(batch)
        return {answer.call for answer in self.results(batch)}

    def results(self, batch: str) -> Iterator[BatchAnswer]:
        for line in _lines(self._send("GET", f"{self._path}/{batch}/results")):
            call, result = str(line.get("custom_id")), line.get("result")
            kind = result.get("type") if isinstance(result, dict) else None
            if kind == "succeeded":
                yield BatchAnswer(call, json.dumps(line["result"].get("message")).encode())
            elif kind in ("expired", "canceled"):
                yield BatchAnswer(call, failure=EXPIRED)
            else:
                yield BatchAnswer(call, json.dumps((result or {}).get("error")).encode())

    def _ended(self, batch: str) -> bool:
        return self._json("GET", f"{self._path}/{batch}").get("processing_status") == "ended"

    def _headers(self) -> dict[str, str]:
        return {"x-api-key": self._key, "anthropic-version": "2023-06-01"}


class GoogleBatches(BatchService):
    """Batches of the Gemini API, with their requests and responses inline."""

    most, most_bytes = 10_000, 18 * 2**20

    def submit(self, mark: str, requests: Mapping[str, Outgoing]) -> str:
        listed = [
            {"request": sent.body, "metadata": {"key": call}} for call, sent in requests.items()
        ]
        batch = {"displayName": mark, "inputConfig": {"requests": {"requests": listed}}}
        path = f"/v1beta/models/{self._version}:batchGenerateContent"
        return _id_of(self._json("POST", path, json={"batch": batch}), "name")

    def find(self, mark: str, calls: Collection[str], since: float) -> str | None:
        token = ""
        while True:
            page = self._json("GET", f"/v1beta/batches?pageSize=100{token}")
            for batch in _dicts(page.get("operations")):
                held = batch.get("metadata")
                if isinstance(held, dict) and held.get("displayName") == mark:
                    return _id_of(batch, "name")
            if not page.get("nextPageToken"):
                return None
            token = f"&pageToken={page['nextPageToken']}"

    def results(self, batch: str) -> Iterator[BatchAnswer]:
        record = self._json("GET", f"/v1beta/{batch}")
        if "error" in record:
            raise _failed("bad_request", "the batch failed")
        response = record.get("response")
        inlined = response.get("inlinedResponses") if isinstance(response, dict) else None
        for line in _dicts(inlined.get("inlinedResponses") if isinstance(inlined, dict) else None):
            held = line.get("metadata")
            call = str(held.get("key")) if isinstance(held, dict) else ""
            response = line.get("response")
            yield BatchAnswer(call, json.dumps(line if response is None else response).encode())

    def _ended(self, batch: str) -> bool:
        return self._json("GET", f"/v1beta/{batch}").get("done") is True

    def _headers(self) -> dict[str, str]:
        return {"x-goog-api-key": self._key}


_SERVICES: Mapping[str, type[BatchService]] = {
    "OpenAIModel": OpenAIBatches,
    "AnthropicModel": AnthropicBatches,
    "GoogleModel": GoogleBatches,
}


def batch_service(model: ProviderModel, sleep: Sleep = time.sleep) -> BatchService:
    """Return the batch interface of a model's provider. Raises HarnessError if it has none."""
    cls = _SERVICES.get(type(model).__name__)
    if cls is None:
        raise HarnessError(f"model {model.name!r}: its provider has no batch interface here")
    return cls(*model.endpoint, sleep)


def _failed(kind: str, detail: str = "") -> AttemptFailed:
    return AttemptFailed(Boundary.PROVIDER, kind, detail)


def _id_of(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    if not isinstance(value, str) or not value:
        raise _failed("malformed", "a batch without an id")
    return value


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _lines(content: bytes) -> Iterator[dict[str, Any]]:
    """The objects of a JSONL file. A line that is none is left out: its call has expired."""
    for line in content.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


def _seconds(time_text: Any) -> float:
    """Seconds since 1970 of an RFC 3339 time; the end of time for what is none."""
    try:
        return datetime.fromisoformat(time_text).timestamp()
    except (TypeError, ValueError):
        return float("inf")
