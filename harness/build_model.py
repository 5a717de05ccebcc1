"""Build the model of a pin: one that responds."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints
from urllib.parse import urlsplit

from harness.agent import REPLY_TOKENS, SETTINGS, ContextWindow
from harness.errors import HarnessError, ModelUnavailable
from harness.model import Model
from harness.spending import OWN_PROVIDERS
from registry.ledger import JudgePin, ModelPin

if TYPE_CHECKING:
    from harness.external_agents import ModelOrAgent
    from harness.models.providers import ProviderModel

# Module of harness/models/providers, and the provider's class in it.
_HOSTED = {
    "openai": ("openai", "OpenAIModel"),
    "azure": ("openai", "AzureModel"),
    "anthropic": ("anthropic", "AnthropicModel"),
    "google": ("google", "GoogleModel"),
    "vertex": ("google", "VertexModel"),
    "vertex_anthropic": ("anthropic", "VertexAnthropicModel"),
    "bedrock": ("bedrock", "BedrockModel"),
}
PROVIDERS = ("scripted", *_HOSTED, "local", "agent_server")
BATCHED = ("openai", "anthropic", "google")  # with a batch interface
TOOL_FORMS = ("native", "text")
_FORM = ("context", *SETTINGS)  # settings of any model
AGENTS = ("honest", "spiked", "trivial")
JUDGES = ("careless",)  # among built-in agents


def _hosted(provider: str) -> type[ProviderModel]:
    module, name = _HOSTED[provider]
    cls: type[ProviderModel] = getattr(
        importlib.import_module(f"harness.models.providers.{module}"), name
    )
    return cls


def endpoint_of(pin: ModelPin | JudgePin) -> tuple[str, str]:
    """Return the address that a model's requests go to and the environment variable that holds its
    key; "" for what it has not."""
    settings = dict(pin.settings)
    stated = [json.loads(settings.get(name, "null")) for name in ("base_url", "api_key_env")]
    hosted = _hosted(pin.provider) if pin.provider in _HOSTED else None
    usual = ("", "") if hosted is None else (hosted.usual_address, hosted.key_variable)
    address, variable = stated
    return address or usual[0], usual[1] if variable is None else variable


def provider_key(pin: ModelPin) -> str | None:
    """Return a name that is the same for models of one account of a provider: they have address,
    variable of the key, region and project in common. None for a model on this machine."""
    if pin.provider in OWN_PROVIDERS:
        return None
    settings, (address, variable) = dict(pin.settings), endpoint_of(pin)
    place = (settings.get(name, "") for name in ("region", "project"))
    return " ".join((address or pin.provider, variable, *place))


def build_model(
    pin: ModelPin, environment: Mapping[str, str] | None = None, folder: str = "."
) -> ModelOrAgent:
    """Return the model of a pin, or the agent. Keys come from the environment, by default that of
    the process; relative paths start at ``folder``. Raises HarnessError, which names the
    setting."""
    settings = _Settings(pin)
    environment = os.environ if environment is None else environment
    if pin.provider == "agent_server":
        return _build_agent_server(settings, environment)
    return _build_any(settings, environment, Path(folder))


def read_window(pin: ModelPin) -> ContextWindow:
    """Return the context window of a model that a task is given to in a single turn. Raises
    HarnessError for an agent, which works through tools, and for a window that is not stated."""
    settings = _Settings(pin)
    plain = "trivial" if pin.provider != "scripted" else "honest"
    agent = settings.get("agent", plain) != "trivial"
    if agent or pin.provider not in PROVIDERS or pin.provider == "agent_server":
        raise settings.refusal(
            "it is an agent that works through tools, and answers no task of `mode: single_turn`"
        )
    if (context := settings.get("context", 0)) < 1:
        raise settings.wrong("context", "a single turn needs the model's context in tokens")
    return ContextWindow(context, settings.get("max_tokens", REPLY_TOKENS))


def _build_any(settings: _Settings, environment: Mapping[str, str], folder: Path) -> Model:
    provider = settings.pin.provider
    if provider == "scripted":
        return _build_scripted(settings, folder)
    if provider == "local":
        return _build_local(settings)
    if provider in _HOSTED:
        model = _spell_calls(_build_hosted(settings, environment), settings)
        return _with_program(model, settings)
    raise settings.refusal(_unknown("provider", provider, PROVIDERS))


@dataclass(frozen=True, slots=True)
class _Settings:
    """The settings of one pin, each read once by name and type."""

    pin: ModelPin

    def get(self, name: str, default: Any, kind: type | None = None) -> Any:
        """The setting's value, of a kind that is the default's unless given; the default if it is
        not set."""
        kind = kind or type(default)
        text = dict(self.pin.settings).get(name)
        if text is None:
            return default
        try:
            value: Any = json.loads(text)
        except ValueError:
            value = None
        fits = isinstance(value, (int, float) if kind is float else kind)
        if not fits or isinstance(value, bool) is not (kind is bool):
            names = {
                float: "a number",
                str: "a text",
                int: "a whole number",
                bool: "true or false",
                dict: "a mapping",
            }
            raise self.wrong(name, f"{text} is not {names[kind]}")
        return value

    def values(self, cls: Any, names: Iterable[str]) -> dict[str, Any]:
        """Return the values of these fields of a dataclass, with its types and defaults."""
        hints = get_type_hints(cls)
        defaults = {each.name: each.default for each in fields(cls)}
        kinds = {name: getattr(hints[name], "__args__", (hints[name],))[0] for name in names}
        return {name: self.get(name, defaults[name], kind) for name, kind in kinds.items()}

    def choice(self, name: str, default: str, known: Iterable[str]) -> str:
        """The setting's value, one of those known."""
        value: str = self.get(name, default)
        if value not in known:
            raise self.wrong(name, _unknown(name, value, known))
        return value

    def share(self, name: str, default: float, kind: str) -> float:
        """The setting's value, a number from 0 to 1."""
        value = float(self.get(name, default))
        if not 0 <= value <= 1:
            raise self.wrong(name, f"{value:g} is not a {kind}; give 0 to 1")
        return value

    def address(self, default: str = "") -> str:
        """The base URL; "" if neither the pin nor the provider has one."""
        url: str = self.get("base_url", default)
        if url and not url.startswith(("http://", "https://")):
            raise self.wrong("base_url", f"{url!r} does not start with http:// or https://")
        return url

    def key(self, environment: Mapping[str, str], usual: str, advice: str) -> str:
        """The key that the environment holds; "" if the pin names no variable."""
        variable = self.get("api_key_env", usual)
        key = environment.get(variable, "").strip() if variable else ""
        if variable and not key:
            raise self.lacks(f"the environment variable {variable} is not set: export {advice}")
        if not (key.isascii() and key.isprintable()):
            raise self.lacks(
                f"the environment variable {variable} holds what no HTTP header can carry: a key "
                "is printable ASCII"
            )
        return key

    def known(self, names: Iterable[str]) -> None:
        """Refuse a setting of any other name."""
        expected = (*names, *_FORM)
        for name, _ in self.pin.settings:
            if name not in expected:
                raise self.refusal(_unknown("setting", name, expected))

    def needs(self, extra: str, libraries: Iterable[str]) -> None:
        """Refuse a model if its libraries are not installed."""
        for library in libraries:
            if importlib.util.find_spec(library) is None:
                raise self.lacks(
                    f"its provider needs {library}, which is not installed: install "
                    f"dosimeter[{extra}]"
                )

    def wrong(self, name: str, reason: str) -> HarnessError:
        return self.refusal(f"setting {name!r}: {reason}")

    def lacks(self, reason: str) -> ModelUnavailable:
        return ModelUnavailable(f"model {self.pin.name!r}: {reason}")

    def refusal(self, reason: str) -> HarnessError:
        return HarnessError(f"model {self.pin.name!r}: {reason}")


