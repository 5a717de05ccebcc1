"""The first files of a new study: ``study.yaml`` and ``prices.yaml``, from answers or defaults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from string import Template

from study.protocol.yaml import quoted

_USUAL_GAP = 0.1  # the default of `plan.target_gap`


def study_name(folder: Path) -> str:
    """Return the name of a new study by its folder."""
    name = "".join(c if c.isalnum() else "-" for c in folder.resolve().name.lower()).strip("-")
    return name[:63] if name and name.isascii() else "my-study"


@dataclass(frozen=True, slots=True)
class NewStudy:
    """The contents of a new study: its tasks ("family/difficulty") and size. ``basis`` is a comment
    on the number of seeds, ``gap`` the inflation that they are meant to detect, from 0 to 1,
    ``budget`` USD for a wave."""

    name: str = "my-study"
    tasks: tuple[str, ...] = ("count_circles/medium", "compute_average/medium")
    seeds_per_arm: int = 64
    looks: int = 2
    gap: float = 0.1
    budget: float = 50.0
    basis: str = "This number finds a gap of 10 points in a model with a chance of 80 %."


def study_text(study: NewStudy) -> str:
    """Return the text of ``study.yaml``. Its model under test, and built-in agents as controls, are
    there to be edited."""
    return _template("new_study.yaml").substitute(
        name=quoted(study.name),
        tasks=f"[{', '.join(study.tasks)}]",
        basis=study.basis,
        gap=f"{study.gap:g}",
        target="" if study.gap == _USUAL_GAP else f"target_gap: {study.gap:g}, ",
        seeds=study.seeds_per_arm,
        looks=study.looks,
        budget=f"{f'budget: {{run: {study.budget:g}}}':24}",
    )


def prices_text(today: str) -> str:
    """Return the text of the price file: servers of our own are free. ``today`` is its date."""
    return _template("new_prices.yaml").substitute(today=today)


def _template(name: str) -> Template:
    return Template(Path(__file__).with_name(name).read_text(encoding="utf-8"))
