"""The finished runs of pilots, as they are stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.episodes import EpisodeResult, row_of
from harness.storage import Codec, pilot_folder
from registry.ledger import ModelPin, record_digest
from registry.result_row import Arm
from registry.sealing import Keys
from study.sweeps.pilot_plan import planned_tasks
from study.workspace import Study

if TYPE_CHECKING:
    from analysis.data import ResultTable


@dataclass(frozen=True, slots=True)
class PilotRun:
    """A finished run. ``turns`` is its budget, ``limit`` the task's own."""

    version: str  # of the family
    turns: int
    limit: int
    result: EpisodeResult


PILOT_CODEC: Codec[PilotRun] = Codec("pilot-run", 1, PilotRun)


def pilot_table(study: Study) -> ResultTable | None:
    """Return the runs of pilots that resemble episodes of the study's waves: those of the models
    and tasks in study.yaml, with the tasks' own turns; None if there is none. Needs the study's
    key. Raises RegistryError."""
    runs = list(_like_waves(study))
    return table_of(runs) if runs else None


def _like_waves(study: Study) -> Iterator[PilotRun]:
    """Yield the runs of pilots that resemble episodes of the study's waves."""
    strata = {(task.stratum, task.version, str(task.mode)) for task in planned_tasks(study)}
    for pin in study.protocol.models:
        for run in read_runs(study, filter(_is_result, study.store.list(_folder(pin)))):
            own = (run.result.stratum, run.version, run.result.mode)
            if run.turns == run.limit and own in strata:
                yield run


def table_of(runs: Iterable[PilotRun]) -> ResultTable:
    """Return the runs as a table of results."""
    from analysis.data import make_table  # with numpy, which a sweep need not load

    # No arm has these instances; the table is for what is estimated blind to the arms.
    return make_table(row_of(run.result, Arm.PRIVATE) for run in runs)


def _is_result(key: str) -> bool:
    """Report whether a key of a model's pilots is that of a result, and not of a reply."""
    return "-" not in key.rpartition("/")[2]


def _folder(pin: ModelPin) -> str:
    return pilot_folder(record_digest(pin))


def read_runs(study: Study, keys: Iterable[str]) -> list[PilotRun]:
    """Return the finished runs among those of these keys. Without any, no key is needed."""
    stored = [key for key in keys if study.store.exists(key)]
    own = study.keys() if stored else Keys()
    return [PILOT_CODEC.read(study.store, key, own) for key in stored]
