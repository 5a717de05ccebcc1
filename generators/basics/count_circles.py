"""Count the black discs of each picture, and average the counts (spec/physics.md, section 6;
docs/decisions/0002).

Every pixel follows from sums, products and square roots, which IEEE 754 rounds correctly on
every machine. The compressed bytes are those of Pillow's own zlib-ng, which the lock pins; they
were found the same with AVX-512 and on emulated Haswell and Nehalem processors.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import rfc8785

from generators.errors import unknown
from generators.family import Drawn, FamilyOfParts, Parts
from generators.grading import (
    Gated,
    MeanAgrees,
    Metarubric,
    NumberWithin,
    Rubric,
    ShareOf,
    ValueEquals,
    fill_rubric,
)
from generators.stream import Stream
from generators.streams import Streams, redraw
from generators.task import Asset, GroundTruth, Limits, Scalar, TruthTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NAME = "count_circles"
VERSION = "1"

# Geometry in pixels.
SIDE = 512
RADIUS = 12
MARGIN = 24  # of a centre from the edge
GAP = 30  # between centres, at least

AVERAGE_TOLERANCE = 0.005


@dataclass(frozen=True, slots=True)
class Parameters:
    """How many images, how many discs at most in each, and what an episode may use."""

    files: int
    most: int
    limits: Limits


BY_DIFFICULTY = {
    "easy": Parameters(files=2, most=6, limits=Limits(turns=10)),
    "medium": Parameters(files=10, most=10, limits=Limits(turns=20)),
    "hard": Parameters(files=30, most=30, limits=Limits(turns=50, episode_seconds=1800.0)),
}


def parameters_of(difficulty: str) -> Parameters:
    """Raises GeneratorError for an unknown difficulty."""
    if difficulty not in BY_DIFFICULTY:
        raise unknown("difficulty", difficulty, BY_DIFFICULTY)
    return BY_DIFFICULTY[difficulty]


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
    """Raises GuardExhausted where a draw stays degenerate."""
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
    """Uniform on 1…most; None where all are equal, since one guess would then meet them all."""
    counts = tuple(
        streams.at("count", index, attempt).integer(1, parameters.most)
        for index in range(parameters.files)
    )
    return counts if len(set(counts)) > 1 else None


def _centres(count: int, streams: Streams, index: int, attempt: int) -> Centres | None:
    return place(count, streams.at("centres", index, attempt))


def place(count: int, stream: Stream) -> Centres | None:
    """So many centres, uniform but never closer than GAP; None where they found no room."""
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


def make_truth(
    counts: Sequence[int], assets: Sequence[Asset], pixels: Sequence[bytes]
) -> GroundTruth:
    """Tables ``images`` (filename, n_circles) and ``result`` (average); the SHA-256 of each
    file and of its decoded pixels."""
    images = tuple((asset.path, count) for asset, count in zip(assets, counts, strict=True))
    digests = [(asset.path, asset.digest) for asset in assets]
    for asset, decoded in zip(assets, pixels, strict=True):
        digests.append((f"{asset.path}#pixels", "sha256:" + hashlib.sha256(decoded).hexdigest()))
    return GroundTruth(
        tables=(
            ("images", TruthTable(("filename", "n_circles"), images)),
            ("result", TruthTable(("average",), ((sum(counts) / len(counts),),))),
        ),
        tolerances=(("average", AVERAGE_TOLERANCE),),
        digests=tuple(digests),
    )


def make_key(truth: GroundTruth) -> dict[str, Any]:
    """The answer block that scores full marks."""
    images = truth.table("images").records()
    return {
        "task": NAME,
        "counts": {str(row["filename"]): row["n_circles"] for row in images},
        "average": truth.table("result").column("average")[0],
    }


_PROMPT = """\
Your work folder holds {files} pictures, `{first}` to `{last}`. Each shows at least one black \
disc on a white ground. All discs have the same size; no two of them touch or overlap, and \
none is cut off by the edge.

