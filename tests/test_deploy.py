"""The files of deploy/: as the harness expects them, and without a secret."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.seaweedfs import free_ports
from harness.sweep.outbox import OUTBOX
from registry.ledger.chain import Ledger
from registry.stores import open_store
from study.protocol.protocol import read_protocol
from study.steps import pipeline
from study.workspace.address import store_address
from study.workspace.study import Study
from tests.cases import cases
from tests.hosts import why_not
from tests.progress import Stall
from tests.study.conftest import make_study

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
STUDY = cases(__file__, "study")


def read(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))
    return loaded


def pods() -> dict[str, dict[str, Any]]:
    """The pod templates of both files for Kubernetes."""
    cluster = read("kuberay-rayjob.yaml")["spec"]["rayClusterSpec"]
    (workers,) = cluster["workerGroupSpecs"]
    return {
        "head": cluster["headGroupSpec"]["template"],
        "worker": workers["template"],
        "cron": read("cronjob.yaml")["spec"]["jobTemplate"]["spec"]["template"],
    }


def test_the_image_runs_without_rights_and_without_what_built_it() -> None:
    _, build, image = (DEPLOY / "Dockerfile").read_text().split("\nFROM ")
    assert "-r deploy/requirements.lock" in build
    assert "\nUSER 1000\n" in image
    assert "python3-venv" not in image


def containers(pod: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from pod["spec"]["initContainers"]
    yield from pod["spec"]["containers"]


def install(target: Path, requirements: str) -> Path:
    """Install what is locked by hashes into a folder of its own."""
    listed = target.with_suffix(".txt")
    listed.write_text(requirements)
    command = [Path(sys.executable).with_name("uv"), "pip", "install", "--quiet", "--no-deps"]
    subprocess.run(
        [*command, "--require-hashes", "--target", target, "-r", listed], check=True, timeout=200
    )
    return target


def test_the_ray_job_names_the_version_that_is_locked() -> None:
    cluster = read("kuberay-rayjob.yaml")["spec"]["rayClusterSpec"]
    for lock in (ROOT / "requirements.lock", DEPLOY / "requirements.lock"):
        assert f"\nray=={cluster['rayVersion']} " in lock.read_text()


def test_the_example_of_a_study_in_pods_is_one() -> None:
    assert read_protocol(DEPLOY, "pods-study.yaml").sandbox.runtime == "gvisor"


# --- The study by its address, secrets by reference ---


def test_no_deployment_holds_a_file_of_a_study() -> None:
    """What is in force is what is recorded in the store, and signed."""
    for name, pod in pods().items():
        assert not [each for each in pod["spec"]["volumes"] if "configMap" in each], name
    routine, place, *_ = read("kuberay-rayjob.yaml")["spec"]["entrypoint"].split()
    wave = pods()["cron"]["spec"]["containers"][0]
    for command, address in (routine, place), (wave["command"][-1], wave["args"][0]):
        assert command == "/opt/dosimeter/deploy/wave.sh"
        assert store_address(address) == address
        assert open_store(address).uri == address
    workflow = read("github-wave.yml")["jobs"]["wave"]
    assert 'deploy/wave.sh "$STUDY"' in workflow["steps"][-1]["run"]


@pytest.mark.parametrize("name", ["head", "worker", "cron"])
def test_a_pod_takes_secrets_by_reference_and_keeps_the_key_in_memory(name: str) -> None:
    pod = pods()[name]
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    used = set()
    for container in containers(pod):
        for variable in container.get("env", ()):
            if re.search("KEY$|TOKEN|SECRET", variable["name"]):
                assert set(variable) == {"name", "valueFrom"}, variable["name"]
                assert variable["valueFrom"]["secretKeyRef"]["name"]
        mounts = {mount["name"] for mount in container["volumeMounts"]}
        used |= mounts
        assert ("secret" in mounts) == (container["name"] == "key"), "the key's own secret"
    assert used == set(volumes), "each volume is used, and none is missing"
    if name != "worker":
        assert volumes["key"] == {"name": "key", "emptyDir": {"medium": "Memory"}}
    else:
        assert "key" not in volumes, "no worker gets the study's key"


@pytest.mark.parametrize("name", ["head", "worker", "cron"])
def test_a_pod_has_its_engine_first_and_on_a_dedicated_node(name: str) -> None:
    spec = pods()[name]["spec"]
    names = [container["name"] for container in spec["initContainers"]]
    assert names[-2:] == ["docker", "sandbox-image"]
    engine = spec["initContainers"][-2]
    assert engine["restartPolicy"] == "Always", "a sidecar"
    assert spec["nodeSelector"] == {"dosimeter": "sandboxes"}
    assert [each["key"] for each in spec["tolerations"]] == ["dosimeter"]
    privileged = [c["name"] for c in containers(pods()[name]) if c.get("securityContext")]
    assert privileged == ["docker"]


@pytest.mark.parametrize("name", ["worker", "cron"])
def test_a_pod_drains_before_it_ends_and_its_outbox_outlives_it(name: str) -> None:
    spec = pods()[name]["spec"]
    (worker,) = spec["containers"]
    (script,) = worker["lifecycle"]["preStop"]["exec"]["command"]
    assert os.access(DEPLOY / Path(script).relative_to("/opt/dosimeter/deploy"), os.X_OK)
    assert spec["terminationGracePeriodSeconds"] == 120, "what AWS leaves a spot instance"
    (outbox,) = (each["value"] for each in worker["env"] if each["name"] == OUTBOX)
    (volume,) = (each["name"] for each in worker["volumeMounts"] if each["mountPath"] == outbox)
    assert {"name": volume, "hostPath": {"path": outbox, "type": "DirectoryOrCreate"}} in (
        spec["volumes"]
    )


METADATA = cases(__file__, "metadata")
WORKER = cases(__file__, "worker")


@pytest.mark.skipif(bool(why_not()), reason="needs namespaces of processes and networks")
def test_a_spot_notice_drains_the_workers_of_its_host(tmp_path: Path) -> None:
    """The scripts, in a host of their own: they are to reach no worker of another test."""
    (tmp_path / "harness/sweep").mkdir(parents=True)
    (tmp_path / "harness/sweep/worker_process.py").write_text(WORKER)
    for part in ("api/token", "meta-data/spot/instance-action"):
        (tmp_path / "latest" / part).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "latest" / part).write_text("{}")
    script = tmp_path / "script"  # a file, so that no command line looks like a worker's
    script.write_text(f"""
    ip link set lo up; PYTHONPATH=. python3 -m harness.sweep.worker_process 3 &
    python3 -c "{METADATA}" & until [ -e started ]; do sleep 0.1; done
    METADATA=http://127.0.0.1:8000 {DEPLOY}/spot-notice.sh && [ -e drained ]
    """)
    own = ("unshare", "-n", "-m", "-p", "-f", "--mount-proc", "--kill-child")
    done = subprocess.run([*own, "bash", script], cwd=tmp_path, timeout=60)
    assert done.returncode == 0


def test_the_workflow_names_secrets_and_holds_none() -> None:
    (job,) = read("github-wave.yml")["jobs"].values()
    variables = {**job["env"]}
    for step in job["steps"]:
        variables |= step.get("env", {})
    for name, value in variables.items():
        if re.search("KEY$|TOKEN|SECRET", name):
            assert re.fullmatch(rf"\$\{{\{{ secrets\.{name} \}}\}}", value)


# --- A wave ---


@dataclass(frozen=True, slots=True)
class Head:
    """A running Ray node that is a whole cluster, as the prebuilt image starts it."""

    client: int
    dashboard: int
    environment: dict[str, str]


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Head]:
    lock = (DEPLOY / "requirements.lock").read_text()
    packages = install(tmp_path / "packages", lock)
    # A folder of its own, or a job takes the cluster that was last started on this machine; short,
    # since sockets lie in it.
    folder = tempfile.TemporaryDirectory(prefix="ray-")
    environment = os.environ | {
        "RAY_TMPDIR": folder.name,
        "PYTHONPATH": f"{packages}{os.pathsep}{ROOT}",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    port, *others = free_ports(3)
    made = Head(*others, environment)
    node = (
        *("ray.scripts.scripts", "start", "--head", "--block", f"--port={port}", "--num-cpus=1"),
        *(f"--dashboard-port={made.dashboard}", "--dashboard-host=127.0.0.1"),
        *("--object-store-memory=100000000", '--resources={"sandbox": 1, "head": 1}'),
    )
    # One server for one client: Ray's own, which starts one for each, cannot fork under gVisor.
    client = (
        *("ray.util.client.server", "--mode=legacy", f"--address=127.0.0.1:{port}"),
        *("--host=127.0.0.1", f"--port={made.client}"),
    )
    with ExitStack() as running:
        running.enter_context(folder)
        log = running.enter_context((tmp_path / "log").open("w+"))
        for module, ports in ((node, (port, made.dashboard)), (client, (made.client,))):
            process = subprocess.Popen(
                [sys.executable, "-m", *module],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            running.callback(process.wait)
            running.callback(os.killpg, process.pid, signal.SIGKILL)
            for each in ports:
                await_port(each, process, tmp_path / "log")
        yield made


def await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    stall = Stall(lambda: log.stat().st_size)
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        assert process.poll() is None, log.read_text()
        assert not stall.over(), log.read_text()
        time.sleep(0.2)


def closed_waves(study: Study) -> list[int]:
    ledger = pipeline.open_study(study.folder).ledger
    return [entry.record.wave for entry in ledger.find("wave-closed")]


def run_at(head: Head, *command: str) -> str:
    done = subprocess.run(
        command, env=head.environment, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.ray
def test_a_client_a_job_and_the_routine_run_waves_on_a_cluster(head: Head, tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", STUDY)
    sweep = (sys.executable, "-m", "study.main", "sweep", "--allow-dirty", "--study")
    client = f"ray://127.0.0.1:{head.client}"
    run_at(head, *sweep, str(study.folder), "--wave", "0", "--address", client)
    assert closed_waves(study) == [0]
    # The job has the address of the store and a key; nothing else of the study is there.
    key, cache = study.key_file.rename(tmp_path / "key.txt"), tmp_path / "cache"
    there = ("env", f"DOSIMETER_KEY_FILE={key}", f"XDG_CACHE_HOME={cache}")
    store = shutil.move(study.folder / "store", tmp_path / "elsewhere")
    routine = (*there, str(DEPLOY / "wave.sh"), f"file:{store}", "--allow-dirty")
    routine = (*routine, "--address", "auto")
    submit = (sys.executable, "-m", "ray.scripts.scripts", "job", "submit")
    address = f"--address=http://127.0.0.1:{head.dashboard}"
    assert "succeeded" in run_at(head, *submit, address, "--", *routine)
    closed = Ledger(open_store(f"file:{store}")).find("wave-closed")
    assert [entry.record.wave for entry in closed] == [0, 1]
    assert "every wave is closed" in run_at(head, *routine)
