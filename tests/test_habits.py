"""What helps a newcomer: the scripts that CI runs, hooks, citation, types in the wheel."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from registry.provenance import PACKAGES

ROOT = Path(__file__).resolve().parent.parent


def read_yaml(name: str) -> dict[str, object]:
    value = yaml.safe_load((ROOT / name).read_text())
    assert isinstance(value, dict)
    return value


def test_the_wheel_has_the_packages_with_their_types(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    stubs = {str(path.relative_to(ROOT)) for path in ROOT.glob("*/*/__init__.pyi")}
    assert {name for name in stubs if name.startswith(PACKAGES)} <= names


def test_the_workflow_runs_the_scripts_of_the_repository() -> None:
    text = (ROOT / ".github/workflows/ci.yml").read_text()
    assert re.findall(r"run: (.+)", text) == [".ci/run", "make docs"]


def test_the_hooks_run_installed_tools() -> None:
    repos = read_yaml(".pre-commit-config.yaml")["repos"]
    assert isinstance(repos, list)
    hooks = [hook for repo in repos for hook in repo["hooks"]]
    assert {repo["repo"] for repo in repos} == {"local"}
    for hook in hooks:
        program, *arguments = hook["entry"].split()
        assert (ROOT / program).exists(), hook["id"]
        for argument in arguments:
            assert not argument.endswith(".py") or (ROOT / argument).exists(), hook["id"]


def test_the_citation_names_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = read_yaml("CITATION.cff")
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"]


def test_make_help_lists_every_target() -> None:
    text = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^([a-z-]+):", text, re.MULTILINE)
    for target in set(targets) - {"help"}:
        assert f"make {target} " in text, target


# --- the tests that a change touches ---


@pytest.fixture(scope="module")
def touched() -> ModuleType:
    spec = importlib.util.spec_from_file_location("touched", ROOT / "scripts/touched_tests.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["touched"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def graph(touched: ModuleType) -> Any:
    return touched.ImportGraph.read()


def test_a_change_touches_the_test_beside_it_first(touched: ModuleType, graph: Any) -> None:
    tests = touched.touched_tests(["registry/ledger/merkle.py"], graph)
    nearest = min(tests.values())
    assert tests["tests/registry/ledger/test_merkle.py"] == nearest
    assert list(tests.values()) == sorted(tests.values())


def test_a_name_from_a_facade_leads_to_its_module(graph: Any) -> None:
    facade = graph.facades["analysis.stats"]
    assert facade["gee_gap"] == "analysis.stats.mixed_models"
    # A module that takes other names from the facade does not depend on this one.
    users = graph.distances([facade["gee_gap"]])
    assert "analysis.stats.mixed_models" in users
    assert "analysis.report.figures.style" not in users


def test_a_changed_page_touches_the_tests_that_name_it(touched: ModuleType, graph: Any) -> None:
    assert "tests/benchmarks/statistics/test_page.py" in touched.touched_tests(
        ["docs/statistics.md"], graph
    )


def test_a_changed_conftest_touches_its_folder(touched: ModuleType, graph: Any) -> None:
    tests = touched.touched_tests(["tests/publish/conftest.py"], graph)
    assert {path for path in tests if path.startswith("tests/publish/")} == {
        str(path.relative_to(ROOT)) for path in (ROOT / "tests/publish").rglob("test_*.py")
    }


def test_data_of_a_package_touches_the_modules_beside_it(touched: ModuleType, graph: Any) -> None:
    tests = touched.touched_tests(["study/steps/demo/demo.yaml"], graph)
    assert "tests/study/steps/demo/test_demo.py" in tests
