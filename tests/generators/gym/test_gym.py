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
from generators.validation import validate as validation
from scripts import gym_page as script
from tests.cases import cases

SEED = Seed(bytes(range(32)))
SAMPLE = ("boxnet", "gcd")
USABLE = [name for name, fact in datasets.facts().items() if "refused" not in fact]


def score(name: str, answer: object) -> float | None:
    """The score of an answer to the seed's instance, without its form."""
    rubric = INSTALLED.family(name).generate("default", SEED).rubric
    return score_parts(rubric, check_answer(rubric, Answer({"answer": answer})))[0]


def key_of(name: str) -> str:
    made = INSTALLED.family(name)
    return str(made.key(made.generate("default", SEED).truth)["answer"])


# --- what can be used


def test_the_page_is_that_of_the_code_and_most_can_be_used() -> None:
    assert script.PAGE.read_text() == script.render_page(datasets.facts())
    assert (len(datasets.facts()), len(USABLE) >= 90) == (106, True)


@pytest.mark.parametrize(
    "names", [SAMPLE, pytest.param((*datasets.facts(),), marks=pytest.mark.slow)]
)
def test_what_the_page_says_is_measured_again(names: tuple[str, ...]) -> None:
    assert script.measure(names) == {name: dict(datasets.facts()[name]) for name in names}


@pytest.mark.parametrize(("name", "reason"), cases(__file__, "refused"))
def test_what_cannot_be_used_is_refused_by_name(name: str, reason: str) -> None:
    with pytest.raises(GeneratorError, match=reason):
        INSTALLED.family(name).generate("level_3", SEED)


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
    catalog = inspect.getsource(sys.modules["generators.catalog"])
    assert "generators.gym" not in catalog.split("def family")[0]
    assert INSTALLED.family("rg:gcd").parameters("level_1")["configuration"] == "level_1"
    assert INSTALLED.family("rg:gcd") == INSTALLED.family("rg_gcd", "0.1.25")
    assert not any(entry.startswith("rg_") for entry in INSTALLED.entries())


# --- marks


def test_an_instance_is_the_entry_of_its_256_bits() -> None:
    gym, seed = datasets.load_package(), int.from_bytes(SEED.value, "big")
    made = gym.create_dataset("gcd", seed=seed, size=1)[0]
    instance = INSTALLED.family("rg:gcd").generate("default", SEED)
    assert made["question"] in instance.brief.prompt
    assert key_of("rg:gcd") == made["answer"]


@pytest.mark.parametrize("name", ["rg:gcd", "rg:knights_knaves", "rg:countdown", "rg:rearc"])
def test_the_key_scores_full_and_wrong_answers_nothing(name: str) -> None:
    assert score(name, f" {key_of(name)}\n") == 1.0
    for wrong in (None, "", "certainly not", [], {"a": 1}):
        assert score(name, wrong) == 0.0, wrong


def test_another_right_answer_scores_full_and_numbers_count_as_text() -> None:
    assert score("rg:countdown", f"({key_of('rg:countdown')})") == 1.0
    assert score("rg:gcd", int(key_of("rg:gcd"))) == 1.0


def test_a_family_passes_what_needs_no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "NULL_SEEDS", 10)
    # Another process is compared by the test of the page.
    here = lambda asked: [validation.instance_digest(f.generate(d, s)) for f, d, s in asked]  # noqa: E731
    monkeypatch.setattr(validation, "digests_elsewhere", here)
    found = validation.validate(INSTALLED.family("rg:spell_backward"), "default", 3)
    assert (found.solver, found.problems) == (None, ())


# --- answers that attack

HOSTILE = (
    *("9" * 5_000_000, "1+" * 40_000, "(" * 40_000 + ")" * 40_000, [[[[]]]] * 1000),
    *cases(__file__, "hostile"),
)
EVALUATING = ("rg:simple_integration", "rg:spiral_matrix")
OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in EVALUATING]


@pytest.mark.parametrize("name", ["rg:countdown", *OTHERS])
def test_a_hostile_answer_scores_nothing_and_does_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert score(name, "1") == 0.0  # a child has the package now
    monkeypatch.setattr(family, "LIMITS", ChildLimits(seconds=2, memory=1_000_000_000))
    for attack in HOSTILE:
        place = str(tmp_path / "made")
        answer = attack.replace("{place}", place) if isinstance(attack, str) else attack
        assert score(name, answer) == 0.0
        assert not Path(place).exists()


def test_scorers_that_evaluate_answers_are_known() -> None:
    evaluates = re.compile(
        r"(?<![\w.])(?:eval|exec)\(|(?:sympy|sp)\.parse_expr\(|import parse_expr"
    )
    makers = datasets.load_package().factory.DATASETS
    sources = {name: inspect.getsource(inspect.getmodule(makers[name][0])) for name in USABLE}
    found = {name for name, source in sources.items() if evaluates.search(source)}
    # These evaluate their own questions and keys only.
    assert found - {"basic_arithmetic", "bitwise_arithmetic", "number_sorting"} == family.EVALUATED
