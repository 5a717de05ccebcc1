"""The first call of each judge, rendered without a network, with a stand-in for the answer."""

from __future__ import annotations

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
from harness.model import estimate_text
from registry.ledger.records import JudgePin
from study.steps.sweep.preview import ExtraPreview, RenderedCall
from study.steps.sweep.spending import example_of
from study.workspace.study import Study

ANSWER = "(here stands the answer that is graded)"


def preview(study: Study, wave: int) -> ExtraPreview:
    """Return the first call of every judge of the study on every stratum of a wave."""
    protocol = study.protocol
    calls = [
        _render(example_of(task, protocol.catalog), task.stratum, pin)
        for task in protocol.wave_tasks(wave)
        for pin in protocol.judges
    ]
    return ExtraPreview("judges", tuple(calls))


def _render(instance: TaskInstance, stratum: str, pin: JudgePin) -> RenderedCall:
    judge = Judge(pin, Unasked(pin.name), lambda: "0" * 32)
    parts = questions_of(instance.rubric)
    chunks = list(chunks_of(parts))
    first = chunks[0] if chunks else ()
    submission = Submission(instance.brief.prompt, ANSWER)
    call = call_digest(judge, submission, first)
    messages = make_request(judge, submission, first, call, 0).messages
    return RenderedCall(
        title=f"{stratum} by judge {pin.name}",
        messages=messages if chunks else (),
        row={
            "judge": pin.name,
            "stratum": stratum,
            "parts": len(parts),
            "calls": len(chunks),
            "tokens": sum(estimate_text(message.text) for message in messages),
            "tokens_of_all_calls": sum(map(estimate_text, call_texts(submission, parts))),
        },
    )
