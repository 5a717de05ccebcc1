"""``study.yaml``: what a study is, checked whole before anything runs."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from analysis.errors import AnalysisError
from generators.catalog import INSTALLED, Catalog
from generators.errors import GeneratorError
from generators.task import Family
from generators.templates import template_family
from harness.build_model import JUDGES
from harness.episodes import DETERMINISTIC
from harness.judging import pin_judge
from harness.spending import OWN_PROVIDERS
from registry.ledger import JudgePin, JudgeRule, ModelPin, Plan, record_digest
from study.errors import StudyError
from study.protocol.plan_section import (
    SECTIONS,
    ControlsSection,
    Count,
    JudgeRuleSection,
    PlanSection,
    Section,
    make_plan,
    refuse_idle_keys,
)
from study.protocol.template_file import read_template
from study.protocol.wave_section import (
    PANEL,
    ReserveSection,
    Tranches,
    planned_tranches,
    spell_out_waves,
)
from study.protocol.yaml import Document, Place, explain_fault, read_yaml

FILE_NAME = "study.yaml"
GRADERS = (DETERMINISTIC, "lenient")  # columns that every study may have
_NAME = r"^[a-z0-9][a-z0-9._-]{0,62}$"
_URL = r"^https?://[^/@\s]+(/[^@\s]*)?$"  # without a user or password: it goes into the ledger
_ADDRESS = r"^([\w.-]+|\[[0-9a-fA-F:]+\]):[0-9]{1,5}$"
_RECIPIENT = r"^age1[02-9ac-hj-np-z]{58}$"
Name = Annotated[str, Field(pattern=_NAME)]
Usd = Annotated[float, Field(gt=0, le=1_000_000_000)]


class TaskSection(Section):
    family: str | None = None
    version: str | None = None
    difficulty: str | None = None
    template: str | None = None  # a template file, or one of the library's by its name
    questions: Annotated[tuple[str | int, ...], Field(min_length=1)] | None = None  # default: all


class _ModelSection(Section):
    family: Name | None = None  # of models that share a maker; judges are measured by it
    structured: bool | None = None  # of judges: the server holds replies to a JSON Schema
    released: date | None = None  # as documented
    cutoff: date | None = None  # of its training data, as documented
    # What its provider does with what it is sent, as documented: docs/waves.md.
    retention: Literal["none", "kept", "training", "unknown"] | None = None


class ScriptedSection(_ModelSection):
    provider: Literal["scripted"]
    agent: Literal["honest", "spiked"]
    error_rate: float = Field(ge=0, le=1)
    release: str | None = None  # folder that a spiked agent has read
    share: float | None = Field(default=None, ge=0, le=1)  # of it that the agent remembers


class ScriptedJudgeSection(_ModelSection):
    """The judge that is built in; of `judges` alone."""

    provider: Literal["scripted"]
    agent: Literal["careless"]
    release: str | None = None  # folder that it has read, from when there is one


class _ServedSection(_ModelSection):
    """What models of all providers may be told; what is left out is left to the provider."""

    model: str
    base_url: str | None = Field(default=None, pattern=_URL)
    # "" for a server that takes no key, and for boto3 to find its credentials
    api_key_env: str | None = Field(default=None, pattern=r"^([A-Z_][A-Z0-9_]*)?$")
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    reasoning_effort: Literal["minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    seconds: float | None = Field(default=None, gt=0)  # for one reply
    retries: int | None = Field(default=None, ge=0, le=20)
    tools: Literal["native", "text"] | None = None  # how tool calls are written
    mode: Literal["agentic", "single_turn"] | None = None
    context: int | None = Field(default=None, ge=1)  # tokens, for a single turn


class OpenAISection(_ServedSection):
    provider: Literal["openai"]
    base_url: str = Field(pattern=_URL)
    reasoning_effort: str | None = None  # type: ignore[assignment]  # each server has its own
    reasoning_field: str | None = Field(default=None, pattern=r"^[a-z_]+$")
    send_seed: bool | None = None
    # How the server tells log-probabilities of a text that it is given, and of how many of the
    # likeliest tokens beside the text's own: docs/probes.md.
    logprobs: Literal["echo", "prompt_logprobs"] | None = None
    top_logprobs: int | None = Field(default=None, ge=1, le=1_000_000)


class AnthropicSection(_ServedSection):
    provider: Literal["anthropic"]


class GoogleSection(_ServedSection):
    provider: Literal["google"]
    send_seed: bool | None = None


class BedrockSection(_ServedSection):
    provider: Literal["bedrock"]
    region: str | None = Field(default=None, pattern=r"^[a-z0-9-]+$")


class LocalSection(_ModelSection):
    provider: Literal["local"]
    model: Literal["smollm2"]
    threads: int | None = Field(default=None, ge=1, le=256)
    context: int | None = Field(default=None, ge=512, le=8192)  # tokens
    max_tokens: int | None = Field(default=None, ge=1)
    seconds: float | None = Field(default=None, gt=0)  # for one reply
    tools: Literal["native", "text"] | None = None


class AgentServerSection(_ModelSection):
    provider: Literal["agent_server"]
    model: str = "unknown"  # what the server says that it serves
    base_url: str = Field(pattern=_URL)
    tree: Literal["host", "bridge"]
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Z_][A-Z0-9_]*$")
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_output_tokens: int | None = Field(default=None, ge=1)
    rounds: int | None = Field(default=None, ge=1, le=1000)
    seconds: float | None = Field(default=None, gt=0)  # for all of an episode
    connect_seconds: float | None = Field(default=None, gt=0)
    silence_seconds: float | None = Field(default=None, gt=0)
    retries: int | None = Field(default=None, ge=0, le=20)
    backoff_seconds: float | None = Field(default=None, ge=0, le=60)
    bridge: str | None = Field(default=None, pattern=_ADDRESS)
    bridge_url: str | None = Field(default=None, pattern=_URL)


_Outside = (
    OpenAISection
    | AnthropicSection
    | GoogleSection
    | BedrockSection
    | LocalSection
    | AgentServerSection
)
ModelSection = Annotated[ScriptedSection | _Outside, Field(discriminator="provider")]
JudgeSection = Annotated[ScriptedJudgeSection | _Outside, Field(discriminator="provider")]


class SandboxSection(Section):
    kind: Literal["docker", "local"] = "docker"
    runtime: str = Field(default="runc", pattern=r"^[a-zA-Z0-9._-]+$")
    image: str | None = None  # default: the project's own, built where it is missing
    # In one worker; defaults: as many as there are cores, and four times as many.
    creating: Annotated[int, Field(ge=1, le=256)] | None = None  # containers made at once
    executing: Annotated[int, Field(ge=1, le=10_000)] | None = None  # programs run at once
    # All sandboxes of a machine, by their limits; default: four fifths of what it has.
    memory_gb: Annotated[float, Field(gt=0, le=1_000_000)] | None = None


class SweepSection(Section):
    workers: Annotated[int, Field(ge=1, le=10_000)] = 1
    parallel: Annotated[int, Field(ge=1, le=1024)] = 6  # episodes at once in a worker
    address: str | None = None


class BudgetSection(Section):
    """USD, for each wave. Built-in agents cost nothing."""

    run: Usd | None = None
    models: dict[str, Usd] = Field(default_factory=dict)
    judges: dict[str, Usd] = Field(default_factory=dict)
    providers: dict[str, Usd] = Field(default_factory=dict)
    reserve: Literal["seen", "bound"] = "seen"  # how much for an episode at work


class ReleaseSection(Section):
    folder: str = "release"
    title: str = ""
    repository: str | None = Field(default=None, pattern=r"^[\w.-]+/[\w.-]+$")
    endpoint: str | None = Field(default=None, pattern=_URL)
    licence: str = "cc-by-4.0"


class ProtocolFile(Section):
    study: Name
    description: str = ""
    tasks: Annotated[tuple[TaskSection, ...], Field(min_length=1)]
    seeds_per_arm: Count
    reserve: ReserveSection | None = None
    replicates: Count = 1
    models: Annotated[dict[Name, ModelSection], Field(min_length=1)]
    judges: dict[Name, JudgeSection] = Field(default_factory=dict)
    waves: Annotated[tuple[tuple[str, ...], ...], Field(min_length=1)]
    plan: PlanSection = PlanSection()
    sandbox: SandboxSection = SandboxSection()
    sweep: SweepSection = SweepSection()
    release: ReleaseSection = ReleaseSection()
    prices: Annotated[str, Field(min_length=1)] | None = None  # a file: what models cost
    budget: BudgetSection | None = None
    store: str = "store"
    keys: str = "keys/study.txt"  # age identity file
    recipients: tuple[Annotated[str, Field(pattern=_RECIPIENT)], ...] = ()
    entropy: str = Field(default="system", pattern=r"^(system|fixed:[0-9a-f]{64})$")


@dataclass(frozen=True, slots=True)
class Task:
    """One stratum of a study."""

    family: str
    version: str
    difficulty: str

    @property
    def stratum(self) -> str:
        return f"{self.family}/{self.difficulty}"


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is documented of a model, for readers of reports; None where it is not known."""

    name: str
    family: str | None
    released: date | None
    cutoff: date | None


