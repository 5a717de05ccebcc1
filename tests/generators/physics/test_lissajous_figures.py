"""lissajous_figures: pictures that determine the frequencies, and marks that only they earn."""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import itertools
import json
import math
import os
import subprocess
import sys
from collections import Counter, defaultdict
from fractions import Fraction

import jsonschema
import numpy as np
import pytest
from PIL import Image
from scipy import stats

from generators.errors import GeneratorError, GuardExhausted
from generators.grading.answer import Answer, parse_answer
from generators.grading.rubric import check_answer, score_verdicts
from generators.physics.lissajous_figures import FAMILY
from generators.physics.lissajous_figures import solver as solve
from generators.physics.lissajous_figures.parameters import (
    AMPLITUDES,
    BY_DIFFICULTY,
    NAME,
    OPENNESS,
    SIDE,
    TABLE,
    TIP_GAP,
    TURN,
    UNIT,
    Ratio,
)
from generators.physics.lissajous_figures.render import (
    COSINE_BITS,
    cosine_table,
    draw_picture,
    encode_png,
    write_table,
)
from generators.physics.lissajous_figures.rubric import make_rubric
from generators.physics.lissajous_figures.sample import (
    Figure,
    draw_figure,
    draw_sample,
    tip_gap,
)
from generators.physics.lissajous_figures.truth import make_truth
from generators.seed import Seed, SeedStreams
from generators.stream import Stream
from generators.task import DIFFICULTIES, Asset
from generators.validation.result import NULL_SCORE, SOLVER_SCORE
from generators.validation.scores import BEYOND_INSTRUCTIONS, key_score
from generators.validation.validate import _without_simd, instance_digest, public_seeds
from tests.generators.measures import null_scores, shared_fingerprints, solver_score

EASY, MEDIUM, HARD = (BY_DIFFICULTY[level] for level in DIFFICULTIES)
EVERY_RATIO = tuple(dict.fromkeys((*HARD.ratios, *MEDIUM.ratios)))
ROOT = public_seeds(1)[0].child("lissajous tests")


def streams_of(seed: Seed) -> SeedStreams:
    return SeedStreams(seed, NAME, FAMILY.version, "test")


def sample_of(parameters, index=0):
    return draw_sample(parameters, streams_of(ROOT.child(index)))


def with_figures(sample):
    return [unit for unit in sample.units if unit.figure is not None]


def without_untested(parameters):
    """The same without untested units, which cost time and decide nothing."""
    return dataclasses.replace(parameters, units=parameters.tested * parameters.machines)


class Forced:
    """Streams whose words are given by purpose, index and attempt."""

    def __init__(self, words):
        self._words = words

    def at(self, purpose, index=0, attempt=0):
        word = self._words(purpose, index, attempt)
        return streams_of(ROOT).at(purpose, index, attempt) if word is None else Constant(word)


class Constant(Stream):
    __slots__ = ("_word",)

    def __init__(self, word):
        self._word = word

    def word(self):
        return self._word


@functools.cache
def instance_of(difficulty, index=0):
    return FAMILY.generate(difficulty, public_seeds(index + 1)[index])


@pytest.fixture(params=DIFFICULTIES)
def difficulty(request):
    return request.param


# --- what is a good supply


def test_the_good_frequencies_are_ten_to_sixty():
    good = {float(ratio.hertz) for ratio in EVERY_RATIO if ratio.is_good}
    assert good == {10.0, 20.0, 30.0, 40.0, 50.0, 60.0}
    assert {round(ratio.hertz) for ratio in EVERY_RATIO} == {*range(10, 101, 10), 33, 67}


def test_ratios_are_coprime_and_no_supply_is_faster_than_the_reference():
    assert all(math.gcd(ratio.p, ratio.q) == 1 <= ratio.q <= ratio.p for ratio in EVERY_RATIO)


def test_every_level_has_good_and_faulty_frequencies():
    """More than one faulty one, or a guess would meet them all."""
    for level in (EASY, MEDIUM, HARD):
        assert sum(not ratio.is_good for ratio in level.ratios) >= 2
        assert any(ratio.is_good for ratio in level.ratios)


def test_every_level_is_as_the_specification_has_it():
    """§5, column V, and decision 0008: easy tests 8 units of each machine."""
    table = [
        (each.units, each.days, each.tested, each.machines, each.batches, each.faults, each.zeros)
        for each in (EASY, MEDIUM, HARD)
    ]
    assert table == [
        (30, 10, 8, 2, 2, ((3, 3), (0, 0)), 0),
        (200, 20, 10, 3, 3, ((4, 7), (1, 1), (0, 0)), 1),
        (2000, 60, 20, 6, 6, ((6, 14), (6, 14), (2, 2), (1, 1), (0, 0), (0, 0)), 1),
    ]
    hertz = [{round(ratio.hertz) for ratio in each.ratios} for each in (EASY, MEDIUM, HARD)]
    assert hertz == [{33, 50, 100}, {20, 33, 50, 67, 100}, {*range(10, 101, 10), 33, 67}]
    assert (AMPLITUDES, OPENNESS, TIP_GAP, SIDE) == ((3.0, 5.0), (0.15, 0.5), 12, 1000)


