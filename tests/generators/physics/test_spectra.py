"""Spectra: pixels that give the redshift, and draws whose redshift is given by them."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from generators.physics import spectra
from generators.physics.spectra import (
    BASE,
    LAB_LINES,
    LEFT,
    PER_NM,
    SIGMA,
    TOP_OF_BARS,
    TOP_OF_STRIP,
    Line,
    encode_page,
    is_identifiable,
    keep_lines,
    lab_spectrum,
    observe,
    paint_bars,
    paint_strip,
)
from generators.validation.validate import public_seeds
from tests.cases import cases
from tests.generators.basics.test_count_circles import decode


def draw_bars(title, lines):
    return encode_page(paint_bars(title, lines))


def draw_strip(title, lines):
    return encode_page(paint_strip(title, lines))


DRAWN = {"bars": (draw_bars, TOP_OF_BARS), "strip": (draw_strip, TOP_OF_STRIP)}
BOTH = pytest.mark.parametrize("kind", DRAWN)
MARKS_ROW = BASE + 8  # long marks only


def kept(*wavelengths: float) -> tuple[bool, ...]:
    return tuple(wavelength in wavelengths for wavelength, _ in LAB_LINES)


def profile_of(kind: str, pixels: np.ndarray) -> np.ndarray:
    """Brightness by column, read from the plot alone."""
    plot = pixels[DRAWN[kind][1] : BASE].astype(float)
    return plot.sum(axis=0) if kind == "bars" else plot[40]


def read_lines(kind: str, data: bytes) -> list[float]:
    """Wavelengths of the centroids of the lines that stand clear, against the tick marks."""
    pixels = decode(data)
    marks = np.flatnonzero(pixels[MARKS_ROW] < 128)
    assert len(marks) == 31
    per_pixel, zero = np.polyfit(marks, np.linspace(400, 700, 31), 1)
    profile = profile_of(kind, pixels)
    profile[: marks[0]] = profile[marks[-1] + 1 :] = 0.0
    ups = np.flatnonzero((profile[1:] > 0) & (profile[:-1] == 0)) + 1
    found = []
    for start in ups:
        columns = np.arange(start, start + np.argmax(profile[start:] == 0))
        if len(columns) < 10:  # two lines of the doublet run into one wide group
            found.append(zero + per_pixel * np.average(columns, weights=profile[columns]))
    return found


@functools.cache
def residuals(kind: str) -> np.ndarray:
    """Redshift read minus redshift drawn, of spectra with random lines."""
    rest = np.array([wavelength for wavelength, _ in LAB_LINES])
    found = []
    for seed in public_seeds(60):
        stream = seed.child("spectra", kind).rng()
        z, lines = stream.uniform(0.002, 0.0145), keep_lines(stream, 0.5)
        read = read_lines(kind, DRAWN[kind][0]("title", observe(z, lines)))
        nearest = [rest[np.argmin(abs(rest * (1 + z) - each))] for each in read]
        found.append(np.mean(np.array(read) / nearest - 1) - z)
    return np.array(found)


@BOTH
def test_centroids_give_the_redshift_at_every_tolerance(kind):
    assert np.abs(residuals(kind)).max() < 1e-5  # and so a tenth of what §2 asks for


@BOTH
def test_centroids_are_unbiased(kind):
    found = residuals(kind)
    assert abs(found.mean()) < 1e-6
    assert found.std() < 3e-6


@BOTH
def test_marks_stand_on_the_middles_of_their_columns(kind):
    pixels = decode(DRAWN[kind][0]("", ()))
    short = LEFT + np.flatnonzero(pixels[BASE, LEFT:] < 128)
    long = np.flatnonzero(pixels[MARKS_ROW] < 128)
    assert short.tolist() == list(range(120, 1921, 6))
    assert long.tolist() == list(range(120, 1921, 60))
    assert (pixels[BASE + 6, short[1:10]] == 255).all()
    assert (pixels[BASE + 12, long] == 255).all()


@BOTH
def test_a_page_leaves_the_next_one_clean(kind):
    draw = DRAWN[kind][0]
    empty = draw("", ())
    draw("title", lab_spectrum())
    assert draw("", ()) == empty


def column_means(lines, steps: int = 400) -> np.ndarray:
    """By brute force: the Gaussian sum on a fine grid, averaged over each column."""
    offsets = (np.arange(steps) + 0.5) / steps - 0.5
    grid = 400 + (np.arange(1801)[:, None] + offsets) / PER_NM
    total = sum(
        line.intensity * np.exp(-((grid - line.wavelength) ** 2) / (2 * SIGMA**2)) for line in lines
    )
    means = total.mean(axis=1)
    return means / means.max()


@BOTH
def test_a_columns_brightness_is_the_mean_of_the_gaussians_over_it(kind):
    lines = observe(0.0231, kept(501.568, 588.995, 589.592, 610.354))
    shown = profile_of(kind, decode(DRAWN[kind][0]("", lines)))[LEFT:1921]
    full = 230 * 140 if kind == "bars" else 255
    half = 0.5 if kind == "strip" else 0.51
    assert np.abs(shown - full * column_means(lines)).max() <= half


@BOTH
@pytest.mark.parametrize("towards", [-math.inf, math.inf], ids=["down", "up"])
def test_the_last_bit_of_a_c_librarys_erf_shows_in_no_pixel(kind, towards, monkeypatch):
    """R2: another library's picture would be another file."""
    pages = [lab_spectrum(), *(observe(z, [True] * 20) for z in (0.01, 0.0231, 0.05))]
    here = [DRAWN[kind][0]("", lines) for lines in pages]
    erf = math.erf
    monkeypatch.setattr(
        math, "erf", lambda x: math.nextafter(erf(x), towards * (-1) ** (hash(x) % 2))
    )
    assert [DRAWN[kind][0]("", lines) for lines in pages] == here


