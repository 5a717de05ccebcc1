"""From a pinned model to one that responds."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harness.agent import SETTINGS
from harness.errors import HarnessError
from harness.external_agents import ModelOrAgent
from harness.model import Model
from registry.ledger import ModelPin

PROVIDERS = ("scripted", "openai", "anthropic", "google", "bedrock", "local", "agent_server")
MODES = ("agentic", "single_turn")
TOOL_FORMS = ("native", "text")
_FORM = ("mode", "context", *SETTINGS)  # settings of any model
AGENTS = ("honest", "spiked", "trivial")
JUDGES = ("careless",)  # among built-in agents

_NUMBER = (int, float)


@dataclass(frozen=True, slots=True)
class _Service:
    """Where a provider's models are, unless a pin says otherwise."""

    module: str  # of its class here
    cls: str
    needs: tuple[str, ...]  # libraries
    base_url: str
    api_key_env: str
    own: tuple[str, ...] = ()  # settings that no other has


_SERVICES: Mapping[str, _Service] = {
    "openai": _Service(
        "openai",
        "OpenAIModel",
        ("openai",),
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
        ("reasoning_field", "send_seed"),
    ),
    "anthropic": _Service(
        "anthropic",
        "AnthropicModel",
        ("anthropic",),
        "https://api.anthropic.com",
        "ANTHROPIC_API_KEY",
    ),
    "google": _Service(
        "google",
        "GoogleModel",
        ("google", "google.genai"),
        "https://generativelanguage.googleapis.com",
        "GEMINI_API_KEY",
        ("send_seed",),
    ),
    # Without a key boto3 finds credentials, and without an address the region's, by itself.
    "bedrock": _Service("bedrock", "BedrockModel", ("boto3",), "", "", ("region",)),
}


def usual_address(provider: str) -> str:
    """Return the address of a provider's models, unless a pin names another; "" if unknown."""
    return _SERVICES[provider].base_url if provider in _SERVICES else ""


_EXTRAS = {"openai": "models"}  # where an extra is not named like its provider

_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "temperature": _NUMBER,
    "top_p": _NUMBER,
    "max_tokens": int,
    "reasoning_effort": str,
    "reasoning_field": str,
    "send_seed": bool,
    "seconds": _NUMBER,
    "retries": int,
    "backoff_seconds": _NUMBER,
}


_OWN = frozenset(("reasoning_field", "send_seed"))  # of some providers only

_TERMS: Mapping[str, type | tuple[type, ...]] = {  # of an agent server
    "tree": str,
    "rounds": int,
    "temperature": _NUMBER,
    "max_output_tokens": int,
    "seconds": _NUMBER,
    "connect_seconds": _NUMBER,
    "silence_seconds": _NUMBER,
    "retries": int,
    "backoff_seconds": _NUMBER,
    "bridge": str,
    "bridge_url": str,
}


def build_model(
    pin: ModelPin, environment: Mapping[str, str] | None = None, folder: str = "."
) -> ModelOrAgent:
    """The model of a pin, or the agent. Keys come from the environment (the process's where none is
    given), relative paths start at ``folder``. Raises HarnessError, which names the setting."""
    settings = _Settings(pin)
    environment = os.environ if environment is None else environment
    if pin.provider == "agent_server":
        return _build_agent_server(settings, environment)
    model = _build_any(settings, environment, Path(folder))
    mode = settings.get("mode", MODES[0], str)
    if mode not in MODES:
        raise settings.wrong("mode", _unknown("mode", mode, MODES))
    return model if mode == MODES[0] else _in_one_turn(model, settings)


def _build_any(settings: _Settings, environment: Mapping[str, str], folder: Path) -> Model:
    pin = settings.pin
    if pin.provider == "scripted":
        return _build_scripted(settings, folder)
    if pin.provider == "local":
        return _build_local(settings)
    if pin.provider in _SERVICES:
        return _spell_calls(_build_served(settings, environment), settings)
    raise HarnessError(f"model {pin.name!r}: " + _unknown("provider", pin.provider, PROVIDERS))


def _in_one_turn(model: Model, settings: _Settings) -> Model:
    from harness.agent import REPLY_TOKENS, SingleTurnModel

    if settings.pin.provider == "scripted" and settings.get("agent", "honest", str) != "trivial":
        raise settings.wrong("mode", "the built-in agents work through tools: use agentic")
    context = settings.get("context", 0, int)
    if context < 1:
        raise settings.wrong("context", "a single turn needs the model's context in tokens")
    return SingleTurnModel(model, context, settings.get("max_tokens", REPLY_TOKENS, int))


