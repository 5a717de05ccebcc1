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
import random
import socket
import subprocess
import sys
import time
from pathlib import Path

BUCKET = "artifacts"
SECONDS = 60
PORTS = ("s3.port", "master.port", "volume.port", "filer.port", "admin.port", "metricsPort")


def main() -> None:
    folder = Path(sys.argv[1])
    address = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"
    port = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
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


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that are free, with their gRPC siblings 10,000 above.

    None is in a range that Linux gives to outgoing connections (from 32,768), or Ray to its workers
    (10,002 to 19,999): another process would take it before the server does.
    """
    ports = random.SystemRandom().sample(range(20_000, 22_000), 200)
    return [port for port in ports if _is_free(port) and _is_free(port + 10_000)][:count]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


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
