"""Objects that a run stores: their names, of which none depends on an arm, and their encoding.

Each object is ``{"format": "dosimeter/<kind>/<version>", "body": …}`` as JSON, encrypted. Its
digests are those of the ciphertext, so the JSON is in no canonical form. An attempt is a line of
that form for all but its turns, then one for each turn. Bytes are base64. Records of a sub-package
have their codec beside them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import count, takewhile
from pathlib import PurePath
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic_core import PydanticSerializationError

from harness.episode import Episode, Grade, Turn
from registry.canonical import digest_bytes
from registry.errors import BrokenPromise, ForeignObject, RegistryError
from registry.ledger.inventory import CALIBRATIONS, CHECKS, episode_stem, grades_folder
from registry.sealing import Keys, run_name
from registry.stores.base import Store

logger = logging.getLogger(__name__)

RESULTS = "results/"
ATTEMPTS = "attempts/"
RESPONSES = "responses/"
RUNS = "runs/"
EPOCHS = "epochs/"
TABLES = "tables/"
JUDGE_CALLS = "judgements/"
PROBES = "probes/"
FOREIGN = "foreign/"  # what somebody else put under a name of the study


def hex_of(digest: str) -> str:
    """The 64 digits of a digest."""
    return digest.removeprefix("sha256:")


def result_key(episode: str) -> str:
    """Key of the grade of the attempt that counts."""
    return f"{episode_stem(RESULTS, hex_of(episode))}.cell"


def attempt_key(episode: str, attempt: int) -> str:
    """Key of a whole attempt, counted from 1."""
    return f"{episode_stem(ATTEMPTS, hex_of(episode))}-{attempt:04d}.cell"


def _episode_of(key: str) -> str:
    """The 64 digits of the episode that a key names."""
    return key.rpartition("/")[2][:64]


def finished_names(store: Store) -> Iterator[str]:
    """Yield the 64 digits of each episode that has a result, in order. Raises StoreError."""
    return map(_episode_of, store.list(RESULTS))


def attempted_names(store: Store, digits: str = "") -> Iterator[str]:
    """Yield the 64 digits of the episode of each attempt, in order, of the episodes whose names
    begin with some ``digits``. Raises StoreError."""
    return map(_episode_of, store.list(episode_stem(ATTEMPTS, digits)))


def replied_names(store: Store) -> Iterator[str]:
    """Yield the 64 digits of the episode of each paid reply, in order. Raises StoreError."""
    return map(_episode_of, store.list(RESPONSES))


def stored_attempts(store: Store, episode: str) -> Iterator[int]:
    """Yield the numbers of an episode's stored attempts, in order. Raises StoreError."""
    return takewhile(lambda number: store.exists(attempt_key(episode, number)), count(1))


def attempt_replies(episode: str, attempt: int) -> str:
    """Common stem of the keys of an attempt's paid replies."""
    return f"{episode_replies(episode)}{attempt:04d}"


def episode_replies(episode: str) -> str:
    """Common stem of the keys of an episode's paid replies."""
    return f"{episode_stem(RESPONSES, hex_of(episode))}."


def judge_replies(judge: str, call: str) -> str:
    """Common stem of the keys of a judge's replies to one call; ``judge`` is the digest of its
    pin, ``call`` that of the request's content."""
    return f"{JUDGE_CALLS}{hex_of(judge)}/{hex_of(call)}"


def probe_replies(model: str, call: str) -> str:
    """Common stem of the keys of the replies to a probe; ``model`` is the digest of its pin."""
    return f"{PROBES}{hex_of(model)}/{hex_of(call)}"


def reply_key(stem: str, turn: int) -> str:
    """Key of the reply to a turn, counted from 0."""
    return f"{stem}-{turn:04d}{_ending(stem)}"


def failed_key(stem: str, turn: int, number: int) -> str:
    """Key of the ``number``-th failed request of a turn, both counted from 0."""
    return f"{stem}-{turn:04d}-{number:04d}{_ending(stem)}"


def _ending(stem: str) -> str:
    return ".cell" if stem.startswith(RESPONSES) else ".age"


def is_reply(key: str) -> bool:
    """Return True for the key of a paid reply, not of a failed request or of a probe's result."""
    return key.rpartition("/")[2].count("-") == 1


def is_failed(key: str) -> bool:
    """Return True for the key of a failed request."""
    return key.rpartition("/")[2].count("-") == 2


def run_key_key(recipient: str) -> str:
    """Key of a run's sealed identity. It is named by the public key, since the manifest, whose
    digest names the run, states this name."""
    return f"{RUNS}{run_name(recipient)}/key.age"


def epoch_folder(recipient: str) -> str:
    """Folder of the epochs of a run, of their heartbeats, and of what its operators ask for."""
    return f"{EPOCHS}{run_name(recipient)}/"


