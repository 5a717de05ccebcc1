"""The view of a sweep: a table on a terminal, lines in a log, JSON lines for scripts."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import click
import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from harness.spending.budget import Account
from harness.sweep.governor import Consumption, FailedAttempts, ModelProgress, WaitReason
from harness.sweep.leases import Progress
from harness.sweep.outbox import StorePause
from study.printing import move_bar, progress_bar
from study.steps.sweep.live import SweepHistory, sweep_json, sweep_screen, sweep_watch


def used(replies: int, unpriced: int = 0, uncounted: int = 0) -> Consumption:
    """Replies of 4,100 + 350 tokens, for a cent each."""
    known, priced = replies - uncounted, replies - unpriced
    usd = Decimal("0.01") * priced
    return Consumption(replies, 4100 * known, 350 * known, uncounted, usd, unpriced)


def progress(done: int) -> Progress:
    """Of four models: healthy, in an outage, without prices and tokens, and stopped."""
    models = (
        ModelProgress(
            *("a-model-with-a-long-name", 6, 788 - done),
            owed=1200,
            finished=406 + done,
            used=used(8000 + 20 * done),
        ),
        ModelProgress(
            *("nova-1", 1, 1100, WaitReason.OUTAGE, "provider:overload", 41.6),
            owed=1200,
            finished=99,
            failures=(
                FailedAttempts("provider:overload", 12, 9),
                FailedAttempts("provider:timeout", 1, 1),
            ),
            used=used(1800, unpriced=1800),
        ),
        ModelProgress(
            *("old-0", 4, 290 - done),
            owed=1200,
            finished=903 + done,
            exhausted=3,
            failures=(FailedAttempts("sandbox:server lost", 9, 3),),
            used=used(900 + done, uncounted=900 + done),
        ),
        ModelProgress(
            *("revoked", 0, 600, WaitReason.STOPPED, "provider:auth"),
            owed=600,
            failures=(FailedAttempts("provider:auth", 2, 2),),
        ),
    )
    finished, waiting = 1408 + 2 * done, 2778 - 2 * done
    account = Account("run", Decimal(250), Decimal("131.5"), Decimal(2), 0)
    return Progress(4200, finished, 11, waiting, 3, (), accounts=(account,), models=models)


def history(*models: str) -> SweepHistory:
    """Ten minutes in which two models finished 20 episodes a minute each; of some models only."""
    made = SweepHistory()
    for second in range(601):
        now = progress(second // 3)
        kept = tuple(each for each in now.models if not models or each.model in models)
        made.add(Progress(4200, now.finished, 11, now.waiting, 3, (), models=kept), float(second))
    return made


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_screen(width: int, snapshot: SnapshotAssertion) -> None:
    console = Console(width=width, color_system=None, legacy_windows=False)
    bar = progress_bar(console)
    move_bar(bar, "wave 0", 1808, 4200)
    made = history()
    made.add(progress(200), 600.0)
    with console.capture() as shown:
        console.print(sweep_screen(made, bar, width))
    assert shown.get() == snapshot
    assert max(map(len, shown.get().splitlines())) <= width


def test_rates_are_of_the_last_minutes_and_the_slowest_model_decides_what_is_left() -> None:
    both = history("a-model-with-a-long-name", "old-0")
    assert both.replies_per_minute("old-0") == pytest.approx(20)
    assert both.replies_per_minute() == pytest.approx(420)
    assert both.seconds_left() == pytest.approx(60 * (1200 - 606) / 20)
    assert len(both.samples) < 200, "of 601"
    stopped = history("a-model-with-a-long-name", "revoked")
    assert stopped.seconds_left() == both.seconds_left(), "a stopped model is not waited for"
    assert history("a-model-with-a-long-name", "nova-1").seconds_left() is None, "nobody knows"


def test_a_sweep_that_counts_anew_has_no_negative_rate() -> None:
    made = history()
    made.add(progress(0), 610.0)  # a coordinator that was restarted, or a second round
    assert made.replies_per_minute() is None
    made.add(progress(5), 640.0)
    assert made.replies_per_minute("old-0") == pytest.approx(10)


def test_what_is_unknown_is_null_for_scripts_and_never_zero() -> None:
    made = sweep_json(history())
    models = {model["model"]: model for model in made["models"]}
    assert models["nova-1"]["usd"] is None
    assert models["nova-1"]["input_tokens"] == 4100 * 1800
    assert models["nova-1"]["waits_for"] == "outage"
    assert models["nova-1"]["failures"] == {"provider:overload": 12, "provider:timeout": 1}
    assert models["old-0"]["input_tokens"] is models["old-0"]["output_tokens"] is None
    assert models["old-0"]["usd"] == pytest.approx(0.01 * 1100)
    assert models["old-0"]["replies_without_tokens"] == 1100
    assert models["revoked"]["usd"] == 0, "no reply, no cost"
    assert made["replies_of_unknown_cost"] == 1800
    assert made["seconds_left"] is None


def lines(as_json: bool, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What a sweep without a terminal writes to stderr."""
    with click.Context(click.Command("sweep")) as context:
        context.params["as_json"] = as_json
        with sweep_watch("wave 3") as watch:
            watch.steps("starting workers", 0, 0)
            watch(progress(0))
            watch(progress(1))
            watch.steps("closing: recording missing episodes", 1, 2)
            watch.steps("closing: listing objects", 27, 0)
    written = capsys.readouterr()
    assert written.out == ""
    return written.err.splitlines()


