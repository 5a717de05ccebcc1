"""The notebook's facade: ``import dosimeter``, then ``dosimeter.open(FOLDER)`` or
``dosimeter.analyze(TABLE)``, the functions of ``study.api``.

Raises ImportError or RegistryError if a folder beside the notebook, or another distribution, hides
one of dosimeter's packages.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

try:
    from registry.provenance import verify_packages
except ImportError:
    registry = getattr(import_module("registry"), "__file__", None)
    raise ImportError(
        f"the package 'registry' is taken from {registry}, which hides dosimeter's own: rename it"
    ) from None

if TYPE_CHECKING:
    from study.api import StudyView, analyze
    from study.api import open_study as open

__all__ = ["StudyView", "analyze", "open"]

verify_packages()


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'dosimeter' has no attribute {name!r}")
    return getattr(import_module("study.api"), {"open": "open_study"}.get(name, name))


def __dir__() -> list[str]:
    return __all__
