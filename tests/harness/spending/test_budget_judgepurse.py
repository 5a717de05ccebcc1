"""A purse that threads share: nobody passes a limit, nobody waits for nothing, and what was
bought before is counted."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest

from harness.codec import decode_judgement, encode_judgement, encode_reply
from harness.errors import HarnessError
from harness.model import Message, Reply, Role, Usage
from harness.spending.budget import (
    Bought,
    Budget,
    JudgePurse,
    Purse,
    Spend,
    Tariff,
    judge_tariff,
    read_bought_of_judges,
    spend_on,
)
from harness.spending.paid_call import Judgement, Purpose
from harness.spending.prices import Price
from harness.store_keys import judge_try_key, judgement_key
from registry.ledger.records import JudgePin
from registry.sealing import encrypt, new_identity
from registry.stores.memory import MemoryStore

PRICE = Price("them", "j", Decimal(1), Decimal("0.1"), Decimal(10), "2026-11-01", "them")
PIN = JudgePin("j", "them", "j", "sha256:p", (("max_tokens", "9"),))
REPLY = Reply(Message(Role.ASSISTANT, "{}"), Usage(1_000_000, 100_000), "v")


def opened(limit: int, reserve: str = "seen", **prior: int) -> JudgePurse:
    budget = Budget(judges=(("j", Decimal(limit)),), reserve=reserve)
    purse = Purse.open(budget, [judge_tariff(PIN, PRICE, budget)])
    spent = {("j", name): Spend(Decimal(usd)) for name, usd in prior.items()}
    for (_, name), spend in spent.items():
        purse.settle(f"j/{name}", "j", spend)
    return JudgePurse(purse, spent)


def test_with_bounds_many_threads_stay_within_the_limit_and_use_it() -> None:
    purse, draws, lock = opened(100, "bound"), random.Random(3), threading.Lock()
    spent, at_work, most = Decimal(), 0, 0

    def grade(episode: int) -> bool:
        nonlocal spent, at_work, most
        if not purse.take("j", f"e{episode}", Decimal(7)):
            return False
        with lock:
            at_work += 1
            most = max(most, at_work)
            cost = Decimal(draws.randint(1, 7))
            spent += cost
            assert spent <= 100
            at_work -= 1
        purse.settle("j", f"e{episode}", Spend(cost), True)
        return True

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(grade, range(60), timeout=60))
    (account,) = purse.accounts()
    assert (account.spent, account.reserved) == (spent, 0)
    assert 93 < spent <= 100  # not one more of 7 would have fit
    assert not all(done)


def test_who_cannot_pay_waits_for_those_at_work_and_is_refused_when_nobody_is() -> None:
    purse, served = opened(10), threading.Event()
    assert purse.take("j", "first", None)  # nothing is known yet: it goes alone
    waiting = threading.Thread(
        target=lambda: purse.take("j", "second", None) and served.set(), daemon=True
    )
    waiting.start()
    assert not served.wait(0.05)
    purse.settle("j", "first", Spend(Decimal(2)), True)
    assert served.wait(60)  # twice what was seen fits: 2 + 4
    purse.settle("j", "second", Spend(Decimal(5)), True)
    assert not purse.take("j", "third", None)  # twice 5 does not fit beside 7
    assert purse.take("j", "third", Decimal(3))  # but what cannot cost more does
    purse.settle("j", "third", Spend(), False)


def test_what_an_episode_had_cost_before_is_counted_once() -> None:
    purse = opened(10, e=4)
    assert purse.take("j", "e", Decimal(6))
    purse.settle("j", "e", Spend(Decimal(3)), True)
    assert purse.accounts()[0].spent == 7


def test_a_provider_that_counts_nothing_cannot_be_budgeted() -> None:
    purse = opened(10)
    assert purse.take("j", "e", None)
    with pytest.raises(HarnessError, match=r"judge 'j'.*tells no token counts"):
        purse.settle("j", "e", spend_on([Usage()], PRICE), True)
    assert purse.purse.accounts()[0].reserved == 0
    budget = Budget(run=Decimal(1), reserve="bound")
    with pytest.raises(HarnessError, match="max_tokens"):
        judge_tariff(JudgePin("j", "them", "j", ""), PRICE, budget)


def test_what_others_cost_counts_against_the_limits_that_they_share() -> None:
    budget = Budget(run=Decimal(9), providers=(("them", Decimal(9)),), judges=(("j", Decimal(9)),))
    purse = Purse.open(budget, [judge_tariff(PIN, PRICE, budget)])
    purse.charge(Tariff("m", "them", PRICE), Spend(Decimal(2)))
    purse.charge(Tariff("k", "others", PRICE, kind="judge"), Spend(Decimal(3)))
    spent = {each.name: each.spent for each in purse.accounts()}
    assert spent == {"run": 5, "provider them": 2, "judge j": 0}
    assert not purse.reserve("j/e", "j", Decimal(5))  # 5 and 5 are more than 9


def test_replies_tell_what_they_were_bought_for_and_old_ones_are_read_still() -> None:
    identity, recipient = new_identity()
    purpose = Purpose("j", "them", "j-1", 2, "sha256:e")
    judge, call = "sha256:" + "a" * 64, "sha256:" + "b" * 64
    store = MemoryStore()
    kept = encode_judgement(Judgement(REPLY, purpose))
    assert decode_judgement(kept) == Judgement(REPLY, purpose)
    assert decode_judgement(encode_reply(REPLY)) == Judgement(REPLY, None)
    for tried, data in enumerate((kept, encode_reply(REPLY))):
        store.put(judgement_key(judge, call, tried), encrypt(data, [recipient]))
    store.put(judge_try_key(judge, call, 0, 0), b"what a request that failed brought")
    assert list(read_bought_of_judges(store, (identity,))) == [
        Bought(judge, purpose, REPLY.usage), Bought(judge, None, REPLY.usage)
    ]  # fmt: skip
    assert spend_on([REPLY.usage] * 2, PRICE) == Spend(Decimal(4))
    assert spend_on([REPLY.usage], None) == Spend()
