"""The input files: the table of Cepheids, the laboratory spectrum and the observed ones."""

from __future__ import annotations

from generators.family import InputFiles
from generators.physics.cepheid_calibration.parameters import (
    DECIMALS,
    LAB_IMAGE,
    TABLE,
    image_path,
)
from generators.physics.cepheid_calibration.sample import Galaxy, Sample
from generators.physics.spectra import encode_page, lab_spectrum, observe, paint_bars

_HEADER = "galaxy_ID,cepheid_ID,mean_mag_cepheid,period [days]"


def render_sample(sample: Sample) -> InputFiles:
    """All input files, the observed spectra in the order of the table."""
    lines = dict(sample.lines)
    files = InputFiles()
    files.add_text(TABLE, "text/csv", write_table(sample.galaxies))
    lab = paint_bars(f"Laboratory spectrum, plate {sample.plate}", lab_spectrum())
    files.add_picture(LAB_IMAGE, encode_page(lab), lab)
    for galaxy in sample.galaxies:
        if galaxy.z is not None and (kept := lines[galaxy.id]):
            page = paint_bars(f"Galaxy {galaxy.id}", observe(galaxy.z, kept))
            files.add_picture(image_path(galaxy.id), encode_page(page), page)
    return files


def write_table(galaxies: tuple[Galaxy, ...]) -> bytes:
    """One line a galaxy; what is missing is left empty."""
    rows = (
        f"{galaxy.id},{galaxy.cepheid or ''},{_write(galaxy.magnitude)},{_write(galaxy.period)}\n"
        for galaxy in galaxies
    )
    return f"{_HEADER}\n{''.join(rows)}".encode("ascii")


def _write(value: float | None) -> str:
    return "" if value is None else f"{value:.{DECIMALS}f}"
