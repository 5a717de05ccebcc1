"""Files: two tables of hits, and two drawings of the detector.

The drawings are made of flat colours at twice their size and then halved: a pixel's shade is
the number, 0 to 4, of its quarters that are painted, so all of it is arithmetic of integers.
"""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from generators.physics.invariant_mass_reconstruction.parameters import MOST_ETA
from generators.physics.invariant_mass_reconstruction.sample import (
    Detector,
    Electron,
    Sample,
    crossing,
)

Pixels = NDArray[np.uint8]

# Ink 0 is paper. Then black, grey, one for each layer of the tracker, the calorimeter.
_INKS = (
    (0, 0, 0),
    (150, 150, 150),
    (31, 119, 180),
    (44, 160, 44),
    (148, 103, 189),
    (214, 39, 40),
    (230, 120, 0),
)
_BLACK, _GREY, _FIRST_LAYER, _CALORIMETER = 1, 2, 3, 7
_SHADES = 4
_TEXT = 20  # px


def write_tracker_hits(sample: Sample) -> bytes:
    """Columns event_id, layer, x, y, z (m), two rows for each layer of an event."""
    lines = ["event_id,layer,x,y,z"]
    detector = sample.detector
    for event, (pair, order) in enumerate(zip(sample.pairs, sample.orders, strict=True), 1):
        for layer, radius in enumerate(detector.layers):
            name = f"{event},tracker layer {layer + 1}"
            for electron in _in_order(pair, order[layer]):
                x, y, z = crossing(electron, radius, detector.field)
                lines.append(f"{name},{fixed(x)},{fixed(y)},{fixed(z)}")
    return ("\n".join(lines) + "\n").encode()


def write_calorimeter_hits(sample: Sample) -> bytes:
    """Columns event_id, x, y, z (m), energy (GeV), two rows for each event."""
    lines = ["event_id,x,y,z,energy"]
    detector = sample.detector
    for event, (pair, order) in enumerate(zip(sample.pairs, sample.orders, strict=True), 1):
        for electron in _in_order(pair, order[-1]):
            x, y, z = crossing(electron, detector.calorimeter, detector.field)
            lines.append(f"{event},{fixed(x)},{fixed(y)},{fixed(z)},{fixed(electron.energy)}")
    return ("\n".join(lines) + "\n").encode()


def _in_order(pair: Sequence[Electron], first: int) -> tuple[Electron, Electron]:
    return pair[first], pair[1 - first]


def fixed(value: float) -> str:
    """Six decimals, and no negative zero."""
    text = f"{value:.6f}"
    return "0.000000" if text == "-0.000000" else text


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


# --- the view along the beam

_VIEW = (1200, 900)
_CENTRE = (495, 430)
_SCALE = 215  # px per m
_EDGE = 1.8  # m
_LEGEND = 915


def draw_transverse(detector: Detector, states_field: bool) -> Pixels:
    """Layers as circles about the beam."""
    page = _page(_transverse_axes().copy())
    x, y = _CENTRE
    layers = _layers(detector)
    for ink, _, radius in layers:
        page.circle(x, y, radius * _SCALE, ink, 2)
    page.line([(x - 6, y), (x + 6, y)], _BLACK)
    page.line([(x, y - 6), (x, y + 6)], _BLACK)
    _draw_legend(page, _LEGEND, 60, layers)
    strength = f"B = {detector.field:.3f} T" if states_field else "B uniform"
    page.text(_LEGEND, 80 + 30 * (len(layers) + 1), f"{strength}, along +z")
    return _reduce(page)


@functools.cache
def _transverse_axes() -> Image.Image:
    page = _blank(*_VIEW)
    x, y = _CENTRE
    side = round(_EDGE * _SCALE)
    page.text(x, 10, "Detector, transverse view (z = 0)", "ma")
    box = [(x - side, y - side), (x + side, y - side), (x + side, y + side), (x - side, y + side)]
    page.line([*box, box[0]], _BLACK)
    for tick in range(-15, 16, 5):
        along = tick * _SCALE / 10
        page.line([(x + along, y + side), (x + along, y + side + 7)], _BLACK)
        page.text(x + along, y + side + 12, f"{tick / 10:.1f}", "ma")
        page.line([(x - side, y - along), (x - side - 7, y - along)], _BLACK)
        page.text(x - side - 12, y - along, f"{tick / 10:.1f}", "rm")
    page.text(x, y + side + 42, "x (m)", "ma")
    page.upright(28, y, "y (m)")
    return page.image


