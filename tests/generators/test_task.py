"""An instance says which it is, and its digest is of canonical JSON."""

from __future__ import annotations

import rfc8785

from generators.basics.compute_average import FAMILY
from generators.canonical import canonical_json
from generators.title import MARKERS
from generators.validation.validate import public_seeds
from registry.canonical import canonical_bytes

EDGES = (0.0, -0.0, 9.9e-5, 1e15 + 0.5, 1e16, 2**53 - 1, 1e21, -1.5, True, None, {"é": "é", "z": 1})


def test_json_is_written_as_the_reference_writes_it():
    for value in EDGES:
        assert canonical_json([value]) == canonical_bytes([value]) == rfc8785.dumps([value])


def test_a_prompt_begins_with_the_title_and_marker_of_its_instance():
    made = [FAMILY.generate("easy", seed) for seed in public_seeds(40)]
    assert all(one.marker in MARKERS for one in made)
    assert len({one.marker for one in made}) > 4
    assert len({one.title for one in made}) == 40
    for one in made:
        assert one.brief.prompt.startswith(f"{one.title} ({one.marker} series)\n\n")
        assert all(asset.path in one.brief.prompt for asset in one.brief.assets)
