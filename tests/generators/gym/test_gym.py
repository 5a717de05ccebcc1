"""Data sets of reasoning-gym: what can be used, whose marks count, and answers that attack."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import pytest

from generators.catalog import INSTALLED
from generators.child_process import ChildLimits
from generators.errors import GeneratorError
from generators.grading.answer import Answer
from generators.grading.rubric import check_answer, score_parts
from generators.gym import datasets, family
from generators.seed import Seed
from generators.validation.validate import validate
from scripts import gym_page as script

SEED = Seed(bytes(range(32)))
SAMPLE = ("boxnet", "gcd")


def score(name: str, answer: object) -> float | None:
    """The score of an answer to the seed's instance, without its form."""
    instance = INSTALLED.family(name).generate("default", SEED)
    return score_parts(instance.rubric, check_answer(instance.rubric, Answer({"answer": answer})))[
        0
    ]


def key_of(name: str) -> str:
    made = INSTALLED.family(name)
    return str(made.key(made.generate("default", SEED).truth)["answer"])


# --- what can be used


def test_the_page_is_that_of_the_code_and_most_can_be_used() -> None:
    assert script.PAGE.read_text() == script.render_page(datasets.facts())
    usable = [name for name, fact in datasets.facts().items() if "refused" not in fact]
    assert len(datasets.facts()) == 106
    assert len(usable) >= 90


def test_a_sample_of_the_page_is_measured_again() -> None:
    assert script.measure(SAMPLE) == {name: dict(datasets.facts()[name]) for name in SAMPLE}


@pytest.mark.slow
def test_all_of_the_page_is_measured_again() -> None:
    assert script.measure([*datasets.facts()]) == datasets.facts()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("rg:boxnet", "boxnet of reasoning-gym cannot be used: its entries have no key"),
        ("rg:graph_color", "its entries have no key"),
        ("rg:word_ladder", "another process makes other entries of the same seeds"),
        ("rg:gdc", "did you mean 'gcd'"),
        ("rg_gcd@0.1.24", "version of rg_gcd"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(name: str, reason: str) -> None:
    with pytest.raises(GeneratorError, match=reason):
        INSTALLED.family(name)


def test_a_level_that_cannot_be_used_is_refused() -> None:
    with pytest.raises(GeneratorError, match="level_3"):
        INSTALLED.family("rg:caesar_cipher").generate("level_3", SEED)


def test_another_version_of_the_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert datasets.wheel_digest() == datasets.WHEEL
    load = datasets.load_package.__wrapped__
    assert load().__name__ == "reasoning_gym"
    monkeypatch.setattr(datasets, "wheel_digest", lambda: "sha256:0")
    with pytest.raises(GeneratorError, match=r"those of the published 0\.1"):
        load()
    monkeypatch.setattr(datasets, "PACKAGE", "no-such-package-here")
    with pytest.raises(GeneratorError, match="need the extra gym"):
        load()


def test_the_core_loads_a_family_without_the_package() -> None:
    assert (
        "generators.gym"
        not in inspect.getsource(sys.modules["generators.catalog"]).split("def family")[0]
    )
    assert INSTALLED.family("rg:gcd").parameters("level_1")["configuration"] == "level_1"
    assert INSTALLED.family("rg:gcd") == INSTALLED.family("rg_gcd", "0.1.25")
    assert not any(entry.startswith("rg_") for entry in INSTALLED.entries())


# --- marks


def test_an_instance_is_the_entry_of_its_256_bits() -> None:
    import reasoning_gym

    made = reasoning_gym.create_dataset("gcd", seed=int.from_bytes(SEED.value, "big"), size=1)[0]
    instance = INSTALLED.family("rg:gcd").generate("default", SEED)
    assert made["question"] in instance.brief.prompt
    assert key_of("rg:gcd") == made["answer"]


@pytest.mark.parametrize("name", ["rg:gcd", "rg:knights_knaves", "rg:countdown", "rg:rearc"])
def test_the_key_scores_full_and_wrong_answers_nothing(name: str) -> None:
    key = key_of(name)
    assert score(name, f" {key}\n") == 1.0
    for wrong in (None, "", "certainly not", [], {"a": 1}):
        assert score(name, wrong) == 0.0, wrong


def test_another_right_answer_scores_full_and_numbers_count_as_text() -> None:
    assert score("rg:countdown", f"({key_of('rg:countdown')})") == 1.0
    assert score("rg:gcd", int(key_of("rg:gcd"))) == 1.0


def test_a_family_passes_what_can_be_checked_without_a_solver() -> None:
    found = validate(INSTALLED.family("rg:spell_backward"), "default", 3)
    assert found.solver is None
    assert found.problems == ()


# --- answers that attack

HOSTILE = {
    "huge": "9" * 5_000_000,
    "long": "1+" * 40_000,
    "deep": "(" * 40_000 + ")" * 40_000,
    "nested": [[[[]]]] * 1000,
    "import": "__import__('os').system('touch {place}')",
    "letters": "exec(chr(95)+chr(95))",
    "escaped": 'S("\\137\\137import\\137\\137(\\047os\\047).mkdir(\\047{place}\\047)")',
    "wide letters": "ｅｖａｌ(1)",
    "endless": "9**9**9**9**9",
}


@pytest.mark.parametrize("name", ["rg:countdown", "rg:simple_integration", "rg:spiral_matrix"])
def test_a_hostile_answer_scores_nothing_and_does_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert score(name, "1") == 0.0  # a child has the package now
    monkeypatch.setattr(family, "LIMITS", ChildLimits(seconds=2, memory=1_000_000_000))
    for attack in HOSTILE.values():
        place = str(tmp_path / "made")
        answer = attack.replace("{place}", place) if isinstance(attack, str) else attack
        assert score(name, answer) == 0.0
        assert not Path(place).exists()


def test_scorers_that_evaluate_answers_are_known() -> None:
    evaluates = re.compile(
        r"(?<![\w.])(?:eval|exec)\(|(?:sympy|sp)\.parse_expr\(|import parse_expr"
    )
    makers = datasets.load_package().factory.DATASETS
    usable = (name for name, fact in datasets.facts().items() if "refused" not in fact)
    found = {
        name
        for name in usable
        if evaluates.search(inspect.getsource(inspect.getmodule(makers[name][0])))
    }
    # These evaluate their own questions and keys only.
    assert found - {"basic_arithmetic", "bitwise_arithmetic", "number_sorting"} == family.EVALUATED
