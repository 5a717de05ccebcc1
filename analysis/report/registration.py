"""A registered plan in the fields of an OSF preregistration, for a public registry."""

from __future__ import annotations

from typing import Any

from analysis.plan.describe import describe_plan
from analysis.plan.presets import HYPOTHESES, look_alpha
from analysis.stats.intervals import counted, points
from analysis.words import words_in
from registry.ledger.draw_records import SealedSet
from registry.ledger.records import Preregistration, record_digest

FORM = "OSF Preregistration"  # version 3 of the form, of the Center for Open Science
_QUESTION = "Does publishing a benchmark raise the scores of language models on it?"
_CALIBRATED = (
    ", but for the use of the models from before the publication that stands under Statistical "
    "models"
)


def registration_json(
    record: Preregistration, sealed: SealedSet, description: str
) -> dict[str, Any]:
    """Return the answers to the form, in its order, from what the ledger holds in public."""
    return {
        "form": FORM,
        "version": 3,
        "study": record.study,
        "registration": record_digest(record),
        "fields": fill_form(record, sealed, description),
    }


def fill_form(record: Preregistration, sealed: SealedSet, description: str) -> list[dict[str, str]]:
    """Return every field of the form in its order, with its answer. ``id`` is that of the question
    in the form; "" for what the registry asks of every registration."""
    form = words_in("analysis.report", "registration.yaml")
    values = _values(record, sealed) | {"description": description or _QUESTION}
    return [
        {
            "id": field["id"],
            "section": section,
            "name": field["name"],
            "answer": field["answer"].format(**values),
        }
        for section, fields in form.items()
        for field in fields
    ]


def _values(record: Preregistration, sealed: SealedSet) -> dict[str, Any]:
    """The values of the form's answers, by the names that they have there."""
    plan = record.plan
    lines = (line.partition(". ") for line in describe_plan(plan).split("\n"))
    words = {heading: text for heading, _, text in lines}

    def after(heading: str) -> str:
        return f" {words[heading]}" if heading in words else ""

    def headed(*headings: str) -> str:
        return "".join(f"{name}. {words[name]} " for name in headings if name in words)

    reserve = counted(len(sealed.reserve), "reserve tranche")
    known, unproved = record.underpowered, record.unproved
    shortfalls = "" if known is None else f" Known shortfalls: {'; '.join(known.shortfalls)}."
    if unproved is not None:
        shortfalls += f" Tasks that are not proved: {'; '.join(unproved.tasks)}."
    return {
        **{"study": record.study, "plan": plan, "sealed": sealed, "words": words},
        **{"digest": record_digest(record), "pinned": record.provenance},
        "hypotheses": words.get("Hypotheses", f"{HYPOTHESES[0]} {HYPOTHESES[2]}"),
        "looks": counted(plan.looks, "look"),
        "strata": counted(len(plan.strata), "stratum", "strata"),
        "runs": counted(plan.replicates, "run"),
        "tasks": ", ".join(record.tasks),
        "instances": sum(plan.sizes),
        "reserve": f" A further {reserve} of instances is drawn in the same way."
        if sealed.reserve
        else "",
        "target": points(plan.target_gap),
        "alpha": look_alpha(plan),
        "outcomes": " and ".join(plan.outcomes),
        "power": after("Power"),
        "shortfalls": shortfalls,
        "monitoring": after("Study-level monitoring"),
        "controls": after("Controls"),
        "calibrated": "" if plan.standard is None else _CALIBRATED,
        "exclusions": words["Exclusions"].replace("None.", "No model is left out."),
        "burned": f" {headed('Burned instances')}".rstrip(),
        "sensitivity": headed("Sensitivity"),
        "judges": headed("Judges", "Changes"),
    }