def test_a_log_gets_a_line_in_a_while(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lines(False, capsys) == []
    monkeypatch.setattr("study.printing.LOG_SECONDS", 0.0)
    begin, first, second, *closing = lines(False, capsys)
    assert begin == "wave 3: starting workers"
    assert first == (
        "wave 3: 1,408 of 4,200 done, 3 given up, ≥40.2M+3.4M tokens, USD ≥89.00, "
        "run budget: USD 131.50 of 250.00; "
        "nova-1: waits (overload); next try in 42 s; failed attempts: 12 × overload, 1 × timeout; "
        "old-0: failed attempts: 9 × server lost (sandbox); "
        "revoked: is stopped: its key is refused; failed attempts: 2 × auth"
    )
    assert second.startswith("wave 3: 1,410 of 4,200 done")
    assert closing == [
        "wave 3: closing: recording missing episodes: 1 of 2",
        "wave 3: closing: listing objects: 27",
    ]


def test_scripts_get_json_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begin, first, last = map(json.loads, lines(True, capsys))
    assert begin == {"step": "wave 3", "doing": "starting workers", "done": 0, "of": None}
    assert (first["step"], first["finished"], last["finished"]) == ("wave 3", 1408, 1410)
    monkeypatch.setattr("study.printing.LOG_SECONDS", 0.0)
    *_, second, reading, listing = map(json.loads, lines(True, capsys))
    assert second["finished"] == 1410
    assert reading == {
        "step": "wave 3",
        "doing": "closing: recording missing episodes",
        "done": 1,
        "of": 2,
    }
    assert (listing["done"], listing["of"]) == (27, None)


def test_a_log_says_at_once_that_the_store_is_away_and_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pauses = (StorePause("node-1", "the disk is full", 3), StorePause("n2", "", lacks="sandbox"))
    with sweep_watch("wave 0") as watch:
        for now in ((), pauses, pauses, ()):
            watch(replace(progress(0), pauses=now))
    away, back = capsys.readouterr().err.splitlines()
    assert "; paused: no store on node-1 (the disk is full); 3 objects wait in its outbox;" in away
    assert "; paused: no sandbox on n2 ();" in away
    assert back.startswith("wave 0: 1,408 of 4,200 done")
    assert "paused" not in back
