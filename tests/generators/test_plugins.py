"""Families from installed packages: found by entry point, never over a built-in one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from generators.catalog import INSTALLED
from generators.errors import GeneratorError

FAMILY = """
from dataclasses import replace
from generators.basics.compute_average import FAMILY as AVERAGE
FAMILY = replace(AVERAGE, name="{name}", version="{version}")
def make(): return FAMILY
def explode(): raise ImportError("no module named 'scope'")
NOTHING = object()
CLASS = type("C", (), {{"generate": None, "__init__": lambda self: None}})
"""


class Installer:
    """Installs packages as pip leaves them behind: a module and its metadata."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, distribution: str, name: str, value: str, **about: str) -> None:
        module = distribution.replace("-", "_")
        text = FAMILY.format(name=about.get("own", name.split("@")[0]), version=about.get("v", "1"))
        (self.folder / f"{module}.py").write_text(text)
        info = self.folder / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(
            f"[dosimeter.families]\n{name} = {value.format(module=module)}\n"
        )


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installer:
    monkeypatch.syspath_prepend(str(tmp_path))
    return Installer(tmp_path)


@pytest.fixture(autouse=True)
def forget():
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("plug_"):
            del sys.modules[name]


@pytest.mark.parametrize("value", ["{module}:FAMILY", "{module}:make"])
def test_an_installed_family_is_listed_and_loaded(install, value):
    install("plug-one", "own_sums@1", value)
    assert INSTALLED.entries()[-1] == "own_sums@1"
    assert "plug_one" not in sys.modules
    assert INSTALLED.family("own_sums").name == "own_sums"
    assert INSTALLED.family("own_sums", "1") in INSTALLED.families()


def test_the_newest_version_is_counted_not_spelt(install):
    for version in ("2", "10"):
        install(f"plug-v{version}", f"own_sums@{version}", "{module}:FAMILY", v=version)
    assert INSTALLED.family("own_sums").version == "10"
    assert [each for each in INSTALLED.entries() if "own_sums" in each] == [
        "own_sums@2",
        "own_sums@10",
    ]


@pytest.mark.parametrize(
    ("entry", "value", "about", "said"),
    [
        ("own_sums@1", "{module}:explode", {}, "cannot be loaded: ImportError: no module named"),
        ("own_sums@1", "{module}:GONE", {}, "cannot be loaded: AttributeError"),
        ("own_sums@1", "no_such_module:FAMILY", {}, "cannot be loaded: ModuleNotFoundError"),
        ("own_sums@1", "{module}:NOTHING", {}, "cannot be loaded: TypeError"),
        ("own_sums@1", "{module}:CLASS", {}, "lacks name, version, summary, parameters, key"),
        ("own_sums@1", "{module}:FAMILY", {"own": "other"}, "calls itself other@1"),
        ("own_sums@1", "{module}:FAMILY", {"v": "2"}, "calls itself own_sums@2"),
    ],
)
def test_a_broken_family_is_refused_by_the_name_of_its_package(install, entry, value, about, said):
    install("plug-broken", entry, value, **about)
    with pytest.raises(GeneratorError) as refused:
        INSTALLED.family("own_sums")
    assert "'own_sums@1' of the package plug-broken" in str(refused.value)
    assert said in str(refused.value)
    assert INSTALLED.family("count_circles").name == "count_circles"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("count_circles@3", "has the name of a built-in family"),
        ("count_circles@7", "has the name of a built-in family"),
        ("own_sums", "is not of the form name@version"),
        ("Own Sums@1", "is not of the form name@version"),
    ],
)
def test_an_entry_that_may_not_be_is_refused_unloaded(install, entry, said):
    install("plug-greedy", entry, "{module}:FAMILY")
    with pytest.raises(GeneratorError, match="of the package plug-greedy") as refused:
        INSTALLED.entries()
    assert said in str(refused.value)
    assert "plug_greedy" not in sys.modules
    assert INSTALLED.family("count_circles@3").package == "generators.basics.count_circles"


def test_two_packages_with_one_family_are_both_named(install):
    install("plug-a", "own_sums@1", "{module}:FAMILY")
    install("plug-b", "own_sums@1", "{module}:FAMILY")
    with pytest.raises(GeneratorError, match="of the package plug-b is given by plug-a too"):
        INSTALLED.families()
