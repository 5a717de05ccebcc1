"""A Hub that fails, lies or hangs up at any request of a release, and a release that is killed at
any of them: nothing is tagged that was not read back, and the same command goes on."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from queue import Queue

import pytest
from click.testing import Result

from publish.release import read_release
from study.steps import pipeline
from tests.hub_server import HubServer
from tests.kills import Killer
from tests.study.cli.program import run
from tests.study.conftest import make_study
from tests.study.test_kills import STUDY

pytestmark = pytest.mark.hub

REPOSITORY, TOKEN = "alice/kills", "hf_alice"
_HEX = re.compile(rb"\b[0-9a-f]{40,64}\b")


def _other_digests(body: bytes) -> bytes:
    return _HEX.sub(lambda found: found[0][::-1], body)


def _answers(status: int) -> Callable[[HubServer, int], None]:
    return lambda hub, skip: hub.fail("", "", status, times=1000, skip=skip)


FAULTS: dict[str, Callable[[HubServer, int], None]] = {
    **{str(status): _answers(status) for status in (401, 403, 404, 409, 412, 429, 500)},
    "hangs up": lambda hub, skip: hub.hang_up("", "", times=1000, skip=skip),
    "another last byte": lambda hub, skip: hub.alter(
        lambda body: body[:-1] + b"!" if body else body, times=1000, skip=skip
    ),
    "nothing": lambda hub, skip: hub.alter(lambda body: b"", times=1000, skip=skip),
    "other digests": lambda hub, skip: hub.alter(_other_digests, times=1000, skip=skip),
}


@dataclass(frozen=True)
class Case:
    """A study before its release, and the Hub, brought back before each fault."""

    folder: Path
    hub: HubServer

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def restore(self) -> None:
        """An empty Hub, and the study before its release."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.folder / "before", self.work)
        self.hub.clear()

    def run(self) -> Result:
        return run("publish", "--study", str(self.work))

    def check_tags(self) -> None:
        """A tag, if there is one, is on the bytes of the release."""
        release = self.work / "release"
        for repository in self.hub.repositories.values():
            for tag in repository.tags:
                files = repository.at(tag).files
                served = {name: self.hub.blobs[file.key] for name, file in files.items()}
                served.pop(".gitattributes")
                names = read_release(release).files
                assert served == {name: (release / name).read_bytes() for name in names}

    def check_finished(self) -> None:
        """The same command ends as if nothing had happened."""
        self.hub.forget()
        done = self.run()
        assert done.exit_code == 0, done.output
        self.check_tags()
        repository = self.hub.repositories[REPOSITORY]
        kinds = [entry.kind for entry in pipeline.open_study(self.work).ledger.entries()]
        titles = [each.title for each in repository.history("main")]
        assert (list(repository.tags), kinds[-1]) == (["tranche-0"], "release")
        assert titles == ["Release tranche-0", "initial commit"]
        assert kinds.count(kinds[-1]) == 1
        assert not list(self.work.glob(".*.partial"))
        assert done.output == "" or TOKEN not in done.output


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with HubServer({TOKEN: "alice"}) as hub:
        place = f"release: {{repository: {REPOSITORY}, endpoint: '{hub.url}'}}\n"
        make_study(tmp_path / "before", STUDY + place)
        yield Case(tmp_path, hub)


def _requests(case: Case) -> list[str]:
    """The requests of a release without a fault."""
    case.restore()
    assert case.run().exit_code == 0
    return [f"{method} {path}" for method, path, _ in case.hub.requests]


def _fail(case: Case, fault: str, skip: int) -> None:
    case.restore()
    FAULTS[fault](case.hub, skip)
    failed = case.run()
    place = f"{fault} from request {skip} on"
    lines = [x for x in failed.stderr.splitlines() if x.startswith("dosimeter: ")]
    assert (failed.exit_code, len(lines)) in ((2, 1), (0, 0)), f"{place}: {failed.output}"
    assert "Traceback" not in failed.output
    assert TOKEN not in failed.output
    assert all(REPOSITORY in line for line in lines), f"{place}: {lines}"
    case.check_tags()
    case.check_finished()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client repeats some requests after a pause; here without one."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)


@pytest.mark.usefixtures("impatient")
def test_at_each_second_request_some_fault_is_one_message_and_no_tag(case: Case) -> None:
    for skip, fault in zip(range(0, len(_requests(case)), 2), cycle(FAULTS), strict=False):
        _fail(case, fault, skip)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fault", FAULTS)
def test_at_each_request_every_fault_is_one_message_and_no_tag(case: Case, fault: str) -> None:
    for skip in range(len(_requests(case))):
        _fail(case, fault, skip)


def _kill_at_request(killer: Killer, case: Case, skip: int, after: bool) -> None:
    """Kill a release at a request to the Hub, before the Hub did its work or after."""
    started: Queue[int] = Queue()

    def kill() -> None:
        os.kill(started.get(timeout=60), signal.SIGKILL)

    case.restore()
    case.hub.at("", "", kill, after=after, skip=skip)
    started.put(killer.start("publish", "--study", str(case.work)))
    ended = killer.wait()
    assert ended.killed, ended.output
    case.check_tags()
    case.check_finished()


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_any_request_the_next_run_finishes(case: Case, after: bool) -> None:
    case.restore()
    with Killer(case.folder, {"HF_TOKEN": TOKEN}) as killer:
        assert killer.run("publish", "--study", str(case.work)).code == 0
        for skip in range(len(case.hub.requests)):
            _kill_at_request(killer, case, skip, after)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("torn", [False, True], ids=["before", "torn"])
def test_killed_at_any_write_the_next_run_ends_with_the_same_release(
    case: Case, torn: bool, part: int
) -> None:
    """Each fourth write, from another one on in each part, so that none takes minutes."""
    with Killer(case.folder, {"HF_TOKEN": TOKEN}) as killer:
        case.restore()
        changes = killer.run("publish", "--study", str(case.work)).changes
        for at in range(part, changes, 4):
            case.restore()
            killer.run("publish", "--study", str(case.work), at=at, torn=torn)
            case.check_tags()
            case.check_finished()
    assert changes > 20
