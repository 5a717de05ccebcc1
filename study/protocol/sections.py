"""The sections of study.yaml, each key typed and bounded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, SkipValidation, Tag

from generators.items.item import Score
from generators.yaml_lines import Place, YamlDocument
from harness.models.settings import ADDRESS, NAME, URL, AnyJudge, AnyModel
from study.protocol.plan_section import Count, PlanSection, Section
from study.protocol.yaml import fault_at, quoted

CLUSTER = rf"^(auto|(ray://)?{ADDRESS.strip('^$')})$"  # of Ray
RECIPIENT = r"^age1[02-9ac-hj-np-z]{58}$"
SIGNER = r"^[0-9a-f]{64}$"
PUBLISHED = r"^(never|\d{4}-\d{2}-\d{2})$"
ENTROPY = r"^(system|fixed:[0-9a-f]{64})$"
Name = Annotated[str, Field(pattern=NAME)]
PerMinute = Annotated[float, Field(gt=0, le=1_000_000_000_000)]
Usd = Annotated[float, Field(gt=0, le=1_000_000_000)]
Tranches = tuple[int, ...]
PANEL: Tranches = (0,)
ModeName = Literal["agentic", "single_turn"]
_Tranche = Annotated[int, Field(ge=0)]
_Tranches = _Tranche | Annotated[tuple[_Tranche, ...], Field(min_length=1)]


class TaskSection(Section):
    family: str | None = None
    version: str | None = None
    difficulty: str | None = None
    template: str | None = None  # a template file, or one of the library's by its name
    questions: Annotated[tuple[str | int, ...], Field(min_length=1)] | None = None  # default: all
    mode: ModeName | None = None  # default: single_turn for items without files, else agentic
    # Of the levels above the instance: published or sealed together.
    pair: Name | None = None
    unit: Name | None = None
    area: Name | None = None
    tranche: _Tranche | None = None  # that has all of its seeds
    # Of `items`, a file: columns of it.
    items: str | None = None
    prompt: str | None = None
    answer: str | None = None
    choices: Annotated[tuple[str, ...], Field(min_length=1)] = ()
    score: Score | None = None  # default: choice if there are choices, else exact
    shuffle: bool = False
    group: str | None = None
    stratum: str | None = None
    strata: Annotated[tuple[str, ...], Field(min_length=1)] = ()  # its values
    files: str | None = None
    rubric: str | None = None
    published: Annotated[str, Field(pattern=PUBLISHED)] | None = None
    harbor: str | None = None  # a folder of agent tasks of Harbor's form
    build_network: bool = False  # while their images are built


class SandboxSection(Section):
    kind: Literal["docker", "pods", "local"] = "docker"
    runtime: str = Field(default="runc", pattern=r"^[a-zA-Z0-9._-]+$")
    image: str | None = None  # default: the project's own, built where it is missing
    # In one worker; defaults: as many as there are cores, and four times as many.
    creating: Annotated[int, Field(ge=1, le=256)] | None = None  # containers made at once
    executing: Annotated[int, Field(ge=1, le=10_000)] | None = None  # programs run at once
    # All sandboxes of a machine, by their limits; default: four fifths of its own.
    memory_gb: Annotated[float, Field(gt=0, le=1_000_000)] | None = None


class SweepSection(Section):
    workers: Annotated[int, Field(ge=1, le=10_000)] = 1
    parallel: Annotated[int, Field(ge=1, le=1024)] = 6  # episodes at once in a worker
    address: Annotated[str, Field(pattern=CLUSTER)] | None = None
    # Limits of the providers, by model, that are known.
    requests_per_minute: dict[str, PerMinute] = Field(default_factory=dict)
    tokens_per_minute: dict[str, PerMinute] = Field(default_factory=dict)


class BudgetSection(Section):
    """USD, for each wave. Built-in agents cost nothing."""

    run: Usd | None = None
    team: Usd | None = None  # of all studies whose stores lie together
    models: dict[str, Usd] = Field(default_factory=dict)
    judges: dict[str, Usd] = Field(default_factory=dict)
    providers: dict[str, Usd] = Field(default_factory=dict)
    reserve: Literal["seen", "bound"] = "seen"  # how much for an episode at work


class ReleaseSection(Section):
    folder: str = "release"
    title: str = ""
    repository: str | None = Field(default=None, pattern=r"^[\w.-]+/[\w.-]+$")
    endpoint: str | None = Field(default=None, pattern=URL)
    licence: str = "cc-by-4.0"
    authors: tuple[str, ...] = ()
    homepage: str | None = Field(default=None, pattern=URL)
    doi: str | None = Field(default=None, pattern=r"^10\.\d{4,9}/[-._;()/:A-Za-z0-9]+$")
    private: bool = False
    gated: Literal["auto", "manual"] | None = None


class ReserveSection(Section):
    """Tranches beside the panel, each with as many public as private seeds in every stratum."""

    tranches: Annotated[int, Field(ge=1, le=1000)]
    seeds_per_arm: Count


class WaveSection(Section):
    """A wave that states its tranches, for all of its models or by model, or the modes of some of
    the study's tasks."""

    models: tuple[str, ...]
    # Checked by ``planned_tranches``: pydantic would name each of the forms that it has not.
    tranches: SkipValidation[_Tranches | dict[str, _Tranches] | None] = None
    modes: dict[str, ModeName] | None = None  # by task, as family/difficulty


