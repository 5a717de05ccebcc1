"""``dosimeter analyze``: the registered kind of analysis on results from elsewhere."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from analysis.data.import_file import GradedFile
from analysis.data.item_dates import check_item_dates, own_arms
from analysis.data.table import ResultTable, codes_of, one_of
from analysis.errors import AnalysisError
from analysis.plan.comparison import adjust_over_models
from analysis.plan.history import ALLOCATIONS, BY_TIME, RANDOM, WaveHistory
from analysis.plan.look import analyse
from analysis.plan.presets import OUTCOMES, STANDARD, basic_plan, look_alpha, standard_plan
from analysis.plan.verdict import Rule
from analysis.report.deviations import table_departures
from analysis.report.episodes import count_rows
from analysis.report.report import Report, build_table_report
from analysis.tables.counts import Counts, read_either
from analysis.tables.verdicts import verdicts_of_counts
from analysis.words import sentence_of
from generators.yaml_lines import YamlDocument
from registry.canonical import digest_value
from registry.ledger.records import Plan, record_body
from registry.result_row import GRADER, Status
from study.errors import StudyError
from study.files import read_from_elsewhere
from study.protocol.plan_section import ControlsSection, PlanFile, idle_keys, plan_options
from study.protocol.yaml import explain_fault, read_yaml

_OF_COUNTS = {"preset", "allocation", "alpha", "margin", "controls"}
_words = partial(sentence_of, "tables_from_elsewhere")


def analyze_table(
    path: Path,
    plan_path: Path | None = None,
    *,
    pre_exposure: Sequence[str] = (),
    grader: str | None = None,
    allocation: str | None = None,
    now: str,
) -> Report | dict[str, Any]:
    """Read a table and run a plan on it; without a file, the preset standard-v1.

    No ledger registers it, which is the first of the deviations. ``now`` is the
    time of the report. A table of counts has no report, nor has one of several models with arms of
    their own: its verdicts are returned as ``report_json`` has those of one. Raises
    AnalysisError and StudyError that name the file.
    """
    section, notes = _read_plan(plan_path)
    second = section.second_grader or ""
    reader = partial(read_either, grader=grader, second=second)
    read = read_from_elsewhere(reader, path)
    allotted = _allocation(path, {section.allocation, *read.allocation, allocation} - {None})
    if isinstance(read, Counts):
        section = section.model_copy(update={"allocation": allotted})
        return _analyze_counts(path, read, section, pre_exposure, plan_path)
    if pre_exposure:
        section = _with_controls(section, pre_exposure)
    history = replace(_history_of(section, read.table, read.days), allocation=allotted)
    controls, models = _control_names(section), codes_of(read.table["model"])[0]
    _check_models(controls, models, path)
    run = partial(_analyze_rows, path, plan_path=plan_path, history=history, now=now)
    if (dates := read.item_dates) is None:
        return run(read, section, notes)
    if allotted == BY_TIME:
        check_item_dates(dates, read.table, controls, path)
    if dates.stated:
        return run(read, section, notes)
    if allotted != BY_TIME:
        raise StudyError(f"{path}: no column arm, and none follows from dates if it is not by time")
    looks = section.looks or _count_looks(read.table, controls, history)
    section, notes = section.model_copy(update={"looks": looks}), [*notes, _words("own_arms")]
    tested = [model for model in models if model not in controls]
    tables = (own_arms(dates, read.table, model, controls, path) for model in tested)
    reports = [run(replace(read, table=table), section, notes) for table in tables]
    return reports[0] if len(reports) == 1 else _join(path, tested, reports, controls)


def _analyze_rows(
    path: Path,
    read: GradedFile,
    section: PlanFile,
    notes: Sequence[str],
    *,
    plan_path: Path | None,
    history: WaveHistory,
    now: str,
) -> Report:
    table = read.table
    first = table.where(table["grader"] == GRADER)
    plan, more = _plan_of(section, first, plan_path, history)
    registration = digest_value(record_body(plan))
    try:
        result = analyse(plan, table, registration, history=history, scored_by=read.scored_by)
    except AnalysisError as error:
        raise AnalysisError(f"{path}: {error}") from error
    if section.published is None or read.days is None:
        more.append(_words("unchecked"))
    bare, other = plan.standard is None or not plan.standard.frozen, history.allocation != RANDOM
    notes_of = {"by_unit": read.by_unit, "not_random": other, "unguarded": bare}
    more += [_words(name) for name, holds in notes_of.items() if holds]
    sized = section.seeds_per_arm is not None
    departures = table_departures(plan, first, history, sized=sized)
    deviations = (*notes, *more, *departures)
    published = "" if section.published is None else section.published.isoformat()
    return build_table_report(path.name, table, result, deviations, now, published)


def _join(
    path: Path, models: Sequence[str], reports: Sequence[Report], controls: Collection[str]
) -> dict[str, Any]:
    """The verdicts of reports on one model each, with p adjusted over them, as of counts."""
    verdicts = [verdict for report in reports for verdict in report.verdicts]
    common = [n for n in reports[0].deviations if all(n in r.deviations for r in reports)]
    own = zip(models, reports, strict=True)
    own_notes = [f"{m}: {n}" for m, r in own for n in r.deviations if n not in common]
    early = [asdict(gap) for report in reports for gap in report.before_publication]
    joined = adjust_over_models(verdicts, look_alpha(reports[0].plan))
    return {
        "study": path.name,
        "models": [asdict(verdict) for verdict in joined],
        "before_publication": early,
        "control_models": sorted(controls),
        "allocation": BY_TIME,
        "margin": reports[0].plan.margin,
        "deviations": [*common, *own_notes],
    }


def _analyze_counts(
    path: Path,
    counts: Counts,
    section: PlanFile,
    pre_exposure: Sequence[str],
    plan_path: Path | None,
) -> dict[str, Any]:
    if idle := sorted(section.model_fields_set - _OF_COUNTS):
        known = ", ".join(sorted(_OF_COUNTS))
        raise StudyError(f"{plan_path}: {idle[0]}: with counts a plan has {known}")
    controls = {*pre_exposure, *_control_names(section)}
    _check_models(controls, counts.models, path)
    allotted = section.allocation or RANDOM
    rule = Rule(alpha=section.alpha, margin=section.margin)
    words = [] if plan_path is None else [_words("plan_file", name=plan_path.name)]
    words += [_words("counts")] + ([_words("not_random")] if allotted != RANDOM else [])
    return {
        "study": path.name,
        "models": [asdict(v) for v in verdicts_of_counts(counts, controls, allotted, rule)],
        "control_models": sorted(controls),
        "allocation": allotted,
        "margin": rule.margin,
        "deviations": words,
    }


def _history_of(
    section: PlanFile, table: ResultTable, days: NDArray[np.datetime64] | None
) -> WaveHistory:
    """Return the waves before the publication: those with a run of a model under test on an earlier
    day. Nothing is known of a table without dates."""
    if section.published is None or days is None:
        return WaveHistory(section.published)
    early = days < np.datetime64(section.published)
    if names := _control_names(section):
        early &= ~one_of(table["model"], names)
    return WaveHistory(section.published, frozenset(table["wave"][early].tolist()))


def _allocation(path: Path, named: set[str | None]) -> str:
    """The rule of allocation. Raises StudyError if none is named, or several, or an unknown one."""
    if len(named) == 1 and named <= {*ALLOCATIONS}:
        return str(*named)
    given = ", ".join(sorted(map(repr, named))) or "not stated"
    raise StudyError(
        f"{path}: how its instances were allotted to the arms: {given}; state one of "
        f"{', '.join(ALLOCATIONS)} by --allocation, a column `allocation` or that key of the plan"
    )


def _control_names(section: PlanFile) -> set[str]:
    controls = section.controls or ControlsSection()
    return {*controls.pre_exposure, *controls.frozen, *controls.spiked}


def _read_plan(path: Path | None) -> tuple[PlanFile, list[str]]:
    """Return the section of the plan's file, or the preset, and notes on it for the deviations."""
    if path is None:
        return PlanFile(preset="standard-v1"), [_words("no_plan")]
    if not path.exists():
        raise StudyError(f"{path}: no such file")
    document = read_yaml(path)
    value = document.value
    if not isinstance(value, dict):
        raise StudyError(f"{path}:1: a plan is a mapping, such as `preset: {STANDARD}`")
    inside = "plan" in value and "preset" not in value
    section = value["plan"] if inside else value
    try:
        plan_file = PlanFile.model_validate_json(json.dumps(section, default=str))
    except ValidationError as error:
        raise _explain(document, error, inside=inside) from error
    for place, message in idle_keys(plan_file, ("plan",) if inside else ()):
        raise StudyError(f"{document.place(place)}: {message}")
    notes = [_words("plan_file", name=path.name)]
    return plan_file, [*notes, _words("judges")] if plan_file.judges else notes


