"""Checks of study.yaml that its types do not make: names, unknown keys, combinations of keys."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from generators.yaml_lines import Place, YamlDocument, fault_of_form
from harness.errors import HarnessError
from harness.models.settings import (
    ADDRESS,
    JUDGE_SETTINGS,
    MODEL_SETTINGS,
    NAME,
    URL,
    AgentServerSettings,
    ScriptedJudgeSettings,
)
from harness.sandboxes.image import pinned_digest
from harness.spending.prices import OWN_PROVIDERS
from harness.spending.team import NOT_SHARED, shared_place
from registry.errors import StoreError
from registry.result_row import GRADER
from registry.stores.base import check_scheme
from study.errors import StudyFileError
from study.protocol.plan_section import (
    SECTIONS,
    ControlsSection,
    Faults,
    JudgeRuleSection,
    idle_keys,
)
from study.protocol.sections import (
    ENTROPY,
    PUBLISHED,
    RECIPIENT,
    SIGNER,
    TOP_SECTIONS,
    ProtocolFile,
    TaskSection,
    WaveSection,
)
from study.protocol.yaml import explain_fault, fault_at

GRADERS = (GRADER, "lenient")  # columns that every study may have
_FORMS = {
    NAME: "a name has lower-case letters, digits, . _ and -, at most 63",
    URL: "an address is http(s)://HOST[:PORT]/PATH, without a user or password: keys come from the "
    "environment (api_key_env)",
    ADDRESS: "where the bridge listens is HOST:PORT; port 0 is any that is free",
    RECIPIENT: "an age public key is age1 and 58 more letters and digits",
    PUBLISHED: "'never', or the day, such as 2025-03-01, in quotation marks",
    SIGNER: "a public signing key has 64 digits of 0-9 and a-f",
    ENTROPY: "'system', or 'fixed:' and 64 hexadecimal digits for a demonstration",
}


def spell_out_tasks(document: YamlDocument) -> Faults:
    """Replace ``family/difficulty``, ``family@version/difficulty`` and ``FILE.yml`` by the mapping
    that each is short for. Yield the texts that are none of them."""
    tasks = document.value.get("tasks")
    for index, task in enumerate(tasks if isinstance(tasks, list) else []):
        questions = task.get("questions") if isinstance(task, dict) else None
        for place, id in enumerate(questions if isinstance(questions, list) else []):
            if (fault := fault_of_form(id)) is not None:
                yield ("tasks", index, "questions", place), f"{id} {fault}"
        if isinstance(task, dict) and isinstance(task.get("choices"), str):
            task["choices"] = [task["choices"]]
        if not isinstance(task, str):
            continue
        if task.endswith((".yml", ".yaml")):
            tasks[index] = {"template": task}
            continue
        named, slash, difficulty = task.partition("/")
        family, at, version = named.partition("@")
        if not slash:
            yield (
                ("tasks", index),
                f"{task!r}: write family/difficulty, for instance count_circles/medium, or "
                f"{{template: {task}}} for the questions of a template of the library",
            )
            continue
        pinned = {"version": version} if at else {}
        tasks[index] = {"family": family, "difficulty": difficulty, **pinned}


def explain(document: YamlDocument, error: ValidationError) -> list[StudyFileError]:
    """Return the errors in words: unknown keys and providers first, which may cause the others."""
    unknown = ("extra_forbidden", "union_tag_invalid")
    errors = error.errors()
    first = sorted((e for e in errors if e["type"] in unknown), key=lambda e: len(e["loc"]))
    rest = [e for e in errors if e["type"] not in unknown]
    return [_explain_one(document, e) for e in (*first, *rest)]


def _explain_one(document: YamlDocument, error: ErrorDetails) -> StudyFileError:
    location = error["loc"]
    # Within a model or judge, pydantic names the provider after the model; and the kind of sizes.
    tag = {"models": 2, "judges": 2, "seeds_per_arm": 1}.get(str(location[0]), len(location))
    place = location[:tag] + location[tag + 1 :]
    match error["type"]:
        case "extra_forbidden":
            known = _section_at(location[:-1]).model_fields
            message = f"unknown key{_nearest(str(location[-1]), known)}"
        case "union_tag_invalid":
            place, tag = (*place, "provider"), error["ctx"]["tag"]
            providers = MODEL_SETTINGS if location[0] == "models" else JUDGE_SETTINGS
            message = f"unknown provider {tag!r}{_nearest(tag, providers)}"
        case "string_pattern_mismatch" if (pattern := error["ctx"]["pattern"]) in _FORMS:
            hidden = pattern == URL  # it may hold a password
            message = _FORMS[pattern] + ("" if hidden else f" (found {error['input']!r})")
            place = place[:-1] if place[-1] == "[key]" else place
        case _:
            return explain_fault(document, place, error)
    return fault_at(document, place, message)


def _section_at(location: Place) -> type[BaseModel]:
    """Return the section at a place of pydantic's."""
    match location:
        case ("tasks", _):
            return TaskSection
        case ("waves", _):
            return WaveSection
        case ("plan", "judges", _):
            return JudgeRuleSection
        case ("plan", str(name)):
            return SECTIONS[name]
        case ("models" | "judges" as kind, _, str(provider)):
            return (MODEL_SETTINGS if kind == "models" else JUDGE_SETTINGS)[provider]
        case (str(name),):
            return TOP_SECTIONS[name]
    return ProtocolFile


def _nearest(word: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}"


def section_faults(parsed: ProtocolFile) -> Faults:
    """Yield the sections and keys that do not fit together."""
    yield from _wave_faults(parsed)
    yield from _model_faults(parsed)
    yield from _judge_faults(parsed)
    yield from idle_keys(parsed.plan)
    yield from _plan_faults(parsed)
    yield from _rate_faults(parsed)
    yield from _budget_faults(parsed)
    yield from _setting_faults(parsed)