@dataclass(frozen=True, slots=True)
class Protocol:
    """A study as its file tells it, checked."""

    name: str
    description: str
    tasks: tuple[Task, ...]
    seeds_per_arm: int
    replicates: int
    models: tuple[ModelPin, ...]
    waves: tuple[tuple[str, ...], ...]
    plan: PlanSection
    sandbox: SandboxSection
    sweep: SweepSection
    release: ReleaseSection
    store: str
    keys: str
    recipients: tuple[str, ...]
    entropy: str
    templates: tuple[tuple[str, str], ...] = ()  # name and text of each template file
    judges: tuple[JudgePin, ...] = ()
    families: tuple[tuple[str, str], ...] = ()  # of models and judges that name theirs
    prices: str | None = None  # path of the price file
    budget: BudgetSection | None = None
    facts: tuple[ModelFacts, ...] = ()
    judge_facts: tuple[ModelFacts, ...] = ()
    reserve: tuple[int, ...] = ()  # seeds per arm of each reserve tranche
    tranches: tuple[tuple[Tranches, ...], ...] = ()  # by wave, of its models; () for the panel
    retention: tuple[tuple[str, str], ...] = ()  # of models and judges that state theirs
    logprobs: tuple[tuple[str, str, int], ...] = ()  # of models: how, and how many rivals
    # With the families of the template files.
    catalog: Catalog = field(default=INSTALLED, compare=False, repr=False)

    def wave_models(self, wave: int) -> tuple[ModelPin, ...]:
        """The models of a wave. Raises StudyError for a wave that is not planned."""
        if not 0 <= wave < len(self.waves):
            planned = ", ".join(str(index) for index in range(len(self.waves)))
            raise StudyError(f"there is no wave {wave} in {FILE_NAME}; it plans {planned}")
        pins = {pin.name: pin for pin in self.models}
        return tuple(pins[name] for name in self.waves[wave])

    def wave_tranches(self, wave: int) -> dict[str, Tranches]:
        """The tranches that each model of a wave runs."""
        models = self.waves[wave]
        planned = (self.tranches[wave] if self.tranches else ()) or (PANEL,) * len(models)
        return dict(zip(models, planned, strict=True))

    def tranche_size(self, tranche: int) -> int:
        """Instances of a tranche in each stratum, both arms together."""
        return 2 * (self.seeds_per_arm, *self.reserve)[tranche]

    def wave_retention(self, wave: int) -> tuple[tuple[str, str], ...]:
        """What is documented of a wave's models, and of the judges, by name."""
        here = {*self.waves[wave], *(judge.name for judge in self.judges)}
        return tuple(each for each in self.retention if each[0] in here)

    def registered_plan(self) -> Plan:
        """The plan as it is put into the ledger."""
        plan = make_plan(
            self.plan,
            strata=tuple(task.stratum for task in self.tasks),
            seeds_per_arm=self.seeds_per_arm,
            replicates=self.replicates,
            waves=self.waves,
            released={fact.name: fact.released for fact in self.facts if fact.released},
        )
        return replace(plan, judges=self._judge_rules())

    def _judge_rules(self) -> tuple[JudgeRule, ...]:
        """What the plan asks of judges, each pinned as it is now."""
        pins = {pin.name: record_digest(pin) for pin in self.judges}
        rules = sorted(self.plan.judges.items())
        return tuple(JudgeRule(name, pins[name], **dict(rule)) for name, rule in rules)


