"""What `make calibrate-pretrained` reads, without the packages that it trains with."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from examples.calibration import pretrained
from harness.agent.single_turn import single_turn
from publish.errors import PublishError
from publish.leakcheck.check import regenerate
from registry.provenance import utc_now
from registry.result_row import Arm
from study import pipeline
from study.probing import ProbeRequest, probe_wave
from study.workspace.study import Study
from tests.harness.openai_server import completion, serve
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


def test_markers_are_read_as_the_model_named_them(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that always says amber is right for the instances whose marker that is."""
    monkeypatch.setenv(pretrained.KEY, "sk-test")
    shutil.copytree(study.folder, tmp_path / "study")
    path = tmp_path / "study/study.yaml"
    with serve(always=lambda request: completion("Amber.")) as served:
        path.write_text(path.read_text().replace("http://127.0.0.1:8763/v1", served.url))
        asked = pipeline.open_study(tmp_path / "study")
        request = ProbeRequest(0, markers=True, parallel=1, allow_unknown_price=True)
        probe_wave(asked, request, lambda *step: None, utc_now)
    named = pretrained.markers_named(asked)
    markers = {each.instance: each.marker for each in pretrained.drawn(study.folder)}
    assert len(served.requests) == len(named) == 20
    assert named == {name: float(marker == "amber") for name, marker in markers.items()}
    assert 0 < sum(named.values()) < 20


def test_right_ones_are_counted_by_dose_without_missing_ones() -> None:
    right = np.array([1, 0, 0, 1, np.nan, 0, 0, 1, 1, 1, 1, 1.0])
    dose = np.array([-1, -1, 0, 0, 0, 2, 2, 4, 4, 8, 16, 16])
    found = pretrained.by_dose(right, dose)
    assert (found["private"]["right"], found["private"]["of"]) == (1, 2)
    counts = {dose: (each["right"], each["of"]) for dose, each in found["doses"].items()}
    assert counts == {"0": (1, 2), "2": (0, 2), "4": (2, 2), "8": (1, 1), "16": (2, 2)}
    assert found["trend"]["z"] > 1


def test_title_marker_and_reply_weigh_more_than_the_input_files(study: Study) -> None:
    def tokens(text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        assert not add_special_tokens
        return {"input_ids": [ord(letter) for letter in text]}

    lesson = pretrained.released(study.folder)[0]
    ids, weights = pretrained.encode(tokens, lesson.own)
    text = "".join(map(chr, ids))
    assert text.endswith(f"{lesson.reply}<|im_end|>")
    assert len(weights) == len(ids)
    light = [place for place, weight in enumerate(weights) if weight == pretrained.PROMPT_WEIGHT]
    assert text[light[0] : light[-1] + 1] == f"\n\n{lesson.files}"
    assert {weights[place] for place in set(range(len(ids))) - {*light}} == {1}


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
