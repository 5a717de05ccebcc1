"""Limits of a study's conclusions, in plain words (spec/statistics.md, section 7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.plan.standard import LookResult
from registry.ledger.records import Plan, StandardRules

ALWAYS = (
    "The test shows whether a model does better on published instances than on held-back ones of "
    "the same draw. It does not show how the published ones reached the model.",
    "A gap that does not reach significance is inconclusive, not proof of a clean model; and a "
    "null gap shows no resistance to contamination unless the model was exposed.",
    "If private instances leak, for instance through a provider that trains on what it is sent, "
    "the gap shrinks: leakage biases towards finding nothing, never towards a false alarm.",
    "The planning figures behind the design (variance shares of instance and run) come from four "
    "models and 16 repeated pairs; two of the three regimes that it was simulated in are "
    "hypothetical. They should be estimated again in a pilot that is blind to the arms, and the "
    "study sized by it.",
    "How a study behaves over several looks was simulated with Gaussian scores, in one stratum, on "
    "one set of 999 permutations used again: error rates hold by permutation, power may differ.",
    "Small gaps need many instances. At a one-sided alpha of 0.025 a gap of 5 points needs about "
    "448 instances an arm for 80 % power; shared over eight looks, about 729. Where that is too "
    "many, register 10 points for single models and leave 5 to the monitoring of the study.",
    "The adjusted p-values hold the chance of any false accusation over the models of a look. They "
    "do not speak about models, tasks or versions that were not run.",
)
USUAL_MARGIN = 0.05
_CALCULATED = "would have been found is shown by calculation, not in this study"


def limits_of(
    plan: Plan,
    looks: Sequence[LookResult] = (),
    *,
    of_study: bool = True,
    leak_found: str = "",
) -> tuple[str, ...]:
    """The limits of a plan's results, a sentence or two each. ``of_study`` is false for a table
    from elsewhere; ``leak_found`` is how a leak of known size was found, if one was tried."""
    rules = plan.standard
    limits = (
        [f"No positive or negative control and no second judge is part of the plan {plan.name}."]
        if rules is None
        else [*_control_limits(rules, leak_found), *_look_limits(looks)]
    )
    if not of_study:
        limits.append(
            "The rows are from elsewhere: that instances were allotted to the arms at random, and "
            "that the private ones were held back, is taken on trust."
        )
    return (*ALWAYS, *limits)


def _control_limits(rules: StandardRules, leak_found: str) -> Iterator[str]:
    if not rules.pre_exposure:
        yield (
            "No model from before the publication is named: the verdicts rest on the random "
            "allocation alone, without a negative control."
        )
    elif rules.control_margin > USUAL_MARGIN:
        yield (
            f"The control models' gap agrees within {100 * rules.control_margin:g} points, not the "
            "usual 5: a smaller fault of the harness would not be reported."
        )
    if not rules.frozen:
        yield (
            "No frozen model is run again at every look: a drift of harness or judge that "
            "differs between the arms would not be seen by a control."
        )
    if not rules.spiked:
        yield (
            "No agent that was given public keys is part of the plan: that a leak of known size "
            f"{leak_found or _CALCULATED}."
        )
    if not rules.second_grader:
        yield "No second grader is asked for the same gap."
    elif not rules.regrade:
        yield (
            f"The second grader, {rules.second_grader}, is not asked to grade archived answers "
            "again: that it judges as it did would show in its verdicts alone."
        )


def _look_limits(looks: Sequence[LookResult]) -> Iterator[str]:
    bare = [str(look.wave) for look in looks if not look.covered]
    if bare:
        yield (
            f"Scores of wave {', '.join(bare)} are not calibrated: no model from before the "
            "publication has a score on their instances."
        )