def _explain(document: YamlDocument, error: ValidationError, *, inside: bool) -> StudyError:
    first = error.errors()[0]
    place = (("plan",) if inside else ()) + tuple(first["loc"])
    if first["type"] == "extra_forbidden":
        known = ", ".join(PlanFile.model_fields)
        return StudyError(f"{document.place(place)}: unknown key; known are {known}")
    return explain_fault(document, place, first)


def _with_controls(section: PlanFile, pre_exposure: Sequence[str]) -> PlanFile:
    if section.preset != STANDARD:
        raise StudyError(f"--pre-exposure: the preset {section.preset} has no controls")
    controls = section.controls or ControlsSection()
    named = (*controls.pre_exposure, *pre_exposure)
    made = controls.model_copy(update={"pre_exposure": tuple(dict.fromkeys(named))})
    return section.model_copy(update={"controls": made})


def _carried_outcomes(table: ResultTable) -> tuple[tuple[str, ...], list[str]]:
    """Return the outcomes that rows from elsewhere have, with a note if they are not the preset's:
    tables may count criteria without marking those that need the answer key or no gate."""
    scored = table.where(table["status"] == Status.SCORED)
    if not np.isnan(scored["key_fraction"]).any():
        if not np.isnan(scored["gate_free"]).any():
            return OUTCOMES, []
        return ("score", "key-fraction"), [_words("no_gate_free")]
    if not np.isnan(scored["passed"]).any():
        return ("score", "fraction"), [_words("no_key_fraction")]
    return ("score",), [_words("no_counts")]


