"""Families from outside the repository: installed packages name them in an entry point group.

In such a package's pyproject.toml:

    [project.entry-points."dosimeter.families"]
    "lucky_sums@1" = "lucky_sums:FAMILY"

The value is a Family, or a callable without arguments that gives one. It is loaded when it is
first asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from generators.errors import GeneratorError
from generators.task import Family


def gather(
    group: str,
    form: re.Pattern[str],
    form_words: str,
    clash: Callable[[str], str],
    refused: Callable[[EntryPoint, str], Exception],
    order: Callable[[EntryPoint], Any],
) -> dict[str, EntryPoint]:
    """The entries of a group by name, in an order; loads none.

    ``form_words`` describes the form of names; ``clash`` gives the reason that a name is taken,
    or "".
    Raises what ``refused`` makes of an entry of another form, with such a name, or that two
    distributions give.
    """
    by_name: dict[str, EntryPoint] = {}
    for entry in sorted(entry_points(group=group), key=order):
        if not form.fullmatch(entry.name):
            raise refused(entry, f"is not of {form_words}")
        if reason := clash(entry.name):
            raise refused(entry, reason)
        if entry.name in by_name:
            raise refused(
                entry, f"is given by {owner(by_name[entry.name])} too: uninstall one of the two"
            )
        by_name[entry.name] = entry
    return by_name


def owner(entry: EntryPoint) -> str:
    """The distribution that gives an entry."""
    return "an unknown package" if entry.dist is None else entry.dist.name


GROUP = "dosimeter.families"

_ENTRY = re.compile(r"[a-z][a-z0-9_]*@[0-9A-Za-z][0-9A-Za-z.]*")
_PARTS = ("name", "version", "summary", "parameters", "generate", "key", "nulls")


def installed_families(reserved: Collection[str]) -> Mapping[str, Callable[[], Family]]:
    """Return a loader for each installed family, by ``name@version``; loads none.

    Raises GeneratorError, which names the distribution, for an entry that is not of that form,
    that takes a reserved name, or that two distributions give.
    """
    taken = "has the name of a built-in family: give it another"
    entries = gather(
        GROUP,
        _ENTRY,
        "the form name@version, such as lucky_sums@1",
        lambda name: taken * (name.split("@")[0] in reserved or name.startswith("rg_")),
        _refused,
        _order,
    )
    return {name: partial(load_family, entry) for name, entry in entries.items()}


def load_family(entry: EntryPoint) -> Family:
    """The family of an entry point. Raises GeneratorError, which names the distribution."""
    try:
        loaded: Any = entry.load()
        if isinstance(loaded, type) or not hasattr(loaded, "generate"):
            loaded = loaded()
    except Exception as error:  # external code may raise anything
        raise _refused(entry, f"cannot be loaded: {type(error).__name__}: {error}") from error
    missing = [part for part in _PARTS if not hasattr(loaded, part)]
    if missing:
        raise _refused(entry, f"is no family: {entry.value} lacks {', '.join(missing)}")
    name = f"{loaded.name}@{loaded.version}"
    if name != entry.name:
        raise _refused(entry, f"calls itself {name}: make the two the same")
    family: Family = loaded
    return family


def _order(entry: EntryPoint) -> tuple[Any, ...]:
    """By name, then version (10 after 9), then owner."""
    name, _, version = entry.name.partition("@")
    parts = tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", version))
    return name, parts, owner(entry)


def _refused(entry: EntryPoint, reason: str) -> GeneratorError:
    return GeneratorError(f"the task family {entry.name!r} of the package {owner(entry)} {reason}")
