"""A command that is killed at any of its writes: what it leaves holds, and shows nothing private;
the same command again ends as if nothing had happened."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from publish.release import read_release
from registry.result_row import Arm
from registry.sealing import DrawnInstance, read_identities, recipient_of
from registry.stores import open_store
from registry.stores.base import Store
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.workspace.study import Study
from tests.cases import cases
from tests.kills import Killer
from tests.study.cli.program import run
from tests.study.conftest import run_wave

STUDY = cases(__file__, "study")
FEW = 2  # kills a command, spread over its writes, in the quick test
_DIGEST = re.compile(r"[0-9a-f]{64}")
_KEY = re.compile(rb"AGE-SECRET-KEY-1[0-9A-Z]+")


def _here(folder: Path) -> Study:
    return pipeline.open_study(folder / "study")


def _nothing(folder: Path) -> None:
    """No preparation, or nothing to check."""


def _lose_key(folder: Path) -> None:
    (folder / "study" / "keys" / "study.txt").unlink()


def _run_wave(folder: Path) -> None:
    run_wave(_here(folder))


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
    "draw": Step("register --draw --underpowered tiny"),
    "register": Step("register"),
    "verify": Step("verify --checkpoint-out {kept}", done=2),
    "publish": Step("publish", check=_check_release),
    "report": Step("report", _run_wave, owed="missing from the report"),
    "reveal": Step(
        "reveal --all --yes", check=_check_reveal, owed=r"/revealed/\w+.json: no such object"
    ),
}


IN_STORE = ("draw", "register", "verify", "publish", "reveal")


@dataclass(frozen=True)
class Line:
    """The steps done one after the other in ``folder / "work"``, which is where each is killed."""

    folder: Path
    killer: Killer
    bucket: str = ""  # URI of the store; "" for a folder
    changes: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, list[str]] = field(default_factory=dict)  # of the ledger's records after it
    drawn: list[DrawnInstance] = field(default_factory=list)

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def save(self, name: str, when: str) -> None:
        """Keep what is there ``before`` or ``after`` a step."""
        shutil.copytree(self.work, self.folder / when / name)
        _copy(self._store(), self._kept(name, when))

    def restore(self, name: str, when: str = "before") -> None:
        """Bring back what was there before or after a step."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.folder / when / name, self.work)
        self._store().delete(list(self._store().list()))
        _copy(self._kept(name, when), self._store())

    def _store(self) -> Store:
        return open_store(self.bucket or "memory:")

    def _kept(self, name: str, when: str) -> Store:
        return open_store(str(self.folder / "buckets" / when / name))

    def contents(self, name: str = "", when: str = "") -> dict[str, bytes]:
        """Each file and object that is there now, or was there before or after a step; and what
        lies in the folder for temporary files now."""
        place, kept = self.work, self._store()
        if name:
            place, kept = self.folder / when / name, self._kept(name, when)
        found = {str(path.relative_to(place)): path.read_bytes() for path in _files(place)}
        return found | {f"study/store/{key}": kept.get(key) for key in kept.list()}

    def run(self, name: str, **kill: Any) -> int | None:
        """Run a step; return its exit code, None if it was killed."""
        command = STEPS[name].command.format(kept=self.work / "kept.txt").split()
        command += ["--study", str(self.work / "study")]
        ended = self.killer.run(*command, **kill)
        assert "Traceback" not in ended.output
        if not ended.killed:
            self.changes.setdefault(name, ended.changes)
        return None if ended.killed else ended.code


@contextmanager
def _line(folder: Path, bucket: str = "") -> Iterator[Line]:
    """A line, every step of which was done once."""
    with Killer(folder) as killer:
        made = Line(folder, killer, bucket)
        init_study(made.work / "study", STUDY + (f"store: {bucket}\n" if bucket else ""))
        for name, step in STEPS.items():
            step.prepare(made.work)
            made.save(name, "before")
            assert made.run(name) == 0
            made.save(name, "after")
            made.kinds[name] = _kinds(made.work)
        made.drawn.extend(_here(made.work).entries())
        yield made


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    with _line(tmp_path_factory.mktemp("kills")) as made:
        yield made


