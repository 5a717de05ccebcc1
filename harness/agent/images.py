"""Check of untrusted images before a model is shown them."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass

# Decoded, 16 million pixels take up to 64 MB: the price of one check. No provider looks closer.
MAX_PIXELS = 16_000_000
MAX_SIDE = 8_000
# A progressive JPEG may go over all its pixels once more for every few bytes. Encoders make
# about ten such scans.
MAX_SCANS = 100
_SCAN = b"\xff\xda"  # opens one; within its data an FF is always followed by 00 or a restart
_FORMATS = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}


class ImageRefused(Exception):  # noqa: N818 - an answer for the model
    """The image cannot be shown, and why."""


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """Type and size (pixels) of an image."""

    media_type: str
    width: int
    height: int


def check_image(data: bytes) -> ImageInfo:
    """Return the type and size of an image with a header within bounds and pixels that decode.

    The size is read from the header before any pixel is, so that a bomb costs nothing.
    Raises ImageRefused.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data), formats=tuple(_FORMATS)) as image:
                if max(image.size) > MAX_SIDE or image.width * image.height > MAX_PIXELS:
                    raise _too_large(f"the image has {image.width} × {image.height} pixels")
                if image.format == "JPEG" and data.count(_SCAN) > MAX_SCANS:
                    raise ImageRefused(
                        f"the image is a JPEG of more than {MAX_SCANS} scans: write it anew with "
                        "execute_python"
                    )
                image.load()
                return ImageInfo(_FORMATS[str(image.format)], image.width, image.height)
    except Image.DecompressionBombError:  # seen by the library before we are asked
        raise _too_large("the image has far too many pixels") from None
    except UnidentifiedImageError:
        raise ImageRefused(f"this is not an image of type {', '.join(_FORMATS)}") from None
    except ImageRefused:
        raise
    except Exception:  # a decoder fed with hostile bytes may raise anything
        raise ImageRefused("the image is broken: its pixels do not decode") from None


def _too_large(what: str) -> ImageRefused:
    return ImageRefused(
        f"{what}; at most {MAX_PIXELS:,}, and {MAX_SIDE:,} on a side, can be shown: make a "
        "smaller one with execute_python"
    )
