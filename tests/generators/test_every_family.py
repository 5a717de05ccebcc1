"""What every family of the catalogue promises; a new family is tested by being listed there."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import jsonschema
import pytest

from generators.errors import GeneratorError
from generators.grading.answer import Answer, find_violations, parse_answer
from generators.grading.rubric import DIMENSIONS, check_answer, is_static, score_verdicts
from generators.task import TaskInstance
from generators.title import split_headline
from generators.validation.overlap import fingerprints
from generators.validation.programs import with_printed
from generators.validation.result import NULL_SCORE, SOLVER_SCORE
from generators.validation.scores import BEYOND_INSTRUCTIONS, key_score
from generators.validation.validate import digests_elsewhere, instance_digest, public_seeds
from tests.generators.conftest import STRATA
from tests.generators.measures import null_scores, shared_fingerprints, solver_score

NUMPY_ARTEFACTS = re.compile(r"np\.|numpy|array\(|float64|uint8|\bnan\b|\binf\b")


def score(instance: TaskInstance, answer: Answer | None, *dimensions: tuple[str, ...]) -> float:
    verdicts = check_answer(instance.rubric, with_printed(instance.rubric, answer))
    found = score_verdicts(instance.rubric, verdicts, *dimensions)
    assert found is not None
    return found


def test_its_own_key_scores_full_marks(stratum):
    assert {key_score(stratum.family, instance) for instance in stratum.solved} == {1.0}


def test_the_key_survives_the_journey_through_an_answer_block(stratum):
    instance = stratum.instances[0]
    key = json.dumps(stratum.family.key(instance.truth))
    assert score(instance, parse_answer(f"SUMMARY\n\n<answer>\n{key}\n</answer>\n")) == 1.0
    assert score(instance, parse_answer("See the file.", key.encode())) == 1.0


def test_the_key_fits_the_schema_that_the_agent_is_given(stratum):
    instance = stratum.instances[0]
    schema = json.loads(instance.brief.answer_schema)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(stratum.family.key(instance.truth), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({}, schema)


def test_the_bound_on_values_is_far_beyond_any_key(stratum):
    instance = stratum.instances[0]
    key = stratum.family.key(instance.truth)
    assert Answer(key).violations(instance.brief.answer_schema) == ()
    triple = {name: value * 3 if isinstance(value, list) else value for name, value in key.items()}
    assert not any("values" in line for line in find_violations("{}", triple))


def test_the_reference_solver_needs_the_files_alone(stratum):
    scores = [solver_score(stratum.family, instance) for instance in stratum.solved]
    assert min(scores) >= SOLVER_SCORE


def test_guesses_earn_next_to_nothing(stratum):
    scores = null_scores(stratum.family, stratum.instances)
    assert {"empty", "everything", "prior"} <= set(scores)
    assert {name: each for name, each in scores.items() if each > NULL_SCORE} == {}


@pytest.mark.parametrize("answer", [None, Answer({})], ids=["none", "empty"])
def test_no_answer_scores_nothing(stratum, answer):
    instance = stratum.instances[0]
    assert score(instance, answer) == 0.0
    assert score(instance, answer, BEYOND_INSTRUCTIONS) == 0.0


def test_static_criteria_are_all_that_every_instance_asks_alike(stratum):
    """What needs the answer key differs between instances, checks and gates with all their values;
    so the gap of the others can be a control."""

    def asked(instance: TaskInstance, metarubric: str) -> list[object]:
        own = (c for c in instance.rubric.parts if c.metarubric == metarubric)
        return [(c.text, c.check) for c in own]

    first, others = stratum.instances[0], stratum.instances[1:]
    for name, static in {c.metarubric: is_static(c) for c in first.rubric.parts}.items():
        assert all(asked(each, name) == asked(first, name) for each in others) is static, name


def test_another_instances_key_is_no_key(stratum):
    """So an agent that recalls the wrong instance gains little."""
    mine, others = stratum.instances[0], stratum.instances[1:]
    scores = [
        score(mine, Answer(stratum.family.key(each.truth)), BEYOND_INSTRUCTIONS) for each in others
    ]
    assert sum(scores) / len(scores) <= NULL_SCORE


def test_the_bytes_are_those_on_record(stratum):
    """What a published version makes never changes (golden.py adds the digests of a new one)."""
    recorded = json.loads(Path(__file__).with_name("golden.json").read_text())[stratum.name]
    made = [instance_digest(instance) for instance in stratum.instances[: len(recorded)]]
    assert len(recorded) == 2
    assert made == recorded


@pytest.fixture(scope="module")
def elsewhere():
    """The digest of each stratum's second instance, the only one that another process makes."""
    asked = [(each.family, each.difficulty, public_seeds(2)[1]) for each in STRATA]
    return dict(zip(STRATA, digests_elsewhere(asked), strict=True))


def test_same_seed_same_bytes_with_other_hashes_and_without_simd(stratum, elsewhere):
    assert elsewhere[stratum] == instance_digest(stratum.instances[1])


