"""`dosimeter lint`: every error of a study file at once, by line, and nothing else is done."""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from study.main import main
from study.steps.lint.lint import Finding, lint_study
from tests.cases import cases
from tests.study.conftest import PILOT

SERVER = "    base_url: http://127.0.0.1:8000/v1\n"
WAVE = "  - [honest, remote]\n"
TARGET = "plan: {target_gap: 0.6}"
GOOD = f"{PILOT}prices: prices.yaml\n{TARGET}\n".replace(
    SERVER, f"{SERVER}    api_key_env: PILOT_KEY\n    retention: none\n"
)
PRICES = cases(__file__, "prices")
KEY = {"PILOT_KEY": "secret"}


def lint(folder: Path, text: str, environment: dict[str, str] = KEY) -> list[Finding]:
    (folder / "study.yaml").write_text(text)
    if "prices:" in text:
        (folder / "prices.yaml").write_text(PRICES)
    return lint_study(folder / "study.yaml", environment, lambda *step: None)


def lines(findings: list[Finding], level: str = "error") -> list[tuple[int, str]]:
    return [(finding.line, finding.key) for finding in findings if finding.level == level]


def test_a_good_file_has_no_findings(tmp_path: Path) -> None:
    assert lint(tmp_path, GOOD) == []


def test_errors_within_sections_are_reported_together(tmp_path: Path) -> None:
    text = (
        GOOD.replace("seeds_per_arm: 8", "seeds_per_arm: eight")
        .replace("error_rate: 0.2", "error_rate: 2")
        .replace("api_key_env", "api_key_environment")
        .replace("{family: count_circles, difficulty: easy}", "count_circles")
        .replace(TARGET, "plan: {alpha: 3, presett: basic-v1}")
    )
    assert lines(lint(tmp_path, text)) == list(map(tuple, cases(__file__, "lines")))


def test_errors_between_sections_are_reported_together(tmp_path: Path) -> None:
    text = (
        GOOD.replace("family: compute_average", "family: compute_averag")
        .replace("  - [honest]\n", "  - [honset]\n")
        .replace("- [honest, remote]", "- {models: [honest, remote], tranches: 3}")
        .replace(TARGET, "budget: {models: {remot: 3}}\nplan: {study_alpha: 0.02}")
    )
    assert lines(lint(tmp_path, text)) == list(map(tuple, cases(__file__, "more_lines")))


def test_a_problem_is_reported_once_where_it_starts(tmp_path: Path) -> None:
    findings = lint(tmp_path, GOOD.replace("  - [honest]\n", "  - {model: [honest]}\n"))
    assert [finding.message for finding in findings] == [
        "unknown key; did you mean 'models'?",
        "the key 'models' is missing",
    ]


@pytest.mark.parametrize(("changes", "environment", "line", "words"), cases(__file__, "warnings"))
def test_what_can_still_be_mended_is_a_warning(
    tmp_path: Path, changes: list[list[str]], environment: dict[str, str], line: int, words: str
) -> None:
    text = reduce(lambda made, change: made.replace(*change), changes, GOOD)
    findings = lint(tmp_path, text, environment)
    assert [(finding.level, finding.line) for finding in findings] == [("warning", line)]
    assert words in findings[0].message


def test_a_key_of_the_environment_is_not_printed(tmp_path: Path) -> None:
    findings = lint(tmp_path, GOOD, {"PILOT_KEY": "sécret-key"})
    assert [finding.level for finding in findings] == ["warning"]
    assert "cret" not in str(findings[0])


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["lint", *arguments], env=KEY)


def test_the_command_prints_all_and_writes_nothing(tmp_path: Path) -> None:
    lint(tmp_path, GOOD)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    good = run("--study", str(tmp_path))
    assert good.exit_code == 0, good.output
    assert good.output == f"{tmp_path}/study.yaml: no errors\n"
    other = tmp_path / "other.yaml"
    other.write_text(GOOD.replace("seeds_per_arm: 8", "seeds_per_arm: 0\nreplicate: 2"))
    bad = run(str(other))
    assert bad.exit_code == 2
    assert bad.output == (
        f"{other}:5: seeds_per_arm: 0: a number from 1 on is right\n"
        f"{other}:6: replicate: unknown key; did you mean 'replicates'?\n"
        f"{other}: 2 errors\n"
    )
    other.unlink()
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_findings_as_json(tmp_path: Path) -> None:
    lint(tmp_path, GOOD + "entropy: dice\n")
    result = run(str(tmp_path), "--json")
    assert result.exit_code == 2
    assert json.loads(result.output) == [
        {
            "level": "error",
            "file": f"{tmp_path}/study.yaml",
            "line": 19,
            "key": "entropy",
            "message": "'system', or 'fixed:' and 64 hexadecimal digits for a demonstration "
            "(found 'dice')",
        }
    ]


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    result = run(str(tmp_path / "absent"))
    assert result.exit_code == 2
    assert result.output.startswith("dosimeter: ")
    assert "no such file" in result.output
