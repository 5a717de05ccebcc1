"""Each measurement of a validation, against what it must notice and what it must let pass."""

from __future__ import annotations

import dataclasses
import io
import zlib

import pytest
from PIL import Image, PngImagePlugin

from generators.basics.compute_average import FAMILY as AVERAGE
from generators.basics.count_circles import FAMILY as CIRCLES
from generators.family import FamilyOfParts
from generators.grading.answer import Answer
from generators.grading.checks import ValueEquals
from generators.grading.item_lists import PAIRS, ItemList, ItemNumber
from generators.grading.rubric import Part, Rubric
from generators.task import DIFFICULTIES, Asset, StatesInputs, TruthTable
from generators.validation.overlap import rising_scores
from generators.validation.result import Survey, Validation
from generators.validation.scores import (
    MeanScore,
    decided_criteria,
    pass_rates,
    perturb_answer,
    solver_answer,
)
from generators.validation.truth_leaks import (
    LEAK_INSTANCES,
    LeakSearch,
    brief_texts,
    given_columns,
    hidden_notes,
    significand,
    written_numbers,
)
from generators.validation.validate import artefacts, public_seeds, survey, unsteady, validate
from tests.cases import cases
from tests.generators.measures import shared_fingerprints, solver_score

SEEDS = public_seeds(LEAK_INSTANCES)
EASY = AVERAGE.by_difficulty["easy"]


def with_note(instance, note):
    """The same instance, with one more line at the end of its first file."""
    first, *others = instance.brief.assets
    noted = dataclasses.replace(first, data=first.data + f"{note}\n".encode())
    return dataclasses.replace(
        instance, brief=dataclasses.replace(instance.brief, assets=(noted, *others))
    )


def mean_of(instance):
    return instance.truth.table("final_result").column("average")[0]


def leaks_of(note, family=AVERAGE):
    search = LeakSearch(family)
    for seed in SEEDS:
        instance = AVERAGE.generate("medium", seed)
        search.add(with_note(instance, note(instance)))
    return search.leaks()


@pytest.mark.parametrize(
    "note",
    [
        lambda instance: f"mean {mean_of(instance)}",
        lambda instance: f"mean,{mean_of(instance):.7g}",
        lambda instance: f"{mean_of(instance) * 1000:.9e} in thousandths",
        lambda instance: f"{-mean_of(instance):.6f}",
    ],
    ids=["in full", "rounded", "in another unit", "with another sign"],
)
def test_a_derived_number_in_an_input_file_is_found(note):
    (found,) = leaks_of(note)
    assert found.startswith("values of final_result.average stand in the inputs (")


@pytest.mark.parametrize(
    "note",
    [
        lambda instance: "nothing",
        lambda instance: f"{mean_of(instance):.2g}",
        lambda instance: "tolerance 0.0012345",
        lambda instance: " ".join(str(number) for number in range(10_000, 99_999, 5)),
    ],
    ids=["nothing", "too few digits", "a constant", "a fifth of all numbers there are"],
)
def test_what_only_looks_like_a_leak_is_let_pass(note):
    assert leaks_of(note) == ()


def test_columns_that_the_files_state_by_design_are_declared():
    assert isinstance(AVERAGE, StatesInputs)
    assert given_columns(AVERAGE) == {"numbers.written", "numbers.value"}
    assert given_columns(CIRCLES) == set()
    (found,) = leaks_of(lambda instance: "", dataclasses.replace(AVERAGE, given=()))
    assert found.startswith("values of numbers.value stand in the inputs")


def test_numbers_are_read_whatever_their_form():
    texts = ["z=0.0123450, -7.12345e-03; v1.2.3", "9_12345 1234", "123456789012"]
    assert written_numbers(texts) == {5: {"12345"}, 6: {"123450", "712345"}, 12: {"123456789012"}}
    assert significand(-0.00999995, 5) == "10000"
    assert significand(70.12345678, 6) == "701235"


