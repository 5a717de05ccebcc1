"""The command line: help with examples, one clear error, and the exit codes of the reference."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from study.errors import StudyError
from study.files import safe_place
from study.steps import pipeline
from study.steps.init.folder import init_study
from tests.cases import cases
from tests.study.cli.program import commands, refusal, run
from tests.study.conftest import SMALLNESS, TINY, draw_tiny, make_study

README = Path(__file__).resolve().parents[3] / "README.md"
COMMANDS = README.parent / "docs/reference/cli.md"
SEED = "5e" * 32
DRAWN = ["announcement", "sealed-set", "preregistration", "study-files"]


def test_verbose_logs_to_stderr_and_names_no_seed_instance_or_key(tmp_path: Path) -> None:
    init_study(tmp_path / "study", TINY)
    folder = str(tmp_path / "study")
    draw = ("register", "--draw", "--study", folder, "--underpowered", SMALLNESS)
    assert "ledger" not in run(*draw).stderr
    quiet, verbose = (run(*flags, "log", "--study", folder) for flags in ((), ("-v",)))
    assert verbose.stdout == quiet.stdout
    assert "INFO study.workspace.address: study tiny in" in verbose.stderr
    declared = ("declare", "--study", folder, "--tranche", "0", "--reason", "a test")
    logs = run("-vv", "leak", *declared).stderr
    logs += run("-vv", "status", "--study", folder).stderr
    study = pipeline.open_study(tmp_path / "study")
    private = [value for e in study.entries() for value in (e.seed, e.nonce, e.instance)]
    private += study.identities()
    assert "INFO study.workspace.address: study tiny in " in logs
    assert not [value for value in private if value in logs]


@pytest.mark.parametrize("path", [words for words, _ in commands()], ids=" ".join)
def test_every_command_has_help_and_an_example(path: tuple[str, ...]) -> None:
    result = run(*path, "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout
    assert f"dosimeter {' '.join(path)}" in result.stdout


@pytest.mark.parametrize("path", [words for words, _ in commands()], ids=" ".join)
def test_every_command_is_documented(path: tuple[str, ...]) -> None:
    assert f"`{' '.join(path)}`" in COMMANDS.read_text(encoding="utf-8")


def test_what_init_writes_is_as_short_as_the_readme_says(tmp_path: Path) -> None:
    init_study(tmp_path / "my-study")
    written = (tmp_path / "my-study" / "study.yaml").read_text(encoding="utf-8")
    bare = [line for line in written.splitlines() if line.strip() and line.lstrip()[0] != "#"]
    assert len(bare) == 13
    assert "a `study.yaml` of thirteen lines" in README.read_text(encoding="utf-8")


def test_help_loads_nothing_heavy() -> None:
    code = cases(__file__, "loaded")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("loaded: []")


def test_init_writes_a_study_and_never_over_one(tmp_path: Path) -> None:
    assert run("init", str(tmp_path / "new")).exit_code == 0
    assert pipeline.open_study(tmp_path / "new").protocol.name == "new"
    assert (tmp_path / "new" / "keys" / "study.txt").stat().st_mode & 0o777 == 0o600
    assert "there already" in refusal("init", str(tmp_path / "new"))


def test_register_writes_the_plan_for_a_public_registry(tmp_path: Path) -> None:
    init_study(tmp_path, TINY)
    study = pipeline.open_study(tmp_path)
    draw_tiny(study)
    path = tmp_path / "registration.json"
    assert not path.exists()
    result = run("register", "--study", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert str(path) in result.output
    text = path.read_text()
    fields = {field["name"]: field["answer"] for field in json.loads(text)["fields"]}
    assert study.sealed_set().root in fields["Randomization"]
    for entry in study.entries():
        assert entry.instance not in text
        assert entry.seed not in text
    path.unlink()
    pipeline.register(study)
    assert path.read_text() == text


def test_register_draws_what_is_not_drawn_and_nothing_without_an_engine(tmp_path: Path) -> None:
    docker = TINY.replace("{kind: local}", "{kind: docker, image: 'no-such-image:1'}")
    init_study(tmp_path / "docker", docker)
    refusal("register", "--study", str(tmp_path / "docker"), "--underpowered", SMALLNESS)
    assert pipeline.open_study(tmp_path / "docker").ledger.entries() == ()

    init_study(tmp_path / "local", TINY)
    command = ["register", "--study", str(tmp_path / "local"), "--underpowered", SMALLNESS]
    result = run(*command, "--json")
    assert result.exit_code == 0, result.output
    study = pipeline.open_study(tmp_path / "local")
    assert [entry.kind for entry in study.ledger.entries()] == DRAWN
    assert f"drawn: 4 seeds in 1 stratum, Merkle root {study.sealed_set().root}" in result.stderr
    assert json.loads(result.stdout)["sealed_root"] == study.sealed_set().root
    assert "drawn:" not in run(*command).output, "only once"


def test_a_dirty_tree_is_refused_unless_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = make_study(tmp_path / "study", TINY)
    monkeypatch.setattr("study.steps.sweep.manifests.CHECKOUT", tmp_path)  # no repository at all
    message = refusal("sweep", "--wave", "0", "--study", str(tmp_path / "study"), code=3)
    assert "--allow-dirty" in message
    assert "dirty" in message
    assert [entry.kind for entry in study.ledger.entries()] == DRAWN


def test_a_missing_image_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    init_study(tmp_path, TINY.replace("{kind: local}", "{kind: docker, image: 'no-such-image:1'}"))
    draw_tiny(pipeline.open_study(tmp_path))
    message = refusal("register", "--study", str(tmp_path))
    assert "no-such-image:1" in message or "Docker" in message


def test_a_corrupted_ledger_is_named_by_every_step(tmp_path: Path) -> None:
    init_study(tmp_path, TINY)
    draw_tiny(pipeline.open_study(tmp_path))
    record = tmp_path / "store" / "ledger" / "00000001.json"
    record.chmod(0o644)
    record.write_bytes(record.read_bytes().replace(b'"count":4', b'"count": 4'))
    for step in (["register"], ["status"], ["log"]):
        assert "ledger/00000001.json" in refusal(*step, "--study", str(tmp_path), code=3)


def test_a_full_store_is_one_clear_error_and_nothing_half_written(
    tmp_path: Path, small_disk: Path
) -> None:
    init_study(tmp_path / "study", TINY + f"store: {small_disk}\n")
    (small_disk / "filler").write_bytes(b"x" * 258_000)  # all but one page
    draw = ("register", "--draw", "--study", str(tmp_path / "study"), "--underpowered", SMALLNESS)
    message = refusal(*draw)
    assert str(small_disk) in message
    assert "space" in message or "full" in message
    assert not list((small_disk / "ledger").glob("*.json"))
    (small_disk / "filler").unlink()
    assert run(*draw).exit_code == 0


def test_a_full_disk_beside_the_store_is_one_clear_error(tmp_path: Path, small_disk: Path) -> None:
    init_study(small_disk / "study", TINY + f"store: {tmp_path / 'store'}\n")
    study = pipeline.open_study(small_disk / "study")
    draw_tiny(study)
    filler = small_disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 1024)
    message = refusal("register", "--study", str(study.folder))
    assert f"{study.folder}/registration.json: No space left on device" in message
    filler.unlink()
    assert run("register", "--study", str(study.folder)).exit_code == 0
    assert (study.folder / "registration.json").is_file()


def test_a_read_only_store_is_one_clear_error(tmp_path: Path, small_disk: Path) -> None:
    init_study(tmp_path / "study", TINY + f"store: {small_disk}\n")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    message = refusal(
        "register", "--draw", "--study", str(tmp_path / "study"), "--underpowered", SMALLNESS
    )
    assert str(small_disk) in message
    assert "read-only" in message.lower()


def test_tasks_make_writes_what_an_agent_sees_and_the_key_only_if_asked(tmp_path: Path) -> None:
    blind, open_ = tmp_path / "blind", tmp_path / "open"
    arguments = ("tasks", "make", "compute_average/hard", "--seed", SEED)
    assert run(*arguments, "--out", str(blind)).exit_code == 0
    assert run(*arguments, "--out", str(open_), "--with-truth").exit_code == 0
    assert {path.name for path in blind.iterdir()} == {"prompt.md", "answer-schema.json", "inputs"}
    assert json.loads((open_ / "truth.json").read_text())["answer"]["task"] == "compute_average"
    inputs = "inputs/input_numbers.txt"
    assert (blind / inputs).read_bytes() == (open_ / inputs).read_bytes()


@pytest.mark.parametrize(("task", "seed", "words"), cases(__file__, "not_made"))
def test_tasks_make_refuses_what_there_is_not(
    tmp_path: Path, task: str, seed: str, words: str
) -> None:
    arguments = ("tasks", "make", task, "--seed", seed)
    assert words in refusal(*arguments, "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_tasks_make_never_writes_over_a_folder(tmp_path: Path) -> None:
    message = refusal("tasks", "make", "compute_average", "--seed", SEED, "--out", str(tmp_path))
    assert str(tmp_path) in message


def test_tasks_make_says_where_it_may_not_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = str(tmp_path / "file" / "out")
    message = refusal("tasks", "make", "compute_average", "--seed", SEED, "--out", place)
    assert place in message
    assert "a folder that you may write" in message


def test_tasks_make_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("study.extras.tasks.command._write_truth", lambda *given: 1 / 0)
    result = run(
        *("tasks", "make", "compute_average", "--seed", SEED),
        *("--out", str(tmp_path / "out"), "--with-truth"),
    )
    assert isinstance(result.exception, ZeroDivisionError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["/etc/passwd", "../up.csv", "a/../../up", ""])
def test_an_input_file_never_leaves_its_folder(path: str) -> None:
    with pytest.raises(StudyError, match="must lie in the work folder"):
        safe_place(path)


def test_tasks_show_fits_a_screen_and_hides_nothing_from_a_script() -> None:
    shown = run("tasks", "show", "count_circles/hard").stdout
    assert "and 12 more" in shown
    assert "single-turn form: about" in shown
    assert shown.count("The answer states that") == 5
    full = json.loads(run("tasks", "show", "count_circles/hard", "--json").stdout)
    assert len(full["rubric"]) == 39
    assert len(full["files"]) == 32


def test_tasks_list_and_show_name_every_family() -> None:
    names = [record["name"] for record in json.loads(run("tasks", "list", "--json").stdout)]
    assert {"count_circles", "compute_average"} <= set(names)
    for name in names:
        shown = json.loads(run("tasks", "show", name, "--json").stdout)
        assert shown["prompt"]
        assert shown["rubric"]
