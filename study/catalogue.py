"""The catalogue of extras: what each adds to the steps of a study, by dotted path.

The core imports no extra; it asks here for commands and for hooks, which are loaded on first use. A
hook is a function of an extra that a step calls if the extra is there:

- ``look(scope) -> LookShare``: rows, controls and parts of a report (``study/steps/report``)
- ``preview(study, wave) -> ExtraPreview``: first requests beside a sweep's (``study/steps/sweep``)
- ``estimate(study, wave, ...) -> Forecast``: calls that an estimate counts too (the same)
- ``regrades(snapshot) -> Regrades``: further grades to make again (``study/steps/verify``)
- ``pin_judge(pin) -> JudgePin``: a model of ``judges`` in study.yaml as it is pinned
- ``shortfalls``, ``describe_power``, ``describe_chances``: the power of a plan, before it is drawn
- ``guide(...)``: the seeds that ``init --guided`` computes (``study/steps/init``)

- ``shortfalls``, ``describe_power``, ``describe_chances``: the power of a plan before its draw
``tests``) and its row here; the steps then work without its share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

STUDY, RESULTS, DESIGN, EVIDENCE, TASKS = "Study", "Results", "Design", "Evidence", "Tasks"


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its group and its line in ``dosimeter --help``, and ``module:function``."""

    name: str
    group: str
    help: str
    target: str


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra: its commands, its hooks by ``module:function``, and the other extras that it
    imports."""

    name: str
    commands: tuple[Command, ...] = ()
    hooks: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


STEPS = (
    Command(
        "demo",
        STUDY,
        "run a complete small study on embedded defaults",
        "study.steps.demo.command:demo",
    ),
    Command(
        "init",
        STUDY,
        "write the folder of a new study: study.yaml and a key",
        "study.steps.init.command:init",
    ),
    Command(
        "lint", STUDY, "check study.yaml, and do nothing else", "study.steps.lint.command:lint"
    ),
    Command(
        "register",
        STUDY,
        "draw and seal the seeds, promise the analysis",
        "study.steps.register.command:register",
    ),
    Command(
        "sweep", STUDY, "run the episodes that a wave still owes", "study.steps.sweep.command:sweep"
    ),
    Command(
        "wave",
        STUDY,
        "list waves; pause, stop, close or add one",
        "study.steps.sweep.wave_command:wave",
    ),
    Command(
        "publish",
        STUDY,
        "release the public arm, after a check for leaks",
        "study.steps.publish.command:publish",
    ),
    Command(
        "report",
        STUDY,
        "run the registered test, and write the report",
        "study.steps.report.command:report",
    ),
    Command("status", STUDY, "show what is done and what is owed", "study.steps.status:status"),
    Command(
        "verify",
        EVIDENCE,
        "recompute every promise of a study",
        "study.steps.verify.command:verify",
    ),
    Command("log", EVIDENCE, "print the ledger", "study.steps.verify.command:log"),
)

EXTRAS = (
    Extra(
        "tables",
        (
            Command(
                "analyze",
                RESULTS,
                "run the same analysis on any table of results",
                "study.extras.tables.command:analyze",
            ),
            Command(
                "import",
                RESULTS,
                "make such a table from PICARD or PARAMETR folders",
                "study.extras.tables.command:import_",
            ),
        ),
        needs=("templates",),
    ),
    Extra(
        "transcripts",
        (
            Command(
                "show",
                RESULTS,
                "print the transcript of an episode, or list them",
                "study.extras.transcripts.command:show",
            ),
            Command(
                "export",
                RESULTS,
                "write episodes as logs in Inspect's format",
                "study.extras.transcripts.command:export",
            ),
        ),
        ("study.extras.transcripts.tool_use:look",),
    ),
    Extra(
        "power",
        (
            Command(
                "power",
                DESIGN,
                "compute the seeds that a study needs, by simulation",
                "study.extras.power.command:power",
            ),
        ),
        (
            "study.extras.power.target_power:shortfalls",
            "study.extras.power.target_power:describe_power",
            "study.extras.power.target_power:describe_chances",
        ),
    ),
    Extra(
        "pilot",
        (
            Command(
                "pilot",
                DESIGN,
                "try models on a few instances beside the study's",
                "study.extras.pilot.command:pilot",
            ),
        ),
        needs=("power",),
    ),
    Extra(
        "calibrate",
        (
            Command(
                "calibrate",
                DESIGN,
                "measure how large a leak the study would find",
                "study.extras.calibrate.command:calibrate",
            ),
        ),
        ("study.extras.calibrate.contribution:look",),
    ),
    Extra(
        "judge",
        (
            Command(
                "judge",
                DESIGN,
                "have LLM judges grade episodes; measure a judge",
                "study.extras.judge.command:judge",
            ),
        ),
        (
            "study.extras.judge.contribution:look",
            "study.extras.judge.preview:preview",
            "study.extras.judge.regrade:regrades",
            "harness.judge.grade:pin_judge",
        ),
    ),
    Extra(
        "probe",
        (
            Command(
                "probe",
                DESIGN,
                "ask models about instances from memory",
                "study.extras.probe.command:probe",
            ),
        ),
        ("study.extras.probe.results:look",),
    ),
    Extra(
        "reveal",
        (
            Command(
                "reveal",
                EVIDENCE,
                "publish seeds, so that anyone can check the draw",
                "study.extras.reveal.command:reveal",
            ),
        ),
    ),
    Extra(
        "keys",
        (
            Command(
                "keys",
                EVIDENCE,
                "make and check the keys of a study",
                "study.extras.keys.command:keys",
            ),
        ),
    ),
    Extra(
        "leak",
        (
            Command(
                "leak",
                EVIDENCE,
                "look for leaked private seeds; declare a leak",
                "study.extras.leak.command:leak",
            ),
        ),
    ),
    Extra(
        "tasks",
        (
            Command(
                "tasks",
                TASKS,
                "list, show, make, write and check task families",
                "study.extras.tasks.command:tasks",
            ),
            Command(
                "models",
                TASKS,
                "fetch the weights of a local model",
                "study.extras.tasks.command:models",
            ),
        ),
    ),
    Extra(
        "templates",
        (
            Command(
                "template",
                TASKS,
                "check, prepare, run and score PICARD templates",
                "study.extras.templates.command:template",
            ),
        ),
        ("study.extras.templates.contribution:look",),
    ),
)


def commands() -> Iterator[Command]:
    """Yield the commands of the steps, then those of the extras."""
    yield from STEPS
    for extra in EXTRAS:
        yield from extra.commands


def load(target: str) -> Any:
    """Import what ``module:name`` names. Raises ImportError, AttributeError."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def contributions(name: str) -> Iterator[Callable[..., Any]]:
    """Yield each extra's hook of this name, in the order of the catalogue."""
    for extra in EXTRAS:
        for target in extra.hooks:
            if target.endswith(f":{name}"):
                yield load(target)
