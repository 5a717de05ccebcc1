"""Tool use of models: counts by tool and seed, rounds, seconds, failures.

A description of conduct, blind to the arms: no registered test reads any of it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from operator import attrgetter, itemgetter
from statistics import fmean, median
from typing import Any

from analysis.csv_text import csv_files
from analysis.report.part import NONE, Part, tabulate

# Names are those that models called, so they may be anything.
OTHER = "(other)"
MOST_TOOLS = 12
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,39}")
_REPORTED = ("models", "by_tool")
_SEED = ("wave", "model", "task", "difficulty", "seed", "tool", "calls")
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Use:
    """One tool call. ``failed``: refused, or a program that ended with another code than 0."""

    tool: str
    seconds: float
    failed: bool
    limits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Conduct:
    """The tool calls of one episode, turn by turn; a turn without any is an empty tuple.

    ``seed`` numbers the instance within its stratum.
    """

    wave: int
    model: str
    stratum: str
    seed: int
    replicate: int
    turns: tuple[tuple[Use, ...], ...]

    @property
    def uses(self) -> tuple[Use, ...]:
        """All calls of the episode, in order."""
        return tuple(use for turn in self.turns for use in turn)


@dataclass(frozen=True, slots=True)
class ToolUseTables:
    """All tables of tool use, their rows as ``--json`` has them. ``tools`` are ordered by their
    calls over all models. Of a model: rounds are turns, a parallel one has more than one call, and
    ``calls_per_round`` is None without a round. Of its tools: ``share`` is of the model's calls,
    ``limits`` has name and count of each that was hit."""

    tools: tuple[str, ...]
    models: tuple[Row, ...]
    by_tool: tuple[Row, ...]
    by_seed: tuple[Row, ...]
    left_out: int  # episodes that infrastructure failed

    def as_json(self) -> dict[str, Any]:
        """The tables as plain JSON values."""
        return asdict(self)


def tabulate_tools(conducts: Iterable[Conduct], left_out: int = 0) -> ToolUseTables:
    """The tables of some episodes. Tools beyond the MOST_TOOLS most called, and names that no
    tool would have, are counted as ``(other)``."""
    ordered = sorted(conducts, key=lambda c: (c.wave, c.model, c.stratum, c.seed, c.replicate))
    tools = _rank_tools(ordered)
    by_model = _grouped(ordered, "wave", "model")
    by_seed = _grouped(ordered, "wave", "model", "stratum", "seed")
    return ToolUseTables(
        tools=tools,
        models=tuple(_model_use(group) for group in by_model.values()),
        by_tool=tuple(row for group in by_model.values() for row in _tool_rows(group, tools)),
        by_seed=tuple(
            dict(zip(_SEED, (*_place(*key), tool, len(uses)), strict=True))
            for key, group in by_seed.items()
            for tool, uses in _uses(group, tools).items()
        ),
        left_out=left_out,
    )


def _grouped(items: Iterable[Conduct], *names: str) -> dict[tuple[Any, ...], list[Conduct]]:
    """The items by the values of at least two attributes."""
    groups: dict[tuple[Any, ...], list[Conduct]] = defaultdict(list)
    for item in items:
        groups[attrgetter(*names)(item)].append(item)
    return groups


def _place(wave: int, model: str, stratum: str, seed: int) -> tuple[int, str, str, str, int]:
    """Wave, model, task, difficulty and seed of a group."""
    task, _, difficulty = stratum.rpartition("/")
    return wave, model, task, difficulty, seed


def _rank_tools(conducts: list[Conduct]) -> tuple[str, ...]:
    counts = Counter(use.tool for conduct in conducts for use in conduct.uses)
    plain = {name: calls for name, calls in counts.items() if _NAME.fullmatch(name)}
    ranked = sorted(plain, key=lambda name: (-plain[name], name))[:MOST_TOOLS]
    return (*ranked, OTHER) if len(ranked) < len(counts) else tuple(ranked)


def _uses(conducts: list[Conduct], tools: tuple[str, ...]) -> dict[str, list[Use]]:
    """The calls of each tool, in the order of the tools."""
    by_tool: dict[str, list[Use]] = {tool: [] for tool in tools}
    for use in (use for conduct in conducts for use in conduct.uses):
        by_tool[use.tool if use.tool in by_tool else OTHER].append(use)
    return by_tool


def _model_use(conducts: list[Conduct]) -> Row:
    uses = [use for conduct in conducts for use in conduct.uses]
    rounds = [len(conduct.turns) for conduct in conducts]
    return {
        "wave": conducts[0].wave,
        "model": conducts[0].model,
        "episodes": len(conducts),
        "rounds": sum(rounds),
        "calls": len(uses),
        "rounds_per_episode": fmean(rounds),
        "most_rounds": max(rounds),
        "calls_per_round": len(uses) / sum(rounds) if sum(rounds) else None,
        "parallel_rounds": sum(len(turn) > 1 for conduct in conducts for turn in conduct.turns),
        "without_calls": sum(not conduct.uses for conduct in conducts),
        "failed": sum(use.failed for use in uses),
        "limited": sum(bool(use.limits) for use in uses),
    }


def _tool_rows(conducts: list[Conduct], tools: tuple[str, ...]) -> Iterator[Row]:
    by_tool = _uses(conducts, tools)
    calls = sum(map(len, by_tool.values()))
    for tool, uses in by_tool.items():
        if not uses:
            continue
        names = {use.tool for use in uses}
        seconds = [use.seconds for use in uses]
        limits = Counter(limit for use in uses for limit in use.limits)
        yield {
            "wave": conducts[0].wave,
            "model": conducts[0].model,
            "tool": tool,
            "calls": len(uses),
            "share": len(uses) / calls,
            "episodes": sum(any(use.tool in names for use in conduct.uses) for conduct in conducts),
            "mean_seconds": fmean(seconds),
            "median_seconds": median(seconds),
            "failed": sum(use.failed for use in uses),
            "limits": ", ".join(f"{name} {count}" for name, count in sorted(limits.items())),
        }


def tools_part(tables: ToolUseTables) -> Part:
    """The part of a report on tool use, without rows by seed."""
    rows = {name: getattr(tables, name) for name in _REPORTED}
    table = tabulate(
        "tools",
        "Calls by tool, both arms together. Failed: refused, or a program that ended with an "
        "error. Tools that no study has, or that are rarely called, are counted as (other).",
        tables.by_tool,
        {
            "Model": itemgetter("model"),
            "#Wave": itemgetter("wave"),
            "Tool": itemgetter("tool"),
            "#Calls": itemgetter("calls"),
            "#Of all calls": lambda t: f"{100 * t['share']:.0f} %",
            "#Episodes": itemgetter("episodes"),
            "#Median seconds": lambda t: f"{t['median_seconds']:.2f}",
            "#Failed": itemgetter("failed"),
            "Limits": lambda t: t["limits"] or NONE,
        },
        fold="Calls by tool",
    )
    return Part(
        name="tools",
        title="Tools",
        after="effort",
        body=(table,) if table.rows else (),
        data={"tools": {**rows, "left_out": tables.left_out}},
        files=csv_files({f"tools_{name}": table_rows for name, table_rows in rows.items()}),
    )
