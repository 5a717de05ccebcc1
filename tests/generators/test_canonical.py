"""Canonical JSON is that of the reference implementation, on which every digest rests."""

from __future__ import annotations

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.canonical import canonical_json

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**54), 2**54)
    | st.floats()
    | st.floats(-1e6, 1e6)
    | st.sampled_from([0.0, -0.0, 1.0, 1e15, 1e16, 1e21, 1e22, 1e-4, 9.9e-5, 1e-6, 1e-7, 5e-324])
    | st.text()
    | st.sampled_from(["\ud800", "\u2028", "\x7f", '"\\/\b\f\n\r\t\x00\x1f'])
)


@settings(max_examples=50)
@given(
    st.recursive(
        SCALARS,
        lambda inner: (
            st.lists(inner)
            | st.lists(inner).map(tuple)
            | st.dictionaries(st.text(max_size=4), inner)
        ),
        max_leaves=10,
    )
)
def test_bytes_are_those_of_the_reference_implementation(value):
    try:
        expected = rfc8785.dumps(value)
    except rfc8785.CanonicalizationError:
        with pytest.raises(ValueError):  # noqa: PT011 - two kinds of it
            canonical_json(value)
    else:
        assert canonical_json(value) == expected
