"""Tool use: what is counted."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from analysis.transcripts.tool_use import (
    MOST_TOOLS,
    OTHER,
    Conduct,
    ToolUseTables,
    Use,
    tabulate_tools,
)


def conduct(
    model: str, seed: int, *turns: str, stratum: str = "fit/hard", wave: int = 0, replicate: int = 0
) -> Conduct:
    """Turns as words: ``"pp v"`` is two tools' calls; p, v, r for python, view, run."""
    names = {"p": "execute_python", "v": "view_image", "r": "run_command"}
    made = tuple(tuple(Use(names[c], 1.0, failed=False) for c in turn) for turn in turns)
    return Conduct(wave, model, stratum, seed, replicate, made)


@pytest.fixture
def tables() -> ToolUseTables:
    limited = Use("execute_python", 9.0, failed=True, limits=("memory", "time"))
    return tabulate_tools(
        [
            conduct("a", 1, "pv", "p", ""),
            conduct("a", 2, "vvvv", "r", ""),
            conduct("a", 1, "", stratum="read/easy"),
            Conduct(0, "b", "fit/hard", 1, 0, ((limited,), ())),
        ],
        left_out=2,
    )


def test_a_model_is_summed_over_its_episodes(tables: ToolUseTables) -> None:
    a, b = (SimpleNamespace(**row) for row in tables.models)
    assert (a.episodes, a.rounds, a.calls, a.most_rounds) == (3, 7, 8, 3)
    assert a.calls_per_round == pytest.approx(8 / 7)
    assert (a.parallel_rounds, a.without_calls, a.failed) == (2, 1, 0)
    assert (b.failed, b.limited) == (1, 1)
    assert tables.left_out == 2


def test_a_tool_has_its_share_its_seconds_and_its_limits(tables: ToolUseTables) -> None:
    rows = {(row["model"], row["tool"]): row for row in tables.by_tool}
    assert ("b", "view_image") not in rows
    view = SimpleNamespace(**rows["a", "view_image"])
    assert (view.calls, view.share, view.episodes) == (5, 5 / 8, 2)
    python = SimpleNamespace(**rows["b", "execute_python"])
    assert (python.mean_seconds, python.failed, python.limits) == (9.0, 1, "memory 1, time 1")


def test_seeds_show_a_shift_of_strategy(tables: ToolUseTables) -> None:
    by_seed = {(r["model"], r["task"], r["seed"], r["tool"]): r["calls"] for r in tables.by_seed}
    assert by_seed["a", "fit", 1, "view_image"] == 1
    assert by_seed["a", "fit", 2, "view_image"] == 4
    assert by_seed["a", "fit", 2, "execute_python"] == 0  # skipped there: a zero, not a gap
    assert by_seed["a", "read", 1, "view_image"] == 0


def test_replicates_of_a_seed_are_counted_together() -> None:
    found = tabulate_tools([conduct("a", 1, "p"), conduct("a", 1, "pp", replicate=1)])
    assert [row["calls"] for row in found.by_seed] == [3]


def test_every_call_is_counted_once_in_each_table(tables: ToolUseTables) -> None:
    for rows in (tables.models, tables.by_tool, tables.by_seed):
        assert sum(row["calls"] for row in rows) == 9


def test_invented_tools_do_not_flood_the_tables() -> None:
    names = [f"tool_{n}" for n in range(50)] + ["=cmd()", "<b>", "\x1b[2J", "execute_python"]
    uses = tuple(Use(name, 0.1, failed=True) for name in (*names, "execute_python"))
    found = tabulate_tools([Conduct(0, "a", "fit/hard", 1, 0, (uses,))])
    assert len(found.tools) == MOST_TOOLS + 1
    assert found.tools[0] == "execute_python"
    assert found.tools[-1] == OTHER
    assert sum(row["calls"] for row in found.by_tool) == len(uses)
    text = json.dumps(found.as_json())
    assert "=cmd()" not in text
    assert "\\u001b" not in text


def test_no_episode_makes_empty_tables() -> None:
    assert tabulate_tools([]).models == ()


def test_no_round_has_no_rate() -> None:
    (only,) = tabulate_tools([Conduct(0, "a", "fit/hard", 1, 0, ())]).models
    assert only["calls_per_round"] is None
    assert (only["rounds"], only["calls"], only["without_calls"]) == (0, 0, 1)
