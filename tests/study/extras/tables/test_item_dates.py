"""``dosimeter analyze`` on tables by time: each model has arms by its own cut-off."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from analysis.data.import_file import read_graded_file, read_result_file
from analysis.data.item_dates import own_arms
from analysis.errors import AnalysisError
from analysis.plan.comparison import adjust_over_models
from analysis.plan.verdict import BEYOND, NOT_COMPARABLE, WITHIN, Verdict, Word
from study.main import main

FIRST = date(2024, 1, 1)
HEAD = "model,stratum,instance,score,item_date,cutoff"
OLD = [f"old-{n}" for n in range(8)]


def days(path: Path, models: dict[str, tuple[int, float]], n: int = 120) -> Path:
    """An item a day, of the same difficulties for all; a model has a cut-off, counted in days, and
    knows a share of what lies before it."""
    rng = np.random.default_rng(5)
    hard, rows = rng.standard_normal(n), [HEAD]
    for place, (model, (cutoff, known)) in enumerate(models.items()):
        ability = (place - 3.5) / 2 if model in OLD else 0.0
        right = rng.random(n) < 1 / (1 + np.exp(hard - ability))
        right |= (np.arange(n) < cutoff) & (rng.random(n) < known)
        day = FIRST + timedelta(cutoff)
        cells = (f"s,{i},{int(right[i])},{FIRST + timedelta(i)},{day}" for i in range(n))
        rows += [f"{model},{cell}" for cell in cells]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def analyze(path: Path, *options: str) -> dict[str, Any]:
    controls = [f"--pre-exposure={name}" for name in OLD]
    arguments = ["analyze", str(path), "--json", "--allocation=time", *controls, *options]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.stderr
    body: dict[str, Any] = json.loads(result.stdout)
    return body


def test_each_model_is_held_against_controls_on_its_own_arms(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("preset: standard-v1\npermutations: 199\nsensitivity: []\n", encoding="utf-8")
    new = {"told": (70, 0.9), "clean": (50, 0.0)}
    table = days(tmp_path / "t.csv", dict.fromkeys(OLD, (-9, 0.0)) | new)
    body = analyze(table, f"--plan={plan}", f"--out={tmp_path / 'report'}")
    found = {row["model"]: row for row in body["models"]}
    assert {model: row["verdict"] for model, row in found.items()} == {
        "told": BEYOND,
        "clean": WITHIN,
    }
    sizes = {model: (row["n_public"], row["n_private"]) for model, row in found.items()}
    assert sizes == {"told": (70, 49), "clean": (50, 69)}, "the day itself is in neither arm"
    assert found["told"]["p_adjusted"] == pytest.approx(2 * found["told"]["p"])
    assert any("by its own cut-off" in line for line in body["deviations"])
    assert json.loads((tmp_path / "report" / "report.json").read_text("utf-8")) == body
    one = days(tmp_path / "one.csv", dict.fromkeys(OLD, (-9, 0.0)) | {"told": new["told"]})
    assert analyze(one, f"--plan={plan}")["controls"], "of one model there is the whole report"


def test_what_lies_between_cutoff_and_release_is_in_neither_arm(tmp_path: Path) -> None:
    path = days(tmp_path / "t.csv", {"old": (-1, 0), "new": (10, 0)}, n=40)
    lines = path.read_text("utf-8").splitlines()
    dated = [f"{lines[0]},released"] + [f"{line},2024-01-21" for line in lines[1:]]
    path.write_text("\n".join(dated) + "\n", encoding="utf-8")
    read = read_graded_file(path)
    assert read.item_dates is not None
    table = own_arms(read.item_dates, read.table, "new", ["old"], path)
    arms = {*zip(table["instance"], table["arm"], strict=True)}
    assert {int(i) for i, arm in arms if arm == "public"} == {*range(10)}
    assert {int(i) for i, arm in arms if arm == "private"} == {*range(21, 40)}
    with pytest.raises(AnalysisError, match="no column arm"):
        read_result_file(path)


def test_a_word_that_holms_method_does_not_carry_is_taken_back() -> None:
    def verdict(model: str, word: Word, p: float) -> Verdict:
        return Verdict(
            model=model,
            wave=0,
            verdict=word,
            p=p,
            p_adjusted=p,
            n_public=9,
            n_private=9,
            alpha=0.025,
        )

    given = [
        verdict("a", BEYOND, 0.001),
        verdict("b", BEYOND, 0.02),
        verdict("c", NOT_COMPARABLE, 0.9),
    ]
    found = [*adjust_over_models(given, 0.025)]
    assert [v.verdict for v in found] == [BEYOND, WITHIN, NOT_COMPARABLE]
    assert [v.p_adjusted for v in found] == pytest.approx([0.003, 0.04, 0.9])


def test_the_option_and_the_column_are_one_statement(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"m,{arm},s,{arm}{i},{i % 2}" for arm in ("public", "private") for i in range(9)]
    path.write_text("\n".join(("model,arm,stratum,instance,score", *rows)), encoding="utf-8")
    for how, word in (("random", "inconclusive"), ("authored", "an estimate without a verdict")):
        result = CliRunner().invoke(main, ["analyze", str(path), "--json", "--allocation", how])
        assert [row["verdict"] for row in json.loads(result.stdout)["models"]] == [word]
    counts = tmp_path / "counts.csv"
    counts.write_text("model,arm,stratum,k,n\nm,public,s,9,9\nm,private,s,1,9\n", encoding="utf-8")
    result = CliRunner().invoke(main, ["analyze", str(counts), "--json", "--allocation", "unknown"])
    assert json.loads(result.stdout)["allocation"] == "unknown"
