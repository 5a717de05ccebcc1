"""One scripted run from seed to verdict: what was promised is kept at every step."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from registry.result_row import Arm
from registry.verify.verify import verify_study
from study.main import main
from study.steps import pipeline
from study.steps.sweep.sweep import SweepRequest
from study.workspace.study import Study
from tests.cases import cases


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def copied(finished: Study, tmp_path: Path) -> Path:
    """The finished study, to be tampered with."""
    folder = tmp_path / "copy"
    shutil.copytree(finished.folder, folder)
    return folder


def test_the_spiked_model_is_found_and_the_honest_one_is_not(finished: Study) -> None:
    report = json.loads(run("report", "--study", str(finished.folder), "--json").stdout)
    verdicts = {(row["model"], row["wave"]): row for row in report["models"]}
    assert verdicts.keys() == {("honest", 1), ("spiked", 1)}
    assert [(row["model"], row["wave"]) for row in report["before_publication"]] == [("honest", 0)]
    assert verdicts["spiked", 1]["verdict"] == "contaminated"
    assert verdicts["spiked", 1]["estimate"] > 0.3
    assert verdicts["honest", 1]["verdict"] != "contaminated"
    for row in verdicts.values():
        assert row["n_public"] == row["n_private"] == 12
        assert row["interval"][0] <= row["estimate"] <= row["interval"][1]
        assert 0 < row["p"] <= row["p_adjusted"] <= 1
    assert any("fixed entropy" in deviation for deviation in report["deviations"])


def test_a_report_without_a_verdict_names_the_steps_to_one(copied: Path) -> None:
    shown = run("report", "--through", "0", "--study", str(copied)).stdout
    assert "Before publication: no verdicts" in shown
    assert "note: verdicts need a wave" in shown
    assert "`dosimeter publish`" in shown
    assert "note: verdicts need" not in run("report", "--study", str(copied)).stdout


def test_publish_and_report_count_the_instances_that_they_check(copied: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    study = pipeline.open_study(copied)
    pipeline.publish(study, None, lambda *step: steps.append(step))
    pipeline.report(study, None, lambda *step: steps.append(step))
    drawn = len(study.entries())
    for step, of in (
        ("building the release, by instance", drawn // 2),
        ("checking it for leaks, by instance", drawn),
        ("checking the report for leaks, by instance", drawn // 2),
    ):
        assert [shown for shown in steps if shown[0] == step] == [
            (step, done, of) for done in range(of + 1)
        ]


def test_the_ledger_tells_the_story_in_order(finished: Study) -> None:
    # Other tests look at its arms and scores.
    kinds = [entry.kind for entry in finished.ledger.entries() if entry.kind != "look"]
    assert kinds == cases(__file__, "kinds")


def test_everything_verifies_with_the_key_and_without(finished: Study) -> None:
    sealed = verify_study(finished.store)
    assert sealed.holds, sealed.problems
    assert any("no key" in left_out for left_out in sealed.unchecked)
    opened = verify_study(finished.store, finished.identities())
    assert opened.holds, opened.problems
    counts = dict(opened.counts)
    assert counts["closed waves"] == 2
    assert counts["ciphertexts opened"] >= 2 * (24 + 48)


def test_a_step_done_already_changes_nothing(finished: Study) -> None:
    before = finished.ledger.entries()
    assert not pipeline.draw(finished)[1]
    assert not pipeline.register(finished)[1]
    assert not pipeline.publish(finished, None, lambda *step: None)[1]
    outcome = pipeline.sweep(finished, SweepRequest(0, allow_dirty=True), lambda p: None)
    assert outcome.closed is not None
    assert outcome.progress is None
    pipeline.report(finished)
    assert finished.ledger.entries() == before


def test_the_same_look_gives_the_same_bytes(finished: Study) -> None:
    first = pipeline.report(finished)[1].read_bytes()
    assert pipeline.report(finished)[1].read_bytes() == first


def test_nothing_private_lies_in_the_clear(finished: Study) -> None:
    """No seed, instance id or nonce in any file of the study but the key and the release; of the
    private arm not there either."""
    key = finished.key_file.resolve()
    entries = finished.entries()
    for path in finished.folder.rglob("*"):
        if not path.is_file() or path.resolve() == key:
            continue
        data = path.read_bytes()
        released = path.is_relative_to(finished.folder / "release")
        for entry in entries:
            if released and entry.arm is Arm.PUBLIC:
                continue
            for secret in (entry.seed, entry.nonce, entry.instance.removeprefix("sha256:")):
                assert secret.encode() not in data, path
                assert bytes.fromhex(secret) not in data, path


def test_another_key_is_refused_by_name(copied: Path) -> None:
    from registry.sealing import write_identity

    key = copied / "keys" / "study.txt"
    key.unlink()
    write_identity(key)
    result = run("report", "--study", str(copied))
    assert result.exit_code == 2
    assert "key" in result.stderr
    assert "AGE-SECRET" not in result.stderr


def test_a_changed_plan_is_refused(copied: Path) -> None:
    path = copied / "study.yaml"
    path.write_text(path.read_text().replace("permutations: 1999", "permutations: 2999"))
    result = run("report", "--study", str(copied))
    assert result.exit_code == 3
    assert "permutations" in result.stderr
    assert "registered" in result.stderr


def test_a_leak_in_the_release_folder_is_refused(copied: Path) -> None:
    study = pipeline.open_study(copied)
    private = next(entry for entry in study.entries() if entry.arm is Arm.PRIVATE)
    (copied / "release" / "notes.txt").write_text(f"seed {private.seed}\n")
    result = run("publish", "--study", str(copied))
    assert result.exit_code == 2
    assert private.seed not in result.stderr


def test_a_report_before_the_plan_is_refused(tmp_path: Path) -> None:
    assert run("init", str(tmp_path)).exit_code == 0
    result = run("report", "--study", str(tmp_path))
    assert result.exit_code == 2
    assert "dosimeter register" in result.stderr
