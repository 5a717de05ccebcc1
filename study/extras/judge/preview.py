"""The first call of each judge, rendered without a network, with a stand-in for the answer."""

from __future__ import annotations

from decimal import Decimal

from generators.task import TaskInstance
from harness.judge.judge import (
    Judge,
    Submission,
    Unasked,
    call_digest,
    call_texts,
    chunks_of,
    make_request,
    questions_of,
)
from harness.model import Usage, estimate_text
from harness.spending.prices import Price
from registry.ledger.records import JudgePin
from study.steps.sweep.preview import ExtraPreview, RenderedCall, messages_json
from study.steps.sweep.spending import example_of, price_pins
from study.workspace.study import Study

ANSWER = "(here stands the answer that is graded)"


def preview(study: Study, wave: int) -> ExtraPreview:
    """Return the first call of every judge of the study on every stratum of a wave."""
    protocol = study.protocol
    pricing = price_pins(study, protocol.judges, allow_unknown=True)
    calls = [
        _render(example_of(task, protocol.catalog), task.stratum, pin, pricing.price_of(pin.name))
        for task in protocol.wave_tasks(wave)
        for pin in protocol.judges
    ]
    return ExtraPreview("judges", tuple(calls))


def _render(
    instance: TaskInstance, stratum: str, pin: JudgePin, price: Price | None
) -> RenderedCall:
    judge = Judge(pin, Unasked(pin.name), lambda: "0" * 32)
    parts = questions_of(instance.rubric)
    chunks = list(chunks_of(parts))
    first = chunks[0] if chunks else ()
    submission = Submission(instance.brief.prompt, ANSWER)
    call = call_digest(judge, submission, first)
    messages = make_request(judge, submission, first, call, 0).messages
    tokens = sum(estimate_text(message.text) for message in messages)  # without the answer
    every = sum(map(estimate_text, call_texts(submission, parts)))  # each call with this answer
    longest = dict(pin.settings).get("max_tokens")
    sent, most = (None, None) if price is None else _usd(price, every, len(chunks), longest)
    usd = (
        "unknown"
        if sent is None
        else f"{sent:,.4f} … {'no bound' if most is None else f'{most:,.4f}'}"
    )
    shown = messages if chunks else ()
    return RenderedCall(
        title=f"{stratum} by judge {pin.name}",
        messages=shown,
        row={
            "judge": pin.name,
            "stratum": stratum,
            "parts": len(parts),
            "calls": len(chunks),
            "tokens of the first": tokens,
            "of all": every,
            "USD an episode": usd,
        },
        body={
            "judge": pin.name,
            "stratum": stratum,
            "parts": len(parts),
            "calls": len(chunks),
            "tokens": tokens,
            "tokens_of_all_calls": every,
            "usd_sent": sent,
            "usd_with_longest_replies": most,
            "messages": messages_json(shown),
        },
    )


def _usd(price: Price, tokens: int, calls: int, longest: str | None) -> tuple[float, float | None]:
    """Return the cost in USD of an episode's calls as sent, and with the longest replies."""
    low = price.cost(Usage(tokens, 0)) or Decimal()
    high = None if longest is None else price.cost(Usage(tokens, calls * int(longest)))
    return float(low), None if high is None else float(high)
