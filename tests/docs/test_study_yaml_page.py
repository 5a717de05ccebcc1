"""The reference of study.yaml is what the code says."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def page_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "study_yaml_page", ROOT / "scripts/study_yaml_page.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(page_script: ModuleType) -> None:
    page = page_script.render_page()
    assert page_script.PAGE.read_text() == page, "run `make reference`"


def test_a_key_without_a_sentence_is_refused(
    page_script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences = page_script.SENTENCES.read_text()
    for line, message in (
        ('"tasks.family" = ', "no sentence for 'tasks.family'"),
        ('"sweep.address" = ', "no sentence for 'sweep.address'"),
    ):
        (tmp_path / "short.toml").write_text(
            "\n".join(row for row in sentences.splitlines() if not row.startswith(line))
        )
        monkeypatch.setattr(page_script, "SENTENCES", tmp_path / "short.toml")
        with pytest.raises(LookupError, match=message):
            page_script.render_page()


def test_a_sentence_without_a_key_is_refused(
    page_script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "long.toml").write_text(
        page_script.SENTENCES.read_text() + '\n"tasks.colour" = "Colour."\n'
    )
    monkeypatch.setattr(page_script, "SENTENCES", tmp_path / "long.toml")
    with pytest.raises(LookupError, match=r"no key: tasks\.colour"):
        page_script.render_page()
