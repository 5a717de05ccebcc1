"""Call the variants of a DNA sequence against a reference, and their effects on a gene."""

from __future__ import annotations

from generators.family import Drawn, FamilyOfParts, InputFiles, read_part
from generators.ladder.sequence_variants.parameters import (
    BY_DIFFICULTY,
    GENE,
    NAME,
    REFERENCE,
    SAMPLE,
    Parameters,
)
from generators.ladder.sequence_variants.rubric import (
    ANSWER_SCHEMA,
    make_key,
    make_nulls,
    make_rubric,
    make_truth,
)
from generators.ladder.sequence_variants.sample import draw_sample, write_gene, write_sequence
from generators.seed import Streams


def draw(parameters: Parameters, streams: Streams) -> Drawn:
    """The input files and the truth of one seed."""
    sample, files = draw_sample(parameters, streams), InputFiles()
    files.add_text(REFERENCE, "text/x-fasta", write_sequence(sample.name, sample.reference))
    files.add_text(SAMPLE, "text/x-fasta", write_sequence(f"{sample.name}_sample", sample.bases))
    files.add_text(GENE, "text/csv", write_gene(sample))
    return Drawn(files, make_truth(sample), {"redraws": sample.redraws})


FAMILY = FamilyOfParts(
    name=NAME,
    version="1",
    summary="call variants of a DNA sequence against a reference, and their effects on a gene",
    package=__name__,
    by_difficulty=BY_DIFFICULTY,
    draw=draw,
    prompt=read_part(__name__, "prompt.txt"),
    answer_schema=ANSWER_SCHEMA,
    make_rubric=make_rubric,
    key=make_key,
    make_nulls=make_nulls,
)
