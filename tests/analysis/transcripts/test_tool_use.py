"""Tool use: what is counted, and what the page and the CSV say of it."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from analysis.transcripts.tool_use import (
    MOST_TOOLS,
    OTHER,
    Conduct,
    ToolUseTables,
    Use,
    render_page,
    tabulate_tools,
    write_tool_files,
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
    a, b = tables.models
    assert (a.episodes, a.rounds, a.calls, a.most_rounds) == (3, 7, 8, 3)
    assert a.calls_per_round == pytest.approx(8 / 7)
    assert a.calls_per_episode == pytest.approx(8 / 3)
    assert (a.parallel_rounds, a.without_calls, a.failed) == (2, 1, 0)
    assert (b.failed, b.limited) == (1, 1)
    assert tables.left_out == 2


def test_a_tool_has_its_share_its_seconds_and_its_limits(tables: ToolUseTables) -> None:
    rows = {(row.model, row.tool): row for row in tables.by_tool}
    assert ("b", "view_image") not in rows
    view = rows["a", "view_image"]
    assert (view.calls, view.share, view.episodes) == (5, 5 / 8, 2)
    python = rows["b", "execute_python"]
    assert (python.mean_seconds, python.failed, python.limits) == (9.0, 1, "memory 1, time 1")


def test_tasks_and_seeds_show_a_shift_of_strategy(tables: ToolUseTables) -> None:
    by_seed = {(r.model, r.task, r.seed, r.tool): r.calls for r in tables.by_seed}
    assert by_seed["a", "fit", 1, "view_image"] == 1
    assert by_seed["a", "fit", 2, "view_image"] == 4
    assert by_seed["a", "fit", 2, "execute_python"] == 0  # skipped there: a zero, not a gap
    by_task = {(r.model, r.task, r.difficulty, r.tool): r for r in tables.by_task}
    assert by_task["a", "fit", "hard", "view_image"].calls_per_episode == 2.5
    assert by_task["a", "read", "easy", "view_image"].calls == 0


def test_replicates_of_a_seed_are_counted_together() -> None:
    found = tabulate_tools([conduct("a", 1, "p"), conduct("a", 1, "pp", replicate=1)])
    assert [row.calls for row in found.by_seed] == [3]


def test_every_call_is_counted_once_in_each_table(tables: ToolUseTables) -> None:
    for rows in (tables.models, tables.by_tool, tables.by_task, tables.by_seed):
        assert sum(row.calls for row in rows) == 9


def test_invented_tools_do_not_flood_the_tables() -> None:
    names = [f"tool_{n}" for n in range(50)] + ["=cmd()", "<b>", "\x1b[2J", "execute_python"]
    uses = tuple(Use(name, 0.1, failed=True) for name in (*names, "execute_python"))
    found = tabulate_tools([Conduct(0, "a", "fit/hard", 1, 0, (uses,))])
    assert len(found.tools) == MOST_TOOLS + 1
    assert found.tools[0] == "execute_python"
    assert found.tools[-1] == OTHER
    assert sum(row.calls for row in found.by_tool) == len(uses)
    text = render_page(found, "s")
    assert "=cmd()" not in text
    assert "\x1b" not in text


def test_no_episode_makes_empty_tables_and_an_honest_page(tmp_path: Path) -> None:
    found = tabulate_tools([])
    assert found.models == ()
    assert "No episode has a result yet" in render_page(found, "s")
    write_tool_files(tmp_path, found, "s")
    assert (tmp_path / "models.csv").read_text() == ""


def test_no_round_has_no_rate() -> None:
    (only,) = tabulate_tools([Conduct(0, "a", "fit/hard", 1, 0, ())]).models
    assert only.calls_per_round is None
    assert (only.rounds, only.calls, only.without_calls) == (0, 0, 1)


def test_the_page_holds_the_numbers_and_no_markup_of_strangers(tables: ToolUseTables) -> None:
    text = render_page(tables, "<script>alert(1)</script>")
    assert "<script" not in text
    assert "4 calls" not in text  # seed 2 has five
    assert "a, 2: 5 calls: view_image 4, run_command 1." in text
    assert "b, 1: " in text
    assert "b, 2: " not in text.split("fit, hard: calls by seed")[1]  # no episode there
    assert not re.search(r"https?://", text)


def test_waves_are_told_apart_where_there_are_several() -> None:
    both = tabulate_tools([conduct("a", 1, "p"), conduct("a", 1, "p", wave=1)])
    text = render_page(both, "s")
    assert "a, wave 0: 1 calls" in text
    assert "a, wave 1: 1 calls" in text


def test_the_files_read_back(tables: ToolUseTables, tmp_path: Path) -> None:
    page = write_tool_files(tmp_path / "out", tables, "s")
    assert page.name == "tools.html"
    with (tmp_path / "out" / "by_seed.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(tables.by_seed)
    assert sum(int(row["calls"]) for row in rows) == 9
    again = write_tool_files(tmp_path / "out", tables, "s")
    assert again.read_bytes() == page.read_bytes()
