"""Runs tests in several processes that are forked after one collection:
``pytest -p tests.processes --processes N``.

Whole groups of tests are taken from one queue, so that what a group shares is made once. This
process shows the results, and runs tests too.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest

ENGINES, CLUSTERS, FINISHED, HERE = "docker", "ray", "finished", "here"
_PR_SET_PDEATHSIG = 1  # of Linux: a signal when the parent ends
_WIDTH = 4  # bytes of a group's number in the queue


def group_of(item: pytest.Item) -> str:
    """The group of a test: one for engines and one for clusters, by its own marks, one for the
    finished study (tests/study/conftest.py), one for stored snapshots, of which the process that
    reports names those that no test uses; else its file."""
    for mark in (ENGINES, CLUSTERS):
        if item.get_closest_marker(mark):
            return mark
    names = getattr(item, "fixturenames", ())
    return HERE if "snapshot" in names else FINISHED if "finished" in names else str(item.path)


@dataclass(slots=True)
class Child:
    """A process that runs tests, the file in which it reports them, and the test it is at."""

    pid: int
    reports: IO[str]
    status: int | None = None
    at: str = ""
    _begun: str = field(default="", repr=False)  # of a line that is not whole yet

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield what it has reported since."""
        for line in self.reports:
            self._begun += line
            if line.endswith("\n"):
                yield json.loads(self._begun)
                self._begun = ""


class Reporter:
    """Reports the tests of this process to the first one."""

    def __init__(self, config: pytest.Config, path: Path) -> None:
        self.config, self.file = config, path.open("w", encoding="utf-8")

    def _write(self, value: object) -> None:
        self.file.write(json.dumps(value) + "\n")
        self.file.flush()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write({"at": nodeid})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self.config.hook
        self._write(hook.pytest_report_to_serializable(config=self.config, report=report))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the number of processes."""
    parser.addoption("--processes", type=int, default=1, help="Processes that share the tests.")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Share the tests out, where there are to be several processes."""
    count = session.config.getoption("processes")
    if count < 2 or session.testsfailed or session.config.option.collectonly:
        return None
    groups: dict[str, list[pytest.Item]] = {ENGINES: [], CLUSTERS: [], FINISHED: [], HERE: []}
    for item in session.items:
        groups.setdefault(group_of(item), []).append(item)
    here = groups.pop(HERE)
    shared = [group for group in groups.values() if group]
    queue, end = os.pipe()
    for number in range(len(shared)):
        os.write(end, number.to_bytes(_WIDTH))
    os.close(end)
    children: list[Child] = []
    try:
        for number in range(1, count):
            children.append(_fork(session, number, _items((), shared, queue)))
        for _ in _run(session, _items(here, shared, queue)):
            _show(session, children)
        while any(child.status is None for child in children):
            time.sleep(0.1)
            _show(session, children)
    finally:
        for child in children:
            if child.status is None:
                os.kill(child.pid, signal.SIGINT)
                os.waitpid(child.pid, 0)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    return True


def _items(
    first: Sequence[pytest.Item], groups: Sequence[Sequence[pytest.Item]], queue: int
) -> Iterator[pytest.Item]:
    """Yield tests of one's own, then those of groups as long as the queue has any."""
    yield from first
    while number := os.read(queue, _WIDTH):
        yield from groups[int.from_bytes(number)]


def _run(session: pytest.Session, items: Iterator[pytest.Item]) -> Iterator[None]:
    """Run tests; the fixtures of each but the last know which comes next."""
    item = next(items, None)
    while item is not None and not session.shouldfail:
        following = next(items, None)
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        yield
        item = following


def _fork(session: pytest.Session, number: int, items: Iterator[pytest.Item]) -> Child:
    folder: Path = session.config._tmp_path_factory.getbasetemp()
    path = folder / f"reports-{number}"
    path.touch()
    first = os.getpid()
    if pid := os.fork():
        return Child(pid, path.open(encoding="utf-8"))
    status = 1
    try:
        # Shells ignore it for what they put into the background.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)  # however the first process ends
        if os.getppid() != first:
            raise KeyboardInterrupt
        manager, capture = session.config.pluginmanager, "capturemanager"
        manager.unregister(name="terminalreporter")
        manager.register(Reporter(session.config, path))
        manager.getplugin(capture).stop_global_capturing()  # its files are the first process's
        manager.getplugin(capture).start_global_capturing()
        manager.getplugin(capture).suspend_global_capture()
        own = folder / f"process-{number}"
        own.mkdir(mode=0o700)
        session.config._tmp_path_factory._basetemp = own
        for _ in _run(session, items):
            pass
        status = 0
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with suppress(BaseException):
            session._setupstate.teardown_exact(None)
        os._exit(status)


def _show(session: pytest.Session, children: Sequence[Child]) -> None:
    """Report what the other processes have. One that died has failed at its test."""
    hook, config = session.config.hook, session.config
    for child in children:
        if child.status is not None:
            continue
        ended, status = os.waitpid(child.pid, os.WNOHANG)  # before its last words are read
        for line in child.lines():
            if "at" in line:
                child.at = line["at"]
                continue
            if isinstance(line["longrepr"], list):  # place and reason of a skip
                line["longrepr"] = tuple(line["longrepr"])
            report = hook.pytest_report_from_serializable(config=config, data=line)
            hook.pytest_runtest_logreport(report=report)
            if report.when == "teardown":
                hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)
        if ended:
            child.status = status
            if status:
                hook.pytest_runtest_logreport(report=_death(child.at, status))


def _death(test: str, status: int) -> pytest.TestReport:
    said = f"its process ended with {os.waitstatus_to_exitcode(status)}; the rest of it is not run"
    place = (test.partition("::")[0], None, test)
    return pytest.TestReport(test, place, {}, "failed", said, "call")
