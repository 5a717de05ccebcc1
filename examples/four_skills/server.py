"""Four agents of falling skill for every family: ``python -m examples.four_skills.server``.

They are the noisy solvers that `dosimeter tasks check` runs (``generators/attackers.py``), each
behind the protocol of docs/agent-servers.md at a port of its own. `study.yaml` beside this file is
a study of them over all families.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from examples.agent_server.server import FOLDER, BadRequest, check_folder, make_server
from generators.attackers import Attackable
from generators.catalog import INSTALLED
from generators.errors import GeneratorError
from generators.seed import Seed

SKILLS = 4
_TASK = re.compile(r'"task":\{"const":"(\w+)"')


@dataclass(frozen=True)
class SkilledAgent:
    """Answers with the noisy solver of one skill, 0 for the most able. Its errors follow from the
    task's text and from how often it was asked before."""

    skill: int
    asked: Counter[str] = field(default_factory=Counter)  # by text

    @contextmanager
    def open(self, request: Mapping[str, Any]) -> Iterator[Iterator[dict[str, Any]]]:
        """The events of one conversation. Raises BadRequest."""
        yield iter(self._events(str(request["messages"][0]["content"])))

    def _events(self, message: str) -> list[dict[str, Any]]:
        named, task = FOLDER.match(message), _TASK.search(message)
        if named is None or task is None:
            raise BadRequest("the message names no work folder (`tree: host`), or no task of ours")
        text, folder = message[named.end() :], check_folder(named[1])
        self.asked[text] += 1
        seed = Seed(hashlib.sha256(text.encode()).digest()).child(self.asked[text])
        block = _solve(task[1], self.skill, _read_files(folder), seed)
        answer = f"<answer>\n{json.dumps(block)}\n</answer>"
        return [
            {"role": "assistant", "content": answer, "type": "chunk"},
            {"role": "assistant", "content": "", "type": "done", "model": f"skill-{self.skill}"},
        ]


def _solve(name: str, skill: int, files: Mapping[str, bytes], seed: Seed) -> Mapping[str, Any]:
    try:
        family = INSTALLED.family(name)
    except GeneratorError as error:
        raise BadRequest(str(error)) from None
    if not isinstance(family, Attackable) or len(family.noisy_solvers()) != SKILLS:
        raise BadRequest(f"{name} ships no four noisy solvers")
    solver = family.noisy_solvers()[skill]
    return solver.solve(files, seed.child("solver", solver.name).rng())


def _read_files(folder: Path) -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def make_servers(port: int) -> list[ThreadingHTTPServer]:
    """A server for each skill, at this port and the next ones; at free ports for 0. Raises
    OSError."""
    return [
        make_server(SkilledAgent(skill), port=port + skill if port else 0)
        for skill in range(SKILLS)
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until interrupted. Prints an address a line, that of the most able agent first."""
    parser = argparse.ArgumentParser("python -m examples.four_skills.server", description=__doc__)
    parser.add_argument("--port", type=int, default=8781, help="the first of four; 0: free ones")
    try:
        servers = make_servers(parser.parse_args(arguments).port)
    except (OSError, OverflowError) as error:
        sys.exit(f"error: {error}")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
    with suppress(KeyboardInterrupt):
        threading.Event().wait()


if __name__ == "__main__":
    main()
