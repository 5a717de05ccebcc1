"""What Inspect's scorer ``pattern`` makes of an answer, and the file that names it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from generators.task import Family, TaskInstance
from publish.dataset_card import ReleaseText
from publish.errors import PublishError
from publish.inspect_task import PATTERN, Question, question_columns
from publish.leakcheck.check import check_folder
from publish.leakcheck.secrets import Needles
from publish.release import build_release, read_release
from tests.cases import cases

Find = Callable[[str], Family]


def question(instance: TaskInstance) -> Question:
    return Question(instance.brief.prompt)


@pytest.mark.parametrize(("text", "groups"), cases(__file__, "answers"))
def test_the_pattern_reads_the_last_answer(text: str, groups: list[str | None] | None) -> None:
    found = re.search(PATTERN, text)
    assert (None if found is None else list(found.groups())) == groups


@pytest.mark.parametrize(
    ("key", "target"),
    [
        ({"answer": "B"}, "B"),
        ({"answer": "Be"}, '{"answer": "Be"}'),
        ({"answer": "é"}, '{"answer": "é"}'),
        ({"answer": 4}, '{"answer": 4}'),
        ({"answer_1": "A", "answer_2": "C"}, '{"answer_1": "A", "answer_2": "C"}'),
    ],
)
def test_the_target_is_the_letter_or_the_block(key: dict[str, Any], target: str) -> None:
    assert question_columns(Question("?", ""), key)["target"] == target
    assert set(question_columns(None, key).values()) == {None}


def test_a_stratum_is_a_task_if_each_row_has_a_question(
    reserve_draw: Any, find: Find, text: ReleaseText, tmp_path: Path
) -> None:
    refused = reserve_draw.public[0].instance

    def ask(instance: TaskInstance) -> Question | None:
        return None if instance.id == refused else question(instance)

    draw = reserve_draw
    panel = [entry for entry in draw.public if entry.tranche == 0]
    first = build_release(tmp_path / "x", panel, draw.sealed, find, text, ask=ask)
    ids = [task["id"] for task in tasks_in(first.folder)]
    assert ids == ["noise-hard"]
    build_release(tmp_path / "x", draw.public, draw.sealed, find, text, ask=ask)
    ids = [task["id"] for task in tasks_in(tmp_path / "x")]
    assert ids == [
        "noise-easy-reserve_1",
        "noise-easy-reserve_2",
        "noise-hard",
        "noise-hard-reserve_1",
        "noise-hard-reserve_2",
    ]
    assert read_release(tmp_path / "x").tranches == (0, 1, 2)


def tasks_in(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((folder / "eval.yaml").read_text("utf-8"))["tasks"]
    return found


def test_a_title_stays_text_in_the_file(
    draw: Any, find: Find, text: ReleaseText, tmp_path: Path
) -> None:
    title = "A: 'b'\n- {c: !!python/object:os.system x} é"
    own = replace(text, title=title)
    built = build_release(tmp_path / "x", draw.public, draw.sealed, find, own, ask=question)
    body = yaml.safe_load((built.folder / "eval.yaml").read_text("utf-8"))
    assert body["name"] == title


def test_the_leak_check_reads_the_questions(
    draw: Any, find: Find, text: ReleaseText, tmp_path: Path, needles: Needles
) -> None:
    private = find("noise@1").generate("easy", draw_seed(draw))
    shown = question(private)
    built = build_release(tmp_path / "clean", draw.public, draw.sealed, find, text, ask=question)
    check_folder(built.folder, needles)
    leaky = build_release(
        tmp_path / "leaky", draw.public, draw.sealed, find, text, ask=lambda each: shown
    )
    with pytest.raises(PublishError, match=r"data/noise-easy/public-00000\.parquet: "):
        check_folder(leaky.folder, needles)


def draw_seed(draw: Any) -> Any:
    from generators.seed import Seed

    return Seed.from_hex(draw.private[0].seed)