def _plan_of(
    section: PlanFile, table: ResultTable, path: Path | None, history: WaveHistory
) -> tuple[Plan, list[str]]:
    """Return the plan for this table: values that its file leaves open come from the table's
    shape, and notes on them."""
    strata = section.strata or tuple(codes_of(table["stratum"])[0])
    options, notes = plan_options(section), []
    if section.outcomes is None:
        options["outcomes"], words = _carried_outcomes(table)
        notes += words
    if options.pop("regrade", 0):
        raise StudyError(
            f"{path}: controls.regrade: a table has no archived answers to grade again; leave it "
            "out"
        )
    seeds = section.seeds_per_arm or _most_seeds(table)
    options["replicates"] = section.replicates or int(table["replicate"].max()) + 1
    options["looks"] = section.looks or _count_looks(table, _control_names(section), history)
    make = standard_plan if section.preset == STANDARD else basic_plan
    try:
        if section.preset == STANDARD:
            options.setdefault("pre_exposure", ())
        plan: Plan = make(strata, seeds, **options)
    except AnalysisError as error:
        where = "the preset" if path is None else str(path)
        raise StudyError(f"{where}: {error}") from error
    if plan.standard is not None and not plan.standard.pre_exposure:
        notes.append(_words("no_controls"))
    return plan, notes


def _most_seeds(table: ResultTable) -> int:
    """Return the number of instances in the largest arm of a stratum at a wave: of tranche 0, as
    plans count them, or of any tranche if the table has none of it."""
    panel = table.where(table["tranche"] == table["tranche"].min())
    names = ("wave", "stratum", "arm", "instance")
    cells = Counter(key[:3] for key in count_rows(*(panel[name] for name in names)))
    return max(cells.values())


def _count_looks(table: ResultTable, control_names: set[str], history: WaveHistory) -> int:
    fresh = (
        ~one_of(table["model"], control_names) if control_names else np.ones(len(table), dtype=bool)
    )
    return max(1, len(history.number_looks(table["wave"][fresh].tolist())))


def _check_models(controls: Collection[str], models: Collection[str], path: Path) -> None:
    """Raise StudyError for a control without rows, or a table of controls only."""
    for name in sorted({*controls} - {*models}):
        known = ", ".join(sorted(models)[:8])
        raise StudyError(f"{path}: no rows of the control {name!r}; its models are {known}")
    if {*models} == {*controls}:
        raise StudyError(f"{path}: every model is a control: there is none to test")
