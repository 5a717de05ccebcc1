"""standard-v1 from rows to verdicts: looks, calibration, controls, bounds, and what is withheld."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date

import pytest

from analysis.data.seed_means import make_seed_means
from analysis.data.table import make_table
from analysis.errors import AnalysisError
from analysis.plan.controls import FROZEN_CHANGE, RELEASED_BEFORE, STATIC_CRITERIA, second_opinion
from analysis.plan.history import WaveHistory
from analysis.plan.look import Analysis, analyse
from analysis.plan.presets import SENSITIVITY, basic_plan, standard_plan
from analysis.plan.standard import bears_on
from analysis.plan.verdict import NO_INFLATION
from analysis.report.wording import monitored_words
from analysis.stats.adjustment import fit_slope
from analysis.stats.intervals import estimate_gap
from registry.result_row import Arm, ResultRow, Status
from tests.analysis.conftest import COUNTED, STRATA, Agent, lose, simulate

pytestmark = pytest.mark.filterwarnings("error")

OLD = tuple(Agent(f"old-{n}", 0.6) for n in range(4))
REGISTRATION = "sha256:" + "5e" * 32
WAVES = (
    (0, OLD),
    (1, (Agent("old-0", 0.6), Agent("honest", 0.7), Agent("told", 0.6, leak=0.9))),
    (2, (Agent("old-0", 0.6), Agent("later", 0.65), Agent("told", 0.6, leak=0.9))),
)


def plan_of(**given: object):
    made = {"pre_exposure": [a.name for a in OLD], "frozen": ["old-0"], "looks": 2,
            "permutations": 1999, "outcomes": COUNTED} | given  # fmt: skip
    return standard_plan(STRATA, 24, **made)  # type: ignore[arg-type] # a test's shorthand


@pytest.fixture(scope="module")
def rows() -> list[ResultRow]:
    return simulate(WAVES, draw=8)


@pytest.fixture(scope="module")
def analysis(rows):
    return analyse(plan_of(), make_table(rows), REGISTRATION)


def test_each_wave_with_a_model_that_is_no_control_is_a_look(analysis):
    looks = analysis.standard.looks
    assert [(look.number, look.wave, look.beyond) for look in looks] == [
        (1, 1, False), (2, 2, False),
    ]  # fmt: skip
    assert {(v.wave, v.model) for v in analysis.verdicts} == {
        (1, "honest"), (1, "told"), (2, "later"), (2, "told"),
    }  # fmt: skip
    assert all(look.alpha == 0.0125 for look in looks)


def test_who_was_told_is_found_and_the_others_are_not(analysis):
    words = {v.model: v.verdict for v in analysis.verdicts}
    assert words["told"] == "contaminated"
    assert "contaminated" not in (words["honest"], words["later"])


def test_scores_are_calibrated_by_the_models_of_before_publication(rows):
    """The tested gap is the model's own less that of the control models' mean: slope 1."""
    analysis = analyse(plan_of(frozen=[], sensitivity=[]), make_table(rows), REGISTRATION)
    assert [look.covered for look in analysis.standard.looks] == [1.0, 1.0]
    means = make_seed_means(make_table(rows), ("score",), STRATA)
    for look in analysis.standard.looks:
        assert look.control_models == tuple(a.name for a in OLD)
        assert not look.changed
        own = [
            place for place, column in enumerate(means.columns)
            if column.model.startswith("old") and column.wave <= look.wave
        ]  # fmt: skip
        theirs = estimate_gap(means.values[:, own, 0].mean(axis=1), means.stratum, means.public).gap
        for result in look.results:
            assert result.verdict.estimate == pytest.approx(result.unadjusted.gap - theirs)


def test_a_look_without_a_control_run_is_not_calibrated_and_claims_nothing(rows):
    bare = [r for r in rows if not r.model.startswith("old")]
    plan = plan_of(sensitivity=["unadjusted", "fitted-slope"])
    found = analyse(plan, make_table(bare), REGISTRATION).standard
    assert [(look.covered, look.control_models) for look in found.looks] == [(0.0, ())] * 2
    for look in found.looks:
        for result in look.results:
            assert result.outcomes[0].rho2 == 0
            assert result.verdict.estimate == pytest.approx(result.unadjusted.gap)
            assert result.verdict.verdict == "inconclusive"
            assert result.verdict.note.startswith(
                "not calibrated: control models have scores that differ on none"
            )
    assert min(v.p_adjusted for v in found.verdicts) < 0.001, "whatever the test says"
    assert {c.state for c in found.controls if c.kind == "C1"} == {"not run"}
    assert "fitted-slope" not in {row.analysis for row in found.sensitivity}
    two = plainly([r for r in rows if not r.model.startswith("old") or r.wave == 2]).standard.looks
    assert [look.control_models for look in two] == [(), ("old-0",)], "not by runs yet to come"
    assert {r.verdict.verdict for r in two[0].results} == {"inconclusive"}
    assert "contaminated" in {r.verdict.verdict for r in two[1].results}


def plainly(rows: Sequence[ResultRow]) -> Analysis:
    """What the plan says, without the sensitivity analyses beside it."""
    return analyse(plan_of(sensitivity=[]), make_table(rows), REGISTRATION)


def shifted(
    rows: Sequence[ResultRow], by: float, where: Callable[[ResultRow], bool]
) -> list[ResultRow]:
    """The rows with a shift of the public arm where it holds."""
    return [
        replace(r, score=min(1.0, r.score + by), passed=min(10, r.passed + round(10 * by)))
        if r.arm == Arm.PUBLIC and where(r) else r
        for r in rows
    ]  # fmt: skip


PLAIN = (
    (0, tuple(Agent(f"old-{n}", 0.4) for n in range(4))),
    (1, (Agent("old-0", 0.4), Agent("honest", 0.45), Agent("other", 0.4))),
    (2, (Agent("old-0", 0.4), Agent("later", 0.4), Agent("told", 0.4, leak=0.9))),
)


@pytest.fixture(scope="module")
def many() -> list[ResultRow]:
    """Four runs of each model on an instance: of the frozen one as many as may calibrate a look."""
    return simulate(PLAIN, replicates=4)


def look_words(rows: Sequence[ResultRow]) -> dict[str, str]:
    found = plainly(rows)
    return {v.model: v.verdict for v in found.verdicts}


def test_a_fault_that_all_models_share_makes_no_claim_and_a_leak_in_one_does(many):
    """Ten points in one arm of every model, the controls with them, move nothing that is tested;
    the same in one model is found."""
    before = plainly(many)
    found = plainly(shifted(many, 0.1, lambda r: True))
    words = {v.model: v.verdict for v in found.verdicts}
    assert "contaminated" not in {words["honest"], words["other"], words["later"]}
    assert words["told"] == "contaminated", "and it hides no leak of another size"
    for then, now in zip(before.verdicts, found.verdicts, strict=True):
        if then.model != "told":  # of which most are at the top of the scale
            assert now.estimate == pytest.approx(then.estimate, abs=0.002)
    first = found.standard.controls[0]
    assert (first.kind, first.state) == ("C1", "disagrees"), "it is reported"
    assert first.gap == pytest.approx(0.1, abs=0.03)
    plain = next(r for r in found.standard.looks[0].results if r.model == "honest")
    assert plain.p_unadjusted < 0.01, "scores as they are would have been a false alarm"
    alone = look_words(shifted(many, 0.1, lambda r: r.model == "honest"))
    assert [name for name, word in alone.items() if word == "contaminated"] == ["honest", "told"]


def test_a_fault_of_one_look_alone_is_seen_and_calibrated_by_its_frozen_runs(many):
    found = plainly(shifted(many, 0.2, lambda r: r.wave == 2))
    one, two = found.standard.looks
    assert (one.changed, two.changed) == (False, True)
    assert one.control_models == tuple(a.name for a in OLD)
    assert two.control_models == ("old-0",)
    assert {v.model: v.verdict for v in found.verdicts if v.wave == 2} == {
        "later": "inconclusive", "told": "contaminated",
    }  # fmt: skip
    clean = plainly(many)
    assert found.verdicts[:2] == clean.verdicts[:2], "an earlier look stands"
    assert not any(look.changed for look in clean.standard.looks)
    later = next(r for r in two.results if r.model == "later")
    assert later.p_unadjusted < 0.001 < 0.05 < later.verdict.p
    early, late = (c for c in found.standard.controls if c.what == FROZEN_CHANGE)
    assert (early.wave, early.state != "disagrees") == (1, True)
    assert (late.wave, late.state, late.models) == (2, "disagrees", ("old-0",))
    assert late.gap == pytest.approx(0.2, abs=0.05)
    assert late.p < 0.01


def test_runs_with_a_fault_of_their_look_calibrate_no_later_one(many):
    faulty = shifted(many, 0.2, lambda r: r.wave == 1)
    found, clean = (
        plainly(rows).standard
        for rows in (faulty, [r for r in many if (r.wave, r.model) != (1, "old-0")])
    )
    assert [look.changed for look in found.looks] == [True, False]
    late, expected = (result.looks[1].results for result in (found, clean))
    assert [r.verdict for r in late] == [r.verdict for r in expected]


def test_the_smallest_fault_that_a_looks_frozen_runs_would_show_is_told(rows, many):
    """2.8 standard errors of the change: power of 80 % at the two-sided level of 5 %. More runs
    show smaller ones."""
    sizes = []
    for held in (rows, many):
        found = plainly(held).standard
        means = make_seed_means(make_table(held), ("score",), STRATA)
        (then,), (now,) = (means.where(wave, ["old-0"]) for wave in (0, 1))
        change = means.values[:, now, 0] - means.values[:, then, 0]
        control = next(c for c in found.controls if c.what == FROZEN_CHANGE)
        gap = estimate_gap(change, means.stratum, means.public)
        assert control.gap == pytest.approx(gap.gap)
        assert control.detectable == pytest.approx(2.8016 * gap.se)
        told = f"A fault of this look alone would be seen from {100 * control.detectable:.1f}"
        assert told in control.says
        sizes.append(control.detectable)
    assert sizes[1] < 0.7 * sizes[0]


def test_a_look_whose_harness_changed_is_inconclusive_with_fewer_than_four_frozen_runs(many):
    faulty = shifted(many, 0.2, lambda r: r.wave == 2)
    few = [r for r in faulty if r.model != "old-0" or r.replicate < 3]
    one, two = plainly(few).standard.looks
    assert (one.changed, two.changed) == (False, True)
    for result in two.results:
        assert result.verdict.verdict == "inconclusive"
        assert result.verdict.note.startswith("the harness changed: ")
        assert "3 of their runs an instance are too few to calibrate by" in result.verdict.note
    assert next(r for r in two.results if r.model == "told").verdict.p_adjusted < 0.001
    assert "harness" not in one.results[0].verdict.note
    again = [replace(r, model="old-1") for r in few if r.model == "old-0" and r.wave and
             r.replicate == 0]  # fmt: skip
    plan = plan_of(frozen=["old-0", "old-1"], sensitivity=[])
    pair = analyse(plan, make_table([*few, *again]), REGISTRATION).standard.looks[1]
    assert (pair.changed, pair.control_models) == (True, ("old-0", "old-1"))
    assert {r.model: r.verdict.verdict for r in pair.results}["told"] == "contaminated", (
        "four runs of two models are as good as four of one"
    )


def test_a_frozen_model_has_a_baseline_of_its_own(many):
    """It need not be one of before the publication that calibrate; and the look at which it first
    ran cannot differ from itself."""
    plan = plan_of(pre_exposure=["old-1", "old-2", "old-3"], sensitivity=[])
    faulty = shifted(many, 0.2, lambda r: r.wave == 2)
    found = analyse(plan, make_table(faulty), REGISTRATION).standard
    changes = [c for c in found.controls if c.what == FROZEN_CHANGE]
    assert [c.state == "disagrees" for c in changes] == [False, True]
    assert found.looks[0].control_models == ("old-1", "old-2", "old-3")
    assert found.looks[1].control_models == ("old-0",)
    fresh = [r for r in faulty if r.model != "old-0" or r.wave > 0]
    found = analyse(plan, make_table(fresh), REGISTRATION).standard
    changes = [c for c in found.controls if c.what == FROZEN_CHANGE]
    assert [c.state for c in changes] == ["not run", "disagrees"]
    assert "no frozen model has an earlier run" in changes[0].says.lower()


def without_frozen(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """The rows of a study whose frozen model is no longer served at wave 2: every run is lost."""
    return lose(rows, lambda r: (r.wave, r.model) == (2, "old-0"))


def test_a_retired_frozen_model_is_replaced_by_the_next_control_that_ran(many):
    """At that look alone, in the plan's order, and it calibrates as well."""
    faulty = shifted(many, 0.2, lambda r: r.wave == 2)
    runs = [r for r in faulty if (r.wave, r.model) == (2, "old-0")]
    others = [replace(r, model=name) for name in ("old-3", "old-2") for r in runs]
    found = plainly([*without_frozen(faulty), *others])
    one, two = found.standard.looks
    assert (one.change.models, two.change.models) == (("old-0",), ("old-2", "old-0"))
    assert two.change.says.startswith("old-0: promised and not run; old-2 instead. old-2: ")
    assert (one.changed, two.changed, two.control_models) == (False, True, ("old-2",))
    words = {v.model: v.verdict for v in found.verdicts if v.wave == 2}
    assert (words["told"], words["later"] == "contaminated") == ("contaminated", False)
    before = plainly(many)
    assert found.verdicts[:2] == before.verdicts[:2], "the look at which it ran stands"


