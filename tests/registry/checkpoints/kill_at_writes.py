"""Kills a step with SIGKILL at each of its writes, and runs it again: ``python -m … FOLDER``.

Prints the number of kills, a line for each step.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner

from registry.checkpoints import check_checkpoints, new_witness, read_witness
from registry.ledger import Ledger, inspect_chain
from registry.stores.folder import FolderStore
from study.cli.main import main
from tests.ledgers import SIGNER
from tests.registry.checkpoints.watched import begin, grow, publish

_WRITES = {"os.link", "os.rename", "os.remove", "os.mkdir"}
Step = Callable[[Path], None]


def _is_write(event: str, arguments: tuple[object, ...]) -> bool:
    if event == "open":
        flags = arguments[2]
        return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    return event in _WRITES


def _run_and_kill(step: Step, folder: Path, write: int) -> bool:
    """Run a step in a process of its own that is killed before a write; report if it was."""
    child = os.fork()
    if child == 0:
        seen = 0

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal seen
            if _is_write(event, arguments):
                if seen == write:
                    os.kill(os.getpid(), signal.SIGKILL)
                seen += 1

        sys.addaudithook(hook)
        step(folder)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, f"the step itself failed at write {write}"
    return False


def kill_everywhere(step: Step, before: Path, check: Step) -> int:
    """Kill a step at each write of a copy of a folder; run ``check``, the step and ``check``
    again. Return the number of kills."""
    write = 0
    while True:
        folder = before.with_name(f"{before.name}-{write}")
        shutil.copytree(before, folder)
        killed = _run_and_kill(step, folder, write)
        check(folder)
        step(folder)
        check(folder)
        assert _sizes(folder) == [4, 6], "finished by the second run"
        shutil.rmtree(folder)
        if not killed:
            return write
        write += 1


def _store(folder: Path) -> FolderStore:
    return FolderStore(folder / "store")


def _sizes(folder: Path) -> list[int]:
    store = _store(folder)
    findings = check_checkpoints(store, inspect_chain(store)[0])
    return [one.checkpoint.size for one in findings.checkpoints]


def record_and_publish(folder: Path) -> None:
    """What a study does: two more signed records, and their checkpoint."""
    ledger = Ledger(_store(folder), lambda: SIGNER)
    grow(ledger, 6)
    publish(ledger)


def cosign(folder: Path) -> None:
    """What a witness does, by the command."""
    command = ["witness", "sign", str(folder / "anna"), str(folder / "store")]
    result = CliRunner().invoke(main, [*command, "--study-key", SIGNER.public])
    assert result.exit_code == 0, result.output


def check_store(folder: Path) -> None:
    """The chain and its checkpoints hold, as far as they go."""
    store = _store(folder)
    entries, broken = inspect_chain(store)
    findings = check_checkpoints(store, entries)
    assert (broken, findings.problems) == ((), [])
    left = set((folder / "store" / ".tmp").glob("*"))
    assert len(left) <= 1, left


def check_witness(folder: Path) -> None:
    """The state is whole, and knows every cosignature that left it."""
    check_store(folder)
    state, store = read_witness(folder / "anna"), _store(folder)
    seen = state.ledgers.get(SIGNER.public)
    known = 0 if seen is None else len(seen.leaves)
    for one in check_checkpoints(store, inspect_chain(store)[0]).checkpoints:
        assert not one.witnesses or one.checkpoint.size <= known


def run(folder: Path) -> None:
    """Kill the steps, and print how often."""
    before = folder / "study"
    before.mkdir()
    key = new_witness(before / "anna", "example.org/anna")
    publish(begin(_store(before), (read_witness(before / "anna"),), 1, 4))
    assert key == read_witness(before / "anna").key
    print("study", kill_everywhere(record_and_publish, before, check_store))
    record_and_publish(before)
    print("witness", kill_everywhere(cosign, before, check_witness))


if __name__ == "__main__":
    run(Path(sys.argv[1]))
