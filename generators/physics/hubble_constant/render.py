"""The files: one table of Cepheids, the laboratory's lines, a picture of each spectrum."""

from __future__ import annotations

import hashlib
import io

from generators.physics.hubble_constant.parameters import (
    COLUMNS,
    LAB_IMAGE,
    MAGNITUDE_DECIMALS,
    MEASUREMENTS,
    PERIOD_DECIMALS,
    image_name,
)
from generators.physics.hubble_constant.sample import Galaxy, Sample
from generators.physics.spectra import draw_strip, lab_spectrum, observe
from generators.task import Asset


def make_assets(sample: Sample) -> tuple[Asset, ...]:
    """The table, the laboratory's picture, then the spectra in the order of their names."""
    spectra = sorted(
        (
            Asset(
                image_name(galaxy.id),
                "image/png",
                draw_strip(galaxy.id, observe(galaxy.spectrum.z, galaxy.spectrum.kept)),
            )
            for galaxy in sample.galaxies
            if galaxy.spectrum is not None
        ),
        key=lambda asset: asset.path,
    )
    # The plate's number keeps apart the files of any two instances.
    lab = draw_strip(f"Laboratory lines, plate {sample.plate}", lab_spectrum())
    return (
        Asset(MEASUREMENTS, "text/csv", write_table(sample)),
        Asset(LAB_IMAGE, "image/png", lab),
        *spectra,
    )


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


def digest_assets(assets: tuple[Asset, ...]) -> tuple[tuple[str, str], ...]:
    """The SHA-256 of each file, and of each picture's decoded pixels."""
    digests = []
    for asset in assets:
        digests.append((asset.path, asset.digest))
        if asset.media_type == "image/png":
            pixels = hashlib.sha256(_decode(asset.data)).hexdigest()
            digests.append((f"{asset.path}#pixels", f"sha256:{pixels}"))
    return tuple(digests)


def _decode(data: bytes) -> bytes:
    from PIL.PngImagePlugin import PngImageFile

    with PngImageFile(io.BytesIO(data)) as image:
        return image.tobytes()
