"""Number of samples that a question needs: progressive sampling (PICARD paper, section 6.3).

The curve: from the samples that were answered, many random subsets of n = 5, 10, 15, … are taken,
and the mean width of the 95 % interval in them is set against n. Its *elbow* is the point that
lies farthest below the chord from the first to the last, both axes scaled to 0…1 (Satopää et al.
2011, "Kneedle"; no smoothing, the smaller n of two): from there on, more samples give less than
they did on average. It depends on how far the curve goes, so it is guidance for a pilot. The
number of samples for a wanted width does not.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.errors import AnalysisError
from analysis.stats.proportions import Rate, Z, effective_answers, rate_of, wilson
from analysis.templates.breakdown import AnswerRow, Answers, Subject, by_subject

STEP = 5  # samples
SUBSETS = 200
WIDTHS = (0.2, 0.1)
_MOST = 10**9  # samples: beyond it a width is not worth asking for


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Estimates from random subsets of one size."""

    samples: int
    mean: float  # of the estimates of all subsets
    low: float  # 5 % and 95 % of them
    high: float
    width: float  # mean width of the 95 % interval


@dataclass(frozen=True, slots=True)
class SampleNeed:
    """Number of samples for an interval of a width, from the answers to a question so far."""

    width: float  # of the whole interval, 0…1
    samples: int  # if the true rate is the one seen
    samples_cautious: int  # if it is the one nearest ½ in the interval that was seen


@dataclass(frozen=True, slots=True)
class Curve:
    """The progressive-sampling curve of one question, and the samples that it needs.

    ``elbow`` is a number of samples, None where there are fewer than three points, or the curve
    does not bend.
    """

    subject: Subject
    question: str
    points: tuple[CurvePoint, ...]
    elbow: int | None
    needs: tuple[SampleNeed, ...]


def guide(answers: Answers, seed: str) -> tuple[Curve, ...]:
    """Curves and needs by subject and question, of those that have answers. ``seed`` is any text,
    such as a digest of the answers: the same gives the same subsets."""
    curves = []
    for subject, by_question in by_subject(answers):
        for question, rows in by_question.items():
            rate = rate_of((row.instance, row.strict) for row in rows)
            if rate.answers:
                points = progressive_curve(rows, _stream(seed, *map(str, subject), question))
                needs = tuple(SampleNeed(w, *samples_for_width(rate, w)) for w in WIDTHS)
                curves.append(Curve(subject, question, points, find_elbow(points), needs))
    return tuple(curves)


def progressive_curve(
    rows: Sequence[AnswerRow], stream: np.random.Generator, step: int = STEP, subsets: int = SUBSETS
) -> tuple[CurvePoint, ...]:
    """The curve of one question's answers: ``step``, 2·``step``, … samples and all of them.

    Each of ``subsets`` random orders of the samples gives a subset at every point, its first n.
    """
    right, total = _by_instance(rows)
    if not len(right):
        return ()
    order = np.argsort(stream.random((subsets, len(right))), axis=1, kind="stable")
    y, m = right[order], total[order]
    means = np.cumsum(y, 1) / np.cumsum(m, 1)
    n = effective_answers(y, m)
    half = np.sqrt(means * (1 - means) / n + Z**2 / (4 * n**2)) / (1 + Z**2 / n)
    widths = 2 * Z * half  # of ``wilson``, which lies inside 0…1 by itself
    points = sorted({*range(step, len(right) + 1, step), len(right)})
    return tuple(_point(at, means[:, at - 1], widths[:, at - 1]) for at in points)


def find_elbow(points: Sequence[CurvePoint]) -> int | None:
    """The number of samples at the elbow of the widths; see the module for the rule."""
    if len(points) < 3:
        return None
    x = np.array([point.samples for point in points], dtype=np.float64)
    y = np.array([point.width for point in points])
    if y[0] - y[-1] <= 1e-9:
        return None
    below = (1 - (x - x[0]) / (x[-1] - x[0])) - (y - y[-1]) / (y[0] - y[-1])
    best = int(np.argmax(np.round(below, 9)))  # the first of equals
    return points[best].samples if below[best] > 1e-9 else None


def samples_for_width(rate: Rate, width: float) -> tuple[int, int]:
    """Samples for an interval of at most ``width``: at the rate that was seen, and at the one
    nearest ½ that its interval holds; each with as many effective answers a sample as here.

    Raises AnalysisError for a rate without answers.
    """
    if rate.mean is None or rate.interval is None:
        raise AnalysisError("no answers: they say nothing of how many samples are needed")
    per_instance = rate.effective / rate.instances
    worst = min(max(0.5, rate.interval[0]), rate.interval[1])
    return _samples(rate.mean, per_instance, width), _samples(worst, per_instance, width)


def _samples(mean: float, per_instance: float, width: float) -> int:
    """The least number of samples, by bisection: the width falls with their number."""

    def wide(samples: int) -> bool:
        low, high = wilson(mean, samples * per_instance)
        return high - low > width

    low, high = 0, 1  # too few, or none; perhaps enough
    while wide(high) and high < _MOST:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if wide(middle) else (low, middle)
    return high


def _by_instance(rows: Sequence[AnswerRow]) -> NDArray[np.float64]:
    """Right answers and answers of each sample, in an order that names do not decide."""
    verdicts: dict[Hashable, list[bool]] = defaultdict(list)
    for row in rows:
        if row.strict is not None:
            verdicts[row.instance].append(row.strict)
    counts = sorted((sum(right), len(right)) for right in verdicts.values())
    return np.array(counts, dtype=np.float64).reshape(-1, 2).T


def _point(n: int, means: NDArray[np.float64], widths: NDArray[np.float64]) -> CurvePoint:
    low, high = np.quantile(means, (0.05, 0.95))
    return CurvePoint(n, float(means.mean()), float(low), float(high), float(widths.mean()))


def _stream(*path: str) -> np.random.Generator:
    """A stream of uniforms for a path of names."""
    text = "|".join(path)
    return np.random.Generator(np.random.PCG64(int(hashlib.sha256(text.encode()).hexdigest(), 16)))
