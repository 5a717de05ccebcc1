"""Exposure probes: is an instance known without its data? (spec/statistics.md, S1)

One question, no tools, no input files: the task as it was set, and for each input file its name and
SHA-256, as a release lists them, since many tasks are worded the same for every instance. A family
may word the question itself (``ClosedBook``). The reply is graded by those of the rubric's exact
checks that differ from instance to instance: values that are the same everywhere prove nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from generators.catalog import Catalog
from generators.grading import Answer, Check, Rubric, check_answer, parse_answer, score_verdicts
from generators.seed import Seed
from generators.task import Brief, ClosedBook, TaskInstance
from harness.agent import buy_reply
from harness.model import PROBE_MARK, Message, Model, ModelRequest, Role
from harness.probing.records import Probe, name_call, save_probe
from harness.spending import ReplyStore
from harness.storage import hex_of
from registry.canonical import digest_value
from registry.ledger import ModelPin

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
EXAMPLES = 3  # instances that show which criteria differ


def probe_messages(instance: TaskInstance, catalog: Catalog) -> tuple[Message, ...] | None:
    """Return the question on an instance; None if it has no closed-book form: no criterion that
    differs between instances, or files that only need to exist."""
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
    """Return the share of what differs between instances that the reply has right, weighted as in
    the rubric: 0 for a reply without a valid block."""
    answer = parse_answer(reply)
    if answer is None:
        return 0.0
    if not instance.brief.answer_schema:
        answer = _text_answer(instance.brief, answer)
    differing = _differing(instance, catalog)
    verdicts = tuple(
        verdict if criterion.metarubric in differing else None
        for criterion, verdict in zip(
            instance.rubric.criteria, check_answer(instance.rubric, answer), strict=True
        )
    )
    return score_verdicts(instance.rubric, verdicts) or 0.0


def probe_digest() -> str:
    """Return the digest of how models are probed."""
    texts = [SYSTEM, TEXT_SCHEMA, _FILES]
    return digest_value({"texts": texts, "examples": EXAMPLES, "compared": "checks"})


def probe_call(study: str, wave: int, pin: ModelPin, instance: str) -> str:
    """Return the name of a probe."""
    return name_call("probe", probe_digest(), study, wave, pin, instance)


def run_probe(
    instance: TaskInstance,
    messages: tuple[Message, ...],
    model: Model,
    replies: ReplyStore,
    catalog: Catalog,
) -> Probe:
    """Ask, keep the reply before it is read, and store its score. Raises AttemptFailed."""
    seed = Seed.from_hex(hex_of(replies.charge.subject))
    reply = buy_reply(model, replies.probe(), 0, ModelRequest(messages, (), seed))
    score = score_probe(instance, reply.message.text, catalog)
    probe = Probe(replies.charge, instance.id, score, reply.served_version)
    save_probe(replies, probe)
    return probe


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


def _differing(instance: TaskInstance, catalog: Catalog) -> frozenset[str]:
    spec = instance.spec
    return _differing_of(catalog, spec.family, spec.version, spec.difficulty)


@lru_cache(maxsize=1024)
def _differing_of(catalog: Catalog, family: str, version: str, difficulty: str) -> frozenset[str]:
    """The metarubrics with an exact check that differs between instances: found from a few of
    public seeds, so that it is the same for all instances of a stratum."""
    instances = example_instances(catalog, family, version, difficulty)
    examples = [_checks(instance.rubric) for instance in instances]
    keys = set().union(*examples)
    return frozenset(k for k in keys if any(e.get(k) != examples[0].get(k) for e in examples))


def _checks(rubric: Rubric) -> Mapping[str, list[Check]]:
    checks: dict[str, list[Check]] = {}
    for criterion in rubric.criteria:
        if criterion.check is not None and criterion.weight > 0:
            checks.setdefault(criterion.metarubric, []).append(criterion.check)
    return checks


def example_instances(
    catalog: Catalog, family: str, version: str, difficulty: str
) -> list[TaskInstance]:
    """Return a few instances of a stratum from public seeds."""
    generate = catalog.family(family, version).generate
    seeds = (Seed(bytes([number]) * 32) for number in range(1, EXAMPLES + 1))
    return [generate(difficulty, seed) for seed in seeds]
