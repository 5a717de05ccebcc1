"""Whole episodes of all wire formats against a server with faults: what is lost, and why."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.conformance.clients import BY_NAME, CLIENTS, Client
from tests.conformance.episodes import losses, sweep, use_cache
from tests.conformance.faults import KINDS
from tests.conformance.server import FORMATS

pytestmark = pytest.mark.usefixtures("provider_keys")
SHARE = 0.25
ONE_EACH = tuple(BY_NAME[name] for name in FORMATS)


@pytest.mark.parametrize("count", [40, pytest.param(2000, marks=pytest.mark.slow)])
def test_no_fault_of_a_provider_costs_a_score(count: int) -> None:
    """Only a refusal or two messages without an answer, which are the model's own, or more faults
    in a row than are retried may."""
    calm, stormy = sweep(ONE_EACH, count, 0.0), sweep(ONE_EACH, count, SHARE)
    assert {each.result.score for each in calm.episodes.values()} == {1.0}
    assert {each.faults for each in calm.episodes.values()} == {()}
    met = Counter(kind for each in stormy.episodes.values() for kind in each.faults)
    assert len(met) > len(KINDS) / 2, "most kinds were met"
    assert [each for each in losses(calm, stormy) if each.cause == "other"] == []
    assert (calm.refused, stormy.refused) == ((), ())


@pytest.mark.parametrize(
    "client",
    [
        pytest.param(each, id=each.name, marks=() if each in ONE_EACH else (pytest.mark.slow,))
        for each in CLIENTS
    ],
)
def test_most_of_a_long_conversation_comes_from_the_cache(client: Client) -> None:
    """By each provider's published rules; and the episode records what the server reported."""
    use = use_cache(client, turns=25)
    assert (use.turns, use.refused) == (26, ())
    assert use.share >= 0.8
    assert use.recorded == use.served
