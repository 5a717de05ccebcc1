"""Cells of a paid model: whatever dies, nothing is lost, and no reply is bought twice."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from generators.catalog import INSTALLED
from generators.task import Asset, Limits
from harness.build_model import build_model
from harness.episode import Cell, Episode, StopReason
from harness.episodes.result import RESULT_CODEC, EpisodeResult, row_of
from harness.errors import AttemptFailed, Boundary
from harness.sandboxes.sandbox import ExecResult, Sandbox, SandboxProvider
from harness.storage import EPISODE_CODEC, attempt_key, result_key
from harness.sweep.leases import LeaseBook, LeaseRules, Progress
from harness.sweep.run_cell import close_cell, run_cell
from harness.sweep.workbench import Workbench
from registry.result_row import Arm, Status
from registry.sealing import new_identity
from registry.stores.folder import FolderStore
from tests.harness import paid_cells
from tests.harness.listed_cells import ListedCells
from tests.harness.openai_server import Answer, Json, Served, completion, failure, serve
from tests.harness.script import noon
from tests.ledgers import keys_of

STUDY, RECIPIENT = new_identity()
RUN, _ = new_identity()
TURNS = 4  # that the agent below takes
NOTHING = "\n<answer>\n{}\n</answer>"

# Workers are processes of their own; what they import is imported once.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["tests.harness.paid_cells", "pydantic_ai.direct", "pydantic_ai.models.openai"]
)


def play(request: Json) -> Answer:
    """An honest agent behind a server: what it does next follows from what it has seen."""
    seen = [message for message in request["messages"] if message["role"] == "tool"]
    made = INSTALLED.family("compute_average").solver()
    if not seen:
        return completion(None, [("a", "write_file", {"path": "solve.py", "content": made})])
    if len(seen) == 1:
        return completion(None, [("b", "run_command", {"command": "python3 solve.py"})])
    if len(seen) == 2:
        return completion(None, [("c", "read_file", {"path": "answer.json"})])
    read = seen[2]["content"].splitlines()[0]
    return completion(f"So it is.\n<answer>\n{read}\n</answer>")


@contextmanager
def opened(served: Served, folder: Path) -> Iterator[Workbench]:
    bench = paid_cells.bench(served.url, str(folder), RECIPIENT, RUN)
    try:
        yield bench
    finally:
        bench.close()


def results(folder: Path) -> dict[str, EpisodeResult]:
    """What is in the store, but for durations, which no two runs share."""
    store = FolderStore(folder)
    found = {
        key: RESULT_CODEC.read(store, key, keys_of(STUDY, RUN)) for key in store.list("results/")
    }
    return {key: replace(result, seconds=0.0) for key, result in found.items()}


def episode_of(folder: Path, cell: Cell, attempt: int = 1) -> Episode:
    key = attempt_key(cell.episode, attempt)
    return EPISODE_CODEC.read(FolderStore(folder), key, keys_of(STUDY, RUN))


def said(episode: Episode) -> list[str]:
    return [step.reply.message.text for step in episode.steps]


def asked(served: Served) -> list[int]:
    """The seed of each request: every turn of every attempt has its own."""
    return [request["seed"] for request in served.requests]


# --- kill -9 ---


def start(served: Served, folder: Path) -> ForkServerProcess:
    arguments = (served.url, str(folder), RECIPIENT, RUN)
    worker = PROCESSES.Process(target=paid_cells.work, args=arguments)
    worker.start()
    return worker


def finish(worker: ForkServerProcess) -> int | None:
    worker.join()
    return worker.exitcode


def kill_midway(served: Served, folder: Path, chance: random.Random) -> None:
    """Start a worker and kill it some time after it has bought a few replies."""
    goal = len(served.requests) + chance.randint(1, 3)
    worker = start(served, folder)
    while len(served.requests) < goal:
        assert worker.is_alive(), "it ended before it could be killed"
        time.sleep(0.001)
    time.sleep(chance.uniform(0, 0.08))
    worker.kill()
    assert finish(worker) == -signal.SIGKILL


def test_over_five_kills_a_reply_is_bought_twice_only_where_it_was_on_its_way(
    tmp_path: Path,
) -> None:
    kills, chance = 5, random.Random()
    with serve(always=lambda request: replace(play(request), seconds=0.02)) as served:
        with opened(served, tmp_path / "whole") as bench:
            whole = paid_cells.cells(served.url)
            assert all(run_cell(cell, bench, noon).finished for cell in whole)
        owed = asked(served)
        assert len(owed) == len(set(owed)) == paid_cells.COUNT * TURNS
        served.requests.clear()
        for _ in range(kills):
            kill_midway(served, tmp_path / "killed", chance)
        assert finish(start(served, tmp_path / "killed")) == 0
        bought = asked(served)
        assert set(bought) == set(owed)
        print(f"{len(bought) - len(owed)} of {len(bought)} replies were lost on their way")
        assert len(bought) - len(owed) <= kills, "one worker has one request on its way"
    assert served.faults == []
    assert results(tmp_path / "killed") == results(tmp_path / "whole")
    for cell in whole:
        killed, unharmed = (episode_of(tmp_path / name, cell) for name in ("killed", "whole"))
        assert said(killed) == said(unharmed)
        assert killed.attempt == 1
    for result in results(tmp_path / "killed").values():
        assert (result.status, result.score, result.attempts) == (Status.SCORED, 1.0, 1)


def read_lines(store: FolderStore, key: str) -> Iterator[Json]:
    """The records of an object: one, and in an attempt one more for each turn."""
    for line in keys_of(STUDY, RUN).open(key, store.get(key)).rstrip().splitlines():
        record = json.loads(line)
        assert record["format"].startswith("dosimeter/")
        yield record


def test_all_that_a_killed_worker_left_is_readable_with_the_studys_key(tmp_path: Path) -> None:
    with serve(always=play) as served:
        kill_midway(served, tmp_path, random.Random())
        store = FolderStore(tmp_path)
        for key in store.list():
            assert list(read_lines(store, key))
        assert finish(start(served, tmp_path)) == 0
    keys = list(store.list())
    left = [key.split("/")[3][:64] for key in keys if key.startswith("responses/")]
    assert len(set(left)) <= 1, "it was killed between a result and the end of the cell's journal"
    assert len(keys) - len(left) == paid_cells.COUNT * 2, "of each cell an attempt and a result"
    assert all(line["body"] for key in keys for line in read_lines(store, key))
    assert "AGE-SECRET" not in "".join(str(path) for path in tmp_path.rglob("*"))


def test_a_result_that_a_crash_left_out_is_made_from_the_stored_attempt(tmp_path: Path) -> None:
    with serve(always=play) as served, opened(served, tmp_path) as bench:
        (cell,) = paid_cells.cells(served.url, 1)
        assert run_cell(cell, bench, noon).finished
        first, bought = results(tmp_path), len(served.requests)
        (tmp_path / result_key(cell.episode)).unlink()
        assert run_cell(cell, bench, noon).finished
        assert len(served.requests) == bought
    assert results(tmp_path) == first


# --- failing infrastructure ---


def sweep(cell: Cell, bench: Workbench, give_up: bool = False) -> Progress:
    """What a coordinator and a worker do with one cell, on a clock that jumps over pauses."""
    book = LeaseBook(
        ListedCells([cell]), bytes(1), LeaseRules(60.0, max_failures=3, give_up=give_up)
    )
    now = 0.0
    while not book.progress().done:
        for leased in book.lease("w", 1, now):
            book.report("w", [run_cell(leased, bench, noon)], now)
        now += 1.0
    return book.progress()


def failing_from(turn: int, times: int) -> Callable[[Json], Answer]:
    """A server that breaks down at a turn, so many times."""
    left = itertools.count(times, -1)

    def answer(request: Json) -> Answer:
        seen = sum(message["role"] == "tool" for message in request["messages"])
        return failure(500) if seen == turn and next(left) > 0 else play(request)

    return answer


def test_an_attempt_that_a_server_failed_is_kept_and_the_next_one_counts(tmp_path: Path) -> None:
    with serve(always=failing_from(2, times=1)) as served, opened(served, tmp_path) as bench:
        (cell,) = paid_cells.cells(served.url, 1)
        progress = sweep(cell, bench)
        assert len(asked(served)) == len(set(asked(served))) == 1 + TURNS
    assert (progress.finished, progress.exhausted) == (1, 0)
    assert progress.failures == (("provider:overload", 1),)
    failed, good = (episode_of(tmp_path, cell, attempt) for attempt in (1, 2))
    assert (failed.stop, failed.error_class, len(failed.steps)) == (
        StopReason.FAILED, "provider:overload", 2,
    )  # fmt: skip
    assert (good.stop, len(good.steps)) == (StopReason.ANSWERED, TURNS)
    assert (failed.replies, failed.inherited) == (2, 0)
    assert (good.replies, good.inherited) == (TURNS, 2)
    (result,) = results(tmp_path).values()
    assert (result.attempt, result.attempts, result.score) == (2, 2, 1.0)


def test_a_cell_that_is_given_up_is_exhausted_and_closed_as_missing(tmp_path: Path) -> None:
    with serve(always=failing_from(1, times=99)) as served, opened(served, tmp_path) as bench:
        (cell,) = paid_cells.cells(served.url, 1)
        progress = sweep(cell, bench, give_up=True)
        assert (progress.finished, progress.exhausted) == (0, 1)
        assert progress.failures == (("provider:overload", 3),)
        assert results(tmp_path) == {}
        close_cell(cell, bench.store, bench.context, bench.catalog)
        close_cell(cell, bench.store, bench.context, bench.catalog)  # again, as after a crash
        assert run_cell(cell, bench, noon).finished, "a closed cell is owed no more"
        assert len(served.requests) == 1 + 3, "the first turn is bought once"
    (result,) = results(tmp_path).values()
    assert (result.status, result.score, result.passed, result.total) == (
        Status.MISSING, None, None, None,
    )  # fmt: skip
    assert (result.attempts, result.error_class) == (3, "provider:overload")
    assert row_of(result, Arm.PUBLIC).score is None
    assert [episode_of(tmp_path, cell, n).stop for n in (1, 2, 3)] == [StopReason.FAILED] * 3


def test_a_long_pause_ends_the_attempt_and_the_next_one_goes_on(tmp_path: Path) -> None:
    """The model's setting would allow to wait and to ask again at once."""
    busy = iter([failure(429, headers=(("Retry-After", "30"),))])

    def answer(request: Json) -> Answer:
        seen = sum(message["role"] == "tool" for message in request["messages"])
        return next(busy, play(request)) if seen == 2 else play(request)

    with serve(always=answer) as served, opened(served, tmp_path) as bench:
        (cell,) = paid_cells.cells(served.url, 1)
        stated = dict(paid_cells.pin_at(served.url).settings) | {"retries": "3"}
        pin = replace(paid_cells.pin_at(served.url), settings=tuple(stated.items()))
        willing = replace(bench, models={paid_cells.NAME: build_model(pin, {})})
        ended = run_cell(cell, willing, noon)
        assert (ended.finished, ended.error_class) == (False, "provider:rate_limit")
        assert (ended.replies, ended.wait) == (2, 30.0)
        done = run_cell(cell, willing, noon)
        assert (done.finished, done.replies, done.wait) == (True, TURNS - 2, 0)
        assert len(served.requests) == TURNS + 1


