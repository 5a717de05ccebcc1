"""The catalogue: what can be asked for, and what is said of what cannot."""

from __future__ import annotations

import subprocess
import sys

import pytest

from generators.catalog import INSTALLED
from generators.errors import GeneratorError
from generators.templates.family import template_family
from generators.templates.library import library_text
from tests.cases import cases


def test_it_lists_each_family_under_its_own_name():
    assert INSTALLED.entries() == tuple(
        f"{each.name}@{each.version}" for each in INSTALLED.families()
    )
    assert {"compute_average@3", "count_circles@3"} <= set(INSTALLED.entries())


def test_a_family_is_found_by_name_by_version_and_by_both():
    found = INSTALLED.family("count_circles")
    assert INSTALLED.family("count_circles", "3") is found
    assert INSTALLED.family("count_circles@3") is found
    assert (found.name, found.version) == ("count_circles", "3")


@pytest.mark.parametrize(("name", "version", "said"), cases(__file__, "unknown"))
def test_what_it_does_not_know_it_names_with_the_nearest(name, version, said):
    with pytest.raises(GeneratorError) as refused:
        INSTALLED.family(name, version)
    assert said in str(refused.value)


def test_every_family_says_what_it_is_in_a_line():
    for each in INSTALLED.families():
        assert each.summary
        assert "\n" not in each.summary


def test_listing_the_families_loads_no_heavy_library():
    program = (
        "import sys; from generators.catalog import INSTALLED; INSTALLED.families();"
        "print([name for name in ('numpy', 'PIL', 'scipy', 'pandas') if name in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == "[]"


def test_a_catalogue_with_templates_is_another_value():
    made = template_family("past.yml", library_text("past"))
    catalog = INSTALLED.with_templates([made])
    entry = f"{made.name}@{made.version}"
    assert catalog.family(made.name, made.version) is made
    assert catalog.family(entry) is made
    assert entry in catalog.entries()
    assert entry not in INSTALLED.entries()
    with pytest.raises(GeneratorError, match="unknown task 'past'"):
        INSTALLED.family(entry)
