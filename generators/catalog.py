"""The catalogue: every family that can be asked for, by ``name@version``."""

from __future__ import annotations

from collections.abc import Callable

from generators.errors import unknown
from generators.task import Family


def _compute_average() -> Family:
    from generators.basics.compute_average import FAMILY

    return FAMILY


def _count_circles() -> Family:
    from generators.basics.count_circles import FAMILY

    return FAMILY


# A published version stays as it is for good: what changes a byte is a new version, listed
# after the one that it follows.
_FAMILIES: dict[str, Callable[[], Family]] = {
    "compute_average@1": _compute_average,
    "count_circles@1": _count_circles,
}


def entries() -> tuple[str, ...]:
    """Every ``name@version``; loads no family."""
    return tuple(_FAMILIES)


def families() -> tuple[Family, ...]:
    """Every family at every version, in the order of the catalogue."""
    return tuple(load() for load in _FAMILIES.values())


def family(name: str, version: str | None = None) -> Family:
    """The family of this name at a version; the newest where none is given.

    The name may carry the version: ``count_circles@1``. Raises GeneratorError for an unknown
    name or version, with the nearest that is known.
    """
    if version is None and "@" in name:
        name, version = name.split("@", 1)
    versions = [entry.split("@")[1] for entry in _FAMILIES if entry.split("@")[0] == name]
    if not versions:
        raise unknown("task", name, dict.fromkeys(entry.split("@")[0] for entry in _FAMILIES))
    if version is None:
        version = versions[-1]
    if version not in versions:
        raise unknown(f"version of {name}", version, versions)
    return _FAMILIES[f"{name}@{version}"]()
