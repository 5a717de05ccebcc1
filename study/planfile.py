"""The section ``plan:`` of study.yaml, and the Plan that it registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from registry.records import Plan

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Rate = Annotated[float, Field(gt=0, lt=1)]
Names = tuple[str, ...]


class Section(BaseModel):
    """A mapping of study.yaml, each key of which is known."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class JudgeRuleSection(Section):
    """What a judge must reach in `judge check` before a report shows its column."""

    min_sensitivity: float | None = Field(default=None, ge=0, le=1)
    min_specificity: float | None = Field(default=None, ge=0, le=1)
    min_kappa: float | None = Field(default=None, ge=-1, le=1)
    min_criteria: Annotated[int, Field(ge=400, le=100_000)] = 400  # spec/statistics.md, C3


class ControlsSection(Section):
    pre_exposure: Names = ()
    frozen: Names = ()
    spiked: Names = ()
    alpha: Rate | None = None
    margin: Rate | None = None


class CovariateSection(Section):
    runs: Count | None = None


class MissingSection(Section):
    alpha: Rate | None = None
    share: Rate | None = None


class PlanSection(Section):
    """What is left out is as the preset has it."""

    preset: Literal["basic-v1", "standard-v1"] = "basic-v1"
    alpha: float = Field(default=0.025, gt=0, lt=0.5)
    permutations: int = Field(default=19_999, ge=99, le=10_000_000)
    margin: float = Field(default=0.05, gt=0, lt=1)
    looks: Count | None = None
    outcomes: Names | None = None
    multiplicity: str | None = None
    judges: dict[str, JudgeRuleSection] = {}
    # Of standard-v1 alone:
    study_alpha: Annotated[float, Field(gt=0, lt=0.5)] | None = None
    onset_alpha: Annotated[float, Field(ge=0, lt=0.5)] | None = None
    controls: ControlsSection | None = None
    covariate: CovariateSection | None = None
    missing: MissingSection | None = None
    second_grader: str | None = None
    sensitivity: Names | None = None
    exclusions: Names | None = None
    hypotheses: Names | None = None


SECTIONS: Mapping[str, type[Section]] = {
    "controls": ControlsSection,
    "covariate": CovariateSection,
    "missing": MissingSection,
}
STANDARD_ONLY = (
    "study_alpha", "onset_alpha", *SECTIONS, "second_grader", "sensitivity", "exclusions",
    "hypotheses",
)  # fmt: skip


def make_plan(
    section: PlanSection,
    *,
    strata: Sequence[str],
    seeds_per_arm: int,
    replicates: int,
    waves: Sequence[Sequence[str]],
    released: Mapping[str, date],
) -> Plan:
    """The plan as it is put into the ledger. ``looks`` are, unless the section has a number, the
    waves; of standard-v1, those with a model that is no control. Raises AnalysisError where the
    plan cannot be run."""
    from analysis.plan import STANDARD, basic_plan, standard_plan

    given: dict[str, Any] = {
        "replicates": replicates,
        "alpha": section.alpha,
        "permutations": section.permutations,
        "margin": section.margin,
        **_given(outcomes=section.outcomes, multiplicity=section.multiplicity),
    }
    if section.preset != STANDARD:
        return basic_plan(strata, seeds_per_arm, looks=section.looks or len(waves), **given)
    controls = section.controls or ControlsSection()
    aside = {*controls.pre_exposure, *controls.frozen, *controls.spiked}
    looks = section.looks or max(1, sum(1 for wave in waves if set(wave) - aside))
    covariate, missing = section.covariate or CovariateSection(), section.missing
    dated = sorted({*controls.pre_exposure, *controls.frozen} & set(released))
    return standard_plan(
        strata,
        seeds_per_arm,
        looks=looks,
        pre_exposure=controls.pre_exposure,
        frozen=controls.frozen,
        spiked=controls.spiked,
        released=[(name, released[name].isoformat()) for name in dated],
        **given,
        **_given(
            control_alpha=controls.alpha,
            control_margin=controls.margin,
            covariate_runs=covariate.runs,
            missing_alpha=missing and missing.alpha,
            missing_share=missing and missing.share,
            study_alpha=section.study_alpha,
            onset_alpha=section.onset_alpha,
            second_grader=section.second_grader,
            sensitivity=section.sensitivity,
            exclusions=section.exclusions,
            hypotheses=section.hypotheses,
        ),
    )


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
