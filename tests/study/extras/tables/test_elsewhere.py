"""A wave that another harness runs: exported under opaque ids, run there, imported, reported."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.episodes.result import RESULT_CODEC
from registry.sealing import decrypt, new_identity
from study.main import main
from study.steps import pipeline
from study.steps.verify.verify import VerifyRequest, verify
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study
from tests.study.conftest import make_study, run_wave

TASKS = ("compute_average", "order_statistics")
TEXT = """\
study: away
tasks:
  - {family: compute_average, difficulty: easy, mode: single_turn}
  - {family: order_statistics, difficulty: easy, mode: single_turn}
seeds_per_arm: 3
models:
  old: {provider: scripted, agent: trivial, context: 100000}
  nova:
    {provider: openai, model: nova-1, base_url: "http://127.0.0.1:9/v1", context: 100000,
     retention: none}
waves:
  - [old]
  - [nova]
plan: {alpha: 0.4, permutations: 199}
sandbox: {kind: local}
"""


def run(*words: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, [*map(str, words)])
    return result.exit_code, result.stdout, result.stderr


def export(folder: Path, form: str, out: Path, *more: str) -> tuple[int, str, str]:
    how = more or ("--plain",)
    words = ["--wave", "1", "--format", form, "--out", str(out), "--study", str(folder), *how]
    return run("export", "tasks", *words, "--allow-dirty")


def take(folder: Path, kind: str, *places: str | Path) -> tuple[int, str, str]:
    return run("import", kind, *places, "--wave", "1", "--study", folder)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose first wave is closed, its public arm released."""
    study = make_study(tmp_path_factory.mktemp("away") / "away", TEXT)
    run_wave(study)
    pipeline.publish(study, None, lambda *step: None)
    return study.folder


@pytest.fixture
def folder(begun: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(begun, tmp_path / "away"))


def rows_in(out: Path) -> list[dict[str, Any]]:
    text = (out / "tasks.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def key_of(study: Study, prompt: str) -> str:
    """The text that earns full marks for an instance, found by its prompt."""
    for each in study.entries():
        family = study.protocol.catalog.family(each.family, each.version)
        from generators.seed import Seed

        made = family.generate(each.difficulty, Seed.from_hex(each.seed))
        if made.brief.prompt.splitlines()[0] in prompt:
            return f"<answer>\n{json.dumps(family.key(made.truth))}\n</answer>"
    raise AssertionError(prompt)


def test_from_export_to_report(folder: Path, tmp_path: Path) -> None:
    assert export(folder, "jsonl", tmp_path / "out")[0] == 0
    rows = rows_in(tmp_path / "out")
    assert len(rows) == 12
    study = pipeline.open_study(folder)
    lines = [{"id": row["id"], "answer": key_of(study, row["prompt"])} for row in rows[:-1]]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, out, error = take(folder, "jsonl", f"nova={log}")
    assert (code, error) == (0, "")
    print(out)
    report, page = pipeline.report(pipeline.open_study(folder))
    print(report.deviations)
    found = verify(pipeline.open_study(folder), VerifyRequest(regrade=True), lambda *a: None)
    print(found)
    assert found.holds
