"""The catalogue: every family that can be asked for, by ``name@version``.

Those of the repository are listed here; installed packages may bring others (plugins.py), and a
study its template files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from generators.errors import unknown
from generators.task import Family

if TYPE_CHECKING:
    from generators.templates import TemplateFamily


def _built_in(module: str) -> Callable[[], Family]:
    """What loads a family of the repository: its module, when it is asked for."""

    def load() -> Family:
        found: Family = import_module(module).FAMILY
        return found

    return load


# A published version stays as it is for good: what changes a byte is a new version, listed
# after the one that it follows.
_FAMILIES: dict[str, Callable[[], Family]] = {
    "compute_average@1": _built_in("generators.basics.compute_average"),
    "count_circles@1": _built_in("generators.basics.count_circles"),
    "cepheid_calibration@1": _built_in("generators.physics.cepheid_calibration"),
    "hubble_constant@1": _built_in("generators.physics.hubble_constant"),
    "invariant_mass_reconstruction@1": _built_in(
        "generators.physics.invariant_mass_reconstruction"
    ),
    "lissajous_figures@1": _built_in("generators.physics.lissajous_figures"),
}


# Families of template files, by name@version. The version holds the digest of the file, so this
# only ever grows by what it says: the same name@version is the same family in every process.
_TEMPLATES: dict[str, TemplateFamily] = {}


def add_template(name: str, text: str) -> TemplateFamily:
    """The family of a template file's name and text, which ``family`` knows from now on by its
    name and version.

    Raises TemplateError for a template that does not hold, and for the name of another family.
    """
    from generators.templates import TemplateFamily
    from generators.templates.language import parse_template

    found = TemplateFamily(parse_template(text, name), template_name(name))
    return _TEMPLATES.setdefault(f"{found.name}@{found.version}", found)


def template_name(name: str) -> str:
    """The name of the family that a template file of this name is. Raises TemplateError where it
    gives none, or that of another family."""
    from generators.errors import TemplateError
    from generators.templates import family_name

    found = family_name(Path(name).stem)
    if found in _names(_FAMILIES):
        raise TemplateError(f"{name}: {found} is the name of a built-in task: rename the file")
    return found


def entries() -> tuple[str, ...]:
    """Every ``name@version``, the built-in ones first; loads no family.

    Raises GeneratorError where an installed package names a family badly.
    """
    return tuple(_all())


def families() -> tuple[Family, ...]:
    """Every family at every version, in the order of ``entries``."""
    return tuple(load() for load in _all().values())


def built_in() -> tuple[Family, ...]:
    """The repository's own families, each at its newest version."""
    return tuple(family(name) for name in _names(_FAMILIES))


def family(name: str, version: str | None = None) -> Family:
    """The family of this name at a version; the newest where none is given.

    The name may carry the version: ``count_circles@1``. Raises GeneratorError for an unknown
    name or version, with the nearest that is known. A built-in name never looks at what else
    is installed.
    """
    if version is None and "@" in name:
        name, version = name.split("@", 1)
    if (template := _TEMPLATES.get(f"{name}@{version}")) is not None:
        return template
    known = _FAMILIES if name in _names(_FAMILIES) else _all()
    versions = [entry.split("@")[1] for entry in known if entry.split("@")[0] == name]
    if not versions:
        raise unknown("task", name, _names(known))
    if version is None:
        version = versions[-1]
    if version not in versions:
        raise unknown(f"version of {name}", version, versions)
    return known[f"{name}@{version}"]()


def _all() -> dict[str, Callable[[], Family]]:
    # Reading what is installed costs a few hundredths of a second: only where it is asked for.
    from generators.plugins import installed_families

    return {**_FAMILIES, **installed_families(_names(_FAMILIES))}


def _names(entries: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(entry.split("@")[0] for entry in entries))
