"""The store of replies: what is paid for is kept with its charge, once, and read again by kind."""

from __future__ import annotations

from decimal import Decimal

from generators.seed import Seed
from generators.task import TaskSpec
from harness.episode import Cell, Episode, StopReason, Turn
from harness.model import Message, Reply, Role, Try, Usage
from harness.spending.budget import PricedModel, Spend
from harness.spending.prices import Price
from harness.spending.purchases import (
    FAILED_CALL_CODEC,
    PAID_CALL_CODEC,
    CallKind,
    Charge,
    Payer,
    ReplyStore,
    inherited_replies,
    read_episode_spends,
    read_episode_usages,
    read_usages,
)
from harness.storage import EPISODE_CODEC, attempt_key, is_failed, is_reply
from registry.ledger.records import JudgePin, ModelPin
from registry.sealing import new_identity
from registry.stores.base import MemoryStore
from tests.ledgers import keys_of

IDENTITY, RECIPIENT = new_identity()
MODEL = Payer.of(ModelPin("m", "openai", "m-1"))
JUDGE = Payer.of(JudgePin("j", "openai", "j-1", "sha256:p"))
EPISODE, CALL = "sha256:" + "e" * 64, "sha256:" + "c" * 64
CHARGES = {
    CallKind.EPISODE: Charge(CallKind.EPISODE, MODEL, EPISODE, 2),
    CallKind.JUDGE: Charge(CallKind.JUDGE, JUDGE, "a sheet", None),
    CallKind.PROBE: Charge(CallKind.PROBE, MODEL, CALL, 2),
}


KEYS = keys_of(IDENTITY)


def reply(tokens: int) -> Reply:
    return Reply(Message(Role.ASSISTANT, "{}"), Usage(tokens, 0), "v")


def replies_of(kind: CallKind, store: MemoryStore) -> ReplyStore:
    return ReplyStore(store, CHARGES[kind], KEYS)


def test_every_kind_of_call_is_kept_with_its_charge_and_read_by_kind() -> None:
    store = MemoryStore()
    for number, kind in enumerate(CallKind):
        replies = replies_of(kind, store)
        journal = {
            CallKind.EPISODE: replies.attempt(1),
            CallKind.JUDGE: replies.judge_call(CALL),
            CallKind.PROBE: replies.probe(),
        }[kind]
        journal.keep_failed(0, Try("overload", 529, 0.1, b"busy"))
        journal.keep_failed(0, Try("unfinished abort", None, 0.1, usage=Usage(7, 1)))
        assert journal.load(0) is None
        assert journal.save(0, reply(number)) == reply(number)
        assert journal.save(0, reply(99)) == reply(number), "the first one counts"
        assert journal.load(0) == reply(number)
        usages = [Usage(7, 1), Usage(number, 0), Usage(99, 0)]
        assert replies.usages == usages, "all were paid for"
        assert dict(replies.failed) == {"overload": 1, "unfinished abort": 1}
        kept = list(read_usages(store, KEYS, kind))
        assert kept == [(CHARGES[kind], Usage(number, 0)), (CHARGES[kind], Usage(7, 1))]
    paid, failed = (list(filter(kind, store.list(""))) for kind in (is_reply, is_failed))
    assert (len(paid), len(failed)) == (len(CallKind), 2 * len(CallKind))
    assert PAID_CALL_CODEC.read(store, paid[0], KEYS).reply in map(reply, range(len(CallKind)))
    assert FAILED_CALL_CODEC.read(store, failed[0], KEYS).failed.raw == b"busy"