def test_the_prompt_says_what_the_specification_asks_for(difficulty):
    prompt = instance_of(difficulty).brief.prompt
    for needed in (
        "up to 100 Hz",
        "6 H, 3 H, 2 H, 1.5 H, 1.2 H and 1 H",
        "377 Ω, to three significant figures",
        "a closed figure",
        "a reference of exactly 100 Hz",
        "ID, machine, batch and measured frequency in Hz, rounded to the nearest integer",
        "DATA FOR QUALITY ASSURANCE",
        "DATA FOR MANAGEMENT",
        "ID_<measurement_id>.png",
        "with leading zeros",
        "answer.json",
    ):
        assert needed in prompt


# --- draws


def test_every_machine_fails_as_its_class_says(difficulty):
    parameters = BY_DIFFICULTY[difficulty]
    places = defaultdict(Counter)
    for index in range(15):
        tested = with_figures(sample_of(without_untested(parameters), index))
        faults = Counter({unit.machine: 0 for unit in tested})
        faults.update(unit.machine for unit in tested if not unit.figure.ratio.is_good)
        assert set(Counter(unit.machine for unit in tested).values()) == {parameters.tested}
        ranges = sorted(parameters.faults)
        found = sorted(faults.values())
        assert all(low <= count <= high for count, (low, high) in zip(found, ranges, strict=True))
        places[sorted(faults)[0]].update(faults.values())
        assert 2 * sum(found) < len(tested) - sum(found)
    assert len(places) == 15


def test_no_design_lets_a_list_of_everything_be_precise():
    for level in (EASY, MEDIUM, HARD):
        most = sum(high for _, high in level.faults)
        assert 2 * most < level.tested * level.machines - most
        assert sum(low for low, _ in level.faults) >= 3


def test_at_easy_the_faulty_machine_whole_is_no_precise_list():
    assert max(high for _, high in EASY.faults) * 2 < EASY.tested


def test_medium_and_hard_have_a_machine_at_the_threshold():
    assert [Fraction(low, MEDIUM.tested) for low, high in MEDIUM.faults if low == high != 0] == [
        Fraction(1, 10)
    ]
    assert {Fraction(low, HARD.tested) for low, high in HARD.faults if low == high != 0} == {
        Fraction(1, 10),
        Fraction(1, 20),
    }


def test_the_place_of_the_faulty_machine_in_the_file_is_not_fixed():
    first = Counter()
    for index in range(60):
        tested = with_figures(sample_of(without_untested(EASY), index))
        bad = {unit.machine for unit in tested if not unit.figure.ratio.is_good}
        first[tested[0].machine in bad] += 1
        names = sorted({unit.machine for unit in tested})
        first["alphabet", names[0] in bad] += 1
    assert min(first.values()) >= 18


def test_frequencies_are_uniform_among_the_good_and_among_the_faulty():
    counts = Counter(
        unit.figure.ratio
        for index in range(12)
        for unit in with_figures(sample_of(without_untested(HARD), index))
    )
    for good in (True, False):
        drawn = [counts[ratio] for ratio in HARD.ratios if ratio.is_good is good]
        assert stats.chisquare(drawn).pvalue > 0.01


def test_identifiers_are_unique_and_of_their_form(difficulty):
    parameters = BY_DIFFICULTY[difficulty]
    sample = sample_of(parameters)
    supplies = [unit.supply_id for unit in sample.units]
    measured = [unit.measurement_id for unit in with_figures(sample)]
    assert len(set(supplies)) == len(sample.units) == parameters.units
    assert all(len(name) == 10 and name.isdigit() for name in supplies)
    assert len(set(measured)) == parameters.tested * parameters.machines
    assert all(len(name) == 12 and name.isdigit() for name in measured)
    machines = {unit.machine for unit in sample.units}
    assert len(machines) == parameters.machines
    for name in machines:
        assert name.isalnum()
        assert name == name.upper()
        assert (len(name), name[0].isalpha()) == (6, True)
    assert {unit.batch for unit in sample.units} <= set("ABCDEF"[: parameters.batches])


def test_no_two_tables_share_a_supply():
    """Nor do untested ones, which stand in no truth: neighbouring seeds at hard."""
    tables = [
        {
            unit.supply_id
            for unit in draw_sample(HARD, SeedStreams(seed, NAME, FAMILY.version, "hard")).units
        }
        for seed in public_seeds(6)
    ]
    assert len(set().union(*tables)) == 6 * HARD.units


