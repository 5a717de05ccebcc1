"""Fixtures that several areas share."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

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


ENGINES = "engines"
GROUPS_FILE = pytest.StashKey[Path]()
GROUPS = pytest.StashKey[dict[str, str]]()


def _group_of(item: pytest.Item) -> str | None:
    """The group of a test that shares a worker process with tests of other files: one for engines
    and clusters, by its own marks, and one for the finished study (tests/study/conftest.py)."""
    if any(item.get_closest_marker(name) for name in ("docker", "ray")):
        return ENGINES
    return "finished" if "finished" in getattr(item, "fixturenames", ()) else None


class GroupScheduling(LoadScopeScheduling):
    """Runs the tests of a group one at a time, on one worker. A file is a group, but for those of
    its tests that belong to another."""

    def _split_scope(self, nodeid: str) -> str:
        groups = self.config.stash.setdefault(GROUPS, {})
        if not groups:  # asked when all workers have collected
            groups |= json.loads(self.config.stash[GROUPS_FILE].read_text(encoding="utf-8"))
        return groups.get(nodeid, nodeid.split("::")[0])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of xdist where to write the groups: it alone sees the marks of tests."""
    stash = node.config.stash
    if GROUPS_FILE not in stash:
        stash[GROUPS_FILE] = Path(tempfile.mkdtemp(prefix="groups-")) / "groups.json"
    node.workerinput["groups"] = str(stash[GROUPS_FILE])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    """Schedule by groups. The option `--dist loadgroup` of xdist 3.8 does nothing with pytest 9."""
    return GroupScheduling(config, log)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the file of the groups."""
    if GROUPS_FILE in config.stash:
        shutil.rmtree(config.stash[GROUPS_FILE].parent)


def pytest_collection() -> None:
    """Collect no garbage while ten thousand tests are made, which stay."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave the tests and all modules out of every later garbage collection: of a million objects
    it takes half a second, and statsmodels has one in each adjustment of p-values."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with engines and clusters, which take longest; write the groups for the scheduler."""
    groups = {item.nodeid: group for item in items if (group := _group_of(item))}
    items.sort(key=lambda item: groups.get(item.nodeid) != ENGINES)
    worker = getattr(config, "workerinput", {})
    if worker.get("workerid") == "gw0":
        Path(worker["groups"]).write_text(json.dumps(groups), encoding="utf-8")


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
    subprocess.run(["umount", str(folder)], check=True)


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
