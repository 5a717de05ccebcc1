"""The sandbox image that a study pins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from study.protocol import Protocol

NO_IMAGE = "none"


@dataclass(frozen=True, slots=True)
class PinnedImage:
    """A sandbox image by tag and digest."""

    tag: str
    digest: str  # of the image, or "none" for the local sandbox


def pinned_image(
    protocol: Protocol, watch: Callable[[str, int, int], None] = lambda what, done, of: None
) -> PinnedImage:
    """Return the image of a study on this machine; the project's own is built if it is missing.
    Raises HarnessError without an engine or the image."""
    if protocol.sandbox.kind == "local":
        return PinnedImage("", NO_IMAGE)
    if protocol.sandbox.image is not None:
        from harness.sandboxes.docker import image_digest

        return PinnedImage(protocol.sandbox.image, image_digest(protocol.sandbox.image))
    from harness.sandboxes import ensure_image

    pin = ensure_image(lambda line: watch(f"sandbox image: {line}", 0, 0))
    return PinnedImage(pin.tag, pin.digest)