def _wave_faults(parsed: ProtocolFile) -> Faults:
    for wave, section in enumerate(parsed.waves):
        models = section.models
        if not models:
            yield ("waves", wave), "a wave runs at least one model"
        for index, name in enumerate(models):
            place = ("waves", wave, index)
            if name not in parsed.models:
                yield place, f"unknown model {name!r}{_nearest(name, parsed.models)}"
            if name in models[:index]:
                yield place, f"{name!r} is in this wave twice"


def _model_faults(parsed: ProtocolFile) -> Faults:
    for name, section in parsed.models.items():
        bridged = isinstance(section, AgentServerSettings) and section.tree == "bridge"
        if bridged and parsed.sandbox.kind == "local":
            yield (
                ("models", name, "tree"),
                "what a server asks of the bridge runs in a sandbox that isolates: set "
                "`sandbox: {kind: docker}`",
            )
        if section.structured is not None:
            yield ("models", name, "structured"), "models answer freely; `structured` is of judges"


def _judge_faults(parsed: ProtocolFile) -> Faults:
    for name, section in parsed.judges.items():
        place = ("judges", name)
        if name in parsed.models or name in GRADERS:
            yield place, f"the name {name!r} is taken: give the judge its own"
        built_in = isinstance(section, ScriptedJudgeSettings)  # the `agent` of which is the judge
        for key in () if built_in else ("context", "agent"):
            if key in section.model_fields_set:
                yield (*place, key), f"a judge has no {key!r}"
    for name in parsed.plan.judges:
        if name not in parsed.judges:
            yield ("plan", "judges", name), "there is no such judge under `judges`"


def _plan_faults(parsed: ProtocolFile) -> Faults:
    """Yield a second grader and controls that there are not, controls without a date, and judged
    items without a judge."""
    plan = parsed.plan
    standard, one = plan.preset == "standard-v1", [plan.second_grader] == [*plan.judges]
    for index in () if standard and one else parsed.judged:
        message = (
            "`judge` needs `plan: {preset: standard-v1, judges: {NAME: {…}}}` with one judge, "
            "which scores, and is the `second_grader` if one is named"
        )
        yield ("tasks", index, "score"), message
    if not standard:
        return
    if plan.second_grader is not None and plan.second_grader not in parsed.judges:
        message = f"there is no judge {plan.second_grader!r} under `judges`"
        yield ("plan", "second_grader"), message
    controls = plan.controls or ControlsSection()
    for kind in ("pre_exposure", "frozen", "spiked"):
        for index, name in enumerate(getattr(controls, kind)):
            section = parsed.models.get(name)
            if section is None:
                message = f"unknown model {name!r}{_nearest(name, parsed.models)}"
                yield ("plan", "controls", kind, index), message
            elif kind != "spiked" and section.released is None and section.provider != "scripted":
                message = "a negative control needs `released:`, the documented date, before"
                yield ("models", name), f"{message} publication"


def _rate_faults(parsed: ProtocolFile) -> Faults:
    """Yield rates of models that there are not, or that send no requests to a provider."""
    for key in ("requests_per_minute", "tokens_per_minute"):
        for name in getattr(parsed.sweep, key):
            model, place = parsed.models.get(name), ("sweep", key, name)
            if model is None:
                yield place, f"no model{_nearest(name, parsed.models)}"
            elif model.provider in (*OWN_PROVIDERS, "agent_server"):
                yield place, "a rate is of a model behind a provider's API: leave it out"


def _budget_faults(parsed: ProtocolFile) -> Faults:
    """Yield limits of models, judges and providers that there are not, and a budget without
    prices."""
    if parsed.budget is None:
        return
    if parsed.prices is None:
        message = "a budget needs `prices:`, the file that says what the models cost"
        yield ("budget",), message
    if parsed.budget.team and shared_place(parsed.store) is None:
        yield ("budget", "team"), NOT_SHARED
    buyers = (*parsed.models.values(), *parsed.judges.values())
    providers = dict.fromkeys(section.provider for section in buyers)
    sections: tuple[tuple[str, Collection[str], str], ...] = (
        ("models", parsed.models, "model here is of that name"),
        ("judges", parsed.judges, "judge here is of that name"),
        ("providers", providers, "model or judge here is of that provider"),
    )
    for key, known, buyer in sections:
        for name in getattr(parsed.budget, key):
            if name not in known:
                yield ("budget", key, name), f"no {buyer}{_nearest(name, known)}"


def _setting_faults(parsed: ProtocolFile) -> Faults:
    """Yield a store that there is not, and settings that a local sandbox, a local model or a server
    has no use for."""
    try:
        check_scheme(parsed.store)
    except StoreError as error:
        yield ("store",), str(error)
    if parsed.store == "memory:":
        yield ("store",), "a store in memory ends with the command: give a folder's path"
    kind, limits = parsed.sandbox.kind, ("executing", "memory_gb", "creating")
    for key in {"docker": (), "pods": limits[:2], "local": limits}[kind]:
        if getattr(parsed.sandbox, key) is not None:
            no_limit = f"`kind: {kind}` has no such limit: leave it out, or set `kind: docker`"
            yield ("sandbox", key), no_limit
    if kind == "pods":
        try:
            pinned_digest(parsed.sandbox.image or "")
        except HarnessError as error:
            yield ("sandbox", "image"), str(error)
    for key, sections in (("models", parsed.models), ("judges", parsed.judges)):
        for name, section in sections.items():
            if section.provider in OWN_PROVIDERS and section.retention is not None:
                yield (
                    (key, name, "retention"),
                    f"{section.provider} models run here, and nobody keeps what they are sent: "
                    "leave it out",
                )
