"""The files: one table of Cepheids, the laboratory's lines, a picture of each spectrum."""

from __future__ import annotations

from generators.family import InputFiles
from generators.physics.hubble_constant.parameters import (
    COLUMNS,
    LAB_IMAGE,
    MAGNITUDE_DECIMALS,
    MEASUREMENTS,
    PERIOD_DECIMALS,
    image_name,
)
from generators.physics.hubble_constant.sample import Galaxy, Sample
from generators.physics.spectra import encode_page, lab_spectrum, observe, paint_strip


def render_sample(sample: Sample) -> InputFiles:
    """The table, the laboratory's picture, then the spectra in the order of their names."""
    files = InputFiles()
    files.add_text(MEASUREMENTS, "text/csv", write_table(sample))
    # The plate's number keeps apart the files of any two instances.
    lab = paint_strip(f"Laboratory lines, plate {sample.plate}", lab_spectrum())
    files.add_picture(LAB_IMAGE, encode_page(lab), lab)
    for galaxy in sorted(sample.galaxies, key=lambda galaxy: galaxy.id):
        if (spectrum := galaxy.spectrum) is not None:
            page = paint_strip(galaxy.id, observe(spectrum.z, spectrum.kept))
            files.add_picture(image_name(galaxy.id), encode_page(page), page)
    return files


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