def test_nothing_is_shared_by_any_two_instances_of_any_stratum():
    """Other seeds, and the same seeds under another difficulty or family."""
    instances = [instance for stratum in STRATA for instance in stratum.solved]
    assert shared_fingerprints(instances) == frozenset()


def test_an_instance_has_more_to_tell_it_by_than_its_id(stratum):
    """Otherwise the test of distinctness would be empty."""
    instance = stratum.instances[0]
    assert len(fingerprints(instance)) >= 2 + len(instance.brief.assets)
    assert shared_fingerprints([instance, instance]) == fingerprints(instance)


def test_the_digest_covers_every_part(stratum):
    instance = stratum.instances[0]
    brief = instance.brief
    first = brief.assets[0]
    touched = dataclasses.replace(first, data=first.data[:-1] + bytes([first.data[-1] ^ 1]))
    others = [
        dataclasses.replace(instance, id=instance.id[:-1] + "x"),
        dataclasses.replace(instance, truth=stratum.instances[1].truth),
        dataclasses.replace(instance, rubric=stratum.instances[1].rubric),
        dataclasses.replace(instance, spec=dataclasses.replace(instance.spec, parameters=())),
        dataclasses.replace(instance, brief=dataclasses.replace(brief, prompt="")),
        dataclasses.replace(
            instance, brief=dataclasses.replace(brief, assets=(touched, *brief.assets[1:]))
        ),
    ]
    assert len({instance_digest(each) for each in (instance, *others)}) == 1 + len(others)


def test_the_rubric_reads_as_plain_text_and_plain_json(stratum):
    criteria = stratum.instances[0].rubric.parts
    assert len({each.id for each in criteria}) == len(criteria)
    assert {each.dimension for each in criteria} <= set(DIMENSIONS)
    for each in criteria:
        assert not NUMPY_ARTEFACTS.search(each.text)
        assert "{" not in each.text
    plain = json.dumps(stratum.instances[0].rubric.as_json(), allow_nan=False)
    assert not NUMPY_ARTEFACTS.search(plain)


def test_every_criterion_can_be_decided_without_a_judge(stratum):
    assert None not in check_answer(stratum.instances[0].rubric, None)


# Keys from one number to a list of 50: how many, is what the levels of this family differ in.
BY_LENGTH = {"order_statistics/easy": 2 + 1, "order_statistics/hard": 2 + 50}
ONE_CALL = 20  # parts that a judge is asked at once (harness/judge/judge.py)


def test_an_instance_has_15_to_50_criteria_and_a_judge_is_asked_each_in_one_call(stratum):
    instance = stratum.instances[0]
    count = len(instance.rubric.criteria)
    assert 15 <= count <= 50 or count == BY_LENGTH.get(instance.spec.stratum)
    assert max(map(len, instance.rubric.criteria)) <= ONE_CALL


def test_instructions_following_weighs_at_most_two_percent(stratum):
    weights = {each.metarubric: each for each in stratum.instances[0].rubric.parts}.values()
    instructions = sum(each.weight for each in weights if each.dimension == "IF")
    assert instructions <= 0.02 * sum(each.weight for each in weights)


def test_the_truth_survives_json(stratum):
    truth = stratum.instances[0].truth.as_json()
    assert json.loads(json.dumps(truth, allow_nan=False)) == truth


def test_the_brief_holds_no_key(stratum):
    """The prompt is the stratum's, but for title, marker and the names of the files; what else
    differs between instances is in the files alone."""
    one, other = stratum.instances[:2]
    (first, task), (another, same) = (split_headline(each.brief.prompt) for each in (one, other))
    assert first == f"{one.title} ({one.marker} series)" != another
    for each in (one, other):
        ends = (each.brief.assets[0], each.brief.assets[-1])  # dozens of a kind are folded
        assert all(asset.path in each.brief.prompt for asset in ends)
        assert each.brief.prompt.count(".png") < 40
    list_begins = "The input files: "
    assert task.partition(list_begins)[0] == same.partition(list_begins)[0]
    assert one.brief.answer_schema == other.brief.answer_schema


def test_the_null_answers_use_the_spec_alone(stratum):
    one = stratum.instances[0]
    blind = dataclasses.replace(
        stratum.instances[1], spec=one.spec, truth=dataclasses.replace(one.truth, tables=())
    )
    assert stratum.family.nulls(blind) == stratum.family.nulls(one)


def test_the_spec_names_what_was_asked_for(stratum):
    spec = stratum.instances[0].spec
    assert (spec.family, spec.version) == (stratum.family.name, stratum.family.version)
    assert spec.difficulty == stratum.difficulty
    assert dict(spec.parameters).items() >= stratum.family.parameters(stratum.difficulty).items()


def test_an_unknown_difficulty_is_refused_with_the_nearest(stratum):
    with pytest.raises(GeneratorError, match="unknown difficulty 'meduim'; did you mean 'medium'"):
        stratum.family.generate("meduim", public_seeds(1)[0])
    with pytest.raises(GeneratorError, match="known: easy, medium, hard"):
        stratum.family.parameters("gruelling")
