"""The canonical form of records: fields at their defaults are left out."""

from __future__ import annotations

from dataclasses import replace

from registry.ledger.records import (
    JudgeRule,
    Plan,
    Preregistration,
    Provenance,
    RunManifest,
    SealedSet,
    StandardRules,
    read_record,
    record_body,
    record_digest,
)

PLAN = Plan(
    "basic-v1", ("f/easy",), 3, 1, 2, 0.025, ("score",), 999, 1000, 0.05, "holm", "words", ()
)
MADE = Provenance("9f" * 20, False, "sha256:" + "ab" * 32, "none", "3.11", ())
REGISTERED = Preregistration("study", PLAN, "ee" * 32, MADE)
DIGEST = "sha256:62de40e0eb5c3b57e99d5c4d27b13f2de78d2122663090493f7a6363b69f50a5"
RULES = StandardRules(("old",), (), (), 2, 0.025, 0.05, 0.05, "", ("gee",), ("H1",))


def test_fields_of_a_plan_at_their_defaults_are_left_out() -> None:
    body = record_body(REGISTERED)
    assert set(body["plan"]) == {
        "name", "strata", "seeds_per_arm", "replicates", "looks", "alpha", "outcomes",
        "permutations", "enumerate_up_to", "margin", "multiplicity", "missing", "exclusions",
    }  # fmt: skip
    assert read_record(Preregistration, body, "here") == REGISTERED
    assert record_digest(REGISTERED) == DIGEST


def test_fields_of_a_draw_and_a_run_at_their_defaults_are_left_out() -> None:
    sealed = SealedSet(("f/easy",), 3, 6, (), "ee", "sha256:11", "u", ("age1",), "fixed", "00")
    assert "reserve" not in record_body(sealed)
    assert record_body(replace(sealed, reserve=(2, 2)))["reserve"] == (2, 2)
    run = RunManifest(
        "study", 0, "p", "ee", (), (), "local", "", (), "00", "age1", "runs/x/key.age", MADE, ()
    )
    assert not {"tranches", "retention", "prices"} & set(record_body(run))
    told = replace(run, tranches=((0, 1),), retention=(("m", "none"),))
    assert read_record(RunManifest, record_body(told), "here") == told
    assert "burned" not in record_body(replace(PLAN, standard=RULES))["standard"]


def test_other_values_are_read_back_and_change_the_digest() -> None:
    rule = JudgeRule("jury", "sha256:" + "cd" * 32, min_sensitivity=0.9)
    newer = replace(REGISTERED, plan=replace(PLAN, standard=RULES, judges=(rule,)))
    body = record_body(newer)
    assert set(body["plan"]["judges"][0]) == {"name", "pin", "min_sensitivity"}
    assert body["plan"]["standard"]["pre_exposure"] == ("old",)
    assert read_record(Preregistration, body, "here") == newer
    assert record_digest(newer) != record_digest(REGISTERED)
