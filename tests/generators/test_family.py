"""Pictures of one size: padding changes a file's length and no pixel."""

from __future__ import annotations

import hashlib
import io

import numpy as np
import pytest
from PIL import Image

from generators.errors import GeneratorError
from generators.family import InputFiles, pad_png, png_chunks


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


def test_padded_pictures_have_chunks_of_one_length():
    """Also where the compressed data stood in several chunks."""
    noise = np.random.Generator(np.random.PCG64(5)).integers(0, 256, (300, 400), np.uint8)
    plain, noisy = io.BytesIO(), io.BytesIO()
    Image.fromarray(np.zeros_like(noise)).save(plain, "PNG")
    Image.fromarray(noise).save(noisy, "PNG")
    assert [kind for kind, _ in png_chunks(noisy.getvalue())].count(b"IDAT") > 1
    shown = [
        [(kind, len(data)) for kind, data in png_chunks(pad_png(each.getvalue(), 150_000))]
        for each in (plain, noisy)
    ]
    assert shown[0] == shown[1] == [(b"IHDR", 13), (b"IDAT", 149_943), (b"IEND", 0)]


@pytest.mark.parametrize("spare", range(13, 19))
def test_a_picture_may_fill_its_size_but_for_thirteen_bytes(spare):
    png, pixels = picture(3)
    padded = pad_png(png, len(png) + spare)
    assert len(padded) == len(png) + spare
    with Image.open(io.BytesIO(padded)) as image:
        assert (np.asarray(image) == pixels).all()


def test_a_picture_that_is_too_large_names_the_size_that_would_do():
    png, pixels = picture(3)
    with pytest.raises(GeneratorError, match=f"must be {len(png) + 13} or more"):
        InputFiles().add_picture("a.png", png, pixels, len(png) + 12)