def test_prompt_names_and_text_files_are_searched_but_no_pixels():
    brief = CIRCLES.generate("easy", SEEDS[0]).brief
    assert list(brief_texts(brief)) == [brief.prompt, *(f"{n}.png" for n in range(1, 9))]


def test_notes_in_png_files_are_found():
    clean = CIRCLES.generate("easy", SEEDS[0])
    assert list(hidden_notes(clean.brief)) == []
    notes = PngImagePlugin.PngInfo()
    notes.add_text("count", "5")
    buffer = io.BytesIO()
    Image.new("L", (4, 4)).save(buffer, "PNG", pnginfo=notes)
    brief = dataclasses.replace(
        clean.brief, assets=(Asset("1.png", "image/png", buffer.getvalue()),)
    )
    assert list(hidden_notes(brief)) == ["PNG files carry tEXt chunks"]
    cut = zlib.compress(b"not a png")
    assert not list(
        hidden_notes(dataclasses.replace(brief, assets=(Asset("1.png", "image/png", cut),)))
    )


def test_pass_rates_are_counted_by_metarubric_over_instances():
    instances = [AVERAGE.generate("easy", seed) for seed in SEEDS[:2]]
    keys = [Answer(AVERAGE.key(each.truth)) for each in instances]
    first = list(decided_criteria(instances[0], keys[0]))
    rates = {each.metarubric: each for each in pass_rates(first)}
    assert (rates["found_numbers"].passed, rates["found_numbers"].total) == (18, 18)
    mixed = pass_rates([*first, *decided_criteria(instances[1], None)])
    assert [(each.passed, each.total) for each in mixed] == [
        *((1, 2), (1, 2), (18, 36), (6, 12), (1, 2))
    ]


def test_a_mean_has_its_error():
    assert MeanScore.of([0.5]) == MeanScore(0.5, 0.0)
    assert MeanScore.of([0.0, 1.0]).error == pytest.approx(0.5)
    with pytest.raises(ValueError, match="at least one"):
        MeanScore.of([])


EVENTS = ItemList(("events",), PAIRS)


@pytest.mark.parametrize(("program", "score"), cases(__file__, "places"))
def test_a_solver_may_point_to_a_file(program, score):
    instance = AVERAGE.generate("easy", SEEDS[0])
    check = ItemNumber(EVENTS, "7", "value", 91.0, 92.0)
    rubric = Rubric((Part("m/0", "m", "m", "The mass is right.", "DH", 1.0, "", check),))

    class Pointing(FamilyOfParts):
        def solver(self):
            return f'{program}\nopen("answer.json", "w").write(\'{{"events_file": "%s"}}\' % name)'

    family, pointing = as_average(Pointing), dataclasses.replace(instance, rubric=rubric)
    assert solver_score(family, pointing) == score
    assert set(solver_answer(family, pointing).files) <= {"e.csv"}


@pytest.mark.parametrize(("text", "found"), cases(__file__, "traces"))
def test_rubric_text_is_read_for_traces_of_the_program(text, found):
    instance = AVERAGE.generate("easy", SEEDS[0])
    criterion = Part("m/0", "m", "m", text, "DH", 1.0, "", ValueEquals(("x",), 1))
    read = list(artefacts(dataclasses.replace(instance, rubric=Rubric((criterion,)))))
    assert read == ([] if found is None else [f"m: {found}"])


def test_a_static_criterion_that_is_not_the_same_everywhere_is_told():
    first, second = (AVERAGE.generate("easy", seed).rubric for seed in SEEDS[:2])
    assert unsteady(first, second) == frozenset()
    other = Rubric((*second.parts, Part("m/0", "m", "m", "It is so.", "IF", 1.0, "", None)))
    assert unsteady(first, other) == {"m"}


def level(difficulty, noisy, guess=0.05, error=0.01):
    return Validation(
        "f", "1", difficulty, 2, 40, 1.0, 1.0, (("prior", MeanScore(guess, error)),), True, True,
        perturbed=MeanScore(noisy, error),
    )  # fmt: skip


