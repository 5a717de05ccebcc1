"""What is promised is promised once, whoever dies or comes second, and at any moment."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from analysis.plan.presets import standard_plan
from generators.grading.answer import Answer
from generators.grading.checks import NumberWithin
from generators.seed import Seed
from generators.task import TaskInstance
from harness.agent.rules import rules_digest
from harness.sweep.run_cell import run_cell
from harness.sweep.workbench import Workbench
from registry.errors import BrokenPromise
from registry.ledger.records import ModelPin, RunManifest
from registry.provenance import utc_now
from registry.result_row import Arm
from registry.verify.verify import verify_study
from study.main import main
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.report.look import drift_of, report_study
from study.steps.sweep.sweep import (
    SweepRequest,
    begin_wave,
    close_wave,
    context_of,
    find_finished,
    sweep_wave,
)
from study.workspace.setup import NO_IMAGE, registration_of
from study.workspace.snapshot import WaveSnapshot, cells_of, take_snapshot
from study.workspace.study import Study, closing_manifest, manifests_of
from tests.cases import cases
from tests.study.conftest import SMALLNESS, TINY, make_study

NOW = "2026-11-01T12:00:00Z"
WHOLE = cases(__file__, "whole")


@pytest.fixture
def registered(tmp_path: Path) -> Study:
    study = make_study(tmp_path / "study", TINY)
    return study


def begin(
    study: Study, now: Callable[[], str] = lambda: NOW, allow_dirty: bool = True
) -> RunManifest:
    request = SweepRequest(0, allow_dirty=allow_dirty)
    return begin_wave(study, request, NO_IMAGE, now)


def run_cells(study: Study, manifest: RunManifest, count: int | None = None) -> None:
    """What workers do, without Ray."""
    bench = Workbench.open(context_of(study, manifest, NO_IMAGE, 1))
    for cell in cells_of(study, manifest)[:count]:
        assert run_cell(cell, bench, utc_now).finished
    bench.close()


def close(study: Study, manifest: RunManifest, now: Callable[[], str] = lambda: NOW) -> object:
    context = context_of(study, manifest, NO_IMAGE, 1)
    return close_wave(study, context, manifest, *find_finished(study, manifest), now)


def kinds(study: Study) -> list[str]:
    return [entry.kind for entry in study.ledger.entries()]


def test_two_sweeps_that_begin_a_wave_at_once_share_one_run_key(registered: Study) -> None:
    other = pipeline.open_study(registered.folder)
    won: list[RunManifest] = []

    def between() -> str:
        """Between the one's look at the ledger and its record, the other begins the wave."""
        won.append(begin(other))
        return NOW

    lost = begin(registered, between)
    assert lost == won[0]
    assert len(manifests_of(registered.ledger, 0)) == 1
    run_cells(other, won[0], 1)
    run_cells(registered, lost)  # reads what the other wrote
    close(registered, lost)
    assert verify_study(registered.store, registered.identities()).holds


def test_a_wave_is_closed_once(registered: Study) -> None:
    manifest = begin(registered)
    run_cells(registered, manifest)
    first: list[object] = []

    def between() -> str:
        first.append(close(pipeline.open_study(registered.folder), manifest))
        return NOW

    assert close(registered, manifest, between) == first[0]
    assert kinds(registered).count("wave-closed") == 1


