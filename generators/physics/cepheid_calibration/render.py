"""The input files: the table of Cepheids, the laboratory spectrum and the observed ones."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from generators.physics.cepheid_calibration.parameters import (
    DECIMALS,
    LAB_IMAGE,
    TABLE,
    image_path,
)
from generators.physics.cepheid_calibration.sample import Galaxy, Sample
from generators.physics.spectra import encode_page, lab_spectrum, observe, paint_bars
from generators.task import Asset

if TYPE_CHECKING:
    from generators.physics.spectra import Pixels

_HEADER = "galaxy_ID,cepheid_ID,mean_mag_cepheid,period [days]"

# Each file, and the digests of it and of what it decodes to.
Rendered = tuple[tuple[Asset, ...], tuple[tuple[str, str], ...]]


def render_sample(sample: Sample) -> Rendered:
    """All input files, the observed spectra in the order of the table."""
    lines = dict(sample.lines)
    table = Asset(TABLE, "text/csv", write_table(sample.galaxies))
    assets, digests = [table], [(TABLE, table.digest)]
    pages = [(LAB_IMAGE, paint_bars(f"Laboratory spectrum, plate {sample.plate}", lab_spectrum()))]
    pages += [
        (image_path(galaxy.id), paint_bars(f"Galaxy {galaxy.id}", observe(galaxy.z, kept)))
        for galaxy in sample.galaxies
        if galaxy.z is not None and (kept := lines[galaxy.id])
    ]
    for path, page in pages:
        asset = Asset(path, "image/png", encode_page(page))
        assets.append(asset)
        digests += [(path, asset.digest), (f"{path}#pixels", _digest(page))]
    return tuple(assets), tuple(digests)


def write_table(galaxies: tuple[Galaxy, ...]) -> bytes:
    """One line a galaxy; what is missing is left empty."""
    rows = (
        f"{galaxy.id},{galaxy.cepheid or ''},{_write(galaxy.magnitude)},{_write(galaxy.period)}\n"
        for galaxy in galaxies
    )
    return f"{_HEADER}\n{''.join(rows)}".encode("ascii")


def _write(value: float | None) -> str:
    return "" if value is None else f"{value:.{DECIMALS}f}"


def _digest(page: Pixels) -> str:
    return "sha256:" + hashlib.sha256(page.data).hexdigest()
