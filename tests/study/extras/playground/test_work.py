"""The playground's functions: what can be made, what a page shows of it, how answers are graded."""

from __future__ import annotations

import base64
import io
import json
import re
import zipfile
from dataclasses import replace

import pytest

from generators.catalog import BUILT_IN_NAMES
from generators.errors import GeneratorError
from generators.task import Asset, TaskInstance
from harness.episode import Episode, StopReason
from harness.episodes.grading import grade_episode
from harness.model import Usage
from study.extras.playground.page import PICTURES, files_html, grade_html, key_html
from study.extras.playground.work import LONGEST_ANSWER, families, make, mark, seed_of

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>'


def test_it_offers_the_repositorys_own_families_alone() -> None:
    assert set(families()) == set(BUILT_IN_NAMES) - {"items", "harbor"}
    for name in ("items", "harbor", "gym_basic_arithmetic", "../x", ""):
        with pytest.raises(GeneratorError, match="there is no "):
            make(name, "easy", "a")
    with pytest.raises(GeneratorError, match=r"there is no compute_average/\.\./easy"):
        make("compute_average", "../easy", "a")


def test_a_text_is_a_seed_and_64_digits_are_themselves() -> None:
    assert seed_of(" river ") == seed_of("river") != seed_of("River")
    assert seed_of("ab" * 32).hex == "ab" * 32
    for text in ("", "  ", "x" * 201):
        with pytest.raises(GeneratorError, match="a seed is a text of 1 to 200 characters"):
            seed_of(text)
    assert len(seed_of("ab" * 32 + "7b7d").hex) == 64  # never an item behind a seed
    one, same, other = (make("order_statistics", "easy", text) for text in ("a", "a", "b"))
    assert one.instance.id == same.instance.id != other.instance.id


def score_of(instance: TaskInstance, answer: str) -> float | None:
    """The score of the study's own grader."""
    episode = Episode(
        id="0" * 64,
        instance=instance.id,
        run="",
        model="m",
        replicate=0,
        attempt=1,
        answer=answer,
        stop=StopReason.ANSWERED,
        usage=Usage(),
        started="",
    )
    return grade_episode(instance, episode).score


@pytest.mark.parametrize("name", [name for name in families() if name != "program_repair"])
def test_the_key_and_a_wrong_answer_get_the_grade_of_the_studys_grader(name: str) -> None:
    made = make(name, "easy", "a seed of my own")
    right, wrong = json.dumps(made.key), json.dumps({"answer": 0})
    for answer in (f"So:\n<answer>\n{right}\n</answer>", f"<answer>\n{wrong}\n</answer>", "none"):
        assert mark(made, answer).score == score_of(made.instance, answer)
    assert (mark(made, right).score or 0) > 0.99
    assert (mark(made, wrong).score or 0) < 0.2
    assert mark(made, "none").score == 0
    shares = [each.met for each in mark(made, right).criteria]
    assert shares
    assert all(share == 1 for share in shares) == (mark(made, right).score == 1)


def test_what_is_not_graded_says_why_and_scores_nothing() -> None:
    program = mark(make("program_repair", "easy", "a"), "{}")
    assert (program.score, "sandbox" in program.faults[0]) == (None, True)
    long = mark(make("order_statistics", "easy", "a"), "x" * (LONGEST_ANSWER + 1))
    assert (long.score, "more than" in long.faults[0]) == (None, True)
    assert "Not graded" in grade_html(long)


def test_files_lie_in_the_page_and_pictures_are_shown() -> None:
    brief = make("lissajous_figures", "easy", "a").instance.brief
    page = files_html(brief)
    [packed] = re.findall(r'href="data:application/zip;base64,([^"]+)"', page)
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(packed))) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {
            asset.path: asset.data for asset in brief.assets
        }
    assert page.count('<img alt="') == PICTURES
    assert page == files_html(brief)
    pictures = sum(asset.media_type == "image/png" for asset in brief.assets)
    assert f"{pictures - PICTURES} more pictures are in the download" in page


def test_texts_are_inert_in_the_page() -> None:
    made = make("compute_average", "easy", "a")
    brief = replace(
        made.instance.brief,
        assets=(
            Asset(HOSTILE, "text/plain", HOSTILE.encode()),
            Asset("b" + HOSTILE, "image/png", b"\x89PNG"),
            Asset("c" + HOSTILE, "application/octet-stream", b"\0\xff"),
        ),
    )
    marked = mark(made, json.dumps({HOSTILE: 1}))
    own = replace(made, key={HOSTILE: HOSTILE})
    for page in (files_html(brief), grade_html(marked), key_html(own)):
        assert "<script" not in page
        assert "<img src=x" not in page
    assert "&lt;script&gt;" in files_html(brief)
