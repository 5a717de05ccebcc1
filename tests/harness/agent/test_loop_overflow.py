"""A conversation that grows beyond what its model takes: its oldest parts are left out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from generators.seed import Seed
from generators.task import Brief, Limits, TaskSpec
from harness.episode import Cell, Episode, StopReason
from harness.episodes.result import RESULT_CODEC, EpisodeResult
from harness.episodes.rollout import AttemptRequest, run_attempt
from harness.model import OVERFLOW, REFUSED, Model, Omission
from harness.models.providers.openai import OpenAIModel
from harness.spending.purchases import PAID_CALL_CODEC, MemoryJournal, PaidCall
from harness.storage import EPISODE_CODEC
from harness.sweep.run_cell import run_cell
from registry.result_row import Status
from registry.sealing import new_identity
from registry.stores.folder import FolderStore
from tests.cases import cases
from tests.conformance.agents import play as script_of
from tests.conformance.clients import BY_NAME
from tests.conformance.conversation import Call, Said
from tests.conformance.server import FORMATS, serving
from tests.harness import paid_cells
from tests.harness.openai_server import Answer, Json, Served, completion, failure, serve
from tests.harness.paid_attempt import CHARGE, Vouched
from tests.harness.script import ANSWER, brief, noon
from tests.harness.served_model import served_model
from tests.ledgers import keys_of

CELL = Cell(
    "sha256:" + "e" * 64, TaskSpec("x", "1", "easy", ()), "sha256:i", Seed(bytes(32)), "m", 0
)
LONG = ("c1", "execute_python", {"code": "print('a long line ' * 200)"})
SHORT = ("c2", "write_file", {"path": "notes", "content": "x"})
STUDY, RECIPIENT = new_identity()
RUN, _ = new_identity()


TOO_LONG = failure(400, "context_length_exceeded")


pytestmark = pytest.mark.usefixtures("provider_keys")


@contextmanager
def openai(*script: Answer) -> Iterator[tuple[Model, Served]]:
    with serve(*script) as served:
        model = served_model(OpenAIModel, served.url, retries=0)
        yield model, served
        model.close()


def play(model: Model, journal: MemoryJournal, asked: Brief | None = None) -> Episode:
    sandboxes = Vouched()
    try:
        return run_attempt(
            AttemptRequest(CELL, 1, asked or brief(), run="r", journal=journal),
            model,
            sandboxes,
            noon,
        )
    finally:
        sandboxes.close()


@pytest.mark.parametrize("name", FORMATS)
def test_the_oldest_results_are_left_out_until_it_fits_and_the_agent_works_on(name: str) -> None:
    long, short = (Call(each[1], each[2]) for each in (LONG, SHORT))
    overflow = FORMATS[name].fail("too_long", FORMATS[name].overflow(210_000, 200_000))
    script = script_of(
        Said("Look.", (long,)),
        Said("Both.", (long, short)),
        overflow,
        overflow,
        Said("More.", (short,)),
        Said(ANSWER),
    )
    journal = MemoryJournal()
    with serving(script) as served, BY_NAME[name].model(served, retries=0) as model:
        episode = play(model, journal)
    assert served.refused == []
    assert (episode.stop, episode.error_class) == (StopReason.ANSWERED, "")
    assert episode.answer == ANSWER
    first, second, third, last = episode.steps
    assert all("a long line" in step.uses[0].result.text for step in (first, second))
    assert [step.left_out for step in episode.steps] == [
        None, None, Omission(results=3), Omission(results=3),
    ]  # fmt: skip
    sent = [json.dumps(request) for request in served.requests]
    assert [each.count("left out: the provider") for each in sent] == [0, 0, 0, 2, 3, 3]
    assert sent[3].count("a long line a long line") == 0
    assert "Wrote 1 bytes" in sent[3], "the newest goes last"
    assert "Wrote 1 bytes" in sent[5], "what came later is shown"
    assert third.reply.failed == (OVERFLOW, OVERFLOW)
    assert episode.failed_tries == ((OVERFLOW, 2),)
    assert [(turn, each.kind) for turn, each in journal.failed] == [(2, OVERFLOW)] * 2
    assert (episode.replies, last.reply.asked) == (4, None)
    assert EPISODE_CODEC.decode(EPISODE_CODEC.encode(episode)) == episode
    call = PaidCall(CHARGE, journal.replies[2])
    assert PAID_CALL_CODEC.decode(PAID_CALL_CODEC.encode(call)) == call


def test_an_attempt_that_resumes_has_the_same_conversation() -> None:
    """What was left out, what it was reminded of, and what the tools had answered."""
    calls = [(f"c{n}", "run_command", {"command": "echo $RANDOM$RANDOM"}) for n in range(3)]
    script = (
        completion("Look.", calls),
        TOO_LONG,
        completion("Nothing to say.", []),
        completion("More.", [SHORT]),
        failure(500),
    )
    journal = MemoryJournal()
    with openai(*script) as (model, served):
        lost = play(model, journal)
    assert (lost.stop, len(lost.steps)) == (StopReason.FAILED, 3)
    with openai(completion(ANSWER)) as (model, again):
        episode = play(model, MemoryJournal(dict(journal.replies)))
    assert (episode.stop, len(again.requests)) == (StopReason.ANSWERED, 1)
    assert again.requests[0]["messages"] == served.requests[-1]["messages"]
    assert [step.left_out for step in episode.steps] == [None, *[Omission(results=2)] * 3]
    assert [step.prompt[:29] for step in episode.steps] == cases(__file__, "prompts")


def test_with_nothing_left_to_leave_out_there_is_no_answer() -> None:
    with openai(completion(ANSWER, [LONG]), TOO_LONG, TOO_LONG) as (model, served):
        episode = play(model, MemoryJournal())
    assert (episode.stop, episode.answer, len(served.requests)) == (
        StopReason.CONTEXT_LIMIT, "", 3,
    )  # fmt: skip
    assert [len(step.uses) for step in episode.steps] == [1]


def test_a_result_that_the_provider_refuses_does_not_make_the_attempt_missing() -> None:
    """A tool's result is the agent's doing: the episode goes on without it and is scored."""

    def answer(request: Json) -> Answer:
        seen = [each["content"] for each in request["messages"] if each["role"] == "tool"]
        if not seen:
            return completion(None, [LONG])
        return failure(400) if "a long line" in seen[-1] else completion(ANSWER)

    journal = MemoryJournal()
    with serve(always=answer) as served:
        model = served_model(OpenAIModel, served.url, retries=0)
        episode = play(model, journal)
        model.close()
    assert (episode.stop, episode.answer) == (StopReason.ANSWERED, ANSWER)
    assert [step.left_out for step in episode.steps] == [None, Omission(results=1)]
    assert [(turn, each.kind) for turn, each in journal.failed] == [(1, REFUSED)]


def test_a_request_that_is_refused_without_any_result_is_no_doing_of_the_models() -> None:
    with serve(completion(None, [LONG]), failure(400), failure(400)) as served:
        model = served_model(OpenAIModel, served.url, retries=0)
        episode = play(model, MemoryJournal())
        model.close()
    assert (episode.stop, episode.error_class) == (StopReason.FAILED, f"provider:{REFUSED}")
    assert len(served.requests) == 3


def test_a_last_question_may_be_the_one_that_is_too_long() -> None:
    limits = replace(Limits(), turns=1)
    script = (completion("", [LONG]), TOO_LONG, completion(ANSWER))
    with openai(*script) as (model, _):
        episode = play(model, MemoryJournal(), brief(limits=limits))
    assert (episode.stop, episode.answer) == (StopReason.TURN_LIMIT, ANSWER)


def test_a_task_that_does_not_fit_at_all_is_no_doing_of_the_models() -> None:
    with openai(TOO_LONG) as (model, _):
        episode = play(model, MemoryJournal())
    assert (episode.stop, episode.error_class) == (StopReason.FAILED, f"provider:{OVERFLOW}")


# --- in a store ---


def too_long(request: Json) -> Answer:
    """Takes the first turn, and nothing longer unless all results are left out."""
    seen = [message for message in request["messages"] if message["role"] == "tool"]
    if not seen:
        return completion(None, [LONG])
    if "left out" in seen[-1]["content"]:
        return completion("I give up.", [LONG] if len(seen) < 3 else None)
    return failure(400, "context_length_exceeded")


def test_a_context_that_is_used_up_is_the_models_failure(tmp_path: Path) -> None:
    def answer(request: Json) -> Answer:
        seen = sum(message["role"] == "tool" for message in request["messages"])
        if seen == 1 and len(served.requests) == 2:
            return failure(500)
        return failure(400, "context_length_exceeded") if seen > 1 else too_long(request)

    with serve(always=answer) as served:
        bench = paid_cells.bench(served.url, str(tmp_path), RECIPIENT, RUN)
        (cell,) = paid_cells.cells(served.url, 1)
        assert not run_cell(cell, bench, noon).finished, "the second turn fails once"
        assert run_cell(cell, bench, noon).finished
        bench.close()
    # The first turn; the second fails, is too long, and fits; the third never does.
    assert len(served.requests) == 1 + 3 + 2
    result = only(tmp_path)
    assert (result.status, result.score) == (Status.MODEL_FAILURE, 0.0)
    assert (result.stop_reason, result.error_class, result.attempts) == ("context_limit", "", 2)
    assert result.input_tokens == 200, "what was refused cost nothing"


def only(folder: Path) -> EpisodeResult:
    store = FolderStore(folder)
    (key,) = store.list("results/")
    return RESULT_CODEC.read(store, key, keys_of(STUDY, RUN))
