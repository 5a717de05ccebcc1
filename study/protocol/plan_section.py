"""The section ``plan:`` of study.yaml, and the Plan that it registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from generators.yaml_lines import Place
from registry.ledger.draw_records import SeedsPerArm, sizes_of
from registry.ledger.records import Plan

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Rate = Annotated[float, Field(gt=0, lt=1)]
Names = tuple[str, ...]
Faults = Iterator[tuple[Place, str]]  # places in a file, and what is wrong there


class Section(BaseModel):
    """A mapping of study.yaml, each key of which is known."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True
    )


class JudgeRuleSection(Section):
    """Results that a judge must reach in `judge check` before a report shows its column."""

    min_sensitivity: float | None = Field(default=None, ge=0, le=1)
    min_specificity: float | None = Field(default=None, ge=0, le=1)
    min_kappa: float | None = Field(default=None, ge=-1, le=1)
    min_parsed: float | None = Field(default=None, ge=0, le=1)
    min_criteria: Annotated[int, Field(ge=400, le=100_000)] = 400


class ControlsSection(Section):
    pre_exposure: Names = ()
    frozen: Names = ()
    spiked: Names = ()
    runs: Count | None = None  # of each pre-exposure or frozen model on an instance
    alpha: Rate | None = None
    margin: Rate | None = None
    regrade: Annotated[float, Field(ge=0, le=1)] | None = None


class PlanSection(Section):
    """Settings of the plan; a key that is left out has the preset's value."""

    preset: Literal["basic-v1", "standard-v1"] = "basic-v1"
    alpha: float = Field(default=0.025, gt=0, lt=0.5)
    permutations: int = Field(default=19_999, ge=99, le=10_000_000)
    margin: float = Field(default=0.05, gt=0, lt=1)
    enumerate_up_to: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    looks: Count | None = None
    # Inflation of one model that the plan must find with a power of 80 %: study/readiness/.
    target_gap: float = Field(default=0.10, gt=0, lt=1)
    marker_alpha: float = Field(default=0.001, gt=0, lt=0.5)
    level_alpha: float = Field(default=0.0125, gt=0, lt=0.5)  # of each level above the instance
    most_tau: float = Field(default=0.20, gt=0, le=1)  # of the control models over units
    outcomes: Names | None = None
    multiplicity: str | None = None
    judges: dict[str, JudgeRuleSection] = {}
    # Of standard-v1 alone:
    study_alpha: Annotated[float, Field(gt=0, lt=0.5)] | None = None
    controls: ControlsSection | None = None
    second_grader: str | None = None
    sensitivity: Names | None = None
    exclusions: Names | None = None
    burned: Literal["leave-out", "keep"] | None = None
    hypotheses: Names | None = None


SECTIONS: Mapping[str, type[Section]] = {"controls": ControlsSection}
_OF_EVERY_PRESET = {
    *("looks", "alpha", "permutations", "enumerate_up_to"),
    *("margin", "outcomes", "multiplicity", "target_gap", "marker_alpha"),
    *("level_alpha", "most_tau"),
}
STANDARD_ONLY = tuple(
    name for name in PlanSection.model_fields if name not in {*_OF_EVERY_PRESET, "preset", "judges"}
)


class PlanFile(PlanSection):
    """A plan in a file of its own, for results from elsewhere. Keys left open are taken from
    the shape of the table."""

    strata: Names | None = None
    seeds_per_arm: Count | None = None
    replicates: Count | None = None
    published: date | None = None  # the day on which the public instances were released
    allocation: Literal["random", "time", "authored", "unknown"] | None = None  # to the arms


def idle_keys(section: PlanSection, place: tuple[str, ...] = ("plan",)) -> Faults:
    """Yield the keys that would do nothing; ``place`` is the section's."""
    for key in STANDARD_ONLY if section.preset != "standard-v1" else ():
        if getattr(section, key) is not None:
            message = f"the preset {section.preset} has no {key!r}; write `preset: standard-v1`"
            yield (*place, key), message


def make_plan(
    section: PlanSection,
    *,
    strata: Sequence[str],
    seeds_per_arm: SeedsPerArm,
    replicates: int,
    waves: Sequence[Sequence[str]],
    released: Mapping[str, str],
) -> Plan:
    """The plan as it is put into the ledger. ``looks`` are, unless the section has a number, the
    waves; of standard-v1, those with a model that is no control. Raises AnalysisError where the
    plan cannot be run."""
    from analysis.errors import AnalysisError
    from analysis.plan.presets import STANDARD, basic_plan, standard_plan

    if sizes_of(seeds_per_arm, strata) == (1,):
        raise AnalysisError(
            "seeds_per_arm: one instance an arm in one stratum leaves nothing to estimate an "
            "interval from; give 2 or more, or more strata"
        )
    options = {**plan_options(section), "replicates": replicates}
    if section.preset != STANDARD:
        return basic_plan(strata, seeds_per_arm, **{"looks": len(waves)} | options)
    controls = section.controls or ControlsSection()
    if not controls.pre_exposure:
        raise AnalysisError(
            "controls.pre_exposure: name at least one model that was released before publication: "
            f"{STANDARD} issues no verdict without a negative control"
        )
    control_models = {*controls.pre_exposure, *controls.frozen, *controls.spiked}
    looks = max(1, sum(1 for wave in waves if set(wave) - control_models))
    # The preset's demand if a judge has a part in the verdict.
    options = {"control_runs": replicates} | options
    options |= {"regrade": 1.0 if section.second_grader else 0.0} | options
    dated = sorted({*controls.pre_exposure, *controls.frozen} & set(released))
    facts = [(name, released[name]) for name in dated]
    return standard_plan(strata, seeds_per_arm, released=facts, **{"looks": looks} | options)


def plan_options(section: PlanSection) -> dict[str, Any]:
    """Return the section's values as keyword arguments of the preset's function."""
    names = _OF_EVERY_PRESET
    parts: dict[str, Any] = {}
    if section.preset == "standard-v1":
        names = {*names, *STANDARD_ONLY} - SECTIONS.keys()
        controls = section.controls or ControlsSection()
        parts = {
            **controls.model_dump(exclude={"alpha", "margin", "runs"}),
            "control_alpha": controls.alpha,
            "control_margin": controls.margin,
            "control_runs": controls.runs,
        }
    options = section.model_dump(include=names) | parts
    return {name: value for name, value in options.items() if value is not None}
