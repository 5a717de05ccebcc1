"""The files of deploy/ and cluster.yaml: valid to the published schemas of those who read them, as
the harness expects them, and without a secret."""

from __future__ import annotations

import copy
import json
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

import jsonschema
import pytest
import yaml

from registry.ledger.chain import Ledger
from registry.stores import open_store
from study.steps import pipeline
from study.workspace.address import store_address
from study.workspace.study import Study
from tests.progress import Stall
from tests.study.conftest import make_study

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
# Schemas in packages that are too large for every checkout (72 MB unpacked), so that they are
# installed for these tests only, which are slow ones: Kubernetes' own by release, and GitHub's of
# workflows. KubeRay's is in no package, and far larger: tests/data has its own fields.
SCHEMAS = """\
check-jsonschema==0.39.0 \\
    --hash=sha256:14ce5c94871c551268ea948ffe21e9f1464dc48fb20bf9a4c13deeaaf756cf9b
importlib-resources==7.1.0 \\
    --hash=sha256:1bd7b48b4088eddb2cd16382150bb515af0bd2c70128194392725f82ad2c96a1
kubernetes-validate==1.37.0 \\
    --hash=sha256:85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9
"""
KUBERNETES = "1.33"
STUDY = """\
study: deployed
tasks: [compute_average/easy]
seeds_per_arm: 2
models:
  first: {provider: scripted, agent: honest, error_rate: 0.2}
  second: {provider: scripted, agent: honest, error_rate: 0.4}
waves:
  - [first, second]
  - [first, second]
plan: {permutations: 199}
sandbox: {kind: local}
"""


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


# --- Ray's schemas ---


def test_ray_reads_the_cluster_of_the_ray_job_and_finds_the_resources() -> None:
    from ray.autoscaler._private.kuberay import autoscaling_config

    cluster = read("kuberay-rayjob.yaml")["spec"]["rayClusterSpec"]
    made = autoscaling_config._derive_autoscaling_config_from_ray_cr(
        {"metadata": {"name": "wave", "namespace": "default"}, "spec": cluster}
    )
    head, workers = (made["available_node_types"][name] for name in ("headgroup", "sandboxes"))
    assert head["resources"]["CPU"] == 0
    assert head["resources"]["head"] == 1
    assert "sandbox" not in head["resources"]
    assert workers["resources"]["sandbox"] == 1
    assert workers["min_workers"] == 0
    assert workers["max_workers"] == 8


KUBERAY = json.loads((ROOT / "tests/data/kuberay-1.6.2.json").read_text(encoding="utf-8"))


def kuberay_faults(job: dict[str, Any]) -> list[str]:
    """What KubeRay's own fields of a RayJob say against it; pods are Kubernetes' matter."""
    check = jsonschema.Draft202012Validator(KUBERAY)
    return [f"{error.json_path}: {error.message}" for error in check.iter_errors(job)]


