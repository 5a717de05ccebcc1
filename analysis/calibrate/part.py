"""The part of a report on calibrations, in words."""

from __future__ import annotations

from collections.abc import Iterator
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
from analysis.words import templates_in, words_in

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
    pages = templates_in("analysis.calibrate", escape=False, points=points, counted=counted)
    text = pages.get_template("words.txt.j2").render(made=made, outcome_words=OUTCOME_WORDS)
    return tuple(text.strip().split("\n"))


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
            "#95 % interval": lambda d: "{:.0f} to {:.0f} %".format(*(100 * e for e in d.interval)),
            "#Fitted curve": lambda dose: (
                NONE if dose.fitted is None else f"{100 * dose.fitted:.0f} %"
            ),
            "#Gap": lambda dose: signed(dose.gap),
        },
    )
