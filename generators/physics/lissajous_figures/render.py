"""The tables of units and coils, and the oscilloscope's pictures: a turquoise curve on a grid.

Pixels follow from whole numbers alone: cosines come from one table of 2**-26ths, whose entries
lie further from rounding ties than any mathematical library errs, and every angle is a whole
number of its steps. Compressed as in count_circles.
"""

from __future__ import annotations

import functools
import io
import math
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from generators.physics.lissajous_figures.parameters import COIL_COLUMNS, COLUMNS, SIDE, TURN, UNIT
from generators.physics.lissajous_figures.sample import Figure, Unit

Pixels = NDArray[np.uint8]

COSINE_BITS = 26
_FINE = 2  # fine pixels to a pixel, each way
_LEVELS = _FINE * _FINE + 1  # of a pixel's cover by the curve
_TURQUOISE = (64, 224, 208)
_BLACK = (0, 0, 0)
_GREY = (90, 90, 90)
_GRID_STEP = 3 * UNIT // 2
_POINTS = 4096  # along the curve for each of its p cycles: at most two fine pixels apart
_SHIFT = COSINE_BITS + 1  # from quarters of a pixel to fine pixels
# A round pen, four fine pixels wide: all fine pixels with middles within 2 of its own middle.
_PEN = tuple(
    (x, y) for x in range(-2, 2) for y in range(-2, 2) if (x + 0.5) ** 2 + (y + 0.5) ** 2 <= 4
)


def write_table(units: Sequence[Unit]) -> bytes:
    """A header and a line for each unit; the measurement of an untested one is empty."""
    lines = [",".join(COLUMNS)]
    for unit in units:
        cells = (str(unit.day), unit.supply_id, unit.machine, unit.batch, unit.measurement_id)
        lines.append(",".join(cells))
    return "".join(f"{line}\n" for line in lines).encode()


def write_coils(coils: Sequence[tuple[str, str]]) -> bytes:
    """A header and a line for each coil."""
    return "".join(f"{','.join(cells)}\n" for cells in (COIL_COLUMNS, *coils)).encode()


def draw_picture(figure: Figure) -> Pixels:
    """SIDE × SIDE palette indices: the pixel's cover, and _LEVELS more on the grid."""
    fine = np.zeros((SIDE * _FINE, SIDE * _FINE), np.uint8)
    across, down = trace(figure)
    flat = fine.reshape(-1)
    middle = down * (SIDE * _FINE) + across
    for x, y in _PEN:
        flat[middle + (y * SIDE * _FINE + x)] = 1
    rows = fine[0::2] + fine[1::2]
    pixels: Pixels = rows[:, 0::2] + rows[:, 1::2]
    pixels += _grid()
    return pixels


def trace(figure: Figure) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Columns and rows of the fine pixels that the pen's middle passes, the lines between
    which the pen straddles."""
    p, q = figure.ratio.p, figure.ratio.q
    points = min(TURN, 1 << (_POINTS * p - 1).bit_length())
    steps = np.arange(0, TURN, TURN // points, dtype=np.int64)
    cosines = cosine_table()
    x = figure.width * cosines[(p * steps + figure.delta) % TURN]
    y = figure.height * cosines[(q * steps) % TURN]
    half = 1 << (_SHIFT - 1)
    middle = SIDE * _FINE // 2
    return middle + ((x + half) >> _SHIFT), middle - ((y + half) >> _SHIFT)


@functools.cache
def cosine_table() -> NDArray[np.int64]:
    """cos(2πk/TURN) in whole 2**-COSINE_BITS, for each k."""
    scale = 1 << COSINE_BITS
    return np.array([round(scale * math.cos(2 * math.pi * k / TURN)) for k in range(TURN)])


@functools.cache
def _grid() -> Pixels:
    grid = np.zeros((SIDE, SIDE), np.uint8)
    for step in range(-4, 5):
        at = SIDE // 2 + step * _GRID_STEP
        grid[at - 1 : at + 1, :] = _LEVELS
        grid[:, at - 1 : at + 1] = _LEVELS
    return grid


def encode_png(pixels: Pixels) -> bytes:
    """Palette colours, zlib level 6, no text and no time in it. Only runs are sought, as for
    spectra."""
    image = Image.fromarray(pixels)
    image.putpalette(palette())
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=6, compress_type=zlib.Z_RLE)
    return buffer.getvalue()


def palette() -> bytes:
    """The curve's colour over black, then over the grid's grey, by cover."""
    most = _LEVELS - 1
    return bytes(
        (cover * colour + (most - cover) * ground + most // 2) // most
        for grounds in (_BLACK, _GREY)
        for cover in range(_LEVELS)
        for colour, ground in zip(_TURQUOISE, grounds, strict=True)
    )
