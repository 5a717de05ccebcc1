"""``study.yaml``: the definition of a study, checked whole before anything runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError

from analysis.errors import AnalysisError
from analysis.report.facts import ModelFact
from generators.catalog import INSTALLED, Catalog
from generators.errors import GeneratorError
from generators.items import HARBOR
from generators.items import NAME as ITEMS
from generators.items import VERSION as POOL_VERSION
from generators.items.pool import Columns, stratum_name
from generators.task import Family
from generators.yaml_lines import YamlDocument
from harness.mode import Mode
from harness.models.settings import ModelSettings, pin_model
from registry.draws.allocation import sealed_units
from registry.ledger.draw_records import Parties, SeedsPerArm, Unit, arm_sizes
from registry.ledger.records import JudgePin, JudgeRule, ModelPin, Plan, pin_digest
from study.catalogue import contributions
from study.errors import StudyError, StudyFileError
from study.protocol.checks import explain, section_faults, spell_out_tasks
from study.protocol.plan_section import ControlsSection, PlanSection, make_plan
from study.protocol.pool import PoolSource, on_hub, pool_name
from study.protocol.sections import (
    PANEL,
    BudgetSection,
    OperatorSection,
    ProtocolFile,
    ReleaseSection,
    SandboxSection,
    SweepSection,
    TaskSection,
    Tranches,
    planned_tranches,
    single_turn_strata,
    spell_out_waves,
)
from study.protocol.units import UNIT_KEYS, UnitsStated
from study.protocol.yaml import TemplateSource, fault_at, load_yaml, read_template, yaml_faults

FILE_NAME, PRICES_NAME = "study.yaml", "prices.yaml"


@dataclass(frozen=True, slots=True)
class Task:
    """A stratum of a study: a task family at a difficulty."""

    family: str
    version: str
    difficulty: str
    mode: Mode = Mode.AGENTIC

    @property
    def stratum(self) -> str:
        """The name of the stratum: family/difficulty."""
        return f"{self.family}/{self.difficulty}"


@dataclass(frozen=True, slots=True)
class Protocol:
    """The contents of study.yaml, checked."""

    name: str
    description: str
    tasks: tuple[Task, ...]
    seeds_per_arm: SeedsPerArm
    reserve: tuple[int, ...]  # seeds per arm of each reserve tranche
    replicates: int
    models: tuple[ModelPin, ...]
    judges: tuple[JudgePin, ...]
    waves: tuple[tuple[str, ...], ...]
    tranches: tuple[tuple[Tranches, ...], ...]  # by wave, of its models; () for the panel
    single_turn: tuple[tuple[str, ...], ...]  # by wave, the strata given in a single turn
    plan: PlanSection
    sandbox: SandboxSection
    sweep: SweepSection
    release: ReleaseSection
    prices: str | None  # path of the price file
    budget: BudgetSection | None
    store: str
    keys: str
    recipients: tuple[str, ...]
    operator: OperatorSection | None
    entropy: str
    stamps: tuple[str, ...]  # URLs of time-stamping authorities; if any, drand allots the seeds
    templates: tuple[TemplateSource, ...]
    template_paths: tuple[str, ...]  # of templates and their values files; names of the library
    pools: tuple[PoolSource, ...]  # of given items
    units: tuple[Unit, ...]  # of the levels above the instance
    sources: tuple[tuple[str, str], ...]  # strata of template files, and the files' names
    facts: tuple[ModelFact, ...]
    judge_facts: tuple[ModelFact, ...]
    families: tuple[tuple[str, str], ...]  # of models and judges that name theirs
    retention: tuple[tuple[str, str], ...]  # of models and judges that state theirs
    # With the families of the template files.
    catalog: Catalog = field(default=INSTALLED, compare=False, repr=False)

    @property
    def parties(self) -> Parties:
        """Return the operator that study.yaml names."""
        operator = self.operator
        return Parties(operator.recipient, operator.signer) if operator else Parties()

    def files_of(self, unit: Unit) -> tuple[TemplateSource, ...]:
        """Return the template files of a unit."""
        names = {name for stratum, name in self.sources if stratum in unit.strata}
        return tuple(source for source in self.templates if source.name in names)

    @property
    def planned(self) -> frozenset[str]:
        """Return the names of the models that are in a wave."""
        return frozenset(name for wave in self.waves for name in wave)

    def wave_models(self, wave: int) -> tuple[ModelPin, ...]:
        """Return the models of a wave. Raises StudyError for a wave that is not planned."""
        if not 0 <= wave < len(self.waves):
            planned = ", ".join(str(index) for index in range(len(self.waves)))
            raise StudyError(f"there is no wave {wave} in {FILE_NAME}; it plans {planned}")
        pins = {pin.name: pin for pin in self.models}
        return tuple(pins[name] for name in self.waves[wave])

    def wave_tranches(self, wave: int) -> dict[str, Tranches]:
        """Return the tranches that each model of a wave runs."""
        models = self.waves[wave]
        planned = (self.tranches[wave] if self.tranches else ()) or (PANEL,) * len(models)
        return dict(zip(models, planned, strict=True))

    def wave_tasks(self, wave: int) -> tuple[Task, ...]:
        """Return the tasks with the modes that they have in a wave."""
        single = self.single_turn[wave]
        return tuple(
            replace(task, mode=Mode.SINGLE_TURN if task.stratum in single else Mode.AGENTIC)
            for task in self.tasks
        )

    def tasks_of(self, model: str) -> tuple[Task, ...]:
        """Return the tasks that a model is given in any wave, each in each of its modes there."""
        waves = [wave for wave, models in enumerate(self.waves) if model in models]
        return tuple(dict.fromkeys(task for wave in waves for task in self.wave_tasks(wave)))

    def wave_replicates(self, wave: int) -> tuple[int, ...]:
        """Return the runs of each model of a wave on an instance, in the models' order."""
        return tuple(self.replicates_of(name) for name in self.waves[wave])

    def replicates_of(self, model: str) -> int:
        """Return a model's runs on an instance, which may be more for a control model."""
        controls = self.plan.controls
        if controls is None or model not in {*controls.pre_exposure, *controls.frozen}:
            return self.replicates
        return controls.runs or self.replicates

    def tranche_sizes(self, tranche: int) -> dict[str, int]:
        """Return the number of instances of a tranche by stratum, both arms together."""
        strata = tuple(task.stratum for task in self.tasks)
        sizes = arm_sizes(strata, self.seeds_per_arm, self.reserve, self.units)
        return {name: 2 * sizes[tranche, name] for name in strata}

    @property
    def drawn(self) -> Counter[str]:
        """The number of instances that are drawn, by stratum."""
        return sum(map(Counter, map(self.tranche_sizes, range(1 + len(self.reserve)))), Counter())

    @property
    def judged(self) -> tuple[str, ...]:
        """The strata that a judge scores."""
        pools = [pool for pool in self.pools if pool.columns.score == "judge"]
        return tuple(f"{ITEMS}/{stratum}" for pool in pools for stratum in pool.strata)

    @property
    def scorer(self) -> str:
        """The judge that scores them."""
        return next(iter(self.plan.judges)) if self.judged else ""

    def wave_retention(self, wave: int) -> tuple[tuple[str, str], ...]:
        """Return the documented retention of a wave's models and of the judges, by name."""
        here = {*self.waves[wave], *(judge.name for judge in self.judges)}
        return tuple(entry for entry in self.retention if entry[0] in here)

    def tested_plan(self) -> Plan:
        """Return the plan on as many strata as will have both arms in the panel: units may stay
        sealed, or be kept for a reserve tranche."""
        from analysis.data.table import without_strata  # and with it numpy

        sealed = sealed_units(self.units, "00" * 32)
        apart = {s for unit in self.units if unit in sealed or unit.tranche for s in unit.strata}
        return without_strata(self.registered_plan(), apart)

    def registered_plan(self) -> Plan:
        """Return the plan as it is put into the ledger, with each judge pinned as it is now."""
        plan = make_plan(
            self.plan,
            strata=tuple(task.stratum for task in self.tasks),
            seeds_per_arm=self.seeds_per_arm,
            replicates=self.replicates,
            waves=self.waves,
            released={fact.model: fact.released for fact in self.facts if fact.released},
        )
        pins = {pin.name: pin_digest(pin) for pin in self.judges}
        rules = (
            JudgeRule(name, pins[name], **dict(rule), scores=self.judged)
            for name, rule in sorted(self.plan.judges.items())
        )
        levels = tuple(dict.fromkeys(unit.level for unit in self.units))
        return replace(plan, judges=tuple(rules), levels=levels)


