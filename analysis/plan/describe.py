"""A registered plan in words, for its readers."""

from __future__ import annotations

from analysis.plan.presets import (
    BURNED,
    EXCLUSIONS,
    MARKER_CONTROL,
    OUTCOME_WORDS,
    SENSITIVITY,
    look_alpha,
    marker_alpha,
)
from analysis.stats.clearing import CLEARING_LEVEL, FEW_INSTANCES
from analysis.stats.intervals import counted
from registry.ledger.records import JudgeRule, Plan


def describe_plan(plan: Plan) -> str:
    """The plan in words, one paragraph a line."""
    return "\n".join(
        (
            *_hypothesis_words(plan),
            _design_words(plan),
            _test_words(plan),
            _error_words(plan),
            *_study_words(plan),
            _marker_words(plan),
            _verdict_words(plan),
            *_control_words(plan),
            *_judge_words(plan),
            _change_words(plan),
            f"Missing data. {plan.missing}",
            *_burned_words(plan),
            f"Exclusions. {_exclusion_words(plan)}",
            *_sensitivity_words(plan),
            *_chance_words(plan),
        )
    )


def _chance_words(plan: Plan) -> tuple[str, ...]:
    """The chances of the verdicts, as they were simulated."""
    if not plan.chances:
        return ()
    return (f"Power. Simulated before any data, by the rubrics' weights: the plan {plan.chances}.",)


def _judge_words(plan: Plan) -> tuple[str, ...]:
    """The requirements on judges whose columns are shown."""
    return (f"Judges. {' '.join(map(rule_words, plan.judges))}",) if plan.judges else ()


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
    return (
        f"The column of {rule.name} ({rule.pin}) is shown only where `judge check` measured "
        f"{', on '.join([' and '.join(asked[:-1]) or 'it', asked[-1]])}."
    )


def _design_words(plan: Plan) -> str:
    return (
        f"Design. {counted(plan.seeds_per_arm, 'instance')} in each arm of each of "
        f"{counted(len(plan.strata), 'stratum', 'strata')} ({', '.join(plan.strata)}), allocated "
        f"to the public or the private arm at random; {counted(plan.replicates, 'run')} of each "
        "model on each instance. The unit of the analysis is the instance: its score is the mean "
        "over its runs."
    )


def _test_words(plan: Plan) -> str:
    several = (
        ""
        if len(plan.outcomes) == 1
        else (
            "; the same permutation serves all outcomes, each gap is divided by its permutation "
            "standard deviation, and the largest one is the statistic (max-T)"
        )
    )
    return (
        "Test. For each model: does it score higher on public than on private instances? "
        f"One-sided, on the {' and the '.join(map(OUTCOME_WORDS.__getitem__, plan.outcomes))}, as "
        f"the difference of arm means averaged over strata{_calibration_words(plan)}. Arm labels "
        f"are permuted within strata with each arm's count fixed, {plan.permutations:,} times, or "
        f"all allocations are enumerated where there are {plan.enumerate_up_to:,} or fewer"
        f"{several}."
    )


def _error_words(plan: Plan) -> str:
    over = (
        "by the Westfall–Young step-down max-T method on permutations common to the models"
        if plan.multiplicity == "westfall-young"
        else "by Holm's method"
    )
    return (
        "Error rates. The chance of calling any clean model contaminated is held to "
        f"{plan.alpha:g} (one-sided) over {counted(plan.looks, 'look')} and all models: each "
        f"look, one wave, has {look_alpha(plan):.4g}, and p-values are adjusted over the models of "
        f"a look {over}."
    )


def _marker_words(plan: Plan) -> str:
    return (
        "Markers. A model that was asked for the marker of every instance, one of 8 drawn at "
        "random, is called exposed if it names more of the public ones than chance allows: exact "
        "binomial test at 1/8, one-sided. A reply that names none, or several, counts as not "
        f"right. {plan.marker_alpha:g} over {counted(plan.looks, 'look')} and all models: each "
        f"look has {marker_alpha(plan):.4g}, adjusted over its models by Holm's method. The "
        f"private instances are the control: a p of theirs of {MARKER_CONTROL:g} or less makes the "
        "result invalid; so does one of the public instances of a model that was released before "
        "publication, which is not tested. Exposure is no inflation, and no verdict rests on it."
    )


def _verdict_words(plan: Plan) -> str:
    every = "the gap" if len(plan.outcomes) == 1 else "the gap in every outcome"
    return (
        "Verdicts. “Contaminated” where the adjusted p-value is at most the look's alpha; the gap "
        "is that of the outcome with the largest statistic. Otherwise “no material inflation” "
        f"where the upper bound of {every} lies below {plan.margin:g} (one-sided t, "
        f"Satterthwaite's degrees of freedom; by Holm's method at {CLEARING_LEVEL:g} over the "
        f"models of the look), with fewer than {FEW_INSTANCES} instances an arm also the lower "
        f"bound of the 90 % interval above −{plan.margin:g}. Otherwise “inconclusive”: "
        "a test that does not reject proves nothing."
    )


