"""A registered plan in the fields of an OSF preregistration, for a public registry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from analysis.plan.describe import describe_plan
from analysis.plan.presets import HYPOTHESES, look_alpha
from analysis.stats.intervals import counted, points
from registry.ledger.draw_records import SealedSet
from registry.ledger.records import Plan, Preregistration, record_digest

FORM = "OSF Preregistration"  # version 3 of the form, of the Center for Open Science


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of the form, with its answer."""

    id: str  # of the question in the form; "" for what the registry asks of every registration
    section: str
    name: str
    answer: str


def registration_json(
    record: Preregistration, sealed: SealedSet, description: str
) -> dict[str, Any]:
    """Return the answers to the form, in its order, from what the ledger holds in public."""
    return {
        "form": FORM,
        "version": 3,
        "study": record.study,
        "registration": record_digest(record),
        "fields": [
            {"id": field.id, "section": field.section, "name": field.name, "answer": field.answer}
            for field in fill_form(record, sealed, description)
        ],
    }


def fill_form(
    record: Preregistration, sealed: SealedSet, description: str
) -> tuple[FormField, ...]:
    """Return every field of the form in its order."""
    words = _paragraphs(record.plan)
    return (
        *_information(record, description, words),
        *_design(record.plan, sealed, words),
        *_sampling(record, sealed, words),
        *_variables(record.plan),
        *_analysis(record.plan, words),
        FormField("q23", "Other", "Other", _other(record, sealed, words)),
    )


def _paragraphs(plan: Plan) -> dict[str, str]:
    """The plan in words by heading, such as "Test"."""
    lines = (line.partition(". ") for line in describe_plan(plan).split("\n"))
    return {heading: text for heading, _, text in lines}


def _headed(words: dict[str, str], *headings: str) -> str:
    """The paragraphs of these headings that the plan has, with them."""
    return " ".join(f"{name}. {words[name]}" for name in headings if name in words)


def _information(
    record: Preregistration, description: str, words: dict[str, str]
) -> Iterator[FormField]:
    section = "Study Information"
    question = "Does publishing a benchmark raise the scores of language models on it?"
    yield FormField("", section, "Title", f"{record.study}: {question[0].lower()}{question[1:]}")
    yield FormField("", section, "Description", description or question)
    hypotheses = words.get("Hypotheses", f"{HYPOTHESES[0]} {HYPOTHESES[2]}")
    yield FormField("q2", section, "Hypotheses", f"Directional. {hypotheses}")


def _design(plan: Plan, sealed: SealedSet, words: dict[str, str]) -> Iterator[FormField]:
    section = "Design Plan"
    yield FormField(
        "q3",
        section,
        "Study type",
        "Experiment: task instances are allocated at random to publication or to secrecy.",
    )
    yield FormField(
        "q4",
        section,
        "Blinding",
        "Whatever interacts with the models under test is blind to the arm: an instance has no "
        "arm while it is run and graded.",
    )
    yield FormField(
        "q5",
        section,
        "Is there any additional blinding in this study?",
        "The arms are encrypted from the draw on and are joined to the scores only when the "
        "registered analysis is run.",
    )
    waves = "look" if plan.looks == 1 else "looks"
    yield FormField(
        "q6",
        section,
        "Study design",
        f"Two arms, public and private. {words['Design']} Models run in waves, before and after "
        f"the public arm is released; every model runs both arms of a wave. {plan.looks} {waves}, "
        "a wave each.",
    )
    yield FormField(
        "q7",
        section,
        "Randomization",
        f"Stratified, by stratum ({counted(len(plan.strata), 'stratum', 'strata')}). All seeds of "
        f"both arms come from one draw (entropy: {sealed.entropy}), and each arm gets the same "
        "number of instances of a stratum by a random allocation. The draw was sealed before this "
        f"registration: its commitments have the Merkle root {sealed.root}.",
    )


