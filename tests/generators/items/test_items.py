"""Given items: pools that are refused, scores, groups, and what the seed does to an item."""

from __future__ import annotations

import json
from typing import Any

import pytest

from generators.catalog import INSTALLED
from generators.errors import GeneratorError
from generators.grading.answer import Answer
from generators.grading.rubric import check_answer, score_verdicts
from generators.items.family import FAMILY
from generators.items.item import Item, item_bytes
from generators.items.pool import Columns, guess_rate, make_pool, near_duplicates, stated_keys
from generators.seed import Seed
from registry.draws.seeds import FixedEntropy, draw
from registry.errors import RegistryError
from registry.sealing import commitments_of
from study.steps.register.draw import identify_in
from tests.cases import cases

RIGHT, REFUSED = cases(__file__, "right"), cases(__file__, "refused")
SCORES = cases(__file__, "scores")
USUAL = {"name": "p", "prompt": "question", "answer": "key", "score": "choice"}


def columns(**changes: Any) -> Columns:
    changes["choices"] = tuple(changes.get("choices", ("a", "b")))
    return Columns(**{**USUAL, **changes})


def no_file(name: str) -> bytes:
    raise GeneratorError(f"{name}: no such file")


def seed_of(*items: Item, number: int = 1) -> Seed:
    return Seed(number.to_bytes(32, "big") + item_bytes(items))


def score(item: Item, given: Any) -> float | None:
    made = FAMILY.generate("x", seed_of(item))
    return score_verdicts(made.rubric, check_answer(made.rubric, Answer({"answer": given})))


@pytest.mark.parametrize("name", REFUSED)
def test_a_pool_that_is_not_right_is_refused_by_its_row(name: str) -> None:
    case = REFUSED[name]
    rows = [RIGHT | row for row in case.get("rows", [{}])]
    for row in rows:
        text = row["question"].replace("LONG", "x" * 1_000_001)
        row["question"] = text.replace("HALF", "\ud800")
    with pytest.raises(GeneratorError) as caught:
        make_pool(rows, columns(**case.get("columns", {})), no_file)
    assert case["error"] in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", SCORES)
def test_an_answer_is_held_against_the_key(kind: str) -> None:
    case = SCORES[kind]
    choices = tuple(case.get("choices", ()))
    item = Item(prompt="?", score=kind, answer=case["key"], choices=choices)  # type: ignore[arg-type]
    assert [score(item, given) for given in case["right"]] == [1.0] * len(case["right"])
    assert [score(item, given) for given in case["wrong"]] == [0.0] * len(case["wrong"])


def test_a_hostile_answer_is_wrong_and_no_error() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for kind, key in (("json", {}), ("set", [1]), ("exact", "x"), ("regex", "(a*)*b")):
        item = Item(prompt="?", score=kind, answer=key)  # type: ignore[arg-type]
        for given in (deep, "a" * 1_000_000, 10**400, {"": None}):
            assert score(item, given) == 0.0


@pytest.mark.parametrize("blank", [{}, {"a": ""}])
@pytest.mark.parametrize("key", ["b", "B", "two"])
def test_a_key_names_its_choice_by_column_letter_or_text(key: str, blank: dict[str, str]) -> None:
    (group,) = make_pool([RIGHT | blank | {"key": key}], columns(choices=("a", "b", "n")), no_file)
    assert group.items[0].answer == "two"


def test_a_group_is_one_instance_that_asks_all_of_its_questions() -> None:
    items = [
        Item(prompt=f"Question about {word}?", score="choice", answer=word, choices=("x", word))
        for word in ("moss", "fern", "kelp")
    ]
    made = FAMILY.generate("x", seed_of(*items))
    assert all(item.prompt in made.brief.prompt for item in items)
    key = FAMILY.key(made.truth)
    for right in range(4):
        answers = {name: key[name] if n < right else "A" for n, name in enumerate(key)}
        verdicts = check_answer(made.rubric, Answer(answers))
        assert score_verdicts(made.rubric, verdicts) == pytest.approx(right / 3)


def test_a_group_lies_in_one_place_of_the_pool() -> None:
    rows = [RIGHT | {"question": f"q{n}", "n": f"passage {n // 3}"} for n in range(12)]
    groups = make_pool(rows, columns(group="n"), no_file)
    assert [len(group.items) for group in groups] == [3] * 4


