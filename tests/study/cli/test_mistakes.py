"""Mistakes of a new user: each is refused in one line that names the place and the remedy, before
anything is promised or half written."""

from __future__ import annotations

import fcntl
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from registry.sealing import write_identity
from study.steps import pipeline
from study.steps.init.folder import init_study
from tests.study.cli.program import run
from tests.study.conftest import draw_tiny, run_wave

STUDY = """\
study: mistakes
tasks: [compute_average/easy]
seeds_per_arm: 2
models:
  old: {provider: scripted, agent: honest, error_rate: 0.1}
  new: {provider: scripted, agent: honest, error_rate: 0.2}
  paid:
    provider: openai
    model: m-1
    base_url: http://127.0.0.1:9/v1
    api_key_env: NO_SUCH_KEY
    context: 100000
    retention: none
waves:
  - [old]
  - [new]
  - {models: [paid], modes: {compute_average/easy: single_turn}}
plan: {alpha: 0.4, permutations: 199}
sandbox: {kind: local}
"""

WAVES = STUDY[STUDY.index("  - [new]") : STUDY.index("plan:")]  # all but the first


@dataclass(frozen=True)
class Mistake:
    """What a user does, in a study of some state, and what the line has to say."""

    state: str
    command: str
    words: tuple[str, ...]
    code: int = 2
    change: tuple[str, str] = ("", "")  # of study.yaml
    variables: tuple[tuple[str, str], ...] = ()
    damage: Callable[[Path], object] = lambda folder: None


def remove_key(folder: Path) -> None:
    (folder / "keys" / "study.txt").unlink()


def change_key(folder: Path) -> None:
    remove_key(folder)
    write_identity(folder / "keys" / "study.txt")


def write_prices(entry: str) -> Callable[[Path], object]:
    text = f"prices:\n  - {{{entry}}}\n"
    return lambda folder: (folder / "prices.yaml").write_text(text)


def alter_ledger(folder: Path) -> None:
    path = folder / "store" / "ledger" / "00000001.json"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b'"count":4', b'"count":5'))


LOCKS = []


def sweep_elsewhere(folder: Path) -> None:
    LOCKS.append((folder / ".sweep-0.lock").open("w"))
    fcntl.flock(LOCKS[-1], fcntl.LOCK_EX)


BUDGET = ("sandbox:", "prices: prices.yaml\nbudget: {run: 5}\nsandbox:")
NO_ENGINE = (("DOCKER_HOST", "unix:///no/such.sock"),)
KEY = (("NO_SUCH_KEY", "sk-1"),)
SWEEP = "sweep --allow-dirty --wave"

