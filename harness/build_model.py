"""Build the model of a pin: one that responds."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.agent.single_turn import REPLY_TOKENS, ContextWindow
from harness.errors import HarnessError, ModelUnavailable
from harness.model import Model
from harness.models.settings import (
    VERTEX_ADDRESS,
    AgentServerSettings,
    LocalSettings,
    ScriptedJudgeSettings,
    ScriptedSettings,
    ServedSettings,
    provider_of,
    settings_of,
)
from harness.spending.prices import OWN_PROVIDERS
from registry.ledger.records import JudgePin, ModelPin

if TYPE_CHECKING:
    from harness.agent.agent import Agent, ModelOrAgent
    from harness.models.providers.base import ProviderModel

# Module and class of each hosted provider, and of agents with a loop of their own: loaded on use.
_SERVED = {
    "openai": "harness.models.providers.openai:OpenAIModel",
    "azure": "harness.models.providers.openai:AzureModel",
    "anthropic": "harness.models.providers.anthropic:AnthropicModel",
    "google": "harness.models.providers.google:GoogleModel",
    "vertex": "harness.models.providers.google:VertexModel",
    "vertex_anthropic": "harness.models.providers.anthropic:VertexAnthropicModel",
    "bedrock": "harness.models.providers.bedrock:BedrockModel",
}
_AGENT_SERVER = "harness.external_agents.client:AgentServer"
_PROGRAM = "harness.external_agents.program_agent:ProgramAgent"
_KEY_ADVICE = (
    "the key in it, name another one in `api_key_env`, or set that to '' for a server that takes "
    "no key"
)


def endpoint_of(pin: ModelPin | JudgePin) -> tuple[str, str]:
    """Return the address that a model's requests go to and the environment variable that holds its
    key; "" for what it has not."""
    settings = settings_of(pin)
    usual = VERTEX_ADDRESS if pin.provider.startswith("vertex") else ""
    address = getattr(settings, "base_url", None) or usual
    return address, getattr(settings, "api_key_env", "")


def provider_key(pin: ModelPin) -> str | None:
    """Return a name that is the same for models of one account of a provider: they have address,
    variable of the key, region and project in common. None for a model on this machine."""
    if pin.provider in OWN_PROVIDERS:
        return None
    settings, (address, variable) = dict(pin.settings), endpoint_of(pin)
    place = (settings.get(name, "") for name in ("region", "project"))
    return " ".join((address or pin.provider, variable, *place))


def build_model(
    pin: ModelPin,
    environment: Mapping[str, str] | None = None,
    folder: str = ".",
    sources: Iterable[tuple[str, str, str]] = (),
) -> ModelOrAgent:
    """Return the model of a pin, or the agent. Keys come from the environment, by default that of
    the process; relative paths start at ``folder``. Built-in agents know the programs of the task
    files in ``sources``. Raises HarnessError, which names the setting."""
    settings = settings_of(pin)
    environment = os.environ if environment is None else environment
    match settings:
        case ScriptedSettings() | ScriptedJudgeSettings():
            return _build_scripted(pin.name, settings, Path(folder), sources)
        case LocalSettings():
            return _build_local(pin.name, settings)
        case AgentServerSettings():
            advice = "the server's key in it, or leave out `api_key_env` for a server without one"
            key = _find_key(pin.name, settings.api_key_env, environment, advice)
            agent: ModelOrAgent = _load(_AGENT_SERVER)(pin.name, settings, key)
            return agent
        case ServedSettings():
            return _build_served(pin.name, settings, environment)
    raise AssertionError(settings)


def build_plain_model(
    pin: ModelPin, environment: Mapping[str, str] | None = None, folder: str = "."
) -> Model:
    """Return the model of a pin, as ``build_model`` does. Raises HarnessError also for an agent
    server, which cannot be asked a single question."""
    model = build_model(pin, environment, folder)
    if isinstance(model, Model):
        return model
    raise HarnessError(f"model {pin.name!r}: an agent with a loop of its own, and no plain model")


def agent_class(pin: ModelPin) -> type[Agent] | None:
    """Return the class of a pin's agent, if that has a loop of its own; None for a model in the
    built-in loop. Raises HarnessError, which names the setting."""
    settings = settings_of(pin)
    if isinstance(settings, AgentServerSettings):
        path = _AGENT_SERVER
    elif isinstance(settings, ServedSettings) and settings.agent:
        path = _PROGRAM
    else:
        return None
    cls: type[Agent] = _load(path)
    return cls


@cache
def read_window(pin: ModelPin) -> ContextWindow:
    """Return the context window of a model that a task is given to in a single turn. Raises
    HarnessError for an agent, which works through tools, and for a window that is not stated."""
    settings = settings_of(pin)
    built_in = isinstance(settings, ScriptedSettings) and settings.agent != "trivial"
    if built_in or agent_class(pin) is not None:
        raise HarnessError(
            f"model {pin.name!r}: it is an agent that works through tools, and answers no task of "
            "`mode: single_turn`"
        )
    # As stated: what a local model's server is started with says nothing of a single turn.
    stated = settings.model_dump(include={"context", "max_tokens"}, exclude_unset=True)
    if not stated.get("context"):
        raise HarnessError(
            f"model {pin.name!r}: setting 'context': a single turn needs the context in tokens"
        )
    return ContextWindow(stated["context"], stated.get("max_tokens") or REPLY_TOKENS)


def _build_scripted(
    name: str,
    settings: ScriptedSettings | ScriptedJudgeSettings,
    folder: Path,
    sources: Iterable[tuple[str, str, str]],
) -> Model:
    from generators.dressings.family import dressed_families
    from harness.models import scripted

    release = folder / (settings.release or "")
    if isinstance(settings, ScriptedJudgeSettings):  # reads its release as soon as there is one
        read = scripted.load_criteria(release) if settings.release else ()
        return scripted.CarelessJudge(name, read)
    if settings.agent == "trivial":
        return scripted.TrivialAgent(name)
    families = dressed_families(sources)
    agent = scripted.SolvingAgent(name, settings.error_rate, families=families)
    if settings.agent == "honest":
        return agent
    memory = scripted.load_memory(release).thin(settings.share, name)
    if settings.generalises:
        return replace(agent, learnt=scripted.shown_families(release, families))
    return replace(agent, memory=memory)


def _build_local(name: str, settings: LocalSettings) -> Model:
    from harness.models.local import LocalModel, find_weights
    from harness.models.text_tool_calls import TextCalls

    _check_libraries(name, "local", ("xllamacpp", "pydantic_ai", "openai"))
    find_weights(settings.model)
    model = LocalModel(name, settings)
    return TextCalls(model) if settings.tools == "text" else model


def _build_served(name: str, settings: ServedSettings, environment: Mapping[str, str]) -> Model:
    from harness.models.text_tool_calls import TextCalls

    provider = provider_of(type(settings))
    cls: type[ProviderModel] = _load(_SERVED[provider])
    _check_libraries(name, cls.extra or provider, ("pydantic_ai", *cls.libraries))
    key = _find_key(name, settings.api_key_env, environment, _KEY_ADVICE)
    if not key and type(settings).model_fields["api_key_env"].default:
        key = "none"  # some servers want a header all the same
    model: Model = cls(name, settings, key)
    if settings.tools == "text":
        model = TextCalls(model)
    if settings.agent:
        model = _load(_PROGRAM)(model, settings.model, settings.agent)
    return model


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def _find_key(name: str, variable: str, environment: Mapping[str, str], advice: str) -> str:
    """Return the key that the environment holds; "" if no variable is named."""
    key = environment.get(variable, "").strip() if variable else ""
    if variable and not key:
        raise ModelUnavailable(
            f"model {name!r}: the environment variable {variable} is not set: export {advice}"
        )
    if not (key.isascii() and key.isprintable()):
        raise ModelUnavailable(
            f"model {name!r}: the environment variable {variable} holds what no HTTP header can "
            "carry: a key is printable ASCII"
        )
    return key


def _check_libraries(name: str, extra: str, libraries: Iterable[str]) -> None:
    """Raise ModelUnavailable for a library that is not installed."""
    for library in libraries:
        if importlib.util.find_spec(library) is None:
            raise ModelUnavailable(
                f"model {name!r}: its provider needs {library}, which is not installed: "
                f"pip install 'dosimeter[{extra}]'"
            )
