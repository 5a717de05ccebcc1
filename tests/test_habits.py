"""What helps a newcomer: the scripts that CI runs, hooks, citation."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent


def read_yaml(name: str) -> dict[str, object]:
    value = yaml.safe_load((ROOT / name).read_text())
    assert isinstance(value, dict)
    return value


def test_every_table_of_cases_is_used_by_the_test_beside_it() -> None:
    tests = (ROOT / "tests").rglob("*.yaml")
    for path in (each for each in tests if each.with_suffix(".py").exists()):
        text = path.with_suffix(".py").read_text(encoding="utf-8")
        tables = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
        assert [name for name in tables if f'cases(__file__, "{name}")' not in text] == [], path


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
