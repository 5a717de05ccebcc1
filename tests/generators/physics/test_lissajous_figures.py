"""lissajous_figures: pictures that determine the frequencies, and marks that only they earn."""

from __future__ import annotations

import copy
import csv
import dataclasses
import functools
import io
import itertools
import math
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np
import pytest
from PIL import Image

from generators.attackers import Access
from generators.errors import GuardExhausted
from generators.grading.answer import Answer
from generators.grading.rubric import check_answer, score_verdicts
from generators.physics.lissajous_figures import FAMILY
from generators.physics.lissajous_figures import solver as solve
from generators.physics.lissajous_figures.attackers import ATTACKERS, miss_tips
from generators.physics.lissajous_figures.parameters import (
    BY_DIFFICULTY,
    COIL_TABLE,
    NAME,
    REFERENCE_HZ,
    SIDE,
    TABLE,
    TIP_GAP,
    TURN,
    Ratio,
    fits,
    picture_path,
)
from generators.physics.lissajous_figures.render import (
    COSINE_BITS,
    cosine_table,
    draw_picture,
    encode_png,
    write_coils,
    write_table,
)
from generators.physics.lissajous_figures.rubric import make_rubric
from generators.physics.lissajous_figures.sample import draw_figure, draw_sample, tip_gap
from generators.physics.lissajous_figures.truth import make_truth
from generators.seed import Seed, SeedStreams
from generators.task import DIFFICULTIES
from generators.validation.result import NULL_SCORE
from generators.validation.scores import BEYOND_INSTRUCTIONS
from generators.validation.validate import public_seeds
from tests.generators.measures import as_many
from tests.generators.words import Forced, Told

EASY, MEDIUM, HARD = (BY_DIFFICULTY[level] for level in DIFFICULTIES)
LEVELS = (EASY, MEDIUM, HARD)
PAIRS = [pair for level in LEVELS for pair in level.ratios]
EVERY_RATIO = tuple(dict.fromkeys(itertools.chain(*PAIRS)))
TABLE_ATTACKERS = [each for each in ATTACKERS if each.access is Access.TABLES]
ROOT = public_seeds(1)[0].child("lissajous tests")


def streams_of(seed: Seed) -> SeedStreams:
    return SeedStreams(seed, NAME, FAMILY.version, "test")


def forced(words) -> Forced:
    return Forced(streams_of(ROOT), words)


def sample_of(parameters, index=0):
    return draw_sample(parameters, streams_of(ROOT.child(index)))


def with_figures(sample):
    return [unit for unit in sample.units if unit.figure is not None]


def without_untested(parameters):
    """The same without untested units, which cost time and decide nothing."""
    return dataclasses.replace(parameters, units=parameters.tested * parameters.machines)


@functools.cache
def instance_of(difficulty, index=0):
    return FAMILY.generate(difficulty, public_seeds(index + 1)[index])


@pytest.fixture(params=DIFFICULTIES)
def difficulty(request):
    return request.param


# --- what is a good supply


def test_the_impedance_is_asked_to_three_figures():
    at = 1 / (2 * math.pi * 50)
    verdicts = [fits(ohm * at, 50.0) for ohm in (376.4999, 376.5001, 377.4999, 377.5001)]
    assert verdicts == [False, True, True, False]


@pytest.mark.parametrize("ratio", EVERY_RATIO, ids=str)
def test_the_symmetry_is_that_of_the_curve_and_the_period_its_shortest(ratio):
    """Compared with the curve itself, as a set of points, at a phase without more symmetry."""
    turns = 2 * math.pi * np.arange(7200) / 7200
    x, y = np.cos(ratio.p * turns + 0.4 / ratio.q), np.cos(ratio.q * turns)
    from scipy.spatial import cKDTree

    curve = cKDTree(np.column_stack((x, y)))
    mirrored = {"half-turn": (-x, -y), "left-right": (-x, y), "up-down": (x, -y)}
    apart = {
        name: curve.query(np.column_stack(points))[0].max() for name, points in mirrored.items()
    }
    assert {name for name, distance in apart.items() if distance < 0.01} == {ratio.symmetry}
    cycles = Fraction(ratio.period_ms, 1000) * REFERENCE_HZ, Fraction(ratio.period_ms, 1000)
    assert cycles == (ratio.p, ratio.q / ratio.hertz)


# --- draws


def test_medium_and_hard_have_a_machine_at_the_threshold():
    for level in (MEDIUM, HARD):
        assert Fraction(1, 10) in {Fraction(low, level.tested) for low, _ in level.faults}


# --- guards


