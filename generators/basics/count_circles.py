"""Count the black discs of each picture, and average the counts (spec/physics.md, section 6;
docs/decisions/0002).

Every pixel follows from sums, products and square roots, which IEEE 754 rounds correctly on
every machine. The compressed bytes are those of Pillow's own zlib-ng, which the lock pins; they
were found the same with AVX-512 and on emulated Haswell and Nehalem processors.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
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
from generators.grading import (
    Gated,
    MeanAgrees,
    Metarubric,
    Row,
    Rubric,
    ShareOf,
    ValueEquals,
    fill_rubric,
    number_near,
)
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

AVERAGE_TOLERANCE = 0.005


@dataclass(frozen=True, slots=True)
class Parameters(FamilyParameters):
    """Number of images, and largest number of discs in an image."""

    files: int
    most: int


BY_DIFFICULTY = {
    "easy": Parameters(files=2, most=7, limits=Limits(turns=10)),
    "medium": Parameters(files=10, most=10, limits=Limits(turns=20)),
    "hard": Parameters(files=30, most=30, limits=Limits(turns=50, working_seconds=1800.0)),
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
    counts, redraws = redraw(lambda attempt: _counts(parameters, streams, attempt), "counts")
    images = []
    for index, count in enumerate(counts):
        centres, attempt = redraw(
            partial(_centres, count, streams, index), f"centres of image {index + 1}"
        )
        images.append(centres)
        redraws += attempt
    return Sample(tuple(images), redraws)


def _counts(parameters: Parameters, streams: Streams, attempt: int) -> tuple[int, ...] | None:
    """Uniform on 1…most; None if all are equal, since one guess would then meet them all."""
    counts = tuple(
        streams.at("count", index, attempt).integer(1, parameters.most)
        for index in range(parameters.files)
    )
    return counts if len(set(counts)) > 1 else None


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
    """Tables ``images`` (filename, n_circles) and ``result`` (average)."""
    images = tuple(zip(file_names(len(counts)), counts, strict=True))
    return GroundTruth(
        tables=(
            ("images", TruthTable(("filename", "n_circles"), images)),
            ("result", TruthTable.of_row(average=sum(counts) / len(counts))),
        ),
        tolerances=(("average", AVERAGE_TOLERANCE),),
    )


def make_key(truth: GroundTruth) -> dict[str, Any]:
    """The answer block that scores full marks."""
    images = truth.table("images").records()
    return {
        "task": NAME,
        "counts": {str(row["filename"]): row["n_circles"] for row in images},
        "average": truth.table("result").column("average")[0],
    }


PROMPT = """\
Your work folder holds {parameters.files} pictures, `1.png` to `{parameters.files}.png`. Each \
shows at least one black disc on a white ground. All discs have the same size; no two of them \
touch or overlap, and none is cut off by the edge.

Count the discs in each picture, then work out the average number of discs per picture.

Report your findings in two sections:

CIRCLE COUNTS: one line for each picture, with its file name and its count.
AVERAGE: the average of the counts, to at least two decimals.

End with one JSON object between two lines of their own, as shown here, with every picture \
under `counts`:

<answer>
{{"task": "count_circles", "counts": {{"1.png": <integer>, …, \
"{parameters.files}.png": <integer>}}, \
"average": <number>}}
</answer>

You may instead write the same object to the file `answer.json` in the work folder.
"""

_COUNTS = {"type": "object", "additionalProperties": {"type": "integer"}}
ANSWER_SCHEMA = answer_schema(NAME, {"counts": _COUNTS, "average": NUMBER})


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
    return (
        *form_criteria(NAME, ANSWER_SCHEMA, 0.3),
        Metarubric(
            "count_circles",
            "IM",
            8.0,
            "The answer states that {filename} shows {n_circles} disc(s).",
            _count_is_right,
            "images",
        ),
        Metarubric(
            "average_circles",
            "SR",
            10.0,
            "The answer states that the average number of discs per picture is {average:.2f} "
            f"(± {AVERAGE_TOLERANCE}), and gets at least half of the counts right.",
            number_near("average", AVERAGE_TOLERANCE, gate),
            "result",
            headline=True,
        ),
        Metarubric(
            "average_consistent",
            "SR",
            1.0,
            f"The stated average is that of the answer's own counts (± {AVERAGE_TOLERANCE}), and "
            "at least half of the counts are right.",
            Gated(own_mean, gate),
        ),
    )


def make_nulls(parameters: Parameters) -> dict[str, dict[str, Any]]:
    """By name: nothing, all counts at once, the middle of the range, each constant, and
    counts that run through the range (the best fixed guess at easy)."""
    names = file_names(parameters.files)
    counts = list(range(1, parameters.most + 1))
    nulls = {
        "empty": {},
        "everything": {"task": NAME, "counts": dict.fromkeys(names, counts), "average": counts},
        "prior": _answer([(1 + parameters.most) // 2] * len(names), (1 + parameters.most) / 2),
        "ramp": _answer([counts[index % len(counts)] for index in range(len(names))]),
    }
    constants = {f"constant-{count}": _answer([count] * len(names)) for count in counts}
    return nulls | constants


def _answer(counts: list[int], average: float | None = None) -> dict[str, Any]:
    named = dict(zip(file_names(len(counts)), counts, strict=True))
    mean = sum(counts) / len(counts)
    return {"task": NAME, "counts": named, "average": mean if average is None else average}


def draw(parameters: Parameters, streams: Streams) -> Drawn:
    """The pictures and the truth of one seed."""
    sample = draw_sample(parameters, streams)
    files = InputFiles()
    for name, centres in zip(file_names(parameters.files), sample.images, strict=True):
        pixels = draw_image(centres)
        files.add_picture(name, encode_png(pixels), pixels)
    counts = [len(centres) for centres in sample.images]
    return Drawn(files, make_truth(counts), {"redraws": sample.redraws})


FAMILY = FamilyOfParts(  # after PARAMETR-Bench's _count_circles
    name=NAME,
    version="2",
    summary="count the discs in each of several pictures, and average the counts",
    package="generators.basics",
    solver_file="count_circles_solver.py",
    by_difficulty=BY_DIFFICULTY,
    draw=draw,
    prompt=PROMPT,
    answer_schema=ANSWER_SCHEMA,
    make_rubric=make_rubric,
    key=make_key,
    make_nulls=make_nulls,
)
