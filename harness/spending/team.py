"""The budget that several studies share, in a ledger beside their stores.

A wave that spends holds a part of the team's limit, which covers what it has spent and what its
work in progress may still spend, and gives back the rest at its end. Each change is one more
object, ``team-spend/00000001.json``, put if absent, with the parts of all. So no two processes
change them at once, and all parts together stay within the limit.
"""

from __future__ import annotations

import json
import re
import time
from decimal import Decimal, InvalidOperation

from harness.errors import HarnessError
from registry.stores import open_store

_FOLDER = "team-spend/"
_NAME = re.compile(rf"{_FOLDER}(\d{{8}})\.json")
_PILOT = re.compile(r"(?<=-pilot)-[0-9a-f]{12}$")  # each counts the study's others
_AGAIN_SECONDS = 5.0  # between two tries to hold more than is left
NOT_SHARED = (
    "it needs a store beside those of other studies: s3://bucket/studies/NAME or /studies/NAME"
)


def shared_place(store: str) -> tuple[str, str] | None:
    """Return the URI of the place in which a store lies, and its name there; None for a folder that
    is a study's own, and for a whole bucket or disk."""
    place, mark, query = store.partition("?")
    parent, _, name = place.rstrip("/").rpartition("/")
    if not store.startswith(("s3:", "file:", "/")) or parent in ("s3:/", "file:", ""):
        return None
    return parent + mark + query, name


class TeamBudget:
    """The part of a team's limit that one wave holds, in USD."""

    def __init__(self, limit: Decimal, store: str, purpose: str) -> None:
        """Open the ledger beside the store of this URI. ``purpose`` names the wave, or the check of
        a judge. Raises HarnessError if nothing lies beside the store."""
        if (place := shared_place(store)) is None:
            raise HarnessError(f"budget.team: {store}: {NOT_SHARED}")
        self.limit, self.held, self.others = limit, Decimal(), Decimal()
        self._store = open_store(place[0])
        self._account = f"{_PILOT.sub('', place[1])}/{purpose}"
        self._again = 0.0  # monotonic time

    def cover(self, spent: Decimal, used: Decimal, more: Decimal) -> None:
        """Hold ``more`` USD beyond what is ``used``, or as much of it as is left; and in any case
        what is ``spent``. Raises RegistryError."""
        if used + more > self.held and time.monotonic() >= self._again:
            self.hold(spent, used + max(more, used / 4))
            if used + more > self.held:
                self._again = time.monotonic() + _AGAIN_SECONDS

    def hold(self, spent: Decimal, wanted: Decimal) -> None:
        """Hold ``wanted`` USD, or as much of them as is left, but no less than what is ``spent``.
        Raises RegistryError."""
        while True:
            number, parts = self._read()
            self.others = sum(parts.values(), Decimal()) - parts.get(self._account, Decimal())
            self.held = max(spent, min(wanted, self.limit - self.others))
            if parts.get(self._account) == self.held:
                return
            body = {name: str(usd) for name, usd in (parts | {self._account: self.held}).items()}
            data = json.dumps(body, indent=0, sort_keys=True).encode()
            if self._store.put(f"{_FOLDER}{number + 1:08d}.json", data):
                return

    def _read(self) -> tuple[int, dict[str, Decimal]]:
        """Return the number of the last entry, and the parts of all. A listing may be late: then
        the next entry is not absent."""
        names = [found for key in self._store.list(_FOLDER) if (found := _NAME.fullmatch(key))]
        if not names:
            return 0, {}
        last = max(names, key=lambda name: name[1])
        try:
            parts = json.loads(self._store.get(last[0]))
            return int(last[1]), {str(name): Decimal(usd) for name, usd in parts.items()}
        except (ValueError, AttributeError, InvalidOperation, TypeError) as error:
            raise HarnessError(
                f"{last[0]} beside the store holds no amounts: restore it, or move {_FOLDER} away "
                "and run one more sweep of each study"
            ) from error