def test_a_figure_with_tips_that_cannot_be_told_apart_is_drawn_again():
    """The smallest words give the smallest amplitudes and the least open figure; at 90 Hz some
    tips are then 9 pixels apart."""
    assert draw_figure(Ratio(9, 10), Told(0)) is None
    assert draw_figure(Ratio(9, 10), Told(3 << 62)) is not None
    parameters = dataclasses.replace(
        without_untested(EASY), ratios=((Ratio(1, 2), Ratio(9, 10)), (Ratio(2, 3), Ratio(7, 10)))
    )
    crowded = forced(
        lambda purpose, _i, attempt: 0 if purpose.startswith("figure/") and attempt == 0 else None
    )
    sample = draw_sample(parameters, crowded)
    assert sample.redraws >= sum(unit.figure.ratio == Ratio(9, 10) for unit in with_figures(sample))
    assert all(tip_gap(unit.figure) >= TIP_GAP for unit in with_figures(sample))


def test_figures_that_stay_crowded_fail_loudly():
    parameters = dataclasses.replace(
        without_untested(EASY), ratios=((Ratio(1, 2), Ratio(9, 10)), (Ratio(2, 3), Ratio(7, 10)))
    )
    crowded = forced(lambda purpose, _i, _a: 0 if purpose.startswith("figure/") else None)
    with pytest.raises(GuardExhausted, match="figure"):
        draw_sample(parameters, crowded)


@pytest.mark.parametrize("what", ["supply", "measurement", "machine"])
def test_identifiers_that_are_taken_are_drawn_again(what):
    taken = forced(
        lambda purpose, _i, attempt: 7 if purpose.split("/")[0] == what and attempt == 0 else None
    )
    sample = draw_sample(EASY, taken)
    names = {"supply": "supply_id", "measurement": "measurement_id", "machine": "machine"}
    found = [getattr(unit, names[what]) for unit in with_figures(sample)]
    assert sample.redraws >= len(set(found)) - 1
    assert len(set(found)) == (2 if what == "machine" else len(found))


@pytest.mark.parametrize("what", ["supply", "measurement", "machine"])
def test_identifiers_that_stay_taken_fail_loudly(what):
    taken = forced(lambda purpose, _i, _a: 7 if purpose.split("/")[0] == what else None)
    with pytest.raises(GuardExhausted, match="identifier"):
        draw_sample(EASY, taken)


# --- figures


def test_the_gap_of_tips_is_that_of_the_curve():
    """Found by brute force: where the curve turns back at an edge of its box."""
    for ratio, index in itertools.product(
        (Ratio(2, 3), Ratio(7, 10), Ratio(9, 10)), range(as_many(2, 5))
    ):
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
    return (draw_picture(figure) % 5) / 4


