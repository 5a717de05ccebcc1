"""The program that serves a local model: llama.cpp over HTTP on the loopback, until the process
that started it closes the line, by ending in whatever way.

It reads one line of JSON (path, alias, key, threads, context) and writes one, the port.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    """Serve until standard input ends; its first line has the parameters as JSON."""
    settings = json.loads(sys.stdin.readline())
    line = os.dup(1)
    os.dup2(2, 1)  # what the library prints must not mix with the reply
    from xllamacpp import CommonParams, Server

    params = CommonParams()
    params.model.path = settings["path"]
    params.model_alias = {settings["alias"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [settings["key"]]
    params.n_ctx = settings["context"]
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.n_gpu_layers = 0
    params.sampling.temp = 0.0
    params.use_jinja = True
    params.warmup = False
    params.ui = False
    server = Server(params)
    os.write(line, json.dumps({"url": server.listening_address}).encode() + b"\n")
    sys.stdin.read()  # ends with whoever holds the other end
    os._exit(0)


if __name__ == "__main__":
    main()