def relatives_of(protocol: Protocol, judge: str) -> tuple[str, ...]:
    """The models that are of a judge's own family, where families are given."""
    families = dict(protocol.families)
    own = families.get(judge)
    return tuple(
        pin.name for pin in protocol.models if own is not None and families.get(pin.name) == own
    )


def read_protocol(folder: Path, name: str = FILE_NAME) -> Protocol:
    """The protocol of a study's folder. Raises StudyError naming file, line and key."""
    document = read_yaml(folder / name)
    if not isinstance(document.value, dict):
        raise StudyError(f"{document.path}:1: a protocol is a mapping that starts with `study:`")
    _spell_out_tasks(document)
    said = spell_out_waves(document)
    _check_keys(document)
    try:
        # As JSON, since strict validation then takes a list for a tuple and nothing else odd.
        parsed = ProtocolFile.model_validate_json(json.dumps(document.value, default=str))
    except ValidationError as error:
        raise _explain(document, error) from error
    tasks, templates, catalog = _check_tasks(document, parsed, folder)
    _check_waves(document, parsed)
    _check_judges(document, parsed)
    _check_plan(document, parsed)
    _check_budget(document, parsed)
    _check_sandbox(document, parsed)
    _check_retention(document, parsed)
    _check_logprobs(document, parsed)
    kept = parsed.reserve
    reserve = () if kept is None else (kept.seeds_per_arm,) * kept.tranches
    buyers = (*parsed.models.items(), *parsed.judges.items())
    protocol = Protocol(
        name=parsed.study,
        description=parsed.description,
        tasks=tasks,
        seeds_per_arm=parsed.seeds_per_arm,
        replicates=parsed.replicates,
        models=tuple(_pin(name, section) for name, section in parsed.models.items()),
        waves=parsed.waves,
        plan=parsed.plan,
        sandbox=parsed.sandbox,
        sweep=parsed.sweep,
        release=parsed.release,
        store=parsed.store,
        keys=parsed.keys,
        recipients=parsed.recipients,
        entropy=parsed.entropy,
        templates=templates,
        catalog=catalog,
        prices=parsed.prices,
        budget=parsed.budget,
        judges=tuple(pin_judge(_pin(name, section)) for name, section in parsed.judges.items()),
        families=tuple(
            (name, section.family) for name, section in buyers if section.family is not None
        ),
        facts=tuple(
            ModelFacts(name, section.family, section.released, section.cutoff)
            for name, section in parsed.models.items()
        ),
        judge_facts=tuple(
            ModelFacts(name, section.family, section.released, section.cutoff)
            for name, section in parsed.judges.items()
        ),
        reserve=reserve,
        tranches=planned_tranches(document, parsed.waves, said, reserve),
        retention=tuple(
            (name, section.retention) for name, section in buyers if section.retention is not None
        ),
        logprobs=tuple(
            (name, section.logprobs, section.top_logprobs or 1)
            for name, section in parsed.models.items()
            if isinstance(section, OpenAISection) and section.logprobs is not None
        ),
    )
    try:
        protocol.registered_plan()
    except AnalysisError as error:
        raise StudyError(f"{document.place(('plan',))}: {error}") from error
    return protocol