def instances_key(recipient: str) -> str:
    """Key of the instances that a run works on."""
    return f"{RUNS}{run_name(recipient)}/instances.age"


def grade_key(judge: str, episode: str, look: int | None = None) -> str:
    """Key of a judge's grade of an episode; ``judge`` is the digest of its pin, ``look`` the wave
    at which it graded the episode once more."""
    return f"{grades_folder(judge, look)}{hex_of(episode)}.age"


def probe_key(model: str, call: str) -> str:
    """Key of a probe's result; ``model`` is the digest of its pin."""
    return f"{PROBES}{hex_of(model)}/{hex_of(call)}.age"


def check_key(result: str) -> str:
    """Key of the result of a judge check, by its digest."""
    return f"{CHECKS}{hex_of(result)}.json"


def calibration_key(result: str) -> str:
    """Key of the result of a calibration, by its digest."""
    return f"{CALIBRATIONS}{hex_of(result)}.json"


def put_signed(store: Store, key: str, sealed: bytes, keys: Keys) -> bool:
    """Store an object; False if the name is taken. What an author who does not count has put there
    is kept under ``foreign/`` and replaced; without a key to open it, it stays. Raises
    RegistryError."""
    if store.put(key, sealed):
        return True
    if keys.identities or keys.cell:
        found = store.get(key)
        try:
            keys.open(key, found)
        except ForeignObject as error:
            logger.warning("%s: it is set aside", error)
            store.put(f"{FOREIGN}{hex_of(digest_bytes(found))}{PurePath(key).suffix}", found)
            store.replace(key, sealed)
            return True
    return False


T = TypeVar("T")

_CONFIG = ConfigDict(
    extra="forbid",
    strict=True,
    ser_json_bytes="base64",
    val_json_bytes="base64",
    ser_json_inf_nan="constants",  # never null, which would be missing: ``encode`` refuses them
)


class Codec(Generic[T]):
    """Converts the values of one type to bytes and back, strictly. Its schema is built at first
    use."""

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
        """Return the bytes of a value. Raises RegistryError for a text that UTF-8 cannot carry, and
        for a number that is not finite."""
        envelope = self._envelope.model_construct(format=self._format, body=value)
        try:
            data = envelope.model_dump_json().encode()
            if not (b"NaN" in data or b"Infinity" in data) or _is_finite(data):
                return data
            problem = f"{self._kind}: a number in it is not finite, which JSON cannot carry"
        except PydanticSerializationError:
            problem = f"{self._kind}: a text in it has lone surrogates, which JSON cannot carry"
        raise RegistryError(problem)  # out here, so that no traceback shows what it holds

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

    def write(self, store: Store, key: str, value: T, keys: Keys) -> bool:
        """Seal and store a value; False if the name is taken. An object there by an author who does
        not count is moved aside. Raises RegistryError."""
        return put_signed(store, key, keys.seal(key, self.encode(value)), keys)

    def read(self, store: Store, key: str, keys: Keys) -> T:
        """Return a stored value. Raises RegistryError, ForeignObject for one whose author does not
        count."""
        return self.decode(keys.open(key, store.get(key)), key)

    def find(self, store: Store, key: str, keys: Keys) -> T | None:
        """Return a stored value, None if there is none that counts. Raises RegistryError."""
        return next(self.read_each(store, [key] if store.exists(key) else [], keys), None)

    def read_each(self, store: Store, names: Iterable[str], keys: Keys) -> Iterator[T]:
        """Yield the values stored under names, without those that do not count. Raises
        RegistryError."""
        for name in names:
            try:
                value = self.read(store, name, keys)
            except ForeignObject as error:
                logger.warning("%s: it is left out", error)
            else:
                yield value


def _is_finite(data: bytes) -> bool:
    """Report if JSON has no constant such as NaN outside of its texts."""
    found: list[str] = []
    json.loads(data, parse_constant=found.append)
    return not found


_TURN_CODEC: Codec[Turn] = Codec("turn", 1, Turn)


class EpisodeCodec(Codec[Episode]):
    """Converts an episode to lines and back: a line for all but its turns, then one for each turn,
    so that a long one can be read turn by turn."""

    def __init__(self) -> None:
        super().__init__("episode", 1, Episode)

    def encode(self, value: Episode) -> bytes:
        """Return the lines of an episode."""
        head = super().encode(replace(value, steps=()))
        return b"\n".join((head, *map(_TURN_CODEC.encode, value.steps), b""))

    def decode(self, data: bytes, place: str = "") -> Episode:
        """Return the episode of its lines. Raises BrokenPromise as any codec."""
        head, *turns = data.splitlines() or [b""]
        steps = tuple(_TURN_CODEC.decode(line, place) for line in turns)
        return replace(super().decode(head, place), steps=steps)


EPISODE_CODEC = EpisodeCodec()
GRADE_CODEC: Codec[Grade] = Codec("grade", 1, Grade)
