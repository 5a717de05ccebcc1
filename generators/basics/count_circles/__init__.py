"""Count the black discs of each picture, and describe the counts (docs/decisions/0002).

Every pixel follows from sums, products and square roots, which IEEE 754 rounds correctly on
every machine. The compressed bytes are those of Pillow's own zlib-ng, which the lock pins; they
were found the same with AVX-512 and on emulated Haswell and Nehalem processors.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, TypeAlias

from generators.family import (
    NUMBER,
    Drawn,
    FamilyOfParts,
    FamilyParameters,
    InputFiles,
    answer_schema,
    form_criteria,
)
from generators.grading.checks import Gated, MeanAgrees, ShareOf, ValueEquals
from generators.grading.rubric import Metarubric, Row, Rubric, fill_rubric, number_near
from generators.seed import Streams, redraw
from generators.stream import Stream
from generators.task import GroundTruth, Limits, TruthTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NAME = "count_circles"

# Geometry in pixels.
SIDE = 512
RADIUS = 12
MARGIN = 24  # of a centre from the edge
GAP = 30  # between centres, at least

QUARTERS = 4  # parts of the range of counts, from each of which as many images draw theirs
PICTURE_BYTES = 12_288  # of each file: pictures of one size show no count in a list of files
AVERAGE_TOLERANCE = 0.005


@dataclass(frozen=True, slots=True)
class Parameters(FamilyParameters):
    """Number of images, and largest number of discs in an image: both multiples of QUARTERS."""

    files: int
    most: int


BY_DIFFICULTY = {
    "easy": Parameters(files=8, most=8, limits=Limits(turns=20)),
    "medium": Parameters(files=16, most=16, limits=Limits(turns=30)),
    "hard": Parameters(files=32, most=32, limits=Limits(turns=50, working_seconds=1800.0)),
}


def file_names(files: int) -> tuple[str, ...]:
    """The names of the pictures, in order."""
    return tuple(f"{number}.png" for number in range(1, files + 1))


Centres = tuple[tuple[float, float], ...]

# Random places tried for one image, for each disc it needs, before the image is redrawn.
_TRIES_PER_DISC = 100


@dataclass(frozen=True, slots=True)
class Sample:
    """The centres (x, y) of the discs of each image, in pixels from its top left corner."""

    images: tuple[Centres, ...]
    redraws: int


def draw_sample(parameters: Parameters, streams: Streams) -> Sample:
    """Raises GuardExhausted if a draw stays degenerate."""
    redraws = 0
    images = []
    for index, count in enumerate(draw_counts(parameters, streams)):
        centres, attempt = redraw(
            partial(_centres, count, streams, index), f"centres of image {index + 1}"
        )
        images.append(centres)
        redraws += attempt
    return Sample(tuple(images), redraws)


def draw_counts(parameters: Parameters, streams: Streams) -> tuple[int, ...]:
    """Each count is uniform on 1…most; as many images have theirs from each quarter of that
    range, so that no instance is easier than another by its number of discs."""
    quarters = streams.at("quarters").shuffle(range(parameters.files))
    part = parameters.most // QUARTERS
    return tuple(
        quarter % QUARTERS * part + streams.at("count", index).integer(1, part)
        for index, quarter in enumerate(quarters)
    )


def _centres(count: int, streams: Streams, index: int, attempt: int) -> Centres | None:
    return place(count, streams.at("centres", index, attempt))


def place(count: int, stream: Stream) -> Centres | None:
    """Centres, uniform but never closer than GAP; None if there is no room for them."""
    centres: list[tuple[float, float]] = []
    for _ in range(_TRIES_PER_DISC * count):
        if len(centres) == count:
            break
        x = stream.uniform(MARGIN, SIDE - MARGIN)
        y = stream.uniform(MARGIN, SIDE - MARGIN)
        if all((x - a) ** 2 + (y - b) ** 2 >= GAP**2 for a, b in centres):
            centres.append((x, y))
    return tuple(centres) if len(centres) == count else None


Pixels: TypeAlias = "NDArray[np.uint8]"


def draw_image(centres: Centres) -> Pixels:
    """SIDE × SIDE grey values, row by row from the top."""
    import numpy as np

    pixels = np.full((SIDE, SIDE), 255, np.uint8)
    for x, y in centres:
        _draw_disc(pixels, x, y)
    return pixels


def _draw_disc(pixels: Pixels, x: float, y: float) -> None:
    """Darken each pixel near the disc by the distance of its middle from the rim."""
    import numpy as np

    left, top = math.floor(x) - RADIUS - 1, math.floor(y) - RADIUS - 1
    reach = np.arange(2 * RADIUS + 3)
    dx = reach + (left + 0.5 - x)
    dy = reach + (top + 0.5 - y)
    outside = np.sqrt(dx[None, :] * dx[None, :] + dy[:, None] * dy[:, None]) - RADIUS
    grey = np.floor(np.clip(outside + 0.5, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)
    box = pixels[top : top + len(reach), left : left + len(reach)]
    np.minimum(box, grey, out=box)


def encode_png(pixels: Pixels) -> bytes:
    """8-bit grey, zlib level 6, no text and no time in it."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=6)
    return buffer.getvalue()


