"""cluster.yaml is as the harness expects it, and holds no secret."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cases import cases

CLUSTER = Path(__file__).resolve().parent.parent / "cluster.yaml"


@pytest.fixture
def config() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(CLUSTER.read_text(encoding="utf-8"))
    return loaded


def test_the_head_works_on_nothing_and_workers_take_sandboxes(config: dict[str, Any]) -> None:
    types = config["available_node_types"]
    head = types[config["head_node_type"]]
    assert head["resources"]["CPU"] == 0
    assert "sandbox" not in head["resources"]
    workers = [kind for name, kind in types.items() if name != config["head_node_type"]]
    assert workers
    assert all(kind["resources"]["sandbox"] >= 1 for kind in workers)
    assert all(kind["min_workers"] < kind["max_workers"] for kind in workers)


def test_ray_runs_on_the_hosts_with_a_token(config: dict[str, Any]) -> None:
    assert "docker" not in config, "Ray in a container would need the host's Docker socket"
    commands = "\n".join(config["setup_commands"])
    assert "RAY_AUTH_MODE=token" in commands
    assert "docker.io" in commands


def test_no_secret_is_in_the_file_and_nothing_is_copied_from_the_launcher(
    config: dict[str, Any],
) -> None:
    assert not config["file_mounts"]
    assert not re.search(r"AKIA|AGE-SECRET-KEY|(KEY|TOKEN|SECRET)=[^$/]", CLUSTER.read_text())
    start = [*config["head_start_ray_commands"], *config["worker_start_ray_commands"]]
    assert all(command.startswith((". ~/.dosimeter.sh", "nohup /opt/")) for command in start)
    assert "/opt/dosimeter/deploy/aws-secrets.sh" in "\n".join(config["setup_commands"])
    for kind in config["available_node_types"].values():
        assert kind["node_config"]["IamInstanceProfile"]["Name"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="nodes run bash")
def test_parameters_become_the_environment_and_no_file(tmp_path: Path) -> None:
    aws = tmp_path / "aws"
    aws.write_text(cases(__file__, "aws"))
    aws.chmod(0o755)
    script = CLUSTER.parent / "deploy" / "aws-secrets.sh"
    done = subprocess.run(
        ["bash", "-euc", f'. {script}; echo "$NOVA_KEY, $TOKEN"; ls -A'],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "DOSIMETER_SECRETS": "/dosimeter/env/"},
        capture_output=True,
        text=True,
    )
    expected = "value of /dosimeter/env/NOVA_KEY, value of /dosimeter/env/TOKEN\naws\n"
    assert done.stdout == expected, done.stderr