def _build_scripted(settings: _Settings, folder: Path) -> Model:
    from harness.models import (
        CarelessJudge,
        HonestAgent,
        SpikedAgent,
        TrivialAgent,
        load_criteria,
        load_memory,
    )

    name, release = settings.pin.name, settings.get("release", "")
    agent = settings.get("agent", "honest")
    if agent in JUDGES:  # it has read its release as soon as there is one
        settings.known(("agent", "release"))
        return CarelessJudge(name, load_criteria(folder / release) if release else ())
    if agent == "trivial":
        settings.known(("agent", "context"))
        return TrivialAgent(name)
    settings.known(("agent", "error_rate", "release", "share"))
    rate = settings.share("error_rate", 0.0, "probability")
    agent = settings.choice("agent", "honest", AGENTS)
    if agent == "honest":
        return HonestAgent(name, rate)
    if not release:
        raise settings.wrong("release", "the spiked agent needs the folder of a release")
    share = settings.share("share", 1.0, "fraction")
    return SpikedAgent(name, rate, load_memory(folder / release).thin(share, name))


def _build_hosted(settings: _Settings, environment: Mapping[str, str]) -> Model:
    from harness.models.providers import Sampling

    pin = settings.pin
    cls = _hosted(pin.provider)
    settings.needs(cls.extra or pin.provider, ("pydantic_ai", *cls.libraries))
    names = [each.name for each in fields(Sampling) if each.name != "extra_body"]
    names = [name for name in names if name not in _OF_SOME or name in cls.own_settings]
    batch = ("batch",) if pin.provider in BATCHED else ()
    settings.get("batch", False)
    own = ("agent", "extra_body", *batch, *cls.own_settings)
    settings.known(("base_url", "api_key_env", "tools", *own, *names))
    advice = (
        "the key in it, name another one in `api_key_env`, or set that to '' for a server that "
        "takes no key"
    )
    key = settings.key(environment, cls.key_variable, advice)
    if not key and cls.key_variable:
        key = "none"  # some servers want a header all the same
    body = _extra_body(settings, cls)
    sampling = Sampling(**settings.values(Sampling, names), extra_body=body)
    if sampling.reasoning_budget is not None and sampling.reasoning_effort is not None:
        raise settings.wrong("reasoning_budget", "give this or `reasoning_effort`, not both")
    usual = "" if "project" in cls.own_settings else cls.usual_address  # that of the region
    model = cls(pin.name, pin.version, settings.address(usual), key, sampling)
    _set_place(model, settings)
    return model


