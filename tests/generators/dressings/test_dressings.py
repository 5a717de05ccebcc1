"""Dressings: one of each family is proved as families are; what is wrong with one is named."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from generators.catalog import BUILT_IN_NAMES
from generators.dressings.family import DressedFamily, catalog_with, dressed_family
from generators.errors import GeneratorError
from generators.seed import SeedStreams
from generators.validation.dressed import sibling_differences, unlike_siblings, unsolved
from generators.validation.scores import attack_scores, guess_scores, noisy_scores
from generators.validation.validate import (
    digests_elsewhere,
    instance_digest,
    public_seeds,
    validate,
)
from tests.cases import cases
from tests.conftest import ROOT

TEXTS = {each.name: each.read_text() for each in sorted((ROOT / "tests/data/dressings").iterdir())}
FAMILIES = [dressed_family(*source) for source in TEXTS.items()]
SEED = public_seeds(1)[0]


@pytest.fixture(params=FAMILIES, ids=lambda family: family.name)
def family(request: pytest.FixtureRequest) -> DressedFamily:
    made: DressedFamily = request.param
    return made


def test_there_is_one_of_each_family() -> None:
    assert {each.dressing.base.name for each in FAMILIES} == {*BUILT_IN_NAMES} - {"items", "harbor"}
    catalog = catalog_with((*source, "") for source in TEXTS.items())
    for each in FAMILIES:
        assert catalog.family(each.name, each.version).summary == each.summary
        assert each.version.startswith(f"{each.dressing.base.version}.")


def test_its_solver_needs_the_dressed_files_alone(family: DressedFamily) -> None:
    assert [*unsolved(family, ["easy"], 2)] == []


def test_names_change_forth_and_back_to_the_base_familys_bytes(family: DressedFamily) -> None:
    base = family.dressing.base
    streams = SeedStreams(SEED, base.name, base.version, "easy")
    drawn = base.draw(base.by_difficulty["easy"], streams)
    dressed = family.draw(base.by_difficulty["easy"], streams)
    assert dressed.truth == drawn.truth
    pairs = list(zip(drawn.files.assets, dressed.files.assets, strict=True))
    assert all(old.path != new.path for old, new in pairs)
    restored = family._on_base(dict, {new.path: new.data for _, new in pairs})
    assert restored == {old.path: old.data for old, _ in pairs}
    pixels = ([x for name, x in each.files.digests if "#" in name] for each in (drawn, dressed))
    assert next(pixels) == next(pixels)


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.slow] * ("mass" in each)) for each in TEXTS]
)
def test_shortcuts_and_noisy_solvers_score_as_with_the_base_family(name: str) -> None:
    family = dressed_family(name, TEXTS[name])
    base = family.dressing.base
    alike = replace(family, name=base.name, version=base.version)  # draws what the base draws
    one, other = base.generate("easy", SEED), alike.generate("easy", SEED)
    assert attack_scores(alike, other) == attack_scores(base, one)
    assert noisy_scores(alike, other, SEED) == noisy_scores(base, one, SEED)
    assert guess_scores(alike, other) == guess_scores(base, one)


def test_the_bytes_are_the_same_in_other_processes() -> None:
    sent = pickle.loads(pickle.dumps(FAMILIES))
    made = [instance_digest(each.generate("easy", SEED)) for each in sent]
    assert digests_elsewhere((each, "easy", SEED) for each in FAMILIES) == made


@pytest.mark.slow
@pytest.mark.parametrize("difficulty", ["easy", "medium", "hard"])
def test_the_bounds_of_a_family_hold(family: DressedFamily, difficulty: str) -> None:
    assert validate(family, difficulty, 3).problems == ()


@pytest.mark.parametrize(("name", "old", "new", "line", "words"), cases(__file__, "refused"))
def test_what_is_wrong_is_named_with_its_line(
    name: str, old: str, new: str, line: int, words: str
) -> None:
    text = TEXTS[f"{name}.yaml"]
    assert old in text
    with pytest.raises(GeneratorError) as caught:
        dressed_family("my.yaml", text.replace(old, new)).generate("easy", SEED)
    lines = str(caught.value).splitlines()
    assert [each for each in lines if each.startswith(f"my.yaml:{line}:") and words in each], lines


def test_markup_in_a_prompt_is_text() -> None:
    text = TEXTS["order_statistics_series.yaml"].replace("Two files", "<b>Two</b> files & co")
    made = dressed_family("html.yaml", text)
    assert made.name == "order_statistics_html"
    assert "<b>Two</b> files & co" in made.generate("easy", SEED).brief.prompt


def test_siblings_differ_in_nothing_that_a_solver_reads_and_dress_one_family() -> None:
    one, other = (dressed_family(f"{n}.yaml", TEXTS["order_statistics_series.yaml"]) for n in "ab")
    assert {*sibling_differences(one, other, "easy", 5).values()} == {0.0}
    assert list(unlike_siblings((one, other), 2)) == []
    foreign = dressed_family("c.yaml", TEXTS["count_circles_plates.yaml"])
    with pytest.raises(GeneratorError, match=r"^c\.yaml: dresses count_circles@3, and a\.yaml "):
        list(unlike_siblings((one, foreign), 5))
