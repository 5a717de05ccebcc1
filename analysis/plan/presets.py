"""The presets of a registered Plan, the options that they allow, its validation, and the alpha of
each look (``look_alpha``)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from analysis.errors import AnalysisError
from analysis.words import words_in
from registry.ledger.draw_records import SeedsPerArm
from registry.ledger.records import Plan, StandardRules

if TYPE_CHECKING:
    from analysis.stats.permutation import Draws

BASIC, STANDARD = "basic-v1", "standard-v1"
MARKER_CONTROL = 0.01  # a p of the private markers at or below it makes a result invalid
MOST_LOOKS = 20  # that share alpha
OUTCOMES = ("score", "key-fraction", "gate-free")
_WORDS = words_in("analysis.plan", "presets.yaml")
OUTCOME_WORDS: Mapping[str, str] = _WORDS["outcomes"]
MULTIPLICITY = ("westfall-young", "holm")
MISSING = str(_WORDS["missing"])
MISSING_TIPPING = f"{MISSING} {_WORDS['tipping']}"
SENSITIVITY: Mapping[str, str] = _WORDS["sensitivity"]
EXCLUSIONS: Mapping[str, str] = _WORDS["exclusions"]
LEAVE_OUT, KEEP = "leave-out", "keep"
BURNED: Mapping[str, str] = _WORDS["burned"]
HYPOTHESES: tuple[str, ...] = tuple(_WORDS["hypotheses"])


_DEFAULTS: Mapping[str, Any] = {
    "exclusions": (),
    "replicates": 1,
    "looks": 1,
    "alpha": 0.025,
    "permutations": 19_999,
    "enumerate_up_to": 20_000,
    "margin": 0.05,
    "outcomes": OUTCOMES,
    "multiplicity": "westfall-young",
}
_STANDARD_DEFAULTS: Mapping[str, Any] = {
    **_DEFAULTS,
    "looks": 8,
    "pre_exposure": (),
    "frozen": (),
    "spiked": (),
    "control_runs": 1,
    "study_alpha": 0.025,
    "control_alpha": 0.05,
    "control_margin": 0.05,
    "second_grader": "",
    "sensitivity": tuple(SENSITIVITY),
    "hypotheses": HYPOTHESES,
}


def basic_plan(strata: Sequence[str], seeds_per_arm: SeedsPerArm, **options: Any) -> Plan:
    """The preset basic-v1. ``options`` are named as the fields of Plan. Raises AnalysisError for
    what ``validate_plan`` refuses."""
    given = _tuples({**_DEFAULTS, **options})
    return validate_plan(Plan(BASIC, tuple(strata), seeds_per_arm, missing=MISSING, **given))


def standard_plan(strata: Sequence[str], seeds_per_arm: SeedsPerArm, **options: Any) -> Plan:
    """The preset standard-v1. ``options`` are named as the fields of Plan and of StandardRules;
    ``pre_exposure`` names the models released before publication. Raises AnalysisError for what
    ``validate_plan`` refuses."""
    given = _tuples({**_STANDARD_DEFAULTS, **options})
    names = given.keys() & {field.name for field in fields(StandardRules)}
    rules = {name: given.pop(name) for name in names}
    standard = StandardRules(**rules)
    return validate_plan(
        Plan(
            STANDARD,
            tuple(strata),
            seeds_per_arm,
            missing=MISSING_TIPPING,
            standard=standard,
            **given,
        )
    )


def _tuples(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with every sequence but a text as a tuple."""
    return {
        name: value if isinstance(value, str) or not isinstance(value, Sequence) else tuple(value)
        for name, value in options.items()
    }


def validate_plan(plan: Plan) -> Plan:
    """The plan itself, if its values fit together and its names are known. Raises AnalysisError
    naming the field."""
    if complaint := next(_complaints(plan), ""):
        raise AnalysisError(f"plan {plan.name!r}: {complaint}")
    return plan


def look_alpha(plan: Plan) -> float:
    """The alpha of each look: that of the plan shared equally."""
    return plan.alpha / plan.looks


def least_p(plan: Plan, reserve: Sequence[int] = ()) -> float:
    """The least p that the plan's instances can give, with those of reserve tranches."""
    sizes = (*plan.sizes, *(n for n in reserve for _ in plan.strata))
    return float(1 / math.prod(math.comb(2 * n, n) for n in sizes))


def marker_alpha(plan: Plan) -> float:
    """The alpha of the markers at each look: that of the plan shared equally."""
    return plan.marker_alpha / plan.looks


def plan_draws(plan: Plan, seed: int) -> Draws:
    """The plan's permutations, drawn by a seed."""
    return {
        "permutations": plan.permutations,
        "enumerate_up_to": plan.enumerate_up_to,
        "seed": seed,
        "studentise": True,
    }


