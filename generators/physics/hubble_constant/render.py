"""The files: one table of Cepheids, the laboratory's lines, a picture of each spectrum."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from generators.physics.hubble_constant.parameters import (
    COLUMNS,
    LAB_IMAGE,
    MAGNITUDE_DECIMALS,
    MEASUREMENTS,
    PERIOD_DECIMALS,
    image_name,
)
from generators.physics.hubble_constant.sample import Galaxy, Sample
from generators.physics.spectra import Line, encode_page, lab_spectrum, observe, paint_strip
from generators.task import Asset


def draw_assets(sample: Sample) -> tuple[tuple[Asset, ...], tuple[tuple[str, str], ...]]:
    """The table, the laboratory's picture, then the spectra in the order of their names; and
    the SHA-256 of each file and of each picture's pixels."""
    table = Asset(MEASUREMENTS, "text/csv", write_table(sample))
    # The plate's number keeps apart the files of any two instances.
    drawn = [_draw(LAB_IMAGE, f"Laboratory lines, plate {sample.plate}", lab_spectrum())]
    for galaxy in sorted(sample.galaxies, key=lambda item: item.id):
        if (spectrum := galaxy.spectrum) is not None:
            lines = observe(spectrum.z, spectrum.kept)
            drawn.append(_draw(image_name(galaxy.id), galaxy.id, lines))
    digests = [(table.path, table.digest)]
    for asset, pixels in drawn:
        digests += [(asset.path, asset.digest), (f"{asset.path}#pixels", pixels)]
    return (table, *(asset for asset, _ in drawn)), tuple(digests)


def _draw(path: str, title: str, lines: Iterable[Line]) -> tuple[Asset, str]:
    """The picture, and the digest of its pixels."""
    page = paint_strip(title, lines)
    pixels = hashlib.sha256(page.data).hexdigest()
    return Asset(path, "image/png", encode_page(page)), f"sha256:{pixels}"


def write_table(sample: Sample) -> bytes:
    """A row for each galaxy; what it lacks is left empty."""
    lines = [",".join(COLUMNS), *(_row(galaxy) for galaxy in sample.galaxies)]
    return ("\n".join(lines) + "\n").encode("ascii")


def _row(galaxy: Galaxy) -> str:
    cepheid = galaxy.cepheid
    if cepheid is None:
        return f"{galaxy.id},,,"
    magnitude = _fixed(cepheid.magnitude, MAGNITUDE_DECIMALS)
    return f"{galaxy.id},{cepheid.id},{magnitude},{_fixed(cepheid.period, PERIOD_DECIMALS)}"


def _fixed(value: float | None, decimals: int) -> str:
    return "" if value is None else f"{value:.{decimals}f}"
