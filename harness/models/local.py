"""A small model on this machine: a server of our own, started with the first request and stopped
with the model or, whatever becomes of it, with this process. Greedy, and nothing is cached between
requests, so that it answers the same way twice."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from generators.seed import Seed
from harness.errors import HarnessError
from harness.models.openai import OpenAIModel
from harness.models.served import Connection, Sampling
from harness.models.weights import WEIGHTS, find_weights


class LocalModel(OpenAIModel):
    """A model of ``WEIGHTS``, on ``threads`` of this machine, with ``context`` tokens."""

    def __init__(
        self,
        name: str,
        version: str,
        threads: int = 1,
        context: int = 8192,
        max_tokens: int = 512,
        seconds: float = 300.0,
    ) -> None:
        sampling = Sampling(temperature=0.0, max_tokens=max_tokens, seconds=seconds)
        super().__init__(name, version, "", secrets.token_urlsafe(24), sampling)
        self._threads, self._context = threads, context
        self._server: LocalServer | None = None

    def close(self) -> None:
        super().close()
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _connect(self) -> Connection:
        alias = f"{self._version}@{WEIGHTS[self._version].sha256[:12]}"
        path = find_weights(self._version)
        self._server = start_server(path, alias, self._api_key, self._threads, self._context)
        self._base_url = f"{self._server.url}/v1"
        return await super()._connect()

    def _settings(self, seed: Seed) -> dict[str, Any]:
        return {**super()._settings(seed), "extra_body": {"cache_prompt": False}}


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A running server. It ends when its line is closed."""

    url: str
    process: subprocess.Popen[bytes]

    def close(self) -> None:
        to, fro = _pipes(self.process)
        to.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:  # in the midst of a long computation
            self.process.kill()
            self.process.wait()
        fro.close()


def start_server(path: Path, alias: str, key: str, threads: int, context: int) -> LocalServer:
    """Serve the weights at the path, for who holds the key. Raises HarnessError."""
    told = {"path": str(path), "alias": alias, "key": key, "threads": threads, "context": context}
    process = subprocess.Popen(
        [sys.executable, "-m", "harness.models.local_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # the library's log may quote prompts
    )
    to, fro = _pipes(process)
    to.write(json.dumps(told).encode() + b"\n")
    to.flush()
    said = fro.readline()
    if not said:
        code = process.wait()
        raise HarnessError(f"the server of the local model ended as it started (exit code {code})")
    return LocalServer(str(json.loads(said)["url"]), process)


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None:
        raise HarnessError("the local model's process has no line to it")
    return process.stdin, process.stdout
