"""The accounts of a budget, for people and scripts."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from study.printing import print_records

if TYPE_CHECKING:
    from harness.spending.budget import Account


def accounts_json(accounts: Sequence[Account]) -> list[dict[str, Any]]:
    """Return the limits of a budget in USD, with spending and the replies of unknown cost."""
    return [
        {
            "limit": account.name,
            "usd": float(account.limit),
            "spent_usd": float(account.spent),
            "replies_of_unknown_cost": account.unknown,
        }
        for account in accounts
    ]


def print_accounts(accounts: Sequence[Account], over_budget: bool = False) -> None:
    """Print the limits of a budget, if it has any, and the remedy if it does not suffice."""
    if accounts:
        rows = [
            {
                "limit": account.name,
                "limit, USD": f"{account.limit:,.2f}",
                "spent, USD": f"{account.spent:,.4f}",
                "left, USD": f"{max(account.limit - account.spent, Decimal(0)):,.4f}",
                "replies of unknown cost": account.unknown,
            }
            for account in accounts
        ]
        money = ("limit, USD", "spent, USD", "left, USD")
        print_records(rows, title="Budget, in USD by limit", right=money)
    if over_budget:
        click.echo(
            "The budget does not pay for the rest. Raise `budget:` in study.yaml and run this "
            "again; no request is paid for twice."
        )


def count_failures(failures: Sequence[tuple[str, int]]) -> str:
    """Return failures by class on one line."""
    return ", ".join(f"{count} × {name}" for name, count in failures)
