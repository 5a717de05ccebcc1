"""Probes: is an instance known without its data?

A closed-book probe is one question without tools and input files: the task as it was set, and for
each input file its name and SHA-256, as a release lists them, since many tasks are worded the same
for every instance. A family may word the question itself (``ClosedBook``). The reply is graded by
those of the rubric's exact checks that differ from instance to instance: values that are the same
everywhere prove nothing.

Each result is stored once, under a name of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

from generators.catalog import Catalog
from generators.grading.answer import Answer, parse_answer
from generators.grading.checks import Check
from generators.grading.programs import hidden_inputs
from generators.grading.rubric import Rubric, check_answer, score_verdicts
from generators.seed import Seed
from generators.task import Brief, ClosedBook, TaskInstance, TaskSpec
from harness.agent.loop import buy_reply
from harness.model import PROBE_MARK, Message, Model, ModelRequest, Reply, Role
from harness.spending.purchases import Charge, ReplyStore
from harness.storage import Codec, hex_of, probe_key
from registry.canonical import digest_value
from registry.files import read_beside
from registry.ledger.records import ModelPin, pin_digest


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of an exposure probe: ``score`` is the share of the instance's own values that the
    reply had right."""

    charge: Charge
    instance: str = field(repr=False)
    score: float
    served_version: str


PROBE_CODEC: Codec[Probe] = Codec("probe", 1, Probe)
P = TypeVar("P")


def name_call(kind: str, method: str, study: str, wave: int, pin: ModelPin, instance: str) -> str:
    """Return the name of a probe of an instance by a method with this digest. An instance's id
    holds a nonce, so that nobody can guess the name."""
    scope = {"study": study, "wave": wave, "model": pin_digest(pin), "instance": instance}
    return digest_value({kind: method, **scope})


def save_probe(replies: ReplyStore, codec: Codec[P], probe: P) -> P:
    """Store a result beside the replies that it rests on."""
    key = probe_key(replies.charge.payer.pin, replies.charge.subject)
    codec.write(replies.store, key, probe, replies.keys)
    return probe


_TEXTS: dict[str, str] = read_beside(__file__, "prompts.yaml")
SYSTEM = _TEXTS["closed_book"].replace("{mark}", PROBE_MARK)
TEXT_SCHEMA, _FILES = _TEXTS["text_schema"], _TEXTS["files"]
EXAMPLES = 3  # instances that show which criteria differ


def probe_messages(instance: TaskInstance, catalog: Catalog) -> tuple[Message, ...] | None:
    """Return the question on an instance; None if it has no closed-book form: no criterion that
    differs between instances, files that only need to exist, or a program that must be run."""
    unprobed = instance.brief.exists or hidden_inputs(instance.rubric)
    if unprobed or not _differing(instance.spec, catalog):
        return None
    family = catalog.family(instance.spec.family, instance.spec.version)
    if isinstance(family, ClosedBook):
        text = family.closed_book(instance)
    else:
        text = _question(instance.brief)
    schema = instance.brief.answer_schema or TEXT_SCHEMA
    return Message(Role.SYSTEM, SYSTEM.format(schema=schema)), Message(Role.USER, text)


def score_probe(instance: TaskInstance, reply: str, catalog: Catalog) -> float:
    """Return the share of what differs between instances that the reply has right, weighted as in
    the rubric: 0 for a reply without a valid block."""
    answer = parse_answer(reply)
    if answer is None:
        return 0.0
    if not instance.brief.answer_schema:
        answer = _text_answer(instance.brief, answer)
    differing = _differing(instance.spec, catalog)
    verdicts = tuple(
        verdict if part.metarubric in differing else None
        for part, verdict in zip(
            instance.rubric.parts, check_answer(instance.rubric, answer), strict=True
        )
    )
    return score_verdicts(instance.rubric, verdicts) or 0.0


def probe_digest() -> str:
    """Return the digest of how models are probed."""
    texts = [SYSTEM, TEXT_SCHEMA, _FILES]
    return digest_value({"texts": texts, "examples": EXAMPLES, "compared": "checks"})


def ask_once(messages: tuple[Message, ...], model: Model, replies: ReplyStore) -> Reply:
    """Ask a probe's question, and keep the reply before it is read. Raises AttemptFailed."""
    request = ModelRequest(messages, (), Seed.from_hex(hex_of(replies.charge.subject)))
    return buy_reply(model, replies.probe(), 0, request)


def run_probe(
    instance: TaskInstance,
    messages: tuple[Message, ...],
    model: Model,
    replies: ReplyStore,
    catalog: Catalog,
) -> Probe:
    """Ask, keep the reply before it is read, and store its score. Raises AttemptFailed."""
    reply = ask_once(messages, model, replies)
    score = score_probe(instance, reply.message.text, catalog)
    probe = Probe(replies.charge, instance.id, score, reply.served_version)
    return save_probe(replies, PROBE_CODEC, probe)


def _question(brief: Brief) -> str:
    """The task first, word for word, then its files as ``sha256sum`` lists them."""
    lines = [f"{a.digest.removeprefix('sha256:')}  {a.path}" for a in brief.assets if a.data]
    listed = "\n".join(lines)
    return "\n\n".join([brief.prompt.rstrip(), *([_FILES.format(files=listed)] if lines else [])])


def _text_answer(brief: Brief, answer: Answer) -> Answer:
    """An answer to a task that asks for no block: its text is the final message, and the content
    of the files that are graded."""
    value = answer.block.get("answer")
    text = value if isinstance(value, str) else ""
    return Answer({}, {path: text.encode() for path in brief.collect}, text)


@lru_cache(maxsize=1024)
def _differing(spec: TaskSpec, catalog: Catalog) -> frozenset[str]:
    """The metarubrics with an exact check that differs between instances: found from a few of
    public seeds, so that it is the same for all instances of a stratum."""
    examples = [_checks(instance.rubric) for instance in example_instances(spec, catalog)]
    keys = set().union(*examples)
    return frozenset(k for k in keys if any(e.get(k) != examples[0].get(k) for e in examples))


def _checks(rubric: Rubric) -> Mapping[str, list[Check]]:
    checks: dict[str, list[Check]] = {}
    for part in rubric.parts:
        if part.check is not None and part.weight > 0:
            checks.setdefault(part.metarubric, []).append(part.check)
    return checks


def example_instances(spec: TaskSpec, catalog: Catalog) -> list[TaskInstance]:
    """Return a few instances of a stratum from public seeds."""
    generate = catalog.family(spec.family, spec.version).generate
    seeds = (Seed(bytes([number]) * 32) for number in range(1, EXAMPLES + 1))
    return [generate(spec.difficulty, seed) for seed in seeds]
