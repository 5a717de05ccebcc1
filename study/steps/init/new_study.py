"""The first files of a new study: ``study.yaml`` and ``prices.yaml``, from answers or defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from string import Template
from urllib.parse import urlsplit

from harness.models.settings import NAME, URL, VARIABLE
from harness.spending.prices import OWN_PROVIDERS
from study.protocol.yaml import quoted

CONTROLS, CONTROL_RUNS = 4, 2  # eight control runs an instance
_USUAL_GAP = 0.1  # the default of `plan.target_gap`
_TEMPLATE = Path(__file__).with_name("new_study.yaml")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def study_name(folder: Path) -> str:
    """Return the name of a new study by its folder."""
    name = "".join(c if c.isalnum() else "-" for c in folder.resolve().name.lower()).strip("-")
    return name[:63] if name and name.isascii() else "my-study"


def is_name(text: str) -> bool:
    """Report whether a text may name a model."""
    return re.search(NAME, text) is not None


def is_variable(text: str) -> bool:
    """Report whether a text may be the environment variable of a key."""
    return re.search(VARIABLE, text) is not None


def is_address(text: str) -> bool:
    """Report whether a text may be the address of a server."""
    return re.search(URL, text) is not None


@dataclass(frozen=True, slots=True)
class NewModel:
    """A model of a new study. Empty texts and None are left out of the file; prices are USD per
    million tokens, None if unknown."""

    name: str
    provider: str = "openai"
    version: str = "name-at-the-server"
    base_url: str = ""
    key_variable: str = ""
    retention: str = ""
    released: date | None = None
    input_price: float | None = None
    output_price: float | None = None
    context: int | None = None  # tokens
    error_rate: float = 0.0  # of a built-in agent

    @property
    def paid(self) -> bool:
        """True if a provider runs the model, so that a sweep needs its price."""
        return self.provider not in OWN_PROVIDERS

    @property
    def priced(self) -> bool:
        """True if both prices are known."""
        return self.input_price is not None and self.output_price is not None


def on_this_machine(base_url: str) -> bool:
    """Report whether an address is one of this machine's own."""
    try:
        return urlsplit(base_url).hostname in _LOOPBACK
    except ValueError:
        return False


_LOCAL = NewModel(
    "my-model",
    base_url="http://127.0.0.1:8000/v1",
    retention="none",
    input_price=0.0,
    output_price=0.0,
)


def stand_in(name: str, place: int) -> NewModel:
    """Return a built-in agent as a control model; ``place`` among the controls sets its skill."""
    return NewModel(name, "scripted", "", error_rate=round(0.05 + 0.05 * (place % CONTROLS), 2))


@dataclass(frozen=True, slots=True)
class NewStudy:
    """The contents of a new study: its models, tasks ("family/difficulty") and size. ``basis`` is a
    comment on the number of seeds, ``gap`` the inflation that they are meant to detect, from 0 to
    1, ``budget`` USD for a wave."""

    name: str = "my-study"
    tested: tuple[NewModel, ...] = (_LOCAL,)
    controls: tuple[NewModel, ...] = tuple(
        stand_in(f"before-{place + 1}", place) for place in range(CONTROLS)
    )
    tasks: tuple[str, ...] = ("count_circles/medium", "compute_average/medium")
    seeds_per_arm: int = 64
    looks: int = 2
    gap: float = 0.1
    budget: float = 50.0
    basis: str = "This number finds a gap of 10 points in a model with a chance of 80 %."
    items: str = ""  # in place of tasks: the lines of a pool of given items
    any_price: bool = False  # one price for every version at the provider of a free server

    @property
    def models(self) -> tuple[NewModel, ...]:
        """All models, those under test first."""
        return (*self.tested, *self.controls)


def study_text(study: NewStudy) -> str:
    """Return the text of ``study.yaml``."""
    tested, before = (_names(models) for models in (study.tested, study.controls))
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        name=quoted(study.name),
        tasks=study.items or f"[{', '.join(study.tasks)}]   # `dosimeter tasks list` has all",
        basis=study.basis,
        gap=f"{study.gap:g}",
        target="" if study.gap == _USUAL_GAP else f"target_gap: {study.gap:g}, ",
        seeds=study.seeds_per_arm,
        models="\n".join(_model_lines(study)),
        before=before,
        tested=tested,
        looks=study.looks,
        budget=_budget_line(study),
    )