_FACTS = (
    "family",
    "released",
    "cutoff",
    "retention",
    "logprobs",
    "top_logprobs",
)  # told of a model, and no part of what is run


def _pin(name: str, section: ModelSection | JudgeSection) -> ModelPin:
    values = section.model_dump(exclude_none=True, exclude=set(_FACTS))
    provider = values.pop("provider")
    # Built-in agents have no version but the commit, which is pinned beside them.
    version = f"{values['agent']}/1" if provider == "scripted" else values.pop("model")
    settings = tuple(sorted((key, json.dumps(value)) for key, value in values.items()))
    return ModelPin(name, provider, version, settings)


_SECTIONS: Mapping[str, type[Section]] = {
    "plan": PlanSection,
    "reserve": ReserveSection,
    "sandbox": SandboxSection,
    "sweep": SweepSection,
    "release": ReleaseSection,
    "budget": BudgetSection,
}
_MODELS: Mapping[str, type[Section]] = {
    "scripted": ScriptedSection,
    "openai": OpenAISection,
    "anthropic": AnthropicSection,
    "google": GoogleSection,
    "bedrock": BedrockSection,
    "local": LocalSection,
    "agent_server": AgentServerSection,
}
_JUDGES: Mapping[str, type[Section]] = {**_MODELS, "scripted": ScriptedJudgeSection}


