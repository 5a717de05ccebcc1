"""Pictures: black discs on white, grey only along the rims.

Every pixel follows from sums, products and square roots, which IEEE 754 rounds correctly on
every machine. The compressed bytes are those of Pillow's own zlib-ng, which the lock pins; they
were found the same with AVX-512 and on emulated Haswell and Nehalem processors.
"""

from __future__ import annotations

import io
import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from generators.basics.count_circles.parameters import RADIUS, SIDE
from generators.basics.count_circles.sample import Centres

Pixels = NDArray[np.uint8]


def draw_image(centres: Centres) -> Pixels:
    """SIDE × SIDE grey values, row by row from the top."""
    pixels = np.full((SIDE, SIDE), 255, np.uint8)
    for x, y in centres:
        _draw_disc(pixels, x, y)
    return pixels


def _draw_disc(pixels: Pixels, x: float, y: float) -> None:
    """Darken each pixel near the disc by the distance of its middle from the rim."""
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
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=6)
    return buffer.getvalue()
