"""The settings of models: one class per provider.

``study.yaml`` is validated against these classes, its reference and JSON Schema document them, and
the models are built from them. A pin in the ledger holds the same settings as canonical JSON.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Mapping
from datetime import date
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import ErrorDetails

from harness.errors import HarnessError
from registry.files import read_beside
from registry.ledger.records import JudgePin, ModelPin

NAME = r"^[a-z0-9][a-z0-9._-]{0,62}$"
URL = r"^https?://[^/@\s]+(/[^@\s]*)?$"  # without a user or password: it goes into the ledger
VARIABLE = r"^([A-Z_][A-Z0-9_]*)?$"  # of the environment; "" for none
ADDRESS = r"^([\w.-]+|\[[0-9a-fA-F:]+\]):[0-9]{1,5}$"
# Ends of addresses that are of one kind of request.
_ENDPOINT = re.compile(
    r"/(?:(?:chat/)?completions|responses|(?:v1/)?messages|embeddings|api/chat)/?$|:\w*enerateContent$"
)
_REGION = r"^[a-z0-9-]+$"
VERTEX_ADDRESS = "https://aiplatform.googleapis.com"  # of Google; requests go to the region's own


def _check_host(url: str) -> str:
    """Return an address. Raises ValueError if it names no host."""
    try:
        parts = urlsplit(url)
        named, ending = bool(parts.hostname) and parts.port != 0, _ENDPOINT.search(parts.path)
    except ValueError:
        named, ending = False, None
    if not named:
        raise ValueError("the address names no host, or a port that is none")
    if ending:
        raise ValueError(f"the address ends before {ending[0]}, which is added to it: leave it out")
    return url


Name = Annotated[str, Field(pattern=NAME)]
Url = Annotated[str, Field(pattern=URL)]
BaseUrl = Annotated[Url, AfterValidator(_check_host)]  # the address that requests' paths follow
Variable = Annotated[str, Field(pattern=VARIABLE)]
Region = Annotated[str, Field(pattern=_REGION)]
Tokens = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]
Usd = Annotated[float, Field(gt=0)]
Retries = Annotated[int, Field(ge=0, le=20)]
Pause = Annotated[float, Field(ge=0, le=60)]  # seconds
Temperature = Annotated[float, Field(ge=0, le=2)]
Share = Annotated[float, Field(ge=0, le=1)]
Effort = Literal["minimal", "low", "medium", "high", "xhigh", "max"]
ToolForm = Literal["native", "text"]
Protocol = Literal["chat", "responses"]

_KEYS = read_beside(__file__, "settings.yaml")
_WRITTEN, _SETTINGS_OF = frozenset(_KEYS["written"]), _KEYS["settings_of"]


class ModelSettings(BaseModel):
    """Settings of any model. The documented facts are no part of its pin: no request depends on
    them."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True
    )
    facts: ClassVar[frozenset[str]] = frozenset(("family", "released", "cutoff", "retention"))

    family: Name | None = None  # of models that share a maker; judges are measured by it
    structured: bool | None = None  # of judges: the server holds replies to a JSON Schema
    released: date | None = None  # as documented
    cutoff: date | None = None  # of its training data, as documented
    # The provider's documented handling of data sent to the model: docs/waves.md.
    retention: Literal["none", "kept", "training", "unknown"] | None = None

    @property
    def version(self) -> str:
        """The exact model, as its pin names it."""
        return str(getattr(self, "model"))  # noqa: B009 - each provider has its own field

    @classmethod
    def of_version(cls, version: str) -> dict[str, str]:
        """Return the settings that a pin's version stands for."""
        return {"model": version}

    @classmethod
    def make(cls, **settings: Any) -> Self:
        """Return the settings of this provider. Raises ValidationError."""
        return cls.model_validate({"provider": provider_of(cls), **settings})


