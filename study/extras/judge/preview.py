"""The first call of each judge, rendered without a network, with a stand-in for the answer."""

from __future__ import annotations

from decimal import Decimal

from generators.task import TaskInstance
from harness.judge.judge import Submission, call_messages, call_texts, chunks_of, questions_of
from harness.model import Usage, estimate_text
from harness.spending.prices import Price
from registry.ledger.records import JudgePin
from study.printing import range_words
from study.steps.sweep.preview import FirstRequest, Preview
from study.steps.sweep.spending import example_of, price_pins
from study.workspace.study import Study

ANSWER = "(here stands the answer that is graded)"


def preview(study: Study, wave: int) -> Preview:
    """Return the first call of every judge of the study on every stratum of a wave."""
    protocol = study.protocol
    pricing = price_pins(study, protocol.judges, allow_unknown=True)
    calls = [
        _render(example_of(task, protocol.catalog), task.stratum, pin, pricing.price_of(pin.name))
        for task in protocol.wave_tasks(wave)
        for pin in protocol.judges
    ]
    return Preview("judges", "Judges", tuple(calls))


def _render(
    instance: TaskInstance, stratum: str, pin: JudgePin, price: Price | None
) -> FirstRequest:
    parts = questions_of(instance.rubric)
    chunks = list(chunks_of(parts))
    submission = Submission(instance.brief.prompt, ANSWER)
    messages = call_messages(submission, chunks[0] if chunks else ())
    tokens = sum(estimate_text(message.text) for message in messages)  # without the answer
    every = sum(map(estimate_text, call_texts(submission, parts)))  # each call with this answer
    longest = dict(pin.settings).get("max_tokens")
    sent, most = (None, None) if price is None else _usd(price, every, len(chunks), longest)
    usd = "unknown" if sent is None else range_words(sent, most, 4)
    named = {"judge": pin.name, "stratum": stratum, "parts": len(parts), "calls": len(chunks)}
    return FirstRequest(
        title=f"{stratum} by judge {pin.name}",
        messages=messages if chunks else (),
        row=named | {"tokens of the first": tokens, "of all": every, "USD an episode": usd},
        body=named
        | {
            "tokens": tokens,
            "tokens_of_all_calls": every,
            "usd_sent": sent,
            "usd_with_longest_replies": most,
        },
    )


def _usd(price: Price, tokens: int, calls: int, longest: str | None) -> tuple[float, float | None]:
    """Return the cost in USD of an episode's calls as sent, and with the longest replies."""
    low = price.cost(Usage(tokens, 0)) or Decimal()
    high = None if longest is None else price.cost(Usage(tokens, calls * int(longest)))
    return float(low), None if high is None else float(high)
