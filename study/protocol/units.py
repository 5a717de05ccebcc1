"""Units of the levels above the instance: the tasks of study.yaml that are published or stay sealed
together, by their keys ``pair``, ``unit`` and ``area``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from registry.ledger.draw_records import FAMILY, VARIANT, Unit
from study.protocol.plan_section import Faults
from study.protocol.sections import TaskSection

UNIT_KEYS = ("pair", "unit", "area", "tranche")


@dataclass(slots=True)
class UnitsStated:
    """The units as they are read, task by task. ``files`` has the name of the template file of each
    stratum that has one."""

    files: dict[str, str] = field(default_factory=dict)
    # By level, area and unit: each stratum with its task.
    _strata: dict[tuple[str, str, str], list[tuple[str, int]]] = field(default_factory=dict)
    # By level and area: its first task, and the tranche that has all seeds.
    _areas: dict[tuple[str, str], tuple[int, int | None]] = field(default_factory=dict)
    _faults: list[tuple[int, str, str]] = field(default_factory=list)

    def add(self, index: int, section: TaskSection, strata: Sequence[str]) -> None:
        """Take the strata of a task into their units."""
        if section.pair is None and section.area is None and section.unit is None:
            if section.tranche is not None:
                self._faults.append((index, "tranche", "only units have one: add a pair or area"))
            return
        if section.pair is not None and section.area is not None:
            self._faults.append((index, "area", "a pair is its own area: leave out one of them"))
        level = FAMILY if section.pair is None else VARIANT
        area = section.pair or section.area or "all"
        first, tranche = self._areas.setdefault((level, area), (index, section.tranche))
        if tranche != section.tranche:
            has = f"tasks[{first}] has {'none' if tranche is None else tranche}"
            self._faults.append((index, "tranche", f"all tasks of {area!r} take the same; {has}"))
        for stratum in strata:
            name = section.unit or (strata[0] if section.pair else stratum)
            self._strata.setdefault((level, area, name), []).append((stratum, index))

    def units(self) -> tuple[Unit, ...]:
        """Return the units in the order of their first tasks."""
        return tuple(
            Unit(name, level, area, tuple(s for s, _ in own), tranche=self._areas[level, area][1])
            for (level, area, name), own in self._strata.items()
        )

    def faults(self, last: int) -> Faults:
        """Yield what is wrong with the units together; ``last`` is the last tranche drawn."""
        for index, key, message in self._faults:
            yield ("tasks", index, key), message
        for (level, area), (index, tranche) in self._areas.items():
            if tranche is not None and tranche > last:
                message = f"there is no tranche {tranche}: `reserve.tranches` is {last}"
                yield ("tasks", index, "tranche"), message
            count = sum((u.level, u.area) == (level, area) for u in self.units())
            if level == VARIANT and count != 2:
                yield (("tasks", index, "pair"), f"pair {area!r} takes two units, and has {count}")
            elif count < 2:
                message = f"area {area!r} has one unit: half of its units stay sealed; give it more"
                yield ("tasks", index), message
        names = [name for _, _, name in self._strata]
        for (_, area, name), strata in self._strata.items():
            at, own = ("tasks", strata[0][1]), {stratum for stratum, _ in strata}
            if names.count(name) > 1:
                yield at, f"unit {name!r} is in two areas or pairs, here in {area!r}: give it one"
            files = {self.files[stratum] for stratum in own if stratum in self.files}
            others = (s for s, file in self.files.items() if file in files and s not in own)
            if (stratum := next(others, None)) is not None:
                yield (
                    at,
                    f"{self.files[stratum]} has questions of unit {name!r} and others "
                    f"({stratum}): give each unit a file of its own, so that one can stay sealed",
                )


def units_of_looks(units: Sequence[Unit]) -> Iterator[tuple[str, list[Unit]]]:
    """Yield each level with the units that a look of it compares: those of one tranche."""
    for level, tranche in dict.fromkeys((unit.level, unit.tranche) for unit in units):
        yield level, [u for u in units if u.level == level and u.tranche in (None, tranche)]
