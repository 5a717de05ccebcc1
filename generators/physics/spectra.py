"""Spectra of emission lines: a fixed laboratory set, seen with lines missing and redshifted.

Drawn as bars or as a strip, 2000 × 290 grey pixels at exactly 6 to the nanometre, so that a
centroid of a line, read against the scale's tick marks, gives its wavelength. Values of columns
come from ``math.erf`` alone and are rounded to whole grey levels, such that the last bits of the C
library's erf do not show."""

from __future__ import annotations

import functools
import io
import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from generators.seed import Streams, redraw
from generators.stream import Stream

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]

# Wavelength in air (nm), and a relative intensity of our own. All are permitted lines of neutral
# atoms that lamps show: H, He, Li, Na, Mg, Ca and Hg (J. E. Sansonetti and W. C. Martin, Handbook
# of Basic Atomic Spectroscopic Data, NIST Standard Reference Database 108).
LAB_LINES: tuple[tuple[float, float], ...] = (
    (656.279, 1.0),  # H
    (501.568, 0.9),  # He
    (588.995, 0.85),  # Na
    (589.592, 0.8),  # Na
    (486.135, 0.75),  # H
    (492.193, 0.65),  # He
    (587.562, 0.6),  # He
    (546.074, 0.55),  # Hg
    (670.776, 0.5),  # Li
    (434.047, 0.45),  # H
    (518.360, 0.38),  # Mg
    (517.268, 0.34),  # Mg
    (410.174, 0.3),  # H
    (667.815, 0.27),  # He
    (610.354, 0.23),  # Li
    (435.833, 0.2),  # Hg
    (447.148, 0.17),  # He
    (422.673, 0.15),  # Ca
    (471.315, 0.12),  # He
    (402.619, 0.1),  # He
)

# Conditions for a readable spectrum.
FEWEST_LINES = 3
WIDEST_PAIR = 30.0  # nm, at least, between the outermost lines
LARGEST_Z = 0.08  # no second redshift up to here may explain all lines
MATCH = 0.06  # nm

ID_DIGITS = 10  # of galaxies and stars: few enough to read, and no two instances share one

# The drawing, in pixels; rows count from the top.
WIDTH, HEIGHT = 2000, 290  # no side above what models are shown unscaled
LEFT, RIGHT = 120, 1920  # the columns centred on the ends of the scale
PER_NM = 6
SHORTEST, LONGEST = 400, 700  # nm
SIGMA = 0.15  # nm
REACH = 12  # columns either side of a line in which it shows
BASE = 200  # first row below the plot
BAR = 140  # rows of a bar of full height
BAR_GREY = 230
TOP_OF_BARS, TOP_OF_STRIP = 53, 50
FONT_SIZE = 20

