"""The data sets of reasoning-gym: which can be used, their entries, and their own scorers.

``datasets.json`` is what ``scripts/gym_page.py`` measured of each at this version. The package
itself takes seconds to import, so that only making an entry and scoring an answer do it.
"""

from __future__ import annotations

import json
import sys
from ast import literal_eval
from collections.abc import Mapping
from functools import cache, lru_cache
from hashlib import sha256
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType
from typing import Any

from generators.errors import GeneratorError, unknown
from generators.family import read_part
from generators.seed import Seed

PACKAGE, VERSION = "reasoning-gym", "0.1.25"
# Of the files of its wheel (``wheel_digest``).
WHEEL = "sha256:391a8021e68f2ec6ea0daa984e10e6f893cf1515d7e36cd20b250d45efcca25f"
DEFAULT, LEVEL = "default", "level_"


@cache
def facts() -> Mapping[str, Mapping[str, Any]]:
    """What was measured of each data set, by name."""
    measured: dict[str, dict[str, Any]] = json.loads(read_part(__package__, "datasets.json"))
    return measured


def configurations(name: str) -> tuple[str, ...]:
    """The configurations of a data set that can be used. Raises GeneratorError for an unknown data
    set, and for one that cannot be used."""
    if name not in facts():
        raise unknown("data set of reasoning-gym", name, facts())
    if reason := facts()[name].get("refused"):
        raise GeneratorError(f"the data set {name} of reasoning-gym cannot be used: {reason}")
    return tuple(facts()[name]["configurations"])


def make_entry(name: str, configuration: str, seed: Seed) -> dict[str, Any]:
    """The entry that the data set makes of a seed, in plain values; its key gets full marks.
    Raises GeneratorError."""
    place = f"{name}/{configuration} of {PACKAGE}"
    package = load_package()
    try:
        made = _dataset(package, name, configuration, int.from_bytes(seed.value, "big"))[0]
    except Exception as error:  # external code may raise anything
        raise GeneratorError(f"{place}: it makes no entry: {error}") from error
    entry: dict[str, Any] = plain(made)
    if not isinstance(key := entry["answer"], str):
        raise GeneratorError(f"{place}: its entries have no key")
    if not full_marks(name, configuration, repr(entry), key):
        raise GeneratorError(f"{place}: its own key does not always get full marks")
    return entry


def full_marks(name: str, configuration: str, entry: str, answer: str) -> bool:
    """Report if the data set's own scorer gives an answer full marks; not if it fails at it. It may
    run what an untrusted answer says, and take forever. Raises GeneratorError without the
    package."""
    scorer = _scorer(name, configuration)
    try:
        return float(scorer.score_answer(answer, literal_eval(entry))) >= 1.0
    except Exception:  # scorers raise all kinds of errors at answers that they did not expect
        return False


@lru_cache(maxsize=16)
def _scorer(name: str, configuration: str) -> Any:
    return _dataset(load_package(), name, configuration, 0)


def _dataset(package: ModuleType, name: str, configuration: str, seed: int) -> Any:
    factory = package.factory
    make, settings = factory.DATASETS[name]
    if configuration == DEFAULT:
        return make(settings(seed=seed, size=1))
    curriculum = factory.CURRICULA[name]()
    curriculum.set_global_level(int(configuration.removeprefix(LEVEL)))
    return make(curriculum.generate_configuration({"seed": seed, "size": 1}))


@cache
def load_package() -> ModuleType:
    """The package, if it is the one that was measured. Raises GeneratorError."""
    try:
        installed = distribution(PACKAGE)
    except PackageNotFoundError:
        raise GeneratorError(
            f"tasks of {PACKAGE} need the extra gym: pip install 'dosimeter[gym]'"
        ) from None
    if installed.version != VERSION or wheel_digest() != WHEEL:
        raise GeneratorError(
            f"{PACKAGE} {installed.version} is installed, and these tasks are those of the "
            f"published {VERSION}: pip install --force-reinstall '{PACKAGE}=={VERSION}'"
        )
    # One data set solves puzzles with pycosat, which has no wheels, and all of them import it.
    try:
        import_module("pycosat")
    except ModuleNotFoundError:
        sys.modules["pycosat"] = ModuleType("pycosat")
    return import_module("reasoning_gym")


def wheel_digest() -> str:
    """The digest of the installed package's files: of their paths and content."""
    whole = sha256()
    for path in sorted(distribution(PACKAGE).files or (), key=str):
        if path.parts[0] == "reasoning_gym" and path.suffix != ".pyc":
            digest = sha256(Path(str(path.locate())).read_bytes()).hexdigest()
            whole.update(f"{path} {digest}\n".encode())
    return f"sha256:{whole.hexdigest()}"


def plain(value: Any) -> Any:
    """The value with numpy's numbers as Python's, and what is no literal as text, so that its
    ``repr`` is read back equal."""
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    if hasattr(value, "dtype"):
        return value.item()
    return value if value is None or isinstance(value, str | int | float | set) else repr(value)
