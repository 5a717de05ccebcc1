"""Each extra can be taken out: without its folders and its row, the core passes its tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from registry.provenance import PACKAGES
from study import catalogue
from tests.without_extra import PLACES

ROOT = Path(__file__).resolve().parent.parent
NAMES = [extra.name for extra in catalogue.EXTRAS]
# Tests of the core, which take a study from its file to its release and its report.
CORE = ("tests/study/steps/test_line.py", "tests/study/protocol/test_smallest_study.py")
# Those of seconds: without one extra; the whole line is run without any.
QUICK = ("--deselect", "tests/study/steps/test_line.py::TestLine")


def users_of(name: str) -> list[str]:
    """An extra, and those that need it."""
    return [name, *(extra.name for extra in catalogue.EXTRAS if name in extra.needs)]


def run_without(extras: Sequence[str], *words: str) -> None:
    command = [sys.executable, "-m", "tests.without_extra", ",".join(extras), *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("name", NAMES)
def test_the_core_does_without_each_extra(name: str) -> None:
    run_without(users_of(name), "pytest", "-q", "-p", "no:cacheprovider", *CORE, *QUICK)


def test_the_core_does_without_all_extras() -> None:
    run_without(NAMES, "pytest", "-q", "-p", "no:cacheprovider", *CORE)


def test_an_extra_bears_one_noun_and_imports_only_what_it_needs() -> None:
    places = {f"{place}/{name}": name for place in ("study/extras", *PACKAGES) for name in NAMES}
    for folder, name in places.items():
        needs = {*next(extra.needs for extra in catalogue.EXTRAS if extra.name == name), name}
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            others = [o for o in NAMES if any(f"from {at}.{o}." in text for at in PLACES)]
            assert set(others) <= needs, path


@pytest.mark.slow
def test_the_demo_runs_without_any_extra(tmp_path: Path) -> None:
    run_without(NAMES, "dosimeter", "demo", "--study", str(tmp_path / "demo"), "--sandbox", "local")
    assert (tmp_path / "demo" / "reports" / "wave-2" / "report.html").is_file()
