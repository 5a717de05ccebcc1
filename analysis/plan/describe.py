"""A registered plan in words, for its readers. Its sentences stand in ``describe.yaml``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from analysis.data import table
from analysis.plan.presets import (
    BURNED,
    EXCLUSIONS,
    MARKER_CONTROL,
    OUTCOME_WORDS,
    SENSITIVITY,
    look_alpha,
    marker_alpha,
)
from analysis.plan.results import LEAST_APART
from analysis.stats import clearing
from analysis.stats.intervals import counted, counted_range
from analysis.words import words_in
from registry.ledger.records import JudgeRule, Plan, StandardRules


def describe_plan(plan: Plan) -> str:
    """The plan in words, one paragraph a line."""
    words, values = _sentences(), _values(plan)
    return "\n".join(
        " ".join(words[name].format(**values) for name in names) for names in _paragraphs(plan)
    )


def _sentences() -> Mapping[str, str]:
    return words_in("analysis.plan", "describe.yaml")


def _paragraphs(plan: Plan) -> Iterator[tuple[str, ...]]:
    """The names of the sentences of each paragraph."""
    rules = plan.standard
    if rules is not None and rules.hypotheses:
        yield ("hypotheses",)
    yield from (("design",), ("test",), ("error_rates",))
    if rules is not None:
        yield ("monitoring",)
    yield from (("markers",), *([("levels",)] if plan.levels else []), ("verdicts",))
    if rules is not None:
        yield tuple(_control_sentences(plan, rules))
    if plan.judges:
        yield ("judges",)
    yield ("changes", *_change_sentences(plan))
    yield ("missing",)
    if rules is not None:
        yield ("burned",)
    yield ("exclusions" if plan.exclusions else "no_exclusions",)
    if rules is not None and rules.sensitivity:
        yield ("sensitivity",)
    if plan.chances:
        yield ("chances",)


def _control_sentences(plan: Plan, rules: StandardRules) -> Iterator[str]:
    yield "controls" if rules.pre_exposure or rules.frozen else "no_controls"
    yield "frozen" if rules.frozen else "not_frozen"
    yield "spiked" if rules.spiked else "not_spiked"
    if rules.second_grader:
        yield "scorer" if plan.scorer else "second_grader"
    if rules.regrade:
        yield "regrade"
    yield "withheld"


def _change_sentences(plan: Plan) -> Iterator[str]:
    """Those on software, models, endpoints and judges that change during the study."""
    rules = plan.standard
    if rules is None:
        return
    yield "controls_stay"
    if rules.frozen:
        yield "frozen_replaced"
    if rules.spiked:
        yield "spiked_stays"
    if rules.second_grader:
        pinned = rules.second_grader in {rule.name for rule in plan.judges}
        yield "judge_pinned" if pinned else "judge_replaced"


def _values(plan: Plan) -> dict[str, Any]:
    """The values of the sentences, by the names that they have there."""
    words, rules, one = _sentences(), plan.standard, len(plan.outcomes) == 1
    values: dict[str, Any] = {
        **{"plan": plan, "rules": rules, "names": ", ".join(plan.strata)},
        "instances": counted_range(plan.sizes, "instance"),
        "strata": counted(len(plan.strata), "stratum", "strata"),
        "runs": counted(plan.replicates, "run"),
        "looks": counted(plan.looks, "look"),
        **{"look_alpha": look_alpha(plan), "marker_alpha": marker_alpha(plan)},
        "marker_control": MARKER_CONTROL,
        **{"clearing": clearing, "table": table, "least_apart": LEAST_APART},
        "margin_points": 100 * plan.margin,
        "outcomes": " and the ".join(map(OUTCOME_WORDS.__getitem__, plan.outcomes)),
        "every_gap": "the gap" if one else "the gap in every outcome",
        "several": "" if one else words["several"],
        "calibrated": "",
        "multiplicity": words[plan.multiplicity],
        "judges": " ".join(map(rule_words, plan.judges)),
        "exclusions": "; ".join(EXCLUSIONS.get(name, name) for name in plan.exclusions),
    }
    return values if rules is None else values | _rule_values(rules)


def _rule_values(rules: StandardRules) -> dict[str, str]:
    early, frozen = ", ".join(rules.pre_exposure), ", ".join(rules.frozen)
    controls = (early and f"{early} before publication", frozen and f"{frozen} again at every look")
    models = counted(len(rules.pre_exposure), "model")
    times = {1: "once", 2: "twice"}.get(rules.control_runs, f"{rules.control_runs} times")
    calibrated = _sentences()["calibrated"].format(control_models=models, control_runs=times)
    return {
        "hypotheses": " ".join(rules.hypotheses),
        "calibrated": calibrated,
        "controls": "; ".join(filter(None, controls)),
        "spiked": ", ".join(rules.spiked),
        "regraded": "all" if rules.regrade == 1 else f"a share of {rules.regrade:g}",
        "burned": BURNED[rules.burned],
        "sensitivity": "; ".join(SENSITIVITY[name] for name in rules.sensitivity),
    }


def rule_words(rule: JudgeRule) -> str:
    """The plan's requirements on a judge, in a sentence."""
    asked = [
        f"a {name} of {least:g} or more"
        for name, least in (
            ("sensitivity", rule.min_sensitivity),
            ("specificity", rule.min_specificity),
            ("kappa with the truth", rule.min_kappa),
            ("share of parsed verdicts", rule.min_parsed),
        )
        if least is not None
    ]
    asked.append(f"{rule.min_criteria} criteria or more")
    scores = f"The scores of {', '.join(rule.scores)} are its grades. " if rule.scores else ""
    return (
        f"{scores}The column of {rule.name} ({rule.pin}) is shown only where `judge check` "
        f"measured {', on '.join([' and '.join(asked[:-1]) or 'it', asked[-1]])}."
    )