def make_truth(counts: Sequence[int]) -> GroundTruth:
    """Tables ``images`` (filename, n_circles) and ``result`` (what ``describe`` returns)."""
    images = tuple(zip(file_names(len(counts)), counts, strict=True))
    return GroundTruth(
        tables=(
            ("images", TruthTable(("filename", "n_circles"), images)),
            ("result", TruthTable.of_row(**describe(counts))),
        ),
        tolerances=(("average", AVERAGE_TOLERANCE),),
    )


def describe(counts: Sequence[int]) -> dict[str, int | float]:
    """Average, median, largest minus smallest, and how many different counts there are."""
    return {
        "average": sum(counts) / len(counts),
        "median": float(median(counts)),
        "spread": max(counts) - min(counts),
        "different": len(set(counts)),
    }


def make_key(truth: GroundTruth) -> dict[str, Any]:
    """The answer block that scores full marks."""
    images = truth.table("images").records()
    return {
        "task": NAME,
        "counts": {str(row["filename"]): row["n_circles"] for row in images},
        **truth.table("result").records()[0],
    }


PROMPT = """\
Your work folder holds {parameters.files} pictures, `1.png` to `{parameters.files}.png`. Each \
shows at least one black disc on a white ground. All discs have the same size; no two of them \
touch or overlap, and none is cut off by the edge.

Count the discs in each picture, then describe the counts: their average, their median, the \
largest minus the smallest, and how many different counts there are.

Report your findings in two sections:

CIRCLE COUNTS: one line for each picture, with its file name and its count.
DESCRIPTION: the average and the median of the counts, to at least two decimals; the largest \
minus the smallest; and the number of different counts.

End with one JSON object between two lines of their own, as shown here, with every picture \
under `counts`:

<answer>
{{"task": "count_circles", "counts": {{"1.png": <integer>, …, \
"{parameters.files}.png": <integer>}}, \
"average": <number>, "median": <number>, "spread": <integer>, "different": <integer>}}
</answer>

You may instead write the same object to the file `answer.json` in the work folder.
"""

_COUNTS = {"type": "object", "additionalProperties": {"type": "integer"}}
_WHOLE = {"type": "integer"}
ANSWER_SCHEMA = answer_schema(
    NAME,
    {"counts": _COUNTS, "average": NUMBER, "median": NUMBER, "spread": _WHOLE, "different": _WHOLE},
)


def make_rubric(truth: GroundTruth) -> Rubric:
    """The criteria of an instance with this truth."""
    images = truth.table("images").records()
    # A guessed average earns nothing: half of the counts must be right (R8e).
    gate = ShareOf(tuple(_count_is_right(row) for row in images))
    return fill_rubric(_metarubrics(gate, len(images)), dict(truth.tables))