def test_a_look_without_any_frozen_model_or_replacement_is_inconclusive(many):
    one, two = plainly(without_frozen(many)).standard.looks
    assert one.doubt == ""
    assert two.change.says == "old-0: promised and not run."
    assert {(r.verdict.verdict, r.verdict.note) for r in two.results} == {
        ("inconclusive", "no frozen model has runs that differ: a fault of this look alone would "
         "not be seen"),
    }  # fmt: skip
    assert min(r.verdict.p_adjusted for r in two.results) < 0.001, "whatever the test says"
    bare = analyse(
        plan_of(frozen=[], sensitivity=[]), make_table(without_frozen(many)), REGISTRATION
    )
    assert "contaminated" in {v.verdict for v in bare.verdicts if v.wave == 2}, "none was promised"


def test_a_frozen_model_that_answers_alike_has_not_changed(rows):
    found = plainly(passing(rows)).standard
    changes = [c for c in found.controls if c.what == FROZEN_CHANGE]
    assert [(c.state, c.p, c.detectable) for c in changes] == [("agrees", 1.0, None)] * 2


def test_the_controls_are_run_at_their_waves(analysis):
    assert [(c.kind, c.wave) for c in analysis.standard.controls] == [
        ("C1", 0),
        ("C1", 1),
        ("C3", 1),
        ("C1", 2),
        ("C3", 2),
    ]
    exact = analysis.standard.controls[2]
    assert (exact.what, exact.state) == ("graded exactly", "agrees")
    assert analysis.standard.controls[0].models == tuple(a.name for a in OLD)