def test_a_bar_has_one_pixel_that_is_neither_full_nor_empty():
    plot = decode(draw_bars("", lab_spectrum()))[TOP_OF_BARS:BASE, LEFT:1921]
    assert ((plot > 0) & (plot < 230)).sum(axis=0).max() == 1
    assert (np.diff(plot.astype(int), axis=0) >= 0).all()


# --- lines


def test_lines_move_with_their_brightness_unchanged_within_the_scale():
    assert observe(0.0, [True] * 20) == lab_spectrum()
    assert observe(0.04, kept(656.279, 670.776)) == (
        Line(656.279 * 1.04, 1.0),
        Line(670.776 * 1.04, 0.5),
    )
    assert observe(0.05, kept(656.279, 670.776)) == (Line(656.279 * 1.05, 1.0),)
    assert observe(0.03, [False] * 20) == ()


def test_each_line_is_kept_with_the_same_probability():
    stream = public_seeds(1)[0].rng()
    drawn = np.array([keep_lines(stream, 0.35) for _ in range(2000)])
    assert drawn.shape == (2000, 20)
    assert np.abs(drawn.mean(axis=0) - 0.35).max() < 4.5 * math.sqrt(0.35 * 0.65 / 2000)


@pytest.mark.parametrize(("wavelengths", "good"), cases(__file__, "apart"))
def test_a_spectrum_needs_three_lines_well_apart(wavelengths, good):
    assert is_identifiable(0.03, kept(*wavelengths)) is good


def test_lines_that_a_second_redshift_explains_are_refused(monkeypatch):
    """Lines of a ladder of equal ratios: seen from one rung lower, they fit as well."""
    ladder = tuple((440.0 * 1.05**rung, 1.0) for rung in range(4))
    monkeypatch.setattr(spectra, "LAB_LINES", ladder)
    assert not is_identifiable(0.02, (False, True, True, True))  # 1.02 · 1.05 = 1.071
    assert is_identifiable(0.04, (False, True, True, True))  # 1.04 · 1.05 lies beyond 1.08
    assert is_identifiable(0.02, (True, True, True, True))  # no rung below the lowest


def explained_twice(z: float, lines) -> bool:
    """By brute force over a fine grid of redshifts."""
    seen = np.array([line.wavelength for line in observe(z, lines)])
    rest = np.array([wavelength for wavelength, _ in LAB_LINES])
    grid = np.arange(0, 0.08, 2e-6)
    grid = grid[np.abs(grid - z) > 3e-4]
    gaps = np.full((len(grid), len(seen)), np.inf)
    for wavelength in rest:
        gaps = np.minimum(gaps, np.abs((1 + grid)[:, None] * wavelength - seen))
    return bool((gaps.max(axis=1) <= 0.06).any())


def test_the_guard_agrees_with_brute_force(monkeypatch):
    """With a looser match, so that some spectra have a second explanation."""
    monkeypatch.setattr(spectra, "WIDEST_PAIR", 0.0)
    monkeypatch.setattr(spectra, "FEWEST_LINES", 1)
    stream = public_seeds(1)[0].rng()
    verdicts = []
    for _ in range(60):
        z, lines = stream.uniform(0.002, 0.0145), keep_lines(stream, 0.1)
        if any(lines):
            verdicts.append((is_identifiable(z, lines), not explained_twice(z, lines)))
    assert all(mine == theirs for mine, theirs in verdicts)
    assert {True, False} == {mine for mine, _ in verdicts}
