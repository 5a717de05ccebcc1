"""A small model on this machine: a server of our own, started with the first request and stopped
with the model or, whatever becomes of it, with this process. Greedy, and nothing is cached between
requests, so that it answers the same way twice."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from generators.seed import Seed
from harness.errors import HarnessError
from harness.model import Message, Reply, Role, TextRequest, Usage
from harness.models.local.weights import WEIGHTS, find_weights
from harness.models.membership import moments_of
from harness.models.providers import Connection, OpenAIModel, ProviderError, Sampling, post_json
from harness.models.token_logprobs import LOCAL

_VOCABULARY = 1 << 20  # tokens asked for: at least as many as the vocabulary holds
_CERTAIN = 1e5  # added to a logit, it leaves no other token a chance


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
        self._alias = f"{version}@{WEIGHTS[version].sha256[:12]}"
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
        """How likely the model finds each token from ``start`` on, and the moments of the whole
        vocabulary there: exact. One text at a time, since each token goes on from the one before;
        about a second a token. As ``respond``."""
        with self._scoring:
            return super().text_logprobs(request)

    async def _text_logprobs(self, chat: Any, request: TextRequest) -> Reply:
        with self._receiving() as received:
            server = str(self._base_url).removesuffix("/v1")
            tokens = await query_token_logprobs(chat.client, server, request, received)
            raw = json.dumps({LOCAL: tokens}).encode()
            usage = Usage(len(tokens), 0)
            return Reply(Message(Role.ASSISTANT, ""), usage, self._alias, raw=raw)

    def _settings(self, seed: Seed) -> dict[str, Any]:
        return {**super()._settings(seed), "extra_body": {"cache_prompt": False}}


async def query_token_logprobs(
    client: Any, server: str, request: TextRequest, received: list[bytes]
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
        received.clear()
    return scored


def _token_score(answer: Any, token: int, piece: bytes) -> dict[str, Any]:
    (place,) = answer["completion_probabilities"]
    if place["id"] != token:
        raise ProviderError("malformed", "another token than the one asked for")
    every = np.array([each["logprob"] for each in place["top_logprobs"]], dtype=np.float64)
    moments = moments_of(every)
    if moments is None:
        raise ProviderError("malformed", "not the whole vocabulary")
    mean, deviation = moments
    return {
        "bytes": piece.hex(),
        "logprob": place["logprob"],
        "mean": mean,
        "deviation": deviation,
    }


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
    parameters = {
        "path": str(path),
        "alias": alias,
        "key": key,
        "threads": threads,
        "context": context,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "harness.models.local.llama_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # the library's log may quote prompts
    )
    to, fro = _pipes(process)
    to.write(json.dumps(parameters).encode() + b"\n")
    to.flush()
    reply = fro.readline()
    if not reply:
        code = process.wait()
        raise HarnessError(f"the server of the local model ended as it started (exit code {code})")
    return LocalServer(str(json.loads(reply)["url"]), process)


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None:
        raise HarnessError("the local model's process has no line to it")
    return process.stdin, process.stdout
