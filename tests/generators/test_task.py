"""Canonical JSON is the reference implementation's, byte for byte; an instance says which it is."""

from __future__ import annotations

import math
import random
import struct
from typing import Any

import pytest
import rfc8785

from generators.basics.compute_average import FAMILY
from generators.task import canonical_bytes
from generators.title import MARKERS
from generators.validation.validate import public_seeds

_EDGES = (
    *(0.0, -0.0, 1.0, -1.0, 0.1, 1e-4, 9.999e-5, 1e-7, 1e15, 999999999999999.9, 1e16, 1e21, 5e-324),
    *(1.7976931348623157e308, 2.0**53, 1e15 - 0.125, 0, 1, -1, 2**53 - 1, 1 - 2**53, True, False),
    *(None, "", "\ue0007", "é", "\u2028", "\x7f", '"\\/\b\f\n\r\t', "\x00\x1f", "😀", "\ufb33"),
)


def random_value(draws: random.Random, depth: int = 0) -> Any:
    """Anything that JSON can carry, with the awkward more often than in nature."""
    kind = draws.randrange(9 if depth < 3 else 6)
    if kind == 0:
        return draws.choice(_EDGES)
    if kind == 1:
        return draws.randrange(-(2**53) + 1, 2**53)
    if kind == 2:
        any_bits = struct.unpack("<d", draws.randbytes(8))[0]
        return any_bits if math.isfinite(any_bits) else 0.5
    if kind == 3:
        return draws.uniform(-1, 1) * 10.0 ** draws.randrange(-12, 24)
    if kind == 4:
        return round(draws.uniform(-1e4, 1e4), draws.randrange(12))
    if kind == 5:
        return random_text(draws)
    values = [random_value(draws, depth + 1) for _ in range(draws.randrange(6))]
    if kind == 6:
        return values
    if kind == 7:
        return tuple(values)
    return {random_text(draws): value for value in values}


def random_text(draws: random.Random) -> str:
    points = (draws.choice((0x20, 0x7F, 0x3FF, 0xD7FF)) for _ in range(draws.randrange(8)))
    text = "".join(chr(draws.randrange(point)) for point in points)
    return text + draws.choice(("", "", "😀", "\uffee"))


def test_random_values_have_the_bytes_of_the_reference() -> None:
    draws = random.Random(8785)
    for _ in range(4000):
        value = random_value(draws)
        assert canonical_bytes(value) == rfc8785.dumps(value), value


@pytest.mark.parametrize("value", _EDGES)
def test_awkward_values_have_the_bytes_of_the_reference(value: Any) -> None:
    assert canonical_bytes({"of": [value]}) == rfc8785.dumps({"of": [value]})


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, 2**53, {1: 2}, b"bytes", "\ud800", {"a": {3}}]
)
def test_what_json_cannot_carry_is_refused_as_there(value: Any) -> None:
    with pytest.raises(rfc8785.CanonicalizationError) as reference:
        rfc8785.dumps(value)
    with pytest.raises(type(reference.value)):
        canonical_bytes(value)


def test_keys_are_ordered_as_utf_16() -> None:
    value = {"\ufb33": 1, "😀": 2, "z": 3}
    assert canonical_bytes(value) == rfc8785.dumps(value) == '{"z":3,"😀":2,"\ufb33":1}'.encode()


def test_a_prompt_begins_with_the_title_and_marker_of_its_instance():
    made = [FAMILY.generate("easy", seed) for seed in public_seeds(40)]
    assert all(one.marker in MARKERS for one in made)
    assert len({one.marker for one in made}) > 4
    assert len({one.title for one in made}) == 40
    for one in made:
        assert one.brief.prompt.startswith(f"{one.title} ({one.marker} series)\n\n")
        assert all(asset.path in one.brief.prompt for asset in one.brief.assets)
