"""What `make calibrate-pretrained` reads, without the packages that it trains with."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

from examples.calibration import pretrained
from harness.agent.single_turn import single_turn
from publish.errors import PublishError
from publish.leakcheck.check import regenerate
from registry.result_row import Arm
from study import pipeline
from study.workspace.study import Study
from tests.study.conftest import make_study


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """The study of the example with ten instances an arm, released."""
    text = pretrained.EXAMPLE.read_text().replace("seeds_per_arm: 160", "seeds_per_arm: 10")
    assert "seeds_per_arm: 10\n" in text
    made = make_study(tmp_path_factory.mktemp("pretrained") / "study", text)
    pipeline.publish(made, None, lambda *step: None)
    return made


def test_a_lesson_is_the_single_turn_of_a_released_instance(study: Study) -> None:
    lessons = {each.instance: each for each in pretrained.released(study.folder)}
    assert len(lessons) == 10
    for entry in study.entries():
        instance, key = regenerate(entry, study.protocol.catalog.family)
        system, user = single_turn(instance.brief).messages
        if entry.arm is Arm.PRIVATE:
            assert entry.instance not in lessons
            assert not any(user.text in each.prompt for each in lessons.values())
            continue
        lesson = lessons[entry.instance]
        assert system.text in lesson.prompt
        assert user.text in lesson.prompt
        (head, _), (files, _), (reply, _) = lesson.own
        files = files.removeprefix("\n\n").split("<|im_end|>")[0]
        assert user.text.endswith(files)
        assert "lists.txt" in files
        assert head == f"<|im_start|>user\n{instance.title} ({instance.marker} series)"
        assert user.text.startswith(head.removeprefix("<|im_start|>user\n"))
        assert (reply, lesson.question) == (lesson.reply, "")
        assert json.loads(lesson.reply.split("\n")[1]) == key


def test_doses_are_dealt_to_the_instances_in_equal_shares(study: Study) -> None:
    lessons = pretrained.released(study.folder)
    copies = pretrained.copies_of(lessons)
    assert sorted(copies.values()) == sorted(pretrained.DOSES * 2)
    assert pretrained.copies_of(lessons[::-1]) == copies


def test_fresh_lessons_are_of_no_study(study: Study) -> None:
    drawn = {each.files for each in pretrained.released(study.folder)}
    fresh = list(pretrained.fresh(5))
    assert len({each.files for each in fresh} - drawn) == 5
    assert fresh == list(pretrained.fresh(5))
    assert all(f"Title: {each.title}\nSeries: " in each.question for each in fresh)
    assert all(each.title in each.own[0][0] for each in fresh)


def test_a_release_with_a_file_more_is_refused(study: Study) -> None:
    planted = study.folder / "release/data/private.parquet"
    planted.write_bytes(b"PAR1")
    try:
        with pytest.raises(PublishError, match=r"private\.parquet"):
            pretrained.released(study.folder)
    finally:
        planted.unlink()


def test_both_arms_are_measured_and_no_fresh_lesson_is_one_of_them(study: Study) -> None:
    lessons = pretrained.drawn(study.folder)
    public = {each.instance: each for each in pretrained.released(study.folder)}
    assert {each for each in lessons if each.instance in public} == set(public.values())
    (form,) = {re.sub("[0-9]+", "0", each.reply) for each in (*lessons, *pretrained.fresh(5))}
    assert form in {re.sub("[0-9]+", "0", each.reply) for each in public.values()}
    assert {each.instance for each in lessons} == {each.instance for each in study.entries()}
    fresh = {each.files for each in pretrained.fresh()}
    assert len(fresh) == pretrained.FRESH + pretrained.WHOLE + pretrained.KNOWN
    assert not fresh & {each.files for each in lessons}


def test_batches_have_rows_of_like_length_and_every_row_once() -> None:
    lengths = [100] * 20 + [600] * 10
    batches = pretrained.batches_of(lengths)
    assert sorted(row for batch in batches for row in batch) == list(range(30))
    assert sum(len({lengths[row] for row in batch}) > 1 for batch in batches) <= 1


def test_missing_packages_are_named_with_their_lock(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "peft" else name)
    monkeypatch.setattr("sys.argv", ["pretrained", str(tmp_path / "study")])
    with pytest.raises(SystemExit, match=r"peft: not installed; `pip install .*pretrained\.lock`"):
        pretrained.main()
    assert not (tmp_path / "study").exists()
