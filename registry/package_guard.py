"""That the code that runs is this code: our packages have plain names, which others may take."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

from registry.errors import RegistryError

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("study", "harness", "publish", "analysis", "generators", "registry")


def verify_packages(names: tuple[str, ...] = PACKAGES) -> None:
    """Raises RegistryError if one of the packages would be, or was, imported from elsewhere than
    beside this one. Imports nothing."""
    for name in names:
        path = package_folder(name)
        if path != ROOT / name:
            raise RegistryError(
                f"the package {name!r} is taken from {path or 'nowhere'}, not from {ROOT / name}: "
                "something else has put a package of that name on the path; remove it, or install "
                "dosimeter into an environment of its own (`make setup`)"
            )


def package_folder(name: str) -> Path | None:
    """Where Python takes a package from; None if it finds none with an ``__init__.py``."""
    try:
        spec = find_spec(name)
    except ValueError:  # imported in a way that leaves no trace of where from
        return None
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).resolve().parent


def code_digest(root: Path = ROOT) -> str:
    """One digest over the source of all our packages, to compare whether two machines run the same
    code."""
    hasher = hashlib.sha256()
    for name in PACKAGES:
        for path in sorted((root / name).rglob("*.py")):
            data = path.read_bytes()
            place = path.relative_to(root).as_posix()
            hasher.update(f"{place}\0{len(data)}\0".encode() + data)
    return f"sha256:{hasher.hexdigest()}"