def relatives_of(protocol: Protocol, judge: str) -> tuple[str, ...]:
    """Return the models of a judge's own family, if families are given."""
    families = dict(protocol.families)
    family = families.get(judge)
    return tuple(
        pin.name
        for pin in protocol.models
        if family is not None and families.get(pin.name) == family
    )


def read_protocol(folder: Path, name: str = FILE_NAME) -> Protocol:
    """Return the protocol of a study's folder. Raises StudyError naming file, line and key."""
    protocol, faults = examine_protocol(folder, name)
    if protocol is None:
        raise faults[0]
    return protocol


def examine_protocol(
    folder: Path, name: str = FILE_NAME
) -> tuple[Protocol | None, list[StudyFileError]]:
    """Return the protocol of a study's folder; or None and what is wrong with it, all that can be
    known at once, the error to mend first in front. Raises StudyError if the file is no YAML."""
    document = load_yaml(folder / name)
    if not isinstance(document.value, dict):
        message = "a protocol is a mapping that starts with `study:`"
        raise StudyFileError(document.path, 1, "", message)
    faults = list(yaml_faults(document))
    lines = {fault.line for fault in faults}  # later checks do not repeat what is wrong there
    spell_out_waves(document)
    forms = (fault_at(document, *fault) for fault in spell_out_tasks(document))
    faults += [fault for fault in forms if fault.line not in lines]
    lines = {fault.line for fault in faults}
    try:
        # As JSON, since strict validation then takes a list for a tuple and nothing else odd.
        parsed = ProtocolFile.model_validate_json(json.dumps(document.value))
    except ValidationError as error:
        return None, [*faults, *(f for f in explain(document, error) if f.line not in lines)]
    parsed = _with_defaults(parsed, folder)
    tasks = _Tasks(document, folder)
    for index, section in enumerate(parsed.tasks):
        try:
            tasks.add(index, section)
        except StudyFileError as error:
            faults.append(error)
    last = parsed.reserve.tranches if parsed.reserve else 0
    between = [fault_at(document, *f) for f in (*section_faults(parsed), *tasks.units.faults(last))]
    faults += [fault for fault in between if fault.line not in lines]
    reserve = parsed.reserve
    sizes = () if reserve is None else (reserve.seeds_per_arm,) * reserve.tranches
    modes = {task.stratum: str(task.mode) for task in tasks.strata}
    tranches, single_turn = [], []
    for number, wave in enumerate(parsed.waves):
        try:
            tranches.append(planned_tranches(document, number, wave, len(sizes)))
            single_turn.append(single_turn_strata(document, number, modes, wave.modes or {}))
        except StudyFileError as error:
            faults.append(error)
    given = parsed.seeds_per_arm
    if isinstance(given, dict) and (unlike := {*given} ^ {*modes}):
        message = f"{min(unlike)!r} stands here or in `tasks` only: give each of {', '.join(modes)}"
        faults.append(fault_at(document, ("seeds_per_arm",), message))
    if faults:
        return None, faults
    protocol = _protocol_of(parsed, tasks, sizes, tuple(tranches), tuple(single_turn))
    try:
        protocol.registered_plan()
    except AnalysisError as error:
        return None, [_plan_fault(document, protocol.plan.preset, str(error))]
    return protocol, []


