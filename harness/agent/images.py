"""Untrusted images: checked, and scaled down where needed, before a model is shown them.

They are read in a child process, whose limits of time and memory are the price of one view.
"""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from generators.child_process import ChildLimits, ChildRun, run_in_child
from generators.errors import ChildLimitError
from harness.model import Image

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

# Decoded, 16 million pixels take up to 64 MB: the price of one check. No provider looks closer.
MAX_PIXELS = 16_000_000
MAX_SIDE = 8_000
# Above it no provider looks closer, and with more than 20 images Anthropic refuses the request.
SHOWN_SIDE = 2_000
SHOWN_BYTES = 3_750_000  # limit of the strictest large provider, Bedrock
_FORMATS = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
_LIMITS = ChildLimits(seconds=10, memory=500_000_000)


class ImageRefused(Exception):  # noqa: N818 - an answer for the model
    """The image cannot be shown, and why."""


@dataclass(frozen=True, slots=True)
class ShownImage:
    """An image as a model is shown it. Sizes are width and height in pixels."""

    image: Image
    size: tuple[int, int]
    original: tuple[int, int]

    @property
    def scaled(self) -> str:
        """A note with the original size, "" if it was not scaled down."""
        width, height = self.original
        return "" if self.size == self.original else f", scaled down from {width} × {height}"


def show_image(data: bytes) -> ChildRun[ShownImage]:
    """Return an image with a header within bounds and pixels that decode: the same bytes if it is
    small enough to be shown, else scaled down to ``SHOWN_SIDE`` on a side and encoded anew. The
    value raises ImageRefused."""
    run = run_in_child(_LIMITS, _check, data)
    if isinstance(run.outcome, ChildLimitError):
        return ChildRun(ImageRefused(f"the image {run.outcome}"), run.seconds)
    return run


def _check(data: bytes) -> ShownImage:
    """The size is read from the header before any pixel is, so that a bomb costs nothing."""
    from PIL import Image as Library
    from PIL import UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Library.open(io.BytesIO(data), formats=tuple(_FORMATS)) as picture:
                if max(picture.size) > MAX_SIDE or picture.width * picture.height > MAX_PIXELS:
                    raise _too_large(f"the image has {picture.width} × {picture.height} pixels")
                picture.load()
                plain = picture.format in _FORMATS  # an MPO is a JPEG with others behind it
                if plain and max(picture.size) <= SHOWN_SIDE and len(data) <= SHOWN_BYTES:
                    image = Image(_FORMATS[str(picture.format)], data)
                    return ShownImage(image, picture.size, picture.size)
                return _scale_down(picture)
    except Library.DecompressionBombError:  # seen by the library before we are asked
        raise _too_large("the image has far too many pixels") from None
    except UnidentifiedImageError:
        raise ImageRefused(f"this is not an image of type {', '.join(_FORMATS)}") from None
    except ImageRefused:
        raise
    except Exception:  # a decoder fed with hostile bytes may raise anything
        raise ImageRefused("the image is broken: its pixels do not decode") from None


def _scale_down(picture: Picture) -> ShownImage:
    """Encode a decoded picture anew, its longer side at most ``SHOWN_SIDE``: as PNG, or as JPEG if
    that is too large. Of an animation the first frame."""
    original = picture.size
    if picture.mode == "I;16":  # grey of 16 bits, which other conversions clip
        picture = picture.point(lambda value: value * (1 / 256)).convert("L")
    alpha = "A" in picture.getbands() or "transparency" in picture.info
    small = picture.convert("RGBA" if alpha else "RGB")
    small.thumbnail((SHOWN_SIDE, SHOWN_SIDE))
    image = Image("image/png", _encode(small, "PNG"))
    if len(image.data) > SHOWN_BYTES:  # pure noise of 2,000 × 2,000 takes 3.6 MB as JPEG
        image = Image("image/jpeg", _encode(small.convert("RGB"), "JPEG", quality=90))
    return ShownImage(image, small.size, original)


def _encode(picture: Picture, kind: str, **options: int) -> bytes:
    made = io.BytesIO()
    picture.save(made, kind, **options)
    return made.getvalue()


def _too_large(what: str) -> ImageRefused:
    return ImageRefused(
        f"{what}; at most {MAX_PIXELS:,}, and {MAX_SIDE:,} on a side, can be shown: make a "
        "smaller one with execute_python"
    )
