"""The template reference: its tables and results are what the code makes, its examples hold."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from generators.templates.check import check_text

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/template-reference.md").read_text()
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.M | re.S)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "template_page", ROOT / "scripts/template_page.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_code_makes(script: ModuleType) -> None:
    assert script.render_page(TEXT) == TEXT, "run `make reference`"


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_has_neither_errors_nor_warnings(example: str) -> None:
    report = check_text(example, "mine.yml")
    assert [problem.text("mine.yml") for problem in (*report.errors, *report.warnings)] == []