class _BuiltInSettings(ModelSettings):
    """Settings of what is built in: its agent is a setting, and the commit is its version."""

    provider: Literal["scripted"]
    agent: str

    @property
    def version(self) -> str:
        """The agent; the commit is pinned beside it."""
        return f"{self.agent}/1"

    @classmethod
    def of_version(cls, version: str) -> dict[str, str]:
        """Return nothing: the agent is a setting."""
        return {}


class ScriptedSettings(_BuiltInSettings):
    agent: Literal["honest", "spiked", "trivial"] = "honest"
    error_rate: Share = 0.0
    release: str | None = Field(default=None, validate_default=True)  # a spiked agent has read it
    share: Share = 1.0  # of it that the agent remembers
    generalises: bool = False  # it has learnt the dressings in it, and remembers no instance
    context: Tokens | None = None  # for a single turn, of a trivial agent

    @field_validator("release", "share", "generalises")
    @classmethod
    def _is_of_a_spiked_agent(cls, value: Any, info: ValidationInfo) -> Any:
        spiked = info.data.get("agent") == "spiked"
        if value and not spiked:
            raise ValueError("only a spiked agent takes it")
        if info.field_name == "release" and spiked and not value:
            raise ValueError("a spiked agent needs `release:`, the folder that it has read")
        return value


class ScriptedJudgeSettings(_BuiltInSettings):
    """The judge that is built in; of `judges` alone."""

    agent: Literal["careless"]
    release: str | None = None  # folder that it has read, from when there is one


class ServedSettings(ModelSettings):
    """Settings of models behind a provider's API. None leaves the choice to the provider."""

    fixed_keys: ClassVar[frozenset[str]] = frozenset()  # of a request's body: we alone write them

    model: str
    base_url: BaseUrl | None = None
    # "" for a server that takes no key, and for boto3 or Google to find credentials
    api_key_env: Variable = ""
    temperature: Temperature | None = None
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens: Tokens | None = None
    reasoning_effort: Effort | None = None
    seconds: Seconds = 300.0  # for one request, from its start to the last byte
    retries: Retries = 3
    backoff_seconds: Pause = 1.0  # before the first retry; doubled for each further one
    extra_body: dict[str, JsonValue] = {}  # sent with each request as it is
    tools: ToolForm = "native"  # how tool calls are written
    agent: Name | None = None  # program of the sandbox image that works with the model
    context: Tokens | None = None  # for a single turn
    episode_tokens: Tokens | None = None  # input and output of all turns of an episode
    episode_usd: Usd | None = None

    @field_validator("extra_body")
    @classmethod
    def _keeps_to_the_record(
        cls, body: dict[str, JsonValue], info: ValidationInfo
    ) -> dict[str, JsonValue]:
        inner = body.get("generationConfig")  # Google's
        for key in (*body, *(inner if isinstance(inner, dict) else ())):
            if key in _WRITTEN or key in cls.fixed_keys:
                raise ValueError(f"{key!r} is written by dosimeter: leave it out")
            if key in _SETTINGS_OF:
                raise ValueError(f"{key!r} has a setting of its own: `{_SETTINGS_OF[key]}`")
        if "reasoning" in body and info.data.get("reasoning_effort"):
            raise ValueError("give 'reasoning' or `reasoning_effort`, not both")
        return body


class _OpenAIProtocol(ServedSettings):
    """Settings of servers that speak OpenAI's protocols."""

    fixed_keys = frozenset(("input", "instructions", "include", "n", "prompt_cache_key"))

    base_url: BaseUrl
    reasoning_effort: str | None = None  # type: ignore[assignment]  # each server has its own
    protocol: Protocol = "chat"
    send_seed: bool = False  # give the server a seed for each turn


