"""A budget that threads share: no limit is passed, no thread waits in vain, and what was spent
before is counted."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest

from harness.errors import HarnessError
from harness.model import Usage
from harness.spending.budget import (
    Budget,
    PricedModel,
    Spend,
    SpendingLimits,
    price_judge,
    sum_spend,
)
from harness.spending.prices import Price
from registry.ledger.records import JudgePin

PRICE = Price(
    "them", "j", Decimal(1), Decimal("0.1"), Decimal(1), Decimal(10), "2026-11-01", "them"
)
PIN = JudgePin("j", "them", "j", "sha256:p", (("max_tokens", "9"),))


def opened(limit: int, reserve: str = "seen", **prior: int) -> Budget:
    limits = SpendingLimits(judges=(("j", Decimal(limit)),), reserve=reserve)
    budget = Budget(limits, [price_judge(PIN, PRICE, limits)])
    for name, usd in prior.items():
        budget.settle("j", name, Spend(Decimal(usd)))
    return budget


def test_with_bounds_many_threads_stay_within_the_limit_and_use_it() -> None:
    budget, draws, lock = opened(100, "bound"), random.Random(3), threading.Lock()
    spent, at_work, most = Decimal(), 0, 0

    def grade(episode: int) -> bool:
        nonlocal spent, at_work, most
        if not budget.wait_to_reserve("j", f"e{episode}", Decimal(7)):
            return False
        with lock:
            at_work += 1
            most = max(most, at_work)
            cost = Decimal(draws.randint(1, 7))
            spent += cost
            assert spent <= 100
            at_work -= 1
        budget.settle_reserved("j", f"e{episode}", Spend(cost), True)
        return True

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(grade, range(60), timeout=60))
    (account,) = budget.accounts()
    assert (account.spent, account.reserved) == (spent, 0)
    assert 93 < spent <= 100  # not one more of 7 would have fit
    assert not all(done)


def test_who_cannot_pay_waits_for_those_at_work_and_is_refused_when_nobody_is() -> None:
    budget, served = opened(10), threading.Event()
    assert budget.wait_to_reserve("j", "first", None)  # nothing is known yet: it goes alone
    waiting = threading.Thread(
        target=lambda: budget.wait_to_reserve("j", "second", None) and served.set(), daemon=True
    )
    waiting.start()
    assert not served.wait(0.05)
    budget.settle_reserved("j", "first", Spend(Decimal(2)), True)
    assert served.wait(60)  # twice what was seen fits: 2 + 4
    budget.settle_reserved("j", "second", Spend(Decimal(5)), True)
    assert not budget.wait_to_reserve("j", "third", None)  # twice 5 does not fit beside 7
    assert budget.wait_to_reserve("j", "third", Decimal(3))  # but what cannot cost more does
    budget.settle_reserved("j", "third", Spend(), False)


def test_what_an_episode_had_cost_before_is_counted_once() -> None:
    budget = opened(10, e=4)
    assert budget.wait_to_reserve("j", "e", Decimal(6))
    budget.settle_reserved("j", "e", Spend(Decimal(3)), True)
    assert budget.accounts()[0].spent == 7


def test_a_provider_that_counts_nothing_cannot_be_budgeted() -> None:
    budget = opened(10)
    assert budget.wait_to_reserve("j", "e", None)
    with pytest.raises(HarnessError, match=r"judge 'j'.*reports no token counts"):
        budget.settle_reserved("j", "e", sum_spend([Usage()], PRICE), True)
    assert budget.accounts()[0].reserved == 0
    limits = SpendingLimits(run=Decimal(1), reserve="bound")
    with pytest.raises(HarnessError, match="max_tokens"):
        price_judge(JudgePin("j", "them", "j", ""), PRICE, limits)


def test_what_others_cost_counts_against_the_limits_that_they_share() -> None:
    nine = Decimal(9)
    limits = SpendingLimits(run=nine, providers=(("them", nine),), judges=(("j", nine),))
    budget = Budget(limits, [price_judge(PIN, PRICE, limits)])
    budget.charge(PricedModel("m", "them", PRICE), Spend(Decimal(2)))
    budget.charge(PricedModel("k", "others", PRICE, kind="judge"), Spend(Decimal(3)))
    spent = {each.name: each.spent for each in budget.accounts()}
    assert spent == {"run": 5, "provider them": 2, "judge j": 0}
    assert not budget.reserve("j", "e", Decimal(5))  # 5 and 5 are more than 9


def test_what_a_finished_subject_had_cost_is_counted_once_when_more_is_paid_for_it() -> None:
    budget = opened(10)
    budget.settle("j", "e", Spend(Decimal(4)), finished=True)
    assert budget.wait_to_reserve("j", "e", Decimal(5))
    budget.settle_reserved("j", "e", Spend(Decimal(2)), True)
    assert budget.accounts()[0].spent == 6
