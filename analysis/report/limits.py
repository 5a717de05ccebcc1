"""Limits of a study's conclusions. The sentences stand in ``words.yaml``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.plan.standard import LookResult
from analysis.words import words_in
from registry.ledger.records import Plan, StandardRules

USUAL_MARGIN = 0.05
_CALCULATED = "would have been found is shown by calculation, not in this study"


def limits_of(
    plan: Plan, looks: Sequence[LookResult] = (), *, of_study: bool = True, leak_found: str = ""
) -> tuple[str, ...]:
    """The limits of a plan's results, a sentence or two each: first those of every plan.
    ``of_study`` is false for a table from elsewhere; ``leak_found`` is how a leak of known size was
    found, if one was tried."""
    words, rules = words_in("analysis.report", "words.yaml")["limits"], plan.standard
    bare = [str(look.wave) for look in looks if not look.covered] if rules is not None else []
    names = [
        *(("no_rules",) if rules is None else tuple(_control_limits(rules))),
        *(["judged"] if plan.scorer else []),
        *(["bare"] if bare else []),
        *([] if of_study else ["elsewhere"]),
    ]
    values = {
        **{"plan": plan, "rules": rules, "bare": ", ".join(bare)},
        "judged": ", ".join(plan.scorer.scores) if plan.scorer else "",
        "margin": 0 if rules is None else 100 * rules.control_margin,
        "leak_found": leak_found or _CALCULATED,
    }
    return (*words["always"], *(words[name].format(**values) for name in names))


def _control_limits(rules: StandardRules) -> Iterator[str]:
    if not rules.pre_exposure:
        yield "no_early"
    elif rules.control_margin > USUAL_MARGIN:
        yield "wide_margin"
    if not rules.frozen:
        yield "no_frozen"
    if not rules.spiked:
        yield "no_spiked"
    if not rules.second_grader:
        yield "no_second"
    elif not rules.regrade:
        yield "no_regrade"
