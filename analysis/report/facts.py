"""Documented facts of models, and of the ledger, that a report shows."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.json_values import TextOrNull


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