# --- the next attempt goes on from the very turn ---


def shape(folder: Path, cell: Cell, attempt: int) -> list[tuple[str, list[str]]]:
    """What was said and what the tools answered, turn by turn."""
    steps = episode_of(folder, cell, attempt).steps
    return [
        (step.reply.message.text, [_untimed(use.result.text) for use in step.uses])
        for step in steps
    ]


def _untimed(text: str) -> str:
    return re.sub(r"[\d.]+ s\]", "s]", text)


def append(request: Json) -> Answer:
    """An agent that adds a line to a file at each turn, and hands in the whole of it."""
    seen = sum(message["role"] == "tool" for message in request["messages"])
    if seen < TURNS - 1:
        return completion(
            f"line {seen}", [("a", "run_command", {"command": f"echo {seen} >> log"})]
        )
    if seen == TURNS - 1:
        return completion(None, [("a", "read_file", {"path": "log"})])
    return completion("Done." + NOTHING)


@pytest.mark.parametrize("turn", [0, 2, TURNS])
def test_after_a_failure_at_any_turn_no_reply_is_bought_twice(tmp_path: Path, turn: int) -> None:
    """And the work folder is as it was: what the tools answer at the next turn tells it."""
    failures = itertools.count()

    def answer(request: Json) -> Answer:
        seen = sum(message["role"] == "tool" for message in request["messages"])
        if seen == turn and next(failures) < 2:
            return failure(500)
        return append(request)

    with serve(always=append) as served, opened(served, tmp_path / "whole") as bench:
        (cell,) = paid_cells.cells(served.url, 1)
        assert run_cell(cell, bench, noon).finished
        owed = len(served.requests)
    with serve(always=answer) as served, opened(served, tmp_path / "failed") as bench:
        assert sweep(cell, bench).finished == 1
        assert len(served.requests) == owed + 2, "the failed requests, and each turn once"
    assert shape(tmp_path / "failed", cell, 3) == shape(tmp_path / "whole", cell, 1)
    attempts = [episode_of(tmp_path / "failed", cell, attempt) for attempt in (1, 2, 3)]
    assert [each.inherited for each in attempts] == [0, turn, turn]
    assert [each.replies for each in attempts] == [turn, turn, TURNS + 1]
    bought = [turn for each in attempts for turn in each.paid_replies()]
    assert bought == list(range(TURNS + 1)), "each lies where it was bought, and nowhere else"
    assert sum(each.failed is not None for made in attempts for each in made.kept) == 2
    assert list(FolderStore(tmp_path / "failed").list("responses/")) == []