OPERATOR_KEYS = "keys/operator.txt"


class OperatorSection(Section):
    """The public halves of the operator's key, and the file of its secret."""

    recipient: Annotated[str, Field(pattern=RECIPIENT)]
    signer: Annotated[str, Field(pattern=SIGNER)]
    keys: str = OPERATOR_KEYS


Sizes = Annotated[
    Annotated[Count, Tag("each")] | Annotated[dict[str, Count], Tag("by stratum")],
    Discriminator(lambda value: "by stratum" if isinstance(value, dict) else "each"),
]


class ProtocolFile(Section):
    study: Name
    description: str = ""
    tasks: Annotated[tuple[TaskSection, ...], Field(min_length=1)]
    seeds_per_arm: Sizes
    reserve: ReserveSection | None = None
    replicates: Count = 1
    models: Annotated[dict[Name, AnyModel], Field(min_length=1)]
    judges: dict[Name, AnyJudge] = Field(default_factory=dict)
    waves: Annotated[tuple[WaveSection, ...], Field(min_length=1)]
    plan: PlanSection = PlanSection()
    sandbox: SandboxSection = SandboxSection()
    sweep: SweepSection = SweepSection()
    release: ReleaseSection = ReleaseSection()
    prices: Annotated[str, Field(min_length=1)] | None = None  # a file: the models' prices
    budget: BudgetSection | None = None
    store: str = "store"
    keys: str = "keys/study.txt"  # age identity file
    recipients: tuple[Annotated[str, Field(pattern=RECIPIENT)], ...] = ()
    operator: OperatorSection | None = None
    entropy: str = Field(default="system", pattern=ENTROPY)
    stamps: tuple[Annotated[str, Field(pattern=URL)], ...] = ()  # and then a beacon allots

    @property
    def judged(self) -> tuple[int, ...]:
        """The numbers of the tasks that a judge scores."""
        return tuple(n for n, task in enumerate(self.tasks) if task.score == "judge")


TOP_SECTIONS: Mapping[str, type[Section]] = {
    "plan": PlanSection,
    "reserve": ReserveSection,
    "sandbox": SandboxSection,
    "sweep": SweepSection,
    "release": ReleaseSection,
    "budget": BudgetSection,
    "operator": OperatorSection,
}


# --- The tranches and modes of the waves ---


def spell_out_waves(document: YamlDocument) -> None:
    """Replace each wave that is no mapping, but a list of models, by one."""
    waves = document.value.get("waves")
    for number, wave in enumerate(waves if isinstance(waves, list) else []):
        if not isinstance(wave, dict):
            waves[number] = {"models": wave}


def single_turn_strata(
    document: YamlDocument, wave: int, modes: Mapping[str, str], stated: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the strata that a wave gives in a single turn. ``modes`` has the mode of each stratum
    of the study, ``stated`` what the wave says otherwise, by stratum. Raises StudyFileError."""
    for stratum in stated:
        if stratum not in modes:
            message = f"the study has no task {stratum!r}; it has {', '.join(modes)}"
            raise fault_at(document, ("waves", wave, "modes", stratum), message)
    chosen = {**modes, **stated}.items()
    return tuple(stratum for stratum, mode in chosen if mode == "single_turn")


def planned_tranches(
    document: YamlDocument, wave: int, section: WaveSection, last: int
) -> tuple[Tranches, ...]:
    """Return the tranches of each model of a wave, in order; () if it runs the panel alone.
    ``last`` is the last one that is drawn. Raises StudyFileError for a tranche that is not drawn
    and an unknown model."""
    models, stated = section.models, section.tranches
    named = stated if isinstance(stated, dict) else {}
    for name in named:
        if name not in models:
            message = f"the wave has no model {name!r}; it has {', '.join(models)}"
            raise fault_at(document, ("waves", wave, "tranches", name), message)
    every = PANEL
    if not isinstance(stated, dict | None):
        every = _read(document, (wave, "tranches"), stated, last)
    chosen = tuple(
        _read(document, (wave, "tranches", name), named[name], last) if name in named else every
        for name in models
    )
    return () if set(chosen) == {PANEL} else chosen


def write_tranches(tranches: Mapping[str, Tranches]) -> str:
    """Return the mapping as one line of YAML."""
    return (
        f"{{{', '.join(f'{quoted(name)}: {list(numbers)}' for name, numbers in tranches.items())}}}"
    )


def _read(document: YamlDocument, place: Place, stated: Any, last: int) -> Tranches:
    """Return one number, or a list of them, as a sorted tuple. Raises StudyFileError."""
    numbers = stated if isinstance(stated, list) else [stated]
    place = ("waves", *place)
    if not numbers or not all(type(number) is int for number in numbers):
        message = "a tranche is a whole number, or a list of them: 0 is the panel"
        raise fault_at(document, place, message)
    if len(set(numbers)) < len(numbers):
        raise fault_at(document, place, "a tranche is named twice")
    for number in numbers:
        if not 0 <= number <= last:
            known = "0, the panel: a reserve is drawn with the seeds, by `reserve:`"
            known = f"0 (the panel) and 1 to {last}" if last else known
            raise fault_at(document, place, f"there is no tranche {number}; there is {known}")
    return tuple(sorted(numbers))
