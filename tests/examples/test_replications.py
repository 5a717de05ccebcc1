"""The replications give what docs/replications.md says."""

from __future__ import annotations

import json

import pytest

from examples.replications.run import run

DEEPSEEK = ("DSCoder", "OC-DS", "MagiCoderS-DS", "WCoder-33B")  # models that are based on it


def verdicts(name: str, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    run(name, "--json")
    return {row["model"]: row["verdict"] for row in json.loads(capsys.readouterr().out)["models"]}


def test_models_based_on_deepseek_coder_stand_out_on_older_problems(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = verdicts("livecodebench", capsys)
    beyond = {model for model, word in found.items() if word.startswith("beyond")}
    assert len(found) == 21
    assert "contaminated" not in found.values()
    assert {"DSCoder-33b-Base", "DSCoder-6.7b-Base", "WCoder-33B-V1.1", "OC-DS-33B"} <= beyond
    assert beyond <= {m for m in found if m.startswith(DEEPSEEK)} | {"CodeQwen15-7B"}


@pytest.mark.parametrize("name", ["mmlu-cf", "mmlu-cf-0-shot"])
def test_no_model_stands_out_on_mmlu_cf(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = verdicts(name, capsys)
    assert len(found) == 44
    assert {*found.values()} == {"no inflation of the published instances above the margin"}
