"""Arms by time: each model's own cut-off parts the instances that it may have read from those that
it cannot have read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.data.table import ResultTable, one_of, refuse
from analysis.errors import AnalysisError
from registry.result_row import Arm

ITEM_DATE, CUTOFF, RELEASED = DAYS = ("item_date", "cutoff", "released")

Days = Mapping[str, np.datetime64]


@dataclass(frozen=True, slots=True)
class ItemDates:
    """Days by name: on which instances were made, of the cut-offs of models, and of their releases,
    which are their cut-offs if the table does not have them. ``stated``: it has arms too."""

    items: Days
    cutoffs: Days
    released: Days
    stated: bool


def read_item_dates(frame: Any, path: Path, *, stated: bool) -> ItemDates | None:
    """The dates of a data frame with the columns ``model``, ``instance`` and those of DAYS that the
    file has; None without the first two. Raises AnalysisError for a model or instance with two days
    of one column, and a model with a cut-off after its release."""
    days = {}
    for name in (name for name in DAYS if name in frame):
        of = "instance" if name == ITEM_DATE else "model"
        first = frame.groupby(of)[name].transform("first")
        refuse(path, first != frame[name], f"{name}: its {of} has another day in an earlier row")
        days[name] = dict(zip(frame[of], frame[name].to_numpy("datetime64[D]"), strict=True))
    if {CUTOFF, RELEASED} <= {*days}:
        refuse(path, frame[CUTOFF] > frame[RELEASED], "the cutoff lies after the model's release")
    if not {ITEM_DATE, CUTOFF} <= {*days}:
        return None
    return ItemDates(days[ITEM_DATE], days[CUTOFF], days.get(RELEASED, days[CUTOFF]), stated)


def check_item_dates(
    dates: ItemDates, table: ResultTable, controls: Collection[str], path: Path
) -> None:
    """Raise AnalysisError for a control model that may have read an instance, which would hide
    leaks, and for a stated arm that a model's cut-off contradicts."""
    day, cutoff = _days(table["instance"], dates.items), _days(table["model"], dates.cutoffs)
    control, public = one_of(table["model"], controls), table["arm"] == Arm.PUBLIC
    why = "is from before the cutoff of a control model, which may have read it"
    refuse(path, control & (day < cutoff), f"the instance {why}")
    if dates.stated:
        odd = ~control & np.where(public, day > cutoff, day < cutoff)
        refuse(path, odd, "arm: contradicts item_date and cutoff; leave out the column arm")


def own_arms(
    dates: ItemDates, table: ResultTable, model: str, controls: Collection[str], path: Path
) -> ResultTable:
    """The rows of a model and the control models with the model's arms: public are instances from
    before its cut-off, private those from after its release; the others are left out. Raises
    AnalysisError if an arm of a stratum is empty."""
    rows = table.where(one_of(table["model"], {model, *controls}))
    day = _days(rows["instance"], dates.items)
    public = day < dates.cutoffs[model]
    arm = np.where(public, str(Arm.PUBLIC), str(Arm.PRIVATE)).astype(object)
    known = public | (day > dates.released[model])
    kept = ResultTable({**rows.columns, "arm": arm}).where(known)
    arms = {*zip(kept["stratum"], kept["arm"], strict=True)}
    for stratum, name in product(sorted({*rows["stratum"]}), Arm):
        if (stratum, name) not in arms:
            raise AnalysisError(f"{path}: the cutoff of {model} leaves {stratum!r} no {name} arm")
    return kept


def _days(names: NDArray[Any], days: Days) -> NDArray[np.datetime64]:
    return np.array([days[name] for name in names], dtype="datetime64[D]")