def draw(request: Json) -> Answer:
    """An agent that looks at what no two runs share, and then at what they do."""
    seen = [message for message in request["messages"] if message["role"] == "tool"]
    if not seen:
        code = "import os; open('log', 'w').write('same'); print(os.urandom(8).hex())"
        return completion(None, [("a", "execute_python", {"code": code})])
    if len(seen) == 1:
        return completion(None, [("b", "run_command", {"command": "cat log"})])
    return completion(f"I saw {seen[0]['content'].split()[0]}." + NOTHING)


def test_what_a_call_answers_anew_is_noted_and_the_model_keeps_what_it_saw(tmp_path: Path) -> None:
    broken = iter([failure(500)])

    def answer(request: Json) -> Answer:
        reply = draw(request)
        return next(broken, reply) if "I saw" in json.dumps(reply.body) else reply

    with serve(always=answer) as served, opened(served, tmp_path) as bench:
        (cell,) = paid_cells.cells(served.url, 1)
        assert sweep(cell, bench).finished == 1
    assert len(served.requests) == 2 + 2, "no reply is bought twice"
    first, second = (episode_of(tmp_path, cell, attempt) for attempt in (1, 2))
    saw = first.steps[0].uses[0]
    assert (saw.diverged, first.steps[1].uses[0].diverged) == (None, None)
    again = second.steps[0].uses[0]
    assert (again.result, again.seconds) == (saw.result, saw.seconds)
    assert again.diverged is not None
    assert again.diverged.split()[0] != saw.result.text.split()[0]
    assert second.answer == f"I saw {saw.result.text.split()[0]}." + NOTHING, "so does the next"
    same = second.steps[1].uses[0]
    assert (same.diverged, same.result.text.split()[0]) == (None, "same")
    assert all(step.reply.asked is None for step in second.steps), "it is stored once"


