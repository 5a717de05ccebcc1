"""cluster.yaml: valid to Ray's own checks, and as the harness expects it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

CLUSTER = Path(__file__).resolve().parent.parent / "cluster.yaml"


@pytest.fixture
def config() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(CLUSTER.read_text(encoding="utf-8"))
    return loaded


def test_ray_accepts_it(config: dict[str, Any]) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(config))


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
    assert any(path.endswith("auth_token") for path in config["file_mounts"])
