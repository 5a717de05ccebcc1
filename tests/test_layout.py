"""The layout of the house: its size by part, imports without a circle, calls that one can read,
and what a newcomer meets."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from registry.provenance import PACKAGES
from study import catalogue
from study.main import main
from tests.study.cli.program import walk

ROOT = Path(__file__).resolve().parent.parent

# Lines that hold code: neither blank, nor a comment, nor of a docstring. These limits only fall: a
# change that needs more in one part removes as much elsewhere.
MOST_LINES = {
    "platform": 42_820,
    "levels": 1_203,
    "observatory": 4_204,
    "picard": 11_494,
    "families": 7_321,
    "benchmarks": 2_771,
    "tests": 48_508,
}
MOST_PARAMETERS, MOST_POSITIONAL, MOST_COMMANDS, MOST_OPTIONS, WIDTH = 8, 5, 29, 154, 80
_FAMILIES = ("generators/physics", "generators/ladder", "generators/basics")
# Levels above the instance, with their tests: a part by itself, which other counts add to others.
_LEVELS = (
    *("analysis/levels", "study/extras/levels", "study/protocol/units.py", "generators/dressings"),
    *("generators/validation/dressed.py", "study/extras/tasks/dress.py", "tests/analysis/levels"),
    "tests/study/test_levels.py",
    "tests/generators/dressings",
)
# What others read and run: a public face, a playground, releases and results in their forms.
_OBSERVATORY = (
    *("study/extras/site", "study/extras/playground", "publish/croissant", "publish/inspect_task"),
    *("publish/released", "study/extras/tables/every_eval_ever"),
    *("study/extras/transcripts/results_export", "study/extras/transcripts/inspect_export"),
    *("study/steps/publish/asked", "tests/study/extras/transcripts/test_inspect_export"),
    *("tests/study/extras/site", "tests/study/extras/playground", "tests/publish/test_croissant"),
    *("tests/publish/test_inspect_task", "tests/study/extras/tables/test_released"),
    *("tests/study/extras/transcripts/test_results_export", "tests/examples/test_observatory"),
    *("tests/study/extras/tables/test_every_eval_ever", "publish/space", "benchmarks/site"),
    "benchmarks/browser_check",
)
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def files(*folders: str) -> Iterator[Path]:
    return (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def code_lines(path: Path) -> int:
    """Count the lines that hold a token other than a comment or docstring."""
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    used = {number for number, line in lines if line.strip() and line.lstrip()[0] != "#"}
    docs: set[int] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno != node.lineno:
            used.update(range(node.lineno, (node.end_lineno or 0) + 1))  # blank lines of a text
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docs.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(used - docs)


def part_of(name: str) -> str:
    if name.startswith(_LEVELS):
        return "levels"
    if name.startswith(_OBSERVATORY):
        return "observatory"
    if name.startswith(("tests/", "benchmarks/")):
        return name.split("/")[0]
    if name.startswith(_FAMILIES):
        return "families"
    return "picard" if "/templates" in name or "picard" in name else "platform"


def test_no_part_grows() -> None:
    lines: Counter[str] = Counter()
    for path in files(*PACKAGES, "benchmarks", "tests"):
        lines[part_of(name_of(path))] += code_lines(path)
    assert {part: n for part, n in lines.items() if n > MOST_LINES[part]} == {}


def modules() -> dict[str, Path]:
    return {
        name_of(path).removesuffix(".py").removesuffix("/__init__").replace("/", "."): path
        for path in files(*PACKAGES)
    }


def imports_of(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules that a file imports when it runs, inside functions too."""
    nodes = list(ast.walk(tree_of(path)))
    typing = {
        id(inner)
        for node in nodes
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    names = [
        name
        for node in nodes
        if id(node) not in typing
        for name in (
            [f"{node.module}.{alias.name}" for alias in node.names] + [str(node.module)]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    ]
    return {name for name in names if name in known}


def test_no_import_circle() -> None:
    known = modules()
    packages = {name for name, path in known.items() if path.name == "__init__.py"}
    graph = {name: imports_of(path, known) - {name} - packages for name, path in known.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        pytest.fail(" → ".join(reversed(circle.args[1])))


def test_every_package_says_what_it_is() -> None:
    inits = [path for path in files(*PACKAGES) if path.name == "__init__.py"]
    assert [name_of(p) for p in inits if len(ast.get_docstring(tree_of(p)) or "") < 15] == []


def test_a_call_can_be_read() -> None:
    long = [
        f"{name_of(path)}: {node.name}"
        for path in files(*PACKAGES)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if len(
            [a for a in (*node.args.args, *node.args.kwonlyargs) if a.arg not in ("self", "cls")]
        )
        > MOST_PARAMETERS
    ]
    assert long == []


def test_no_constructor_is_called_by_many_positions() -> None:
    calls = {
        path: [n for n in ast.walk(tree_of(path)) if isinstance(n, ast.Call)]
        for path in files(*PACKAGES)
    }
    many = [
        f"{name_of(path)}:{call.lineno}: {call.func.id}"
        for path, found in calls.items()
        for call in found
        if isinstance(call.func, ast.Name) and call.func.id[0].isupper()
        if len(call.args) > MOST_POSITIONAL
    ]
    assert many == []


# --- what a newcomer meets ---


def test_the_program_stays_small() -> None:
    assert len(main.list_commands(click.Context(main))) <= MOST_COMMANDS
    assert len({command.group for command in catalogue.commands()}) <= len(catalogue.GROUPS) == 5
    options = [p for _, command in walk() for p in command.params if p.param_type_name == "option"]
    assert len(options) <= MOST_OPTIONS


@pytest.mark.parametrize(
    "path", [path for path, c in walk() if isinstance(c, click.Group)], ids=" ".join
)
def test_each_line_of_a_group_s_help_is_whole(path: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, [*path, "--help"], prog_name="dosimeter", terminal_width=WIDTH)
    for line in done.output.splitlines():
        assert len(line) <= WIDTH
        assert not line.endswith("...") or "[OPTIONS]" in line


def test_the_first_pages_are_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= 100