def _spell_out_tasks(document: Document) -> None:
    """``family/difficulty``, ``family@version/difficulty`` or ``FILE.yml``, as the mapping that
    it is short for."""
    tasks = document.value.get("tasks")
    for index, task in enumerate(tasks if isinstance(tasks, list) else []):
        if not isinstance(task, str):
            continue
        if task.endswith((".yml", ".yaml")):
            tasks[index] = {"template": task}
            continue
        named, slash, difficulty = task.partition("/")
        family, at, version = named.partition("@")
        if not slash:
            raise StudyError(
                f"{document.place(('tasks', index))}: {task!r}: write family/difficulty, for "
                "instance count_circles/medium"
            )
        pinned = {"version": version} if at else {}
        tasks[index] = {"family": family, "difficulty": difficulty, **pinned}


def _check_keys(document: Document) -> None:
    """Refuse unknown keys by line, with the nearest known one."""
    value = document.value
    _refuse_unknown(document, (), value, ProtocolFile)
    for name, section in _SECTIONS.items():
        _refuse_unknown(document, (name,), value.get(name), section)
    tasks, models = value.get("tasks"), value.get("models")
    for index, task in enumerate(tasks if isinstance(tasks, list) else []):
        _refuse_unknown(document, ("tasks", index), task, TaskSection)
    _check_plan_keys(document, value.get("plan"))
    _check_model_keys(document, "models", models, _MODELS)
    _refuse_agents(document, value.get("judges"))
    _check_model_keys(document, "judges", value.get("judges"), _JUDGES)


def _check_plan_keys(document: Document, plan: Any) -> None:
    if not isinstance(plan, dict):
        return
    for name, section in SECTIONS.items():
        _refuse_unknown(document, ("plan", name), plan.get(name), section)
    rules = plan.get("judges")
    for name, rule in rules.items() if isinstance(rules, dict) else []:
        _refuse_unknown(document, ("plan", "judges", name), rule, JudgeRuleSection)


def _refuse_agents(document: Document, judges: Any) -> None:
    """Refuse a built-in agent as a judge, before its keys are held against those of one."""
    for name, section in judges.items() if isinstance(judges, dict) else []:
        given = section if isinstance(section, dict) else {}
        if given.get("provider") == "scripted" and given.get("agent") not in JUDGES:
            raise StudyError(
                f"{document.place(('judges', name))}: a judge is a plain model: no built-in agent, "
                f"but for {', '.join(JUDGES)}, which is none to trust"
            )


def _check_model_keys(
    document: Document, key: str, models: Any, known: Mapping[str, type[Section]]
) -> None:
    for name, model in models.items() if isinstance(models, dict) else []:
        provider = model.get("provider") if isinstance(model, dict) else None
        if isinstance(provider, str) and provider not in known:
            raise StudyError(
                f"{document.place((key, name, 'provider'))}: unknown provider "
                f"{provider!r}{_nearest(provider, known)}"
            )
        if isinstance(provider, str):
            _refuse_unknown(document, (key, name), model, known[provider])


def _refuse_unknown(document: Document, place: Place, value: Any, section: type[Section]) -> None:
    for key in value if isinstance(value, dict) else ():
        if key not in section.model_fields:
            raise StudyError(
                f"{document.place((*place, key))}: unknown key"
                f"{_nearest(str(key), section.model_fields)}"
            )


def _nearest(word: str, known: Mapping[str, Any] | tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}"


def _explain(document: Document, error: ValidationError) -> StudyError:
    """The first thing that is wrong, in words."""
    first = error.errors()[0]
    place = tuple(part for part in first["loc"] if part not in _MODELS)
    match first["type"]:
        case "string_pattern_mismatch" if first["ctx"]["pattern"] == _NAME:
            message = "a name has lower-case letters, digits, . _ and -, at most 63"
        case "string_pattern_mismatch" if first["ctx"]["pattern"] == _URL:
            return StudyError(
                f"{document.place(place)}: an address is http(s)://HOST[:PORT]/PATH, without a "
                "user or password: keys come from the environment (api_key_env)"
            )
        case "string_pattern_mismatch" if first["ctx"]["pattern"] == _ADDRESS:
            message = "where the bridge listens is HOST:PORT; port 0 is any that is free"
        case "string_pattern_mismatch" if first["ctx"]["pattern"] == _RECIPIENT:
            message = "an age public key is age1 and 58 more letters and digits"
        case "string_pattern_mismatch" if place == ("entropy",):
            message = "'system', or 'fixed:' and 64 hexadecimal digits for a demonstration"
        case _:
            return explain_fault(document, place, first)
    found = first.get("input")
    shown = f" (found {found!r})" if isinstance(found, str | int | float) else ""
    return StudyError(f"{document.place(place)}: {message}{shown}")