def test_replies_go_on_from_attempt_to_attempt(tmp_path: Path) -> None:
    """Every turn fails once: one more is inherited each time."""
    failed: set[int] = set()

    def answer(request: Json) -> Answer:
        seen = sum(message["role"] == "tool" for message in request["messages"])
        if seen not in failed:
            failed.add(seen)
            return failure(500)
        return append(request)

    with serve(always=answer) as served, opened(served, tmp_path) as bench:
        (cell,) = paid_cells.cells(served.url, 1)
        while not run_cell(cell, bench, noon).finished:
            pass
        assert len(served.requests) == 2 * (TURNS + 1)
    attempts = [episode_of(tmp_path, cell, attempt) for attempt in range(1, TURNS + 3)]
    assert [each.inherited for each in attempts] == [0, *range(TURNS + 1)]
    assert attempts[-1].stop is StopReason.ANSWERED
    assert attempts[-1].steps[-2].uses[0].result.text.startswith("0\n1\n2\n")


def test_a_request_that_is_refused_each_time_is_recorded_after_the_last_try(tmp_path: Path) -> None:
    refusal, error = failure(400), "provider:bad_request"

    def answer(request: Json) -> Answer:
        seen = sum(message["role"] == "tool" for message in request["messages"])
        return refusal if seen == 2 else append(request)

    with serve(always=answer) as served, opened(served, tmp_path) as bench:
        (cell,) = paid_cells.cells(served.url, 1)
        assert sweep(cell, bench).exhausted == 1
        assert len(served.requests) == 2 + 3 * 3, "with both results, one, and none"
        close_cell(cell, bench.store, bench.context, bench.catalog)
    (result,) = results(tmp_path).values()
    assert (result.status, result.attempts, result.error_class) == (Status.MISSING, 3, error)
    assert [len(episode_of(tmp_path, cell, n).steps) for n in (1, 2, 3)] == [2, 2, 2]


