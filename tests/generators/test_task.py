"""An instance says which it is."""

from __future__ import annotations

from generators.basics.compute_average import FAMILY
from generators.title import MARKERS
from generators.validation.validate import public_seeds


def test_a_prompt_begins_with_the_title_and_marker_of_its_instance():
    made = [FAMILY.generate("easy", seed) for seed in public_seeds(40)]
    assert all(one.marker in MARKERS for one in made)
    assert len({one.marker for one in made}) > 4
    assert len({one.title for one in made}) == 40
    for one in made:
        assert one.brief.prompt.startswith(f"{one.title} ({one.marker} series)\n\n")
        assert all(asset.path in one.brief.prompt for asset in one.brief.assets)
