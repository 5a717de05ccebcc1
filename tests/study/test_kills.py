"""A command that is killed at any of its writes: what it leaves holds, and shows nothing private;
the same command again ends as if nothing had happened."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from publish.release import read_release
from registry.checkpoints import check_checkpoints, read_witness
from registry.ledger import inspect_chain
from registry.result_row import Arm
from registry.sealing import read_identities, recipient_of
from registry.shares import combine_shares, read_share
from study import pipeline
from study.workspace import Study
from study.workspace.setup import init_study
from tests.kills import Killer
from tests.study.cli.program import run
from tests.study.conftest import run_wave

STUDY = """\
study: kills
tasks: [compute_average/easy]
seeds_per_arm: 2
models:
  honest: {provider: scripted, agent: honest, error_rate: 0.3}
waves:
  - [honest]
plan: {permutations: 99}
sandbox: {kind: local}
entropy: "fixed:00000000000000000000000000000000000000000000000000000000000005ed"
"""
FEW = 3  # kills a command, spread over its writes, in the quick test
_DIGEST = re.compile(r"[0-9a-f]{64}")
_KEY = re.compile(rb"AGE-SECRET-KEY-1[0-9A-Z]+")


def _here(folder: Path) -> Study:
    return pipeline.open_study(folder / "study")


def _nothing(folder: Path) -> None:
    """No preparation, or nothing to check."""


def _lose_key(folder: Path) -> None:
    (folder / "study" / "keys" / "study.txt").unlink()


def _name_witness(folder: Path) -> None:
    key = read_witness(folder / "anna").key
    with (folder / "study" / "study.yaml").open("a") as file:
        file.write(f"witnesses: {{keys: ['{key}'], threshold: 1}}\n")


def _run_wave(folder: Path) -> None:
    run_wave(_here(folder))


def _check_cosigned(folder: Path) -> None:
    """The witness knows every checkpoint that they signed."""
    study, seen = _here(folder), read_witness(folder / "anna").ledgers
    known = max([0, *(len(one.leaves) for one in seen.values())])
    for one in check_checkpoints(study.store, study.ledger.entries()).checkpoints:
        assert not one.witnesses or one.checkpoint.size <= known


def _check_shares(folder: Path) -> None:
    """There are all of the shares or none, and they give the key."""
    paths = sorted((folder / "study" / "keys" / "shares").glob("*"))
    if paths:
        assert len(paths) == 3
        (identity,) = read_identities(folder / "study" / "keys" / "study.txt")
        assert combine_shares([read_share(path) for path in paths]) == identity


def _check_key(folder: Path) -> None:
    """There is a whole key or none."""
    if (path := folder / "study" / "keys" / "study.txt").exists():
        assert recipient_of(*read_identities(path)) in path.read_text()


def _check_release(folder: Path) -> None:
    """A folder of that name is a whole release; a record names one that is there."""
    study, place = _here(folder), folder / "study" / "release"
    records = [entry.record for entry in study.ledger.find("release")]
    if place.exists() or records:
        content = read_release(place).content
        assert [record.content for record in records] in ([], [content])


def _check_reveal(folder: Path) -> None:
    """No seed is public before its record, and the file holds."""
    if (path := folder / "study" / "reveal-study.json").exists():
        checked = run("reveal", "--check", str(path), "--study", str(folder / "study"))
        assert checked.exit_code == 0, checked.output


@dataclass(frozen=True)
class Step:
    """A command, in what the step before left. ``done`` is its exit code when it was done before;
    ``owed`` is what `verify` misses of a record whose files were not written yet."""

    command: str
    prepare: Callable[[Path], None] = _nothing
    check: Callable[[Path], None] = _nothing
    done: int = 0
    owed: str = ""


STEPS = {
    "keys new": Step("keys new", _lose_key, _check_key, done=2),
    "witness init": Step("witness init {anna} --name example.org/anna", done=2),
    "draw": Step("draw --underpowered tiny", _name_witness),
    "register": Step("register"),
    "checkpoint": Step("checkpoint"),
    "witness sign": Step("witness sign {anna} {store} --study-key {signer}", check=_check_cosigned),
    "keys split": Step("keys split", check=_check_shares, done=2),
    "keys combine": Step("keys combine {share}1.txt {share}3.txt", _lose_key, _check_key, done=2),
    "publish": Step("publish", check=_check_release),
    "report": Step("report", _run_wave, owed="missing from the report"),
    "reveal": Step(
        "reveal --all --yes", check=_check_reveal, owed=r"/revealed/\w+.json: no such object"
    ),
    "withdraw": Step("publish --withdraw typo"),
}


@dataclass(frozen=True)
class Line:
    """The steps done one after the other in ``folder / "work"``, which is where each is killed."""

    folder: Path
    killer: Killer
    changes: dict[str, int] = field(default_factory=dict)

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def restore(self, name: str, after: bool = False) -> None:
        """Bring back what was there before or after a step."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.folder / ("after" if after else "before") / name, self.work)

    def run(self, name: str, **kill: Any) -> int | None:
        """Run a step; return its exit code, None if it was killed."""
        work, study = self.work, _here(self.work)
        entries = inspect_chain(study.store)[0]
        words = STEPS[name].command.split()
        places = {
            "anna": work / "anna",
            "store": study.store.uri,
            "signer": entries[0].signer if entries else "",
            "share": work / "study" / "keys" / "shares" / "share-",
        }
        command = [word.format_map(places) for word in words]
        if words[0] != "witness":
            command += ["--study", str(work / "study")]
        ended = self.killer.run(*command, **kill)
        assert "Traceback" not in ended.output
        if not ended.killed:
            self.changes.setdefault(name, ended.changes)
        return None if ended.killed else ended.code


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    """Every step was done once, with copies of what was there before and after."""
    folder = tmp_path_factory.mktemp("kills")
    with Killer(folder) as killer:
        made = Line(folder, killer)
        init_study(made.work / "study", STUDY)
        for name, step in STEPS.items():
            step.prepare(made.work)
            shutil.copytree(made.work, folder / "before" / name)
            assert made.run(name) == 0
            shutil.copytree(made.work, folder / "after" / name)
        yield made


