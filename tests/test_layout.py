"""The layout of the house: facades, sizes of folders, and imports without a circle."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from registry.provenance import PACKAGES

ROOT = Path(__file__).resolve().parent.parent

# Modules that need an extra: they are imported by name, inside the functions that use them.
EXTRAS = {
    "harness.sandboxes.docker",
    "harness.sweep.ray_actors",
    "harness.sweep.ray_cluster",
    "publish.hub",
    "registry.stores.s3",
}
# Names that notebooks and scorer packages use, by attribute or from outside of the repository.
PUBLIC = {
    *(("generators.templates.scoring", name) for name in ("Workspace", "score", "score_leniently")),
    *(("study.tasks", name) for name in ("TaskView", "make")),
}
# Task families, and the file that is copied for a new one: each is found by its own name.
FAMILIES = (
    "generators.basics",
    "generators.ladder",
    "generators.physics",
    "study.tasks.scaffold_template",
)


def production_files() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in production_files()}
SUBPACKAGES = {name for name, path in MODULES.items() if path.name == "__init__.py" and "." in name}


def exported(package: str) -> dict[str, str]:
    """Names that a facade exports, with the module that each is defined in."""
    stub = MODULES[package].with_suffix(".pyi")
    if not stub.exists():
        return {}
    return {
        alias.asname or alias.name: f"{package}.{node.module}"
        for node in ast.parse(stub.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


EXPORTS = {package: exported(package) for package in SUBPACKAGES}


def imports_of(path: Path, typing: bool = False) -> Iterator[tuple[str, str]]:
    """Module and name of each first-party import, those inside functions included, and of each use
    of a facade's name by attribute; with ``typing`` also imports for type checkers only."""
    return ((module, name) for module, name, for_types in _imports(path) if typing or not for_types)


@cache
def _imports(path: Path) -> tuple[tuple[str, str, bool], ...]:
    """Module, name, and if it is for type checkers only."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    typing_only = {
        id(inner)
        for node in nodes
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = []
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and node.module in MODULES:
            names = [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [(alias.name, "") for alias in node.names if alias.name in MODULES]
        else:
            continue
        found += [(*each, id(node) in typing_only) for each in names]
    facades = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            facade = facades.get(node.value.id, "")
            if node.attr in EXPORTS.get(facade, {}):
                found.append((facade, node.attr, False))
    return tuple(found)


def imported_module(module: str, name: str) -> str:
    """The module that an import loads: the one that defines the name, where a facade gives it."""
    if f"{module}.{name}" in MODULES:
        return f"{module}.{name}"
    return EXPORTS.get(module, {}).get(name, module)


def package_of(module: str) -> str:
    return module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]


def may_name_the_file(importer: str, module: str) -> bool:
    """Whether a module may be imported by name: a root noun, a sibling, or a file of a folder that
    the importer lies in; one that needs an extra; a task family."""
    folder = package_of(module)
    inside = f"{package_of(importer)}.".startswith(f"{folder}.")
    return "." not in folder or inside or module in EXTRAS or folder.startswith(FAMILIES)


def test_other_subpackages_are_imported_through_their_facade() -> None:
    wrong = [
        f"{module_of(path)}: from {module} import {name}"
        for path in production_files()
        for module, name in imports_of(path)
        if module not in SUBPACKAGES and not may_name_the_file(module_of(path), module)
    ]
    assert wrong == []


def test_every_name_of_a_facade_is_used_outside_of_its_subpackage() -> None:
    used = {
        (module, name)
        for path in [
            *production_files(),
            *(
                path
                for folder in ("benchmarks", "examples", "tests")
                for path in sorted((ROOT / folder).rglob("*.py"))
            ),
        ]
        for module, name in imports_of(path, typing=True)
    }
    names = {(package, name) for package in EXPORTS for name in EXPORTS[package]}
    assert names - used - PUBLIC == set()


@pytest.mark.parametrize("package", sorted(SUBPACKAGES))
def test_a_facade_says_what_it_is_and_exports_what_exists(package: str) -> None:
    init = MODULES[package].read_text(encoding="utf-8")
    assert len(ast.get_docstring(ast.parse(init)) or "") > 15, "say in a sentence what it holds"
    for name, module in EXPORTS[package].items():
        tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
        assert name in {n for node in tree.body for n in defined(node)}, (module, name)
    facade = importlib.import_module(package)
    for name in getattr(facade, "__all__", ()):
        getattr(facade, name)


def defined(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign):
        yield from (n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id


def test_no_import_circle() -> None:
    graph = {
        name: {imported_module(*found) for found in imports_of(path)} - {name}
        for name, path in MODULES.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        pytest.fail(" → ".join(reversed(circle.args[1])))
