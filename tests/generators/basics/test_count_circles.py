"""count_circles: pictures that show what the truth says, and marks that guesses do not earn."""

from __future__ import annotations

import io
import itertools
import math

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from generators.basics.count_circles import (
    BY_DIFFICULTY,
    FAMILY,
    GAP,
    MARGIN,
    RADIUS,
    SIDE,
    Parameters,
    draw_counts,
    draw_image,
    draw_sample,
    make_answer,
    make_nulls,
    make_rubric,
    make_truth,
    place,
)
from generators.errors import GuardExhausted
from generators.grading.answer import Answer
from generators.grading.rubric import check_answer, score_verdicts
from generators.seed import Seed, SeedStreams
from generators.task import Limits
from generators.validation.result import NULL_SCORE
from generators.validation.scores import BEYOND_INSTRUCTIONS
from generators.validation.validate import public_seeds
from tests.cases import cases
from tests.generators.measures import as_many
from tests.generators.words import Forced, Told


def streams_of(seed: Seed) -> SeedStreams:
    return SeedStreams(seed, "count_circles", "1", "test")


def forced(words) -> Forced:
    return Forced(streams_of(public_seeds(1)[0]), words)


def parameters(files: int, most: int) -> Parameters:
    return Parameters(files, most, limits=Limits())


# --- draws


def test_discs_keep_their_distance_from_each_other_and_the_edge():
    for seed in public_seeds(5):
        for centres in draw_sample(parameters(32, 32), streams_of(seed)).images:
            for (x, y), (a, b) in itertools.combinations(centres, 2):
                assert math.hypot(x - a, y - b) >= GAP
            for x, y in centres:
                assert MARGIN <= min(x, y) <= max(x, y) <= SIDE - MARGIN


def test_a_picture_without_room_is_drawn_again():
    """A stream that names one place for ever has room for one disc."""
    assert place(1, Told(1 << 63)) is not None
    assert place(2, Told(1 << 63)) is None
    crowded = forced(
        lambda purpose, _i, attempt: 1 << 63 if (purpose, attempt) == ("centres", 0) else None
    )
    sample = draw_sample(parameters(4, 8), crowded)
    assert sample.redraws == sum(len(centres) > 1 for centres in sample.images)


def test_a_picture_that_never_has_room_fails_loudly():
    crowded = forced(lambda purpose, _i, _a: 1 << 63 if purpose == "centres" else None)
    with pytest.raises(GuardExhausted, match="centres of image"):
        draw_sample(parameters(4, 8), crowded)


# --- pictures


@pytest.mark.parametrize("difficulty", BY_DIFFICULTY)
def test_a_picture_shows_as_many_discs_as_the_truth_says(difficulty):
    instance = FAMILY.generate(difficulty, public_seeds(1)[0])
    shown = {
        asset.path: ndimage.label(decode(asset.data) < 128, np.ones((3, 3)))[1]
        for asset in instance.brief.assets
    }
    assert shown == dict(instance.truth.table("images").rows)


def test_a_disc_is_black_within_white_without_and_as_dark_as_its_area():
    x, y = 100.3, 200.8
    pixels = draw_image(((x, y),)).astype(float)
    middles = np.arange(SIDE) + 0.5
    distance = np.hypot(middles[None, :] - x, middles[:, None] - y)
    assert (pixels[distance <= RADIUS - 0.5] == 0).all()
    assert (pixels[distance >= RADIUS + 0.5] == 255).all()
    assert (255 - pixels).sum() / 255 == pytest.approx(math.pi * RADIUS**2, rel=0.005)


def decode(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image)


# --- marks


def rubric_for(counts):
    return make_rubric(make_truth(counts))


def verdicts_on(truth, counts, average, **described):
    answer = Answer({**make_answer(counts), "average": average, **described})
    rubric = rubric_for(truth)
    verdicts: dict[str, list[bool | None]] = {}
    for criterion, verdict in zip(rubric.parts, check_answer(rubric, answer), strict=True):
        verdicts.setdefault(criterion.metarubric, []).append(verdict)
    return verdicts


def test_a_miscount_costs_its_picture_and_the_average_but_not_consistency():
    assert verdicts_on([1, 2, 3, 4], [1, 2, 3, 5], 2.75) == cases(__file__, "miscount")


def test_what_describes_the_counts_needs_half_of_them():
    found = verdicts_on([1, 2, 3, 4], [4, 3, 2, 1], 2.5)
    assert found.pop("answer_block") == found.pop("answer_schema") == [True]
    assert not any(itertools.chain(*found.values()))


def test_an_average_that_is_not_that_of_the_counts_is_not_consistent():
    found = verdicts_on([1, 2, 3, 4], [1, 2, 3, 5], 2.5)
    assert (found["average_circles"], found["average_consistent"]) == ([True], [False])


# --- guesses at easy (docs/decisions/0002-count-circles-easy.md)


def test_at_easy_the_best_guess_stays_below_the_bound():
    """Guesses that know the design: as many pictures in each quarter of the range."""
    easy = BY_DIFFICULTY["easy"]
    guesses = [*make_nulls(easy).values(), make_answer([1, 1, 3, 3, 5, 5, 7, 7])]
    guesses += [make_answer([count] * 4 + [count + 2] * 4) for count in range(1, 7)]
    counts = [draw_counts(easy, streams_of(seed)) for seed in public_seeds(as_many(100, 400))]
    rubrics = [rubric_for(each) for each in counts]
    means = [
        sum(
            score_verdicts(rubric, check_answer(rubric, Answer(guess)), BEYOND_INSTRUCTIONS)
            for rubric in rubrics
        )
        / len(rubrics)
        for guess in guesses
    ]
    assert 0.08 < max(means) < 0.12 < NULL_SCORE


def test_the_null_answers_include_counts_that_run_through_the_range():
    ramp = make_nulls(parameters(4, 8))["ramp"]
    assert (ramp["counts"]["4.png"], ramp["average"]) == (4, 2.5)
