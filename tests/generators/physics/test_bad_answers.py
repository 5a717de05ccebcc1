"""Whatever is handed in for the two families of spectra is graded or refused as R6 says: it never
crashes the grader, and earns no more than what is right in it."""

from __future__ import annotations

import functools
import json
import math

import jsonschema
import pytest

from generators.grading.answer import MAX_ANSWER_BYTES, parse_answer
from generators.grading.item_lists import MAX_ITEMS
from generators.grading.rubric import check_answer, score_verdicts
from generators.physics import cepheid_calibration, hubble_constant
from generators.physics.cepheid_calibration import parameters as cepheid_parameters
from generators.physics.cepheid_calibration import sample as cepheid_sample
from generators.physics.hubble_constant import parameters as hubble_parameters
from generators.physics.hubble_constant import sample as hubble_sample
from generators.seed import SeedStreams
from generators.task import DIFFICULTIES
from generators.validation.result import KEY_SCORE
from generators.validation.scores import BEYOND_INSTRUCTIONS
from generators.validation.validate import public_seeds

FAMILIES = {each.FAMILY.name: each.FAMILY for each in (cepheid_calibration, hubble_constant)}
BOTH = pytest.mark.parametrize("name", FAMILIES)
LIST = {"cepheid_calibration": "cepheids", "hubble_constant": "galaxies"}
FITTED = {
    "cepheid_calibration": ("a", "b", "sigma_a", "sigma_b"),
    "hubble_constant": ("H0", "sigma_H0"),
}


@functools.cache
def instance_of(name: str):
    return FAMILIES[name].generate("easy", public_seeds(1)[0])


def key_of(name: str):
    return FAMILIES[name].key(instance_of(name).truth)


def score(name: str, text: str, file: bytes | None = None) -> float:
    """Of what was handed in, outside instructions-following."""
    rubric = instance_of(name).rubric
    verdicts = check_answer(rubric, parse_answer(text, file))
    found = score_verdicts(rubric, verdicts, BEYOND_INSTRUCTIONS)
    assert found is not None
    return found


def block(value) -> str:
    return f"<answer>\n{value if isinstance(value, str) else json.dumps(value)}\n</answer>"


@BOTH
def test_the_key_earns_all_and_prose_about_it_changes_nothing(name):
    key = key_of(name)
    assert score(name, block(key)) == KEY_SCORE
    assert score(name, f"{block(key)}\nNo: all redshifts are 0.03, H0 is 70, a is 0.") == KEY_SCORE
    assert score(name, "It is all in the file.", json.dumps(key).encode()) == KEY_SCORE


@BOTH
@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:-1],
        lambda text: text[: len(text) // 2],
        lambda text: text[1:],
        lambda text: text.replace('"', "'"),
        lambda text: text.replace(":", " "),
        lambda text: f"[{text}]",
        lambda text: text.replace('"task"', '"task": "other", "task"'),
        lambda text: text[:-1] + ', "mood": NaN}',
        lambda text: text[:-1] + ', "mood": -Infinity}',
        lambda text: text[:-1] + ', "mood": 1e999}',
    ],
    ids=[
        *("cut", "half", "headless", "quotes", "colons", "list"),
        *("key twice", "nan", "infinity", "overflow"),
    ],
)
def test_a_block_that_is_not_valid_earns_nothing(name, spoil):
    text = spoil(json.dumps(key_of(name)))
    assert parse_answer(block(text)) is None
    assert score(name, block(text)) == 0.0
    assert score(name, "", text.encode()) == 0.0


@BOTH
def test_an_answer_that_is_cut_off_earns_nothing(name):
    whole = f"SUMMARY: all is well.\n\n{block(key_of(name))}"
    assert score(name, whole[: whole.index("}\n</answer>")]) == 0.0
    assert 0.98 < score(name, whole[: whole.index("</answer>")]) <= 1.0  # nothing but the tag


@BOTH
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_one_redshift_that_is_no_number_voids_the_block(name, value):
    key = key_of(name)
    key[LIST[name]][0]["z"] = value
    assert score(name, block(key)) == 0.0