Count the discs in each picture, then work out the average number of discs per picture.

Report your findings in two sections:

CIRCLE COUNTS: one line for each picture, with its file name and its count.
AVERAGE: the average of the counts, to at least two decimals.

End with one JSON object between two lines of their own, as shown here, with every picture \
under `counts`:

<answer>
{{"task": "{name}", "counts": {{"{first}": <integer>, …, "{last}": <integer>}}, \
"average": <number>}}
</answer>

You may instead write the same object to the file `answer.json` in the work folder.
"""

_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["task", "counts", "average"],
    "properties": {
        "task": {"const": NAME},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "average": {"type": "number"},
    },
}

ANSWER_SCHEMA = rfc8785.dumps(_SCHEMA).decode()


def make_prompt(parameters: Parameters) -> str:
    """The task as the agent reads it."""
    names = file_names(parameters.files)
    return _PROMPT.format(files=parameters.files, first=names[0], last=names[-1], name=NAME)


def make_rubric(truth: GroundTruth) -> Rubric:
    """The criteria of an instance with this truth."""
    images = truth.table("images").records()
    # A guessed average earns nothing: half of the counts must be right (R8e).
    gate = ShareOf(tuple(_count_is_right(row, 0) for row in images))
    return fill_rubric(_metarubrics(gate, len(images)), dict(truth.tables))


def _count_is_right(row: Mapping[str, Scalar], _: int) -> ValueEquals:
    return ValueEquals(("counts", str(row["filename"])), int(row["n_circles"]))


def _metarubrics(gate: ShareOf, files: int) -> tuple[Metarubric, ...]:
    def average(row: Mapping[str, Scalar], _: int) -> Gated:
        mean = float(row["average"])
        low, high = mean - AVERAGE_TOLERANCE, mean + AVERAGE_TOLERANCE
        return Gated(NumberWithin(("average",), low, high), gate)

    own_mean = MeanAgrees(("average",), ("counts",), files, AVERAGE_TOLERANCE)
    return (
        Metarubric(
            "answer_block",
            "IF",
            0.3,
            "The answer ends with the JSON object that the task asks for.",
            lambda _row, _index: ValueEquals(("task",), NAME),
        ),
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
            average,
            "result",
        ),
        Metarubric(
            "average_consistent",
            "SR",
            1.0,
            f"The stated average is that of the answer's own counts (± {AVERAGE_TOLERANCE}), and "
            "at least half of the counts are right.",
            lambda _row, _index: Gated(own_mean, gate),
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


PARTS = Parts(
    "generators.basics.solvers",
    parameters_of,
    make_prompt,
    ANSWER_SCHEMA,
    make_rubric,
    make_nulls,
    solver="count_circles.py",
)


@dataclass(frozen=True, slots=True)
class CountCircles(FamilyOfParts[Parameters]):
    """The family, after PARAMETR-Bench's _count_circles."""

    name: str = NAME
    version: str = VERSION
    summary: str = "count the discs in each of several pictures, and average the counts"
    parts: Parts[Parameters] = PARTS

    def describe(self, parameters: Parameters) -> dict[str, int | float | str]:
        """The parameters as people read them."""
        return {"files": parameters.files, "most": parameters.most}

    def draw(self, parameters: Parameters, streams: Streams) -> Drawn:
        """The input files and the truth of one seed."""
        sample = draw_sample(parameters, streams)
        pixels = [draw_image(centres) for centres in sample.images]
        assets = tuple(
            Asset(name, "image/png", encode_png(drawn))
            for name, drawn in zip(file_names(parameters.files), pixels, strict=True)
        )
        counts = [len(centres) for centres in sample.images]
        truth = make_truth(counts, assets, [drawn.tobytes() for drawn in pixels])
        return Drawn(assets, truth, {"redraws": sample.redraws})

    def key(self, truth: GroundTruth) -> dict[str, Any]:
        """The answer block that scores full marks."""
        return make_key(truth)


FAMILY = CountCircles()