_BLACK, _WHITE = 0, 255
_GREYS = bytes(grey for grey in range(256) for _ in "rgb")
_SHORT_TICK, _LONG_TICK = 6, 12
_NUMBERS_ROW, _LABEL_ROW, _TITLE_ROW = 215, 250, 14
# Integral of a Gaussian of height 1 over a column, divided by the column's width, is this times
# the difference of erf between the column's edges.
_AREA = SIGMA * math.sqrt(math.pi / 2.0) * PER_NM
_TO_ERF = 1.0 / (PER_NM * SIGMA * math.sqrt(2.0))
# The last bits of erf depend on the C library; so many decimals hide them.
_DECIMALS = 10


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its wavelength in nm, and its intensity relative to the brightest known."""

    wavelength: float
    intensity: float


def lab_spectrum() -> tuple[Line, ...]:
    """All lines, at rest."""
    return tuple(Line(wavelength, intensity) for wavelength, intensity in LAB_LINES)


def keep_lines(stream: Stream, probability: float) -> tuple[bool, ...]:
    """Draw the lab lines that a spectrum shows, each with the same probability."""
    return tuple(stream.chance(probability) for _ in LAB_LINES)


def observe(z: float, kept: Iterable[bool]) -> tuple[Line, ...]:
    """The kept lines at redshift ``z``, those within the scale, in the order of LAB_LINES."""
    shown = []
    for (wavelength, intensity), keep in zip(LAB_LINES, kept, strict=True):
        shifted = wavelength * (1.0 + z)
        if keep and SHORTEST <= shifted <= LONGEST:
            shown.append(Line(shifted, intensity))
    return tuple(shown)


def draw_lines(
    z: float, probability: float, streams: Streams, index: int
) -> tuple[tuple[bool, ...], int]:
    """Lines of the galaxy of this number that give its redshift, and how often they were redrawn.

    Raises GuardExhausted.
    """

    def lines(attempt: int) -> tuple[bool, ...] | None:
        kept = keep_lines(streams.at("lines", index, attempt), probability)
        return kept if is_identifiable(z, kept) else None

    return redraw(lines, f"lines of galaxy {index + 1}")


def distinct_ids(prefix: str, count: int, stream: Stream) -> tuple[str, ...]:
    """Different identifiers of galaxies or stars. A longer list begins with the shorter one."""
    ids: dict[str, None] = {}
    while len(ids) < count:
        ids[f"{prefix}{stream.integer(0, 10**ID_DIGITS - 1):0{ID_DIGITS}d}"] = None
    return tuple(ids)


def is_identifiable(z: float, kept: Iterable[bool]) -> bool:
    """True if the positions of the lines alone give the redshift: there are at least three, two
    of them 30 nm apart, and no second redshift from 0 to 0.08 puts a lab line within 0.06 nm of
    each of them."""
    seen = sorted(line.wavelength for line in observe(z, kept))
    if len(seen) < FEWEST_LINES or seen[-1] - seen[0] < WIDEST_PAIR:
        return False
    return all(low <= z <= high for low, high in _explanations(seen))


def _explanations(seen: Sequence[float]) -> list[tuple[float, float]]:
    """The intervals of redshift in which each line seen lies on some lab line.

    Lab lines are at least 0.5 nm apart, so intervals of different identifications are disjoint.
    """
    ranges = [(0.0, LARGEST_Z)]
    for wavelength in seen:
        near = [
            ((wavelength - MATCH) / lab - 1.0, (wavelength + MATCH) / lab - 1.0)
            for lab, _ in LAB_LINES
            if lab <= wavelength + MATCH
        ]
        ranges = [
            (max(low, start), min(high, end))
            for low, high in ranges
            for start, end in near
            if start <= high and low <= end
        ]
    return ranges


# --- drawing


def paint_bars(title: str, lines: Iterable[Line]) -> Pixels:
    """A page of grey bars on black, as tall as the spectrum is bright (0 to 1.05)."""
    import numpy as np

    pixels = _axes("bars").copy()
    columns = _columns(lines)
    heights = [value * BAR for value in columns.values()]
    places = [column - LEFT for column in columns]
    whole = np.zeros(RIGHT + 1 - LEFT, np.uint8)
    whole[places] = [int(height) for height in heights]
    row = np.arange(BAR, -1, -1, dtype=np.uint8)[:, None]  # counted upwards from the base
    bars = pixels[BASE - BAR - 1 : BASE, LEFT : RIGHT + 1]
    np.multiply(row < whole, np.uint8(BAR_GREY), out=bars)
    bars[BAR - whole[places].astype(int), places] = [
        _grey(height % 1.0, BAR_GREY) for height in heights
    ]
    _entitle(pixels, title)
    return pixels


def paint_strip(title: str, lines: Iterable[Line]) -> Pixels:
    """A page with a strip, each column as bright as the spectrum."""
    pixels = _axes("strip").copy()
    columns = _columns(lines)
    row = pixels[TOP_OF_STRIP].copy()
    row[list(columns)] = [_grey(value, _WHITE) for value in columns.values()]
    pixels[TOP_OF_STRIP:BASE] = row
    _entitle(pixels, title)
    return pixels


def encode_page(pixels: Pixels) -> bytes:
    """An 8-bit palette of greys, zlib level 6, no text chunk and no time in it.

    A palette is written unfiltered, and only runs are sought: less than half of the time that
    such a page takes otherwise, at some 6 kB more, and there is no hash of earlier bytes that
    could depend on the processor.
    """
    from PIL import Image

    image = Image.fromarray(pixels)
    image.putpalette(_GREYS)  # grey v is entry v: the pixels are what they were
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=6, compress_type=zlib.Z_RLE)
    return buffer.getvalue()


def _columns(lines: Iterable[Line]) -> dict[int, float]:
    """The spectrum in each column near a line: its mean over the column's width, divided by the
    largest of all columns and rounded to _DECIMALS."""
    values: dict[int, float] = {}
    for line in lines:
        middle = LEFT + (line.wavelength - SHORTEST) * PER_NM
        first = max(round(middle) - REACH, LEFT)
        last = min(round(middle) + REACH, RIGHT)
        area = line.intensity * _AREA
        below = math.erf((first - 0.5 - middle) * _TO_ERF)
        for column in range(first, last + 1):
            above = math.erf((column + 0.5 - middle) * _TO_ERF)
            values[column] = values.get(column, 0.0) + area * (above - below)
            below = above
    brightest = max(values.values(), default=1.0)
    return {column: round(value / brightest, _DECIMALS) for column, value in values.items()}


def _grey(value: float, full: int) -> int:
    """The nearest whole level; the brighter of two that are equally near."""
    return int(value * full + 0.5)


@functools.cache
def _font() -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(FONT_SIZE)


@functools.cache
def _axes(kind: str) -> Pixels:
    """The page without spectrum and title; drawn once in a process, never written to."""
    import numpy as np
    from PIL import Image, ImageDraw

    page = Image.new("L", (WIDTH, HEIGHT), _WHITE)
    draw = ImageDraw.Draw(page)
    top = TOP_OF_BARS if kind == "bars" else TOP_OF_STRIP
    draw.rectangle((LEFT, top, RIGHT, BASE - 1), fill=_BLACK)
    _draw_scale(draw)
    if kind == "bars":
        _draw_intensities(page, draw)
    pixels = np.array(page)
    pixels.flags.writeable = False
    return pixels


def _draw_scale(draw: Any) -> None:
    """Marks each nanometre, one pixel wide on the middle of its column; numbers each 50 nm."""
    for wavelength in range(SHORTEST, LONGEST + 1):
        column = LEFT + (wavelength - SHORTEST) * PER_NM
        length = _SHORT_TICK if wavelength % 10 else _LONG_TICK
        draw.line((column, BASE, column, BASE + length - 1), fill=_BLACK)
        if wavelength % 50 == 0:
            _write(draw, (column, _NUMBERS_ROW), str(wavelength))
    _write(draw, ((LEFT + RIGHT) // 2, _LABEL_ROW), "Wavelength (nm)")


def _draw_intensities(page: Any, draw: Any) -> None:
    """The axis of a bar's height."""
    from PIL import Image, ImageDraw

    for share, text in ((0, "0.0"), (1, "0.5"), (2, "1.0")):
        row = BASE - share * BAR // 2
        draw.line((LEFT - _SHORT_TICK, row, LEFT - 1, row), fill=_BLACK)
        draw.text((LEFT - 12, row), text, fill=_BLACK, font=_font(), anchor="rm")
    label = Image.new("L", (200, 30), _WHITE)
    ImageDraw.Draw(label).text((100, 15), "Relative Intensity", 0, _font(), anchor="mm")
    page.paste(label.transpose(Image.Transpose.ROTATE_90), (20, (BASE + TOP_OF_BARS) // 2 - 100))


def _write(draw: Any, place: tuple[int, int], text: str) -> None:
    draw.text(place, text, fill=_BLACK, font=_font(), anchor="ma")


def _entitle(pixels: Pixels, title: str) -> None:
    """Write the title into the page's head, which is white."""
    import numpy as np
    from PIL import Image, ImageDraw

    head = Image.new("L", (WIDTH, TOP_OF_STRIP), _WHITE)
    _write(ImageDraw.Draw(head), ((LEFT + RIGHT) // 2, _TITLE_ROW), title)
    pixels[:TOP_OF_STRIP] = np.asarray(head)
