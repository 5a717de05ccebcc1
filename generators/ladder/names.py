"""Names that nobody guesses, and that no other instance has."""

from __future__ import annotations

import string

from generators.seed import Streams, redraw

_LENGTH = 10
_CHARACTERS = string.ascii_uppercase + string.digits


def draw_name(streams: Streams, index: int = 0) -> tuple[str, int]:
    """A name of capital letters and digits, at least one of each, and how many draws had not."""

    def draw(attempt: int) -> str | None:
        stream = streams.at("name", index, attempt)
        name = "".join(stream.choice(_CHARACTERS) for _ in range(_LENGTH))
        return None if name.isdigit() or name.isalpha() else name

    return redraw(draw, "name")