def test_a_lost_sandbox_costs_no_reply(tmp_path: Path) -> None:
    """The reply whose tool call lost it was paid for too."""
    with serve(always=append) as served, opened(served, tmp_path) as bench:
        (cell,) = paid_cells.cells(served.url, 1)
        lossy = replace(bench, sandboxes=Lossy(bench.sandboxes, at=2))
        assert not run_cell(cell, lossy, noon).finished
        assert run_cell(cell, bench, noon).finished
        assert len(served.requests) == TURNS + 1
    lost, good = (episode_of(tmp_path, cell, attempt) for attempt in (1, 2))
    assert (lost.error_class, len(lost.steps), lost.replies) == ("sandbox:lost", 1, 2)
    assert (good.inherited, good.stop) == (2, StopReason.ANSWERED)
    assert good.steps[-2].uses[0].result.text.startswith("0\n1\n2\n")


class Lossy:
    """A provider whose sandboxes are lost at so many-th command line."""

    image, isolates, libraries = "none", True, ()

    def __init__(self, provider: SandboxProvider, at: int) -> None:
        self._provider, self._at = provider, at

    def open(self, assets: Sequence[Asset], limits: Limits, model_socket: bool = False) -> Sandbox:
        sandbox = self._provider.open(assets, limits, model_socket)
        lines, run_really = itertools.count(1), sandbox.run

        def run(argv: Sequence[str], seconds: float, stdin: bytes = b"") -> ExecResult:
            if argv[0] == "bash" and next(lines) == self._at:
                raise AttemptFailed(Boundary.SANDBOX, "lost")
            return run_really(argv, seconds, stdin)

        sandbox.run = run  # type: ignore[method-assign]  # the loss, where it happens
        return sandbox

    def close(self) -> None:
        """The provider is somebody else's."""


def test_a_later_sweep_tries_an_exhausted_cell_anew(tmp_path: Path) -> None:
    with serve(always=failing_from(0, times=4)) as served, opened(served, tmp_path) as bench:
        (cell,) = paid_cells.cells(served.url, 1)
        assert sweep(cell, bench, give_up=True).exhausted == 1
        assert sweep(cell, bench).finished == 1
    (result,) = results(tmp_path).values()
    assert (result.attempt, result.attempts, result.status) == (5, 5, Status.SCORED)


# --- two workers at the same cell ---


def test_of_two_workers_at_one_cell_one_result_counts_and_both_are_done(tmp_path: Path) -> None:
    """They ask at the same time, turn by turn, and never hear the same words."""
    together, counter = threading.Barrier(2), itertools.count()

    def answer(request: Json) -> Answer:
        with suppress(threading.BrokenBarrierError):  # the other found a reply in the store
            together.wait(2.0)
        made = play(request)
        assert isinstance(made.body, dict)
        message = made.body["choices"][0]["message"]
        message["content"] = f"{next(counter)} {message['content'] or ''}"
        return made

    with (
        serve(always=answer) as served,
        opened(served, tmp_path) as first,
        opened(served, tmp_path) as second,
        ThreadPoolExecutor(2) as both,
    ):
        (cell,) = paid_cells.cells(served.url, 1)
        outcomes = list(both.map(lambda bench: run_cell(cell, bench, noon), (first, second)))
        assert len(served.requests) <= 2 * TURNS
    assert [outcome.finished for outcome in outcomes] == [True, True]
    assert list(FolderStore(tmp_path).list("attempts/")) == [attempt_key(cell.episode, 1)]
    (result,) = results(tmp_path).values()
    assert (result.score, result.attempts) == (1.0, 1)
    attempt = episode_of(tmp_path, cell)
    bought = [reply.message.text for _, reply in sorted(attempt.paid_replies().items())]
    assert bought == said(attempt)


@pytest.mark.parametrize("first", [True, False])
def test_a_second_worker_goes_on_from_the_firsts_attempt(tmp_path: Path, first: bool) -> None:
    """It was still at work when the other had stored its attempt: a failed one is followed by the
    next, a good one is the result."""
    with serve(always=play) as served, opened(served, tmp_path) as bench:
        (cell,) = paid_cells.cells(served.url, 1)
        overtaken: list[bool] = []

        def late() -> str:
            if not overtaken:
                overtaken.append(True)
                served.always = play if first else failing_from(0, times=1)
                with opened(served, tmp_path) as other:
                    assert run_cell(cell, other, noon).finished is first
                served.always = play
            return noon()

        assert run_cell(cell, bench, late).finished
    (result,) = results(tmp_path).values()
    assert (result.attempts, result.score) == ((1, 1.0) if first else (2, 1.0))
