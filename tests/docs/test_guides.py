"""The pages for those who bring something of their own: their commands, run as they stand, with a
local server as every model."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from analysis.report.write import DATA
from study.main import main
from tests.cases import cases
from tests.harness.openai_server import Answer, Json, completion, serve

DOCS = Path(__file__).parents[2] / "docs"
ITEMS, SERVER = 84, "http://127.0.0.1:8000/v1"
TASK = cases(__file__, "task")


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """The language and the text of each code block of a page."""
    yield from re.findall(r"^```(\w+)\n(.*?)^```", (DOCS / page).read_text("utf-8"), re.M | re.S)


def key_of(question: str) -> str:
    return "ABCD"[hashlib.sha256(question.encode()).digest()[0] % 4]


def questions() -> list[str]:
    """Each with words of its own, so that no two are nearly alike."""
    words = random.Random(1)
    return [
        " ".join("".join(words.choices("bcdfgklmnprstv", k=7)) for _ in range(9)) + "?"
        for _ in range(ITEMS)
    ]


def reply(request: Json) -> Answer:
    """Models know most answers, each its own."""
    prompt = str(request["messages"][-1]["content"])
    question = next(line for line in questions() if line in prompt)
    luck = hashlib.sha256(f"{request['model']}/{question}".encode()).digest()[0]
    letter = key_of(question) if luck < 170 else "ABCD"[luck % 4]
    return completion(f'<answer>\n{{"answer": "{letter}"}}\n</answer>')


class Reader:
    """Does what a page says: writes its files, edits study.yaml, and runs its commands."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url, self.waves = folder, url, 0

    def do(self, page: str) -> None:
        for kind, text in blocks(page):
            match kind:
                case "python":
                    (self.folder / text.split()[1]).write_text(text)
                case "yaml":
                    path = self.folder / "study.yaml"
                    before, _, after = path.read_text().partition("models:\n")
                    rest = after.partition("waves:")[2].partition("\n")[2]
                    rest = re.sub(r"^stamps:.*\n", "", rest, flags=re.M)  # they need the network
                    path.write_text(before + text.replace(SERVER, self.url) + rest)
                case "sh":
                    for line in text.splitlines():
                        self.run(shlex.split(line.replace(SERVER, self.url)))

    def run(self, words: list[str]) -> None:
        match words:
            case ["cd", place]:
                self.folder = (self.folder / place).resolve()
                os.chdir(self.folder)
            case ["dosimeter", *rest]:
                dirty = ["--allow-dirty"] if rest[0] == "export" else []  # where it is developed
                done = CliRunner().invoke(main, [*rest, *dirty], catch_exceptions=False)
                assert done.exit_code == 0, (rest, done.output)
            case ["lm_eval", *rest]:
                lm_eval(dict(pairwise(rest)), self.url)
            case ["python" | "inspect", *rest]:
                tool = Path(sys.executable).with_name(words[0])
                env = {**os.environ, "LOCAL_BASE_URL": self.url, "LOCAL_API_KEY": "none"}
                done = subprocess.run([tool, *rest], env=env, capture_output=True, text=True)
                assert done.returncode == 0, done.stdout + done.stderr
            case _:
                raise AssertionError(words)


def lm_eval(options: dict[str, str], url: str) -> None:
    """A stand-in for lm-evaluation-harness, which test_elsewhere runs itself: it reads the task
    file and the questions, and writes samples in the form of release 0.4.13."""
    import httpx
    import yaml

    [path] = Path(options["--include_path"]).glob("*.yaml")
    task = yaml.safe_load(path.read_text())
    assert task["task"] == options["--tasks"]
    model = options["--model_args"].split(",")[0].removeprefix("model=")
    lines = Path(task["dataset_kwargs"]["data_files"]["test"]).read_text("utf-8").splitlines()
    out = Path(options["--output_path"]) / model
    out.mkdir(parents=True)
    samples = out / f"samples_{task['task']}_2026-11-01.jsonl"
    with samples.open("w") as file, httpx.Client() as client:
        for number, doc in enumerate(map(json.loads, lines)):
            asked: dict[str, Any] = {"messages": [{"role": "user", "content": doc["prompt"]}]}
            got = client.post(f"{url}/chat/completions", json={"model": model, **asked}).json()
            text = got["choices"][0]["message"]["content"]
            row = {"doc_id": number, "doc": doc, "resps": [[text] * task["repeats"]]}
            row |= {"metrics": ["bypass"], "bypass": 999, "filter": "none"}
            file.write(json.dumps(row) + "\n")
    about = {"model_name": model, "lm_eval_version": "0.4.13"}
    (out / "results_2026-11-01.json").write_text(json.dumps(about))


@pytest.mark.parametrize(
    ("page", "harness"),
    [
        # Two minutes of Inspect; test_elsewhere has one wave of it.
        pytest.param("inspect-task.md", "Inspect", marks=pytest.mark.slow),
        ("lm-eval-task.md", "lm-evaluation-harness"),
    ],
)
def test_from_a_task_of_another_harness_to_the_report(
    page: str, harness: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{DOCS.parent}")
    (tmp_path / "my_task.py").write_text(TASK)
    choices = ["north", "east", "south", "west"]
    rows = [{"input": each, "target": key_of(each), "choices": choices} for each in questions()]
    named = [
        {"question": row["input"], "answer": row["target"], "choices": row["choices"]}
        for row in rows
    ]
    for name, given in (("data.jsonl", rows), ("questions.jsonl", named)):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in given))
    with serve(always=reply) as served:
        Reader(tmp_path, served.url).do(page)
    [path] = tmp_path.rglob(DATA)
    report = json.loads(path.read_text())
    [verdict] = report["models"]
    assert verdict["model"] == "my-model"
    assert any(f"was run elsewhere by {harness}" in each for each in report["deviations"])


def test_a_table_is_tested_by_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    chance = random.Random(2)
    rows, counts = ["model,arm,stratum,instance,score"], ["model,arm,stratum,k,n"]
    for model in ("old-1", "old-2", "new-1"):
        for arm in ("public", "private"):
            scores = [
                int(chance.random() < (0.9 if (model, arm) == ("new-1", "public") else 0.5))
                for _ in range(200)
            ]
            rows += [f"{model},{arm},algebra,{arm}-{n},{score}" for n, score in enumerate(scores)]
            counts.append(f"{model},{arm},all,{sum(scores)},200")
    Path("results.csv").write_text("\n".join(rows) + "\n")
    Path("counts.csv").write_text("\n".join(counts) + "\n")
    commands = [text for kind, text in blocks("only-a-table.md") if kind == "sh"]
    printed = [
        CliRunner().invoke(main, shlex.split(text)[1:], catch_exceptions=False).output
        for text in commands
    ]
    assert "contaminated" in printed[0]
    assert json.loads(printed[1])["models"][0]["verdict"] == "contaminated"