def _hypothesis_words(plan: Plan) -> tuple[str, ...]:
    if plan.standard is None or not plan.standard.hypotheses:
        return ()
    return (f"Hypotheses. {' '.join(plan.standard.hypotheses)}",)


def _calibration_words(plan: Plan) -> str:
    rules = plan.standard
    if rules is None:
        return ""
    models = counted(len(rules.pre_exposure), "model")
    return (
        f", of scores minus the mean score on the instance of the {models} released before "
        f"publication, each run {_times(rules.control_runs)} on it"
    )


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _study_words(plan: Plan) -> tuple[str, ...]:
    rules = plan.standard
    if rules is None:
        return ()
    words = (
        "Study-level monitoring. A family of its own: the average model of each look, over every "
        "window of looks up to the present, labels permuted jointly across looks. Its chance of a "
        f"false alarm is held to {rules.study_alpha:g} (one-sided) over "
        f"{counted(plan.looks, 'look')}, spent in equal parts."
    )
    return (words,)


def _control_words(plan: Plan) -> tuple[str, ...]:
    rules = plan.standard
    if rules is None:
        return ()
    named = [f"{', '.join(rules.pre_exposure)} before publication"] if rules.pre_exposure else []
    named += [f"{', '.join(rules.frozen)} again at every look"] if rules.frozen else []
    words = (
        "Controls. Negative: none is named."
        if not named
        else (
            f"Controls. Negative: {'; '.join(named)}: all scores are calibrated by them, and their "
            f"own gap is reported: it agrees where its 90 % interval lies inside "
            f"±{rules.control_margin:g}, disagrees where its two-sided p is below "
            f"{rules.control_alpha:g}, and vetoes nothing."
        )
    )
    if not rules.frozen:
        words += " No frozen model is named: a fault of one look alone would not be seen."
    else:
        words += (
            " Where the frozen models' change by arm since their own baseline has a p below "
            f"{rules.control_alpha:g}, the look is calibrated on their runs of that look, and has "
            "no verdicts if these are fewer than 4 an instance."
        )
    if rules.spiked:
        words += f" Positive: {', '.join(rules.spiked)}, given public keys, must be detected."
    else:
        words += " Positive: none is registered."
    if rules.second_grader:
        words += (
            f" A second grader, {rules.second_grader}, must find the same gap: its 95 % interval "
            "overlaps that of the first."
        )
    if rules.regrade:
        whose = "all" if rules.regrade == 1 else f"a share of {rules.regrade:g}"
        words += (
            f" At each later look it grades the first wave's answers again, on {whose} of the "
            "instances; the change must be alike in the arms, its p not below "
            f"{rules.control_alpha:g}."
        )
    words += " Where a positive control or a grader disagrees, verdicts are withheld, and say why."
    return (words,)


def _change_words(plan: Plan) -> str:
    """The rules for software, models, endpoints and judges that change during the study
    (spec/verdicts.md, 7)."""
    words = (
        "Changes. Before a wave, every instance is generated and compared with the draw, and known "
        "answers are graded and compared with the registration: no wave runs where they differ. "
        "Another commit, lock file, library or image is recorded and reported as another harness. "
        "A name keeps its provider, version and settings; another address is reported. A model "
        "that is no longer served leaves later looks, and no other is tested in its place."
    )
    rules = plan.standard
    if rules is None:
        return words
    words += " The control models' runs from before the publication go on calibrating."
    if rules.frozen:
        words += (
            " A frozen model without a scored run at a look is replaced there by the next of the "
            "models from before publication, in the order above, that has one; a look without any "
            "is inconclusive."
        )
    if rules.spiked:
        words += " A positive control is not replaced."
    if rules.second_grader in {rule.name for rule in plan.judges}:
        words += f" {rules.second_grader} is pinned by its requirements and is not replaced."
    elif rules.second_grader:
        words += (
            f" If {rules.second_grader} is no longer served, another judge replaces it under its "
            "name, and grades the stored answers of all looks: the former's grades do not count."
        )
    return words


def _burned_words(plan: Plan) -> tuple[str, ...]:
    if plan.standard is None:
        return ()
    return (
        "Burned instances. Private ones whose inputs a model's provider may have kept from an "
        f"earlier run, or that have leaked. {BURNED[plan.standard.burned]} Where burned instances "
        "are in a test, the model is not said to show no material inflation: they may hide a gap, "
        "and make none. At each look they are held against private ones that nobody has seen.",
    )


def _exclusion_words(plan: Plan) -> str:
    if not plan.exclusions:
        return "None."
    return f"Not tested: {'; '.join(EXCLUSIONS.get(name, name) for name in plan.exclusions)}."


def _sensitivity_words(plan: Plan) -> tuple[str, ...]:
    if plan.standard is None or not plan.standard.sensitivity:
        return ()
    named = "; ".join(SENSITIVITY[name] for name in plan.standard.sensitivity)
    return (f"Sensitivity. Shown beside the test, deciding nothing: {named}.",)
