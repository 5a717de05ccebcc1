"""count_circles: pictures that show what the truth says, and marks that guesses do not earn."""

from __future__ import annotations

import io
import itertools
import math
from collections import Counter

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage, stats

from generators.basics.count_circles import (
    FAMILY,
    GAP,
    MARGIN,
    RADIUS,
    SIDE,
    Parameters,
    draw_image,
    draw_sample,
    encode_png,
    make_nulls,
    make_rubric,
    make_truth,
    place,
)
from generators.errors import GuardExhausted
from generators.grading.answer import Answer
from generators.grading.rubric import check_answer, score_verdicts
from generators.seed import Seed, SeedStreams
from generators.stream import Stream
from generators.task import Asset, Limits
from generators.validation.result import NULL_SCORE
from generators.validation.scores import BEYOND_INSTRUCTIONS
from generators.validation.validate import public_seeds


def streams_of(seed: Seed) -> SeedStreams:
    return SeedStreams(seed, "count_circles", "1", "test")


class Forced:
    """Streams whose words are given by purpose, index and attempt."""

    def __init__(self, words):
        self._words = words

    def at(self, purpose, index=0, attempt=0):
        word = self._words(purpose, index, attempt)
        return streams_of(public_seeds(1)[0]).at(purpose, index) if word is None else Constant(word)


class Constant(Stream):
    __slots__ = ("_word",)

    def __init__(self, word):
        self._word = word

    def word(self):
        return self._word


def parameters(files: int, most: int) -> Parameters:
    return Parameters(files, most, limits=Limits())


# --- draws


def test_counts_are_uniform():
    drawn = [draw_sample(parameters(30, 10), streams_of(seed)) for seed in public_seeds(40)]
    counts = Counter(len(centres) for sample in drawn for centres in sample.images)
    assert sorted(counts) == list(range(1, 11))
    assert stats.chisquare(list(counts.values())).pvalue > 0.01


def test_discs_keep_their_distance_from_each_other_and_the_edge():
    for seed in public_seeds(5):
        for centres in draw_sample(parameters(30, 30), streams_of(seed)).images:
            for (x, y), (a, b) in itertools.combinations(centres, 2):
                assert math.hypot(x - a, y - b) >= GAP
            for x, y in centres:
                assert MARGIN <= min(x, y) <= max(x, y) <= SIDE - MARGIN


def test_one_more_picture_leaves_the_others_as_they_were():
    seed = public_seeds(1)[0]
    ten = draw_sample(parameters(10, 10), streams_of(seed))
    eleven = draw_sample(parameters(11, 10), streams_of(seed))
    assert eleven.images[:10] == ten.images


def test_equal_counts_are_drawn_again():
    first_equal = Forced(
        lambda purpose, _i, attempt: 7 if (purpose, attempt) == ("count", 0) else None
    )
    sample = draw_sample(parameters(2, 6), first_equal)
    assert sample.redraws == 1
    assert len({len(centres) for centres in sample.images}) == 2


def test_counts_that_stay_equal_fail_loudly():
    with pytest.raises(GuardExhausted, match="counts"):
        draw_sample(
            parameters(2, 6), Forced(lambda purpose, _i, _a: 7 if purpose == "count" else None)
        )


def test_a_picture_without_room_is_drawn_again():
    """A stream that names one place for ever has room for one disc."""
    assert place(1, Constant(1 << 63)) is not None
    assert place(2, Constant(1 << 63)) is None
    crowded = Forced(
        lambda purpose, _i, attempt: 1 << 63 if (purpose, attempt) == ("centres", 0) else None
    )
    sample = draw_sample(parameters(2, 6), crowded)
    assert sample.redraws == sum(len(centres) > 1 for centres in sample.images)


def test_a_picture_that_never_has_room_fails_loudly():
    crowded = Forced(lambda purpose, _i, _a: 1 << 63 if purpose == "centres" else None)
    with pytest.raises(GuardExhausted, match="centres of image"):
        draw_sample(parameters(2, 6), crowded)


# --- pictures


def test_a_picture_shows_as_many_discs_as_the_truth_says(strata):
    for stratum in strata:
        if stratum.family.name == "count_circles":
            instance = stratum.instances[0]
            truth = dict(instance.truth.table("images").rows)
            shown = {
                asset.path: ndimage.label(decode(asset.data) < 128, np.ones((3, 3)))[1]
                for asset in instance.brief.assets
            }
            assert shown == truth


def test_a_disc_is_black_within_white_without_and_as_dark_as_its_area():
    x, y = 100.3, 200.8
    pixels = draw_image(((x, y),)).astype(float)
    middles = np.arange(SIDE) + 0.5
    distance = np.hypot(middles[None, :] - x, middles[:, None] - y)
    assert (pixels[distance <= RADIUS - 0.5] == 0).all()
    assert (pixels[distance >= RADIUS + 0.5] == 255).all()
    assert (255 - pixels).sum() / 255 == pytest.approx(math.pi * RADIUS**2, rel=0.005)


