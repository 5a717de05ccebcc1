"""Exposure probes: is an instance known without its data? (spec/statistics.md, S1)

One question, no tools, no input files: the task as it was set, and for each input file its name and
SHA-256, as a release lists them, since many tasks are worded the same for every instance. A family
may put the question in words of its own (``ClosedBook``). The reply is graded by the rubric's exact
checks, those alone that differ from instance to instance: what anybody could know proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count

from generators.catalog import Catalog
from generators.grading import Answer, Check, Rubric, check_answer, parse_answer, score_verdicts
from generators.seed import Seed
from generators.task import Brief, ClosedBook, TaskInstance
from harness.agent import buy_reply
from harness.codec import (
    decode_judgement,
    decode_probe,
    encode_judgement,
    encode_probe,
    encode_try,
)
from harness.model import PROBE_MARK, Message, Model, ModelRequest, Reply, Role, Try, Usage
from harness.spending import Judgement, Probe, Purpose
from harness.store_keys import probe_key, probe_reply_key, probe_try_key
from registry.canonical import digest_value
from registry.ledger import ModelPin, record_digest
from registry.sealing import decrypt, encrypt
from registry.stores import Store

SYSTEM = f"""\
{PROBE_MARK} You have no tools, and you are not given its input files. You see the task as it was \
set, and for each input file its SHA-256 and name, by which you may recognise the instance from \
a dataset that you have read.

Give the values that are right for this very instance, as far as you remember them; shorten lists \
to what you remember. Where you remember nothing, give your best guess or leave the value out.

End your reply with one JSON object between a line <answer> and a line </answer>. It must fit this \
JSON Schema, but for what you leave out:
{{schema}}"""
TEXT_SCHEMA = (
    '{"type":"object","properties":{"answer":{"type":"string",'
    '"description":"what the final answer, or the file that the task asks for, holds word for '
    'word"}},"required":["answer"],"additionalProperties":false}'
)
_FILES = "Its input files were:\n\n{files}"
EXAMPLES = 3  # instances that tell which criteria differ


def probe_messages(instance: TaskInstance, catalog: Catalog) -> tuple[Message, ...] | None:
    """The question on an instance; None where it has no closed-book form: no criterion that
    differs between instances, or files whose mere presence is asked for."""
    if instance.brief.exists or not _differing(instance, catalog):
        return None
    family = catalog.family(instance.spec.family, instance.spec.version)
    if isinstance(family, ClosedBook):
        text = family.closed_book(instance)
    else:
        text = _question(instance.brief)
    schema = instance.brief.answer_schema or TEXT_SCHEMA
    return Message(Role.SYSTEM, SYSTEM.format(schema=schema)), Message(Role.USER, text)


def score_probe(instance: TaskInstance, reply: str, catalog: Catalog) -> float:
    """The share of what differs between instances that the reply has right, weighted as in the
    rubric. A reply without a valid block knows nothing: 0."""
    answer = parse_answer(reply)
    if answer is None:
        return 0.0
    if not instance.brief.answer_schema:
        answer = _as_asked(instance.brief, answer)
    differing = _differing(instance, catalog)
    verdicts = tuple(
        verdict if criterion.metarubric in differing else None
        for criterion, verdict in zip(
            instance.rubric.criteria, check_answer(instance.rubric, answer), strict=True
        )
    )
    return score_verdicts(instance.rubric, verdicts) or 0.0


def probe_digest() -> str:
    """What pins how models are probed."""
    said = {"texts": [SYSTEM, TEXT_SCHEMA, _FILES], "examples": EXAMPLES, "compared": "checks"}
    return digest_value(said)


def probe_call(study: str, wave: int, pin: ModelPin, instance: str) -> str:
    """The name of a probe."""
    return name_call("probe", probe_digest(), study, wave, pin, instance)


def name_call(kind: str, method: str, study: str, wave: int, pin: ModelPin, instance: str) -> str:
    """The name of what a model is asked once about an instance, in a way whose digest is
    ``method``. An instance's id holds a nonce, so that nobody can guess it."""
    return digest_value(
        {
            kind: method,
            "study": study,
            "wave": wave,
            "model": record_digest(pin),
            "instance": instance,
        }
    )


