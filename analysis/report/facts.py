"""Documented facts of models, and remarks on verdicts that they make doubtful."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.json_values import TextOrNull
from analysis.plan.verdict import CONTAMINATED, Verdict


@dataclass(frozen=True, slots=True)
class ModelFact:
    """Documented facts of a model: dates in ISO 8601; "" where unknown."""

    model: str
    family: TextOrNull = ""
    released: TextOrNull = ""
    cutoff: TextOrNull = ""  # of its training data


@dataclass(frozen=True, slots=True)
class LedgerCheckpoint:
    """The checkpoint of the ledger when a look was first reported."""

    records: int
    root: str  # RFC 6962, over the records; hexadecimal
    study_key: str  # public, hexadecimal: it signed the note
    note: str  # the file checkpoint.txt


def remarks_on(
    verdicts: Sequence[Verdict], facts: Sequence[ModelFact], published: str
) -> Iterator[str]:
    """A sentence for each contaminated model with a documented training cut-off, or release, before
    ``published``, the day of the publication, ISO 8601; none if that is ""."""
    by_model = {fact.model: fact for fact in facts}
    for verdict in verdicts:
        fact = by_model.get(verdict.model)
        if verdict.verdict != CONTAMINATED or fact is None or not published:
            continue
        if fact.cutoff and fact.cutoff < published:
            dated = f"its training data end on {fact.cutoff}"
        elif fact.released and fact.released < published:
            dated = f"it was released on {fact.released}"
        else:
            continue
        yield (
            f"{verdict.model} at wave {verdict.wave} is contaminated, though by its documentation "
            f"{dated}, before the publication on {published}: it cannot have been trained on the "
            "published instances. Check the date, what is served under its name, access to the web "
            "during the runs, and other differences between the arms."
        )
