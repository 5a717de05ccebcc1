"""The same seed makes the same bytes in another process (spec/physics.md, R1 and R2)."""

from __future__ import annotations

import hashlib
import importlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from generators.errors import GeneratorError
from generators.seed import Seed
from generators.task import Family, TaskInstance

_CHECKOUT = Path(__file__).resolve().parent.parent.parent


def instance_digest(instance: TaskInstance) -> str:
    """SHA-256 over every byte of an instance: id, spec, brief, files, truth and rubric."""
    import rfc8785

    brief = instance.brief
    record: dict[str, Any] = {
        "id": instance.id,
        "stratum": instance.spec.stratum,
        "version": instance.spec.version,
        "parameters": dict(instance.spec.parameters),
        "prompt": brief.prompt,
        "answer_schema": brief.answer_schema,
        "limits": {name: getattr(brief.limits, name) for name in brief.limits.__slots__},
        "assets": [[asset.path, asset.media_type] for asset in brief.assets],
        "truth": instance.truth.as_json(),
        "rubric": instance.rubric.as_json(),
    }
    hasher = hashlib.sha256(rfc8785.dumps(record))
    for asset in brief.assets:
        hasher.update(len(asset.data).to_bytes(8, "big") + asset.data)
    return "sha256:" + hasher.hexdigest()


def digests_elsewhere(family: Family, difficulty: str, seeds: Sequence[Seed]) -> list[str]:
    """The instances' digests as another process makes them, with other hash randomisation and
    without numpy's faster code paths (R2)."""
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "generators.validation.validate",
            f"{family.name}@{family.version}",
            difficulty,
        ],
        input="".join(f"{seed.hex}\n" for seed in seeds),  # never on a command line
        cwd=_CHECKOUT,
        env=os.environ | {"PYTHONHASHSEED": "4242"} | _same_path() | _without_simd(),
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode != 0:
        last = ended.stderr.strip().rsplit("\n", 1)[-1]
        raise GeneratorError(f"the other process that makes {family.name} failed: {last}")
    return ended.stdout.split()


def _same_path() -> dict[str, str]:
    """The other process starts in another folder: relative places of packages would be lost."""
    places = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    return {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, places))} if places else {}


def _without_simd() -> dict[str, str]:
    """The environment that turns off each code path that numpy would choose on this machine."""
    core = importlib.import_module("numpy._core._multiarray_umath")
    chosen = [name for name in core.__cpu_dispatch__ if core.__cpu_features__[name]]
    return {"NPY_DISABLE_CPU_FEATURES": " ".join(chosen)} if chosen else {}
