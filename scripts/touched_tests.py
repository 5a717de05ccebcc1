#!/usr/bin/env python3
"""Run the fast tests that a change touches, those nearest to the change first.

A test file is touched if it changed itself, or if it imports a changed module, directly or through
other modules. Changes are the differences to the merge base with the main branch, uncommitted ones
included. Files that are no Python code touch the tests that name them. The run stops after
``--seconds``; the summary counts the test files that were left for ``make test``.

    scripts/touched_tests.py                    run them
    scripts/touched_tests.py --list             print them with their distance
    scripts/touched_tests.py FILE...            as if these files had changed
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("registry", "generators", "analysis", "harness", "publish", "study", "dosimeter")
FOLDERS = (*PACKAGES, "benchmarks", "examples", "tests")
FAST = "not slow and not docker and not ray and not s3 and not hub and not browser"


# --- what changed ---


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True, text=True)
    return [line for line in done.stdout.split("\0") if line]


def changed_files(base: str) -> list[str]:
    """Paths that differ from the merge base with ``base``, with untracked ones."""
    try:
        start = _git("merge-base", "HEAD", base)[0].strip()
    except subprocess.CalledProcessError:
        start = "HEAD"  # a clone without that branch: uncommitted changes only
    changed = _git("diff", "--name-only", "-z", start)
    untracked = _git("ls-files", "--others", "--exclude-standard", "-z")
    return sorted({*changed, *untracked})


# --- the import graph ---


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# Parsing every file would take ten times as long. What only looks like an import, such as a line of
# a text, adds tests and leaves none out.
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|.*)|import[ \t]+(.*))", re.MULTILINE
)
_QUOTED = re.compile(rf"""["']((?:{"|".join(FOLDERS)})[\w.]*\.\w+)["':]""")


def _imports(text: str, package: str) -> Iterator[tuple[str, str | None]]:
    """Pairs of module and imported name; a string constant may be a module that is run later."""
    for source, names, modules in _IMPORT.findall(text):
        for module in modules.split(","):
            yield module.split()[0] if module.strip() else "", None
        name = source.lstrip(".")
        if level := len(source) - len(name):
            base = package.split(".")[: 1 - level or None]
            source = ".".join([*base, *([name] if name else [])])
        for each in re.findall(r"\w+", names):
            yield source, each
    for module in _QUOTED.findall(text):
        yield module, None


@dataclass
class ImportGraph:
    """Importers of each module."""

    importers: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    files: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls) -> ImportGraph:
        """The graph of every Python file in the packages, benchmarks, examples and tests."""
        graph = cls()
        texts = {}
        for folder in FOLDERS:
            for path in sorted((ROOT / folder).rglob("*.py")):
                module = _module(path)
                graph.files[module] = str(path.relative_to(ROOT))
                package = module if path.name == "__init__.py" else module.rpartition(".")[0]
                texts[module] = (path.read_text(), package)
        for module, (text, package) in texts.items():
            for source, name in _imports(text, package):
                target = graph._resolve(source, name)
                if target and target != module:
                    graph.importers[target].add(module)
        return graph

    def _resolve(self, source: str, name: str | None) -> str | None:
        if name and f"{source}.{name}" in self.files:
            return f"{source}.{name}"
        return source if source in self.files else None

    def distances(self, changed: Iterable[str]) -> dict[str, int]:
        """Import steps from the nearest changed module to each module that depends on one."""
        steps = dict.fromkeys(changed, 0)
        queue = list(steps)
        for module in queue:
            for importer in self.importers[module]:
                if importer not in steps:
                    steps[importer] = steps[module] + 1
                    queue.append(importer)
        return steps


def touched_tests(changed: Iterable[str], graph: ImportGraph) -> dict[str, int]:
    """Test files and their distance from the change, nearest first."""
    modules, tests = set(), dict[str, int]()
    every_test = [path for path in graph.files.values() if Path(path).name.startswith("test_")]
    for name in changed:
        path = ROOT / name
        if path.suffix == ".py" and name.startswith(FOLDERS):
            modules.add(_module(path))
        else:
            modules |= _same_folder(path, graph.files)
            tests.update({test: 1 for test in every_test if path.name in (ROOT / test).read_text()})
        if path.name == "conftest.py":
            folder = f"{Path(name).parent}/"
            tests.update({test: 1 for test in every_test if test.startswith(folder)})
    for module, steps in graph.distances(modules).items():
        test = graph.files.get(module, "")
        if test in every_test:
            tests[test] = min(steps, tests.get(test, steps))
    return dict(sorted(tests.items(), key=lambda item: (item[1], item[0])))


def _same_folder(path: Path, files: Mapping[str, str]) -> set[str]:
    """Modules beside a data file of a package, which may read it."""
    if not str(path.relative_to(ROOT)).startswith(PACKAGES):
        return set()
    return {module for module, file in files.items() if (ROOT / file).parent == path.parent}


# --- the run ---


class Deadline:
    """Pytest plug-in that stops the session after a time, and counts the files it left."""

    def __init__(self, seconds: float, files: Iterable[str]) -> None:
        self._end = time.monotonic() + seconds
        self._left = dict.fromkeys(files)
        self.stopped = False

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._left.pop(nodeid.split("::")[0], None)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        result = yield
        if time.monotonic() > self._end and not item.session.shouldstop:
            self.stopped = True
            item.session.shouldstop = "out of time"
        return result

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.stopped:
            left = len(self._left)
            terminalreporter.write_line(
                f"Stopped in time: {left} test files further from the change were not run. "
                "`make test` runs them."
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="files to take as changed")
    parser.add_argument("--base", default="main", help="branch to compare with")
    parser.add_argument("--seconds", type=float, default=75, help="time limit of the tests")
    parser.add_argument("--list", action="store_true", help="print the test files only")
    options = parser.parse_args()
    tests = touched_tests(options.files or changed_files(options.base), ImportGraph.read())
    if options.list:
        for test, steps in tests.items():
            print(f"{steps}\t{test}")
        return 0
    existing = [test for test in tests if (ROOT / test).exists()]
    if not existing:
        print("No test depends on a changed file.")
        return 0
    deadline = Deadline(options.seconds, existing)
    status = pytest.main(["-q", "-m", FAST, *existing], plugins=[deadline])
    if status == pytest.ExitCode.NO_TESTS_COLLECTED:
        print("Every touched test needs an engine, a cluster or a server: `make test` runs them.")
        return 0
    if status == pytest.ExitCode.INTERRUPTED and deadline.stopped:
        return 0
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
