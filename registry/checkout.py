"""Whether the six packages are the ones of this checkout, and none is shadowed by a stranger."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from registry.errors import RegistryError

PACKAGES = ("study", "harness", "publish", "analysis", "generators", "registry")


def verify_packages() -> None:
    """Raises RegistryError if a package of ours would be imported from anywhere but beside
    this one: their names are plain words, which others may install too."""
    home = Path(__file__).resolve().parent.parent
    for name in PACKAGES:
        spec = find_spec(name)
        found = Path(spec.origin).resolve().parent if spec and spec.origin else None
        if found != home / name:
            raise RegistryError(
                f"package {name!r} comes from {found or 'nowhere'}, not from {home / name}:"
                " uninstall the other one, or reinstall dosimeter in a fresh environment"
            )