def test_an_attempt_inherits_the_replies_of_those_before() -> None:
    """Though their journals are gone: a stored attempt holds all of its own."""
    store = MemoryStore()
    replies = replies_of(CallKind.EPISODE, store)
    first = replies.attempt(1)
    first.save(0, reply(1))
    first.save(1, reply(9))  # and its sandbox failed before this turn was kept
    first.keep_failed(1, Try("overload", 529, 0.1, b"busy"))
    one, names = first.fold(failed(1, (reply(1),), replies=2))
    assert (one.paid, [each.turn for each in one.kept]) == ((0,), [1, 1])
    assert {each.failed.raw for each in one.kept if each.failed} == {b"busy"}
    store.delete(names)
    second = replies.attempt(2, inherited_replies([one]))
    second.save(2, reply(3))
    two, names = second.fold(failed(2, (reply(1), reply(9), reply(3)), replies=3))
    assert (two.paid, two.kept) == ((2,), ())
    store.delete(names)
    assert list(store.list()) == []
    third = replies.attempt(3, inherited_replies([one, two]))
    assert [third.load(turn) for turn in range(4)] == [reply(1), reply(9), reply(3), None]


def test_a_journal_that_another_process_left_is_read_once_more() -> None:
    store = MemoryStore()
    killed = replies_of(CallKind.EPISODE, store).attempt(1)
    killed.save(0, reply(1))
    killed.save(1, reply(2))
    killed.keep_failed(2, Try("overload", 529, 0.1, b"busy"))
    again = replies_of(CallKind.EPISODE, store).attempt(1)
    assert again.load(0) == reply(1)  # and then its sandbox failed
    made, names = again.fold(failed(1, (reply(1),), replies=1))
    assert len(names) == 3
    assert made.paid_replies() == {0: reply(1), 1: reply(2)}
    assert [each.failed.raw for each in made.kept if each.failed] == [b"busy"]


def test_what_is_left_of_a_stored_attempts_journal_costs_nothing_twice() -> None:
    """A worker that dies between the attempt and the end of its journal. A failed request that was
    billed is paid for too."""
    store = MemoryStore()
    journal = replies_of(CallKind.EPISODE, store).attempt(1)
    journal.keep_failed(0, Try("unfinished abort", None, 0.1, usage=Usage(1, 1)))
    journal.save(0, reply(5))
    made, _ = journal.fold(failed(1, (reply(5),), replies=1))
    EPISODE_CODEC.write(store, attempt_key(EPISODE, 1), made, KEYS)
    second = replies_of(CallKind.EPISODE, store).attempt(2, inherited_replies([made]))
    second.save(1, reply(7))
    second.keep_failed(2, Try("unfinished abort", None, 0.1, usage=Usage(2, 1)))
    usages = read_episode_usages(store, KEYS, EPISODE, "openai")
    assert [usage.input_tokens for usage in usages] == [5, 1, 7, 2]


def failed(attempt: int, said: tuple[Reply, ...], replies: int) -> Episode:
    return Episode(
        id=EPISODE, instance="i", run="r", model="m", replicate=0, attempt=attempt,
        steps=tuple(Turn(each, (), 0.0) for each in said), stop=StopReason.FAILED, started="",
        replies=replies,
    )  # fmt: skip


def test_the_cost_of_an_episode_is_that_of_all_its_attempts() -> None:
    store, price = MemoryStore(), Price("openai", "m", *[Decimal(1)] * 4, "", "")
    replies = replies_of(CallKind.EPISODE, store)
    replies.attempt(1).save(0, reply(1_000_000))
    replies.attempt(2, [reply(1_000_000)]).save(1, reply(2_000_000))
    usages = read_episode_usages(store, KEYS, EPISODE, "openai")
    assert usages == [Usage(1_000_000, 0), Usage(2_000_000, 0)]
    spec = TaskSpec("count_circles", "1", "easy", ())
    cells = [Cell(EPISODE, spec, "i", Seed(bytes(32)), name, 0) for name in ("m", "free")]
    models = {"m": PricedModel("m", "openai", price), "free": PricedModel("free", "local", None)}
    spends = list(read_episode_spends(store, lambda _: KEYS, cells, models))
    assert spends == [(cells[0], Spend(Decimal(3)))]