def passing(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """Controls without any gap: each instance's score by them is the stratum's 0.6 or 0.7."""
    seen: dict[tuple[object, ...], int] = {}
    made = []
    for r in rows:
        if r.model.startswith("old"):
            key = (r.wave, r.model, r.stratum, r.arm)
            seen[key] = seen.get(key, 0) + 1
            made.append(replace(r, score=0.6 + 0.1 * (seen[key] % 2), passed=6 + seen[key] % 2))
        else:
            made.append(r)
    return made


def test_a_negative_control_that_disagrees_withholds_nothing(rows):
    """It calibrates: its gap is reported, and taken off."""
    early = shifted(passing(rows), 0.2, lambda r: r.wave == 0)
    found = plainly(early)
    control = found.standard.controls[0]
    assert (control.kind, control.what, control.state) == ("C1", RELEASED_BEFORE, "disagrees")
    assert "the arms differ by +20.0 points" in control.says
    assert "withheld" not in {v.verdict for v in found.verdicts}
    for wave in (1, 2):
        assert not bears_on(control, wave, "told")
    assert not bears_on(replace(control, wave=1), 1, "told")


def test_static_criteria_are_a_negative_control_where_rows_have_them(rows, analysis):
    """Knowing an instance cannot help with what all instances share. Reported, and no veto."""

    def found(static: Callable[[int, ResultRow], float | None]):
        made = [replace(r, score_static=static(place, r)) for place, r in enumerate(rows)]
        result = plainly(made)
        return result, [c for c in result.standard.controls if c.what == STATIC_CRITERIA]

    assert not [c for c in analysis.standard.controls if c.what == STATIC_CRITERIA]
    first = STRATA[0]
    chance = random.Random(3)
    noise = [chance.random() for _ in rows]
    some, (one, two) = found(lambda place, r: noise[place] if r.stratum == first else None)
    assert (one.kind, one.wave, one.models) == ("C1", 1, ("honest", "told"))
    assert (two.wave, one.state) == (2, "uninformative")
    assert "too few instances to tell" in one.says
    _, (alike, _) = found(lambda place, r: 1.0)
    assert (alike.state, alike.gap) == ("agrees", 0)
    faulty, (broken, _) = found(lambda place, r: noise[place] / 2 + 0.3 * (r.arm == "public"))
    assert broken.state == "disagrees"
    assert broken.says.endswith("Something else than the answers differs between the arms.")
    assert "(p ≤ 0.0005)" in broken.says
    assert not bears_on(broken, 1, "told")
    assert faulty.verdicts == some.verdicts


def test_a_positive_control_that_is_not_found_withholds_verdicts(rows):
    sound = passing(rows)
    blunt = [replace(r, score=0.5, passed=5) if r.model == "told" else r for r in sound]
    plan = plan_of(spiked=["told"])
    told = analyse(plan, make_table(sound), REGISTRATION).standard
    assert {c.state for c in told.controls} == {"agrees"}
    found = analyse(plan, make_table(blunt), REGISTRATION)
    assert {v.model for v in found.verdicts} == {"honest", "later"}
    assert {v.verdict for v in found.verdicts} == {"withheld"}
    assert "C2" in found.verdicts[0].note


def silent(rows: Sequence[ResultRow], *models: str) -> list[ResultRow]:
    """The same, of which some models answer nothing."""
    return [replace(r, score=0.0, passed=0) if r.model in models else r for r in rows]


def test_a_model_that_answers_nothing_is_no_control_and_gets_no_verdict(rows):
    found = analyse(plan_of(sensitivity=[]), make_table(silent(rows, "old-0")), REGISTRATION)
    assert [look.control_models for look in found.standard.looks] == [
        ("old-1", "old-2", "old-3")
    ] * 2
    first, frozen, *_ = found.standard.controls
    assert first.says.startswith("old-0: no information, since its scores are alike. old-1, old-2,")
    assert frozen.says == "old-0: no information, since its scores are alike."
    bare = analyse(
        basic_plan(STRATA, 24, outcomes=COUNTED, looks=3, permutations=1999),
        make_table(silent(rows, "told")), REGISTRATION,
    )  # fmt: skip
    for verdict in (v for v in bare.verdicts if v.model == "told"):
        assert (verdict.verdict, verdict.estimate) == ("inconclusive", None)
        assert verdict.note.startswith("no information: 0 scores of the model differ")


def test_a_control_that_is_named_and_was_not_run_is_told_and_only_a_positive_one_withholds(rows):
    sound = passing(rows)
    early = plainly([r for r in sound if r.model != "old-3"])
    control = early.standard.controls[0]
    assert (control.kind, control.state, control.p) == ("C1", "agrees", 1.0)
    assert control.says.startswith("old-3: promised and not run. old-0, old-1, old-2: no gap")
    assert control.models == tuple(a.name for a in OLD)
    assert early.standard.looks[0].control_models == ("old-0", "old-1", "old-2")
    assert "withheld" not in {v.verdict for v in early.verdicts}
    plan = plan_of(frozen=["old-0", "old-1"], sensitivity=[])
    late = analyse(plan, make_table(sound), REGISTRATION)
    frozen = next(c for c in late.standard.controls if c.what == FROZEN_CHANGE)
    assert frozen.state == "agrees"
    assert frozen.says.startswith("old-1: promised and not run. old-0: no change by arm since")
    plan = plan_of(spiked=["told", "other"], sensitivity=[])
    spiked = analyse(plan, make_table(sound), REGISTRATION)
    told, other = (c for c in spiked.standard.controls if c.kind == "C2" and c.wave == 1)
    assert (told.state, other.state, other.models) == ("agrees", "disagrees", ("other",))
    assert {v.verdict for v in spiked.verdicts} == {"withheld"}


def test_later_runs_of_the_negative_controls_leave_the_first_one_as_it_was(rows):
    """Where no wave comes before the first look, its own is the baseline."""
    shifted = [replace(r, wave=1) if r.wave == 0 and r.model != "old-0" else r for r in rows]
    shifted = [r for r in shifted if r.wave > 0]
    again = [replace(r, wave=2) for r in shifted if r.wave == 1 and r.model in ("old-1", "old-2")]
    one = analyse(plan_of(), make_table(shifted), REGISTRATION).standard.controls[0]
    two = analyse(plan_of(), make_table([*shifted, *again]), REGISTRATION).standard.controls[0]
    assert one == two
    assert one.models == tuple(a.name for a in OLD)


def test_a_second_grader_that_disagrees_withholds_that_models_verdict(rows):
    sound = passing(rows)
    judged = [replace(r, grader="judge") for r in sound]
    plan = plan_of(second_grader="judge")
    agree = analyse(plan, make_table([*sound, *judged]), REGISTRATION)
    assert {c.state for c in agree.standard.controls} == {"agrees"}
    other = [replace(r, score=0.5, passed=5) if r.model == "told" else r for r in judged]
    found = analyse(plan, make_table([*sound, *other]), REGISTRATION)
    words = {v.model: v.verdict for v in found.verdicts}
    assert words["told"] == "withheld"
    assert words["honest"] != "withheld"


def test_a_second_grader_agrees_if_its_interval_overlaps(analysis):
    """Another verdict is no disagreement, and another gap is."""
    first = analysis.standard.looks[0].results
    named = next(r for r in first if r.model == "told")
    low, high = named.verdict.interval

    def judged(shift):
        gaps = tuple(
            replace(g, gap=g.gap + shift, interval=(g.interval[0] + shift, g.interval[1] + shift))
            for g in named.outcomes
        )
        other = replace(named.verdict, verdict="inconclusive", p_adjusted=0.4)
        second = [replace(named, verdict=other, outcomes=gaps)]
        (control,) = second_opinion(1, "judge", [named], second)
        return control

    near, far = judged(-0.9 * (high - low)), judged(-1.1 * (high - low))
    assert (near.state, far.state) == ("agrees", "disagrees")
    assert "which overlaps" in near.says
    assert "which does not overlap" in far.says
    (absent,) = second_opinion(1, "judge", [named], [])
    assert (absent.state, absent.says) == ("disagrees", "judge has not graded told.")


def test_a_claim_that_hangs_on_missing_runs_is_not_made(rows):
    """Most of the private runs of the model that was told are lost: with those at 1 there is no
    gap left, and it is called inconclusive."""
    sound = passing(rows)
    lost = lose(
        sound, lambda r: r.model == "told" and r.arm == Arm.PRIVATE and int(r.instance[-1], 16) < 12
    )
    found = analyse(plan_of(), make_table(lost), REGISTRATION)
    told = next(t for t in found.standard.looks[0].results if t.verdict.model == "told")
    assert told.missing.share_private > 0.5 > told.missing.share_public
    assert told.missing.p < 0.05
    assert told.missing.tipping.decision == "contaminated"
    assert 0 < told.missing.tipping.share < 1
    lost_runs = told.missing.public + told.missing.private
    assert told.missing.tipping.runs == math.ceil(told.missing.tipping.share * lost_runs)
    first, *_, last = told.missing.tipping.curve
    assert (first.gap, first.p) == (told.missing.blind_gap, told.missing.blind_p)
    assert first.p <= 0.0125 < last.p
    assert told.verdict.verdict == "inconclusive"
    assert told.verdict.note.startswith("contaminated, if missing runs resemble the others; ")
    honest = next(t for t in found.standard.looks[0].results if t.verdict.model == "honest")
    assert (honest.missing.public, honest.missing.tipping) == (0, None)


def test_a_claim_that_hangs_on_missing_runs_of_the_control_models_is_not_made(many):
    """Of the control models the best public and the worst private runs are lost: calibrated by the
    others a clean model seems inflated."""
    lost = lose(
        many, lambda r: r.wave == 0 and (r.score >= 0.5 if r.arm == Arm.PUBLIC else r.score <= 0.3)
    )
    plan = plan_of(frozen=[], sensitivity=[])
    found = analyse(plan, make_table(lost), REGISTRATION).standard.looks[0]
    runs = sum(r.status == Status.MISSING for r in lost)
    for result in found.results:
        assert result.verdict.p_adjusted <= 0.0125
        assert result.verdict.verdict == "inconclusive"
        assert result.verdict.note == (
            f"contaminated, if missing runs of the control models ({runs}) resemble the others"
        )
    few = lose(many, lambda r: r.wave == 0 and r.replicate == 0 and int(r.instance[-2:], 16) < 8)
    assert look_words(few)["told"] == "contaminated"


def test_that_there_is_no_inflation_is_not_said_where_missing_runs_could_hide_one(rows):
    """Most of the public runs of a clean model are lost: were those right, it would be inflated."""

    def honest(count: int):
        sound = passing(rows)
        public = [r for r in sound if r.model == "honest" and r.arm == Arm.PUBLIC]
        own = [r for place, r in enumerate(public) if place % 24 < count]  # of each stratum
        lost = lose(sound, lambda r: r in own)
        found = analyse(plan_of(margin=0.2), make_table(lost), REGISTRATION).standard.looks[0]
        return next(t for t in found.results if t.verdict.model == "honest")

    few, many = honest(1), honest(16)
    assert few.missing.tipping is None or few.missing.tipping.share is None
    assert few.verdict.verdict == NO_INFLATION
    assert many.verdict.deciding_bound < 0.2
    assert 0 < many.missing.tipping.share < 1
    assert many.verdict.verdict == "inconclusive"
    assert many.verdict.note.startswith(f"{NO_INFLATION}, if missing runs resemble")


def test_what_the_plan_excludes_is_left_out_and_told(rows):
    changed = [
        replace(r, served_version=f"v{i % 2}") if r.model == "honest" else r
        for i, r in enumerate(rows)
    ]
    found = analyse(plan_of(exclusions=["version-changed"]), make_table(changed), REGISTRATION)
    assert found.standard.looks[0].excluded == (
        ("honest", "a model that was served in several versions within a look"),
    )
    assert "honest" not in {v.model for v in found.verdicts}


def test_a_look_of_which_all_is_excluded_stands_without_verdicts(rows):
    changed = [
        replace(r, served_version=f"v{i % 2}") if r.wave == 1 and r.model != "old-0" else r
        for i, r in enumerate(rows)
    ]
    found = analyse(plan_of(exclusions=["version-changed"]), make_table(changed), REGISTRATION)
    assert [len(look.results) for look in found.standard.looks] == [0, 2]


def test_every_sensitivity_analysis_is_there_and_decides_nothing(rows, analysis):
    named = {row.analysis for row in analysis.standard.sensitivity}
    # These rows have no scores of parts; rates of false discovery are always told.
    assert named == set(SENSITIVITY) - {"dimensions", "key-static"} | {"false-discovery"}
    assert {a.wave for a in analysis.standard.sensitivity if a.analysis == "gee"} == {2}
    none = plainly(rows)
    assert {row.analysis for row in none.standard.sensitivity} == {"false-discovery"}
    assert none.verdicts == analysis.verdicts
    dims = [replace(r, score_sr=r.score, score_dh=0.5) for r in rows]
    found = analyse(plan_of(sensitivity=["dimensions"]), make_table(dims), REGISTRATION)
    told = {a.detail: a for a in found.standard.sensitivity if a.model == "told" and a.wave == 1}
    assert told["scientific reasoning"].p_adjusted < 0.01
    assert told["data handling"].estimate == pytest.approx(0)


def test_the_slope_is_fitted_beside_the_test(rows):
    """The old adjustment: shown, and without protection from a fault that all share."""
    plan = plan_of(frozen=[], sensitivity=["fitted-slope"])
    analysis = analyse(plan, make_table(rows), REGISTRATION)
    means = make_seed_means(make_table(rows), ("score", "fraction"), STRATA)
    own = [p for p, c in enumerate(means.columns) if c.model.startswith("old") and c.wave < 2]
    (place,) = means.where(1, ["told"])
    x = means.values[:, own].mean(axis=1)
    fitted = fit_slope(means.values[:, [place]], x, means.stratum)
    gap = estimate_gap(fitted.residuals[:, 0, 0], means.stratum, means.public)
    told = {(a.wave, a.model): a for a in analysis.standard.sensitivity
            if a.analysis == "fitted-slope"}  # fmt: skip
    assert told.keys() == {(1, "honest"), (1, "told"), (2, "later"), (2, "told")}
    row = told[1, "told"]
    assert row.estimate == pytest.approx(gap.gap)
    assert row.interval == pytest.approx(gap.interval)
    assert row.detail == f"slope {fitted.beta[0, 0]:.2f}"
    assert row.p <= row.p_adjusted < 0.01
    verdict = next(v for v in analysis.verdicts if (v.wave, v.model) == (1, "told"))
    assert verdict.estimate != pytest.approx(row.estimate)


def test_what_needs_the_key_is_held_against_what_no_leak_can_help_with(rows):
    """Only instances with criteria of both kinds count, so that the three gaps add up."""

    def parts(row, place):
        static = None if place % 5 == 0 else 0.5 + 0.1 * (place % 3)
        return replace(row, score_key=row.score, score_static=static)

    held = [parts(row, place) for place, row in enumerate(rows)]
    plan = plan_of(sensitivity=["key-static"])
    found = analyse(plan, make_table(held), REGISTRATION).standard.sensitivity
    own = {a.detail: a for a in found if (a.model, a.wave, a.analysis) == ("told", 1, "key-static")}
    key, static, excess = own.values()
    assert [*own] == ["answer key", "static", "answer key minus static"]
    assert key.p < 0.01 < 0.05 < static.p
    assert excess.p < 0.01
    assert excess.estimate == pytest.approx(key.estimate - static.estimate)
    assert excess.interval[0] > 0
    assert static.note.startswith("two-sided p: a negative control")
    assert "something else" not in static.note
    broken = [replace(r, score_static=float(r.arm == "public")) if r.model == "told" else r
              for r in held]  # fmt: skip
    found = analyse(plan, make_table(broken), REGISTRATION).standard.sensitivity
    notes = {a.model: a.note for a in found if a.detail == "static" and a.wave == 1}
    assert notes["told"].endswith("something else that differs between the arms")
    alike = [replace(r, score_static=1.0) for r in held]
    found = analyse(plan, make_table(alike), REGISTRATION).standard.sensitivity
    static = next(a for a in found if a.detail == "static")
    assert (static.estimate, static.interval, static.p) == (0, None, 1)
    assert "something else" not in notes["honest"]


def test_the_study_is_monitored_over_its_looks(rows, analysis):
    found = analysis.standard.monitored
    assert [(look.wave, look.models) for look in found.looks] == [
        (1, ("honest", "told")), (2, ("later", "told")),
    ]  # fmt: skip
    assert [look.spent for look in found.looks] == [0.0125, 0.025]
    assert found.rejected_at == 1
    assert found.window == (1, 1)
    clean = [r for r in rows if r.model != "told"]
    quiet = analyse(plan_of(), make_table(clean), REGISTRATION).standard.monitored
    assert quiet.rejected_at is None


def test_the_study_claims_nothing_that_hangs_on_missing_runs(rows, many):
    lost = lose(
        [r for r in many if r.model != "told"],
        lambda r: (
            r.wave
            and r.model in ("honest", "other", "later")
            and (r.score <= 0.3 if r.arm == Arm.PUBLIC else r.score >= 0.5)
        ),
    )
    found = plainly(lost).standard.monitored
    assert found.looks[0].share < 0.001, "as it is the study would reject"
    assert (found.rejected_at, found.window) == (None, None)
    assert not any(look.crossed for look in found.looks)
    assert found.note == "If missing runs resemble the others, they do from wave 1 on."
    kept = plainly(lose(rows, lambda r: int(r.instance[-2:], 16) < 8)).standard.monitored
    assert (kept.rejected_at, kept.note) == (1, "")


def test_an_early_look_says_the_same_after_a_later_one(rows, analysis):
    early = analyse(plan_of(), make_table([r for r in rows if r.wave < 2]), REGISTRATION)
    (one,), two = early.standard.monitored.looks, analysis.standard.monitored.looks[0]
    assert one.statistic == pytest.approx(two.statistic, abs=1e-9)  # summed in another order
    assert (one.share, one.crossed, one.onset) == (two.share, two.crossed, two.onset)
    assert early.verdicts == tuple(v for v in analysis.verdicts if v.wave == 1)


def test_an_early_look_says_the_same_after_instances_that_only_a_later_one_has(rows):
    """The places of the first look's instances among all change; the draws must not."""
    later = [r for r in rows if r.wave == 2 or int(r.instance[-2:], 16) % 3]
    whole = analyse(plan_of(), make_table(later), REGISTRATION).standard
    early = analyse(plan_of(), make_table([r for r in later if r.wave < 2]), REGISTRATION).standard
    one, two = early.monitored.looks[0], whole.monitored.looks[0]
    assert (one.share, one.crossed) == (two.share, two.crossed)
    assert one.statistic == pytest.approx(two.statistic, abs=1e-9)
    assert one.threshold == pytest.approx(two.threshold, abs=1e-9)


def lost_at(rows: Sequence[ResultRow], wave: int, arm: Arm | None) -> list[ResultRow]:
    """All runs of the first stratum, or of the whole wave, lost."""
    return lose(
        rows,
        lambda r: r.wave == wave and (arm is None or (r.stratum == STRATA[0] and r.arm == arm)),
    )


def test_what_monitoring_said_stands_when_a_later_look_loses_an_arm(rows, analysis):
    found = analyse(plan_of(), make_table(lost_at(rows, 2, Arm.PRIVATE)), REGISTRATION).standard
    (one,), two = found.monitored.looks, analysis.standard.monitored.looks[0]
    assert one.statistic == pytest.approx(two.statistic, abs=1e-9)  # summed in another order
    assert (one.wave, one.crossed, one.onset) == (two.wave, two.crossed, two.onset)
    assert found.monitored.rejected_at == 1
    assert found.monitored.note == (
        f"It ends before wave 2: an arm of {STRATA[0]} has no score there."
    )
    assert monitored_words(found.monitored).endswith(found.monitored.note)


def test_a_look_without_a_score_is_passed_over(rows):
    third = [replace(r, wave=3) for r in rows if r.wave == 2]
    table = make_table([*lost_at(rows, 1, None), *third])
    found = analyse(plan_of(), table, REGISTRATION).standard.monitored
    assert [look.wave for look in found.looks] == [2]  # wave 3 is a look beyond the two registered
    assert found.note == ""


def test_a_control_that_came_after_the_publication_is_refused(rows):
    plan = plan_of(released=[("old-1", "2026-05-01")])
    table = make_table(rows)
    analyse(plan, table, REGISTRATION, history=WaveHistory(date(2026, 6, 1)))
    with pytest.raises(AnalysisError, match="'old-1' was released on 2026-05-01, and the public"):
        analyse(plan, table, REGISTRATION, history=WaveHistory(date(2026, 4, 1)))
    late = plan_of(frozen=["honest"], released=[("honest", "2026-05-01")])
    with pytest.raises(AnalysisError, match="plan: frozen: 'honest' was released on 2026-05-01"):
        analyse(late, table, REGISTRATION, history=WaveHistory(date(2026, 4, 1)))


def test_looks_beyond_the_registered_ones_are_exploratory(rows):
    found = analyse(plan_of(looks=1), make_table(rows), REGISTRATION)
    assert {v.wave: v.exploratory for v in found.verdicts} == {1: False, 2: True}


def test_the_order_of_the_rows_changes_nothing(rows, analysis):
    again = analyse(plan_of(), make_table(rows[::-1]), REGISTRATION)
    assert again.verdicts == analysis.verdicts
    assert again.standard.controls == analysis.standard.controls