@pytest.mark.parametrize("ratio", EVERY_RATIO, ids=lambda ratio: f"{float(ratio.hertz):.0f}Hz")
def test_a_picture_shows_the_curve_all_of_it_and_nothing_else(ratio):
    figure = next(filter(None, (draw_figure(ratio, ROOT.child(n).rng()) for n in range(99))))
    cover = cover_of(figure)
    turns = np.linspace(0.0, 2 * math.pi, 100_001)
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
    assert np.abs(exact - np.floor(exact) - 0.5).min() > 100 * scale * 2.0**-52
    assert (cosine_table()[: TURN // 2] == -cosine_table()[TURN // 2 :]).all()


# --- files and truth


def rows_of(instance):
    return list(csv.DictReader(io.StringIO(instance.brief.assets[0].data.decode())))


def test_the_truth_is_that_of_the_tables(difficulty):
    instance = instance_of(difficulty)
    truth = instance.truth
    coils = csv.DictReader(io.StringIO(instance.brief.assets[1].data.decode()))
    henries = {row["coil"]: float(row["inductance_H"]) for row in coils}
    tested = {row["supply_ID"]: row for row in rows_of(instance) if row["measurement_id"]}
    rows = truth.table("tested").records()
    assert [row["supply_id"] for row in rows] == list(tested)
    for row in rows:
        written = tested[row["supply_id"]]
        for name in ("machine", "batch", "measurement_id"):
            assert row[name] == written[name]
        fitting = [name for name, henry in henries.items() if fits(henry, row["frequency_hz"])]
        assert [row["coil"]] == (fitting or ["none"])
    faulty = set(truth.table("faulty").column("supply_id"))
    assert faulty == {row["supply_id"] for row in rows if row["coil"] == "none"}
    assert set(truth.table("good").column("supply_id")) == tested.keys() - faulty
    for table, column in (("machines", "machine"), ("batches", "batch")):
        made = Counter(row[column] for row in tested.values())
        failed = Counter(tested[name][column] for name in faulty)
        counts = {
            row[column]: (row["tested"], row["faulty"]) for row in truth.table(table).records()
        }
        assert counts == {name: (count, failed[name]) for name, count in made.items()}
    rates = {row["machine"]: row["percent"] for row in truth.table("machines").records()}
    bad = {machine for machine, percent in rates.items() if percent > 10}
    assert set(truth.table("faulty_machines").column("machine")) == bad
    assert set(truth.table("not_faulty_machines").column("machine")) == rates.keys() - bad


# --- the whole instance


def test_the_solver_reads_every_frequency_at_every_openness(tmp_path):
    wrong = []
    for ratio, index in itertools.product(EVERY_RATIO, range(as_many(2, 6))):
        figure = next(
            filter(None, (draw_figure(ratio, ROOT.child("s", index, n).rng()) for n in range(99)))
        )
        path = tmp_path / "ID_1.png"
        path.write_bytes(encode_png(draw_picture(figure)))
        if solve.read_ratio(path) != (ratio.q, ratio.p):
            wrong.append(figure)
    assert wrong == []


# --- marks


def verdicts_on(instance, answer):
    found = defaultdict(list)
    for criterion, verdict in zip(
        instance.rubric.parts, check_answer(instance.rubric, answer), strict=True
    ):
        found[criterion.metarubric].append(verdict)
    return dict(found)


def edited(instance, edit):
    """The key, changed."""
    key = copy.deepcopy(FAMILY.key(instance.truth))
    edit(key)
    return Answer(key)


def missed(instance, edit):
    """The metarubrics of which the changed key misses a part, with how many it misses."""
    found = verdicts_on(instance, edited(instance, edit))
    return {key: each.count(False) for key, each in found.items() if not all(each)}


def score(instance, answer):
    return score_verdicts(
        instance.rubric, check_answer(instance.rubric, answer), BEYOND_INSTRUCTIONS
    )


def test_a_wrong_frequency_costs_its_symmetry_and_its_coil_too():
    """R8b: what is one of a few counts only beside a frequency that was measured."""

    def misread(key):
        key["supplies"][0]["frequency_hz"] += 5

    kind = missed(instance_of("medium"), misread)
    assert kind.pop("good_supplies", 0) + kind.pop("faulty_supplies", 0) == 1
    assert kind == {"supplies_frequency": 1, "symmetry": 1}


# --- guesses of someone who reads the tables but opens no picture (docs/decisions/0008)


def test_reading_the_tables_alone_earns_next_to_nothing(difficulty):
    """The attackers, which know the coils, and a guess that knows all but the frequencies."""
    parameters = without_untested(BY_DIFFICULTY[difficulty])
    scores = defaultdict(list)
    for index in range(
        as_many(*{"easy": (60, 300), "medium": (30, 150), "hard": (8, 40)}[difficulty])
    ):
        sample = sample_of(parameters, index)
        ratios = {unit.measurement_id: unit.figure.ratio for unit in with_figures(sample)}
        tables = {TABLE: write_table(sample.units), COIL_TABLE: write_coils(sample.coils)}
        truth = make_truth(*tables.values(), ratios)
        rubric = make_rubric(truth)
        files = tables | {picture_path(name): b"" for name in ratios}
        answers = {each.name: each.attack(files) for each in TABLE_ATTACKERS}
        most = Counter(truth.table("good").column("hertz")).most_common(1)[0][0]
        known = FAMILY.key(truth)
        for supply in known["supplies"]:
            supply["frequency_hz"] = most
        for name, block in (answers | {"all but the frequencies": known}).items():
            verdicts = check_answer(rubric, Answer(dict(block)))
            scores[name].append(score_verdicts(rubric, verdicts, BEYOND_INSTRUCTIONS))
    means = {name: sum(each) / len(each) for name, each in scores.items()}
    assert len(means) == 3
    assert means["all but the frequencies"] == means["one frequency for all"] == 0.0
    assert {name: mean for name, mean in means.items() if mean > NULL_SCORE} == {}


def test_a_reader_who_misses_no_tip_is_right_and_one_who_misses_them_all_reads_100_hz():
    instance = instance_of("easy")
    files = {asset.path: asset.data for asset in instance.brief.assets}
    assert score(instance, Answer(miss_tips(0.0, files, ROOT.rng()))) == 1.0
    read = miss_tips(1.0, files, ROOT.rng())
    assert {supply["frequency_hz"] for supply in read["supplies"]} == {100}
