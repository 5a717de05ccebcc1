"""The fields of an OSF preregistration are filled from the registered plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analysis.plan.describe import describe_plan
from analysis.plan.presets import basic_plan, standard_plan
from analysis.report.registration import fill_form, registration_json
from registry.ledger.draw_records import SealedSet, Underpowered
from registry.ledger.records import JudgeRule, Plan, Preregistration, Provenance, record_digest
from tests.cases import cases

STRATA = ("count_circles/easy", "compute_average/hard")
BASIC = basic_plan(STRATA, 24, looks=2)
STANDARD = standard_plan(STRATA, 64, looks=8, pre_exposure=("old-1", "old-2"), spiked=("reader",))
# Version 3 of the form; title and description are asked of every registration.
FORM = cases(__file__, "form")


def record_of(plan: Plan) -> Preregistration:
    pins = Provenance("c0ffee", False, "sha256:1", "sha256:2", "3.11.7", (("numpy", "2.0"),))
    tasks = tuple(stratum.replace("/", "@1/") for stratum in plan.strata)
    return Preregistration("pilot", plan, "ab12", pins, tasks)


def sealed_of(plan: Plan, reserve: tuple[int, ...] = ()) -> SealedSet:
    return SealedSet(
        plan.strata,
        plan.seeds_per_arm,
        4,
        ("hmac-1", "hmac-2"),
        "ab12",
        "sha256:3",
        "sealed/3.age",
        ("age1",),
        "operating system",
        "5eed",
        reserve,
    )


def form(plan: Plan, description: str = "Whether it leaks.") -> dict[str, dict[str, str]]:
    fields = fill_form(record_of(plan), sealed_of(plan), description)
    return {field["name"]: field for field in fields}


@pytest.mark.parametrize("plan", [BASIC, STANDARD], ids=["basic-v1", "standard-v1"])
def test_every_field_of_the_form_is_filled_in_its_order(plan: Plan) -> None:
    fields = fill_form(record_of(plan), sealed_of(plan), "")
    asked = [(id, name) for id, names in FORM.items() for name in names]
    assert [(field["id"], field["name"]) for field in fields] == asked
    for field in fields:
        assert len(field["answer"]) > 20, field["name"]
        assert field["answer"][-1] in ".?" or field["name"] in ("Title", "Existing Data"), field[
            "answer"
        ]
        assert "  " not in field["answer"]


@pytest.mark.parametrize("plan", [BASIC, STANDARD], ids=["basic-v1", "standard-v1"])
def test_the_whole_plan_in_words_is_in_the_form(plan: Plan) -> None:
    rule = JudgeRule("haiku", "sha256:9", min_kappa=0.8)
    plan = replace(plan, judges=(rule,), exclusions=("version-changed",))
    answers = " ".join(field["answer"] for field in form(plan).values())
    for paragraph in describe_plan(plan).split("\n"):
        assert paragraph.partition(". ")[2].replace("None.", "") in answers, paragraph


def test_the_numbers_are_those_of_the_plan() -> None:
    fields = form(STANDARD)
    assert "128 instances an arm: 64 in each of 2 strata" in fields["Sample size"]["answer"]
    rationale = fields["Sample size rationale"]["answer"]
    assert "an inflation of 10.0 points in one model with a power of 80 %" in rationale
    assert "look 8" in fields["Stopping rule"]["answer"]
    assert "level of 0.003125" in fields["Stopping rule"]["answer"]
    assert "old-1, old-2" in fields["Statistical models"]["answer"]
    assert "ab12" in fields["Randomization"]["answer"]
    assert fields["Description"]["answer"] == "Whether it leaks."
    assert fields["Data exclusion"]["answer"].startswith("No model is left out.")
    assert "count_circles@1/easy" in fields["Data collection procedures"]["answer"]


def test_known_shortfalls_stand_in_the_rationale() -> None:
    record = replace(record_of(STANDARD), underpowered=Underpowered("a pilot", ("few seeds",)))
    fields = fill_form(record, sealed_of(STANDARD), "")
    rationale = next(field for field in fields if field["name"] == "Sample size rationale")
    assert rationale["answer"].endswith("Known shortfalls: few seeds.")


def test_a_reserve_is_named() -> None:
    fields = fill_form(record_of(BASIC), sealed_of(BASIC, (8, 8)), "")
    sample = next(field for field in fields if field["name"] == "Sample size")
    assert "2 reserve tranches" in sample["answer"]


def test_the_form_names_its_registration_and_no_seed() -> None:
    record, sealed = record_of(STANDARD), sealed_of(STANDARD)
    body = registration_json(record, sealed, "")
    assert body["registration"] == record_digest(record)
    assert (body["form"], body["version"], body["study"]) == ("OSF Preregistration", 3, "pilot")
    assert "5eed" not in str(body)
    assert "hmac-1" not in str(body["fields"])