def test_the_file_is_in_the_order_of_days(difficulty):
    days = [unit.day for unit in sample_of(BY_DIFFICULTY[difficulty]).units]
    assert days == sorted(days)
    assert min(days) >= 1
    assert max(days) <= BY_DIFFICULTY[difficulty].days


@pytest.mark.parametrize("parameters", [MEDIUM, HARD], ids=["medium", "hard"])
def test_a_faulty_supply_begins_with_a_zero(parameters):
    for index in range(10):
        tested = with_figures(sample_of(without_untested(parameters), index))
        faulty = [unit.supply_id for unit in tested if not unit.figure.ratio.is_good]
        assert any(name.startswith("0") for name in faulty)


def test_one_more_untested_unit_leaves_the_others_as_they_were():
    fewer = sample_of(MEDIUM)
    more = sample_of(dataclasses.replace(MEDIUM, units=MEDIUM.units + 1))
    added = set(more.units) - set(fewer.units)
    assert len(added) == 1
    assert tuple(unit for unit in more.units if unit not in added) == fewer.units


def test_other_batches_change_nothing_but_batches():
    fewer = sample_of(MEDIUM).units
    more = sample_of(dataclasses.replace(MEDIUM, batches=5)).units
    strip = [{dataclasses.replace(unit, batch="") for unit in units} for units in (fewer, more)]
    assert strip[0] == strip[1]
    assert {unit.batch for unit in more} == set("ABCDE")


def test_other_frequencies_change_nothing_but_figures():
    def strip(units):
        return [dataclasses.replace(unit, figure=None) for unit in units]

    others = dataclasses.replace(MEDIUM, ratios=HARD.ratios)
    assert strip(sample_of(others).units) == strip(sample_of(MEDIUM).units)


# --- guards


def test_faulty_units_that_share_one_frequency_are_drawn_again():
    first_same = Forced(
        lambda purpose, _i, attempt: (
            7 if purpose.startswith("frequency/") and attempt == 0 else None
        )
    )
    sample = draw_sample(without_untested(EASY), first_same)
    ratios = {unit.figure.ratio for unit in with_figures(sample)}
    assert sample.redraws >= 1
    assert len([ratio for ratio in ratios if not ratio.is_good]) == 2


def test_frequencies_that_stay_the_same_fail_loudly():
    same = Forced(lambda purpose, _i, _a: 7 if purpose.startswith("frequency/") else None)
    with pytest.raises(GuardExhausted, match="frequencies"):
        draw_sample(without_untested(EASY), same)


def test_a_figure_with_tips_that_cannot_be_told_apart_is_drawn_again():
    """The smallest words give the smallest amplitudes and the least open figure; at 90 Hz some
    tips are then 9 pixels apart."""
    assert draw_figure(Ratio(9, 10), Constant(0)) is None
    assert draw_figure(Ratio(9, 10), Constant(3 << 62)) is not None
    parameters = dataclasses.replace(
        without_untested(EASY), ratios=(Ratio(1, 2), Ratio(9, 10), Ratio(7, 10))
    )
    crowded = Forced(
        lambda purpose, _i, attempt: 0 if purpose.startswith("figure/") and attempt == 0 else None
    )
    sample = draw_sample(parameters, crowded)
    assert sample.redraws >= sum(unit.figure.ratio == Ratio(9, 10) for unit in with_figures(sample))
    assert all(tip_gap(unit.figure) >= TIP_GAP for unit in with_figures(sample))


def test_figures_that_stay_crowded_fail_loudly():
    parameters = dataclasses.replace(
        without_untested(EASY), ratios=(Ratio(1, 2), Ratio(9, 10), Ratio(7, 10))
    )
    crowded = Forced(lambda purpose, _i, _a: 0 if purpose.startswith("figure/") else None)
    with pytest.raises(GuardExhausted, match="figure"):
        draw_sample(parameters, crowded)


@pytest.mark.parametrize("what", ["supply", "measurement", "machine"])
def test_identifiers_that_are_taken_are_drawn_again(what):
    taken = Forced(
        lambda purpose, _i, attempt: 7 if purpose.split("/")[0] == what and attempt == 0 else None
    )
    sample = draw_sample(EASY, taken)
    names = {"supply": "supply_id", "measurement": "measurement_id", "machine": "machine"}
    found = [getattr(unit, names[what]) for unit in with_figures(sample)]
    assert sample.redraws >= len(set(found)) - 1
    assert len(set(found)) == (2 if what == "machine" else len(found))


@pytest.mark.parametrize("what", ["supply", "measurement", "machine"])
def test_identifiers_that_stay_taken_fail_loudly(what):
    taken = Forced(lambda purpose, _i, _a: 7 if purpose.split("/")[0] == what else None)
    with pytest.raises(GuardExhausted, match="identifier"):
        draw_sample(EASY, taken)


