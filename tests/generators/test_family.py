"""Pictures of one size: padding changes a file's length and no pixel."""

from __future__ import annotations

import hashlib
import io

import numpy as np
import pytest
from PIL import Image

from generators.errors import GeneratorError
from generators.family import InputFiles


def picture(shade: int) -> tuple[bytes, np.ndarray]:
    pixels = np.full((20, 30), shade, np.uint8)
    pixels[::shade] = 0
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue(), pixels


def test_padded_pictures_have_one_size_and_their_own_pixels():
    files = InputFiles()
    for shade in (3, 5, 7):
        png, pixels = picture(shade)
        files.add_picture(f"{shade}.png", png, pixels, 4096)
        data = files.assets[-1].data
        assert len(data) == 4096
        assert dict(files.digests)[f"{shade}.png"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
        with Image.open(io.BytesIO(data)) as image:
            image.verify()  # check sums of all chunks
        with Image.open(io.BytesIO(data)) as image:
            assert (np.asarray(image) == pixels).all()
            assert image.info == {}


@pytest.mark.parametrize("spare", [12, 13])
def test_a_picture_may_fill_its_size_but_for_an_empty_chunk(spare):
    png, pixels = picture(3)
    files = InputFiles()
    files.add_picture("a.png", png, pixels, len(png) + spare)
    assert len(files.assets[0].data) == len(png) + spare


def test_a_picture_that_is_too_large_names_the_size_that_would_do():
    png, pixels = picture(3)
    with pytest.raises(GeneratorError, match=f"must be {len(png) + 12} or more"):
        InputFiles().add_picture("a.png", png, pixels, len(png) + 11)
