"""The catalogue: what can be asked for, and what is said of what cannot."""

from __future__ import annotations

import subprocess
import sys

import pytest

from generators.catalog import entries, families, family
from generators.errors import GeneratorError


def test_it_lists_each_family_under_its_own_name():
    assert entries() == tuple(f"{each.name}@{each.version}" for each in families())
    assert {"compute_average@1", "count_circles@1"} <= set(entries())


def test_a_family_is_found_by_name_by_version_and_by_both():
    found = family("count_circles")
    assert family("count_circles", "1") is found
    assert family("count_circles@1") is found
    assert (found.name, found.version) == ("count_circles", "1")


@pytest.mark.parametrize(
    ("name", "version", "said"),
    [
        ("count_circle", None, "unknown task 'count_circle'; did you mean 'count_circles'?"),
        ("Compute_Average", None, "did you mean 'compute_average'?"),
        ("xyzzy", None, "unknown task 'xyzzy'; known: compute_average, count_circles"),
        ("", None, "unknown task ''; known: compute_average, count_circles"),
        ("count_circles", "9", "unknown version of count_circles '9'; known: 1"),
        ("count_circles@9", None, "unknown version of count_circles '9'; known: 1"),
        ("count_circles@", None, "unknown version of count_circles ''; known: 1"),
    ],
)
def test_what_it_does_not_know_it_names_with_the_nearest(name, version, said):
    with pytest.raises(GeneratorError) as refused:
        family(name, version)
    assert said in str(refused.value)


def test_every_family_says_what_it_is_in_a_line():
    for each in families():
        assert each.summary
        assert "\n" not in each.summary


def test_listing_the_families_loads_no_heavy_library():
    program = (
        "import sys; from generators.catalog import families; families();"
        "print([name for name in ('numpy', 'PIL', 'scipy', 'pandas') if name in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == "[]"
