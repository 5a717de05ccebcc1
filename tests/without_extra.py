"""Run tests, or the program, as if extras had been deleted: their folders, and their rows.

python -m tests.without_extra NAME[,NAME...] pytest ARGUMENTS... | dosimeter ARGUMENTS...
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from study import catalogue

PLACES = ("study.extras", "harness", "analysis")


class Hidden:
    """An import hook by which the modules of some extras are not there."""

    def __init__(self, extras: Sequence[str]) -> None:
        self.names = [f"{place}.{extra}" for place in PLACES for extra in extras]

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raise ModuleNotFoundError for a hidden module."""
        if any(f"{name}.".startswith(f"{hidden}.") for hidden in self.names):
            raise ModuleNotFoundError(f"{name} is hidden", name=name)
        return None


def hide(extras: Sequence[str]) -> None:
    """Hide extras from this process."""
    sys.meta_path.insert(0, Hidden(extras))
    catalogue.EXTRAS = tuple(each for each in catalogue.EXTRAS if each.name not in extras)


def main(words: Sequence[str]) -> int:
    """Hide, and run."""
    extras, program, *arguments = words
    hide(extras.split(","))
    if program == "pytest":
        import pytest

        return int(pytest.main(arguments))
    from study.main import main as dosimeter

    dosimeter(arguments, prog_name="dosimeter")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
