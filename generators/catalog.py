"""The catalogue: the available task families, by ``name@version``.

The repository's own are listed here. Installed packages may bring others (plugins.py), and a study
its template files: ``INSTALLED.with_templates(...)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from types import MappingProxyType

from generators.errors import unknown
from generators.task import Family

Loader = Callable[[], Family]


def _load(module: str) -> Family:
    """Import the module of a built-in family and return the family."""
    family: Family = import_module(module).FAMILY
    return family


# A published version never changes: a change of any byte is a new version, listed after the one
# that it follows.
_BUILT_IN: Mapping[str, Loader] = MappingProxyType(
    {
        "compute_average@3": partial(_load, "generators.basics.compute_average"),
        "count_circles@3": partial(_load, "generators.basics.count_circles"),
        "cepheid_calibration@3": partial(_load, "generators.physics.cepheid_calibration"),
        "hubble_constant@3": partial(_load, "generators.physics.hubble_constant"),
        "invariant_mass_reconstruction@3": partial(
            _load, "generators.physics.invariant_mass_reconstruction"
        ),
        "lissajous_figures@3": partial(_load, "generators.physics.lissajous_figures"),
        "order_statistics@1": partial(_load, "generators.ladder.order_statistics"),
        "program_repair@1": partial(_load, "generators.ladder.program_repair"),
        "sequence_variants@1": partial(_load, "generators.ladder.sequence_variants"),
        "table_analytics@1": partial(_load, "generators.ladder.table_analytics"),
    }
)
# Not listed: of a pool of a study's own, which its strata name.
_POOLED = {"items": "FAMILY", "harbor": "AGENT_TASKS"}


@dataclass(frozen=True, slots=True, eq=False)
class Catalog:
    """Task families by ``name@version``. A family is loaded when it is asked for, and installed
    packages are searched only for names that are not listed here."""

    loaders: Mapping[str, Loader]
    plugins: bool = False  # whether families of installed packages belong to it

    @classmethod
    def built_in(cls) -> Catalog:
        """The repository's own families."""
        return cls(_BUILT_IN)

    def with_templates(self, families: Iterable[Family]) -> Catalog:
        """This catalogue and the families of template files (templates.template_family)."""
        added = {f"{made.name}@{made.version}": partial(_itself, made) for made in families}
        return replace(self, loaders=MappingProxyType({**self.loaders, **added}))

    def entries(self) -> tuple[str, ...]:
        """Every ``name@version``, the built-in ones first; loads no family.

        Raises GeneratorError if an installed package names a family wrongly.
        """
        return tuple(self._all())

    def families(self) -> tuple[Family, ...]:
        """Every family at every version, in the order of ``entries``."""
        return tuple(load() for load in self._all().values())

    def newest(self) -> tuple[Family, ...]:
        """Each family at its newest version."""
        return tuple(self.family(name) for name in _names(self._all()))

    def family(self, name: str, version: str | None = None) -> Family:
        """The family of this name at a version; by default at the newest.

        The name may carry the version: ``count_circles@3``. Raises GeneratorError for an unknown
        name or version, and names the nearest known one.
        """
        if version is None and "@" in name:
            name, version = name.split("@", 1)
        if name in _POOLED and version in (None, "1"):
            pooled: Family = getattr(import_module("generators.items.family"), _POOLED[name])
            return pooled
        if self.plugins and name.startswith(GYM) and name not in _names(self.loaders):
            family: Family = import_module("generators.gym.family").gym_family(name, version)
            return family
        known = self.loaders if name in _names(self.loaders) else self._all()
        versions = [entry.split("@")[1] for entry in known if entry.split("@")[0] == name]
        if not versions:
            raise unknown("task", name, _names(known))
        if version is None:
            version = versions[-1]
        if version not in versions:
            raise unknown(f"version of {name}", version, versions)
        return known[f"{name}@{version}"]()

    def _all(self) -> Mapping[str, Loader]:
        if not self.plugins:
            return self.loaders
        # Imported here: reading what is installed costs a few hundredths of a second.
        from generators.plugins import installed_families

        return {**self.loaders, **installed_families(BUILT_IN_NAMES)}


def _itself(family: Family) -> Family:
    return family


def _names(entries: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(entry.split("@")[0] for entry in entries))


BUILT_IN_NAMES = (*_names(_BUILT_IN), *_POOLED)
GYM = ("rg:", "rg_")  # begin the names of reasoning-gym's data sets, which no list shows
INSTALLED = Catalog(_BUILT_IN, plugins=True)  # everything but the template files of a study