def test_kuberay_has_each_field_of_the_ray_job() -> None:
    assert kuberay_faults(read("kuberay-rayjob.yaml")) == []


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (("backofLimit",), 4, "'backofLimit' was unexpected"),
        (("backoffLimit",), "4", "'4' is not of type 'integer'"),
        (("shutdownAfterJobFinishes",), False, "True was expected"),
        (("rayClusterSpec", "authOptions", "mode"), "tokens", "is not one of"),
        (("rayClusterSpec", "autoscalerOptions", "idleSeconds"), 1, "'idleSeconds' was unexpected"),
        (("rayClusterSpec", "headGroupSpec", "rayStartParams", "num-cpus"), 0, "'string'"),
        (("rayClusterSpec", "workerGroupSpecs", 0, "maxReplica"), 8, "'maxReplica' was unexpected"),
    ],
    ids=lambda value: str(value[-1]) if isinstance(value, tuple) else "",
)
def test_kuberay_refuses_a_ray_job_with_a_wrong_field(
    path: tuple[Any, ...], value: object, fault: str
) -> None:
    job = read("kuberay-rayjob.yaml")
    place = job["spec"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    (found,) = kuberay_faults(job)
    assert fault in found


def test_the_ray_job_names_the_version_that_is_locked() -> None:
    cluster = read("kuberay-rayjob.yaml")["spec"]["rayClusterSpec"]
    for lock in (ROOT / "requirements.lock", DEPLOY / "requirements.lock"):
        assert f"\nray=={cluster['rayVersion']} " in lock.read_text()


# --- The study by its address, secrets by reference ---


def test_no_deployment_holds_a_file_of_a_study() -> None:
    """What is in force is what is recorded in the store, and signed."""
    for name, pod in pods().items():
        assert not [each for each in pod["spec"]["volumes"] if "configMap" in each], name
    routine, place, *_ = read("kuberay-rayjob.yaml")["spec"]["entrypoint"].split()
    wave = pods()["cron"]["spec"]["containers"][0]
    for command, address in (routine, place), (wave["command"][0], wave["args"][0]):
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


def test_the_workflow_names_secrets_and_holds_none() -> None:
    (job,) = read("github-wave.yml")["jobs"].values()
    variables = {**job["env"]}
    for step in job["steps"]:
        variables |= step.get("env", {})
    for name, value in variables.items():
        if re.search("KEY$|TOKEN|SECRET", name):
            assert re.fullmatch(rf"\$\{{\{{ secrets\.{name} \}}\}}", value)


# --- Kubernetes' and GitHub's schemas ---


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("schemas") / "packages", SCHEMAS)


def kubernetes_faults(schemas: Path, resource: dict[str, Any]) -> str:
    """What Kubernetes' schema, unknown keys refused, says against a resource; "" if nothing."""
    check = f"""
import json, sys
import kubernetes_validate
try:
    kubernetes_validate.validate(json.load(sys.stdin), {KUBERNETES!r}, strict=True)
except kubernetes_validate.ValidationError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", check],
        input=json.dumps(resource),
        env=os.environ | {"PYTHONPATH": str(schemas)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def as_job(pod: dict[str, Any]) -> dict[str, Any]:
    """A resource that Kubernetes knows with this pod."""
    pod = copy.deepcopy(pod)
    pod["spec"].setdefault("restartPolicy", "Never")
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}}
    return {**job, "spec": {"template": pod}}


@pytest.mark.slow
def test_kubernetes_accepts_the_cron_job_and_the_pods_of_the_ray_job(schemas: Path) -> None:
    assert kubernetes_faults(schemas, read("cronjob.yaml")) == ""
    for name in ("head", "worker"):
        assert kubernetes_faults(schemas, as_job(pods()[name])) == "", name
    wrong = as_job(pods()["worker"])
    wrong["spec"]["template"]["spec"]["containers"][0]["volumeMount"] = []
    assert "volumeMount" in kubernetes_faults(schemas, wrong), "the check can fail"


@pytest.mark.slow
def test_github_accepts_the_workflows(schemas: Path) -> None:
    vendored = schemas / "check_jsonschema/builtin_schemas/vendor/github-workflows.json"
    check = jsonschema.Draft7Validator(json.loads(vendored.read_text()))
    for path in (DEPLOY / "github-wave.yml", ROOT / ".github/workflows/ci.yml"):
        workflow = yaml.safe_load(path.read_text())
        workflow["on"] = workflow.pop(True)  # YAML 1.1 reads `on` as true
        assert [error.message for error in check.iter_errors(workflow)] == []
        del workflow["jobs"]
        assert list(check.iter_errors(workflow)), "the check can fail"


# --- A wave ---


@dataclass(frozen=True, slots=True)
class Head:
    """A running Ray node that is a whole cluster, as the prebuilt image starts it."""

    client: int
    dashboard: int
    environment: dict[str, str]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
    port, made = free_port(), Head(free_port(), free_port(), environment)
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