def test_a_wave_is_swept_by_one_at_a_time(registered: Study) -> None:
    """The second is told so, and buys nothing."""
    script = (
        "import fcntl, sys, time; file = open(sys.argv[1], 'w');"
        "fcntl.flock(file, fcntl.LOCK_EX); print('held', flush=True); time.sleep(60)"
    )
    lock = registered.folder / ".sweep-0.lock"
    holder = subprocess.Popen([sys.executable, "-c", script, str(lock)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    arguments = ["sweep", "--wave", "0", "--allow-dirty", "--study", str(registered.folder)]
    result = CliRunner().invoke(main, arguments)
    with holder:  # its pipe is closed, too
        holder.kill()
    assert result.exit_code == 2
    assert "another sweep of wave 0" in result.stderr
    assert kinds(registered) == WHOLE[:4]
    manifest = begin(registered)
    run_cells(registered, manifest)
    outcome = sweep_wave(
        registered, SweepRequest(0, allow_dirty=True), lambda progress: None, utc_now
    )
    assert outcome.closed is not None, "the lock of the dead holds nobody up"


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=x", "-c", "user.email=x@x")
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one commit that stands for the checkout."""
    folder = tmp_path / "tree"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "one")
    for module in ("study.steps.sweep.manifests", "study.workspace.setup"):
        monkeypatch.setattr(f"{module}.CHECKOUT", folder)
    return folder


def test_a_wave_goes_on_at_another_commit_and_the_report_states_it(
    tree: Path, tmp_path: Path
) -> None:
    study = make_study(tmp_path / "study", TINY)
    first = begin(study, allow_dirty=False)
    run_cells(study, first, 2)
    git(tree, "commit", "-q", "--allow-empty", "-m", "two")
    second = begin(study, allow_dirty=False)
    assert (second.run_key, second.schedule_seed) == (first.run_key, first.schedule_seed)
    assert second.provenance.commit != first.provenance.commit
    run_cells(study, second, 3)
    (tree / "requirements.lock").write_text("numpy==9\n")
    with pytest.raises(BrokenPromise, match=r"dirty tree: .* --allow-dirty"):
        begin(study, allow_dirty=False)
    assert manifests_of(study.ledger, 0) == (first, second)
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "three")
    third = begin(study, allow_dirty=False)
    run_cells(study, third)
    close(study, third)
    report, _ = report_study(study, None, NOW)
    told = [words for words in report.deviations if "another harness" in words]
    assert len(told) == 2, report.deviations
    for words, manifest in zip(told, (second, third), strict=True):
        assert (
            f"other commit: {manifest.provenance.commit}, registered {first.provenance.commit}"
            in words
        )
        assert words.endswith("; nothing bridges it.")
    assert "other lock" not in told[0]
    assert f"other lock: {third.provenance.lock}, registered missing" in told[1]
    assert verify_study(study.store, study.identities()).holds


def test_a_name_stands_for_one_model_in_all_waves(tmp_path: Path) -> None:
    text = TINY.replace("  - [honest]\n", "  - [honest]\n  - [honest]\n")
    study = make_study(tmp_path / "study", text)
    begin_wave(study, SweepRequest(0, allow_dirty=True), NO_IMAGE, utc_now)
    path = study.folder / "study.yaml"
    path.write_text(text.replace("error_rate: 0.3", "error_rate: 0.4"))
    later = SweepRequest(1, allow_dirty=True)
    with pytest.raises(
        BrokenPromise, match=r"'honest' ran in wave 0 with another .* name of its own"
    ):
        begin_wave(pipeline.open_study(study.folder), later, NO_IMAGE, utc_now)
    path.write_text(text)
    begin_wave(pipeline.open_study(study.folder), later, NO_IMAGE, utc_now)


@pytest.mark.parametrize(("models", "words"), cases(__file__, "bridges"))
def test_the_models_that_bridge_another_harness_are_named(
    registered: Study, models: str, words: str
) -> None:
    registration, manifest = registration_of(registered), begin(registered)
    code = replace(registration.provenance, dirty=False)
    rules = {"pre_exposure": ["old-0", "old-1", "old-2"], "frozen": ["old-0"]}
    plan = standard_plan(registration.plan.strata, 2, **rules)
    pins = tuple(ModelPin(name, "local", "smollm2") for name in models.split())
    later = replace(manifest, models=pins, provenance=replace(code, image="sha256:" + "1" * 64))
    wave = WaveSnapshot(take_snapshot(registered), 1, (later,), None)
    (line,) = drift_of(replace(registration, plan=plan, provenance=code), [wave])
    assert line.startswith("Wave 1 ran with another harness than registered (other image: sha256:1")
    assert line.endswith(words)


def test_another_address_of_a_model_is_a_deviation(registered: Study) -> None:
    """A server of one's own may move; its frozen model, run again, bridges it."""
    registration, manifest = registration_of(registered), begin(registered)
    code = replace(registration.provenance, dirty=False)

    def wave(number: int, url: str) -> WaveSnapshot:
        pin = ModelPin("old", "openai", "v1", (("base_url", json.dumps(url)),))
        moved = replace(manifest, wave=number, models=(pin,), provenance=code)
        return WaveSnapshot(take_snapshot(registered), number, (moved,), None)

    same = [wave(0, "http://a/v1"), wave(1, "http://a/v1")]
    assert drift_of(registration, same) == ()
    within = replace(same[1], manifests=(*same[1].manifests, *wave(1, "http://b/v1").manifests))
    assert drift_of(registration, [same[0], within])[0].startswith("Wave 1 ran old at http://b/v1")
    (line,) = drift_of(registration, [*same, wave(2, "http://b/v1")])
    assert line == "Wave 2 ran old at http://b/v1, and earlier at http://a/v1."


def test_other_rules_of_the_agent_loop_are_a_deviation(registered: Study) -> None:
    registration, manifest = registration_of(registered), begin(registered)
    code = replace(registration.provenance, dirty=False)
    assert manifest.agent_rules == rules_digest()

    def wave(number: int, rules: str) -> WaveSnapshot:
        later = replace(manifest, wave=number, agent_rules=rules, provenance=code)
        return WaveSnapshot(take_snapshot(registered), number, (later,), None)

    same = [wave(0, rules_digest()), wave(1, rules_digest())]
    assert drift_of(registration, same) == ()
    (line,) = drift_of(registration, [*same, wave(2, "sha256:" + "1" * 64)])
    assert line.startswith("Wave 2 ran with other prompts, tools or caps of the agent loop")


def test_no_wave_is_begun_on_instances_that_are_generated_otherwise(
    registered: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change of one answer key, of one stratum, in the private arm."""
    drawn = next(e for e in registered.entries() if e.arm is Arm.PRIVATE)
    catalog = registered.protocol.catalog
    family = type(catalog.family(drawn.family, drawn.version))
    whole = family.generate

    def altered(self: object, difficulty: str, seed: Seed) -> TaskInstance:
        instance = whole(self, difficulty, seed)
        if seed.hex != drawn.seed:
            return instance
        return replace(instance, id="sha256:" + "0" * 64)

    monkeypatch.setattr(family, "generate", altered)
    with pytest.raises(BrokenPromise, match=r"wave 0 is not begun: .* otherwise than it was drawn"):
        begin(registered)
    assert "run-manifest" not in kinds(registered)
    monkeypatch.undo()
    begin(registered)
    assert "run-manifest" in kinds(registered)


def test_no_wave_is_begun_when_answers_are_graded_otherwise(
    registered: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later version that is a little more generous with numbers; no instance differs."""
    whole = NumberWithin.passes

    def generous(check: NumberWithin, answer: Answer) -> bool:
        room = 0.5 * abs(check.high) + 1
        return whole(replace(check, low=check.low - room, high=check.high + room), answer)

    monkeypatch.setattr(NumberWithin, "passes", generous)
    with pytest.raises(BrokenPromise, match="graded otherwise than when the plan was registered"):
        begin(registered)
    monkeypatch.undo()
    begin(registered)


def test_a_report_shows_the_run_that_the_close_names(registered: Study) -> None:
    """And not a manifest that somebody added while the wave was being closed."""
    manifest = begin(registered)
    run_cells(registered, manifest)
    later = replace(manifest, provenance=replace(manifest.provenance, commit="later"))
    registered.ledger.append(later, NOW)
    close(registered, manifest)
    closed = registered.ledger.last("wave-closed")
    assert closed is not None
    assert closing_manifest(registered.ledger, closed.record) == manifest
    report, _ = report_study(registered, None, NOW)
    assert report.runs == (manifest,)
    assert any("later" in words for words in report.deviations), "but it is told of"


def test_the_same_look_within_a_second_is_one_look(registered: Study) -> None:
    manifest = begin(registered)
    run_cells(registered, manifest)
    close(registered, manifest)
    later = "2099-01-01T00:00:00Z"  # than the records before: no record is dated before the last
    for _ in range(3):
        report_study(registered, None, later)
    assert kinds(registered).count("report") == 1


def test_a_begun_wave_keeps_its_sandbox(registered: Study) -> None:
    manifest = begin(registered)
    path = registered.folder / "study.yaml"
    path.write_text(path.read_text().replace("{kind: local}", "{kind: local, runtime: runsc}"))
    with pytest.raises(BrokenPromise, match="sandbox"):
        begin(pipeline.open_study(registered.folder))
    assert manifests_of(registered.ledger, 0) == (manifest,)


def begin_and_close(study: Study) -> object:
    manifest = begin(study)
    run_cells(study, manifest)
    return close(study, manifest)


def test_what_is_recorded_needs_the_key_that_signs_and_what_is_read_none(tmp_path: Path) -> None:
    key = tmp_path / "study" / "keys" / "study.txt"
    elsewhere = tmp_path / "elsewhere.txt"
    init_study(tmp_path / "study", TINY)

    def step(name: str, *options: str) -> Result:
        return CliRunner().invoke(main, [name, *options, "--study", str(tmp_path / "study")])

    key.rename(elsewhere)
    refused = step("register", "--draw", "--underpowered", SMALLNESS)
    assert (refused.exit_code, "keys/study.txt" in refused.stderr) == (2, True)
    study = pipeline.open_study(tmp_path / "study")
    assert kinds(study) == []
    for name in ("draw", "register"):
        elsewhere.rename(key)
        options = ("--draw", "--underpowered", SMALLNESS) if name == "draw" else ()
        assert step("register", *options).exit_code == 0
        key.rename(elsewhere)
    for name in ("status", "verify", "log"):
        assert step(name).exit_code == 0
    refused = CliRunner().invoke(
        main, ["sweep", "--wave", "0", "--allow-dirty", "--study", str(study.folder)]
    )
    assert refused.exit_code == 2
    assert "keys/study.txt" in refused.stderr
    assert kinds(study) == WHOLE[:4]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOSIMETER_KEY_FILE", str(elsewhere))
        assert len(study.entries()) == 4
        begin_and_close(study)
        assert verify_study(study.store, study.identities()).holds
