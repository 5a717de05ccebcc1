"""The part of a report on calibrations, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from analysis.calibrate.calibration import RESAMPLED, RecordedCalibration
from analysis.calibrate.figures import plot_calibration
from analysis.csv_text import csv_files, inner_rows, without
from analysis.plan.presets import OUTCOME_WORDS
from analysis.report.part import (
    NONE,
    Block,
    Heading,
    Paragraph,
    Part,
    PartFigure,
    ReportTable,
    tabulate,
)
from analysis.report.wording import short, time_words_of
from analysis.stats.intervals import counted, points, signed
from analysis.words import words_in

_WORDS = words_in("analysis.calibrate", "words.yaml")
_TITLE = "Known leaks in stored scores"


def calibration_part(made: RecordedCalibration | None) -> Part:
    """The part on a calibration, empty without one."""
    data = [] if made is None else [made.as_json()]
    return Part(
        name="calibration",
        title="Calibration: how large a leak is found",
        after="missing",
        body=() if made is None else tuple(_body(made)),
        summary=() if made is None else tuple(_summary(made)),
        data={"calibration": data},
        files=csv_files(
            {
                "calibration": [without(row, "doses") for row in data],
                "calibration_doses": inner_rows(data, "doses", "how"),
            }
        ),
        leak_found=_WORDS["leak_found"] if data else "",
    )


def _body(made: RecordedCalibration) -> Iterator[Block]:
    yield Paragraph(_WORDS["introduction"])
    yield Heading(_TITLE)
    yield from map(Paragraph, calibration_words(made))
    curve = "" if made.found.enough is None else _WORDS["curve"]
    caption = _WORDS["figure"].format(curve=curve)
    yield PartFigure("calibration", caption, partial(plot_calibration, made.found))
    yield calibration_table(made)
    if made.result:
        words = f"On record since {time_words_of(made.made)}, as {short(made.result)}"
        yield Paragraph(words, note=True)


def _summary(made: RecordedCalibration) -> Iterator[Block]:
    yield Heading(f"Calibration: {_TITLE.lower()}")
    yield Paragraph(" ".join(calibration_words(made)))
    yield replace(calibration_table(made), caption="")


def calibration_words(made: RecordedCalibration) -> tuple[str, ...]:
    """The results of a calibration in sentences, its notes last."""
    result = made.found
    sentences = [_ground_words(made), _rule_words(made)]
    if result.se is not None and result.blank is not None and result.limit is not None:
        dose = result.limit_dose
        at = (
            "more than a model gains there that knows every public instance"
            if dose is None
            else f"the gap of a model that knows {100 * dose:.0f} % of the public instances"
        )
        sentences.append(
            f"By the {_first_outcome(made)} alone the gap's standard error is {points(result.se)} "
            f"points: limit of blank {points(result.blank)} points, which 5 % of clean models "
            f"exceed; limit of detection {points(result.limit)} points, {at}."
        )
        if (outcomes := len(made.body["plan"]["outcomes"])) > 1:
            sentences.append(
                f"The registered test takes the largest of {outcomes} outcomes, each "
                "over its own spread, and finds leaks below that limit where another outcome shows "
                "them better: the table has what it found."
            )
    return (*sentences, _enough_words(made), _marker_words(made), *made.notes)


def _first_outcome(made: RecordedCalibration) -> str:
    name = made.body["plan"]["outcomes"][0]
    return OUTCOME_WORDS.get(name, name)


def _ground_words(made: RecordedCalibration) -> str:
    result = made.found
    size = f"{result.n_public} public and {result.n_private} private instances"
    alpha = f"the test has the one-sided alpha of one look, {result.alpha:.3g}"
    return (
        f"Known leaks were put into the stored scores of {made.model}, wave {made.wave}, on "
        f"{size}; knowing an instance brings {made.known}, and {alpha}."
    )


def _rule_words(made: RecordedCalibration) -> str:
    """By which rule a dose counts as found."""
    family = made.found.family
    if family == 1:
        return "Found: p of this model alone, which needs no adjusting, is at most alpha."
    named = "Holm" if made.multiplicity == "holm" else "Westfall–Young"
    place = " (this one in the place of each in turn)" if len(made.beside) == family else ""
    return (
        f"Found: p adjusted by {named} over {family} models of the look, beside "
        f"{', '.join(made.beside)}{place}, is at most alpha."
    )


def _enough_words(made: RecordedCalibration) -> str:
    result = made.found
    ends = _ends(*result.enough_interval)
    if result.enough is None:
        sentence = "Which share is found with probability 0.8 cannot be estimated from these trials"
    else:
        share = f"{100 * result.enough:.1f} % of the public instances"
        sentence = f"Found with probability 0.8: a model that knows {share}"
    return f"{sentence} (95 % interval: {ends})." if ends else f"{sentence}."


def _marker_words(made: RecordedCalibration) -> str:
    rates = made.body["markers"]
    found = " and ".join(
        f"{100 * float(share):g} % with {power:.2f}" for share, power in rates["found"].items()
    )
    models = f"{counted(rates['looks'], 'look')} of {counted(rates['models'], 'model')}"
    return (
        f"Markers, by their exact test on {rates['asked']} public instances and {models}: if none "
        f"recalls any, one is called exposed with probability {rates['false_alarms']:.2g} (at most "
        f"{rates['alpha']:g} is registered); a model that recalls {found} probability is found."
    )


def calibration_table(made: RecordedCalibration) -> ReportTable:
    """A row a dose."""
    return tabulate(
        f"calibration-{RESAMPLED}",
        _WORDS["table"],
        made.found.doses,
        {
            "Known": lambda dose: f"{100 * dose.dose:g} %",
            "#Found": lambda dose: f"{dose.detected} of {dose.replicates}",
            "#Rate": lambda dose: f"{100 * dose.rate:.0f} %",
            "#95 % interval": lambda dose: _percents(dose.interval),
            "#Fitted curve": lambda dose: (
                NONE if dose.fitted is None else f"{100 * dose.fitted:.0f} %"
            ),
            "#Gap": lambda dose: signed(dose.gap),
        },
    )


def _percents(interval: Sequence[float]) -> str:
    return f"{100 * interval[0]:.0f} to {100 * interval[1]:.0f} %"


def _ends(low: float | None, high: float | None) -> str:
    """The ends that are bounded."""
    if low is None and high is None:
        return ""
    if low is None:
        return f"at most {100 * (high or 0.0):.1f} %"
    if low > 1:  # a share of which there is none
        return "beyond 100 %"
    if high is None:
        return f"at least {100 * low:.1f} %, without an upper end"
    return f"{100 * low:.1f} to {100 * high:.1f} %"