def _with_defaults(parsed: ProtocolFile, folder: Path) -> ProtocolFile:
    """Return the file with the defaults that depend on others of its keys: the price file that
    lies beside it, the models of wave 0 as pre-exposure controls, and the judge that scores as
    second grader."""
    changes: dict[str, Any] = {}
    if parsed.prices is None and (folder / PRICES_NAME).is_file():
        changes["prices"] = PRICES_NAME
    plan: dict[str, Any] = {}
    standard = parsed.plan.preset == "standard-v1"
    if standard and parsed.judged and parsed.plan.second_grader is None:
        plan["second_grader"] = next(iter(parsed.plan.judges), None)
    controls = parsed.plan.controls or ControlsSection()
    if standard and "pre_exposure" not in controls.model_fields_set:
        others = {*controls.frozen, *controls.spiked}
        named = tuple(name for name in parsed.waves[0].models if name not in others)
        plan["controls"] = controls.model_copy(update={"pre_exposure": named})
    changes["plan"] = parsed.plan.model_copy(update=plan)
    return parsed.model_copy(update=changes)


def _plan_fault(document: YamlDocument, preset: str, text: str) -> StudyFileError:
    """Return what the analysis says of a plan, at the key that it starts with, if it names one."""
    text = text.removeprefix(f"plan {preset!r}: ")
    key, _, message = text.partition(": ")
    path = tuple(key.split("."))
    if path[0] not in PlanSection.model_fields and key in ControlsSection.model_fields:
        path = ("controls", key)
    if message and path[0] in PlanSection.model_fields:
        return fault_at(document, ("plan", *path), message)
    return fault_at(document, ("plan",), text)