MISTAKES = {
    # --- words that there are not
    "a command misspelt": Mistake("none", "regster", ("'regster'", "'register'", "--help")),
    "a key for a study": Mistake("none", "status --study hf_AbCdEf123", ("…/study.yaml: no such",)),
    "an option misspelt": Mistake("registered", "sweep --wav 0", ("'--wav'", "'--wave'")),
    "an option left out": Mistake("registered", "sweep", ("'--wave'", "sweep --help")),
    "a word for a number": Mistake("registered", "sweep --wave one", ("'--wave'", "'one'")),
    "an address without a port": Mistake(
        "registered", f"{SWEEP} 0 --address head", ("'--address'", "'head'", "give auto, HOST:PORT")
    ),
    "an address of a web page": Mistake(
        "registered", f"{SWEEP} 0 --address http://head:8265", ("'--address'", "ray://HOST:PORT")
    ),
    "an address in study.yaml without a port": Mistake(
        "registered",
        f"{SWEEP} 0",
        ("study.yaml:19: sweep.address: 'head': auto, HOST:PORT or ray://HOST:PORT",),
        change=("sandbox:", "sweep: {address: head}\nsandbox:"),
    ),
    "a key misspelt": Mistake(
        "new",
        "register",
        ("study.yaml:3: seeds_per_am: ", "did you mean 'seeds_per_arm'"),
        change=("seeds_per_arm", "seeds_per_am"),
    ),
    "a value misspelt": Mistake(
        "new",
        "register",
        ("study.yaml:3: seeds_per_arm: 'two': a whole number is right",),
        change=("seeds_per_arm: 2", "seeds_per_arm: two"),
    ),
    "a task misspelt": Mistake(
        "new",
        "register",
        ("study.yaml:2: tasks[0].family: ", "did you mean 'compute_average'"),
        change=("[compute_average/easy]", "[compute_averages/easy]"),
    ),
    "a model misspelt": Mistake(
        "new",
        "register",
        ("study.yaml:16: waves[1][0]: ", "did you mean 'new'"),
        change=("[new]", "[nwe]"),
    ),
    "a tab in YAML": Mistake(
        "new", "register", ("study.yaml:15: not valid YAML",), change=("  - [old]", "\t- [old]")
    ),
    "a judge that there is not": Mistake(
        "registered", "judge grade --judge flash", ("'flash'", "none")
    ),
    "an episode that there is not": Mistake("swept", "show abc", ("abc", "dosimeter show")),
    "a table that there is not": Mistake("none", "analyze rows.csv", ("rows.csv: no such file",)),
    "a model for a wave that there is not": Mistake(
        "released", "wave open --models nwe", ("'nwe'", "did you mean 'new'")
    ),
    "a store of another kind": Mistake(
        "new",
        "register",
        ("study.yaml:19: store: ", "'gs'", "s3://"),
        change=("sandbox:", "store: gs://bucket/x\nsandbox:"),
    ),
    # --- steps out of order
    "no study here": Mistake("none", "status", ("study.yaml: no such file", "dosimeter init")),
    "a study here already": Mistake("new", "init", ("there already", "give another folder")),
    "swept before the draw": Mistake("new", f"{SWEEP} 0", ("run `dosimeter register` first",)),
    "swept before the registration": Mistake(
        "drawn", f"{SWEEP} 0", ("run `dosimeter register` first",)
    ),
    "published before the registration": Mistake(
        "drawn", "publish", ("run `dosimeter register` first",)
    ),
    "reported before the registration": Mistake(
        "drawn", "report", ("run `dosimeter register` first",)
    ),
    "reported before a wave": Mistake(
        "registered", "report", ("wave 0 is not closed", "run `dosimeter sweep --wave 0`")
    ),
    "reported through a wave to come": Mistake(
        "swept", "report --through 1", ("wave 1 is not closed", "run `dosimeter sweep --wave 1`")
    ),
    "a wave that is not planned": Mistake("registered", f"{SWEEP} 7", ("no wave 7", "0, 1, 2")),
    "closed before it was begun": Mistake(
        "registered", "wave close 0", ("not begun", "run `dosimeter sweep --wave 0` first")
    ),
    # --- plans that cannot answer
    "a plan with one wave": Mistake(
        "new",
        "register",
        ("study.yaml:15: waves[0][0]: 'old' runs in wave 0 alone", "name it in a later wave"),
        change=(WAVES, ""),
    ),
    "a model trained after its release": Mistake(
        "new",
        "register",
        ("study.yaml:15: models.paid.cutoff: ", "correct the date that is wrong"),
        change=(
            "retention: none",
            "retention: none\n    released: 2026-01-01\n    cutoff: 2026-02-01",
        ),
    ),
    "what a provider keeps, not stated": Mistake(
        "new",
        "register",
        ("study.yaml:7: models.paid: ", "write `retention: none`"),
        change=("    retention: none\n", ""),
    ),
    # --- what is lacking
    "no key in the environment": Mistake(
        "released", f"{SWEEP} 2", ("'paid'", "NO_SUCH_KEY is not set: export")
    ),
    "no price": Mistake(
        "released", f"{SWEEP} 2", ("'paid'", "--allow-unknown-price"), variables=KEY
    ),
    "no price under a budget": Mistake(
        "new",
        "register",
        ("study.yaml:20: budget: prices.yaml has no price of 'paid'", "state provider, model"),
        change=BUDGET,
        damage=write_prices(
            "provider: openai, model: m-2, input: 1, output: 1, date: 2026-11-01, source: a list"
        ),
    ),
    "a price misspelt": Mistake(
        "new",
        "register",
        ("prices.yaml:2: prices[0].outputs: unknown key", "known are provider"),
        change=BUDGET,
        damage=write_prices(
            "provider: openai, model: m-1, input: 1, outputs: 1, date: 2026-11-01, source: a list"
        ),
    ),
    "no price file": Mistake(
        "new", "register", ("study.yaml:19: prices: prices.yaml: No such file",), change=BUDGET
    ),
    "no engine": Mistake(
        "drawn",
        "register",
        ("no Docker engine answers", "make engine"),
        change=("kind: local", "kind: docker"),
        variables=NO_ENGINE,
    ),
    "no token of the Hub": Mistake(
        "swept",
        "publish",
        ("no Hub token: set HF_TOKEN",),
        change=("sandbox:", "release: {repository: me/mine}\nsandbox:"),
    ),
    "a lost key": Mistake(
        "swept", "report", ("keys/study.txt: No such file", "DOSIMETER_KEY_FILE"), damage=remove_key
    ),
    "another key": Mistake(
        "swept", "publish", ("not sealed to the key given", "use the key file"), damage=change_key
    ),
    "another sweep at work": Mistake(
        "registered", f"{SWEEP} 0", ("another sweep of wave 0 is at work",), damage=sweep_elsewhere
    ),
    "another folder in the way": Mistake(
        "swept",
        "publish",
        ("release: not a complete release: move it away",),
        damage=lambda folder: (folder / "release").mkdir(),
    ),
    # --- promises that no longer hold
    "seeds changed after the draw": Mistake(
        "drawn",
        "register",
        ("study.yaml:3: seeds_per_arm: here is 3, and drawn is 2: restore it",),
        code=3,
        change=("seeds_per_arm: 2", "seeds_per_arm: 3"),
    ),
    "tasks changed after the draw": Mistake(
        "drawn",
        "register",
        ("study.yaml:2: tasks: here is [compute_average/hard, ", "restore it"),
        code=3,
        change=("[compute_average/easy]", "[compute_average/hard, compute_average/easy]"),
    ),
    "a plan changed after the registration": Mistake(
        "registered",
        f"{SWEEP} 0",
        ("study.yaml:18: plan.permutations: here is 999, and registered is 199: restore it",),
        code=3,
        change=("permutations: 199", "permutations: 999"),
    ),
    "a ledger edited by hand": Mistake(
        "registered", "status", ("ledger/00000001.json",), code=3, damage=alter_ledger
    ),
}


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study in each state."""
    place = tmp_path_factory.mktemp("mistakes")
    (place / "none").mkdir()
    init_study(place / "study", STUDY)
    study = pipeline.open_study(place / "study")

    def keep(state: str) -> None:
        shutil.copytree(place / "study", place / state)

    keep("new")
    draw_tiny(study)
    keep("drawn")
    pipeline.register(study)
    keep("registered")
    run_wave(study, 0)
    keep("swept")
    pipeline.publish(study, None, lambda *step: None)
    keep("released")
    return place


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder but locks, which are no part of a study."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_line_with_its_remedy_and_leaves_nothing(
    case: str, studies: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake = MISTAKES[case]
    folder = tmp_path / "study"
    shutil.copytree(studies / mistake.state, folder)
    old, new = mistake.change
    if old:
        path = folder / "study.yaml"
        assert path.read_text().count(old) == 1
        path.write_text(path.read_text().replace(old, new))
    mistake.damage(folder)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    monkeypatch.setattr("study.printing.LOG_SECONDS", 1e9)  # no progress on a slow machine
    for name, value in mistake.variables:
        monkeypatch.setenv(name, value)
    before = contents(folder)
    result = run(*shlex.split(mistake.command))
    assert result.exit_code == mistake.code, result.output
    assert result.stdout == ""
    *notes, line = result.stderr.splitlines()
    assert all(note.startswith("note: ") for note in notes), "notes come before the refusal"
    assert line.startswith("dosimeter: ")
    for word in mistake.words:
        assert word in line
    assert contents(folder) == before


def test_a_sweep_too_early_for_a_verdict_is_noted_before_it_is_refused(
    studies: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(studies / "registered", tmp_path / "study")
    note, line = run("sweep", "--wave", "2", "--study", str(folder)).stderr.splitlines()
    assert note.startswith("note: the public arm is not released: paid will get no verdict")
    assert "`dosimeter publish` comes first" in note
    assert line.startswith("dosimeter: ")
