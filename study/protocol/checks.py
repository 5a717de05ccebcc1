"""Checks of study.yaml that its types do not make: unknown keys, names, and what goes together."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from harness.build_model import JUDGES
from harness.episodes import DETERMINISTIC
from harness.spending import OWN_PROVIDERS
from study.errors import StudyError
from study.protocol.plan_section import (
    SECTIONS,
    ControlsSection,
    JudgeRuleSection,
    Section,
    refuse_idle_keys,
)
from study.protocol.sections import (
    ADDRESS,
    JUDGE_SECTIONS,
    MODEL_SECTIONS,
    NAME,
    RECIPIENT,
    TOP_SECTIONS,
    URL,
    AgentServerSection,
    OpenAISection,
    ProtocolFile,
    ScriptedSection,
    TaskSection,
)
from study.protocol.yaml import Place, YamlDocument, explain_fault

GRADERS = (DETERMINISTIC, "lenient")  # columns that every study may have


def spell_out_tasks(document: YamlDocument) -> None:
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


def check_keys(document: YamlDocument) -> None:
    """Refuse unknown keys by line, with the nearest known one."""
    value = document.value
    _refuse_unknown(document, (), value, ProtocolFile)
    for name, section in TOP_SECTIONS.items():
        _refuse_unknown(document, (name,), value.get(name), section)
    tasks, models = value.get("tasks"), value.get("models")
    for index, task in enumerate(tasks if isinstance(tasks, list) else []):
        _refuse_unknown(document, ("tasks", index), task, TaskSection)
    _check_plan_keys(document, value.get("plan"))
    _check_model_keys(document, "models", models, MODEL_SECTIONS)
    _refuse_agents(document, value.get("judges"))
    _check_model_keys(document, "judges", value.get("judges"), JUDGE_SECTIONS)


def _check_plan_keys(document: YamlDocument, plan: Any) -> None:
    if not isinstance(plan, dict):
        return
    for name, section in SECTIONS.items():
        _refuse_unknown(document, ("plan", name), plan.get(name), section)
    rules = plan.get("judges")
    for name, rule in rules.items() if isinstance(rules, dict) else []:
        _refuse_unknown(document, ("plan", "judges", name), rule, JudgeRuleSection)


def _refuse_agents(document: YamlDocument, judges: Any) -> None:
    """Refuse a built-in agent as a judge, before its keys are held against those of one."""
    for name, section in judges.items() if isinstance(judges, dict) else []:
        given = section if isinstance(section, dict) else {}
        if given.get("provider") == "scripted" and given.get("agent") not in JUDGES:
            raise StudyError(
                f"{document.place(('judges', name))}: a judge is a plain model: no built-in agent, "
                f"but for {', '.join(JUDGES)}, which is none to trust"
            )


def _check_model_keys(
    document: YamlDocument, key: str, models: Any, known: Mapping[str, type[Section]]
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


def _refuse_unknown(
    document: YamlDocument, place: Place, value: Any, section: type[Section]
) -> None:
    for key in value if isinstance(value, dict) else ():
        if key not in section.model_fields:
            raise StudyError(
                f"{document.place((*place, key))}: unknown key"
                f"{_nearest(str(key), section.model_fields)}"
            )


def _nearest(word: str, known: Mapping[str, Any] | tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}"


def explain(document: YamlDocument, error: ValidationError) -> StudyError:
    """The first thing that is wrong, in words."""
    first = error.errors()[0]
    place = tuple(part for part in first["loc"] if part not in MODEL_SECTIONS)
    match first["type"]:
        case "string_pattern_mismatch" if first["ctx"]["pattern"] == NAME:
            message = "a name has lower-case letters, digits, . _ and -, at most 63"
        case "string_pattern_mismatch" if first["ctx"]["pattern"] == URL:
            return StudyError(
                f"{document.place(place)}: an address is http(s)://HOST[:PORT]/PATH, without a "
                "user or password: keys come from the environment (api_key_env)"
            )
        case "string_pattern_mismatch" if first["ctx"]["pattern"] == ADDRESS:
            message = "where the bridge listens is HOST:PORT; port 0 is any that is free"
        case "string_pattern_mismatch" if first["ctx"]["pattern"] == RECIPIENT:
            message = "an age public key is age1 and 58 more letters and digits"
        case "string_pattern_mismatch" if place == ("entropy",):
            message = "'system', or 'fixed:' and 64 hexadecimal digits for a demonstration"
        case _:
            return explain_fault(document, place, first)
    found = first.get("input")
    shown = f" (found {found!r})" if isinstance(found, str | int | float) else ""
    return StudyError(f"{document.place(place)}: {message}{shown}")


def check_sections(document: YamlDocument, parsed: ProtocolFile) -> None:
    """Raise StudyError, naming line and key, for sections that do not fit together."""
    for check in (
        _check_waves,
        _check_judges,
        _check_plan,
        _check_budget,
        _check_sandbox,
        _check_retention,
        _check_logprobs,
    ):
        check(document, parsed)


def _check_judges(document: YamlDocument, parsed: ProtocolFile) -> None:
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


def _check_plan(document: YamlDocument, parsed: ProtocolFile) -> None:
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


def _check_control(document: YamlDocument, parsed: ProtocolFile, place: Place, name: str) -> None:
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


def _check_waves(document: YamlDocument, parsed: ProtocolFile) -> None:
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


def _check_sandbox(document: YamlDocument, parsed: ProtocolFile) -> None:
    for key in ("creating", "executing", "memory_gb"):
        if parsed.sandbox.kind == "local" and getattr(parsed.sandbox, key) is not None:
            raise StudyError(
                f"{document.place(('sandbox', key))}: the local sandbox has no such limit: leave "
                "it out, or set `kind: docker`"
            )


def _check_retention(document: YamlDocument, parsed: ProtocolFile) -> None:
    for key, sections in (("models", parsed.models), ("judges", parsed.judges)):
        for name, section in sections.items():
            if section.provider in OWN_PROVIDERS and section.retention is not None:
                raise StudyError(
                    f"{document.place((key, name, 'retention'))}: {section.provider} models run "
                    "here, and nobody keeps what they are sent: leave it out"
                )


def _check_logprobs(document: YamlDocument, parsed: ProtocolFile) -> None:
    for name, section in parsed.models.items():
        if not isinstance(section, OpenAISection) or section.logprobs is not None:
            continue
        if section.top_logprobs is not None:
            raise StudyError(
                f"{document.place(('models', name, 'top_logprobs'))}: it needs `logprobs:`, which "
                "says how the server reports them: echo or prompt_logprobs"
            )


def _check_budget(document: YamlDocument, parsed: ProtocolFile) -> None:
    """Refuse limits of models, judges and providers that there are not, and a budget without
    prices."""
    if parsed.budget is None:
        return
    if parsed.prices is None:
        raise StudyError(
            f"{document.place(('budget',))}: a budget needs `prices:`, the file that says what "
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
