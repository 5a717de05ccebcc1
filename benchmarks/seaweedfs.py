"""A SeaweedFS server for tests and benchmarks: python benchmarks/seaweedfs.py FOLDER [ADDRESS]

Starts the ``weed`` of this environment on free ports of the loopback address, or of another of this
machine, with its data in FOLDER and the credentials of the environment; prints one JSON line when
the bucket can be used; stops when its standard input ends, so that whoever started it cannot leave
it behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

BUCKET = "artifacts"
SECONDS = 60


def main() -> None:
    folder = Path(sys.argv[1])
    address = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"
    port = free_ports()
    with (folder / "weed.log").open("wb") as log:
        weed = command(folder, address, port)
        server = subprocess.Popen(
            weed, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=folder
        )
    try:
        endpoint = f"http://{address}:{port['s3.port']}"
        await_bucket(endpoint, server)
        metrics = f"http://127.0.0.1:{port['metricsPort']}/metrics"
        print(json.dumps({"endpoint": endpoint, "bucket": BUCKET, "metrics": metrics}), flush=True)
        sys.stdin.read()
    finally:
        server.kill()
        server.wait()


def command(folder: Path, address: str, ports: dict[str, int]) -> list[str]:
    weed = Path(sys.executable).parent / "weed"
    flags = [f"-{name}={number}" for name, number in ports.items()]
    off = ["-admin.ui=false", "-webdav=false", "-s3.port.iceberg=0", "-s3.port.lance=0"]
    where = [f"-dir={folder}", f"-ip={address}", f"-ip.bind={address}", f"-bucket={BUCKET}"]
    return [str(weed), "mini", *where, *flags, *off, "-master.telemetry=false"]


def free_ports() -> dict[str, int]:
    """Ports that are free now, and their gRPC siblings 10,000 above."""
    names = ("s3.port", "master.port", "volume.port", "filer.port", "admin.port", "metricsPort")
    with contextlib.ExitStack() as sockets:
        return {name: _free_pair(sockets) for name in names}


def _free_pair(sockets: contextlib.ExitStack) -> int:
    while True:
        first, second = socket.socket(), socket.socket()
        sockets.enter_context(first)
        sockets.enter_context(second)
        first.bind(("127.0.0.1", 0))
        port = int(first.getsockname()[1])
        with contextlib.suppress(OSError, OverflowError):
            second.bind(("127.0.0.1", port + 10_000))
            return port


def await_bucket(endpoint: str, server: subprocess.Popen[bytes]) -> None:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    config = Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"})
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", config=config)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and server.poll() is None:
        with contextlib.suppress(BotoCoreError, ClientError):
            client.put_object(Bucket=BUCKET, Key="ready", Body=b"")
            client.delete_object(Bucket=BUCKET, Key="ready")
            return
        time.sleep(0.1)
    raise SystemExit("seaweedfs did not start; see weed.log in its folder")


if __name__ == "__main__":
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "dosimeter")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "dosimeter-secret")
    main()
