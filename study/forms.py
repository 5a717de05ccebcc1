"""Whether the tasks of a study fit the models that are given them in one turn."""

from __future__ import annotations

from collections.abc import Iterable

from generators.catalog import family
from harness.errors import HarnessError
from harness.outside import Contender
from harness.single_turn import InOneTurn, fit_context, single_turn
from study.catalogue import EXAMPLE_SEED
from study.errors import StudyError
from study.protocol import Task

_SPARE = 10  # a tenth: instances differ in size, and one that fails to fit would stop the sweep


def check_forms(models: Iterable[Contender], tasks: Iterable[Task]) -> None:
    """Raises StudyError, which names model and task, where an example of a task has no
    single-turn form, or hardly fits the context of a model that is asked once."""
    asked_once = [model for model in models if isinstance(model, InOneTurn)]
    if not asked_once:
        return
    for task in tasks:
        brief = family(task.family, task.version).generate(task.difficulty, EXAMPLE_SEED).brief
        for model in asked_once:
            try:
                made = single_turn(brief)
                fit_context(made, model.context, model.reply + made.tokens // _SPARE)
            except HarnessError as error:
                place = f"model {model.name!r}, task {task.family} {task.difficulty}"
                raise StudyError(f"{place}: {error}") from None