def _secrets(line: Line, name: str) -> list[bytes]:
    """What nobody may see in the clear before, during and after a step."""
    if name == "reveal":
        return []
    entries = line.drawn
    if name in ("publish", "report"):
        entries = [entry for entry in entries if entry.arm is Arm.PRIVATE]
    texts = [text for each in entries for text in (each.seed, each.nonce)]
    return [form for text in texts for form in (text.encode(), bytes.fromhex(text))]


def _copy(source: Store, target: Store) -> None:
    for key in source.list():
        target.put(key, source.get(key))


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _names(contents: Iterable[str]) -> set[str]:
    """Each file, with # for a digest in its name; but not what the store sweeps when it is written
    to."""
    return {_DIGEST.sub("#", name) for name in contents if "/store/.tmp/" not in name}


def _kinds(folder: Path) -> list[str]:
    return [entry.kind for entry in _here(folder).ledger.entries()]


def _check_private(line: Line, name: str) -> None:
    """No secret of the draw is in the clear. A key is, for its owner alone."""
    secrets, temporary = _secrets(line, name), line.folder / "tmp"
    contents = line.contents() | {str(path): path.read_bytes() for path in _files(temporary)}
    for place, data in contents.items():
        assert not [secret for secret in secrets if secret in data], place
        if _KEY.search(data):
            assert (line.work / place).stat().st_mode & 0o077 == 0, place


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


def _kill(line: Line, name: str, at: int, torn: bool) -> None:
    """Kill a step and look at what is left."""
    killed = line.run(name, at=at, torn=torn) is None
    assert killed or torn, "no later write of a file is there to be torn"
    _check_private(line, name)
    _check_holds(line.work, STEPS[name], STEPS[name].owed)


def _finish(line: Line, name: str) -> None:
    """Run a step again; all must be as if it had never been killed."""
    step = STEPS[name]
    assert line.run(name) in {0, step.done}
    assert line.run(name) == step.done
    assert _kinds(line.work) == line.kinds[name]
    assert _names(line.contents()) == _names(line.contents(name, "after"))
    assert not [*_files(line.folder / "tmp")]
    _check_private(line, name)
    _check_holds(line.work, step)


@pytest.mark.parametrize("name", [name for name in STEPS if name != "report"])
def test_a_command_killed_at_some_writes_is_finished_by_the_next(line: Line, name: str) -> None:
    count = line.changes[name]
    for number, at in enumerate(range(0, count, max(1, -(-count // FEW)))):
        line.restore(name)
        _kill(line, name, at, number % 2 == 1)
        _finish(line, name)


def _many(changes: int) -> range:
    """All changes of a command, or some of a report's eighty."""
    return range(0, changes, 6 if changes > 50 else 1)


@pytest.mark.slow
@pytest.mark.parametrize("torn", [False, True], ids=["before", "torn"])
@pytest.mark.parametrize("name", STEPS)
def test_a_command_killed_at_any_write_is_finished_by_the_next(
    line: Line, name: str, torn: bool
) -> None:
    for at in _many(line.changes[name]):
        line.restore(name)
        _kill(line, name, at, torn)
        _finish(line, name)


@pytest.fixture(scope="module")
def bucket_line(seaweedfs: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    with _line(tmp_path_factory.mktemp("bucket"), seaweedfs.uri("kills")) as made:
        yield made


@pytest.mark.s3
@pytest.mark.slow
@pytest.mark.parametrize("name", IN_STORE)
def test_a_command_killed_at_any_request_to_a_bucket_is_finished_by_the_next(
    bucket_line: Line, name: str
) -> None:
    for at in range(bucket_line.changes[name]):
        bucket_line.restore(name)
        _kill(bucket_line, name, at, torn=False)
        _finish(bucket_line, name)