@dataclass(frozen=True, slots=True)
class RegisteredPlan:
    """A plan standard-v1 with its rules, and the digest of its registration."""

    plan: Plan
    rules: StandardRules
    registration: str

    def seed(self, *path: str) -> int:
        """The seed of some permutations."""
        from analysis.stats.permutation import permutation_seed

        return permutation_seed(self.registration, *path)


def replicates_of(plan: Plan, model: str) -> int:
    """The runs of a model on an instance that the plan promises."""
    rules = plan.standard
    if rules is None or model not in {*rules.pre_exposure, *rules.frozen}:
        return plan.replicates
    return rules.control_runs


def control_models(plan: Plan) -> set[str]:
    """The models that are controls: their gaps are no findings."""
    rules = plan.standard
    return set() if rules is None else {*rules.pre_exposure, *rules.frozen, *rules.spiked}


def bridging_models(rules: StandardRules, ran: Collection[str]) -> tuple[str, ...]:
    """The models that bridge changes at a look: the frozen ones of those that ran at it and, for
    each that did not, the next pre-exposure model in the plan's order that did."""
    kept = [name for name in rules.frozen if name in ran]
    others = [name for name in rules.pre_exposure if name in ran and name not in rules.frozen]
    return (*kept, *others[: len(rules.frozen) - len(kept)])


_BETWEEN: Mapping[str, float] = {  # 0 and a bound
    **dict.fromkeys(("alpha", "study_alpha", "marker_alpha", "level_alpha"), 0.5),
    **dict.fromkeys(("margin", "target_gap", "control_alpha", "control_margin"), 1),
}


def _complaints(plan: Plan) -> Iterator[str]:
    if plan.name not in (BASIC, STANDARD):
        yield f"name: no such preset; known: {BASIC}, {STANDARD}"
    if (plan.name == STANDARD) != (plan.standard is not None):
        yield f"standard: the preset {STANDARD}, and no other, has rules for controls and looks"
    if plan.missing != (MISSING if plan.standard is None else MISSING_TIPPING):
        yield f"missing: {plan.name} has one rule for missing data; leave its text as it is"
    given = asdict(plan)
    for name, value in {**given, **(given["standard"] or {})}.items():
        if name in _BETWEEN and not 0 < value < _BETWEEN[name]:
            yield f"{name}: {value} must lie between 0 and {_BETWEEN[name]}"
    if not plan.strata or len(set(plan.strata)) != len(plan.strata):
        yield "strata: name at least one, and none twice"
    if len(plan.sizes) != len(plan.strata) or min(plan.sizes, default=1) < 1:
        yield f"seeds_per_arm: {plan.seeds_per_arm} is not a count for each stratum; give 1 or more"
    if not 1 <= plan.looks <= MOST_LOOKS:
        yield f"looks: {plan.looks} are too few or too many; give 1 to {MOST_LOOKS}"
    if plan.permutations < (least := math.ceil(plan.looks / plan.alpha) - 1):
        yield (
            f"permutations: {plan.permutations} are too few to reach alpha {plan.alpha} over "
            f"{plan.looks} looks; give {least} or more (19999 is usual)"
        )
    yield from _name_complaints("outcomes", plan.outcomes, OUTCOME_WORDS)
    if not plan.outcomes:
        yield "outcomes: name at least one"
    if plan.multiplicity not in MULTIPLICITY:
        yield f"multiplicity: {plan.multiplicity!r}; known: {', '.join(MULTIPLICITY)}"
    if plan.standard is not None:
        yield from _standard_complaints(plan, plan.standard)


def _standard_complaints(plan: Plan, rules: StandardRules) -> Iterator[str]:
    if rules.burned not in BURNED:
        yield f"burned: {rules.burned!r}; known: {', '.join(BURNED)}"
    yield from _name_complaints("exclusions", plan.exclusions, EXCLUSIONS)
    yield from _name_complaints("sensitivity", rules.sensitivity, SENSITIVITY)
    for field in ("pre_exposure", "frozen", "spiked"):
        names = getattr(rules, field)
        if len(set(names)) != len(names):
            yield f"{field}: names a model twice"
    if both := sorted(set(rules.spiked) & {*rules.pre_exposure, *rules.frozen}):
        yield f"spiked: {both[0]!r} is a negative control too; it cannot be both"
    if (plan.permutations + 1) * rules.study_alpha < plan.looks:
        yield (
            f"permutations: {plan.permutations} are too few to spend study_alpha "
            f"{rules.study_alpha} over {plan.looks} looks (19999 is usual)"
        )
    if rules.regrade and not rules.second_grader:
        yield "regrade: it is the second grader that grades answers again, and none is named"


def _name_complaints(
    field: str, names: Sequence[str], known: Sequence[str] | Mapping[str, str]
) -> Iterator[str]:
    if len(set(names)) != len(names):
        yield f"{field}: name none twice"
    if unknown := [name for name in names if name not in known]:
        yield f"{field}: {unknown[0]!r} is not one; known: {', '.join(known)}"
