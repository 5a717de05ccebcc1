"""The truth, the form of the answer, what earns marks, and guesses that must not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from generators.family import TEXT, answer_schema, form_criteria, list_of, record_of
from generators.grading.checks import Check, Gated, ShareOf
from generators.grading.item_lists import ItemList, ItemPrecision, ItemRecall, ItemValue
from generators.grading.rubric import Metarubric, Row, Rubric, fill_rubric
from generators.ladder.sequence_variants.genes import BASES, effect_of
from generators.ladder.sequence_variants.parameters import (
    MISSENSE,
    NAME,
    NONCODING,
    SYNONYMOUS,
    Parameters,
)
from generators.ladder.sequence_variants.sample import Sample
from generators.task import GroundTruth, TruthTable

VARIANTS = ItemList(("variants",), "position")
_FIELDS = ("ref", "alt", "effect", "change")
_CRITERIA = 16  # at most, of each metarubric
_COLUMNS = ("position", *_FIELDS)
ANSWER_SCHEMA = answer_schema(
    NAME,
    {"variants": list_of(record_of(position={"type": "integer"}, **dict.fromkeys(_FIELDS, TEXT)))},
)


def make_truth(sample: Sample) -> GroundTruth:
    """Tables ``variants`` (position, ref, alt, effect, change), ``coding`` (those of them in the
    gene) and ``sample`` (its name, and the positions of its variants in a text)."""
    rows = tuple(
        (each.position, each.ref, each.alt, *effect_of(each, sample.reference, sample.gene))
        for each in sample.variants
    )
    coding = tuple(row for row in rows if row[3] != NONCODING)
    positions = ", ".join(str(row[0]) for row in rows)
    return GroundTruth(
        (
            ("variants", TruthTable(_COLUMNS, rows)),
            ("coding", TruthTable(_COLUMNS, coding)),
            ("sample", TruthTable.of_row(name=sample.name, positions=positions)),
        )
    )


def make_key(truth: GroundTruth) -> dict[str, Any]:
    """The answer block that scores full marks."""
    return {"task": NAME, "variants": truth.table("variants").records()}


def make_rubric(truth: GroundTruth) -> Rubric:
    """The criteria of an instance with this truth. Most of the weight is on the protein: to find
    the differences of two texts takes no biology."""
    positions = tuple(map(str, truth.table("variants").column("position")))
    precise = ItemPrecision(VARIANTS, positions, source="variants.position")
    found = ItemRecall(VARIANTS, positions, source="variants.position")
    none_else = ItemPrecision(VARIANTS, positions, 1.0, source="variants.position")
    return fill_rubric(
        (
            *form_criteria(NAME, ANSWER_SCHEMA, 0.2),
            Metarubric(
                "no_other_variants",
                "DH",
                0.5,
                "The answer lists no variant of {name} at a position other than {positions}.",
                Gated(none_else, found),
                source="sample",
            ),
            *_of_a_variant(precise),
        ),
        dict(truth.tables),
    )


def _of_a_variant(precise: Check) -> tuple[Metarubric, ...]:
    """R8a: a list of everything is no finding. R8b: an effect counts beside its variant."""

    def called(row: Row) -> Check:
        return Gated(_call(row), precise)

    def stated(name: str) -> Any:
        def check(row: Row) -> Check:
            value = ItemValue(VARIANTS, str(row["position"]), name, str(row[name]))
            return Gated(Gated(value, _call(row)), precise)

        return check

    return (
        Metarubric(
            "calls",
            "DH",
            2.0,
            "The answer lists the variant {ref} to {alt} at position {position}.",
            called,
            source="variants",
            criteria=_CRITERIA,
        ),
        Metarubric(
            "effects",
            "SR",
            3.0,
            "The answer gives the variant at position {position} the effect {effect}.",
            stated("effect"),
            source="variants",
            criteria=_CRITERIA,
        ),
        Metarubric(
            "changes",
            "SR",
            5.0,
            "The answer gives the variant at position {position} the protein change {change}.",
            stated("change"),
            source="coding",
            criteria=_CRITERIA,
        ),
    )


def _call(row: Row) -> Check:
    position = str(row["position"])
    fields = (ItemValue(VARIANTS, position, name, str(row[name])) for name in ("ref", "alt"))
    return ShareOf(tuple(fields), share=1.0)


def make_nulls(parameters: Parameters) -> dict[str, dict[str, Any]]:
    """By name: nothing; every position; no variant; and as many as there are, evenly spread, with
    each effect that is likely."""
    every = range(1, parameters.bases + 1)
    step = parameters.bases // (parameters.variants + 1)
    spread = range(step, parameters.bases - step + 1, step)
    return {
        "empty": {},
        "everything": variants_block((at, "A", base, MISSENSE) for at in every for base in BASES),
        "every position": variants_block((at, "A", "G", MISSENSE) for at in every),
        "prior": variants_block(()),
        **{
            f"spread, {effect}": variants_block((at, "C", "T", effect) for at in spread)
            for effect in (NONCODING, SYNONYMOUS, MISSENSE)
        },
    }


def variants_block(calls: Iterable[tuple[int, str, str, str]]) -> dict[str, Any]:
    """The answer block with these calls and effects, and no change of the protein."""
    return {
        "task": NAME,
        "variants": [
            {"position": position, "ref": ref, "alt": alt, "effect": effect, "change": "none"}
            for position, ref, alt, effect in calls
        ],
    }