# --- figures


def openness(figure):
    halves = 2 * figure.ratio.q * figure.delta / TURN
    return abs(halves - round(halves))


@pytest.mark.parametrize("ratio", EVERY_RATIO, ids=lambda ratio: f"{float(ratio.hertz):.0f}Hz")
def test_figures_are_open_large_and_clear(ratio):
    low, high = OPENNESS
    drawn = [draw_figure(ratio, ROOT.child("figure", index).rng()) for index in range(60)]
    figures = [figure for figure in drawn if figure is not None]
    assert len(figures) > 20
    slack = ratio.q / TURN  # of the phase's rounding
    for figure in figures:
        assert low - slack <= openness(figure) <= high + slack
        for amplitude in (abs(figure.width), abs(figure.height)):
            assert AMPLITUDES[0] <= amplitude / (4 * UNIT) <= AMPLITUDES[1]
        assert tip_gap(figure) >= TIP_GAP
    assert len({(figure.width > 0, figure.height > 0) for figure in figures}) == 4


def test_the_gap_of_tips_is_that_of_the_curve():
    """Found by brute force: where the curve turns back at an edge of its box."""
    for ratio, index in itertools.product((Ratio(2, 3), Ratio(7, 10), Ratio(9, 10)), range(5)):
        figure = next(
            filter(None, (draw_figure(ratio, ROOT.child(index, n).rng()) for n in range(99)))
        )
        turns = np.linspace(0.0, 2 * math.pi, 200_001)[:-1]
        x = figure.width / 4 * np.cos(ratio.p * turns + 2 * math.pi * figure.delta / TURN)
        y = figure.height / 4 * np.cos(ratio.q * turns)
        gaps = []
        for along, across in ((x, y), (y, x)):
            inner = (along > np.roll(along, 1)) & (along >= np.roll(along, -1))
            outer = (along < np.roll(along, 1)) & (along <= np.roll(along, -1))
            gaps += [np.diff(np.sort(across[at])).min() for at in (inner, outer)]
        assert min(gaps) == pytest.approx(tip_gap(figure), abs=0.2)


# --- pictures


def decode(data):
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image)


def cover_of(figure):
    """Share of each pixel that the curve covers, grid or not."""
    pixels = draw_picture(figure)
    return (pixels % 5) / 4


@pytest.mark.parametrize("ratio", EVERY_RATIO, ids=lambda ratio: f"{float(ratio.hertz):.0f}Hz")
def test_a_picture_shows_the_curve_all_of_it_and_nothing_else(ratio):
    figure = next(filter(None, (draw_figure(ratio, ROOT.child(n).rng()) for n in range(99))))
    cover = cover_of(figure)
    turns = np.linspace(0.0, 2 * math.pi, 400_001)
    x = SIDE / 2 + figure.width / 4 * np.cos(ratio.p * turns + 2 * math.pi * figure.delta / TURN)
    y = SIDE / 2 - figure.height / 4 * np.cos(ratio.q * turns)
    inked = np.argwhere(cover > 0)
    from scipy.spatial import cKDTree

    distance, _ = cKDTree(np.column_stack((x, y))).query(inked[:, ::-1] + 0.5)
    assert distance.max() < 1.0 + 0.36 + 0.71  # pen, fine grid, half of a pixel's diagonal
    assert (cover[np.floor(y).astype(int), np.floor(x).astype(int)] >= 0.5).all()
    length = np.hypot(np.diff(x), np.diff(y)).sum()
    assert cover.sum() <= 2.2 * length