_Templates = tuple[tuple[str, str], ...]


def _check_tasks(
    document: Document, parsed: ProtocolFile, folder: Path
) -> tuple[tuple[Task, ...], _Templates, Catalog]:
    """The strata, the template files that some of them come from, and the catalogue with the
    families of these files."""
    tasks: list[Task] = []
    templates: dict[str, str] = {}
    families: list[Family] = []
    for index, section in enumerate(parsed.tasks):
        place = document.place(("tasks", index))
        if section.template is None:
            found = [_catalogued(document, index, section)]
        else:
            name, text, family, found = _templated(document, index, section, folder)
            templates[name] = text
            families.append(family)
        for task in found:
            if task.stratum in [other.stratum for other in tasks]:
                raise StudyError(f"{place}: {task.stratum} is there twice")
            tasks.append(task)
    return tuple(tasks), tuple(templates.items()), INSTALLED.with_templates(families)


def _catalogued(document: Document, index: int, section: TaskSection) -> Task:
    """The stratum of a family of the catalogue."""
    place = document.place(("tasks", index))
    if section.questions is not None:
        raise StudyError(f"{place}: `questions` are those of a `template`")
    if section.family is None or section.difficulty is None:
        missing = "family" if section.family is None else "difficulty"
        raise StudyError(
            f"{place}: the key {missing!r} is missing: give family and difficulty, or template"
        )
    try:
        family = INSTALLED.family(section.family, section.version)
    except GeneratorError as error:
        key = "version" if "version" in str(error) and section.version else "family"
        raise StudyError(f"{document.place(('tasks', index, key))}: {error}") from error
    try:
        family.parameters(section.difficulty)
    except GeneratorError as error:
        raise StudyError(f"{document.place(('tasks', index, 'difficulty'))}: {error}") from error
    return Task(family.name, family.version, section.difficulty)


def _templated(
    document: Document, index: int, section: TaskSection, folder: Path
) -> tuple[str, str, Family, list[Task]]:
    """A template file's name, text and family, and a stratum for each of its questions."""
    place = document.place(("tasks", index, "template"))
    for key in ("family", "version", "difficulty"):
        if getattr(section, key) is not None:
            raise StudyError(f"{place}: a template has no `{key}`: it names `questions`, if any")
    try:
        name, text = read_template(folder, str(section.template))
        family = template_family(name, text)
        chosen = [str(question) for question in section.questions or family.questions]
        for question in chosen:
            family.compiled(question)
    except (GeneratorError, StudyError) as error:
        raise StudyError(f"{place}: {error}") from error
    strata = [Task(family.name, family.version, question) for question in chosen]
    return name, text, family, strata


def _check_judges(document: Document, parsed: ProtocolFile) -> None:
    for name, model in parsed.models.items():
        if model.structured is not None:
            place = document.place(("models", name, "structured"))
            raise StudyError(f"{place}: models answer freely; `structured` is of judges")
    for name, section in parsed.judges.items():
        place = document.place(("judges", name))
        if name in parsed.models or name in GRADERS:
            raise StudyError(f"{place}: the name {name!r} is taken: give the judge its own")
        if isinstance(section, AgentServerSection):
            raise StudyError(f"{place}: a judge is a plain model, and no agent server")
        for key in ("mode", "context"):
            if getattr(section, key, None) is not None:
                raise StudyError(f"{document.place(('judges', name, key))}: a judge has no {key!r}")
    for name in parsed.plan.judges:
        if name not in parsed.judges:
            place = document.place(("plan", "judges", name))
            raise StudyError(f"{place}: there is no such judge under `judges`")


def _check_plan(document: Document, parsed: ProtocolFile) -> None:
    """Refuse keys that would do nothing, and controls that there are not or have no date."""
    plan = parsed.plan
    refuse_idle_keys(document, plan)
    if plan.preset != "standard-v1":
        return
    if plan.second_grader is not None and plan.second_grader not in parsed.judges:
        raise StudyError(
            f"{document.place(('plan', 'second_grader'))}: there is no judge "
            f"{plan.second_grader!r} under `judges`"
        )
    for kind, names in (plan.controls or ControlsSection()).model_dump().items():
        for index, name in enumerate(names if isinstance(names, tuple) else ()):
            _check_control(document, parsed, ("plan", "controls", kind, index), name)


