"""Tool use, counted from the stored attempts of a study."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from analysis.report.part import Part
from analysis.transcripts.tool_use import Conduct, ToolUseTables, Use, tabulate_tools, tools_part
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


def model_records(tables: ToolUseTables) -> list[dict[str, object]]:
    """Return a row for each model, narrow enough for 80 columns."""
    return [
        {
            "wave": row.wave,
            "model": row.model,
            "episodes": row.episodes,
            "rounds": row.rounds_per_episode,
            "calls": row.calls,
            "a_round": row.calls_per_round,
            "parallel": row.parallel_rounds,
            "failed": row.failed,
            "limited": row.limited,
        }
        for row in tables.models
    ]


def tool_records(tables: ToolUseTables) -> list[dict[str, object]]:
    """Return a row for each tool of a model, as narrow."""
    return [
        {
            "wave": row.wave,
            "model": row.model,
            "tool": row.tool,
            "calls": row.calls,
            "share": row.share,
            "seconds": row.mean_seconds,
            "failed": row.failed,
            "limits": row.limits or None,
        }
        for row in tables.by_tool
    ]


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