@dataclass(frozen=True, slots=True)
class ProbeStore:
    """The probes of one model at one wave, encrypted to the study. ``bought`` and ``failed``
    grow by what is bought, and by what fails, from now on."""

    store: Store
    pin: ModelPin
    wave: int
    call: str
    recipients: tuple[str, ...]
    identities: tuple[str, ...] = field(repr=False)
    bought: list[Usage] = field(default_factory=list, compare=False)
    failed: list[str] = field(default_factory=list, compare=False)  # by class

    @property
    def digest(self) -> str:
        return record_digest(self.pin)

    def load(self, turn: int) -> Reply | None:
        """The reply that was bought, if any. There is one turn."""
        key = probe_reply_key(self.digest, self.call)
        if not self.store.exists(key):
            return None
        return decode_judgement(decrypt(self.store.get(key), self.identities, key), key).reply

    def save(self, turn: int, reply: Reply) -> Reply:
        """Keep a reply; where there is one already, that one counts."""
        self.bought.append(reply.usage)
        pin = self.pin
        purpose = Purpose(pin.name, pin.provider, pin.version, self.wave, self.call)
        data = encrypt(encode_judgement(Judgement(reply, purpose)), self.recipients)
        if self.store.put(probe_reply_key(self.digest, self.call), data):
            return reply
        kept = self.load(turn)
        return reply if kept is None else kept

    def keep_try(self, turn: int, failed: Try) -> None:
        self.failed.append(failed.kind)
        sealed = encrypt(encode_try(failed), self.recipients)
        for number in count():
            if self.store.put(probe_try_key(self.digest, self.call, number), sealed):
                return


def run_probe(
    instance: TaskInstance,
    messages: tuple[Message, ...],
    model: Model,
    journal: ProbeStore,
    catalog: Catalog,
) -> Probe:
    """Ask, keep the reply before it is read, and keep what it was worth. Raises AttemptFailed."""
    seed = Seed.from_hex(journal.call.removeprefix("sha256:"))
    reply = buy_reply(model, journal, 0, ModelRequest(messages, (), seed))
    made = Probe(
        journal.call, journal.wave, journal.pin.name, instance.id,
        score_probe(instance, reply.message.text, catalog), reply.served_version,
    )  # fmt: skip
    sealed = encrypt(encode_probe(made), journal.recipients)
    journal.store.put(probe_key(journal.digest, journal.call), sealed)
    return made


def read_probe(store: Store, model: str, call: str, identities: tuple[str, ...]) -> Probe | None:
    """A kept probe, None where there is none; ``model`` is the digest of its pin."""
    key = probe_key(model, call)
    if not store.exists(key):
        return None
    return decode_probe(decrypt(store.get(key), identities, key), key)


def _question(brief: Brief) -> str:
    """The task first, word for word, then its files as ``sha256sum`` lists them."""
    lines = [f"{a.digest.removeprefix('sha256:')}  {a.path}" for a in brief.assets if a.data]
    listed = "\n".join(lines)
    return "\n\n".join([brief.prompt.rstrip(), *([_FILES.format(files=listed)] if lines else [])])


def _as_asked(brief: Brief, answer: Answer) -> Answer:
    """An answer to a task that asks for no block: its text stands for the final message, and for
    the file that is looked at."""
    text = answer.block.get("answer")
    held = text if isinstance(text, str) else ""
    return Answer({}, {path: held.encode() for path in brief.collect}, held)


def _differing(instance: TaskInstance, catalog: Catalog) -> frozenset[str]:
    spec = instance.spec
    return _differing_of(catalog, spec.family, spec.version, spec.difficulty)


@lru_cache(maxsize=1024)
def _differing_of(catalog: Catalog, family: str, version: str, difficulty: str) -> frozenset[str]:
    """The metarubrics with an exact check that is another for other instances: told from some of
    public seeds, so that it is the same for all instances of a stratum."""
    made = catalog.family(family, version)
    examples = [
        _checks(made.generate(difficulty, Seed(bytes([number]) * 32)).rubric)
        for number in range(1, EXAMPLES + 1)
    ]
    keys = set().union(*examples)
    return frozenset(k for k in keys if any(e.get(k) != examples[0].get(k) for e in examples))


def _checks(rubric: Rubric) -> Mapping[str, list[Check]]:
    found: dict[str, list[Check]] = {}
    for criterion in rubric.criteria:
        if criterion.check is not None and criterion.weight > 0:
            found.setdefault(criterion.metarubric, []).append(criterion.check)
    return found