def _count_is_right(row: Row) -> ValueEquals:
    return ValueEquals(("counts", str(row["filename"])), int(row["n_circles"]))


def _metarubrics(gate: ShareOf, files: int) -> tuple[Metarubric, ...]:
    own_mean = MeanAgrees(("average",), ("counts",), files, AVERAGE_TOLERANCE)

    def whole(name: str) -> Callable[[Row], Gated]:
        return lambda row: Gated(ValueEquals((name,), int(row[name])), gate)

    return (
        *form_criteria(NAME, ANSWER_SCHEMA, 0.3),
        Metarubric(
            "count_circles",
            "IM",
            12.0,
            "The answer states that {filename} shows {n_circles} disc(s).",
            _count_is_right,
            source="images",
        ),
        Metarubric(
            "average_circles",
            "SR",
            2.0,
            "The answer states that the average number of discs per picture is {average:.2f} "
            f"(± {AVERAGE_TOLERANCE}).",
            number_near("average", AVERAGE_TOLERANCE, gate),
            source="result",
            headline=True,
        ),
        Metarubric(
            "average_consistent",
            "SR",
            1.0,
            f"The stated average is that of the answer's own counts (± {AVERAGE_TOLERANCE}).",
            Gated(own_mean, gate),
        ),
        Metarubric(
            "median_circles",
            "SR",
            2.0,
            "The answer states that the median number of discs per picture is {median:.1f} "
            f"(± {AVERAGE_TOLERANCE}).",
            number_near("median", AVERAGE_TOLERANCE, gate),
            source="result",
        ),
        Metarubric(
            "spread_of_circles",
            "SR",
            1.0,
            "The answer states that the largest count is {spread} more than the smallest.",
            whole("spread"),
            source="result",
        ),
        Metarubric(
            "different_counts",
            "SR",
            1.0,
            "The answer states that there are {different} different counts.",
            whole("different"),
            source="result",
        ),
    )


def make_nulls(parameters: Parameters) -> dict[str, dict[str, Any]]:
    """By name: nothing, all counts at once, the middle of the range, each constant, and
    counts that run through the range."""
    names = file_names(parameters.files)
    counts = list(range(1, parameters.most + 1))
    nulls = {
        "empty": {},
        "everything": {"task": NAME, "counts": dict.fromkeys(names, counts), "average": counts},
        "prior": make_answer([(1 + parameters.most) // 2] * len(names)),
        "ramp": make_answer([counts[index % len(counts)] for index in range(len(names))]),
    }
    constants = {f"constant-{count}": make_answer([count] * len(names)) for count in counts}
    return nulls | constants


def make_answer(counts: Sequence[int]) -> dict[str, Any]:
    """The answer block for these counts of the pictures, in order."""
    named = dict(zip(file_names(len(counts)), counts, strict=True))
    return {"task": NAME, "counts": named, **describe(counts)}


def draw(parameters: Parameters, streams: Streams) -> Drawn:
    """The pictures and the truth of one seed."""
    sample = draw_sample(parameters, streams)
    files = InputFiles()
    for name, centres in zip(file_names(parameters.files), sample.images, strict=True):
        pixels = draw_image(centres)
        files.add_picture(name, encode_png(pixels), pixels, PICTURE_BYTES)
    counts = [len(centres) for centres in sample.images]
    return Drawn(files, make_truth(counts), {"redraws": sample.redraws})


FAMILY = FamilyOfParts(  # after PARAMETR-Bench's _count_circles
    name=NAME,
    version="3",
    summary="count the discs in each of several pictures, and describe the counts",
    package=__name__,
    by_difficulty=BY_DIFFICULTY,
    draw=draw,
    prompt=PROMPT,
    answer_schema=ANSWER_SCHEMA,
    make_rubric=make_rubric,
    key=make_key,
    make_nulls=make_nulls,
)
