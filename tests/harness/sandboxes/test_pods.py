"""Sandboxes as Pods, of a server that has each as a container: what one is, and how it is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from generators.task import Limits
from harness.errors import AttemptFailed, HarnessError
from harness.sandboxes import pods
from harness.sandboxes.image import ensure_image
from harness.sandboxes.pods import PodApi, PodSandboxes, sweep
from tests.cases import cases
from tests.pod_api import PodServer, engine, pod_server
from tests.progress import wait_until
from tests.study.conftest import TINY, make_study, run_wave

pytestmark = pytest.mark.docker

LIMITS = Limits(memory_bytes=96 << 20, disk_bytes=16 << 20, processes=32, output_bytes=4096)
LOST, REFUSED = cases(__file__, "lost"), cases(__file__, "refused")


@pytest.fixture(scope="module")
def image() -> str:
    return f"any/sandbox@{ensure_image().digest}"


@pytest.fixture
def server() -> Iterator[PodServer]:
    with pod_server() as running:
        yield running


@pytest.fixture
def provider(server: PodServer, image: str) -> Iterator[PodSandboxes]:
    with closing(PodSandboxes(image)) as opened:
        yield opened


def test_a_pod_meets_the_restricted_standard(server: PodServer, image: str) -> None:
    with closing(PodSandboxes(image, runtime="gvisor")) as provider:
        pod = server.pods[provider.open([], LIMITS).id]
        for path, value in cases(__file__, "pod").items():
            found: Any = pod
            for key in path.split("."):
                found = found[int(key) if key.isdigit() else key]
            assert found == value, path
    assert not server.pods, "close deletes what was open"
    with pytest.raises(AttemptFailed, match="closed"):
        provider.open([], LIMITS)


def test_no_two_have_the_same_user(provider: PodSandboxes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "_UIDS", 1)
    with ThreadPoolExecutor(1) as later:
        first = provider.open([], LIMITS)
        assert int(first.run(["id", "-u"], 10).output) == 200_000
        second = later.submit(provider.open, [], LIMITS)
        time.sleep(1.0)
        assert not second.done()
        first.close()
        second.result().close()


def test_a_program_cannot_speak_for_the_tool_server(provider: PodSandboxes) -> None:
    """Though it has its user."""
    with provider.open([], LIMITS) as box:
        assert box.run(["python3", "-c", cases(__file__, "speaker")], 10).output == b"tried\n"


@pytest.mark.parametrize(("program", "cause", "limits"), LOST.values(), ids=LOST)
def test_why_a_sandbox_is_lost(
    provider: PodSandboxes, server: PodServer, program: str, cause: str, limits: list[str] | None
) -> None:
    box = provider.open([], LIMITS)
    box._connection._grace = 1.0

    def act() -> None:
        ended = [{"state": {"terminated": {"reason": cause}}}]
        server.phase = {"phase": "Failed", "containerStatuses": ended}
        server.remove(box.id) if cause == "deleted" else engine("kill", box.id)

    threading.Timer(1.0, act if cause else lambda: None).start()
    if limits is None:
        with pytest.raises(AttemptFailed, match="server gone"):
            box.run(["bash", "-c", program], 20)
    else:
        result = box.run(["bash", "-c", program], 2)
        assert (result.exit_code, result.limits) == (137, tuple(limits))


def test_a_pod_without_its_owner_ends_and_is_swept(
    server: PodServer, image: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recipe = tmp_path / "pod.yaml"
    recipe.write_text(pods._RECIPE.read_text().replace("quiet < 60", "quiet < 2"))
    monkeypatch.setattr(pods, "_RECIPE", recipe)
    with closing(PodSandboxes(image)) as provider:
        left, box = provider.open([], LIMITS), provider.open([], LIMITS)
        left._connection._link._channels.socket.close()  # type: ignore[attr-defined]
        wait_until(lambda: server.status(left.id)["phase"] == "Succeeded")
        sweep(PodApi.here())
        assert left.id in server.pods, "its owner may ask why it ended"
        monkeypatch.setattr(pods, "_OVER", timedelta(0))
        sweep(PodApi.here())
        assert set(server.pods) == {box.id}
        assert box.run(["echo", "1"], 10).output == b"1\n"


# --- what goes wrong outside ---


@pytest.mark.parametrize(("refuse", "phase", "words"), REFUSED.values(), ids=REFUSED)
def test_a_cluster_that_starts_none_is_named(
    server: PodServer, image: str, refuse: list[Any] | None, phase: Any, words: str
) -> None:
    server.refuse, server.phase = refuse and (refuse[0], refuse[1]), phase
    with pytest.raises(HarnessError, match=words):
        PodSandboxes(image)
    assert not server.pods


def test_a_quota_is_waited_for_and_other_refusals_pause_the_worker(
    server: PodServer, provider: PodSandboxes
) -> None:
    server.refuse = 403, "exceeded quota: sandboxes"
    threading.Timer(1.5, lambda: setattr(server, "refuse", None)).start()
    provider.open([], LIMITS)
    server.refuse = 500, "etcd is away"
    for _ in range(3):
        assert provider.trouble == ""
        with pytest.raises(AttemptFailed, match="not created: etcd is away"):
            provider.open([], LIMITS)
    assert provider.trouble == "etcd is away"
    server.refuse = None
    wait_until(lambda: not provider.trouble)


def test_a_cluster_with_a_network_is_refused(image: str) -> None:
    with pod_server("host"), pytest.raises(HarnessError, match="reach its network"):
        PodSandboxes(image)


def test_outside_of_a_cluster_it_is_said(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HarnessError, match="this runs in none"):
        PodSandboxes(image)
    monkeypatch.setenv(pods.ADDRESS, "http://127.0.0.1:9/api/v1/namespaces/boxes")
    with pytest.raises(HarnessError, match="boxes does not answer"):
        PodSandboxes(image)


def test_a_study_runs_in_pods(server: PodServer, image: str, tmp_path: Path) -> None:
    text = TINY.replace("{kind: local}", f"{{kind: pods, image: {image!r}}}")
    closed = run_wave(make_study(tmp_path, text), parallel=2)
    assert closed.missing == 0, closed
    assert not server.pods
    assert server.asked.count("create") > 4, "one a sandbox"
