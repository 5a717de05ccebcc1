"""Limits on the tokens and the cost of an episode."""

from __future__ import annotations

import time
from decimal import Decimal

import pytest

from generators.seed import Seed
from harness.agent.limits import Ceiling, read_ceiling
from harness.agent.loop import AgentRun, AgentTask, run_agent
from harness.episode import StopReason
from harness.errors import HarnessError
from harness.model import Reply, Usage
from harness.sandboxes.sandbox import Sandbox
from harness.spending.purchases import MemoryJournal
from registry.ledger.records import ModelPin
from tests.harness.script import ANSWER, Playback, brief, call, say


def conduct(model: Playback, sandbox: Sandbox, ceiling: Ceiling) -> AgentRun:
    seed, journal = Seed(bytes(32)), MemoryJournal()
    return run_agent(AgentTask(brief(), sandbox, seed, journal, time.monotonic, ceiling), model)


def look(tokens: int) -> Reply:
    return Reply(call(("run_command", {"command": "ls"})).message, Usage(tokens - 1, 1), "v1")


def test_the_last_tokens_are_kept_for_a_last_question(sandbox: Sandbox) -> None:
    """After 10 + 20 of 80 a turn of at least 20 and a last question fit; after 60 the question."""
    model = Playback([look(10), look(20), look(20), say(ANSWER)])
    done = conduct(model, sandbox, Ceiling(tokens=80))
    assert (done.stop, done.answer) == (StopReason.TOKEN_LIMIT, ANSWER)
    assert len(done.steps) == 4
    assert model.asked[-1].tool_choice == "none"
    assert done.steps[-1].prompt.startswith("Your budget of tokens is used up")
    assert "80 tokens" in done.opening[0].text


def test_where_not_even_a_last_question_fits_none_is_asked(sandbox: Sandbox) -> None:
    model = Playback([look(10), look(60), say(ANSWER)])
    done = conduct(model, sandbox, Ceiling(tokens=100))
    assert (done.stop, done.answer, len(done.steps)) == (StopReason.TOKEN_LIMIT, "", 2)
    assert len(model.asked) == 2, "nothing more is bought"


def test_an_answer_under_the_limit_is_an_answer(sandbox: Sandbox) -> None:
    done = conduct(Playback([look(10), say(ANSWER)]), sandbox, Ceiling(tokens=1000))
    assert (done.stop, done.answer) == (StopReason.ANSWERED, ANSWER)


def test_a_cost_limit_holds_alike(sandbox: Sandbox) -> None:
    cent = Ceiling(usd=Decimal("0.05"), spent=lambda usage: Decimal("0.01"))
    done = conduct(Playback([look(1)] * 4 + [say(ANSWER)]), sandbox, cent)
    assert (done.stop, done.answer, len(done.steps)) == (StopReason.COST_LIMIT, ANSWER, 5)


def test_tokens_that_nobody_counts_cannot_be_limited(sandbox: Sandbox) -> None:
    blind = call(("run_command", {"command": "ls"}))
    model = Playback([Reply(blind.message, Usage(None, 3), "v1")])
    with pytest.raises(HarnessError, match="tokens of a reply is unknown, so `episode_tokens`"):
        conduct(model, sandbox, Ceiling(tokens=80))


def pin(provider: str = "openai", **settings: str) -> ModelPin:
    address = {"base_url": '"http://127.0.0.1:9/v1"'}
    return ModelPin("m", provider, "v", tuple((address | settings).items()))


def test_a_ceiling_is_read_from_a_models_settings() -> None:
    assert read_ceiling(pin()) == Ceiling()
    assert read_ceiling(pin(episode_tokens="5000")) == Ceiling(tokens=5000)

    def price(usage: Usage) -> Decimal:
        return Decimal(1)

    assert read_ceiling(pin(episode_usd="0.25"), price) == Ceiling(usd=Decimal("0.25"), spent=price)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (pin(episode_tokens="0"), "'episode_tokens': 0: Input should be greater than"),
        (pin(episode_tokens="1.5"), "'episode_tokens': 1.5: Input should be a valid integer"),
        (pin(episode_tokens='"many"'), '"many": Input should be a valid integer'),
        (pin(episode_usd="-1"), "'episode_usd': -1: Input should be greater than 0"),
        (pin(episode_usd="1"), "its price is unknown"),
        (pin("agent_server", episode_tokens="10"), "unknown setting 'episode_tokens'"),
    ],
)
def test_a_ceiling_that_cannot_be_held_is_refused(made: ModelPin, reason: str) -> None:
    with pytest.raises(HarnessError, match=reason):
        read_ceiling(made)