def _check_control(document: Document, parsed: ProtocolFile, place: Place, name: str) -> None:
    if name not in parsed.models:
        raise StudyError(
            f"{document.place(place)}: unknown model {name!r}{_nearest(name, parsed.models)}"
        )
    section = parsed.models[name]
    if place[2] != "spiked" and section.released is None and section.provider != "scripted":
        raise StudyError(
            f"{document.place(('models', name))}: a negative control needs `released:`, the "
            "documented date, before publication"
        )


def _check_waves(document: Document, parsed: ProtocolFile) -> None:
    for wave, models in enumerate(parsed.waves):
        if not models:
            raise StudyError(f"{document.place(('waves', wave))}: a wave runs at least one model")
        for index, name in enumerate(models):
            place = document.place(("waves", wave, index))
            if name not in parsed.models:
                raise StudyError(f"{place}: unknown model {name!r}{_nearest(name, parsed.models)}")
            if name in models[:index]:
                raise StudyError(f"{place}: {name!r} is in this wave twice")
    for name, section in parsed.models.items():
        if isinstance(section, ScriptedSection) and section.agent == "spiked":
            if section.release is None:
                raise StudyError(
                    f"{document.place(('models', name))}: a spiked agent needs `release:`, the "
                    "folder that it has read"
                )
        elif isinstance(section, AgentServerSection) and section.tree == "host":
            for key in ("bridge", "bridge_url"):
                if getattr(section, key) is not None:
                    raise StudyError(
                        f"{document.place(('models', name, key))}: with `tree: host` there is no "
                        "bridge; write `tree: bridge`, or leave it out"
                    )
        elif isinstance(section, AgentServerSection) and parsed.sandbox.kind == "local":
            raise StudyError(
                f"{document.place(('models', name, 'tree'))}: what a server asks of the bridge "
                "runs in a sandbox that isolates: set `sandbox: {kind: docker}`"
            )
        elif isinstance(section, ScriptedSection):
            for key in ("release", "share"):
                if getattr(section, key) is not None:
                    raise StudyError(
                        f"{document.place(('models', name, key))}: only a spiked agent reads one"
                    )


_BUYERS = {"models": "model", "judges": "judge", "providers": "model or judge"}


def _check_sandbox(document: Document, parsed: ProtocolFile) -> None:
    for key in ("creating", "executing", "memory_gb"):
        if parsed.sandbox.kind == "local" and getattr(parsed.sandbox, key) is not None:
            raise StudyError(
                f"{document.place(('sandbox', key))}: the local sandbox has no such limit: leave "
                "it out, or set `kind: docker`"
            )


def _check_retention(document: Document, parsed: ProtocolFile) -> None:
    for key, sections in (("models", parsed.models), ("judges", parsed.judges)):
        for name, section in sections.items():
            if section.provider in OWN_PROVIDERS and section.retention is not None:
                raise StudyError(
                    f"{document.place((key, name, 'retention'))}: {section.provider} models run "
                    "here, and nobody keeps what they are sent: leave it out"
                )


def _check_logprobs(document: Document, parsed: ProtocolFile) -> None:
    for name, section in parsed.models.items():
        if not isinstance(section, OpenAISection) or section.logprobs is not None:
            continue
        if section.top_logprobs is not None:
            raise StudyError(
                f"{document.place(('models', name, 'top_logprobs'))}: it needs `logprobs:`, which "
                "says how the server tells them: echo or prompt_logprobs"
            )


def _check_budget(document: Document, parsed: ProtocolFile) -> None:
    """Refuse limits of models, judges and providers that there are not, and a budget without
    prices."""
    if parsed.budget is None:
        return
    if parsed.prices is None:
        raise StudyError(
            f"{document.place(('budget',))}: a budget needs `prices:`, the file that tells what "
            "the models cost"
        )
    buyers = (*parsed.models.values(), *parsed.judges.values())
    providers: dict[str, Any] = {each.provider: each for each in buyers}
    known: tuple[tuple[str, Mapping[str, Any], Mapping[str, Any]], ...] = (
        ("models", parsed.budget.models, parsed.models),
        ("judges", parsed.budget.judges, parsed.judges),
        ("providers", parsed.budget.providers, providers),
    )
    for key, limits, there in known:
        for name in limits:
            if name not in there:
                raise StudyError(
                    f"{document.place(('budget', key, name))}: no {_BUYERS[key]} here is of that "
                    f"{'provider' if key == 'providers' else 'name'}{_nearest(name, there)}"
                )
