"""Replies bought in batches: each request once, whatever dies in between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

import pytest

from generators.seed import Seed
from harness.build_model import build_model
from harness.errors import AttemptFailed, HarnessError
from harness.model import Message, ModelRequest, Reply, Role, Usage, close_model
from harness.models.providers.batch import batch_service
from harness.spending.batches import (
    NOT_PAID,
    BatchDesk,
    BatchedModel,
    BatchOutcome,
    batch_bound,
    provider_model,
    uses_batches,
)
from harness.spending.budget import Budget, PricedModel, SpendingLimits
from harness.spending.prices import Price
from harness.spending.purchases import MemoryJournal, Payer
from registry.ledger.records import ModelPin
from registry.sealing import new_identity
from registry.stores import open_store
from tests.batch_server import EXPIRED, INVALID, OVERLOAD, Sold, sell
from tests.ledgers import keys_of

PROVIDERS = ("openai", "anthropic", "google")
KEYS = {"OPENAI_API_KEY": "sk-1", "ANTHROPIC_API_KEY": "sk-2", "GEMINI_API_KEY": "sk-3"}
CALLS = tuple(f"{number:064x}" for number in range(5))
REQUESTS = {
    call: ModelRequest((Message(Role.USER, f"question {call[-1]}"),), (), Seed(bytes(32)))
    for call in CALLS
}
IDENTITY, RECIPIENT = new_identity()
PRICE = Price("p", "*", Decimal(10), Decimal(1), Decimal(12), Decimal(100), "2026-11-01", "a test")
COST = Decimal("0.01")  # of 1,000 tokens in and 100 out at half of this price


class Killed(BaseException):
    """The process ends here."""


def pin_of(sold: Sold, provider: str) -> ModelPin:
    address = f"{sold.url}/v1" if provider == "openai" else sold.url
    settings = {"base_url": address, "batch": True, "context": 1000, "max_tokens": 100}
    texts = tuple((name, json.dumps(value)) for name, value in sorted(settings.items()))
    return ModelPin("m", provider, "v-1", texts)


@pytest.fixture(params=PROVIDERS)
def sold(request: pytest.FixtureRequest) -> Iterator[tuple[Sold, BatchDesk]]:
    with sell() as server:
        pin = pin_of(server, request.param)
        model = build_model(pin, KEYS)
        inner = provider_model(model)  # type: ignore[arg-type]
        service = batch_service(inner, lambda seconds: None)
        store = open_store("memory:")
        desk = BatchDesk(store, Payer.of(pin), "s", inner, service, keys_of(IDENTITY))
        yield server, desk
        close_model(inner)
        assert server.faults == []
        assert server.single == 0, "a request was sent by itself"


Journals = dict[str, MemoryJournal]


def journals() -> Journals:
    return {call: MemoryJournal() for call in CALLS}


def owed(kept: Journals) -> dict[str, ModelRequest]:
    return {call: REQUESTS[call] for call in CALLS if kept[call].load(0) is None}


def test_a_batch_brings_replies_as_single_requests_do(sold: tuple[Sold, BatchDesk]) -> None:
    server, desk = sold
    server.polls = 3
    kept = journals()
    bought = desk.buy(REQUESTS, kept.__getitem__)
    assert set(bought) == set(CALLS)
    for call in CALLS:
        reply = kept[call].load(0)
        assert reply is not None
        assert reply.message.text == "<answer>\n{}\n</answer>"
        assert (reply.served_version, reply.usage.batch) == ("served-1", True)
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (1000, 100)
        assert bought[call].usage == reply.usage
    (batch,) = server.batches
    sent = json.dumps(batch.requests[CALLS[3]])
    assert "question 3" in sent
    assert desk.buy(owed(kept), kept.__getitem__) == {}
    assert len(server.batches) == 1


def test_nothing_at_rest_quotes_a_request(sold: tuple[Sold, BatchDesk]) -> None:
    _, desk = sold
    desk.buy(REQUESTS, journals().__getitem__)
    keys = list(desk.store.list(""))
    assert len(keys) == 3, "the record, the id and the end"
    for key in keys:
        assert desk.store.get(key).startswith(b"age-encryption.org/")


def test_some_fail_and_only_they_are_bought_again(sold: tuple[Sold, BatchDesk]) -> None:
    server, desk = sold
    fates = {"question 1": EXPIRED, "question 2": INVALID, "question 4": OVERLOAD}
    server.fate = lambda body: next((f for q, f in fates.items() if q in json.dumps(body)), "fine")
    kept = journals()
    bought = desk.buy(REQUESTS, kept.__getitem__)
    failures = [bought[call].failure for call in CALLS]
    assert failures == ["", "expired", "bad_request", "", "overload"]
    assert [try_.kind for _, try_ in kept[CALLS[2]].failed] == ["bad_request"]
    server.fate = lambda body: "fine"
    again = desk.buy(owed(kept), kept.__getitem__)
    assert sorted(again) == [CALLS[1], CALLS[2], CALLS[4]]
    assert not owed(kept)
    assert server.bought == {call: 2 if call in again else 1 for call in CALLS}


class LastJournal(MemoryJournal):
    """A journal of a process that dies when it stores a reply."""

    def save(self, turn: int, reply: Reply) -> Reply:
        raise Killed


@pytest.mark.parametrize("moment", ["submitting", "polling", "reading"])
def test_a_killed_process_goes_on_with_its_batch(sold: tuple[Sold, BatchDesk], moment: str) -> None:
    server, desk = sold
    kept, first = journals(), desk

    def die(seconds: float) -> None:
        raise Killed

    if moment == "submitting":  # the provider has the batch, and its id is not stored
        server.deaf = 1
    elif moment == "polling":
        server.polls = 2
        first = replace(desk, service=batch_service(desk.model, die))
    else:
        kept[CALLS[2]] = LastJournal()
    with pytest.raises((Killed, AttemptFailed)):
        first.buy(REQUESTS, kept.__getitem__)
    kept[CALLS[2]] = MemoryJournal()
    desk.buy(owed(kept), kept.__getitem__)
    assert not owed(kept)
    assert server.bought == dict.fromkeys(CALLS, 1), "nothing was bought twice"


def test_a_batch_that_was_never_submitted_is_submitted_then(sold: tuple[Sold, BatchDesk]) -> None:
    server, desk = sold
    server.refused = 1
    kept = journals()
    with pytest.raises(AttemptFailed, match="rate_limit"):
        desk.buy(REQUESTS, kept.__getitem__)
    assert server.batches == []
    desk.buy(REQUESTS, kept.__getitem__)
    assert server.bought == dict.fromkeys(CALLS, 1)


def test_batches_have_at_most_what_the_provider_takes(
    sold: tuple[Sold, BatchDesk], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, desk = sold
    monkeypatch.setattr(type(desk.service), "most", 2)
    desk.buy(REQUESTS, journals().__getitem__)
    assert [len(batch.requests) for batch in server.batches] == [2, 2, 1]
    assert server.bought == dict.fromkeys(CALLS, 1)


def test_the_budget_reserves_before_it_buys(sold: tuple[Sold, BatchDesk]) -> None:
    server, desk = sold
    pin = pin_of(server, "openai")
    model = PricedModel("m", desk.payer.provider, PRICE)
    budget = Budget(SpendingLimits(run=Decimal("0.04")), [model])
    bound = batch_bound(pin, PRICE, budget)
    assert bound == Decimal("0.011"), "half of a full context, written to a cache, and 100 tokens"
    paying = replace(desk, budget=budget, price=PRICE, bound=bound)
    bought = paying.buy(REQUESTS, journals().__getitem__)
    assert [bought[call].failure for call in CALLS] == ["", "", "", NOT_PAID, NOT_PAID]
    (account,) = budget.accounts()
    assert (account.spent, account.reserved) == (3 * COST, 0)


def test_a_budget_without_a_bound_is_refused() -> None:
    budget = Budget(SpendingLimits(run=Decimal(1)), [])
    with pytest.raises(HarnessError, match="state `context` and `max_tokens`"):
        batch_bound(ModelPin("m", "openai", "v"), PRICE, budget)


def test_half_price() -> None:
    single = Usage(1000, 100)
    assert PRICE.cost(single) == 2 * COST
    assert PRICE.cost(replace(single, batch=True)) == COST
    assert replace(PRICE, batch=Decimal(1)).cost(replace(single, batch=True)) == 2 * COST


def test_a_model_of_batches_is_never_asked_by_itself() -> None:
    with sell() as server:
        pin = pin_of(server, "openai")
        assert uses_batches(pin)
        model = build_model(pin, KEYS)
        with pytest.raises(AttemptFailed, match="no reply came by a batch"):
            BatchedModel(model).respond(REQUESTS[CALLS[0]])  # type: ignore[arg-type]
        close_model(model)  # type: ignore[arg-type]
        assert server.single == 0
    assert BatchOutcome().usage is None


def test_a_provider_without_batches_is_refused() -> None:
    settings = (("batch", "true"), ("region", '"us-east-1"'))
    with pytest.raises(HarnessError, match="unknown setting 'batch'"):
        build_model(ModelPin("m", "bedrock", "v", settings), {})