@dataclass(frozen=True, slots=True)
class _Settings:
    """The settings of one pin, each read once by name and type."""

    pin: ModelPin

    def get(self, name: str, default: Any, kinds: type | tuple[type, ...]) -> Any:
        """The setting's value, of one of the kinds; the default where it is not given."""
        text = dict(self.pin.settings).get(name)
        if text is None:
            return default
        try:
            value: Any = json.loads(text)
        except ValueError:
            value = None
        if not isinstance(value, kinds) or isinstance(value, bool) is not (kinds is bool):
            raise self.wrong(name, f"{text} is not {_kind_name(kinds)}")
        return value

    def known(self, names: Iterable[str]) -> None:
        """Refuse a setting of any other name."""
        expected = (*names, *_FORM)
        for name, _ in self.pin.settings:
            if name not in expected:
                raise HarnessError(
                    f"model {self.pin.name!r}: " + _unknown("setting", name, expected)
                )

    def wrong(self, name: str, reason: str) -> HarnessError:
        return HarnessError(f"model {self.pin.name!r}: setting {name!r}: {reason}")


def _build_scripted(settings: _Settings, folder: Path) -> Model:
    from harness.models.scripted import HonestAgent, SpikedAgent, TrivialAgent, load_memory

    agent = settings.get("agent", "honest", str)
    if agent in JUDGES:
        return _build_judge(settings, folder)
    settings.known(("agent", "error_rate", "release", "share"))
    name = settings.pin.name
    rate = float(settings.get("error_rate", 0.0, (int, float)))
    if not 0 <= rate <= 1:
        raise settings.wrong("error_rate", f"{rate:g} is not a probability; give 0 to 1")
    if agent == "honest":
        return HonestAgent(name, rate)
    if agent == "trivial":
        return TrivialAgent(name)
    if agent != "spiked":
        raise settings.wrong("agent", _unknown("agent", agent, AGENTS))
    release = settings.get("release", "", str)
    if not release:
        raise settings.wrong("release", "the spiked agent needs the folder of a release")
    share = float(settings.get("share", 1.0, (int, float)))
    if not 0 <= share <= 1:
        raise settings.wrong("share", f"{share:g} is not a fraction; give 0 to 1")
    return SpikedAgent(name, rate, load_memory(folder / release).thin(share, name))


def _build_judge(settings: _Settings, folder: Path) -> Model:
    """The careless judge. It has read its release as soon as there is one."""
    from harness.models.scripted import CarelessJudge, load_criteria

    settings.known(("agent", "release"))
    release = settings.get("release", "", str)
    return CarelessJudge(settings.pin.name, load_criteria(folder / release) if release else ())


def _build_served(settings: _Settings, environment: Mapping[str, str]) -> Model:
    pin, service = settings.pin, _SERVICES[settings.pin.provider]
    need_extra(pin.name, _EXTRAS.get(pin.provider, pin.provider), ("pydantic_ai", *service.needs))
    from harness.models.providers import ProviderModel, Sampling

    asked = [name for name in _KINDS if name not in _OWN or name in service.own]
    region = ("region",) if "region" in service.own else ()
    settings.known(("base_url", "api_key_env", "tools", *region, *asked))
    key = _find_key(settings, service, environment)
    given = {
        each.name: settings.get(each.name, each.default, _KINDS[each.name])
        for each in fields(Sampling)
    }
    base_url = settings.get("base_url", service.base_url, str)
    if base_url and not base_url.startswith(("http://", "https://")):
        raise settings.wrong("base_url", f"{base_url!r} does not start with http:// or https://")
    module = importlib.import_module(f"harness.models.providers.{service.module}")
    model: ProviderModel = getattr(module, service.cls)(
        pin.name, pin.version, base_url, key, Sampling(**given)
    )
    if region:
        model.region = settings.get("region", "", str)
    return model


def _find_key(settings: _Settings, service: _Service, environment: Mapping[str, str]) -> str:
    """The key of a provider; the one that says that none is needed where the pin names none."""
    variable = settings.get("api_key_env", service.api_key_env, str)
    if not variable:
        return "none" if service.api_key_env else ""
    key = environment.get(variable, "")
    if not key:
        raise HarnessError(
            f"model {settings.pin.name!r}: the environment variable {variable} is not set: export "
            "the key in it, name another one in `api_key_env`, or set that to '' for a server "
            "that takes no key"
        )
    return key


