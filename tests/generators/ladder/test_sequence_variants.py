"""sequence_variants: the genetic code, effects of variants, and one way to call each."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from generators.grading.answer import Answer
from generators.grading.rubric import check_answer, score_verdicts
from generators.ladder.sequence_variants import FAMILY
from generators.ladder.sequence_variants.genes import (
    CODE,
    Gene,
    Variant,
    effect_of,
    reverse_complement,
)
from generators.ladder.sequence_variants.parameters import (
    BY_DIFFICULTY,
    FRAMESHIFT,
    MISSENSE,
    NONCODING,
    NONSENSE,
    SYNONYMOUS,
)
from generators.ladder.sequence_variants.sample import draw_sample, possible_variants
from generators.seed import SeedStreams
from generators.validation.validate import public_seeds


def samples(difficulty: str, count: int = 10):
    for seed in public_seeds(count):
        streams = SeedStreams(seed, "sequence_variants", "test", difficulty)
        yield draw_sample(BY_DIFFICULTY[difficulty], streams)


def protein(bases: str, gene: Gene) -> str:
    coding = bases[gene.start - 1 : gene.end]
    coding = coding if gene.strand == "+" else reverse_complement(coding)
    return "".join(CODE[coding[at : at + 3]] for at in range(0, len(coding), 3))


def test_the_code_is_the_standard_one():
    """How many codons each amino acid has, and codons that other tables read otherwise."""
    assert len(CODE) == 64
    counts = Counter(CODE.values())
    assert {acid for acid, count in counts.items() if count == 1} == set("MW")
    assert {acid for acid, count in counts.items() if count == 6} == set("LRS")
    assert {acid for acid, count in counts.items() if count == 4} == set("AGPTV")
    assert {acid for acid, count in counts.items() if count == 3} == set("I*")
    assert {codon for codon, acid in CODE.items() if acid == "*"} == {"TAA", "TAG", "TGA"}
    assert (CODE["ATG"], CODE["ATA"], CODE["AGA"], CODE["CTG"]) == ("M", "I", "R", "L")


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        (Variant(1, "C", "A"), (NONCODING, "none")),
        (Variant(8, "A", "G"), (SYNONYMOUS, "K2K")),
        (Variant(7, "A", "T"), (MISSENSE, "K2I")),
        (Variant(6, "A", "T"), (NONSENSE, "K2*")),
        (Variant(7, "A", "AG"), (FRAMESHIFT, "K2fs")),
        (Variant(7, "AA", "A"), (FRAMESHIFT, "K2fs")),
    ],
)
def test_effects_by_hand_on_both_strands(variant, expected):
    """The gene ATG AAA TAA from base 3, and the same read from the other strand."""
    reference = "CCATGAAATAACC"
    assert effect_of(variant, reference, Gene(3, 11, "+")) == expected
    if len(variant.ref) == len(variant.alt):
        mirrored = Variant(
            len(reference) + 1 - variant.position,
            reverse_complement(variant.ref),
            reverse_complement(variant.alt),
        )
        assert effect_of(mirrored, reverse_complement(reference), Gene(3, 11, "-")) == expected


@pytest.mark.parametrize("strand", ["+", "-"])
def test_effects_are_those_of_the_whole_protein(strand):
    sample = next(each for each in samples("medium", 20) if each.gene.strand == strand)
    before = protein(sample.reference, sample.gene)
    assert before[0] == "M"
    assert before.index("*") == len(before) - 1
    possible = possible_variants(BY_DIFFICULTY["medium"], sample.reference, sample.gene)
    seen = Counter()
    for variant in (each for group in possible.values() for each in group):
        effect, change = effect_of(variant, sample.reference, sample.gene)
        after = protein(variant.applied(sample.reference), sample.gene)
        differing = [at for at, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
        if effect in (NONCODING, SYNONYMOUS):
            assert not differing
        else:
            (at,) = differing
            assert change == f"{before[at]}{at + 1}{after[at]}"
            assert (effect == NONSENSE) is (after[at] == "*")
        seen[effect] += 1
    assert set(seen) == {NONCODING, SYNONYMOUS, MISSENSE, NONSENSE}


def test_insertions_and_deletions_stand_as_far_to_the_left_as_they_can():
    seen = 0
    for sample in samples("hard"):
        for variant in sample.variants:
            if len(variant.ref) == len(variant.alt):
                continue
            seen += 1
            made = variant.applied(sample.reference)
            shift = len(variant.alt) - len(variant.ref)
            for position in range(1, variant.position):
                ref = sample.reference[position - 1 : position + max(0, -shift)]
                alt = made[position - 1 : position + max(0, shift)]
                assert Variant(position, ref, alt).applied(sample.reference) != made
    assert seen == 3 * 10


def test_a_call_without_its_translation_earns_little():
    instance = FAMILY.generate("hard", public_seeds(1)[0])
    key = json.loads(json.dumps(FAMILY.key(instance.truth)))
    for variant in key["variants"]:
        variant["effect"] = variant["change"] = "?"
    score = score_verdicts(instance.rubric, check_answer(instance.rubric, Answer(key)))
    assert score == pytest.approx((2 + 0.5 + 0.2) / 10.7)


def test_effects_of_a_wrong_call_earn_nothing_and_too_many_calls_lose_all():
    instance = FAMILY.generate("easy", public_seeds(1)[0])
    key = json.loads(json.dumps(FAMILY.key(instance.truth)))
    variant = key["variants"][0]
    variant["alt"] = next(base for base in "ACGT" if base not in variant["ref"] + variant["alt"])
    wrong = {
        part.metarubric
        for part, met in zip(
            instance.rubric.parts, check_answer(instance.rubric, Answer(key)), strict=True
        )
        if not met
    }
    assert {"calls", "effects"} <= wrong
    listed = FAMILY.key(instance.truth)
    others = set(range(1, 240)) - {each["position"] for each in listed["variants"]}
    for position in sorted(others)[:7]:
        listed["variants"].append({**variant, "position": position})
    verdicts = check_answer(instance.rubric, Answer(listed))
    assert score_verdicts(instance.rubric, verdicts, ("SR", "DH")) == 0.0
