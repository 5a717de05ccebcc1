"""Prices: exact, dated, from a file that is read strictly; what is unknown is never zero."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.model import Usage
from harness.spending.prices import NodePrice, Price, read_prices, total_cost
from registry.canonical import digest_bytes
from registry.ledger.records import ModelPin
from tests.cases import cases

FILE = cases(__file__, "file")
PRICE = Price(
    "p", "m", Decimal("1.25"), Decimal("0.125"), Decimal("2.5"), Decimal(10), "2026-11-01", "them"
)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    return path


def pin(version: str, provider: str = "openai") -> ModelPin:
    return ModelPin("name", provider, version)


def test_a_reply_costs_what_its_tokens_cost() -> None:
    assert PRICE.cost(Usage(1_000_000, 100_000)) == Decimal("2.25")
    assert PRICE.cost(Usage(1_000_000, 100_000, 400_000)) == Decimal("1.8")
    assert PRICE.cost(Usage(3, 1)) == Decimal("0.00001375")
    assert PRICE.cost(Usage(1_000_000, 0, 5_000_000)) == Decimal("0.125"), "all of it is cached"


def test_what_is_written_to_a_cache_has_its_own_price() -> None:
    usage = Usage(1_000_000, 100_000, 400_000, 200_000)
    assert PRICE.cost(usage) == Decimal("0.05") + Decimal("0.5") + Decimal("0.5") + Decimal(1)
    assert PRICE.cost(Usage(1_000_000, 0, 400_000, 5_000_000)) == Decimal("1.55")
    assert PRICE.highest(1_000_000, 0) == Decimal("2.5")


@pytest.mark.parametrize("usage", [Usage(), Usage(10), Usage(None, 10), Usage(None, None, 3)])
def test_unknown_tokens_are_an_unknown_cost(usage: Usage) -> None:
    assert PRICE.cost(usage) is None
    assert total_cost(PRICE, [Usage(1, 1), usage]) is None


def test_no_price_and_no_reply_are_an_unknown_cost() -> None:
    assert total_cost(None, [Usage(1, 1)]) is total_cost(PRICE, []) is None


def test_usage_adds_up_with_what_was_told_of_the_cache() -> None:
    assert Usage(1, 2) + Usage(3, 4, 2) == Usage(4, 6, 2)
    assert Usage(1, 2) + Usage(3, 4) == Usage(4, 6)
    assert Usage(1, 2, 1, 1, 1) + Usage(3, 4, None, 2, 0) == Usage(4, 6, 1, 3, 1)


def test_the_first_pattern_that_fits_counts(tmp_path: Path) -> None:
    path = write(tmp_path, FILE)
    prices = read_prices(path)
    assert prices.digest == digest_bytes(path.read_bytes())
    mini, large = prices.of("openai", "gpt-5-mini"), prices.of("openai", "gpt-5-2026-08")
    assert mini is not None
    assert large is not None
    assert (mini.input, mini.cached_input) == (Decimal("0.25"), Decimal("0.025"))
    assert mini.date == "2026-11-01"
    assert (large.input, large.cached_input) == (Decimal("1.25"), Decimal("1.25"))
    assert (mini.cache_write, large.cache_write) == (Decimal("0.3125"), Decimal("1.5"))
    assert prices.node == NodePrice(Decimal("0.5"), "2026-11-01", "them")
    assert prices.of("openai", "gpt-4") is None
    assert prices.of("anthropic", "gpt-5") is None
    path.write_text(FILE.replace("gpt-5-mini", '"gpt-5[1m]"'))
    assert read_prices(path).of("openai", "gpt-5[1m]") == replace(mini, model="gpt-5[1m]")


@pytest.mark.parametrize(("old", "new", "line", "told"), cases(__file__, "bad_files"))
def test_a_bad_file_is_one_error_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, told: str
) -> None:
    assert old in FILE
    path = write(tmp_path, FILE.replace(old, new, 1))
    with pytest.raises(HarnessError) as caught:
        read_prices(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert told in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"none\.yaml.*`prices:`"):
        read_prices(tmp_path / "none.yaml")
