"""Tool use, counted from the stored attempts of a study."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from analysis.report.part import Part
from analysis.transcripts.tool_use import (
    Conduct,
    Row,
    ToolUseTables,
    Use,
    tabulate_tools,
    tools_part,
)
from harness.episode import Episode, ToolUse
from registry.result_row import Status
from registry.stores.parallel import parallel_map
from study.extras.transcripts.find import (
    Listed,
    list_episodes,
    require_key,
    stored_attempt,
    was_refused,
)
from study.steps.report.contributors import LookContext, LookShare
from study.workspace.snapshot import StudySnapshot, take_snapshot
from study.workspace.study import Study


def tool_tables(study: Study, wave: int | None) -> ToolUseTables:
    """Return the tables of the attempts that count, in one wave or all that were begun.

    Attempts that failed for infrastructure are left out, with their number; owed episodes are not
    counted.
    Raises StudyError, RegistryError.
    """
    require_key(study, "dosimeter show --tools")
    snapshot = take_snapshot(study)
    return _tables(snapshot, list_episodes(snapshot, wave))


class ToolUseShare(LookShare):
    """The share of tool use in a look at the data."""

    def parts(self, look: LookContext) -> Sequence[Part]:
        """Return the part with the tables of the look's waves."""
        study = self.scope.study
        episodes = [e for wave in self.scope.numbers for e in list_episodes(study, wave)]
        return (tools_part(_tables(study, episodes)),)


look = ToolUseShare


def _tables(study: StudySnapshot, episodes: Iterable[Listed]) -> ToolUseTables:
    finished = [episode for episode in episodes if episode.result is not None]
    whole = [e for e in finished if e.result and e.result.status is not Status.MISSING]
    read = parallel_map(study.store, lambda episode: _read(study, episode), whole)
    return tabulate_tools(read, len(finished) - len(whole))


# The columns of tables that fit 80 columns, each with the name that the row has for it.
_MODEL = "wave model episodes rounds:rounds_per_episode calls a_round:calls_per_round"
_MODEL += " parallel:parallel_rounds failed limited"
_TOOL = "wave model tool calls share seconds:mean_seconds failed limits"


def model_records(tables: ToolUseTables) -> list[dict[str, object]]:
    """Return a row for each model, narrow enough for 80 columns."""
    return _records(tables.models, _MODEL)


def tool_records(tables: ToolUseTables) -> list[dict[str, object]]:
    """Return a row for each tool of a model, as narrow."""
    return _records(tables.by_tool, _TOOL)


def _records(rows: Iterable[Row], columns: str) -> list[dict[str, object]]:
    named = [column.partition(":") for column in columns.split()]
    cells = ({label: row[name or label] for label, _, name in named} for row in rows)
    return [{label: None if cell == "" else cell for label, cell in row.items()} for row in cells]


def _read(study: StudySnapshot, listed: Listed) -> Conduct:
    attempt = 1 if listed.result is None else listed.result.attempt
    return conduct_of(listed, stored_attempt(study, listed.cell.episode, attempt))


def conduct_of(listed: Listed, episode: Episode) -> Conduct:
    """Return the tool calls of an attempt."""
    return Conduct(
        wave=listed.wave,
        model=episode.model,
        stratum=listed.cell.spec.stratum,
        seed=listed.seed,
        replicate=episode.replicate,
        turns=tuple(tuple(map(_use_of, step.uses)) for step in episode.steps),
    )


def _use_of(use: ToolUse) -> Use:
    return Use(use.name, use.seconds, was_refused(use) or bool(use.exit_code), use.limits)
