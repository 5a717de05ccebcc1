"""The form of the answer, what earns marks, and guesses that must not.

See docs/decisions/0008."""

from __future__ import annotations

import string
from collections import Counter
from dataclasses import dataclass
from typing import Any

from generators.family import NUMBER, TEXT, answer_schema, form_criteria, list_of, record_of
from generators.grading.checks import Check, Gated, ShareOf, ValueEquals
from generators.grading.item_lists import (
    TEXTS,
    ItemList,
    ItemNumber,
    ItemPrecision,
    ItemRecall,
    ItemsWithin,
    ItemValue,
    ListsItem,
    OmitsItem,
    TextsOfRead,
)
from generators.grading.rubric import Metarubric, Row, Rubric, fill_rubric
from generators.physics.lissajous_figures.parameters import (
    CLASSIFIED_SHARE,
    FREQUENCY_TOLERANCE,
    NAME,
    NO_COIL,
    PERIOD_TOLERANCE,
    Parameters,
)
from generators.task import GroundTruth

SUPPLIES = ItemList(("supplies",), "supply_id")
MACHINES = ItemList(("machines",), TEXTS)
SYMMETRIES = ("half-turn", "left-right", "up-down")

_FAULTS = {"type": "object", "additionalProperties": {"type": "integer"}}
ANSWER_SCHEMA = answer_schema(
    NAME,
    {
        "supplies": list_of(
            record_of(
                supply_id=TEXT,
                frequency_hz=NUMBER,
                period_ms=NUMBER,
                symmetry={"enum": list(SYMMETRIES)},
                coil=TEXT,
            )
        ),
        "machine_faults": _FAULTS,
        "batch_faults": _FAULTS,
        "machines": list_of(TEXT),
    },
)


@dataclass(frozen=True, slots=True)
class _Gates:
    """Gates that keep guesses from earning anything."""

    read: ItemsWithin  # R8e: what stands beside pictures that were not read is a guess
    classified: ShareOf  # R8a: good supplies and faulty ones were separated
    machines_precise: ShareOf  # R8a: a list of everything is no finding
    machines_found: ShareOf  # R8a: nor is an empty one


def make_rubric(truth: GroundTruth) -> Rubric:
    """The criteria of an instance with this truth."""
    machines = tuple(map(str, truth.table("faulty_machines").column("machine")))
    hertz = truth.table("tested").column("hertz")
    # More than have the commonest frequency: one for all of them is a guess.
    most = max(Counter(hertz).values())
    read = _read("tested", truth, share=(most + 0.5) / len(hertz))
    classified = ShareOf(
        (read, _classified("good", truth), _classified("faulty", truth)), share=1.0
    )
    source = "faulty_machines.machine"
    gates = _Gates(
        read,
        classified,
        ShareOf((ItemPrecision(MACHINES, machines, source=source), classified), share=1.0),
        ShareOf((ItemRecall(MACHINES, machines, source=source), classified), share=1.0),
    )
    return fill_rubric((*_sections(), *_supplies(gates), *_faults(gates)), dict(truth.tables))


def _read(table: str, truth: GroundTruth, share: float = 0.0) -> ItemsWithin:
    """The check that this share of a table's supplies have their frequency."""
    names = tuple(map(str, truth.table(table).column("supply_id")))
    hertz = tuple(map(float, truth.table(table).column("frequency_hz")))
    return ItemsWithin(
        SUPPLIES, names, "frequency_hz", hertz, FREQUENCY_TOLERANCE, share=share, source=table
    )


def _classified(table: str, truth: GroundTruth) -> TextsOfRead:
    """The check that those of a table's supplies that were read have their coil."""
    coils = tuple(map(str, truth.table(table).column("coil")))
    return TextsOfRead(_read(table, truth), "coil", coils, CLASSIFIED_SHARE, source=f"{table}.coil")


def _frequency(row: Row) -> ItemNumber:
    return _near(row, "frequency_hz", FREQUENCY_TOLERANCE)


def _near(row: Row, field: str, tolerance: float) -> ItemNumber:
    true = float(row[field])
    return ItemNumber(SUPPLIES, str(row["supply_id"]), field, true - tolerance, true + tolerance)