def test_the_table_of_cosines_rounds_alike_on_every_machine():
    """No entry is so near to a tie that two libraries, each right to one part in 2**52, could
    round it to different sides."""
    scale = 1 << COSINE_BITS
    exact = np.array([scale * math.cos(2 * math.pi * k / TURN) for k in range(TURN)])
    assert (cosine_table() == np.round(exact)).all()
    tie = np.abs(exact - np.floor(exact) - 0.5)
    assert tie.min() > 100 * scale * 2.0**-52
    assert (cosine_table()[: TURN // 2] == -cosine_table()[TURN // 2 :]).all()


def test_a_picture_has_few_colours_and_neither_text_nor_time():
    figure = Figure(Ratio(1, 1), TURN // 4, 4 * 320, 4 * 320)
    data = encode_png(draw_picture(figure))
    assert set(chunk_names(data)) == {b"IHDR", b"PLTE", b"IDAT", b"IEND"}
    with Image.open(io.BytesIO(data)) as image:
        assert (image.mode, image.size, image.info) == ("P", (SIDE, SIDE), {})
        colours = {colour for _, colour in image.convert("RGB").getcolors()}
    assert {(0, 0, 0), (90, 90, 90), (64, 224, 208)} <= colours
    assert len(colours) <= 10
    assert cover_of(figure).sum() == pytest.approx(2 * 2 * math.pi * 320, rel=0.1)  # two wide


def chunk_names(data):
    at = 8
    while at < len(data):
        yield data[at + 4 : at + 8]
        at += 12 + int.from_bytes(data[at : at + 4], "big")


def test_the_grid_has_nine_lines_each_way_a_unit_and_a_half_apart():
    grid = draw_picture(Figure(Ratio(1, 1), TURN // 4, 4 * 300, 4 * 300)) >= 5
    rows = np.flatnonzero(grid.all(axis=1))
    assert (rows == np.flatnonzero(grid.all(axis=0))).all()
    assert list(rows[::2] + 1) == [SIDE // 2 + 120 * step for step in range(-4, 5)]


def test_the_truth_pins_each_file_and_its_pixels():
    instance = instance_of("easy")
    digests = dict(instance.truth.digests)
    table, *pictures = instance.brief.assets
    assert digests.pop(TABLE) == table.digest
    assert len(digests) == 2 * len(pictures) == 2 * EASY.tested * EASY.machines
    for asset in pictures:
        assert digests[asset.path] == asset.digest
        pixels = Asset("", "", decode(asset.data).tobytes())
        assert digests[f"{asset.path}#pixels"] == pixels.digest


# --- files and truth


def rows_of(instance):
    return list(csv.DictReader(io.StringIO(instance.brief.assets[0].data.decode())))


def test_the_table_is_plain_and_complete(difficulty):
    data = instance_of(difficulty).brief.assets[0].data
    assert data.startswith(b"day,supply_ID,machine,batch,measurement_id\n")
    assert data.endswith(b"\n")
    assert set(data) & set(b'\r \t"') == set()
    assert len(data.splitlines()) == 1 + BY_DIFFICULTY[difficulty].units


def test_each_measurement_has_its_picture_and_the_reverse(difficulty):
    instance = instance_of(difficulty)
    named = {
        f"oscilloscope_output/ID_{row['measurement_id']}.png"
        for row in rows_of(instance)
        if row["measurement_id"]
    }
    assert named == {asset.path for asset in instance.brief.assets[1:]}


def test_the_truth_is_that_of_the_table(difficulty):
    instance = instance_of(difficulty)
    truth = instance.truth
    faulty = {row["supply_id"]: row for row in truth.table("qa_data").records()}
    good = {row["supply_id"]: row for row in truth.table("complement_qa_data").records()}
    tested = {row["supply_ID"]: row for row in rows_of(instance) if row["measurement_id"]}
    assert faulty.keys() | good.keys() == tested.keys()
    assert not faulty.keys() & good.keys()
    for name, row in (faulty | good).items():
        written = tested[name]
        assert (row["machine"], row["batch"]) == (written["machine"], written["batch"])
        assert row["measurement_id"] == written["measurement_id"]
    made = Counter(row["machine"] for row in tested.values())
    failed = Counter(row["machine"] for row in faulty.values())
    bad = {
        machine for machine in made if Fraction(failed[machine], made[machine]) > Fraction(1, 10)
    }
    assert set(truth.table("faulty_machines").column("machine")) == bad
    assert set(truth.table("not_faulty_machines").column("machine")) == made.keys() - bad


def test_a_machine_at_exactly_ten_percent_is_not_faulty():
    for level in ("medium", "hard"):
        rates = instance_of(level).truth.table("not_faulty_machines").column("percent")
        assert 10.0 in rates
        assert max(rates) == 10.0


# --- the whole instance


def test_its_own_key_scores_full_marks_and_fits_the_schema(difficulty):
    instance = instance_of(difficulty)
    assert key_score(FAMILY, instance) == 1.0
    schema = json.loads(instance.brief.answer_schema)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(FAMILY.key(instance.truth), schema)


@pytest.mark.parametrize("index", range(3))
def test_the_reference_solver_needs_the_files_alone(difficulty, index):
    assert solver_score(FAMILY, instance_of(difficulty, index)) >= SOLVER_SCORE


def test_the_solver_reads_every_frequency_at_every_openness(tmp_path):
    wrong = []
    for ratio, index in itertools.product(EVERY_RATIO, range(6)):
        figure = next(
            filter(None, (draw_figure(ratio, ROOT.child("s", index, n).rng()) for n in range(99)))
        )
        path = tmp_path / "ID_1.png"
        path.write_bytes(encode_png(draw_picture(figure)))
        if solve.read_frequency(path) != pytest.approx(float(ratio.hertz)):
            wrong.append(figure)
    assert wrong == []


def test_guesses_earn_nothing(difficulty):
    scores = null_scores(FAMILY, [instance_of(difficulty, index) for index in range(3)])
    assert {"empty", "everything", "prior"} <= set(scores)
    assert set(scores.values()) == {0.0}


def test_another_instances_key_is_no_key(difficulty):
    mine, other = instance_of(difficulty, 0), instance_of(difficulty, 1)
    verdicts = check_answer(mine.rubric, Answer(FAMILY.key(other.truth)))
    assert score_verdicts(mine.rubric, verdicts, BEYOND_INSTRUCTIONS) == 0.0


def test_nothing_is_shared_by_any_two_instances():
    instances = [instance_of(level, index) for level in DIFFICULTIES for index in range(3)]
    assert shared_fingerprints(instances) == frozenset()


def test_the_prompt_is_the_same_for_every_seed_and_names_the_axis_at_easy_only():
    for level in DIFFICULTIES:
        one, other = (instance_of(level, index).brief for index in range(2))
        assert (one.prompt, one.answer_schema) == (other.prompt, other.answer_schema)
        assert ("sideways" in one.prompt) == (level == "easy")
        for needed in ("100 Hz", "377 Ω", "strictly more than 10 %", "not tested count as good"):
            assert needed in one.prompt


_ELSEWHERE = """
import sys
from generators.physics.lissajous_figures import FAMILY
from generators.seed import Seed
from generators.validation.validate import instance_digest
print(instance_digest(FAMILY.generate(sys.argv[1], Seed.from_hex(sys.stdin.read().strip()))))
"""


@pytest.mark.parametrize("tunables", ["", "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F"])
def test_same_seed_same_bytes_with_other_hashes_and_slower_mathematics(difficulty, tunables):
    """Without numpy's fast paths, and without those of the C library's cosine."""
    seed = public_seeds(1)[0]
    ended = subprocess.run(
        [sys.executable, "-c", _ELSEWHERE, difficulty],
        input=seed.hex,
        env=os.environ
        | {"PYTHONHASHSEED": "4242", "GLIBC_TUNABLES": tunables, "PYTHONPATH": os.getcwd()}
        | _without_simd(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.strip() == instance_digest(instance_of(difficulty))


def test_an_unknown_difficulty_is_refused():
    with pytest.raises(GeneratorError, match="unknown difficulty 'meduim'; did you mean 'medium'"):
        FAMILY.generate("meduim", public_seeds(1)[0])


# --- marks


def verdicts_on(instance, answer):
    found = defaultdict(list)
    for criterion, verdict in zip(
        instance.rubric.parts, check_answer(instance.rubric, answer), strict=True
    ):
        found[criterion.metarubric].append(verdict)
    return dict(found)


def edited(instance, edit):
    """The key with its supplies and machines changed."""
    key = FAMILY.key(instance.truth)
    supplies = [dict(each) for each in key["faulty"]]
    machines = list(key["machines"])
    edit(supplies, machines)
    return Answer({"task": NAME, "faulty": supplies, "machines": machines})


def score(instance, answer):
    return score_verdicts(
        instance.rubric, check_answer(instance.rubric, answer), BEYOND_INSTRUCTIONS
    )


def complement(instance, machine=None):
    return [
        {"supply_id": row["supply_id"], "machine": row["machine"], "batch": row["batch"]}
        | {"frequency_hz": 100}
        for row in instance.truth.table("complement_qa_data").records()
    ]


def test_the_weights_are_those_of_the_decision():
    criteria = instance_of("hard").rubric.parts
    weights = {each.metarubric: (each.dimension, each.weight) for each in criteria}
    assert weights == {
        "answer_block": ("IF", 0.05),
        "answer_schema": ("IF", 0.05),
        "qa_section": ("IF", 0.15),
        "management_section": ("IF", 0.15),
        "faulty_supplies": ("DH", 3.0),
        "notfaulty_supplies": ("DH", 3.0),
        "supplies_frequency": ("IM", 10.0),
        "supply_batch": ("DH", 1.0),
        "supply_manufacturing_machine": ("DH", 1.0),
        "faulty_machines": ("DH", 2.0),
        "not_faulty_machines": ("DH", 2.0),
    }
    total = sum(weight for _, weight in weights.values())
    assert total == pytest.approx(22.4)


def test_empty_lists_earn_the_sections_alone():
    for level in DIFFICULTIES:
        found = verdicts_on(instance_of(level), Answer({"faulty": [], "machines": []}))
        assert found.pop("qa_section") == found.pop("management_section") == [True]
        assert not any(itertools.chain(*found.values()))


def test_a_list_of_everything_earns_nothing():
    for level in DIFFICULTIES:
        instance = instance_of(level)

        def everything(supplies, machines, instance=instance):
            supplies += complement(instance)
            machines += instance.truth.table("not_faulty_machines").column("machine")

        assert score(instance, edited(instance, everything)) == 0.0


def test_a_wrong_frequency_costs_its_batch_and_machine_too():
    def misread(supplies, _machines):
        supplies[0]["frequency_hz"] += 1

    found = verdicts_on(instance_of("medium"), edited(instance_of("medium"), misread))
    for key in ("supplies_frequency", "supply_batch", "supply_manufacturing_machine"):
        assert found[key] == [False] + [True] * (len(found[key]) - 1)
    assert all(found["faulty_supplies"] + found["notfaulty_supplies"] + found["faulty_machines"])


def test_a_wrong_batch_costs_itself_alone():
    def mistake(supplies, _machines):
        supplies[0]["batch"] = "Z"

    found = verdicts_on(instance_of("medium"), edited(instance_of("medium"), mistake))
    assert [key for key, verdicts in found.items() if not all(verdicts)] == ["supply_batch"]


def test_a_good_supply_that_is_listed_costs_its_own_row():
    instance = instance_of("hard")
    extra = complement(instance)[0]
    found = verdicts_on(instance, edited(instance, lambda supplies, _: supplies.append(extra)))
    assert [key for key, each in found.items() if not all(each)] == ["notfaulty_supplies"]
    assert found["notfaulty_supplies"].count(False) == 1


def test_machines_without_readings_are_a_guess():
    """R8e: the right machines beside frequencies that were not measured."""

    def guess(supplies, _machines):
        for supply in supplies[: len(supplies) // 2 + 1]:
            supply["frequency_hz"] = 51

    for level in DIFFICULTIES:
        found = verdicts_on(instance_of(level), edited(instance_of(level), guess))
        assert not any(found["faulty_machines"] + found["not_faulty_machines"])
        assert all(found["faulty_supplies"] + found["notfaulty_supplies"])


def test_half_of_the_readings_are_enough_for_the_machines():
    instance = instance_of("medium")

    def half(supplies, _machines):
        for supply in supplies[: len(supplies) // 2]:
            supply["frequency_hz"] = 51

    found = verdicts_on(instance, edited(instance, half))
    assert all(found["faulty_machines"] + found["not_faulty_machines"])


def test_the_machine_at_ten_percent_is_a_row_of_its_own():
    instance = instance_of("hard")
    table = instance.truth.table("not_faulty_machines")
    at_threshold = table.column("percent").index(10.0)
    name = table.column("machine")[at_threshold]
    found = verdicts_on(instance, edited(instance, lambda _, machines: machines.append(name)))
    assert [index for index, ok in enumerate(found["not_faulty_machines"]) if not ok] == [
        at_threshold
    ]
    assert all(found["faulty_machines"])
    texts = [c.text for c in instance.rubric.parts if c.metarubric == "not_faulty_machines"]
    assert "2 of its 20 tested supplies failed, 10 %" in texts[at_threshold]


def test_all_machines_are_no_finding():
    instance = instance_of("hard")
    rest = instance.truth.table("not_faulty_machines").column("machine")
    found = verdicts_on(instance, edited(instance, lambda _, machines: machines.extend(rest)))
    assert not any(found["faulty_machines"] + found["not_faulty_machines"])


def test_no_machines_are_no_finding():
    instance = instance_of("hard")
    found = verdicts_on(instance, edited(instance, lambda _, machines: machines.clear()))
    assert not any(found["faulty_machines"] + found["not_faulty_machines"])


@pytest.mark.parametrize(
    ("true", "stated", "right"),
    [
        (33, 33, True),
        (33, 33.3, True),
        (33, 33.33333, True),
        (33, 34, False),
        (67, 67, True),
        (67, 66.7, True),
        (67, 66, False),
        (67, "67", False),
        (67, [67], False),
        (67, None, False),
        (100, 100, True),
        (100, 100.5, True),
        (100, 99.4, False),
        (100, True, False),
        (100, 10**400, False),
    ],
)
def test_frequencies_are_asked_to_the_nearest_integer(true, stated, right):
    ratio = {33: Ratio(1, 3), 67: Ratio(2, 3), 100: Ratio(1, 1)}[true]
    table = f"{TABLE_HEAD}1,01234567,AAAAAA,A,7\n1,11234567,AAAAAA,A,8\n".encode()
    truth = make_truth(table, {"7": ratio, "8": Ratio(1, 2)})
    supply = {"supply_id": "01234567", "machine": "AAAAAA", "batch": "A", "frequency_hz": stated}
    rubric = make_rubric(truth)
    verdicts = check_answer(rubric, Answer({"faulty": [supply], "machines": ["AAAAAA"]}))
    found = {c.metarubric: v for c, v in zip(rubric.parts, verdicts, strict=True)}
    assert found["supplies_frequency"] is found["supply_batch"] is right
    assert found["faulty_machines"] is right
    assert found["faulty_supplies"] is True


TABLE_HEAD = "day,supply_ID,machine,batch,measurement_id\n"


def test_an_identifier_read_as_a_number_is_another_one():
    instance = instance_of("hard")
    names = instance.truth.table("qa_data").column("supply_id")
    at = next(index for index, name in enumerate(names) if name.startswith("0"))

    for lost in (names[at].lstrip("0"), int(names[at])):

        def as_number(supplies, _machines, lost=lost):
            supplies[at]["supply_id"] = lost

        found = verdicts_on(instance, edited(instance, as_number))
        assert [index for index, ok in enumerate(found["faulty_supplies"]) if not ok] == [at]
        assert [index for index, ok in enumerate(found["supplies_frequency"]) if not ok] == [at]


def test_every_frequency_at_once_is_none():
    instance = instance_of("medium")

    def shotgun(supplies, _machines):
        supplies += [
            {**supply, "frequency_hz": hertz} for supply in supplies for hertz in (33, 67, 100)
        ]

    found = verdicts_on(instance, edited(instance, shotgun))
    assert not any(found["supplies_frequency"] + found["supply_batch"] + found["faulty_machines"])


def test_the_last_block_goes_before_prose_that_contradicts_it():
    instance = instance_of("easy")
    block = f"<answer>\n{json.dumps(FAMILY.key(instance.truth))}\n</answer>\n"
    assert score(instance, parse_answer(block + "In fact no supply is faulty.")) == 1.0
    assert score(instance, parse_answer(block.replace("}\n</answer>", "\n</answer>"))) == 0.0
    unfinished = "<answer>\n" + block + '<answer>\n{"task": "lissajous_figures", "faulty": [\n'
    assert score(instance, parse_answer(unfinished)) == 1.0


@pytest.mark.parametrize(
    "block",
    [
        {"faulty": "all", "machines": "all"},
        {"faulty": {"supply_id": "01234567"}, "machines": {"A": 1}},
        {"faulty": [[["01234567", 50]]], "machines": [["AAAAAA"]]},
        {"faulty": [None, True, 7], "machines": [None, True, 7]},
        {"faulty": [{"supply_id": None}, {}], "machines": [{}]},
    ],
)
def test_an_answer_of_another_shape_earns_nothing(block):
    assert score(instance_of("easy"), Answer(block)) == 0.0


# --- guesses of someone who reads the table but opens no picture (docs/decisions/0008)


def table_readers(rows, parameters, draws):
    """Answers by name: whole machines, and random picks of several sizes, each with one faulty
    frequency for all."""
    hertz = draws.choice([round(ratio.hertz) for ratio in parameters.ratios if not ratio.is_good])
    by_machine = defaultdict(list)
    for row in rows:
        by_machine[row["machine"]].append(row)
    names = draws.shuffle(list(by_machine))

    def answer(listed, machines):
        supplies = [
            {"supply_id": row["supply_ID"], "machine": row["machine"], "batch": row["batch"]}
            | {"frequency_hz": hertz}
            for row in listed
        ]
        return Answer({"task": NAME, "faulty": supplies, "machines": list(machines)})

    mine = by_machine[names[0]]
    found = {
        "none": answer([], []),
        "everything": answer(rows, names),
        "one machine": answer(mine, names[:1]),
        "two machines": answer(mine + by_machine[names[1]], names[:2]),
        "zeros": answer([row for row in rows if row["supply_ID"][0] == "0"], names[:1]),
    }
    for size in (1, 2, 4, 6):
        found[f"{size} of one machine"] = answer(draws.shuffle(mine)[:size], names[:1])
        found[f"{size} of all"] = answer(draws.shuffle(rows)[:size], names[:1])
    for part in (2, 3):
        found[f"1/{part} of all"] = answer(draws.shuffle(rows)[: len(rows) // part], names[:1])
    return found


def test_reading_the_table_alone_earns_next_to_nothing(difficulty):
    parameters = without_untested(BY_DIFFICULTY[difficulty])
    rounds = {"easy": 400, "medium": 200, "hard": 25}[difficulty]
    scores = defaultdict(list)
    for index in range(rounds):
        sample = sample_of(parameters, index)
        ratios = {unit.measurement_id: unit.figure.ratio for unit in sample.units}
        table = write_table(sample.units)
        rubric = make_rubric(make_truth(table, ratios))
        rows = list(csv.DictReader(io.StringIO(table.decode())))
        for name, answer in table_readers(rows, parameters, ROOT.child(index).rng()).items():
            verdicts = check_answer(rubric, answer)
            scores[name].append(score_verdicts(rubric, verdicts, BEYOND_INSTRUCTIONS))
    means = {name: sum(each) / len(each) for name, each in scores.items()}
    assert means["none"] == means["everything"] == 0.0
    assert {name: mean for name, mean in means.items() if mean > NULL_SCORE} == {}
