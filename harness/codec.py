"""The harness's records as canonical JSON, strictly there and back. Bytes are base64.

Each object is ``{"body": …, "format": "dosimeter/<kind>/<version>"}`` in RFC 8785 form. Records of
a sub-package have their codec beside them.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from harness.episode import Cell, Episode, Grade
from harness.model import Try
from registry.canonical import canonical_bytes
from registry.errors import BrokenPromise

T = TypeVar("T")

_CONFIG = ConfigDict(extra="forbid", strict=True, ser_json_bytes="base64", val_json_bytes="base64")


class Codec(Generic[T]):
    """Converts the values of one type to bytes and back. Its schema is built at first use."""

    def __init__(self, kind: str, version: int, cls: Any) -> None:
        self._kind = kind
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

    def encode(self, value: T) -> bytes:
        """Return the canonical bytes of a value."""
        envelope = self._envelope.model_construct(format=self._format, body=value)
        return canonical_bytes(envelope.model_dump(mode="json"))

    def decode(self, data: bytes, place: str = "") -> T:
        """Return the value of its bytes. Raises BrokenPromise, which names ``place``, the key that
        they were read from, and quotes nothing of the bytes."""
        try:
            envelope: Any = self._envelope.model_validate_json(data)
        except ValidationError as error:
            # The message names the field but never the value, which may be a secret.
            first = error.errors(include_input=False, include_context=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise BrokenPromise(
                f"{place or self._kind}: not a {self._format}: {where}: {first['type']}"
            ) from None
        body: T = envelope.body
        return body


_EPISODE: Codec[Episode] = Codec("episode", 1, Episode)
_GRADE: Codec[Grade] = Codec("grade", 1, Grade)
_FAILED: Codec[Try] = Codec("try", 1, Try)
_CELLS: Codec[tuple[Cell, ...]] = Codec("cells", 1, tuple[Cell, ...])

encode_episode, decode_episode = _EPISODE.encode, _EPISODE.decode
encode_grade, decode_grade = _GRADE.encode, _GRADE.decode
encode_try, decode_try = _FAILED.encode, _FAILED.decode
encode_cells, decode_cells = _CELLS.encode, _CELLS.decode
