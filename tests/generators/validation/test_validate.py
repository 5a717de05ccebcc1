"""A validation notices each promise that a family breaks."""

from __future__ import annotations

import dataclasses
import json

import pytest

from generators.basics.compute_average import FAMILY
from generators.errors import GeneratorError
from generators.family import FamilyOfParts
from generators.grading.rubric import Part, Rubric
from generators.validation.overlap import fingerprints
from generators.validation.result import Validation
from generators.validation.scores import MeanScore, key_misfits
from generators.validation.validate import NULL_SEEDS, public_seeds, validate
from tests.cases import cases
from tests.generators.measures import shared_fingerprints, solver_score


class Broken(FamilyOfParts):
    """A family whose key lacks a number, whose solver reads badly, whose guess is too good and
    whose seeds all make the same instance but for a criterion that should not differ. Another
    process makes the real one."""

    def generate(self, difficulty, seed):
        made = super().generate(difficulty, public_seeds(NULL_SEEDS + 1)[-1])
        says = Part("says/0", "says", "says", f"It says {seed.hex[:6]}.", "IF", 0.1, "", None)
        return dataclasses.replace(made, rubric=Rubric((*made.rubric.parts, says)))

    def nulls(self, instance):
        return {"oracle": FAMILY.key(instance.truth)}

    def solver(self):
        answer = {"task": "compute_average", "numbers": [], "block_averages": {}, "average": 1}
        return f'open("answer.json", "w").write({json.dumps(answer)!r})'


def short_key(truth):
    whole = FAMILY.key(truth)
    return whole | {"numbers": whole["numbers"][:-1]}


def as_average(kind, **other):
    """The family that averages numbers, as another kind of family, and with other parts."""
    parts = {each.name: getattr(FAMILY, each.name) for each in dataclasses.fields(FAMILY)}
    return kind(**{**parts, **other})


def test_a_sound_family_holds():
    found = validate(FAMILY, "medium", 3)
    assert found.holds
    assert found.problems == ()
    assert (found.key, found.solver, found.same_elsewhere, found.distinct) == (1.0, 1.0, True, True)
    assert (found.seeds, found.null_seeds) == (3, NULL_SEEDS)


def test_a_broken_family_is_told_all_that_is_wrong():
    found = validate(as_average(Broken, key=short_key), "easy", 2)
    assert not found.holds
    assert [line.split(",")[0] for line in found.problems] == cases(__file__, "problems")


def test_a_key_that_does_not_fit_the_schema_is_named():
    def worded(truth):
        return FAMILY.key(truth) | {"average": "3"}

    found = validate(as_average(FamilyOfParts, key=worded), "easy", 1)
    assert found.misfits == ('$.average: does not meet type: "number"',)
    assert f"the key does not fit the answer schema: {found.misfits[0]}" in found.problems


def test_a_schema_that_is_none_is_refused():
    with pytest.raises(
        GeneratorError, match="the answer schema is no JSON Schema 2020-12: 'nmber'"
    ):
        key_misfits(FAMILY, with_schema('{"type": "nmber"}'))


def with_schema(schema):
    instance = FAMILY.generate("easy", public_seeds(1)[0])
    return dataclasses.replace(
        instance, brief=dataclasses.replace(instance.brief, answer_schema=schema)
    )


def test_the_json_has_the_best_guess_beside_all_of_them():
    scores = {"empty": 0.0, "prior": 0.1, "everything": 0.0}
    nulls = tuple((name, MeanScore(score, 0.0)) for name, score in scores.items())
    found = Validation("f", "1", "easy", 2, 40, 1.0, 0.5, nulls, True, True)
    assert (
        found.as_json().items()
        >= {
            **{"task": "f@1", "difficulty": "easy", "seeds": 2, "key": 1.0, "solver": 0.5},
            **{"guess": 0.1, "best_guess": "prior", "attack": 0.0, "best_attack": "none"},
            **{"same_elsewhere": True, "distinct": True},
        }.items()
    )
    assert found.as_json()["problems"] == ["the solver scores 0.500, below 0.98"]


@pytest.mark.parametrize(
    ("source", "said"), [("raise SystemExit('no file')", "no file"), ("pass", "wrote no answer")]
)
def test_a_solver_that_fails_says_how(source, said):
    class Failing(FamilyOfParts):
        def solver(self):
            return source

    instance = FAMILY.generate("easy", public_seeds(1)[0])
    with pytest.raises(GeneratorError, match=said):
        solver_score(as_average(Failing), instance)


def test_no_seeds_prove_nothing():
    with pytest.raises(GeneratorError, match="at least one seed, not 0"):
        validate(FAMILY, "easy", 0)


def test_public_seeds_are_the_same_however_many_are_asked_for():
    assert public_seeds(5)[:3] == public_seeds(3)
    assert len(set(public_seeds(100))) == 100


def test_common_values_do_not_count_as_shared():
    """A mean of thirty small integers may recur; a number of six decimals may not."""
    one, other = (FAMILY.generate("easy", seed) for seed in public_seeds(2))
    table = dataclasses.replace(other.truth.table("final_result"), rows=((463 / 30,),))
    tame = dataclasses.replace(one.truth, tables=(("final_result", table),))
    assert repr(463 / 30) not in fingerprints(dataclasses.replace(one, truth=tame))
    borrowed = dataclasses.replace(
        other, truth=dataclasses.replace(other.truth, tables=one.truth.tables)
    )
    assert set(one.truth.table("numbers").column("written")) <= shared_fingerprints([one, borrowed])