# Settings of the sampling that only some providers have.
_OF_SOME = ("reasoning_field", "send_seed", "send_cache_key", "reasoning_budget")


def _set_place(model: ProviderModel, settings: _Settings) -> None:
    """Set the protocol, region and project of a model if its provider has such. Raises
    HarnessError for one that is missing."""
    from harness.models.providers import CHAT, PROTOCOLS

    own = model.own_settings
    if "protocol" in own:
        model.protocol = settings.choice("protocol", CHAT, PROTOCOLS)
        if model.protocol != CHAT and settings.get("reasoning_field", ""):
            reason = "by Responses, reasoning goes back by itself: leave this out"
            raise settings.wrong("reasoning_field", reason)
        if not settings.address(model.usual_address):
            reason = "names no resource, such as https://NAME.openai.azure.com/openai/v1"
            raise settings.wrong("base_url", reason)
    if "region" in own:
        model.region = settings.get("region", "")
    if "project" in own:
        model.project = settings.get("project", "")
        for name in ("region", "project"):
            if not settings.get(name, ""):
                raise settings.wrong(name, f"a model on Vertex AI needs its {name}")


# Keys of a request's body that dosimeter writes, and those that have a setting of their own.
_WRITTEN = frozenset(
    ("model", "messages", "tools", "tool_choice", "toolConfig", "stream", "store", "cache_control")
)
_SETTINGS_OF = {
    "temperature": "temperature",
    "top_p": "top_p",
    "topP": "top_p",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "maxOutputTokens": "max_tokens",
    "reasoning_effort": "reasoning_effort",
    "thinkingConfig": "reasoning_budget",
    "seed": "send_seed",
}


