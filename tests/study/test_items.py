"""A benchmark of somebody's own, from a file to verdicts by the command line; and what becomes of
its items on the way."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from registry.result_row import Arm
from registry.sealing import decrypt
from study.main import main
from study.steps import pipeline
from study.workspace.study import Study
from tests.harness.openai_server import Answer, Json, completion, serve
from tests.study.conftest import run_wave

ITEMS = 80
WORDS = "river stone cloud engine violin bridge lantern forest harbour mirror".split()


def write_questions(path: Path) -> dict[str, str]:
    """A file as an owner has it; returns the right choices by question."""
    right = {}
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["question", "a", "b", "c", "d", "key"])
        for n in range(ITEMS):
            digits = hashlib.sha256(str(n).encode()).digest()
            choices = sorted(WORDS, key=lambda word: hashlib.sha256(digits + word.encode()).hexdigest())
            question = f"Which of these did sample {digits.hex()[:12]} show in run {n}?"
            rows.writerow([question, *choices[:4], "abcd"[digits[0] % 4]])
            right[question] = choices[digits[0] % 4]
    return right


@dataclass(frozen=True)
class Owned:
    study: Study
    shown: str  # what init printed
    right: dict[str, str]


def dosimeter(*arguments: str | Path) -> str:
    result = CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def owned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owned]:
    """A study from file to report. The new model knows what was published, and else guesses with
    some skill as the others do; the file is gone once its items are drawn."""
    folder = tmp_path_factory.mktemp("owned")
    pool, place = folder / "questions.csv", folder / "study"
    right = write_questions(pool)
    shown = dosimeter("init", place, "--items", pool)
    known: set[str] = set()

    def answer(request: Json) -> Answer:
        prompt = request["messages"][1]["content"]
        question = next(line for line in prompt.split("\n") if line in right)
        letters = dict(re.findall(r"^([A-D])\. (\w+)$", prompt, re.M))
        luck = hashlib.sha256(f"{request['model']}/{question}".encode()).digest()[0]
        knows = question in known if request["model"] == "my-model" else False
        letter = next(k for k, text in letters.items() if (text == right[question]) == (knows or luck < 100))
        return completion(f'It is so.\n<answer>\n{{"answer": "{letter}"}}\n</answer>')

    with serve(always=answer) as served:
        file = place / "study.yaml"
        text = file.read_text().replace("http://127.0.0.1:8000/v1", served.url)
        text = re.sub(r"^  ([\w-]+): \{provider: openai, model: name-at-the-server", r"  \1: {provider: openai, model: \1", text, flags=re.M)
        file.write_text(text + "\nsandbox: {kind: local}\n")
        dosimeter("register", "--study", place, "--underpowered", "a test")
        pool.unlink()
        study = pipeline.open_study(place)
        run_wave(study, 0, parallel=4)
        dosimeter("publish", "--study", place)
        known |= {question for question in right if any(question in each for each in released(study))}
        run_wave(study, 1, parallel=4)
        dosimeter("report", "--study", place)
    yield Owned(pipeline.open_study(place), shown, right)


def released(study: Study) -> list[str]:
    import pyarrow.parquet as pq

    files = sorted((study.folder / "release" / "data").rglob("*.parquet"))
    return [row["prompt"] for path in files for row in pq.read_table(path).to_pylist()]


def test_x(owned: Owned) -> None:
    print(owned.shown)
    print(dosimeter("show", "--study", owned.study.folder) if False else "")
