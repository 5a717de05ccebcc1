"""Length of the keys of the ladder's families in bits, as docs/ladder.md has it.

``python -m benchmarks.key_bits`` prints the page's table. The bits of `order_statistics` and
`sequence_variants` follow from what is drawn. Those of `table_analytics` are estimated from the
answers of public instances, kind by kind; its answers count as independent, so that the sum is an
upper bound. Those of `program_repair` are the choice of the functions with a fault, and of the edit
of one token that repairs each.
"""

from __future__ import annotations

import csv
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from generators.family import FamilyOfParts
from generators.ladder import order_statistics, program_repair, sequence_variants, table_analytics
from generators.ladder.order_statistics import parameters as order_parameters
from generators.ladder.program_repair import parameters as repair_parameters
from generators.ladder.program_repair.solver import edits, split_functions
from generators.ladder.sequence_variants import parameters as variant_parameters
from generators.ladder.sequence_variants.genes import Gene
from generators.ladder.sequence_variants.sample import key_bits as variant_key_bits
from generators.ladder.sequence_variants.solver import read_sequence
from generators.ladder.table_analytics import parameters as table_parameters
from generators.seed import Seed
from generators.stream import Stream
from generators.task import DIFFICULTIES, TaskInstance
from generators.validation.validate import public_seeds

INSTANCES = 20
Bits = Callable[[str, Sequence[TaskInstance]], float]
HEADER = ("| family | level | answers | bits of one | bits of the key |", "|---|---|---|---|---|")


def order_bits(difficulty: str, _: Sequence[TaskInstance]) -> float:
    """Bits of the key of an instance of `order_statistics`."""
    return order_parameters.key_bits(order_parameters.BY_DIFFICULTY[difficulty])


def variant_bits(difficulty: str, instances: Sequence[TaskInstance]) -> float:
    """Mean bits of the key over instances of `sequence_variants`, each given its reference."""
    parameters = variant_parameters.BY_DIFFICULTY[difficulty]
    bits = []
    for instance in instances:
        files = {asset.path: asset.data.decode() for asset in instance.brief.assets}
        place = next(csv.DictReader(files[variant_parameters.GENE].splitlines()))
        gene = Gene(int(place["start"]), int(place["end"]), place["strand"])
        reference = read_sequence(files[variant_parameters.REFERENCE])
        bits.append(variant_key_bits(parameters, reference, gene))
    return statistics.fmean(bits)


def table_bits(difficulty: str, instances: Sequence[TaskInstance]) -> float:
    """Estimated bits of the key of an instance of `table_analytics`: of a name, as many as tell
    the names of its kind apart; of a number, the entropy of its kind over the instances."""
    parameters = table_parameters.BY_DIFFICULTY[difficulty]
    numbers: dict[str, list[int]] = defaultdict(list)
    bits = 0.0
    for instance in instances:
        for row in instance.truth.table("questions").records():
            if isinstance(row["answer"], int):
                numbers[str(row["kind"])].append(row["answer"])
            else:
                named = row["kind"] == table_parameters.LEAST
                bits += math.log2(parameters.shops if named else parameters.products)
    draws = Seed(bytes(32)).rng()
    bits += sum(len(seen) * number_entropy(seen, draws) for seen in numbers.values())
    return bits / len(instances)


def repair_bits(difficulty: str, instances: Sequence[TaskInstance]) -> float:
    """Mean bits of the key over instances of `program_repair`, each given its faulty program: which
    functions have a fault, and which edit of one token repairs each of them."""
    parameters = repair_parameters.BY_DIFFICULTY[difficulty]
    places = math.log2(math.comb(parameters.functions, parameters.faults))
    bits = []
    for instance in instances:
        files = {asset.path: asset.data.decode() for asset in instance.brief.assets}
        faulty = split_functions(files[repair_parameters.PROGRAM_FILE])
        right = split_functions(str(instance.truth.table("program").column("right")[0]))
        wrong = [source for name, source in faulty.items() if source != right[name]]
        bits.append(places + sum(math.log2(len(list(edits(source)))) for source in wrong))
    return statistics.fmean(bits)


def number_entropy(numbers: Sequence[int], draws: Stream) -> float:
    """Vasicek's estimate of the entropy, in bits, of the distribution that whole numbers come from
    (JRSS B 38, 54, 1976). Each gets a uniform draw from (0, 1) added, which makes it continuous
    and leaves its entropy as it is."""
    ordered = sorted(number + draws.uniform() for number in numbers)
    count = len(ordered)
    width = max(1, round(math.sqrt(count)))
    spans = (
        ordered[min(at + width, count - 1)] - ordered[max(at - width, 0)] for at in range(count)
    )
    return statistics.fmean(math.log2(count / (2 * width) * span) for span in spans)


_FAMILIES: Mapping[str, tuple[FamilyOfParts[Any], Bits, str]] = {
    "order_statistics": (order_statistics.FAMILY, order_bits, "questions"),
    "program_repair": (program_repair.FAMILY, repair_bits, "faults"),
    "sequence_variants": (sequence_variants.FAMILY, variant_bits, "variants"),
    "table_analytics": (table_analytics.FAMILY, table_bits, "questions"),
}


def table_lines() -> Iterator[str]:
    """The lines of the table, from public instances."""
    yield from HEADER
    for name, (family, bits_of, answers) in _FAMILIES.items():
        for difficulty in DIFFICULTIES:
            instances = [family.generate(difficulty, seed) for seed in public_seeds(INSTANCES)]
            bits = bits_of(difficulty, instances)
            count = int(family.parameters(difficulty)[answers])
            yield f"| `{name}` | {difficulty} | {count} | {bits / count:.1f} | {bits:.0f} |"


if __name__ == "__main__":
    print("\n".join(table_lines()))