@pytest.fixture(scope="module")
def secrets(line: Line) -> dict[str, list[bytes]]:
    """What nobody may see in the clear before, during and after each step."""
    line.restore("withdraw", after=True)
    study = _here(line.work)
    found, private = {}, [e for e in study.entries() if e.arm is Arm.PRIVATE]
    for name in STEPS:
        shown = private if name in ("publish", "report") else study.entries()
        if name in ("reveal", "withdraw"):
            shown = []
        texts = [text for each in shown for text in (each.seed, each.nonce)]
        found[name] = [form for text in texts for form in (text.encode(), bytes.fromhex(text))]
    return found


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _names(folder: Path) -> set[str]:
    """Each file, with # for a digest in its name; but not what the store sweeps when it is written
    to."""
    names = (str(path.relative_to(folder)) for path in _files(folder))
    return {_DIGEST.sub("#", name) for name in names if "/store/.tmp/" not in name}


def _kinds(folder: Path) -> list[str]:
    return [entry.kind for entry in _here(folder).ledger.entries()]


def _check_private(folder: Path, secrets: list[bytes]) -> None:
    """No secret of the draw is in the clear. A key is, for its owner alone."""
    for path in _files(folder):
        if path.relative_to(folder).parts[0] in ("before", "after"):
            continue
        data = path.read_bytes()
        assert not [secret for secret in secrets if secret in data], path
        if _KEY.search(data) or b"of them give the study's key" in data or b'"secret"' in data:
            assert path.stat().st_mode & 0o077 == 0, path


def _check_holds(folder: Path, step: Step, owed: str = "") -> None:
    """Every promise holds, but for files that are owed, and the study opens."""
    study = str(folder / "study")
    if _kinds(folder):
        verified = run("verify", "--study", study)
        broken = [line for line in verified.output.splitlines() if "broken " in line]
        assert verified.exit_code == (3 if broken else 0), verified.output
        assert not [line for line in broken if not (owed and re.search(owed, line))]
    assert run("status", "--study", study).exit_code == 0
    step.check(folder)


def _kill(line: Line, name: str, at: int, torn: bool, secrets: list[bytes]) -> None:
    """Kill a step and look at what is left."""
    killed = line.run(name, at=at, torn=torn) is None
    assert killed or torn, "no later write of a file is there to be torn"
    _check_private(line.folder, secrets)
    _check_holds(line.work, STEPS[name], STEPS[name].owed)


def _finish(line: Line, name: str, secrets: list[bytes]) -> None:
    """Run a step again; all must be as if it had never been killed."""
    step, whole = STEPS[name], line.folder / "after" / name
    assert line.run(name) in {0, step.done}
    assert line.run(name) == step.done
    assert _kinds(line.work) == _kinds(whole)
    assert _names(line.work) == _names(whole)
    assert not [*_files(line.folder / "tmp")]
    _check_private(line.folder, secrets)
    _check_holds(line.work, step)


@pytest.mark.parametrize("name", STEPS)
def test_a_command_killed_at_some_writes_is_finished_by_the_next(
    line: Line, secrets: dict[str, list[bytes]], name: str
) -> None:
    count = line.changes[name]
    for number, at in enumerate(range(0, count, max(1, -(-count // FEW)))):
        line.restore(name)
        _kill(line, name, at, number % 2 == 1, secrets[name])
        _finish(line, name, secrets[name])


def _many(changes: int) -> range:
    """All changes of a command, or each fifth of a report's hundred."""
    return range(0, changes, 1 + changes // 25)


@pytest.mark.slow
@pytest.mark.parametrize("torn", [False, True], ids=["before", "torn"])
@pytest.mark.parametrize("name", STEPS)
def test_a_command_killed_at_any_write_is_finished_by_the_next(
    line: Line, secrets: dict[str, list[bytes]], name: str, torn: bool
) -> None:
    for at in _many(line.changes[name]):
        line.restore(name)
        _kill(line, name, at, torn, secrets[name])
        _finish(line, name, secrets[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_a_command_killed_again_and_again_is_finished_by_the_last(
    line: Line, secrets: dict[str, list[bytes]], name: str
) -> None:
    """Each run goes on from what the killed one before it left."""
    line.restore(name)
    for at in _many(line.changes[name]):
        line.run(name, at=at, torn=at % 2 == 1)
        _check_holds(line.work, STEPS[name], STEPS[name].owed)
    _finish(line, name, secrets[name])