@BOTH
def test_a_broken_block_after_a_good_one_does_not_void_it(name):
    assert score(name, f"{block(key_of(name))}\n{block('{')}") == KEY_SCORE


@BOTH
def test_every_redshift_given_twice_with_different_values_is_wrong_and_gates_the_fit(name):
    key = key_of(name)
    others = [each | {"z": each["z"] + 1e-9} for each in key[LIST[name]]]
    found = score(name, block(key | {LIST[name]: [*key[LIST[name]], *others]}))
    listed = {"cepheid_calibration": 3 / 41.5, "hubble_constant": 2 / 29.5}[name]
    assert found == pytest.approx(listed)  # the identifiers are right


@BOTH
def test_a_grid_of_redshifts_for_every_galaxy_earns_none_of_them(name):
    grid = [
        {"id": each["id"], "z": step / 10_000}
        for each in key_of(name)[LIST[name]]
        for step in range(100, 501)
    ]
    found = score(name, block(key_of(name) | {LIST[name]: grid}))
    assert found <= 3 / 41


@BOTH
def test_numbers_as_text_are_no_numbers(name):
    key = key_of(name)
    fitted = {each: str(key[each]) for each in FITTED[name]}
    redshifts = [each | {"z": str(each["z"])} for each in key[LIST[name]]]
    listed = {"cepheid_calibration": 3 / 41.5, "hubble_constant": 2 / 29.5}[name]
    found = score(name, block(key | fitted | {LIST[name]: redshifts}))
    assert found == pytest.approx(listed)


@BOTH
@pytest.mark.timeout(120)
def test_a_list_of_a_hundred_megabytes_is_refused(name):
    text = json.dumps(key_of(name))
    item = '{"id": "G", "z": 0.02}, '
    huge = text.replace("[", "[" + item * (100_000_000 // len(item)), 1)
    assert len(huge) > 100_000_000 > MAX_ANSWER_BYTES
    assert score(name, block(huge)) == 0.0
    assert score(name, "", huge.encode()) == 0.0


@BOTH
def test_more_items_than_anybody_means_count_as_none(name):
    key = key_of(name)
    padding = [{"id": str(number)} for number in range(MAX_ITEMS)]
    padded = block(key | {LIST[name]: [*padding, *key[LIST[name]]]})
    assert len(padded) > MAX_ANSWER_BYTES or score(name, padded) == 0.0
    assert score(name, "", padded.encode()) == 0.0


@BOTH
def test_unknown_keys_are_ignored(name):
    key = key_of(name)
    redshifts = [each | {"mood": "fine"} for each in key[LIST[name]]]
    assert score(name, block(key | {"mood": None, LIST[name]: redshifts})) == KEY_SCORE


@BOTH
def test_the_schema_is_as_strict_as_the_specification(name):
    instance = instance_of(name)
    validator = jsonschema.Draft202012Validator(json.loads(instance.brief.answer_schema))
    key = key_of(name)
    assert validator.is_valid(key)
    assert validator.is_valid(key | {"mood": "fine"})
    bad = [{each: value for each, value in key.items() if each != one} for one in key]
    bad += [key | {each: str(key[each])} for each in FITTED[name]]
    bad += [
        key | {LIST[name]: redshifts}
        for redshifts in ({}, ["G"], [{"id": 1, "z": 0.1}], [{"id": "G"}], [{"id": "G", "z": "0"}])
    ]
    bad += [key | {"task": "count_circles"}]
    assert not any(map(validator.is_valid, bad))


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_the_families_share_no_digits_of_identifiers(difficulty):
    """R1: in the original the first digits of one seed's galaxies agree between the two."""
    seed = public_seeds(1)[0]
    calibration, constant = (
        module.draw_sample(
            parameters.BY_DIFFICULTY[difficulty],
            SeedStreams(seed, parameters.NAME, "1", difficulty),
        ).galaxies
        for module, parameters in (
            (cepheid_sample, cepheid_parameters),
            (hubble_sample, hubble_parameters),
        )
    )
    pairs = zip(calibration, constant, strict=False)
    assert not any(one.id[-10:-4] == other.id[-10:-4] for one, other in pairs)