def test_the_seed_draws_the_order_of_choices_and_nothing_else_of_an_item() -> None:
    item = Item(
        prompt="Which?", score="choice", answer="b", choices=("a1", "b", "c1"), shuffle=True
    )
    letters = set()
    for number in range(30):
        made = FAMILY.generate("x", seed_of(item, number=number))
        letter = FAMILY.key(made.truth)["answer"]
        letters.add(letter)
        assert f"\n{letter}. b" in made.brief.prompt
        assert made.id == INSTALLED.family("items").generate("x", seed_of(item, number=number)).id
    assert letters == {"A", "B", "C"}


def test_a_seed_without_an_item_makes_an_example() -> None:
    made = FAMILY.generate("x", Seed(bytes(32)))
    assert all(check_answer(made.rubric, Answer(FAMILY.key(made.truth))))
    with pytest.raises(GeneratorError, match="32 bytes"):
        Seed(bytes(33))
    with pytest.raises(GeneratorError, match="no item"):
        FAMILY.generate("x", Seed(bytes(32) + b"{}"))


def pool_of(size: int) -> list[bytes]:
    return [item_bytes([Item(prompt=f"q{n}", score="exact", answer="x")]) for n in range(size)]


def test_a_pool_is_drawn_to_its_last_item_each_once_and_by_no_order_of_the_file() -> None:
    strata, identify = [("items", "1", "p")], identify_in(INSTALLED)
    pool = pool_of(20)
    for given in (pool, pool[::-1]):
        drawn = draw(
            strata, 6, FixedEntropy(bytes(32)), identify, reserve=[4], pools={"items/p": given}
        )
        items = [Seed.from_hex(each.seed).item for each in drawn.seeds]
        assert sorted(items) == sorted(pool)
        assert items != pool
        assert len({*commitments_of(drawn.seeds)}) == 20
    with pytest.raises(RegistryError, match="items/p: its pool has no more items after 20"):
        draw(strata, 11, FixedEntropy(bytes(32)), identify_in(INSTALLED), pools={"items/p": pool})


def test_an_item_of_a_pilot_is_not_drawn_again() -> None:
    identify, pool = identify_in(INSTALLED), pool_of(8)
    pilot = {identify("items", "1", "p", bytes(32) + item) for item in pool[:4]}
    strata, pools = [("items", "1", "p")], {"items/p": pool}
    drawn = draw(strata, 2, FixedEntropy(bytes(32)), identify, None, (), pilot, pools)
    assert sorted(Seed.from_hex(each.seed).item for each in drawn.seeds) == sorted(pool[4:])


def test_near_duplicates_are_found_and_others_are_not() -> None:
    text = "Which of the four rivers named in the treaty of 1848 carried the most silt in spring"
    rows = [RIGHT | {"question": f"{text} at gauge {n}?"} for n in range(2)]
    rows += [RIGHT | {"question": f"{n} " * 9 + f"and {n * n} of them?"} for n in range(30)]
    groups = make_pool(rows, columns(), no_file)
    assert [(one.rows, other.rows) for one, other in near_duplicates(groups)] == [((1,), (2,))]


def test_a_prompt_that_holds_its_key_is_found() -> None:
    rows = [
        RIGHT | {"question": "Say: a lantern in the harbour.", "key": "A lantern in the harbour"},
        RIGHT | {"question": "Say x", "key": "x"},
    ]
    groups = make_pool(rows, columns(score="exact", choices=()), no_file)
    assert [group.rows for group in stated_keys(groups)] == [(1,)]


def test_the_guess_rate_is_that_of_the_commonest_answer() -> None:
    rows = [RIGHT | {"question": f"q{n}", "key": "ab"[n % 4 == 0]} for n in range(8)]
    assert guess_rate(make_pool(rows, columns(), no_file)) == 0.75
    assert guess_rate(make_pool(rows, columns(shuffle=True), no_file)) == 0.5
    numbers = [row | {"key": str(n // 2)} for n, row in enumerate(rows)]
    assert guess_rate(make_pool(numbers, columns(score="number", choices=()), no_file)) == 0.25


def test_what_is_asked_is_the_template_with_its_columns() -> None:
    (group,) = make_pool([RIGHT], columns(prompt="{question}\nOf {n}: {a}?"), no_file)
    assert group.items[0].prompt == "How many?\nOf 3: one?"
    assert json.loads(item_bytes(group.items))["items"][0]["answer"] == "two"


def test_input_files_lie_beside_the_question() -> None:
    (group,) = make_pool([RIGHT | {"n": "a.csv; b/c.txt"}], columns(files="n"), str.encode)
    made = FAMILY.generate("x", seed_of(*group.items))
    files = {asset.path: (asset.media_type, asset.data) for asset in made.brief.assets}
    assert files["a.csv"] == ("text/csv", b"a.csv")
    assert files["b/c.txt"] == ("text/plain", b"b/c.txt")
