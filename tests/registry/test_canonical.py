"""The quick writer of canonical JSON and the reference write the same."""

from __future__ import annotations

import rfc8785

from registry.canonical import canonical_bytes

EDGES = (0.0, -0.0, 9.9e-5, 1e15 + 0.5, 1e16, 2**53 - 1, 1e21, -1.5, True, None, {"é": "é", "z": 1})


def test_json_is_written_as_the_reference_writes_it() -> None:
    for value in EDGES:
        assert canonical_bytes([value]) == rfc8785.dumps([value])
