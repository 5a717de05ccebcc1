"""Nothing of the private arm rests in the clear, or is told to anybody: not in the store, not in
Ray's folders, not in temporary files, output, errors or command lines."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from generators.catalog import INSTALLED
from generators.seed import Seed
from generators.task import Asset
from registry.result_row import Arm
from registry.sealing import DrawnInstance
from study.workspace.study import Study
from tests.cases import cases
from tests.study.cli.program import refusal, run
from tests.study.conftest import make_study, start_cluster
from tests.study.test_promises import begin

STUDY = cases(__file__, "study")
API_KEY = "sk-this-key-is-nobodys-business"


@pytest.fixture
def rooms() -> Iterator[Path]:
    """A place for temporary files and for Ray's, with a path short enough for its sockets."""
    place = Path(tempfile.mkdtemp(prefix="dq-"))
    for name in ("ray", "tmp"):
        (place / name).mkdir()
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return make_study(tmp_path / "study", STUDY)


def start(study: Study, rooms: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "study.main", *arguments, "--study", str(study.folder)],
        env={
            **os.environ,
            "RAY_TMPDIR": str(rooms / "ray"),
            "TMPDIR": str(rooms / "tmp"),
            "OPENAI_API_KEY": API_KEY,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


@pytest.fixture(params=["here", pytest.param("cluster", marks=[pytest.mark.ray, pytest.mark.slow])])
def where(request: pytest.FixtureRequest, rooms: Path) -> Iterator[tuple[str, ...]]:
    """The options of a sweep on this machine or on a cluster, whose files lie in the rooms."""
    if request.param == "here":
        yield ()
        return
    variables = {"RAY_TMPDIR": str(rooms / "ray"), "TMPDIR": str(rooms / "tmp")}
    with start_cluster(variables, num_cpus=1, resources={"sandbox": 1}) as made:
        yield "--address", made.address


def files_of(entry: DrawnInstance) -> tuple[Asset, ...]:
    instance = INSTALLED.family(entry.family).generate(entry.difficulty, Seed.from_hex(entry.seed))
    return instance.brief.assets


def secrets_of(entries: tuple[DrawnInstance, ...]) -> Iterator[tuple[bytes, str]]:
    """What of the private arm must stand nowhere, and what it is."""
    public = [f.data for e in entries if e.arm is Arm.PUBLIC for f in files_of(e)]
    for entry in (entry for entry in entries if entry.arm is Arm.PRIVATE):
        for what in ("seed", "nonce", "instance"):
            digits = str(getattr(entry, what)).removeprefix("sha256:")
            raw = bytes.fromhex(digits)
            yield digits.encode(), f"{what} in hexadecimal"
            yield raw, f"{what}, raw"
            yield base64.b64encode(raw)[:42], f"{what} in base64"
            yield base64.urlsafe_b64encode(raw)[:42], f"{what} in base64"
        for asset in files_of(entry):
            yield asset.data, "input file"
            part = asset.data[len(asset.data) // 4 :][:256]
            if not any(part in data for data in public):  # empty paper looks alike everywhere
                yield part, "part of an input file"
            yield asset.digest.removeprefix("sha256:").encode(), "digest of an input file"
    yield b"AGE-SECRET-KEY-", "age key"
    yield API_KEY.encode(), "API key"


class Listener:
    """Looks for secrets in bytes."""

    def __init__(self, entries: tuple[DrawnInstance, ...]) -> None:
        self._names = dict(secrets_of(entries))
        self._pattern = re.compile(b"|".join(map(re.escape, self._names)))
        self.heard: set[tuple[str, str]] = set()
        self.listened = 0

    def listen(self, place: str, data: bytes) -> None:
        self.listened += 1
        for found in self._pattern.finditer(data):
            self.heard.add((place, self._names[found.group()]))

    def files(self, folder: Path) -> None:
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                with contextlib.suppress(FileNotFoundError):
                    self.listen(str(path), path.read_bytes())

    def command_lines(self) -> None:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                self.listen("a command line", path.read_bytes())


def ray_log_count(rooms: Path) -> int:
    return sum(1 for path in (rooms / "ray").rglob("*.log"))


def test_a_study_from_seed_to_report_tells_nothing_of_its_private_arm(
    study: Study, rooms: Path, where: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = study.entries()
    listener = Listener(entries)
    secret = next(entry.seed for entry in entries if entry.arm is Arm.PRIVATE)
    listener.listen("a test of the listener", b"..." + bytes.fromhex(secret))
    assert listener.heard, "it hears"
    listener.heard.clear()
    killed = start(study, rooms, "sweep", "--wave", "0", "--allow-dirty", *where)
    while killed.poll() is None and len(list(study.store.list("results/"))) < 3:
        listener.command_lines()
        time.sleep(0.2)
    assert killed.poll() is None, killed.communicate()
    os.killpg(killed.pid, signal.SIGKILL)
    outputs = {"the output of a killed sweep": b"".join(killed.communicate())}
    resumed = start(study, rooms, "sweep", "--wave", "0", "--allow-dirty", "--json", *where)
    outputs["the output of sweep"] = b"".join(resumed.communicate(timeout=300))
    assert resumed.returncode == 0, outputs
    monkeypatch.setenv("OPENAI_API_KEY", API_KEY)
    monkeypatch.setenv("TMPDIR", str(rooms / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    for step in ("publish", "report", "status", "verify", "log"):
        done = run(step, "--json", "--study", str(study.folder))
        assert done.exit_code == 0, done.output
        outputs[f"the output of {step}"] = done.output.encode()
    for place, data in outputs.items():
        listener.listen(place, data)
    key = study.key_file.read_bytes()
    study.key_file.unlink()  # the one place where a secret may be
    listener.files(study.folder)
    listener.files(rooms)
    study.key_file.write_bytes(key)
    assert not where or ray_log_count(rooms) > 5, "Ray's folder was looked through"
    assert listener.listened > 200
    assert not listener.heard
    assert not list((rooms / "tmp").glob("dosimeter-*")), "no work folder outlives its episode"


def test_a_lost_list_of_instances_is_one_clear_error(study: Study) -> None:
    manifest = begin(study)
    folder = study.folder / "store" / manifest.run_key.rpartition("/")[0]
    (folder / "instances.age").unlink()
    options = ("--wave", "0", "--allow-dirty", "--study", str(study.folder))
    assert "instances.age" in refusal("sweep", *options)