def _protocol_of(
    parsed: ProtocolFile,
    tasks: _Tasks,
    reserve: tuple[int, ...],
    tranches: tuple[tuple[Tranches, ...], ...],
    single_turn: tuple[tuple[str, ...], ...],
) -> Protocol:
    buyers = (*parsed.models.items(), *parsed.judges.items())
    seeds: Any = parsed.seeds_per_arm
    if isinstance(seeds, dict):
        sizes = tuple(seeds[task.stratum] for task in tasks.strata)
        seeds = sizes if len({*sizes}) > 1 else sizes[0]
    judges = tuple(pin_model(name, section) for name, section in parsed.judges.items())
    values = vars(parsed) | {
        "tasks": tuple(tasks.strata),
        "templates": tuple(tasks.templates.values()),
        "template_paths": tuple(tasks.paths),
        "pools": tuple(tasks.pools),
        "units": tasks.units.units(),
        "sources": tuple(tasks.units.files.items()),
        "catalog": INSTALLED.with_templates(tasks.families),
        "seeds_per_arm": seeds,
        "reserve": reserve,
        "waves": tuple(wave.models for wave in parsed.waves),
        "tranches": tranches,
        "single_turn": single_turn,
        "models": tuple(pin_model(name, section) for name, section in parsed.models.items()),
        "judges": _pin_judges(judges) if judges else (),
        "facts": _facts(parsed.models),
        "judge_facts": _facts(parsed.judges),
        "families": tuple((name, section.family) for name, section in buyers if section.family),
        "retention": tuple((n, section.retention) for n, section in buyers if section.retention),
    }
    return Protocol(name=values.pop("study"), **values)


def _pin_judges(pins: tuple[ModelPin, ...]) -> tuple[JudgePin, ...]:
    pin_judge = next(contributions("pin_judge"), None)
    if pin_judge is None:
        raise StudyError("study.yaml names judges, and no installed extra asks any")
    return tuple(map(pin_judge, pins))


def _facts(sections: Mapping[str, ModelSettings]) -> tuple[ModelFact, ...]:
    def written(day: date | None) -> str:
        return day.isoformat() if day else ""

    return tuple(
        ModelFact(name, section.family or "", written(section.released), written(section.cutoff))
        for name, section in sections.items()
    )


_OF_COLUMNS = {each.name for each in fields(Columns)} - {"name"}
_OF_ITEMS = {*_OF_COLUMNS, "strata", "published", "build_network"}
_OF_HARBOR = {"harbor", "published", "stratum", "strata", "build_network", *UNIT_KEYS}


def _mode(section: TaskSection, usual: Mode = Mode.AGENTIC) -> Mode:
    return Mode(section.mode) if section.mode else usual


