"""A folder of agent tasks in Harbor's form (https://www.harborframework.com/docs/tasks), checked
whole. What would not run as it does there is refused by name (``task.schema.json``)."""

from __future__ import annotations

import base64
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from generators.errors import GeneratorError
from generators.items import DOCKERFILE
from generators.items.item import Item

INSTRUCTION, SETTINGS = "instruction.md", "task.toml"
_NEEDED = (INSTRUCTION, SETTINGS, DOCKERFILE, "tests/test.sh")
_COMPOSE = re.compile(r"(docker-)?compose.*\.ya?ml")
_BASE = re.compile(r"^(\s*FROM\s+(?:--\S+\s+)*|\s*COPY\s+(?:--\S+\s+)*?--from=)(\S+)", re.I | re.M)
_STAGE = re.compile(r"^\s*FROM\s.*\sAS\s+(\S+)", re.I | re.M)
_SCHEMA = Path(__file__).with_name("task.schema.json")
_UNITS = {"M": 1, "G": 1 << 10, "T": 1 << 20}  # MiB


def agent_task(
    name: str, files: Mapping[str, bytes], build_network: bool, stratum: str
) -> tuple[Item, str]:
    """Return the task in a folder as an item, and what the key ``stratum`` of its metadata says.
    Raises GeneratorError that names file and key."""
    for path in _NEEDED:
        if not files.get(path, b"").strip():
            raise GeneratorError(f"{path} is missing, or empty")
    if compose := [path for path in files if _COMPOSE.fullmatch(PurePosixPath(path).name)]:
        raise GeneratorError(f"{compose[0]}: a task is one container, and no compose file is read")
    table = _read_settings(files[SETTINGS])
    agent, verifier, place = (table.get(n, {}) for n in ("agent", "verifier", "environment"))
    answer = {
        "task": name,
        "limits": {
            "tool_seconds": float(agent.get("timeout_sec", 600)),
            "working_seconds": float(agent.get("timeout_sec", 600)),
            "memory_bytes": _bytes_of(place, "memory", 2048),
            "disk_bytes": _bytes_of(place, "storage", 10_240),
        },
        "environment": {
            "dockerfile": pin_bases(files[DOCKERFILE].decode(), str),
            "build_seconds": float(place.get("build_timeout_sec", 600)),
            "build_network": build_network,
            "folder": place.get("workdir", ""),
            "user": str(agent.get("user", "")),
            "variables": place.get("env", {}),
        },
        "verifier": {
            "seconds": float(verifier.get("timeout_sec", 600)),
            "user": str(verifier.get("user", "")),
            "variables": verifier.get("env", {}),
        },
    }
    kept = tuple((path, base64.b64encode(files[path]).decode()) for path in sorted(files))
    prompt = files[INSTRUCTION].decode().strip()
    item = Item(prompt=prompt, score="verifier", answer=answer, files=kept)
    return item, str(table.get("metadata", {}).get(stratum, ""))


def pin_bases(dockerfile: str, digest_of: Callable[[str], str]) -> str:
    """Return a Dockerfile with its base images by digest. Raises GeneratorError for a base that
    only the build would know."""
    stages = {stage.lower() for stage in _STAGE.findall(dockerfile)} | {"scratch"}

    def pin(found: re.Match[str]) -> str:
        if "$" in found[2]:
            raise GeneratorError(f"{DOCKERFILE}: {found[2]}: name the base image itself")
        own = found[2].lower() in stages or found[2].isdigit()
        return found[0] if own else found[1] + digest_of(found[2])

    return _BASE.sub(pin, dockerfile)


def _read_settings(data: bytes) -> dict[str, Any]:
    from jsonschema import Draft202012Validator

    try:
        table = tomllib.loads(data.decode())
    except ValueError as error:
        raise GeneratorError(f"{SETTINGS}: no TOML: {error}") from None
    for fault in Draft202012Validator(json.loads(_SCHEMA.read_text())).iter_errors(table):
        key, reason = ".".join(map(str, fault.path)), fault.schema.get("description", fault.message)
        raise GeneratorError(f"{SETTINGS}: {key} = {str(fault.instance)[:60]}: {reason}")
    return table


def _bytes_of(place: Mapping[str, Any], name: str, usual: int) -> int:
    if (size := place.get(name)) is not None:  # of older schemas
        return int(size[:-1]) * _UNITS[size[-1]] << 20
    return int(place.get(f"{name}_mb", usual)) << 20