def prices_text(study: NewStudy, today: str) -> str:
    """Return the text of the price file: an entry for each paid model, as a comment if its price is
    unknown. ``today`` is the date of the prices."""
    lines = [
        "# What the models cost, in USD per million tokens: docs/money.md. The first entry that",
        "# matches counts; * and ? in `model` stand for any characters. A sweep of a model without",
        "# a price is refused.",
        "prices:",
    ]
    entries: dict[tuple[str, str], list[str]] = {}
    for model in study.models:
        if model.paid:
            pattern = "*" if study.any_price else model.version
            entries.setdefault((model.provider, pattern), _price_lines(model, pattern, today))
    known = [entry for entry in entries.values() if not entry[0].startswith("#")]
    if not known:
        lines[-1] = "prices: []"
    return "\n".join([*lines, *(line for entry in entries.values() for line in entry)]) + "\n"


def _price_lines(model: NewModel, pattern: str, today: str) -> list[str]:
    known = model.priced
    free = known and not model.input_price and not model.output_price
    source = "a server of our own, which costs nothing" if free else "stated at dosimeter init"
    if not known:
        source = "the address of the provider's price list"
    values = {
        "provider": model.provider,
        "model": quoted(pattern),
        "input": "?" if model.input_price is None else f"{model.input_price:g}",
        "output": "?" if model.output_price is None else f"{model.output_price:g}",
        "date": today,
        "source": source,
    }
    lines = [f"    {key}: {value}" for key, value in values.items()]
    lines[0] = f"  - {lines[0].lstrip()}"
    return lines if known else [f"# {line}" for line in lines]


def _budget_line(study: NewStudy) -> str:
    """Return the budget; as a comment while a price is unknown, since no limit holds then."""
    line = f"budget: {{run: {study.budget:g}}}"
    if all(model.priced for model in study.models if model.paid):
        return f"{line:24}# USD, the most that a wave may cost"
    return f"# {line}   # USD a wave, to be switched on when prices.yaml has every price"


def _names(models: Sequence[NewModel]) -> str:
    return f"[{', '.join(quoted(model.name) for model in models)}]"


_STAND_INS = (
    "  # Built-in agents stand in, so that the file runs as it is: they solve the tasks by program",
    "  # and get a share of the values wrong. In a study that counts, name real models instead,",
    "  # each with the documented day of its release (`released: 2025-01-31`).",
)


def _model_lines(study: NewStudy) -> Iterator[str]:
    """Yield the lines of the section ``models:``, with comments."""
    yield "  # Under test: models that are released after the publication. `retention` is what the"
    yield "  # provider keeps of the inputs, as documented: none, kept, training or unknown."
    yield from map(_served_line, study.tested)
    yield "  # Controls: models from before the publication, which cannot have seen it."
    if any(not model.paid for model in study.controls):
        yield from _STAND_INS
    for model in study.controls:
        if model.paid:
            yield _served_line(model)
        else:
            rate = f"error_rate: {model.error_rate:g}"
            yield f"  {model.name}: {{provider: {model.provider}, {rate}}}"


def _served_line(model: NewModel) -> str:
    """Return the line of a model behind a server."""
    values = {
        "provider": model.provider,
        "model": quoted(model.version),
        "base_url": model.base_url and f'"{model.base_url}"',
        "api_key_env": model.key_variable or '""',
        "context": "" if model.context is None else str(model.context),
        "retention": model.retention,
        "released": "" if model.released is None else model.released.isoformat(),
    }
    stated = ", ".join(f"{key}: {value}" for key, value in values.items() if value)
    more = ", base_url and released" if model.released else " and base_url"
    edit = f"   # edit this: model{more}" if model.version == _LOCAL.version else ""
    return f"  {model.name}: {{{stated}}}{edit}"
