"""Units of the levels above the instance: the tasks of study.yaml that are published or stay sealed
together, by their keys ``pair``, ``unit`` and ``area``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from registry.ledger.draw_records import FAMILY, VARIANT, Unit
from study.protocol.plan_section import Faults
from study.protocol.sections import TaskSection

ONE_AREA = "all"
UNIT_KEYS = ("pair", "unit", "area", "tranche")


@dataclass(slots=True)
class UnitsStated:
    """The units as they are read, task by task. ``files`` has the name of the template file of each
    stratum that has one."""

    files: dict[str, str] = field(default_factory=dict)
    _strata: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)
    # By level and area: its first task, and the tranche that has all seeds.
    _areas: dict[tuple[str, str], tuple[int, int | None]] = field(default_factory=dict)
    _faults: list[tuple[int, str, str]] = field(default_factory=list)

    def add(self, index: int, section: TaskSection, strata: Sequence[str]) -> None:
        """Take the strata of a task into their units."""
        if section.pair is None and section.area is None and section.unit is None:
            if section.tranche is not None:
                self._faults.append((index, "tranche", "is of units: give a pair or an area"))
            return
        if section.pair is not None and section.area is not None:
            self._faults.append((index, "area", "a pair is its own area: leave out one of them"))
        level = FAMILY if section.pair is None else VARIANT
        area = section.pair or section.area or ONE_AREA
        if self._areas.setdefault((level, area), (index, section.tranche))[1] != section.tranche:
            self._faults.append((index, "tranche", f"{area!r} has units of another tranche"))
        for stratum in strata:
            name = section.unit or (strata[0] if section.pair else stratum)
            self._strata.setdefault((level, area, name), []).append(stratum)

    def units(self) -> tuple[Unit, ...]:
        """Return the units in the order of their first tasks."""
        named = self._strata.items()
        return tuple(
            Unit(name, level, area, tuple(own), tranche=self._areas[level, area][1])
            for (level, area, name), own in named
        )

    def faults(self, last: int) -> Faults:
        """Yield what is wrong with the units together; ``last`` is the last tranche drawn."""
        for index, key, message in self._faults:
            yield ("tasks", index, key), message
        for (level, area), (index, tranche) in self._areas.items():
            if tranche is not None and tranche > last:
                message = f"there is no tranche {tranche}; 0 to {last} are drawn, by `reserve`"
                yield ("tasks", index, "tranche"), message
            count = sum((u.level, u.area) == (level, area) for u in self.units())
            if level == VARIANT and count != 2:
                yield (("tasks", index, "pair"), f"pair {area!r} takes two units, and has {count}")
            elif count < 2:
                message = f"area {area!r} has one unit: half of its units stay sealed; give it more"
                yield ("tasks", index), message
        names = [unit.name for unit in self.units()]
        for unit in self.units():
            at = ("tasks", self._areas[unit.level, unit.area][0])
            if names.count(unit.name) > 1:
                yield at, f"unit {unit.name!r} is in two areas or pairs"
            own = {self.files[name] for name in unit.strata if name in self.files}
            mixed = (s for s in self.files if self.files[s] in own and s not in unit.strata)
            if (stratum := next(mixed, None)) is not None:
                yield (
                    at,
                    f"{self.files[stratum]} has questions of unit {unit.name!r} and others "
                    f"({stratum}): give each unit a file of its own, so that one can stay sealed",
                )


def units_of_looks(units: Sequence[Unit]) -> Iterator[tuple[str, list[Unit]]]:
    """Yield each level with the units that a look of it compares: those of one tranche."""
    for level, tranche in dict.fromkeys((unit.level, unit.tranche) for unit in units):
        yield level, [u for u in units if u.level == level and u.tranche in (None, tranche)]
