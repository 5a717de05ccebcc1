"""Responses scored in a second, of a CPU and of the clock, strictly and leniently, the reading of
the run folder and of the answers' files included: prints one JSON line.

The folder is like those that people have: ten questions of twenty samples, four of them answered
in files, reasoning before the answers, three in ten of them wrong.
"""

from __future__ import annotations

import json
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from study.extras.templates.run_folder import score_run, write_scores

QUESTIONS, SAMPLES = 10, 20
REPEATS = 25
TARGET = 15_000
KINDS = (
    "files_exist",
    "stringmatch",
    "stringmatch",
    "directory_structure",
    "stringmatch",
    "stringmatch",
    "readfile_jsonmatch",
    "readfile_stringmatch",
    "readfile_stringmatch",
    "readfile_jsonmatch",
)
THOUGHT = "<think>\nThe file is read first, then its rows are counted one by one. " + "So. " * 150


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="scoring-") as folder:
        run = Path(folder)
        make_run(run)
        at = datetime.now(UTC)
        score_run(run, at)  # the imports, and the first look at the files
        scoring = measure(lambda: score_run(run, at))
        writing = measure(lambda: write_scores(run, score_run(run, at)))
    print(
        json.dumps(
            {"benchmark": "scoring", "responses": QUESTIONS * SAMPLES, **scoring}
            | {"with_scores_json": writing, "target": TARGET}
            | {"met": scoring["responses_per_cpu_second"] >= TARGET}
        )
    )


def measure(work: Any) -> dict[str, float]:
    """The best of many, since other work on the machine only ever slows it."""
    cpu, wall = [], []
    for _ in range(REPEATS):
        start, began = time.process_time(), time.perf_counter()
        work()
        cpu.append(time.process_time() - start)
        wall.append(time.perf_counter() - began)
    count = QUESTIONS * SAMPLES
    return {
        "responses_per_cpu_second": round(count / min(cpu)),
        "responses_per_second": round(count / min(wall)),
        "median_per_cpu_second": round(count / sorted(cpu)[REPEATS // 2]),
    }


def make_run(run: Path) -> None:
    keys, responses = [], []
    for question in range(QUESTIONS):
        for sample in range(1, SAMPLES + 1):
            key, response = make_sample(run, question, sample, KINDS[question])
            keys.append(json.dumps(key))
            responses.append(json.dumps(response))
    (run / "precheck.jsonl").write_text("\n".join(keys) + "\n")
    (run / "responses.jsonl").write_text("\n".join(responses) + "\n")


def make_sample(run: Path, question: int, sample: int, kind: str) -> tuple[Any, Any]:
    wrong = sample % 10 < 3
    base = f"q{question}_s{sample}"
    root = run / "sandbox" / base / "artifacts"
    root.mkdir(parents=True)
    (root / "data.csv").write_text("a,b\n" * 20)
    value, given = str(1000 * question + sample), "0" if wrong else str(1000 * question + sample)
    key: dict[str, Any] = {
        "scoring_type": kind,
        "question_id": question,
        "sample_number": sample,
        "template": "How many orders are in {{artifacts}}/{{entity1}}.db? " * 4,
        "substituted_question": "How many orders are in artifacts/amber.db? " * 4,
        "entity1": "amber",
        "sandbox_components": [{"type": "create_csv", "content": {"headers": ["A", "B"] * 5}}],
    }
    answer = f"{THOUGHT}\n</think>\n\n{given if kind == 'stringmatch' else 'It is done.'}"
    if kind == "stringmatch":
        key |= {"expected_response": value}
    elif kind in ("files_exist", "directory_structure"):
        paths = [f"artifacts/{name}" for name in ("x/a.log", "x/b.config", "x/c.txt")]
        key |= {"files_to_check": paths, "expected_paths": paths}
        (root / "x").mkdir()
        for path in paths[wrong:]:
            (root.parent / path).write_text("")
    else:
        as_json = kind == "readfile_jsonmatch"
        key |= {
            "file_to_read": "artifacts/answer.txt",
            "expected_content": json.dumps({"total": int(value)}) if as_json else value,
        }
        (root / "answer.txt").write_text(f'{{"total": {given}}}\n' if as_json else given)
    response = {
        "question_id": question,
        "sample_number": sample,
        "timestamp": "2026-01-01T00:00:00",
        "response_text": answer,
        "execution_successful": True,
        "error_message": None,
    }
    return key, response


if __name__ == "__main__":
    main()
