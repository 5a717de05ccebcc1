"""The single-turn form: the whole task in one message, its size known before it is sent."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
import time
from typing import Any

import pytest
from PIL import Image

from generators.catalog import INSTALLED, Catalog
from generators.seed import Seed
from generators.task import DIFFICULTIES, Asset, Brief, TaskSpec
from generators.validation.validate import public_seeds
from harness.agent.single_turn import (
    ContextWindow,
    estimate_picture,
    fit_context,
    run_single_turn,
    single_turn,
    turn_request,
)
from harness.build_model import build_model, read_window
from harness.episode import Cell, Mode, StopReason
from harness.episodes.grading import grade_episode
from harness.episodes.rollout import AttemptRequest, run_attempt
from harness.errors import AttemptFailed, Boundary, HarnessError
from harness.model import ModelRequest, Role, estimate_text
from harness.sandboxes.local import LocalSandboxes
from harness.spending.purchases import MemoryJournal
from harness.storage import EPISODE_CODEC
from registry.ledger.records import ModelPin
from tests.cases import cases
from tests.harness.openai_server import completion, serve
from tests.harness.script import ANSWER, Playback, brief, call, noon, say

SEED = Seed(bytes(32))
SPEC = TaskSpec("find_x", "1", "easy", ())
CELL = Cell("sha256:" + "e" * 64, SPEC, "sha256:" + "1" * 64, SEED, "m", 0, Mode.SINGLE_TURN)


def instance(name: str, difficulty: str = "easy") -> Any:
    return INSTALLED.family(name).generate(difficulty, public_seeds(1)[0])


def test_tables_stand_in_the_text_and_pictures_beside_it() -> None:
    numbers, circles = instance("compute_average"), instance("count_circles")
    for each in (numbers, circles):
        system, user = single_turn(each.brief).messages
        assert (system.role, user.role) == (Role.SYSTEM, Role.USER)
        assert user.text.startswith(each.brief.prompt.rstrip())
        assert each.brief.answer_schema in system.text
        assert "without tools" in system.text
    table = numbers.brief.assets[0].data.decode()
    shown = single_turn(numbers.brief).messages[1]
    assert f'<file name="input_numbers.txt">\n{table}</file>' in shown.text
    shown = single_turn(circles.brief).messages[1]
    assert [image.data for image in shown.images] == [a.data for a in circles.brief.assets]
    assert "File `1.png`: picture 1 of this message." in shown.text


def test_a_large_picture_is_scaled_down_and_the_message_says_so() -> None:
    held = io.BytesIO()
    Image.new("L", (2_300, 920)).save(held, "PNG")
    asset = Asset("wide.png", "image/png", held.getvalue())
    made = single_turn(brief(asset))
    shown = made.messages[-1]
    assert "`wide.png`: picture 1 of this message, scaled down from 2300 × 920." in shown.text
    assert shown.images[0].data != asset.data
    assert made.picture_tokens == estimate_picture(2_000, 800)


def test_more_pictures_than_a_request_takes_are_refused() -> None:
    held = io.BytesIO()
    Image.new("L", (8, 8)).save(held, "PNG")
    assets = [Asset(f"{n}.png", "image/png", held.getvalue()) for n in range(101)]
    many = single_turn(brief(*assets))
    with pytest.raises(HarnessError, match=r"101 pictures; .* at most 100, .*agentic"):
        fit_context(many, ContextWindow(200_000))
    assert fit_context(many, ContextWindow(200_001)) is many


@pytest.mark.parametrize(
    "difficulty",
    [
        "hard",
        *(pytest.param(each, marks=pytest.mark.slow) for each in DIFFICULTIES if each != "hard"),
    ],
)
@pytest.mark.parametrize("name", [each.name for each in Catalog.built_in().newest()])
def test_every_family_has_a_single_turn_form(name: str, difficulty: str) -> None:
    made = single_turn(instance(name, difficulty).brief)
    assert made.tokens == made.text_tokens + made.picture_tokens
    assert made.tokens > 100
    context = max(made.tokens + 10, 200_001)  # with a shorter one fewer pictures are taken
    assert fit_context(made, ContextWindow(context, 10)) is made
    with pytest.raises(HarnessError, match="give it in `mode: agentic`"):
        fit_context(made, ContextWindow(made.tokens + 9, 10))


def test_the_refusal_says_what_takes_how_much() -> None:
    made = single_turn(instance("count_circles").brief)
    with pytest.raises(HarnessError) as refused:
        fit_context(made, ContextWindow(1000, 500))
    assert f"about {made.tokens:,} tokens" in str(refused.value)
    assert (
        "8 pictures) and 500 for the reply and to spare; the context of the model is 1,000"
        in str(refused.value)
    )


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a plain word", 3), ("123456", 3), ("0.25,0.5", 4), ("µµ", 2)]
)
def test_digits_and_signs_count_double(text: str, tokens: int) -> None:
    assert estimate_text(text) == tokens


@pytest.mark.parametrize(("width", "height", "tokens"), cases(__file__, "tokens"))
def test_a_picture_counts_as_with_the_dearest_provider(
    width: int, height: int, tokens: int
) -> None:
    assert estimate_picture(width, height) == tokens


@pytest.mark.parametrize(
    ("asset", "said"),
    [
        (Asset("a/data.npy", "application/octet-stream", b"\x93NUMPY"), "neither text nor a pict"),
        (Asset("broken.png", "image/png", b"\x89PNG..."), "'broken.png' cannot be shown"),
    ],
)
def test_a_file_without_a_form_is_refused_by_name(asset: Asset, said: str) -> None:
    with pytest.raises(HarnessError, match=said) as refused:
        single_turn(brief(asset))
    assert asset.path in str(refused.value)


WIDE = ContextWindow(100_000)


def asked() -> ModelRequest:
    return turn_request(brief(), WIDE, SEED)


def attempt(cell: Cell, given: Brief, window: ContextWindow = WIDE) -> AttemptRequest:
    run = "sha256:" + "a" * 64
    return AttemptRequest(cell, 1, given, run=run, journal=MemoryJournal(), window=window)


def test_the_model_is_asked_once_without_tools() -> None:
    model = Playback([say(ANSWER)])
    conduct = run_single_turn(model, asked(), MemoryJournal(), itertools.count().__next__)
    assert (conduct.stop, conduct.answer, len(conduct.steps)) == (StopReason.ANSWERED, ANSWER, 1)
    (request,) = model.asked
    assert request.tools == ()
    assert request.messages == conduct.opening


def test_a_reply_that_was_cut_off_without_an_answer_is_truncated() -> None:
    for text, stop in (("So", StopReason.TRUNCATED), (ANSWER, StopReason.ANSWERED)):
        model = Playback([dataclasses.replace(say(text), finish="length")])
        done = run_single_turn(model, asked(), MemoryJournal(), time.monotonic)
        assert (done.stop, done.answer) == (stop, text)


def test_a_reply_that_was_paid_for_is_not_bought_again() -> None:
    journal, tick = MemoryJournal(), itertools.count().__next__
    kept = run_single_turn(Playback([say(ANSWER)], paid=True), asked(), journal, tick)
    again = run_single_turn(Playback([], paid=True), asked(), journal, tick)
    assert again.steps[0].reply == kept.steps[0].reply


def test_a_provider_that_fails_is_a_failed_attempt() -> None:
    down = Playback([AttemptFailed(Boundary.PROVIDER, "Timeout")])
    conduct = run_single_turn(down, asked(), MemoryJournal(), itertools.count().__next__)
    assert (conduct.stop, conduct.error_class) == (StopReason.FAILED, "provider:Timeout")


def test_an_attempt_in_one_turn_opens_no_sandbox() -> None:
    """So a model that is not ours may run without an engine: nothing of it is carried out."""
    model = Playback([call(("run_command", {"command": "ls"}))])
    episode = run_attempt(attempt(CELL, brief()), model, LocalSandboxes(), noon)
    assert (episode.container, episode.stop) == ("", StopReason.ANSWERED)
    assert episode.steps[0].uses == ()


def test_a_served_model_is_sent_pictures_and_graded_on_its_one_reply() -> None:
    circles = instance("count_circles")
    key = json.dumps(INSTALLED.family("count_circles").key(circles.truth))
    with serve(completion(f"Counted.\n<answer>\n{key}\n</answer>")) as served:
        given = pin("openai", base_url=served.url, context=16_000)
        model = build_model(given, {"OPENAI_API_KEY": "sk"})
        cell = dataclasses.replace(CELL, instance=circles.id)
        episode = run_attempt(
            attempt(cell, circles.brief, read_window(given)), model, LocalSandboxes(), noon
        )
    (request,) = served.requests
    assert served.faults == []
    assert not request.get("tools")
    parts = [part for m in request["messages"] for part in m["content"] if isinstance(part, dict)]
    assert [part["type"] for part in parts].count("image_url") == 8
    assert grade_episode(circles, episode).score == 1.0
    assert EPISODE_CODEC.decode(EPISODE_CODEC.encode(episode)) == episode


def pin(provider: str, **settings: Any) -> ModelPin:
    texts = tuple((name, json.dumps(value)) for name, value in settings.items())
    return ModelPin("m", provider, "v-1", texts)


ADDRESS = {"base_url": "http://localhost:1/v1"}


def test_the_context_window_is_a_setting_of_the_model() -> None:
    assert read_window(pin("scripted", agent="trivial", context=8000)) == ContextWindow(8000)
    served = pin("openai", base_url="http://localhost:1/v1", context=9, max_tokens=5)
    assert read_window(served) == ContextWindow(9, reply=5)


@pytest.mark.parametrize(
    ("provider", "settings", "said"),
    [
        ("scripted", {"agent": "trivial"}, "setting 'context': a single turn needs"),
        ("scripted", {"agent": "honest", "context": 9}, "an agent that works through tools"),
        ("agent_server", {**ADDRESS, "tree": "host"}, "an agent that works through tools"),
        ("openai", {**ADDRESS, "context": "9"}, "setting 'context': \"9\": Input should be"),
    ],
)
def test_a_model_that_takes_no_single_turn_is_refused(
    provider: str, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(HarnessError, match=said):
        read_window(pin(provider, **settings))


def test_an_attempt_without_a_context_window_is_refused() -> None:
    request = dataclasses.replace(attempt(CELL, brief()), window=None)
    with pytest.raises(HarnessError, match="a single turn needs a plain model's `context`"):
        run_attempt(request, Playback([say(ANSWER)]), LocalSandboxes(), noon)
