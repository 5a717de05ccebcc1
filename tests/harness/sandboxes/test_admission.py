"""Admission: the sandboxes of a machine never get more memory promised than is theirs."""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.errors import AttemptFailed, Boundary, HarnessError
from harness.sandboxes.admission import AdmissionControl


class Machine:
    """Counts what its containers may take, as an engine does."""

    def __init__(self) -> None:
        self.taken = self.most_taken = 0
        self.lock = threading.Lock()

    def create(self, size: int) -> None:
        seen = self.taken
        time.sleep(0.002)  # so that two who are let in at once would not see each other
        with self.lock:
            self.taken = seen + size
            self.most_taken = max(self.most_taken, self.taken)

    def remove(self, size: int) -> None:
        with self.lock:
            self.taken -= size


def admission(
    machine: Machine, tmp_path: Path, most: int = 10, timeout: float = 60.0
) -> AdmissionControl:
    return AdmissionControl(most, lambda: machine.taken, timeout, tmp_path / "lock")


def never() -> bool:
    return False


def enter(
    made: AdmissionControl, machine: Machine, size: int, shed: Callable[[], object] = never
) -> None:
    with made.admit(size, never, shed):
        machine.create(size)


def test_whoever_comes_no_more_is_promised_than_there_is(tmp_path: Path) -> None:
    machine = Machine()

    def live(size: int) -> None:
        enter(admission(machine, tmp_path), machine, size)  # of its own, as another process has
        time.sleep(0.005)
        machine.lock.acquire()  # not while somebody creates: the door is what is tested
        machine.lock.release()
        with admission(machine, tmp_path, most=10**6).admit(0, never, never):
            machine.remove(size)

    with ThreadPoolExecutor(8) as crowd:
        list(crowd.map(live, [3, 4, 6, 2] * 5))
    assert machine.taken == 0
    assert 6 <= machine.most_taken <= 10


def test_one_that_would_never_fit_is_refused_at_once_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"0\.00 GB.*`sandbox: \{memory_gb: …\}`"):
        enter(admission(Machine(), tmp_path), Machine(), 11)


def test_one_that_waits_is_let_in_when_another_goes(tmp_path: Path) -> None:
    machine = Machine()
    enter(admission(machine, tmp_path), machine, 8)
    with ThreadPoolExecutor(1) as later:
        waiting = later.submit(enter, admission(machine, tmp_path), machine, 5)
        time.sleep(0.1)
        assert not waiting.done()
        machine.remove(8)
        waiting.result()
    assert machine.taken == 5


def test_what_is_only_kept_ready_makes_way(tmp_path: Path) -> None:
    machine = Machine()
    enter(admission(machine, tmp_path), machine, 8)
    enter(admission(machine, tmp_path), machine, 5, shed=lambda: machine.remove(8))
    assert machine.taken == 5


def test_who_waits_too_long_or_is_sent_home_fails_an_attempt(tmp_path: Path) -> None:
    machine = Machine()
    enter(admission(machine, tmp_path), machine, 8)
    for made, closed, why in (
        (admission(machine, tmp_path, timeout=0.1), never, "no room"),
        (admission(machine, tmp_path), lambda: True, "closed"),
    ):
        with pytest.raises(AttemptFailed) as failed, made.admit(5, closed, never):
            pass
        assert (failed.value.boundary, failed.value.error_class) == (Boundary.SANDBOX, why)
        assert why == "closed" or "lower `parallel` or `workers`" in str(failed.value)


def test_a_lock_that_is_held_for_good_fails_an_attempt_in_time(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(
            AttemptFailed, match=r"no room: another process .*fuser .*/lock"
        ) as failed:
            enter(admission(Machine(), tmp_path, timeout=0.1), Machine(), 1)
    assert failed.value.boundary is Boundary.SANDBOX
    enter(admission(Machine(), tmp_path), Machine(), 1)


def test_the_lock_lies_in_a_folder_of_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    enter(AdmissionControl(10, lambda: 0), Machine(), 1)
    run = tmp_path / "cache/dosimeter/run"
    assert run.stat().st_mode & 0o777 == 0o700
    assert [path.suffix for path in run.iterdir()] == [".lock"]
    run.chmod(0o777)
    enter(AdmissionControl(10, lambda: 0), Machine(), 1)
    assert run.stat().st_mode & 0o777 == 0o700


def test_a_run_folder_that_is_a_link_or_cannot_be_made_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "dosimeter").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "dosimeter/run").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HarnessError, match=r"not a folder of user .* XDG_CACHE_HOME"):
        enter(AdmissionControl(10, lambda: 0), Machine(), 1)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    with pytest.raises(HarnessError, match=r"cannot make .* XDG_CACHE_HOME"):
        enter(AdmissionControl(10, lambda: 0), Machine(), 1)


def test_a_door_that_somebody_planted_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HarnessError, match="remove it"):
        enter(admission(Machine(), tmp_path), Machine(), 1)
    assert not (tmp_path / "elsewhere").exists()
