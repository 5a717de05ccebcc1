"""Fixtures that several areas share."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

# The same examples on every run, nothing written into the checkout, no timed tests.
settings.register_profile(
    "repeatable",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")


def pytest_collection() -> None:
    """Collect no garbage while ten thousand tests are made, which stay."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave the tests and all modules out of every later garbage collection: of a million objects
    it takes half a second, and statsmodels has one in each adjustment of p-values."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def stored_demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the stored demo study (tests/data/README.md), to be read only."""
    folder = tmp_path_factory.mktemp("stored")
    with tarfile.open(ROOT / "tests/data/demo-study.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "demo-study"


@pytest.fixture
def demo_study(stored_demo: Path, tmp_path: Path) -> Path:
    """A copy of the stored demo study of a test's own, without its last report."""
    copy = tmp_path / "demo-study"
    shutil.copytree(stored_demo, copy, ignore=shutil.ignore_patterns("wave-2"))
    return copy


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB of its own. Only root can mount one."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small tmpfs")
    folder = tmp_path / "disk"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    mounted = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running S3 server. Its credentials are in the environment while the fixture lives."""

    endpoint: str
    bucket: str

    def uri(self, prefix: str) -> str:
        """The URI of a store below a prefix."""
        return f"s3://{self.bucket}/{prefix}?endpoint={self.endpoint}&region=us-east-1"


@pytest.fixture(scope="session")
def s3_credentials() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "dosimeter")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "dosimeter-secret")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield


@pytest.fixture(scope="session")
def seaweedfs(s3_credentials: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3 server (SeaweedFS) on free loopback ports, for the whole session."""
    folder = tmp_path_factory.mktemp("seaweedfs")
    script = [sys.executable, str(ROOT / "benchmarks/seaweedfs.py"), str(folder)]
    server = subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        line = server.stdout.readline()
        assert line, (folder / "weed.log").read_text()[-2000:]
        ready = json.loads(line)
        yield S3Server(ready["endpoint"], ready["bucket"])
    finally:
        server.stdin.close()
        server.stdout.close()
        server.wait()


@pytest.fixture(scope="session")
def moto(s3_credentials: None) -> Iterator[S3Server]:
    """A quick S3 server (moto), in this process."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    import boto3

    boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1").create_bucket(
        Bucket="bucket"
    )
    yield S3Server(endpoint, "bucket")
    server.stop()


@pytest.fixture
def provider_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of every provider in the environment, as the tests' servers take them."""
    from tests.conformance.clients import ENVIRONMENT

    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
