"""The form of the answer, what earns marks, and guesses that must not.

See spec/physics.md, §5; gates as R8; docs/decisions/0008.
"""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import Any

from generators.family import NUMBER, TEXT, answer_schema, form_criteria, list_of, record_of
from generators.grading import (
    TEXTS,
    Check,
    Gated,
    ItemList,
    ItemNumber,
    ItemPrecision,
    ItemRecall,
    ItemValue,
    ListsItem,
    Metarubric,
    OmitsItem,
    Row,
    Rubric,
    ShareOf,
    fill_rubric,
)
from generators.physics.lissajous_figures.parameters import FREQUENCY_TOLERANCE, NAME, Parameters
from generators.task import GroundTruth

FAULTY = ItemList(("faulty",), "supply_id")
MACHINES = ItemList(("machines",), TEXTS)


ANSWER_SCHEMA = answer_schema(
    NAME,
    {
        "faulty": list_of(record_of(supply_id=TEXT, machine=TEXT, batch=TEXT, frequency_hz=NUMBER)),
        "machines": list_of(TEXT),
    },
)


@dataclass(frozen=True, slots=True)
class _Gates:
    """Gates that keep guesses from earning anything."""

    supplies_precise: ItemPrecision  # R8a: a list of everything is no finding
    supplies_found: ItemRecall  # R8a: nor is an empty one
    machines_precise: ShareOf  # R8a; and R8e: machines without readings are a guess
    machines_found: ShareOf


def make_rubric(truth: GroundTruth) -> Rubric:
    """The criteria of an instance with this truth."""
    qa, faulty = truth.table("qa_data"), truth.table("faulty_machines")
    supplies = tuple(map(str, qa.column("supply_id")))
    machines = tuple(map(str, faulty.column("machine")))
    precise = ItemPrecision(FAULTY, supplies, source="qa_data.supply_id")
    read = ShareOf((precise, ShareOf(tuple(map(_frequency, qa.records())))), share=1.0)
    source = "faulty_machines.machine"
    gates = _Gates(
        precise,
        ItemRecall(FAULTY, supplies, source="qa_data.supply_id"),
        ShareOf((ItemPrecision(MACHINES, machines, source=source), read), share=1.0),
        ShareOf((ItemRecall(MACHINES, machines, source=source), read), share=1.0),
    )
    return fill_rubric((*_sections(), *_supplies(gates), *_machines(gates)), dict(truth.tables))


def _frequency(row: Row) -> ItemNumber:
    true = float(row["frequency_hz"])
    low, high = true - FREQUENCY_TOLERANCE, true + FREQUENCY_TOLERANCE
    return ItemNumber(FAULTY, str(row["supply_id"]), "frequency_hz", low, high)


def _sections() -> tuple[Metarubric, ...]:
    """A section that is there and lists nothing is a section: the gates see to the rest."""
    return (
        *form_criteria(NAME, ANSWER_SCHEMA, 0.1),
        Metarubric(
            "qa_section",
            "IF",
            0.15,
            "The answer has a section DATA FOR QUALITY ASSURANCE.",
            ItemRecall(FAULTY, ()),
        ),
        Metarubric(
            "management_section",
            "IF",
            0.15,
            "The answer has a section DATA FOR MANAGEMENT.",
            ItemRecall(MACHINES, ()),
        ),
    )


def _supplies(gates: _Gates) -> tuple[Metarubric, ...]:
    def listed(row: Row) -> Gated:
        return Gated(ListsItem(FAULTY, str(row["supply_id"])), gates.supplies_precise)

    def omitted(row: Row) -> Gated:
        return Gated(OmitsItem(FAULTY, str(row["supply_id"])), gates.supplies_found)

    def frequency(row: Row) -> Gated:
        return Gated(_frequency(row), gates.supplies_precise)

    def attribute(name: str, row: Row) -> Gated:
        # R8b: it stands in the table, and counts only beside a frequency that was measured.
        value = ItemValue(FAULTY, str(row["supply_id"]), name, str(row[name]))
        return Gated(Gated(value, _frequency(row)), gates.supplies_precise)

    return (
        Metarubric(
            "faulty_supplies",
            "DH",
            3.0,
            "The answer lists the power supply {supply_id} as faulty.",
            listed,
            "qa_data",
        ),
        Metarubric(
            "notfaulty_supplies",
            "DH",
            3.0,
            "The answer does not list the power supply {supply_id} as faulty.",
            omitted,
            "complement_qa_data",
        ),
        Metarubric(
            "supplies_frequency",
            "IM",
            10.0,
            "The answer states that the faulty power supply {supply_id} has a frequency of "
            f"{{hertz}} Hz ({{frequency_hz:.2f}} ± {FREQUENCY_TOLERANCE} Hz).",
            frequency,
            "qa_data",
        ),
        Metarubric(
            "supply_batch",
            "DH",
            1.0,
            "The answer states that the faulty power supply {supply_id} is of batch {batch}.",
            lambda row: attribute("batch", row),
            "qa_data",
        ),
        Metarubric(
            "supply_manufacturing_machine",
            "DH",
            1.0,
            "The answer states that the faulty power supply {supply_id} was made by machine "
            "{machine}.",
            lambda row: attribute("machine", row),
            "qa_data",
        ),
    )


def _machines(gates: _Gates) -> tuple[Metarubric, ...]:
    def listed(row: Row) -> Check:
        return Gated(ListsItem(MACHINES, str(row["machine"])), gates.machines_precise)

    def omitted(row: Row) -> Check:
        return Gated(OmitsItem(MACHINES, str(row["machine"])), gates.machines_found)

    rate = "({faulty} of its {tested} tested supplies failed, {percent:.0f} %)"
    return (
        Metarubric(
            "faulty_machines",
            "DH",
            2.0,
            f"The answer lists machine {{machine}} as faulty {rate}.",
            listed,
            "faulty_machines",
            headline=True,
        ),
        Metarubric(
            "not_faulty_machines",
            "DH",
            2.0,
            f"The answer does not list machine {{machine}} as faulty {rate}.",
            omitted,
            "not_faulty_machines",
        ),
    )


# --- answers of an agent that opens no file


def make_nulls(parameters: Parameters) -> dict[str, dict[str, Any]]:
    """By name: nothing; that all is well (the likeliest state of one unit); as many identifiers
    as could be thought of; and one as likely as any at each faulty frequency."""
    frequencies = [round(ratio.hertz) for ratio in parameters.ratios if not ratio.is_good]
    many = [_supply(number, frequencies[number % len(frequencies)]) for number in range(10_000)]
    return {
        "empty": {},
        "prior": _answer([], []),
        "everything": _answer(many, list(string.ascii_uppercase + string.digits)),
        **{
            f"constant-{hertz}": _answer([_supply(1_234_567_890, hertz)], ["ABC123"])
            for hertz in frequencies
        },
    }


def _supply(number: int, hertz: int) -> dict[str, Any]:
    supply = f"{number:010d}"
    return {"supply_id": supply, "machine": "ABC123", "batch": "A", "frequency_hz": hertz}


def _answer(faulty: list[dict[str, Any]], machines: list[str]) -> dict[str, Any]:
    return {"task": NAME, "faulty": faulty, "machines": machines}
