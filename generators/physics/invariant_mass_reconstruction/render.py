"""Files: two tables of what was measured, and three pictures of the instrument.

The pictures are made of flat colours at twice their size and then halved: a pixel's shade is
the number, 0 to 4, of its quarters that are painted, so all of it is arithmetic of integers.
"""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from generators.physics.invariant_mass_reconstruction.measure import (
    ANGLE_DECIMALS,
    Z_DECIMALS,
    Event,
)
from generators.physics.invariant_mass_reconstruction.sample import Detector

Pixels = NDArray[np.uint8]

# Ink 0 is paper. Then black, grey, red, and one for each layer of the tracker.
_INKS = (
    (0, 0, 0),
    (170, 170, 170),
    (214, 39, 40),
    (31, 119, 180),
    (44, 160, 44),
    (148, 103, 189),
    (140, 86, 75),
    (227, 119, 194),
    (188, 189, 34),
    (23, 190, 207),
)
_BLACK, _GREY, _RED, _FIRST_LAYER = 1, 2, 3, 4
_SHADES = 4
_TEXT = 20  # px
_SIZE = (1200, 900)


def write_tracker_hits(events: tuple[Event, ...]) -> bytes:
    """Columns event_id, layer, phi (rad), z (m)."""
    lines = ["event_id,layer,phi,z"]
    for number, event in enumerate(events, 1):
        for hit in event.hits:
            phi, z = fixed(hit.phi, ANGLE_DECIMALS), fixed(hit.z, Z_DECIMALS)
            lines.append(f"{number},{hit.layer + 1},{phi},{z}")
    return ("\n".join(lines) + "\n").encode()


def write_calorimeter_hits(events: tuple[Event, ...]) -> bytes:
    """Columns event_id, module, phi (rad), z (m), counts."""
    lines = ["event_id,module,phi,z,counts"]
    for number, event in enumerate(events, 1):
        for cluster in event.clusters:
            phi, z = fixed(cluster.phi, ANGLE_DECIMALS), fixed(cluster.z, Z_DECIMALS)
            lines.append(f"{number},{cluster.module + 1},{phi},{z},{cluster.counts}")
    return ("\n".join(lines) + "\n").encode()


def fixed(value: float, decimals: int) -> str:
    """The value with these decimals, and no negative zero."""
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