def test_a_picture_is_plain_8_bit_grey_without_text_or_time():
    data = encode_png(draw_image(((100.0, 100.0),)))
    assert set(chunk_names(data)) == {b"IHDR", b"IDAT", b"IEND"}
    with Image.open(io.BytesIO(data)) as image:
        assert (image.mode, image.size, image.info) == ("L", (SIDE, SIDE), {})


def chunk_names(data: bytes):
    at = 8
    while at < len(data):
        yield data[at + 4 : at + 8]
        at += 12 + int.from_bytes(data[at : at + 4], "big")


def decode(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image)


def test_the_truth_pins_each_file_and_its_pixels():
    instance = FAMILY.generate("easy", public_seeds(1)[0])
    digests = dict(instance.truth.digests)
    assert len(digests) == 4
    for asset in instance.brief.assets:
        pixels = Asset("", "", decode(asset.data).tobytes())
        assert digests[asset.path] == asset.digest
        assert digests[f"{asset.path}#pixels"] == pixels.digest


# --- marks


def rubric_for(counts):
    return make_rubric(make_truth(counts))


def verdicts_on(truth, counts, average):
    named = {f"{at}.png": count for at, count in enumerate(counts, 1)}
    answer = Answer({"task": "count_circles", "counts": named, "average": average})
    rubric = rubric_for(truth)
    verdicts: dict[str, list[bool | None]] = {}
    for criterion, verdict in zip(rubric.criteria, check_answer(rubric, answer), strict=True):
        verdicts.setdefault(criterion.metarubric, []).append(verdict)
    return verdicts


def test_a_miscount_costs_its_picture_and_the_average_but_not_consistency():
    assert verdicts_on([1, 2, 3, 4], [1, 2, 3, 5], 2.75) == {
        "answer_block": [True],
        "answer_schema": [True],
        "count_circles": [True, True, True, False],
        "average_circles": [False],
        "average_consistent": [True],
    }


def test_an_average_that_is_not_that_of_the_counts_is_not_consistent():
    found = verdicts_on([1, 2, 3, 4], [1, 2, 3, 5], 2.5)
    assert (found["average_circles"], found["average_consistent"]) == ([True], [False])


def test_an_average_without_half_of_its_counts_is_a_guess():
    found = verdicts_on([1, 2, 3, 4], [1, 3, 2, 5], 2.5)
    assert (found["average_circles"], found["average_consistent"]) == ([False], [False])
    found = verdicts_on([1, 2, 3, 4], [1, 2, 4, 3], 2.5)
    assert (found["average_circles"], found["average_consistent"]) == ([True], [True])


@pytest.mark.parametrize(
    ("average", "right"), [(2.5, True), (2.504, True), (2.496, True), (2.51, False)]
)
def test_the_average_is_asked_to_half_a_hundredth(average, right):
    assert verdicts_on([1, 2, 3, 4], [1, 2, 3, 4], average)["average_circles"] == [right]


def test_extra_files_earn_no_consistency():
    found = verdicts_on([1, 2], [1, 2, 3], 2.0)
    assert found["average_consistent"] == [False]


# --- guesses at easy, by exact enumeration (docs/decisions/0002-count-circles-easy.md)


def expected_scores(most: int) -> dict[tuple[int, int, float], float]:
    """What each fixed answer to two pictures earns outside instructions-following, on average
    over every pair of unequal counts from 1 to ``most``, which are equally likely."""
    truths = list(itertools.permutations(range(1, most + 1), 2))
    rubrics = [rubric_for(truth) for truth in truths]
    means = sorted({(a + b) / 2 for a, b in truths})
    earned = {}
    for one, other in itertools.product(range(1, most + 1), repeat=2):
        for average in means:
            answer = Answer({"counts": {"1.png": one, "2.png": other}, "average": average})
            scores = [
                score_verdicts(rubric, check_answer(rubric, answer), BEYOND_INSTRUCTIONS)
                for rubric in rubrics
            ]
            earned[one, other, average] = sum(scores) / len(scores)
    return earned


def test_at_easy_the_best_guess_stays_below_the_bound():
    earned = expected_scores(FAMILY.parameters("easy")["most"])
    constants = [score for (one, other, _), score in earned.items() if one == other]
    assert max(constants) == pytest.approx(34 / 399, abs=1e-12)
    assert max(earned.values()) == pytest.approx(23 / 266, abs=1e-12)
    assert max(earned.values()) <= NULL_SCORE


def test_with_three_counts_as_specified_a_guess_would_not():
    earned = expected_scores(3)
    assert earned[1, 2, 1.5] == pytest.approx(29 / 114)
    assert max(earned.values()) == earned[1, 1, 2.0] == pytest.approx(6 / 19)
    assert earned[1, 2, 1.5] > NULL_SCORE


def test_the_null_answers_include_the_best_guess_of_counts():
    ramp = make_nulls(parameters(2, 6))["ramp"]
    assert (ramp["counts"], ramp["average"]) == ({"1.png": 1, "2.png": 2}, 1.5)
