"""From a pin to a model: what is refused, and how it says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.build_model import build_model
from harness.errors import HarnessError
from harness.models.local import weights_path
from harness.models.providers.anthropic import AnthropicModel
from harness.models.providers.bedrock import BedrockModel
from harness.models.providers.google import GoogleModel
from harness.models.providers.openai import OpenAIModel
from harness.models.scripted import SolvingAgent, TrivialAgent
from harness.models.settings import (
    JUDGE_SETTINGS,
    MODEL_SETTINGS,
    LocalSettings,
    ModelSettings,
    pin_model,
    settings_of,
)
from harness.models.text_tool_calls import TextCalls
from registry.ledger.records import ModelPin
from tests.cases import cases

KEY = {"OPENAI_API_KEY": "sk-never-shown"}


def pin(provider: str, **settings: Any) -> ModelPin:
    address = {"base_url": "http://127.0.0.1:9/v1"} if provider in ("openai", "azure") else {}
    texts = tuple((name, json.dumps(value)) for name, value in {**address, **settings}.items())
    return ModelPin("m", provider, "v-1", texts)


def test_scripted_agents_are_built_from_their_settings() -> None:
    assert build_model(pin("scripted", agent="honest", error_rate=0.25)) == SolvingAgent("m", 0.25)
    assert build_model(pin("scripted")) == SolvingAgent("m", 0.0)
    assert build_model(pin("scripted", agent="trivial")) == TrivialAgent("m")
    assert build_model(pin("scripted", agent="trivial", context=8000)) == TrivialAgent("m")


def test_a_spiked_agent_reads_its_release_relative_to_the_study(tmp_path: Path) -> None:
    spiked = pin("scripted", agent="spiked", error_rate=0.1, release="releases/public")
    with pytest.raises(HarnessError, match=f"^{tmp_path}/releases/public: no release here"):
        build_model(spiked, folder=str(tmp_path))


def test_a_served_model_is_neither_trusted_nor_free() -> None:
    model = build_model(pin("openai", base_url="http://localhost:1/v1", temperature=0), KEY)
    assert isinstance(model, OpenAIModel)
    assert (model.name, model.trusted, model.paid) == ("m", False, True)
    assert "sk-never-shown" not in repr(model)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        *((pin(name, **given), said) for (name, given), said in cases(__file__, "wrong_pins")),
        (ModelPin("m", "azure", "v"), "setting 'base_url' is missing"),
    ],
)
def test_a_wrong_pin_is_one_error_that_names_the_place(given: ModelPin, message: str) -> None:
    with pytest.raises(HarnessError) as refused:
        build_model(given, KEY)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("provider", "variable", "cls"),
    [("anthropic", "ANTHROPIC_API_KEY", AnthropicModel), ("google", "GEMINI_API_KEY", GoogleModel)],
)
def test_each_provider_has_its_own_key(provider: str, variable: str, cls: type) -> None:
    assert isinstance(build_model(pin(provider), {variable: "k"}), cls)
    with pytest.raises(HarnessError, match=f"environment variable {variable} is not set"):
        build_model(pin(provider), KEY)


def test_bedrock_finds_credentials_by_itself_unless_a_key_is_named() -> None:
    assert isinstance(build_model(pin("bedrock", region="eu-west-1"), {}), BedrockModel)
    with pytest.raises(HarnessError, match="environment variable AWS_BEARER is not set"):
        build_model(pin("bedrock", api_key_env="AWS_BEARER"), {})


def test_calls_are_written_in_text_where_the_pin_says_so() -> None:
    model = build_model(pin("openai", tools="text", base_url="http://localhost:1/v1"), KEY)
    assert isinstance(model, TextCalls)
    assert (model.name, model.trusted, model.paid) == ("m", False, True)
    assert "sk-never-shown" not in repr(model)


def test_weights_that_were_not_fetched_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    local = ModelPin("m", "local", "smollm2")
    with pytest.raises(HarnessError, match="`dosimeter models fetch smollm2`"):
        build_model(local, {})
    path = weights_path("smollm2")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"other")
    with pytest.raises(HarnessError, match="another SHA-256"):
        build_model(local, {})


def test_a_missing_key_is_named_and_can_be_declared_unneeded() -> None:
    with pytest.raises(HarnessError, match="environment variable OPENAI_API_KEY is not set"):
        build_model(pin("openai"), {})
    with pytest.raises(HarnessError, match="environment variable MY_KEY is not set"):
        build_model(pin("openai", api_key_env="MY_KEY"), KEY)
    assert build_model(pin("openai", api_key_env="MY_KEY"), {"MY_KEY": "k"}).paid
    assert build_model(pin("openai", api_key_env="", base_url="http://localhost:1/v1"), {}).paid


@pytest.mark.parametrize("cls", [*MODEL_SETTINGS.values(), *JUDGE_SETTINGS.values()])
def test_a_pin_holds_what_was_stated_and_gives_the_settings_back(cls: type[ModelSettings]) -> None:
    examples = {
        **{"model": "v-1", "base_url": "http://h/v1", "region": "r-1", "project": "p"},
        **{"tree": "host", "agent": "careless", "weights": "w.npz", "sha256": "a" * 64},
    }
    stated = {name: examples[name] for name, field in cls.model_fields.items()
              if field.is_required() and name != "provider"}  # fmt: skip
    if cls is LocalSettings:
        stated["model"] = "smollm2"
    pinned = pin_model("m", cls.make(family="llama", retention="kept", **stated))
    assert settings_of(pinned) == cls.make(**stated)  # facts are no part of a pin
    assert {name for name, _ in pinned.settings} == stated.keys() - {"model", "sha256"}