# --- the view from the side

_SIDE_VIEW = (1650, 600)
_BEAM = (700, 505)
_Z_SCALE, _R_SCALE = 34, 235  # px per m
_Z_EDGE, _R_EDGE = 18.0, 1.9  # m
_SIDE_LEGEND = 1350


def draw_longitudinal(detector: Detector) -> Pixels:
    """Layers as lines at their radius, as long as the detector is there."""
    page = _page(_longitudinal_axes().copy())
    x, y = _BEAM
    layers = _layers(detector)
    for ink, _, radius in layers:
        reach = radius * math.sinh(MOST_ETA)
        height = y - radius * _R_SCALE
        page.line([(x - reach * _Z_SCALE, height), (x + reach * _Z_SCALE, height)], ink, 3)
        label = f"2z = {2 * reach:.2f} m"
        if ink == _CALORIMETER:
            page.text(x, height - 6, label, "mb", ink)
        else:
            page.text(x + reach * _Z_SCALE + 24, height, label, "lm", ink)
    page.line([(x - 6, y), (x + 6, y)], _BLACK)
    page.line([(x, y - 6), (x, y + 6)], _BLACK)
    _draw_legend(page, _SIDE_LEGEND, 60, layers)
    return _reduce(page)


@functools.cache
def _longitudinal_axes() -> Image.Image:
    page = _blank(*_SIDE_VIEW)
    x, y = _BEAM
    side, top = round(_Z_EDGE * _Z_SCALE), y - round(_R_EDGE * _R_SCALE)
    page.text(x, 10, "Detector, longitudinal view", "ma")
    page.line([(x - side, y), (x - side, top), (x + side, top), (x + side, y)], _BLACK)
    page.line([(x - side, y), (x + side, y)], _BLACK)
    for tick in range(-15, 16, 5):
        page.line([(x + tick * _Z_SCALE, y), (x + tick * _Z_SCALE, y + 7)], _BLACK)
        page.text(x + tick * _Z_SCALE, y + 12, f"{tick}", "ma")
    for tick in range(0, 16, 5):
        height = y - tick * _R_SCALE / 10
        page.line([(x - side, height), (x - side - 7, height)], _BLACK)
        page.text(x - side - 12, height, f"{tick / 10:.1f}", "rm")
    page.text(x, y + 42, "z (m)", "ma")
    page.upright(20, (y + top) // 2, "r (m)")
    _draw_cone(page, x, y, top)
    page.line([(_SIDE_LEGEND, 330), (_SIDE_LEGEND + 14, 330)], _GREY, 2)
    page.line([(_SIDE_LEGEND + 22, 330), (_SIDE_LEGEND + 36, 330)], _GREY, 2)
    page.text(_SIDE_LEGEND + 50, 330, "eta = ±3", "lm")
    return page.image


def _draw_cone(page: _Page, x: int, y: int, top: int) -> None:
    """Dashed lines at eta = ±3, from the origin to the frame."""
    across = _Z_SCALE * math.sinh(MOST_ETA) / _R_SCALE  # px for each one upwards
    height = min(y - top, math.floor(_Z_EDGE * _Z_SCALE / across))
    for start in range(0, height - 8, 14):
        for sign in (-1, 1):
            points = [(x + sign * across * up, y - up) for up in (start, start + 8)]
            page.line(points, _GREY, 2)


def _layers(detector: Detector) -> list[tuple[int, str, float]]:
    """Ink, name and radius of each layer, from the beam outwards."""
    layers = [
        (_FIRST_LAYER + index, f"tracker layer {index + 1}", radius)
        for index, radius in enumerate(detector.layers)
    ]
    return [*layers, (_CALORIMETER, "calorimeter", detector.calorimeter)]


def _draw_legend(page: _Page, x: int, y: int, layers: list[tuple[int, str, float]]) -> None:
    for row, (ink, name, radius) in enumerate(layers):
        height = y + 30 * row
        page.line([(x, height), (x + 36, height)], ink, 4)
        page.text(x + 48, height, f"{name}: {radius:.3f} m", "lm")


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