def need_extra(name: str, extra: str, libraries: Iterable[str]) -> None:
    """Refuse a model whose libraries are not installed. Raises HarnessError."""
    for library in libraries:
        if importlib.util.find_spec(library) is None:
            raise HarnessError(
                f"model {name!r}: its provider needs {library}, which is not installed: "
                f"install dosimeter[{extra}]"
            )


def _spell_calls(model: Model, settings: _Settings, usual: str = TOOL_FORMS[0]) -> Model:
    """The model, with its tool calls written in text where the pin says so."""
    from harness.models import TextCalls

    form = settings.get("tools", usual, str)
    if form not in TOOL_FORMS:
        raise settings.wrong("tools", _unknown("form", form, TOOL_FORMS))
    return TextCalls(model) if form == "text" else model


def _build_local(settings: _Settings) -> Model:
    from harness.models.local import WEIGHTS, LocalModel, find_weights

    settings.known(("threads", "context", "max_tokens", "seconds", "tools"))
    pin = settings.pin
    need_extra(pin.name, "local", ("xllamacpp", "pydantic_ai", "openai"))
    if pin.version not in WEIGHTS:
        raise HarnessError(f"model {pin.name!r}: " + _unknown("model", pin.version, WEIGHTS))
    find_weights(pin.version)
    model = LocalModel(
        pin.name,
        pin.version,
        threads=settings.get("threads", 1, int),
        context=settings.get("context", 8192, int),
        max_tokens=settings.get("max_tokens", 512, int),
        seconds=settings.get("seconds", 300.0, _NUMBER),
    )
    return _spell_calls(model, settings, "text")


def _build_agent_server(settings: _Settings, environment: Mapping[str, str]) -> ModelOrAgent:
    from harness.external_agents import TREES, AgentServer, AgentServerSettings

    settings.known(("base_url", "api_key_env", *_TERMS))
    if settings.get("mode", MODES[0], str) != MODES[0]:
        raise settings.wrong("mode", "an agent server works through its own tools: use agentic")
    base_url = settings.get("base_url", "", str)
    if not base_url.startswith(("http://", "https://")):
        raise settings.wrong("base_url", f"{base_url!r} does not start with http:// or https://")
    if not _has_host(base_url):
        raise settings.wrong("base_url", f"{base_url!r} names no host, or a port that is none")
    tree = settings.get("tree", "", str)
    if tree not in TREES:
        raise settings.wrong("tree", _unknown("tree", tree, TREES))
    given = {
        each.name: settings.get(each.name, each.default, _TERMS[each.name])
        for each in fields(AgentServerSettings)
        if each.name in _TERMS and each.name != "tree"
    }
    if problem := bridge_problem(given["bridge"], given["bridge_url"]):
        raise settings.wrong(*problem)
    variable = settings.get("api_key_env", "", str)
    key = environment.get(variable, "").strip() if variable else ""
    if variable and not key:
        raise HarnessError(
            f"model {settings.pin.name!r}: the environment variable {variable} is not set: export "
            "the server's key in it, or leave out `api_key_env` for a server that takes none"
        )
    if not (key.isascii() and key.isprintable()):
        raise HarnessError(
            f"model {settings.pin.name!r}: the environment variable {variable} holds what no HTTP "
            "header can carry: a key is printable ASCII"
        )
    terms = AgentServerSettings(base_url, tree, **given)
    return AgentServer(settings.pin.name, settings.pin.version, terms, key)


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def bridge_problem(bridge: str, bridge_url: str) -> tuple[str, str] | None:
    """The setting of a bridge's address that is wrong, and why; None where they hold."""
    host, colon, port = bridge.rpartition(":")
    if not (host and colon and port.isascii() and port.isdigit() and int(port) < 65536):
        return "bridge", f"{bridge!r} is not HOST:PORT, for instance 127.0.0.1:0"
    if host.strip("[]") in ("0.0.0.0", "::") and not bridge_url:  # noqa: S104 - refused, not used
        return "bridge", (
            f"{host} is every address of this machine: say in `bridge_url` under which one the "
            "server finds it, for instance http://10.0.0.5:8790"
        )
    return None


def _kind_name(kinds: type | tuple[type, ...]) -> str:
    if isinstance(kinds, tuple):
        return "a number"
    return {str: "a text", int: "a whole number", bool: "true or false"}[kinds]


def _unknown(what: str, given: str, known: Iterable[str]) -> str:
    names = tuple(known)
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"unknown {what} {given!r}; {hint}known: {', '.join(names)}"
