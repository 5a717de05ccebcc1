"""Rules that several providers share: signatures, images, and the pairing of calls and results."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from PIL import Image, UnidentifiedImageError

from tests.conformance.conversation import Block, Picture, Refused

_SECRET = b"known to the server alone"
_MEDIA = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
MB = 1 << 20


def sign(*signed: str) -> str:
    """A signature that only the server can make."""
    mac = hmac.new(_SECRET, "\0".join(signed).encode(), hashlib.sha256)
    return base64.b64encode(mac.digest()).decode()


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """A provider's limits on images. ``crowded`` of them or fewer may have ``side`` pixels, more of
    them ``crowded_side``."""

    count: int
    bytes: int
    side: int = 0  # 0 for no limit
    crowded: int = 0
    crowded_side: int = 0


def read_image(text: str, media_type: str, where: str) -> Picture:
    """Decode an image. Raises Refused if it is none of its type."""
    try:
        data = base64.b64decode(text.translate(_PLAIN), validate=True)
    except (binascii.Error, ValueError):
        raise Refused(f"{where}: image data is not valid base64") from None
    format_, width, height = _measure(data)
    if _MEDIA.get(format_) != media_type:
        raise Refused(f"{where}: Image does not match the provided media type {media_type}")
    return Picture(media_type, data, width, height)


_PLAIN = str.maketrans("-_", "+/")  # both alphabets of base64 are in use


@lru_cache(256)
def _measure(data: bytes) -> tuple[str, int, int]:
    try:
        with Image.open(io.BytesIO(data)) as image:
            return str(image.format), *image.size
    except UnidentifiedImageError:
        raise Refused("Could not process image") from None


def check_images(pictures: Sequence[Picture], limits: ImageLimits) -> None:
    """Refuse images beyond a provider's limits."""
    if len(pictures) > limits.count:
        raise Refused(f"too many images: {len(pictures)} > {limits.count} maximum")
    crowded = bool(limits.crowded) and len(pictures) > limits.crowded
    side = limits.crowded_side if crowded else limits.side
    for picture in pictures:
        if len(picture.data) > limits.bytes:
            raise Refused(f"image exceeds {limits.bytes} bytes: {len(picture.data)} bytes")
        if side and max(picture.width, picture.height) > side:
            many = " for many-image requests" if crowded else ""
            raise Refused(
                f"At least one of the image dimensions exceed max allowed size{many}: {side} pixels"
            )


def block(section: str, value: Any, *pictures: Picture, point: bool = False) -> Block:
    """A block of the input for the cache: its JSON, and of images as many bytes as their tokens
    take. ``value`` is without their data."""
    data = json.dumps(value, sort_keys=True).encode()
    return Block(section, data + b"".join(_stand_in(picture) for picture in pictures), point)


BYTES_PER_TOKEN = 4
_PIXELS_PER_TOKEN, _IMAGE_TOKENS = 750, 1600  # Anthropic, "Vision", 2026


def _stand_in(picture: Picture) -> bytes:
    tokens = min(-(-picture.width * picture.height // _PIXELS_PER_TOKEN), _IMAGE_TOKENS)
    size = tokens * BYTES_PER_TOKEN
    digest = hashlib.sha256(picture.data).hexdigest().encode()
    return (digest * (size // len(digest) + 1))[:size]


def token_count(blocks: Sequence[Block]) -> int:
    """Tokens of the input, at four bytes each."""
    return -(-sum(len(each.data) for each in blocks) // BYTES_PER_TOKEN)