def _extra_body(settings: _Settings, cls: type[ProviderModel]) -> dict[str, Any]:
    """The mapping that is sent with each request. Raises HarnessError for a key that would change
    what a record promises."""
    body: dict[str, Any] = settings.get("extra_body", {})
    inner = body.get("generationConfig")  # Google's
    for key in (*body, *(inner if isinstance(inner, dict) else ())):
        if key in _WRITTEN or key in cls.fixed_keys:
            raise settings.wrong("extra_body", f"{key!r} is written by dosimeter: leave it out")
        if key in _SETTINGS_OF:
            reason = f"{key!r} has a setting of its own: `{_SETTINGS_OF[key]}`"
            raise settings.wrong("extra_body", reason)
    if "reasoning" in body and settings.get("reasoning_effort", ""):
        raise settings.wrong("extra_body", "give 'reasoning' or `reasoning_effort`, not both")
    return body


def _spell_calls(model: Model, settings: _Settings, usual: str = TOOL_FORMS[0]) -> Model:
    """The model, with its tool calls written in text if the pin asks for that."""
    from harness.models import TextCalls

    form = settings.get("tools", usual)
    if form not in TOOL_FORMS:
        raise settings.wrong("tools", _unknown("form", form, TOOL_FORMS))
    return TextCalls(model) if form == "text" else model


def _with_program(model: Model, settings: _Settings) -> Model:
    """The model, with the agent inside the sandbox that works with it if the pin names one."""
    from harness.external_agents import ProgramAgent

    program = settings.get("agent", "")
    return ProgramAgent(model, settings.pin.version, program) if program else model


def _build_local(settings: _Settings) -> Model:
    from harness.models import WEIGHTS, LocalModel, find_weights

    pin = settings.pin
    settings.known(("threads", "context", "max_tokens", "seconds", "tools"))
    settings.needs("local", ("xllamacpp", "pydantic_ai", "openai"))
    if pin.version not in WEIGHTS:
        raise settings.refusal(_unknown("model", pin.version, WEIGHTS))
    find_weights(pin.version)
    model = LocalModel(
        pin.name,
        pin.version,
        threads=settings.get("threads", 1),
        context=settings.get("context", 8192),
        max_tokens=settings.get("max_tokens", 512),
        seconds=settings.get("seconds", 300.0),
    )
    return _spell_calls(model, settings, "text")


def _build_agent_server(settings: _Settings, environment: Mapping[str, str]) -> ModelOrAgent:
    from harness.external_agents import TREES, AgentServer, AgentServerSettings

    names = [each.name for each in fields(AgentServerSettings) if each.name != "base_url"]
    settings.known(("base_url", "api_key_env", *names))
    base_url = settings.address()
    if not _has_host(base_url):
        raise settings.wrong("base_url", f"{base_url!r} names no host, or a port that is none")
    settings.choice("tree", "", TREES)
    terms = AgentServerSettings(base_url, **settings.values(AgentServerSettings, names))
    if problem := _bridge_problem(terms.bridge, terms.bridge_url):
        raise settings.wrong(*problem)
    advice = "the server's key in it, or leave out `api_key_env` for a server that takes none"
    key = settings.key(environment, "", advice)
    return AgentServer(settings.pin.name, settings.pin.version, terms, key)


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _bridge_problem(bridge: str, bridge_url: str) -> tuple[str, str] | None:
    """Return the setting of a bridge's address that is wrong, and why; None if there is none."""
    host, colon, port = bridge.rpartition(":")
    if not (host and colon and port.isascii() and port.isdigit() and int(port) < 65536):
        return "bridge", f"{bridge!r} is not HOST:PORT, for instance 127.0.0.1:0"
    if host.strip("[]") in ("0.0.0.0", "::") and not bridge_url:  # noqa: S104 - refused, not used
        return "bridge", (
            f"{host} is every address of this machine: say in `bridge_url` under which one the "
            "server finds it, for instance http://10.0.0.5:8790"
        )
    return None


def _unknown(what: str, given: str, known: Iterable[str]) -> str:
    names = tuple(known)
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"unknown {what} {given!r}; {hint}known: {', '.join(names)}"
