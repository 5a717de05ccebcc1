"""Waiting is nobody's loss: a busy or slow server takes neither working time nor points."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from generators.catalog import INSTALLED
from generators.seed import Seed
from generators.task import Limits, TaskSpec
from harness.episode import Cell, GradeStatus, StopReason
from harness.episodes.grading import grade_episode
from harness.episodes.rollout import AttemptRequest, run_attempt
from harness.models.providers.openai import OpenAIModel
from harness.spending.purchases import MemoryJournal
from tests.harness.chat_server import running
from tests.harness.openai_server import Answer, completion
from tests.harness.paid_attempt import Vouched
from tests.harness.script import noon
from tests.harness.served_model import served_model

SEED = Seed(bytes(32))
TASK = INSTALLED.family("compute_average")
INSTANCE = TASK.generate("easy", SEED)
WORKING, SECONDS = 4.0, 5  # an episode's working time; what a busy server asks clients to wait


@contextmanager
def slow_server(*script: Answer) -> Iterator[str]:
    """A server that refuses the first request, with ``Retry-After``, and drips its replies."""
    left, refused = list(script), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            if not refused.is_set():
                refused.set()
                self.send_response(429)
                self.send_header("Retry-After", str(SECONDS))
                self.end_headers()
                return
            data = json.dumps(left.pop(0).body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            for start in range(0, len(data), 200):
                self.wfile.write(data[start : start + 200])
                self.wfile.flush()
                time.sleep(0.05)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with running(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as url:
        yield f"{url}/v1"


def test_a_busy_and_slow_server_costs_no_points() -> None:
    """An honest agent behind it takes longer than its working time, and scores in full."""
    key = json.dumps(TASK.key(INSTANCE.truth))
    script = (
        completion("Look.", [("a", "run_command", {"command": "ls"})]),
        completion(None, [("b", "execute_python", {"code": TASK.solver()})]),
        completion(f"Counted.\n<answer>\n{key}\n</answer>"),
    )
    spec = TaskSpec("compute_average", "1", "easy", ())
    cell = Cell("sha256:" + "e" * 64, spec, INSTANCE.id, SEED, "m", 0)
    asked = replace(INSTANCE.brief, limits=Limits(working_seconds=WORKING))
    sandboxes = Vouched()
    begun = time.monotonic()
    with slow_server(*script) as url:
        model = served_model(OpenAIModel, url, retries=3)
        request = AttemptRequest(cell, 1, asked, run="r", journal=MemoryJournal())
        episode = run_attempt(request, model, sandboxes, noon)
        model.close()
    sandboxes.close()
    assert time.monotonic() - begun > SECONDS > WORKING
    assert (episode.stop, episode.error_class) == (StopReason.ANSWERED, "")
    assert episode.failed_tries == (("rate_limit", 1),)
    grade = grade_episode(INSTANCE, episode)
    assert (grade.status, grade.score) == (GradeStatus.GRADED, 1.0)
    assert sum(use.seconds for step in episode.steps for use in step.uses) < WORKING
