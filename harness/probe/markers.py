"""Marker probes: which of the markers belongs to a title?

One question about each instance, with its title and the markers in an order of its own, and nothing
else of it. The order follows from the title alone, so that it shows nothing of the marker. A reply
counts whatever it is: one that names no marker, or several, names none, and is not right.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from generators.catalog import Catalog
from generators.seed import Seed
from generators.task import TaskInstance
from generators.title import MARKERS
from harness.model import MARKER_MARK, Message, Model, Role
from harness.probe.probing import Probe, ask_once, save_probe
from harness.spending.purchases import ReplyStore
from harness.storage import Codec
from registry.canonical import digest_value
from registry.files import read_beside

_TEXTS: dict[str, str] = read_beside(__file__, "prompts.yaml")
SYSTEM = _TEXTS["marker"].replace("{mark}", MARKER_MARK)
_QUESTION, _READ = _TEXTS["marker_question"], _TEXTS["marker_read"]
_WORD = re.compile(rf"\b(?:{'|'.join(MARKERS)})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerProbe(Probe):
    """The result of a marker probe: the marker ``named``, "" for none; ``score`` is 1 if it is the
    instance's, else 0."""

    named: str


MARKER_CODEC: Codec[MarkerProbe] = Codec("marker-probe", 1, MarkerProbe)


def marker_messages(instance: TaskInstance, catalog: Catalog) -> tuple[Message, ...]:
    """Return the question on an instance. The catalog is that of the other probes' questions."""
    seed = Seed(hashlib.sha256(instance.title.encode()).digest()).child("markers")
    listed = ", ".join(seed.rng().shuffle(MARKERS))
    question = _QUESTION.format(title=instance.title, markers=listed)
    return Message(Role.SYSTEM, SYSTEM), Message(Role.USER, question)


def read_marker(reply: str) -> str:
    """Return the only marker that a reply names; "" for none or several."""
    named = {word.lower() for word in _WORD.findall(reply)}
    return named.pop() if len(named) == 1 else ""


def marker_digest() -> str:
    """Return the digest of how models are asked for markers."""
    return digest_value({"texts": [SYSTEM, _QUESTION], "markers": list(MARKERS), "read": _READ})


def run_marker_probe(
    instance: TaskInstance,
    messages: tuple[Message, ...],
    model: Model,
    replies: ReplyStore,
    catalog: Catalog,
) -> MarkerProbe:
    """Ask, keep the reply before it is read, and store its result. Raises AttemptFailed."""
    reply = ask_once(messages, model, replies)
    named = read_marker(reply.message.text)
    probe = MarkerProbe(
        charge=replies.charge,
        instance=instance.id,
        score=float(named == instance.marker),
        served_version=reply.served_version,
        named=named,
    )
    return save_probe(replies, MARKER_CODEC, probe)