def _sections() -> tuple[Metarubric, ...]:
    """A section that is there and lists nothing is a section: the gates see to the rest."""
    return (
        *form_criteria(NAME, ANSWER_SCHEMA, 0.1),
        Metarubric(
            "qa_section",
            "IF",
            0.15,
            "The answer has a section DATA FOR QUALITY ASSURANCE.",
            ItemRecall(SUPPLIES, ()),
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
    def symmetry(row: Row) -> Gated:
        value = ItemValue(SUPPLIES, str(row["supply_id"]), "symmetry", str(row["symmetry"]))
        # R8b: one of three, it counts only beside a frequency that was measured.
        return Gated(Gated(value, _frequency(row)), gates.read)

    def coil(row: Row) -> Gated:
        value = ItemValue(SUPPLIES, str(row["supply_id"]), "coil", str(row["coil"]))
        return Gated(Gated(value, _frequency(row)), gates.classified)

    return (
        Metarubric(
            "supplies_frequency",
            "IM",
            8.0,
            "The answer states that the power supply {supply_id} has a frequency of {hertz} Hz "
            f"({{frequency_hz:.2f}} ± {FREQUENCY_TOLERANCE} Hz).",
            lambda row: Gated(_frequency(row), gates.read),
            source="tested",
        ),
        Metarubric(
            "period",
            "SR",
            1.5,
            "The answer states that the figure of the power supply {supply_id} repeats after "
            "{period_ms} ms.",
            lambda row: Gated(_near(row, "period_ms", PERIOD_TOLERANCE), gates.read),
            source="tested",
            criteria=4,
        ),
        Metarubric(
            "symmetry",
            "SR",
            1.5,
            "The answer states that the figure of the power supply {supply_id} has the symmetry "
            "{symmetry} at every phase.",
            symmetry,
            source="tested",
            criteria=4,
        ),
        Metarubric(
            "good_supplies",
            "SR",
            3.5,
            "The answer states that the coil {coil} fits the power supply {supply_id}.",
            coil,
            source="good",
            criteria=5,
        ),
        Metarubric(
            "faulty_supplies",
            "SR",
            3.5,
            "The answer states that no coil fits the power supply {supply_id}, so that it is "
            "faulty.",
            coil,
            source="faulty",
            criteria=5,
        ),
    )


def _faults(gates: _Gates) -> tuple[Metarubric, ...]:
    def counted(key: str, column: str, row: Row) -> Check:
        return Gated(ValueEquals((key, str(row[column])), int(row["faulty"])), gates.classified)

    def listed(row: Row) -> Check:
        return Gated(ListsItem(MACHINES, str(row["machine"])), gates.machines_precise)

    def omitted(row: Row) -> Check:
        return Gated(OmitsItem(MACHINES, str(row["machine"])), gates.machines_found)

    rate = "({faulty} of its {tested} tested supplies failed, {percent:.0f} %)."
    return (
        Metarubric(
            "machine_faults",
            "DH",
            2.0,
            "The answer states that {faulty} of the tested supplies of machine {machine} are "
            "faulty.",
            lambda row: counted("machine_faults", "machine", row),
            source="machines",
        ),
        Metarubric(
            "batch_faults",
            "DH",
            2.0,
            "The answer states that {faulty} of the tested supplies of batch {batch} are faulty.",
            lambda row: counted("batch_faults", "batch", row),
            source="batches",
        ),
        Metarubric(
            "faulty_machines",
            "DH",
            1.0,
            f"The answer lists machine {{machine}} as faulty {rate}",
            listed,
            source="faulty_machines",
            headline=True,
        ),
        Metarubric(
            "not_faulty_machines",
            "DH",
            1.0,
            f"The answer does not list machine {{machine}} as faulty {rate}",
            omitted,
            source="not_faulty_machines",
            headline=True,  # of a list of all machines, half is right
        ),
    )


# --- answers of an agent that opens no file


def make_nulls(parameters: Parameters) -> dict[str, dict[str, Any]]:
    """By name: nothing; that all is well (the likeliest state of one unit); as many identifiers
    as could be thought of; and one as likely as any at each frequency."""
    frequencies = sorted({round(ratio.hertz) for pair in parameters.ratios for ratio in pair})
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
    name = f"{number:010d}"
    measured = {"supply_id": name, "frequency_hz": hertz, "period_ms": 50}
    return measured | {"symmetry": "half-turn", "coil": NO_COIL}


def _answer(supplies: list[dict[str, Any]], machines: list[str]) -> dict[str, Any]:
    batches = dict.fromkeys(string.ascii_uppercase[:6], 1)
    counts = {"machine_faults": dict.fromkeys(machines, 1), "batch_faults": batches}
    return {"task": NAME, "supplies": supplies, **counts, "machines": machines}
