from .budget import (
    Account,
    Budget,
    PricedModel,
    Spend,
    SpendingLimits,
    attempt_bound,
    price_judge,
    sum_spend,
)
from .paid_call import CallKind, Charge, Payer
from .prices import OWN_PROVIDERS, Price, PriceList, read_prices, total_cost
from .purchases import (
    CountingJournal,
    Journal,
    ReplyStore,
    read_episode_spends,
    read_episode_usages,
    read_paid_calls,
)

__all__ = [
    "OWN_PROVIDERS",
    "Account",
    "Budget",
    "CallKind",
    "Charge",
    "CountingJournal",
    "Journal",
    "Payer",
    "Price",
    "PriceList",
    "PricedModel",
    "ReplyStore",
    "Spend",
    "SpendingLimits",
    "attempt_bound",
    "price_judge",
    "read_episode_spends",
    "read_episode_usages",
    "read_paid_calls",
    "read_prices",
    "sum_spend",
    "total_cost",
]
