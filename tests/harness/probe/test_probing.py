"""Probes from memory: what is asked holds no data, what anybody could know counts for nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from generators.catalog import INSTALLED
from generators.seed import Seed
from generators.task import Family, TaskInstance
from generators.templates.family import template_family
from generators.templates.library import NAMES, library_text
from harness.model import Model, ModelRequest, Usage
from harness.models.scripted import Memory, SolvingAgent
from harness.probe.probing import (
    PROBE_CODEC,
    name_call,
    probe_digest,
    probe_messages,
    run_probe,
    score_probe,
)
from harness.spending.purchases import CallKind, Charge, Payer, ReplyStore
from harness.storage import probe_key
from registry.ledger.records import ModelPin, record_digest
from registry.sealing import new_identity
from registry.stores.folder import FolderStore
from tests.ledgers import keys_of

FAMILIES = {
    each.name: each
    for each in INSTALLED.families()
    if each.name != "program_repair"  # a program must be run: tests/harness/episodes
}
PIN = ModelPin("asked", "scripted", "honest/1")


def instance_of(name: str, number: int = 8) -> TaskInstance:
    return INSTALLED.family(name).generate("easy", Seed(bytes([number]) * 32))


def block(value: Any) -> str:
    return f"I remember.\n<answer>\n{json.dumps(value)}\n</answer>"


@pytest.mark.parametrize("task", FAMILIES.values(), ids=FAMILIES)
def test_the_key_scores_one_and_who_opens_no_file_next_to_nothing(task: Family) -> None:
    instance = instance_of(task.name)
    assert score_probe(instance, block(task.key(instance.truth)), INSTALLED) == 1
    for name in ("empty", "everything", "prior"):
        assert score_probe(instance, block(task.nulls(instance)[name]), INSTALLED) <= 0.15
    assert score_probe(instance, "I do not know.", INSTALLED) == 0
    other = instance_of(task.name, 9)
    assert score_probe(instance, block(task.key(other.truth)), INSTALLED) < 0.5


@pytest.mark.parametrize("task", FAMILIES.values(), ids=FAMILIES)
def test_a_question_names_the_files_and_holds_none_of_them(task: Family) -> None:
    instance = instance_of(task.name)
    made = probe_messages(instance, INSTALLED)
    assert made is not None
    text = made[1].text
    assert text.startswith(instance.brief.prompt.rstrip())
    for asset in instance.brief.assets:
        assert f"{asset.digest.removeprefix('sha256:')}  {asset.path}" in text
        if asset.media_type.startswith("text/") and len(asset.data) > 40:
            assert asset.data.decode()[:40] not in text
    assert not made[1].images


@pytest.fixture
def replies(tmp_path: Path) -> ReplyStore:
    identity, _ = new_identity()
    call = name_call("probe", probe_digest(), "study", 1, PIN, instance_of("compute_average").id)
    charge = Charge(CallKind.PROBE, Payer.of(PIN), call, 1)
    return ReplyStore(FolderStore(tmp_path), charge, keys_of(identity))


def ask(model: Model, instance: TaskInstance, replies: ReplyStore) -> float:
    messages = probe_messages(instance, INSTALLED)
    assert messages is not None
    return run_probe(instance, messages, model, replies, INSTALLED).score


def test_agents_know_what_they_have_read_and_nothing_else(replies: ReplyStore) -> None:
    instance = instance_of("compute_average")
    files = frozenset(a.digest.removeprefix("sha256:") for a in instance.brief.assets)
    key = FAMILIES["compute_average"].key(instance.truth)
    assert ask(SolvingAgent("a", 0.9, Memory({files: key})), instance, replies) == 1
    assert ask(SolvingAgent("b", 0.0, Memory({})), instance, replies) == 0
    assert ask(SolvingAgent("c", 0.0), instance, replies) == 0


def test_a_kept_probe_is_sealed_and_counts_once(replies: ReplyStore, tmp_path: Path) -> None:
    instance = instance_of("compute_average")
    ask(SolvingAgent("asked", 0.0), instance, replies)
    kept = PROBE_CODEC.find(
        replies.store, probe_key(record_digest(PIN), replies.charge.subject), replies.keys
    )
    assert kept is not None
    assert (kept.instance, kept.score, kept.charge.wave) == (instance.id, 0, 1)
    for path in tmp_path.rglob("*.age"):
        assert path.read_bytes().startswith(b"age-encryption.org/")
        assert instance.id.removeprefix("sha256:") not in path.name
    assert instance.id not in repr(kept)


class Paid:
    """A model whose replies cost, and which says when it is asked."""

    name, trusted, paid = "paid", True, True

    def __init__(self) -> None:
        self.asked = 0

    def respond(self, request: ModelRequest) -> Any:
        self.asked += 1
        assert request.tools == ()
        return SolvingAgent("h", 0.0).respond(request)


def test_a_reply_is_bought_once_whatever_happens_after(replies: ReplyStore) -> None:
    instance, model = instance_of("compute_average"), Paid()
    messages = probe_messages(instance, INSTALLED)
    assert messages is not None
    for _ in range(2):  # the second finds the reply of the first
        run_probe(instance, messages, model, replies, INSTALLED)
    assert model.asked == 1
    assert replies.usages == [Usage()]


def test_answers_to_tasks_without_a_block_are_asked_for_as_text() -> None:
    name = sorted(NAMES)[0]
    made = template_family(f"{name}.yml", library_text(name))
    catalog, seen = INSTALLED.with_templates([made]), 0
    for question in made.questions[:12]:
        instance = made.generate(question, Seed(b"t" * 32))
        messages = probe_messages(instance, catalog)
        if messages is None:
            continue
        seen += 1
        key = made.key(instance.truth)
        held = next((text for text in key["files"].values() if text), key["response"])
        assert '"answer"' in messages[0].text
        assert score_probe(instance, block({"answer": held}), catalog) == 1
        assert score_probe(instance, block({"answer": "something else"}), catalog) == 0
        spiked = SolvingAgent("s", 0.0, Memory({}, {instance.brief.prompt: key}))
        reply = spiked.respond(ModelRequest(messages, (), Seed(b"s" * 32)))
        assert score_probe(instance, reply.message.text, catalog) == 1
    assert seen
