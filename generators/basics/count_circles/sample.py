"""Draws: how many discs each image has, and where."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from generators.basics.count_circles.parameters import GAP, MARGIN, SIDE, Parameters
from generators.stream import Stream
from generators.streams import Streams, redraw

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
