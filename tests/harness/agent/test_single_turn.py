"""The single-turn form: the whole task in one message, its size known before it is sent."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from generators.catalog import INSTALLED, Catalog
from generators.seed import Seed
from generators.task import DIFFICULTIES, Asset, TaskSpec
from generators.validation.validate import public_seeds
from harness.agent.single_turn import (
    SingleTurnModel,
    estimate_picture,
    estimate_text,
    fit_context,
    run_single_turn,
    single_turn,
)
from harness.build_model import build_model
from harness.episode import Cell, StopReason
from harness.episodes.grading import grade_episode
from harness.episodes.rollout import AttemptRequest, run_attempt
from harness.errors import AttemptFailed, Boundary, HarnessError
from harness.model import Role
from harness.models.scripted import TrivialAgent
from harness.sandboxes.local import LocalSandboxes
from harness.spending.purchases import MemoryJournal
from harness.storage import EPISODE_CODEC
from registry.ledger.records import ModelPin
from tests.harness.openai_server import completion, serve
from tests.harness.script import ANSWER, Playback, brief, call, noon, say

SEED = Seed(bytes(32))
CELL = Cell(
    "sha256:" + "e" * 64, TaskSpec("find_x", "1", "easy", ()), "sha256:" + "1" * 64, SEED, "m", 0
)


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


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
@pytest.mark.parametrize("name", [each.name for each in Catalog.built_in().newest()])
def test_every_family_has_a_single_turn_form(name: str, difficulty: str) -> None:
    made = single_turn(instance(name, difficulty).brief)
    assert made.tokens == made.text_tokens + made.picture_tokens
    assert made.tokens > 100
    assert fit_context(made, made.tokens + 10, 10) is made
    with pytest.raises(HarnessError, match="use `mode: agentic`"):
        fit_context(made, made.tokens + 9, 10)


def test_the_refusal_says_what_takes_how_much() -> None:
    made = single_turn(instance("count_circles").brief)
    with pytest.raises(HarnessError) as refused:
        fit_context(made, 1000, 500)
    assert f"about {made.tokens:,} tokens" in str(refused.value)
    assert (
        "2 pictures) and 500 for the reply and to spare; the context of the model is 1,000"
        in str(refused.value)
    )


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a plain word", 3), ("123456", 3), ("0.25,0.5", 4), ("µµ", 2)]
)
def test_digits_and_signs_count_double(text: str, tokens: int) -> None:
    assert estimate_text(text) == tokens


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [
        (512, 512, 85 + 4 * 170),  # brought to 768 × 768
        (1024, 1024, 1369),  # 37 × 37 patches outweigh four tiles
        (100, 50, 85 + 6 * 170),  # brought to 1536 × 768
        (3840, 2160, 138 * 78),
        (3000, 100, 85 + 4 * 170),  # a strip is not blown up beyond 2048
    ],
)
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


def test_the_model_is_asked_once_without_tools() -> None:
    model = Playback([say(ANSWER)])
    conduct = run_single_turn(
        brief(), SingleTurnModel(model, 100_000), SEED, MemoryJournal(), itertools.count().__next__
    )
    assert (conduct.stop, conduct.answer, len(conduct.steps)) == (StopReason.ANSWERED, ANSWER, 1)
    (request,) = model.asked
    assert request.tools == ()
    assert request.messages == conduct.opening


def test_a_reply_that_was_paid_for_is_not_bought_again() -> None:
    journal, tick = MemoryJournal(), itertools.count().__next__
    first = SingleTurnModel(Playback([say(ANSWER)], paid=True), 100_000)
    again = SingleTurnModel(Playback([], paid=True), 100_000)
    kept = run_single_turn(brief(), first, SEED, journal, tick)
    assert run_single_turn(brief(), again, SEED, journal, tick).steps[0].reply == (
        kept.steps[0].reply
    )


def test_a_provider_that_fails_is_a_failed_attempt() -> None:
    down = Playback([AttemptFailed(Boundary.PROVIDER, "Timeout")])
    conduct = run_single_turn(
        brief(), SingleTurnModel(down, 9999), SEED, MemoryJournal(), itertools.count().__next__
    )
    assert (conduct.stop, conduct.error_class) == (StopReason.FAILED, "provider:Timeout")


def test_an_attempt_in_one_turn_opens_no_sandbox() -> None:
    """So a model that is not ours may run without an engine: nothing of it is carried out."""
    model = SingleTurnModel(Playback([call(("run_command", {"command": "ls"}))]), 100_000)
    episode = run_attempt(
        AttemptRequest(CELL, 1, brief(), run="sha256:" + "a" * 64, journal=MemoryJournal()),
        model,
        LocalSandboxes(),
        noon,
    )
    assert (episode.container, episode.stop) == ("", StopReason.ANSWERED)
    assert episode.steps[0].uses == ()


def test_a_served_model_is_sent_pictures_and_graded_on_its_one_reply() -> None:
    circles = instance("count_circles")
    key = json.dumps(INSTALLED.family("count_circles").key(circles.truth))
    with serve(completion(f"Counted.\n<answer>\n{key}\n</answer>")) as served:
        settings = {"base_url": served.url, "mode": "single_turn", "context": 8000}
        model = build_model(pin("openai", **settings), {"OPENAI_API_KEY": "sk"})
        cell = dataclasses.replace(CELL, instance=circles.id)
        episode = run_attempt(
            AttemptRequest(
                cell, 1, circles.brief, run="sha256:" + "a" * 64, journal=MemoryJournal()
            ),
            model,
            LocalSandboxes(),
            noon,
        )
    (request,) = served.requests
    assert served.faults == []
    assert not request.get("tools")
    parts = [part for m in request["messages"] for part in m["content"] if isinstance(part, dict)]
    assert [part["type"] for part in parts].count("image_url") == 2
    assert grade_episode(circles, episode).score == 1.0
    assert EPISODE_CODEC.decode(EPISODE_CODEC.encode(episode)) == episode


def pin(provider: str, **settings: Any) -> ModelPin:
    texts = tuple((name, json.dumps(value)) for name, value in settings.items())
    return ModelPin("m", provider, "v-1", texts)


def test_the_mode_is_a_setting_of_the_model() -> None:
    given = pin("scripted", agent="trivial", mode="single_turn", context=8000)
    assert build_model(given) == SingleTurnModel(TrivialAgent("m"), 8000)
    assert build_model(pin("scripted", agent="trivial", mode="agentic")) == TrivialAgent("m")
    served = pin(
        "openai", base_url="http://localhost:1/v1", mode="single_turn", context=9, max_tokens=5
    )
    made = build_model(served, {"OPENAI_API_KEY": "sk"})
    assert isinstance(made, SingleTurnModel)
    assert (made.paid, made.trusted, made.reply) == (True, False, 5)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"agent": "trivial", "mode": "single"}, "unknown mode 'single'; did you mean 'single_t"),
        ({"agent": "trivial", "mode": "single_turn"}, "setting 'context': a single turn needs"),
        ({"agent": "honest", "mode": "single_turn", "context": 9}, "work through tools"),
    ],
)
def test_a_mode_that_cannot_be_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(HarnessError, match=said):
        build_model(pin("scripted", **settings))


def test_study_yaml_takes_the_mode(tmp_path: Path) -> None:
    from study.protocol.protocol import read_protocol

    (tmp_path / "study.yaml").write_text(
        "study: s\ntasks: [{family: compute_average, difficulty: easy}]\nseeds_per_arm: 4\n"
        "models: {m: {provider: openai, model: x, base_url: 'http://localhost:1/v1', "
        "mode: single_turn, context: 32000}}\nwaves: [[m]]\n"
    )
    settings = dict(read_protocol(tmp_path).models[0].settings)
    assert (settings["mode"], settings["context"]) == ('"single_turn"', "32000")