@dataclass(slots=True)
class _Tasks:
    """The strata, the template files that some of them come from, and these files' families."""

    document: YamlDocument
    folder: Path
    strata: list[Task] = field(default_factory=list)
    templates: dict[str, TemplateSource] = field(default_factory=dict)  # by family
    values: dict[str, str] = field(default_factory=dict)  # texts of values files, by name
    paths: list[str] = field(default_factory=list)
    families: list[Family] = field(default_factory=list)
    pools: list[PoolSource] = field(default_factory=list)
    units: UnitsStated = field(default_factory=UnitsStated)

    def add(self, index: int, section: TaskSection) -> None:
        """Add the strata of a section. Raises StudyFileError."""
        if section.items is not None:
            section_tasks = self.given(index, section)
        elif section.harbor is not None:
            section_tasks = self.folders(index, section)
        elif stated := section.model_fields_set & _OF_ITEMS:
            raise self.fault(index, "is of `items` or `harbor`: there is neither", min(stated))
        elif section.template is None:
            section_tasks = [self.catalogued(index, section)]
        else:
            section_tasks = self.templated(index, section)
        for task in section_tasks:
            if task.stratum in [other.stratum for other in self.strata]:
                raise self.fault(index, f"{task.stratum} is there twice")
            self.strata.append(task)
        self.units.add(index, section, [task.stratum for task in section_tasks])

    def fault(self, index: int, message: object, *key: str) -> StudyFileError:
        return fault_at(self.document, ("tasks", index, *key), str(message))

    def catalogued(self, index: int, section: TaskSection) -> Task:
        """The stratum of a family of the catalogue."""
        if section.questions is not None:
            raise self.fault(index, "`questions` are those of a `template`")
        if section.family is None or section.difficulty is None:
            missing = "family" if section.family is None else "difficulty"
            message = f"the key {missing!r} is missing: give family and difficulty, or template"
            raise self.fault(index, message)
        if section.family in (ITEMS, HARBOR):
            message = "given items come from a file: write {items: FILE, prompt: …} (docs/items.md)"
            raise self.fault(index, message, "family")
        try:
            family = INSTALLED.family(section.family, section.version)
        except GeneratorError as error:
            key = "version" if "version" in str(error) and section.version else "family"
            raise self.fault(index, error, key) from error
        try:
            family.parameters(section.difficulty)
        except GeneratorError as error:
            raise self.fault(index, error, "difficulty") from error
        return Task(family.name, family.version, section.difficulty, _mode(section))

    def given(self, index: int, section: TaskSection) -> list[Task]:
        """A stratum for each of those of a pool of items. The file itself is read when it is
        drawn."""
        others = {"family", "difficulty", "template", "questions", "harbor", "build_network"}
        if others := section.model_fields_set & others:
            raise self.fault(index, "is not of `items`: give it a task of its own", min(others))
        for key in ("prompt", "answer"):
            if getattr(section, key) is None:
                raise self.fault(index, f"the key {key!r} is missing, which `items` need")
        path = Path(str(section.items))
        path = path if on_hub(path) else self.folder / path
        pool = pool_name(path)
        stated = section.model_dump(include=_OF_COLUMNS, exclude_none=True)
        usual = {"name": pool, "score": "choice" if section.choices else "exact"}
        columns = Columns(**usual | stated)
        if (columns.score == "choice") != bool(section.choices):
            raise self.fault(index, "the score `choice` and `choices` go together", "score")
        if (columns.score == "judge") != bool(section.rubric):
            message = "the score `judge` and `rubric`, a column, go together"
            raise self.fault(index, message, "rubric" if section.rubric else "score")
        mode = _mode(section, Mode.AGENTIC if section.files else Mode.SINGLE_TURN)
        return self.pooled(index, section, PoolSource(path, columns, "", ()), mode)

    def folders(self, index: int, section: TaskSection) -> list[Task]:
        """The same of the agent tasks in a folder."""
        if others := section.model_fields_set - _OF_HARBOR:
            raise self.fault(index, "is not of `harbor`: give it a task of its own", min(others))
        path = self.folder / str(section.harbor)
        columns = Columns(name=pool_name(path), stratum=section.stratum or "")
        network = section.build_network
        source = PoolSource(path, columns, "", (), family=HARBOR, build_network=network)
        return self.pooled(index, section, source, Mode.AGENTIC)

    def pooled(
        self, index: int, section: TaskSection, source: PoolSource, mode: Mode
    ) -> list[Task]:
        """A stratum for each of those of a pool, which is kept."""
        if section.published is None:
            raise self.fault(index, "the key 'published' is missing: 'never', or the day")
        if (section.stratum is None) != (not section.strata):
            message = "name the column by `stratum` and its values by `strata`, both or none"
            raise self.fault(index, message, "strata" if section.strata else "stratum")
        try:
            strata = [stratum_name(source.columns.name, v) for v in section.strata or ("",)]
        except GeneratorError as error:
            key = "strata" if section.strata else "items" if section.items else "harbor"
            raise self.fault(index, error, key) from error
        self.pools.append(replace(source, published=section.published, strata=tuple(strata)))
        return [Task(source.family, POOL_VERSION, stratum, mode) for stratum in strata]

    def templated(self, index: int, section: TaskSection) -> list[Task]:
        """A stratum for each of a template file's questions, or of a dressing's difficulties."""
        # Imported here: templates cost every command of a study without them a fifth of a second.
        from generators.dressings.family import DressedFamily, task_family

        for key in ("family", "version", "difficulty"):
            if getattr(section, key) is not None:
                message = f"a template has no `{key}`: it names `questions`, if any"
                raise self.fault(index, message, "template")
        try:
            source = read_template(self.folder, str(section.template))
            family = task_family(*source)
            named = [*map(str, section.questions)] if section.questions else None
            if isinstance(family, DressedFamily):
                file, chosen = "", family.chosen(named)
            else:
                file = family.file.values_name
                chosen = tuple(question.id for question in family.file.chosen(named))
                for question in chosen:
                    family.compiled(question)
        except (GeneratorError, StudyError) as error:
            raise self.fault(index, error, "template") from error
        if file and self.values.setdefault(file, source.values) != source.values:
            # They come to lie in one folder, of a release.
            message = f"another template has a values file {file} with other values: rename one"
            raise self.fault(index, message, "template")
        self.templates[f"{family.name}@{family.version}"] = source
        self.paths.append(str(section.template))
        if source.values:
            path = PurePosixPath(str(section.template)).parent / file
            self.paths.append(str(path))
        self.families.append(family)
        mode = _mode(section)
        made = [Task(family.name, family.version, question, mode) for question in chosen]
        self.units.files |= {task.stratum: source.name for task in made}
        return made
