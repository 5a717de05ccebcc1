"""What installed packages name in an entry point group: gathered by one rule."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any


def gather(
    group: str,
    form: re.Pattern[str],
    told: str,
    clash: Callable[[str], str],
    refused: Callable[[EntryPoint, str], Exception],
    order: Callable[[EntryPoint], Any],
) -> dict[str, EntryPoint]:
    """The entries of a group by name, in an order; loads none.

    ``told`` says of which form names are, ``clash`` why a name cannot be had ("" where it can).
    Raises what ``refused`` makes of an entry of another form, with such a name, or that two
    distributions give.
    """
    found: dict[str, EntryPoint] = {}
    for entry in sorted(entry_points(group=group), key=order):
        if not form.fullmatch(entry.name):
            raise refused(entry, f"is not of {told}")
        if reason := clash(entry.name):
            raise refused(entry, reason)
        if entry.name in found:
            raise refused(
                entry, f"is given by {owner(found[entry.name])} too: uninstall one of the two"
            )
        found[entry.name] = entry
    return found


def owner(entry: EntryPoint) -> str:
    """The distribution that gives an entry."""
    return "an unknown package" if entry.dist is None else entry.dist.name