@dataclass(frozen=True, slots=True)
class _Page:
    """A drawing at twice its size. All coordinates below are in pixels of the final one."""

    image: Image.Image
    pen: ImageDraw.ImageDraw

    def line(self, points: Iterable[tuple[float, float]], ink: int, width: int = 1) -> None:
        self.pen.line([(_twice(x), _twice(y)) for x, y in points], ink, 2 * width)

    def circle(self, x: float, y: float, radius: float, ink: int, width: int) -> None:
        outer = radius + width / 2
        box = [_twice(x - outer), _twice(y - outer), _twice(x + outer), _twice(y + outer)]
        self.pen.ellipse(box, outline=ink, width=2 * width)

    def arc(self, x: float, y: float, radius: float, ink: int) -> None:
        """A quarter of a circle, to the right and upwards, two pixels wide."""
        outer = radius + 1
        box = [_twice(x - outer), _twice(y - outer), _twice(x + outer), _twice(y + outer)]
        self.pen.arc(box, 270, 360, ink, 4)

    def disc(self, x: float, y: float, radius: float, ink: int) -> None:
        box = [_twice(x - radius), _twice(y - radius), _twice(x + radius), _twice(y + radius)]
        self.pen.ellipse(box, ink)

    def text(self, x: float, y: float, words: str, anchor: str = "la", ink: int = _BLACK) -> None:
        self.pen.text((_twice(x), _twice(y)), words, ink, _font(), anchor)

    def upright(self, x: int, y: int, words: str) -> None:
        """Text that runs upwards, its middle at (x, y)."""
        _left, _top, right, bottom = (math.ceil(side) for side in _font().getbbox(words))
        label = Image.new("L", (right + 2, bottom + 2), 0)
        pen = ImageDraw.Draw(label)
        pen.fontmode = "1"
        pen.text((1, 1), words, _BLACK, _font())
        turned = label.transpose(Image.Transpose.ROTATE_90)
        self.image.paste(turned, (2 * x - turned.width // 2, 2 * y - turned.height // 2))


def _twice(value: float) -> int:
    return math.floor(2 * value + 0.5)


@functools.cache
def _font() -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(2 * _TEXT)
    if not isinstance(font, ImageFont.FreeTypeFont):
        raise RuntimeError("Pillow was built without FreeType, which draws the labels")
    return font


def _blank(width: int, height: int) -> _Page:
    return _page(Image.new("L", (2 * width, 2 * height), 0))


def _page(image: Image.Image) -> _Page:
    pen = ImageDraw.Draw(image)
    pen.fontmode = "1"
    return _Page(image, pen)


# --- a quadrant of the detector

_BEAM = (130, 810)
_SCALE = 460  # px per m
_EDGE = 1.7  # m
_LEGEND = 950


def draw_detector(detector: Detector) -> Pixels:
    """Quarter circles about the beam."""
    page = _page(_detector_axes().copy())
    x, y = _BEAM
    layers = [(_FIRST_LAYER + index, radius) for index, radius in enumerate(detector.layers)]
    for ink, radius in (*layers, (_RED, detector.calorimeter)):
        page.arc(x, y, radius * _SCALE, ink)
    names = [(ink, f"tracker layer {row}") for row, (ink, _) in enumerate(layers, 1)]
    for row, (ink, name) in enumerate((*names, (_RED, "calorimeter"))):
        height = 80 + 34 * row
        page.line([(_LEGEND, height), (_LEGEND + 36, height)], ink, 4)
        page.text(_LEGEND + 48, height, name, "lm")
    return _reduce(page)


@functools.cache
def _detector_axes() -> Image.Image:
    page = _blank(*_SIZE)
    x, y = _BEAM
    side = round(_EDGE * _SCALE)
    page.text(x + side // 2, 2, "Detector, one quadrant at z = 0", "ma")
    page.line([(x, y - side), (x, y), (x + side, y)], _BLACK)
    for tick in range(18):
        along = tick * _SCALE / 10
        length = 12 if tick % 5 == 0 else 6
        page.line([(x + along, y), (x + along, y + length)], _BLACK)
        page.line([(x, y - along), (x - length, y - along)], _BLACK)
        if tick % 5 == 0:
            page.text(x + along, y + 16, f"{tick / 10:.1f}", "ma")
            page.text(x - 18, y - along, f"{tick / 10:.1f}", "rm")
    page.text(x + side // 2, y + 46, "x (m)", "ma")
    page.upright(36, y - side // 2, "y (m)")
    return page.image


# --- the gains of the calorimeter's modules

_LEAST_GAIN, _MOST_GAIN = 4, 20  # MeV per count
_GAIN_AXIS, _GAIN_END, _GAIN_BASE = 170, 1130, 800  # px
_FIRST_ROW, _ROW = 110, 80  # px
_DOT = 7  # px, radius


def draw_gains(detector: Detector) -> Pixels:
    """A dot for each module, above a logarithmic axis of energy per count: an error of reading is
    the same share of any gain."""
    page = _page(_gain_axes().copy())
    for row, gain in enumerate(detector.gains):
        height = _FIRST_ROW + _ROW * row
        page.text(_GAIN_AXIS - 20, height, f"module {row + 1}", "rm")
        page.line([(_GAIN_AXIS, height), (_GAIN_END, height)], _GREY)
        page.disc(_on_gain_axis(gain), height, _DOT, _FIRST_LAYER)
    return _reduce(page)


def _on_gain_axis(gain: float) -> float:
    share = math.log(gain / _LEAST_GAIN) / math.log(_MOST_GAIN / _LEAST_GAIN)
    return _GAIN_AXIS + share * (_GAIN_END - _GAIN_AXIS)


@functools.cache
def _gain_axes() -> Image.Image:
    page = _blank(*_SIZE)
    middle = (_GAIN_AXIS + _GAIN_END) // 2
    page.text(middle, 20, "Calorimeter, energy for one count", "ma")
    page.line([(_GAIN_AXIS, 70), (_GAIN_AXIS, _GAIN_BASE), (_GAIN_END, _GAIN_BASE)], _BLACK)
    for fifth in range(5 * _LEAST_GAIN, 5 * _MOST_GAIN + 1):
        x = _on_gain_axis(fifth / 5)
        length = 12 if fifth % 5 == 0 else 6
        page.line([(x, _GAIN_BASE), (x, _GAIN_BASE + length)], _BLACK)
        if fifth % 5 == 0 and (fifth <= 50 or fifth % 10 == 0):
            page.text(x, _GAIN_BASE + 16, str(fifth // 5), "ma")
    page.text(middle, _GAIN_BASE + 50, "MeV per count", "ma")
    return page.image


# --- the gauge of the magnetic field

_DIAL = (600, 480)
_DIAL_RADIUS, _NEEDLE = 340, 320  # px
_MOST_FIELD = 4.0  # T
_FIRST_ANGLE, _SWEEP = 225.0, 270.0  # degrees: where 0 T stands, and from there to the end


def draw_field(detector: Detector) -> Pixels:
    """A needle on a round scale, with the gauge's own number."""
    page = _page(_gauge().copy())
    page.text(_DIAL[0], _DIAL[1] + 190, f"gauge {detector.gauge}", "mm")
    page.line([_DIAL, _on_dial(detector.field, _NEEDLE)], _RED, 3)
    page.disc(*_DIAL, 12, _BLACK)
    return _reduce(page)


def _on_dial(field: float, radius: float) -> tuple[float, float]:
    angle = math.radians(_FIRST_ANGLE - _SWEEP * field / _MOST_FIELD)
    return _DIAL[0] + radius * math.cos(angle), _DIAL[1] - radius * math.sin(angle)


@functools.cache
def _gauge() -> Image.Image:
    page = _blank(*_SIZE)
    page.text(_DIAL[0], 40, "Magnetic field along +z", "ma")
    page.circle(*_DIAL, _DIAL_RADIUS + 10, _BLACK, 3)
    for tick in range(81):
        field = tick / 20
        length = 26 if tick % 10 == 0 else 16 if tick % 2 == 0 else 8
        ends = [_on_dial(field, _DIAL_RADIUS - inner) for inner in (0, length)]
        page.line(ends, _BLACK, 2 if tick % 10 == 0 else 1)
        if tick % 10 == 0:
            page.text(*_on_dial(field, _DIAL_RADIUS + 42), f"{field:.1f}", "mm")
    page.text(_DIAL[0], _DIAL[1] + 130, "T", "mm")
    return page.image


def _reduce(page: _Page) -> Pixels:
    """Indices into the palette: of each four quarters the uppermost ink, and how many have any."""
    flat = np.asarray(page.image)
    upper, lower = flat[::2], flat[1::2]
    beside = flat.view(np.uint16)  # two neighbours at once
    pairs = beside[::2] | beside[1::2]
    rows, columns = np.nonzero(pairs)
    quarters = np.stack(
        [half[rows, 2 * columns + side] for half in (upper, lower) for side in (0, 1)]
    )
    ink, painted = quarters.max(axis=0), np.count_nonzero(quarters, axis=0)
    pixels = np.zeros(pairs.shape, np.uint8)
    # Entry 0 of the palette is paper, entry 1 the first ink in full.
    pixels[rows, columns] = 1 + _SHADES * ink.astype(int) - painted
    return pixels


@functools.cache
def _palette() -> bytes:
    """Paper, then each ink from its full colour to a quarter of it."""
    colours = [(255, 255, 255)]
    for ink in _INKS:
        for painted in range(_SHADES, 0, -1):
            clear = 255 * (_SHADES - painted)
            colours.append(
                tuple((value * painted + clear) // _SHADES for value in ink)  # type: ignore[arg-type]
            )
    return bytes(value for colour in colours for value in colour)


def encode_png(pixels: Pixels) -> bytes:
    """8-bit palette, zlib level 6, no text and no time in it."""
    image = Image.fromarray(pixels)
    image.putpalette(_palette())
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=6)
    return buffer.getvalue()
