"""The harness's records as canonical JSON, strictly there and back. Bytes are base64.

Each object is ``{"body": …, "format": "dosimeter/<kind>/<version>"}`` in RFC 8785 form.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from harness.episode import Cell, Episode, Grade
from harness.episodes import EpisodeResult
from harness.model import Reply, Try
from harness.spending import Judgement, Probe, TextProbe
from registry.canonical import canonical_bytes
from registry.errors import BrokenPromise

T = TypeVar("T")

_CONFIG = ConfigDict(extra="forbid", strict=True, ser_json_bytes="base64", val_json_bytes="base64")


class _Codec(Generic[T]):
    """Between the values of one type and their bytes. Its schema is built at first use."""

    def __init__(self, kind: str, version: int, cls: Any) -> None:
        self._format = f"dosimeter/{kind}/{version}"
        self._cls = cls

    @cached_property
    def _envelope(self) -> type[BaseModel]:
        # Both types are made at run time, which a static checker cannot follow.
        fields: dict[str, Any] = {"format": (Literal[self._format], ...), "body": (self._cls, ...)}
        envelope: type[BaseModel] = create_model(
            "Envelope",
            __config__=_CONFIG,  # the dataclasses inside inherit it
            **fields,
        )
        return envelope

    def wrote(self, data: bytes) -> bool:
        """Whether these bytes say that they are of this kind and version."""
        return data.endswith(b',"format":"%s"}' % self._format.encode())

    def encode(self, value: T) -> bytes:
        envelope = self._envelope.model_construct(format=self._format, body=value)
        return canonical_bytes(envelope.model_dump(mode="json"))

    def decode(self, data: bytes, place: str) -> T:
        try:
            envelope: Any = self._envelope.model_validate_json(data)
        except ValidationError as error:
            # The message names the field but never the value, which may be a secret.
            first = error.errors(include_input=False, include_context=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise BrokenPromise(
                f"{place}: not a {self._format}: {where}: {first['type']}"
            ) from None
        body: T = envelope.body
        return body


_EPISODE: _Codec[Episode] = _Codec("episode", 1, Episode)
_GRADE: _Codec[Grade] = _Codec("grade", 1, Grade)
_REPLY: _Codec[Reply] = _Codec("reply", 1, Reply)
_JUDGEMENT: _Codec[Judgement] = _Codec("judgement", 1, Judgement)
_PROBE: _Codec[Probe] = _Codec("probe", 1, Probe)
_TEXT_PROBE: _Codec[TextProbe] = _Codec("text-probe", 1, TextProbe)
_TRY: _Codec[Try] = _Codec("try", 1, Try)
_CELLS: _Codec[tuple[Cell, ...]] = _Codec("cells", 1, tuple[Cell, ...])
_RESULT: _Codec[EpisodeResult] = _Codec("result", 1, EpisodeResult)


def encode_episode(episode: Episode) -> bytes:
    return _EPISODE.encode(episode)


def decode_episode(data: bytes, place: str = "episode") -> Episode:
    """The episode of its bytes. Raises BrokenPromise, as every decoder here."""
    return _EPISODE.decode(data, place)


def encode_grade(grade: Grade) -> bytes:
    return _GRADE.encode(grade)


def decode_grade(data: bytes, place: str = "grade") -> Grade:
    return _GRADE.decode(data, place)


def encode_reply(reply: Reply) -> bytes:
    return _REPLY.encode(reply)


def decode_reply(data: bytes, place: str = "reply") -> Reply:
    return _REPLY.decode(data, place)


def encode_judgement(judgement: Judgement) -> bytes:
    return _JUDGEMENT.encode(judgement)


def decode_judgement(data: bytes, place: str = "judgement") -> Judgement:
    """A judge's reply; of those kept before their purpose was, the reply alone."""
    if _REPLY.wrote(data):
        return Judgement(_REPLY.decode(data, place), None)
    return _JUDGEMENT.decode(data, place)


def encode_probe(probe: Probe) -> bytes:
    return _PROBE.encode(probe)


def decode_probe(data: bytes, place: str = "probe") -> Probe:
    return _PROBE.decode(data, place)


def encode_text_probe(probe: TextProbe) -> bytes:
    return _TEXT_PROBE.encode(probe)


def decode_text_probe(data: bytes, place: str = "text probe") -> TextProbe:
    return _TEXT_PROBE.decode(data, place)


def encode_try(failed: Try) -> bytes:
    return _TRY.encode(failed)


def decode_try(data: bytes, place: str = "try") -> Try:
    return _TRY.decode(data, place)


def encode_cells(cells: tuple[Cell, ...]) -> bytes:
    return _CELLS.encode(cells)


def decode_cells(data: bytes, place: str = "cells") -> tuple[Cell, ...]:
    return _CELLS.decode(data, place)


def encode_result(result: EpisodeResult) -> bytes:
    return _RESULT.encode(result)


def decode_result(data: bytes, place: str = "result") -> EpisodeResult:
    return _RESULT.decode(data, place)
