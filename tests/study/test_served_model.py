"""A whole study of a model behind an OpenAI-compatible server, in containers, by the command line:
what is served is recorded, and the key is kept nowhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from generators.catalog import INSTALLED
from harness.episode import Episode
from harness.model import Role
from harness.storage import EPISODE_CODEC
from registry.verify.verify import verify_study
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.workspace.study import Study
from tests.cases import cases
from tests.harness.openai_server import Answer, Json, Served, completion, failure, serve
from tests.ledgers import plain_object
from tests.progress import files_of, finish
from tests.study.cli.program import refusal
from tests.study.conftest import draw_tiny

# No limit by the clock: a wait ends when nothing new is stored.
pytestmark = [pytest.mark.docker, pytest.mark.timeout(0)]

KEY = "sk-7d1c-do-not-keep"
VARIABLE = "SERVED_MODEL_KEY"
SERVED = "served-model-2026-11-01"
EPISODES = 2 * 2 * 2  # tasks, arms, seeds
PROTOCOL = cases(__file__, "protocol")
PRINT = """
import json
print("\\nanswer:", json.dumps(json.load(open("answer.json"))))
"""


def play(request: Json) -> Answer:
    """An honest agent: looks at what there is, runs a program, and reports what that printed."""
    seen = [message["content"] for message in request["messages"] if message["role"] == "tool"]
    if not seen:
        return completion(None, [("look", "run_command", {"command": "find . -type f"})])
    if len(seen) == 1:
        task = re.search(r'"task":\{"const":"(\w+)"', request["messages"][0]["content"])
        assert task is not None
        program = INSTALLED.family(task[1]).solver() + PRINT
        pictures = re.findall(r"^\./(.+\.png)$", seen[0], re.M)[:1]
        looks = [("see", "view_image", {"path": path}) for path in pictures]
        return completion(None, [("work", "execute_python", {"code": program}), *looks])
    printed = re.search(r"^answer: (\{.*\})$", "\n".join(seen), re.M)
    assert printed is not None, seen
    return completion(f"So it is.\n<answer>\n{printed[1]}\n</answer>")


@dataclass(frozen=True)
class Run:
    study: Study
    served: Served
    output: str  # all that the commands printed
    temporary: Path  # folder of its temporary files


def dosimeter(
    folder: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "study.main", *arguments, "--study", str(folder)]
    process = subprocess.Popen(
        command,
        env={**{n: v for n, v in os.environ.items() if n != VARIABLE}, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    out, err = finish(process, files_of(folder))
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def promise(folder: Path) -> None:
    study = pipeline.open_study(folder)
    draw_tiny(study)
    pipeline.register(study)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The study from seed to report. The server fails the first request, quoting the key."""
    folder = tmp_path_factory.mktemp("served") / "study"
    temporary = Path(tempfile.mkdtemp())
    first = threading.Event()

    def answer(request: Json) -> Answer:
        if first.is_set():
            return play(request)
        first.set()
        return failure(500, f"bad key {KEY}")

    with serve(always=answer) as served:
        init_study(folder, PROTOCOL.format(url=served.url, variable=VARIABLE))
        promise(folder)
        commands = (
            ("sweep", "--wave", "0", "--allow-dirty", "--allow-unknown-price"),
            ("report", "--json"),
        )
        environment = {VARIABLE: KEY, "TMPDIR": str(temporary)}
        done = [dosimeter(folder, *command, **environment) for command in commands]
        assert [each.returncode for each in done] == [0, 0], [each.stderr for each in done]
        output = "".join(each.stdout + each.stderr for each in done)
        yield Run(pipeline.open_study(folder), served, output, temporary)
    shutil.rmtree(temporary)


def opened(study: Study) -> dict[str, bytes]:
    """Every object of the store, decrypted where it is sealed."""
    return {key: plain_object(study, key) for key in study.store.list()}


def episodes(study: Study) -> list[Episode]:
    keys = study.keys()
    return [EPISODE_CODEC.read(study.store, key, keys) for key in study.store.list("attempts/")]


def test_every_episode_is_served_answered_and_scored(run: Run) -> None:
    assert run.served.faults == []
    assert set(run.served.keys) == {f"Bearer {KEY}"}
    assert {request["model"] for request in run.served.requests} == {"asked-model"}
    made = episodes(run.study)
    assert len(made) == EPISODES
    assert sum(step.reply.retries for episode in made for step in episode.steps) == 1
    assert [episode.failed_tries for episode in made if episode.failed_tries] == [
        (("overload", 1),)
    ]
    assert len(run.served.requests) == 3 * EPISODES + 1
    assert verify_study(run.study.store, run.study.identities()).holds


def test_images_go_to_the_server_as_images(run: Run) -> None:
    shown = [
        part["image_url"]["url"]
        for request in run.served.requests
        for message in request["messages"]
        if message["role"] == Role.USER and isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == "image_url"
    ]
    assert len(shown) == EPISODES // 2
    assert all(url.startswith("data:image/png;base64,") for url in shown)


def test_the_report_tells_the_version_that_was_served(run: Run) -> None:
    page = run.study.folder / "reports" / "wave-0"
    report = json.loads((page / "report.json").read_text())
    assert [(row["model"], row["asked"], row["served"]) for row in report["served"]] == [
        ("theirs", "asked-model", [SERVED])
    ]
    assert report["models"] == [], "nothing was published before"
    (row,) = report["before_publication"]
    assert (row["model"], row["n_public"], row["n_private"]) == ("theirs", 4, 4)
    assert row["gap"] == 0.0
    assert SERVED in (page / "report.html").read_text()


def test_the_key_stands_nowhere(run: Run) -> None:
    assert KEY not in run.output
    secret = KEY.encode()
    held = {str(path): path.read_bytes() for path in run.study.folder.rglob("*") if path.is_file()}
    # What the sweep left elsewhere, if it did.
    held |= {str(path): path.read_bytes() for path in run.temporary.rglob("*") if path.is_file()}
    stored = opened(run.study)
    assert len(stored) > 3 * EPISODES
    held |= stored
    for attempt in episodes(run.study):
        replies = list(attempt.paid_replies().values())
        tries = [each.failed for each in attempt.kept if each.failed is not None]
        for number, answer in enumerate([*replies, *tries]):
            held[f"{attempt.id}, answer {number}"] = answer.raw
    assert [place for place, data in held.items() if secret in data] == []


def test_without_its_key_a_sweep_names_the_variable_and_begins_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    folder = tmp_path / "study"
    init_study(folder, (run.study.folder / "study.yaml").read_text())
    promise(folder)
    before = sorted((folder / "store").rglob("*"))
    assert VARIABLE in refusal("sweep", "--wave", "0", "--allow-dirty", "--study", str(folder))
    assert sorted((folder / "store").rglob("*")) == before
