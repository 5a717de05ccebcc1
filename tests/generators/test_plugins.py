"""Families from installed packages: found by entry point, never over a built-in one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from generators.catalog import INSTALLED
from generators.errors import GeneratorError
from tests.cases import cases
from tests.plugins import installing

FAMILY = cases(__file__, "family")


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with installing(tmp_path, monkeypatch, "dosimeter.families") as put:

        def family(distribution: str, name: str, value: str, **about: str) -> None:
            own, version = about.get("own", name.split("@")[0]), about.get("v", "1")
            put(distribution, FAMILY.format(name=own, version=version), name, value)

        yield family


@pytest.mark.parametrize("value", ["FAMILY", "make"])
def test_an_installed_family_is_listed_and_loaded(install, value):
    install("plug-one", "own_sums@1", value)
    assert INSTALLED.entries()[-1] == "own_sums@1"
    assert "plug_one" not in sys.modules
    assert INSTALLED.family("own_sums").name == "own_sums"
    assert INSTALLED.family("own_sums", "1") in INSTALLED.families()


def test_the_newest_version_is_counted_not_spelt(install):
    for version in ("2", "10"):
        install(f"plug-v{version}", f"own_sums@{version}", "FAMILY", v=version)
    assert INSTALLED.family("own_sums").version == "10"
    assert [each for each in INSTALLED.entries() if "own_sums" in each] == [
        "own_sums@2",
        "own_sums@10",
    ]


@pytest.mark.parametrize(("entry", "value", "about", "said"), cases(__file__, "broken"))
def test_a_broken_family_is_refused_by_the_name_of_its_package(install, entry, value, about, said):
    install("plug-broken", entry, value, **about)
    with pytest.raises(GeneratorError) as refused:
        INSTALLED.family("own_sums")
    assert "'own_sums@1' of the package plug-broken" in str(refused.value)
    assert said in str(refused.value)
    assert INSTALLED.family("count_circles").name == "count_circles"


@pytest.mark.parametrize(("entry", "said"), cases(__file__, "refused"))
def test_an_entry_that_may_not_be_is_refused_unloaded(install, entry, said):
    install("plug-greedy", entry, "FAMILY")
    with pytest.raises(GeneratorError, match="of the package plug-greedy") as refused:
        INSTALLED.entries()
    assert said in str(refused.value)
    assert "plug_greedy" not in sys.modules
    assert INSTALLED.family("count_circles@3").package == "generators.basics.count_circles"


def test_two_packages_with_one_family_are_both_named(install):
    install("plug-a", "own_sums@1", "FAMILY")
    install("plug-b", "own_sums@1", "FAMILY")
    with pytest.raises(GeneratorError, match="of the package plug-b is given by plug-a too"):
        INSTALLED.families()