class OpenAISettings(_OpenAIProtocol):
    provider: Literal["openai"]
    api_key_env: Variable = "OPENAI_API_KEY"
    # Field of its messages; if given, reasoning goes back under it.
    reasoning_field: str | None = Field(default=None, pattern=r"^[a-z_]+$")
    send_cache_key: bool | None = None  # name the conversation to the server's cache

    @field_validator("reasoning_field")
    @classmethod
    def _is_of_chat(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value and info.data.get("protocol") == "responses":
            raise ValueError("by Responses, reasoning goes back by itself: leave this out")
        return value


class AzureSettings(_OpenAIProtocol):
    provider: Literal["azure"]
    api_key_env: Variable = "AZURE_OPENAI_API_KEY"


class _BudgetSettings(ServedSettings):
    """Settings of models that take a number of tokens for their reasoning."""

    reasoning_budget: Tokens | None = None

    @field_validator("reasoning_budget")
    @classmethod
    def _is_the_only_limit(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and info.data.get("reasoning_effort") is not None:
            raise ValueError("give this or `reasoning_effort`, not both")
        return value


class _AnthropicBody(_BudgetSettings):
    fixed_keys = frozenset(("system", "thinking", "output_config", "anthropic_version"))


class AnthropicSettings(_AnthropicBody):
    provider: Literal["anthropic"]
    base_url: BaseUrl = "https://api.anthropic.com"
    api_key_env: Variable = "ANTHROPIC_API_KEY"


class _GoogleBody(_BudgetSettings):
    fixed_keys = frozenset(
        ("contents", "systemInstruction", "cachedContent", "candidateCount", "responseJsonSchema")
    )

    send_seed: bool = False  # give the server a seed for each turn


class GoogleSettings(_GoogleBody):
    provider: Literal["google"]
    base_url: BaseUrl = "https://generativelanguage.googleapis.com"
    api_key_env: Variable = "GEMINI_API_KEY"


class _CloudPlace(BaseModel):
    """Where models of Google Cloud run."""

    region: Region
    project: str = Field(pattern=r"^[a-z0-9.:-]+$")


class VertexSettings(_CloudPlace, _GoogleBody):
    provider: Literal["vertex"]


class VertexAnthropicSettings(_CloudPlace, _AnthropicBody):
    provider: Literal["vertex_anthropic"]


class BedrockSettings(_BudgetSettings):
    fixed_keys = frozenset(("system", "thinking"))

    provider: Literal["bedrock"]
    region: Region | None = None  # the environment's if left out


class LocalSettings(ModelSettings):
    provider: Literal["local"]
    model: Literal["smollm2"]
    threads: int = Field(default=1, ge=1, le=256)
    context: int = Field(default=8192, ge=512, le=8192)  # tokens
    max_tokens: Tokens = 512
    seconds: Seconds = 300.0  # for one reply
    tools: ToolForm = "text"
    episode_tokens: Tokens | None = None  # input and output of all turns of an episode


class AgentServerSettings(ModelSettings):
    """Request settings of an agent's server and its time limits. Seconds are wall time."""

    provider: Literal["agent_server"]
    model: str = "unknown"  # the server's name for its model
    base_url: BaseUrl
    tree: Literal["host", "bridge"]
    api_key_env: Variable = ""
    temperature: Temperature | None = None
    max_output_tokens: Tokens | None = None
    rounds: int = Field(default=20, ge=1, le=1000)
    seconds: Seconds | None = None  # for all of an episode, if less than the task's wall time
    connect_seconds: Seconds = 10.0
    silence_seconds: Seconds = 300.0  # without a byte, before it is given up
    retries: Retries = 3  # before the first byte
    backoff_seconds: Pause = 1.0  # before the first retry; doubled for each further one
    bridge_url: Url | None = None  # address that the server uses, if another
    bridge: str = Field(default="127.0.0.1:0", pattern=ADDRESS)  # where the bridge listens

    @field_validator("bridge_url", "bridge")
    @classmethod
    def _has_a_use(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("tree") == "host":
            message = "with `tree: host` there is no bridge; write `tree: bridge`, or leave it out"
            raise ValueError(message)
        if info.field_name == "bridge" and value is not None:
            host, _, port = value.rpartition(":")
            if int(port) > 65535:
                raise ValueError(f"{value!r} is not HOST:PORT, for instance 127.0.0.1:0")
            if host.strip("[]") in ("0.0.0.0", "::") and not info.data.get("bridge_url"):  # noqa: S104 - refused, not used
                raise ValueError(
                    f"{host} is every address of this machine: say in `bridge_url` under which one "
                    "the server finds it, for instance http://10.0.0.5:8790"
                )
        return value


PlainSettings = (
    OpenAISettings
    | AzureSettings
    | AnthropicSettings
    | GoogleSettings
    | VertexSettings
    | VertexAnthropicSettings
    | BedrockSettings
    | LocalSettings
)
AnyModel = Annotated[
    ScriptedSettings | PlainSettings | AgentServerSettings, Field(discriminator="provider")
]
AnyJudge = Annotated[ScriptedJudgeSettings | PlainSettings, Field(discriminator="provider")]


def provider_of(cls: type[ModelSettings]) -> str:
    """Return the name of the provider whose settings a class has."""
    name: str = cls.model_fields["provider"].annotation.__args__[0]  # type: ignore[union-attr]
    return name


def _by_provider(union: Any) -> Mapping[str, type[ModelSettings]]:
    classes = union.__origin__.__args__
    return {provider_of(cls): cls for cls in classes}


MODEL_SETTINGS = _by_provider(AnyModel)
JUDGE_SETTINGS = _by_provider(AnyJudge)
JUDGES = ("careless",)  # among built-in agents


def pin_model(name: str, settings: ModelSettings) -> ModelPin:
    """Return the pin of a model: the settings that were stated, as canonical JSON."""
    values = settings.model_dump(
        exclude_none=True,
        exclude_unset=True,
        exclude={"provider", *settings.facts, *settings.of_version("")},
    )
    texts = sorted((key, json.dumps(value, sort_keys=True)) for key, value in values.items())
    return ModelPin(name, provider_of(type(settings)), settings.version, tuple(texts))


def settings_of(pin: ModelPin | JudgePin) -> ModelSettings:
    """Return the settings of a pin. Raises HarnessError, which names the setting."""
    texts = dict(pin.settings)
    judge = pin.provider == "scripted" and texts.get("agent", "") in map(json.dumps, JUDGES)
    classes = JUDGE_SETTINGS if judge else MODEL_SETTINGS
    if pin.provider not in classes:
        message = unknown("provider", pin.provider, classes)
        raise HarnessError(f"model {pin.name!r}: {message}")
    cls = classes[pin.provider]
    values = {"provider": pin.provider, **cls.of_version(pin.version)}
    stated = [*((key, json.dumps(value)) for key, value in values.items()), *texts.items()]
    try:
        return cls.model_validate_json(
            f"{{{', '.join(f'{json.dumps(key)}: {text}' for key, text in stated)}}}"
        )
    except ValidationError as error:
        # A setting with a wrong name comes first: another one may be missing because of it.
        first = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
        raise HarnessError(f"model {pin.name!r}: {_explain(first, cls)}") from None


def _explain(error: ErrorDetails, cls: type[ModelSettings]) -> str:
    name = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return unknown("setting", name, cls.model_fields)
    if error["type"] == "missing":
        return f"setting {name!r} is missing"
    reason = error["msg"].removeprefix("Value error, ")
    # Without the value of an address, which may hold a password.
    value = "" if "url" in name or not name else f"{json.dumps(error['input'], default=str)}: "
    return f"setting {name!r}: {value}{reason}"


def unknown(what: str, given: str, known: Collection[str]) -> str:
    """Return the message for a name that is none of those known, with the nearest."""
    near = difflib.get_close_matches(given, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"unknown {what} {given!r}; {hint}known: {', '.join(known)}"