def test_scores_that_rise_with_difficulty_are_told_from_noise():
    assert list(rising_scores([level("easy", 0.9), level("medium", 0.8), level("hard", 0.7)])) == []
    assert list(rising_scores([level("easy", 0.8), level("medium", 0.87)])) == []
    (noisy,) = rising_scores([level("easy", 0.7), level("hard", 0.9)])
    assert noisy == (
        "f@1: the key with 10% of its numbers wrong scores 0.700 at easy and 0.900 at hard"
    )
    (guess,) = rising_scores([level("hard", 0.7, 0.14), level("medium", 0.7, 0.02)])
    assert guess == "f@1: the null answer 'prior' scores 0.020 at medium and 0.140 at hard"


def test_a_word_or_a_file_name_that_recurs_is_no_value_that_is_shared():
    one, other = (AVERAGE.generate("easy", seed) for seed in SEEDS[:2])
    table = TruthTable(("fit", "file"), (("linear_through_zero", "input_numbers.txt"),))
    tables = [
        dataclasses.replace(each, truth=dataclasses.replace(each.truth, tables=(("fits", table),)))
        for each in (one, other)
    ]
    assert shared_fingerprints(tables) == frozenset()
    table = TruthTable(("id",), (("galaxy 48120391",),))
    tables = [
        dataclasses.replace(each, truth=dataclasses.replace(each.truth, tables=(("g", table),)))
        for each in (one, other)
    ]
    assert shared_fingerprints(tables) == {"galaxy 48120391"}


def as_average(kind):
    """The family that averages numbers, as another kind of family."""
    return kind(**{each.name: getattr(AVERAGE, each.name) for each in dataclasses.fields(AVERAGE)})


class Borrowing(FamilyOfParts):
    """A family whose difficulties hold the same numbers."""

    def generate(self, difficulty, seed):
        made = super().generate("easy", seed)
        return dataclasses.replace(made, spec=dataclasses.replace(made.spec, difficulty=difficulty))


def test_what_two_difficulties_share_is_named_by_both(monkeypatch):
    monkeypatch.setattr("generators.validation.validate.digests_elsewhere", lambda *given: [])
    found = survey([as_average(Borrowing)], 2)
    assert not found.holds
    one, other = found.across
    assert one.startswith("compute_average@3/easy and compute_average@3/medium share ")
    assert other.startswith("compute_average@3/medium and compute_average@3/hard share ")


def test_a_survey_says_what_it_is_at_and_what_it_held_to():
    seen = []
    easy = dataclasses.replace(AVERAGE, by_difficulty=dict.fromkeys(DIFFICULTIES, EASY))
    found = survey([easy], 1, lambda what, done, of: seen.append((what, done, of)), jobs=2)
    assert seen[:2] == [("checking", 0, 3), ("checked compute_average easy", 1, 3)]
    assert seen[-1] == ("checked compute_average hard", 3, 3)
    # Another process makes the family that is installed.
    assert [each.same_elsewhere for each in found.strata] == [True, False, False]
    assert [each.holds for each in (*found.strata, found)] == [True, False, False, False]
    body = found.as_json()
    assert body["bounds"]["guess"] == 0.15
    assert body["strata"][2]["criteria"][2] == {
        "metarubric": "found_numbers",
        "dimension": "DH",
        "weight": 5.0,
        "passed": 18,
        "total": 18,
        "rate": 1.0,
        "interval": [pytest.approx(0.824, abs=0.001), 1.0],
    }
    assert Survey(found.strata[:1], ("x",)).problems == ("x",)
    assert validate(AVERAGE, "easy", 1) == found.strata[0]


def test_a_misread_answer_keeps_its_form_and_its_words():
    key = {"task": "t", "n": 3, "list": [1.5, {"x": 2.0}], "ok": True}
    draws = public_seeds(1)[0].rng()
    assert perturb_answer(key, 0.0, draws) == key
    wrong = perturb_answer(key, 1.0, draws)
    assert (wrong["task"], wrong["ok"]) == ("t", True)
    assert isinstance(wrong["n"], int)
    assert wrong["n"] != 3
    assert abs(wrong["list"][1]["x"] - 2.0) >= 0.5
