"""The catalogue of extras: what each adds to the steps of a study.

The core imports no extra; it asks here for commands and for hooks, which are imported on first use.
A hook is a function of an extra that a step calls if the extra is there:

- ``look(scope)``: rows, controls and parts of a report (``study/steps/report/contributors.py``)
- ``preview(study, wave)``: first requests beside a sweep's (``study/steps/sweep/preview.py``)
- ``regrades(study)``: further grades to make again (``study/steps/verify/regrade.py``)
- ``pin_judge(pin)``, ``build_judge(pin, ...)``: a model of ``judges`` in study.yaml
- ``shortfalls``, ``describe_chances``: the power of a plan before its draw
- ``sibling_faults(protocol)``: pairs that differ by more than wording
- ``demo_pairs(folder)``: lines of ``tasks`` in the demo's study.yaml, whose files it writes
- ``after_demo_wave(study, wave)``: what the demo does with a closed wave

To take an extra out, delete its folders (its noun in ``study/extras``, ``harness``, ``analysis``
and ``tests``) and its row here; the steps then work without its share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

STUDY, RESULTS, DESIGN, EVIDENCE, TASKS = "Study", "Results", "Design", "Evidence", "Tasks"
GROUPS = (STUDY, RESULTS, DESIGN, EVIDENCE, TASKS)


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its group and its line in ``dosimeter --help``, and its ``module:function``."""

    name: str
    group: str
    help: str
    target: str


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra: its commands as name, group and line of help; its hooks as ``module:function``,
    below ``study.extras.<name>`` if the module begins with a dot; and the extras that it
    imports."""

    name: str
    rows: tuple[tuple[str, str, str], ...] = ()
    hooks: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    def commands(self) -> Iterator[Command]:
        """Yield the commands, each of which is a function of the extra's ``command.py``."""
        for name, group, line in self.rows:
            function = "import_" if name == "import" else name
            yield Command(name, group, line, f"study.extras.{self.name}.command:{function}")

    def targets(self) -> Iterator[str]:
        """Yield the hooks as ``module:function``."""
        for hook in self.hooks:
            yield f"study.extras.{self.name}{hook}" if hook.startswith(".") else hook


_STEPS = (  # name, group, line of help, and the module below study/steps
    ("demo", STUDY, "run a complete small study", "demo.command"),
    ("init", STUDY, "write a new study: study.yaml and a key", "init.command"),
    ("lint", STUDY, "check study.yaml, change nothing", "lint.command"),
    ("register", STUDY, "draw and encrypt the instances, record the plan", "register.command"),
    ("sweep", STUDY, "run the models of a wave on the instances", "sweep.command"),
    ("wave", STUDY, "list, open, watch, hold or close waves", "sweep.wave_command"),
    ("publish", STUDY, "release the public arm", "publish.command"),
    ("report", STUDY, "run the registered test, write the report", "report.command"),
    ("status", STUDY, "show what is done and what remains", "status"),
    ("verify", EVIDENCE, "check all that is recorded", "verify.command"),
    ("log", EVIDENCE, "print the ledger, the record of all steps", "verify.command"),
)
STEPS = tuple(
    Command(name, group, line, f"study.steps.{module}:{name}")
    for name, group, line, module in _STEPS
)

EXTRAS = (
    Extra(
        "tables",
        (
            ("analyze", RESULTS, "run the registered test on your own table of results"),
            ("import", RESULTS, "take results of other programs, into a table or a study"),
        ),
        needs=("templates",),
    ),
    Extra(
        "transcripts",
        (
            ("show", RESULTS, "print an episode's transcript, or list the episodes"),
            ("export", RESULTS, "write episodes as logs, tasks for another harness, results"),
        ),
        (".tool_use:look",),
        needs=("judge", "tables"),
    ),
    Extra(
        "levels",
        hooks=tuple(f".contribution:{name}" for name in ("look", "shortfalls", "sibling_faults")),
    ),
    Extra(
        "power",
        (("power", DESIGN, "simulate the plan: seeds needed, smallest leak that it finds"),),
        (".target_power:shortfalls", ".target_power:describe_chances"),
        needs=("levels",),
    ),
    Extra(
        "pilot",
        (("pilot", DESIGN, "try models on a few instances outside the study"),),
        needs=("power",),
    ),
    Extra(
        "judge",
        (("judge", DESIGN, "grade episodes by LLM judges too; measure their errors"),),
        (
            ".contribution:look",
            ".preview:preview",
            ".regrade:regrades",
            "harness.judge.grade:pin_judge",
            "harness.judge.grade:build_judge",
        ),
    ),
    Extra(
        "calibrate",
        (("calibrate", DESIGN, "plant leaks of known size, measure which are found"),),
        (".contribution:look", ".demo:after_demo_wave"),
    ),
    Extra(
        "probe",
        (("probe", DESIGN, "ask models about instances, without the files"),),
        (".results:look",),
    ),
    Extra(
        "site",
        (("site", EVIDENCE, "write a static site of studies, for anyone to read"),),
        needs=("playground",),
    ),
    Extra("reveal", (("reveal", EVIDENCE, "publish seeds, so that anyone can check the draw"),)),
    Extra("keys", (("keys", EVIDENCE, "make and check the keys of a study"),)),
    Extra("store", (("store", EVIDENCE, "copy a study's store to another place"),)),
    Extra("leak", (("leak", EVIDENCE, "look for leaked seeds; declare a leak"),)),
    Extra(
        "tasks",
        (
            ("tasks", TASKS, "list, show and check task families; make instances"),
            ("models", TASKS, "fetch and serve a local model"),
        ),
        (".dress:demo_pairs",),
    ),
    Extra("playground", (("playground", TASKS, "make instances in the browser, be graded"),)),
    Extra(
        "templates",
        (("template", TASKS, "check, prepare, run and score PICARD's templates"),),
        (".contribution:look",),
    ),
)


def commands() -> Iterator[Command]:
    """Yield the commands of the steps, then those of the extras."""
    yield from STEPS
    for extra in EXTRAS:
        yield from extra.commands()


def load(target: str) -> Any:
    """Import what ``module:name`` names. Raises ImportError, AttributeError."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def contributions(name: str) -> Iterator[Callable[..., Any]]:
    """Yield each extra's hook of this name, in the order of the catalogue."""
    for extra in EXTRAS:
        for target in extra.targets():
            if target.endswith(f":{name}"):
                yield load(target)