def _sampling(
    record: Preregistration, sealed: SealedSet, words: dict[str, str]
) -> Iterator[FormField]:
    section, plan = "Sampling Plan", record.plan
    arm = plan.seeds_per_arm * len(plan.strata)
    yield FormField("q8", section, "Existing Data", "Registration prior to creation of data")
    yield FormField(
        "q9",
        section,
        "Explanation of existing data",
        "None exist. The plan stands in a hash-chained ledger before the first manifest of a wave, "
        "and no instance runs without one.",
    )
    yield FormField(
        "q10",
        section,
        "Data collection procedures",
        f"Tasks: {', '.join(record.tasks)}. Each model of a wave runs on the same instances of "
        "both arms, in random order, each in a fresh sandbox. A manifest that names models, "
        "versions and settings is put into the ledger before a wave's first episode. Runs that "
        "infrastructure failed are owed again until the wave is closed. Grades follow the "
        "instance's own rubric.",
    )
    reserve = ""
    if sealed.reserve:
        count = counted(len(sealed.reserve), "reserve tranche")
        reserve = f" A further {count} of instances is drawn in the same way."
    yield FormField(
        "q11",
        section,
        "Sample size",
        f"{arm} instances an arm: {plan.seeds_per_arm} in each of "
        f"{counted(len(plan.strata), 'stratum', 'strata')}; {counted(plan.replicates, 'run')} of "
        f"each model on each.{reserve}",
    )
    yield FormField("q12", section, "Sample size rationale", _size_rationale(record, words))
    yield FormField(
        "q13",
        section,
        "Stopping rule",
        f"Data collection ends with look {plan.looks}. No wave is stopped in its middle. Each look "
        f"has a fixed level of {look_alpha(plan):.4g}, spent whatever the earlier looks found; "
        "later looks are exploratory.",
    )


def _size_rationale(record: Preregistration, words: dict[str, str]) -> str:
    """The reason for the number of instances."""
    known = record.underpowered
    target = f"an inflation of {points(record.plan.target_gap)} points in one model"
    shortfalls = "" if known is None else f" Known shortfalls: {'; '.join(known.shortfalls)}."
    if (unproved := record.unproved) is not None:
        shortfalls += f" Questions that are not proved: {'; '.join(unproved.questions)}."
    return (
        f"Fixed before the draw, to find {target} with a power of 80 % or more by simulation of "
        f"this plan with its {counted(record.plan.looks, 'look')} (`dosimeter power`). "
        f"{words.get('Power', '')}{shortfalls}"
    ).rstrip()


def _variables(plan: Plan) -> Iterator[FormField]:
    section = "Variables"
    yield FormField(
        "q14",
        section,
        "Manipulated variables",
        "Arm of an instance: public (released with its answer key) or private (kept secret).",
    )
    yield FormField(
        "q15",
        section,
        "Measured variables",
        f"Of each run, the outcomes {' and '.join(plan.outcomes)}, from 0 to 1, by grading its "
        "answer against the instance's rubric; whether the run is missing, and why.",
    )
    yield FormField(
        "q16",
        section,
        "Indices",
        "An instance's score for a model is the mean over its runs. The gap of a model is the "
        "mean public score minus the mean private score in each stratum, averaged over strata.",
    )


def _analysis(plan: Plan, words: dict[str, str]) -> Iterator[FormField]:
    section = "Analysis Plan"
    monitoring = f" {words['Study-level monitoring']}" if "Study-level monitoring" in words else ""
    controls = f" {words['Controls']}" if "Controls" in words else ""
    models = f"{words['Test']}{monitoring}{controls} {words['Markers']}"
    yield FormField("q17", section, "Statistical models", models)
    yield FormField(
        "q18",
        section,
        "Transformations",
        "None: outcomes lie between 0 and 1 and are analysed as they are"
        + (
            ", but for the use of the models from before the publication that stands under "
            "Statistical models."
            if plan.standard is not None
            else "."
        ),
    )
    yield FormField(
        "q19", section, "Inference criteria", f"{words['Error rates']} {words['Verdicts']}"
    )
    exclusions = words["Exclusions"].replace("None.", "No model is left out.")
    burned = _headed(words, "Burned instances")
    yield FormField("q20", section, "Data exclusion", f"{exclusions} {burned}".rstrip())
    yield FormField("q21", section, "Missing data", words["Missing data"])
    sensitivity = _headed(words, "Sensitivity")
    yield FormField(
        "q22",
        section,
        "Exploratory analysis",
        f"{sensitivity} Everything else in a report is marked as exploratory.".lstrip(),
    )


def _other(record: Preregistration, sealed: SealedSet, words: dict[str, str]) -> str:
    """Digests of what is registered, and what the plan asks of judges."""
    judges = _headed(words, "Judges", "Changes")
    pinned = record.provenance
    return (
        f"{judges} The record of this plan in the study's ledger has the digest "
        f"{record_digest(record)}; the sealed draw, {sealed.ciphertext}. Code: commit "
        f"{pinned.commit}, lock {pinned.lock}, sandbox image {pinned.image}, Python "
        f"{pinned.python}."
    ).lstrip()
