"""The part of a report on models' knowledge without an instance's data: probes and markers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.csv_text import csv_files
from analysis.json_values import json_rows
from analysis.plan.markers import MarkerExposure, MarkerFinding
from analysis.probe.probes import Exposure
from analysis.report.part import (
    NONE,
    Block,
    Bullets,
    Columns,
    Heading,
    Paragraph,
    Part,
    ReportTable,
    tabulate,
)
from analysis.report.wording import range_words, score_words
from analysis.stats.intervals import p_words, points, signed
from analysis.words import words_in

_WORDS = words_in("analysis.probe", "words.yaml")


def exposure_part(
    exposure: Sequence[Exposure] = (), markers: Sequence[MarkerExposure] = ()
) -> Part:
    """The part on the probes from memory and the exact tests of markers."""
    data = {"exposure": json_rows(exposure), "markers": json_rows(markers)}
    made = (_exposure_table(exposure), _marker_table(markers))
    tables = [table for table in made if table.rows]
    lines = (Bullets(tuple(map(marker_words, markers))),) if markers else ()
    return Part(
        name="exposure",
        title="Exposure",
        after="monitoring",
        body=tuple(_body(*made, markers)),
        summary=(Heading("Exposure"), *lines, *tables) if tables else (),
        data=data,
        files=csv_files(data),
    )


def _body(
    exposure: ReportTable, marked: ReportTable, markers: Sequence[MarkerExposure]
) -> Iterator[Block]:
    if exposure.rows:
        yield Paragraph(_WORDS["probes"])
        yield exposure
    if markers:
        yield Paragraph(_WORDS["marked"])
        yield from (Paragraph(marker_words(row)) for row in markers)
        yield marked


def marker_words(row: MarkerExposure) -> str:
    """The markers that a model named, in words."""
    public, private = row.public, row.private
    low, high = row.interval
    p = f"p {p_words(row.p)}, released before the publication"
    if row.p_adjusted is not None:
        p = f"adjusted p {p_words(row.p_adjusted)}, level {row.alpha:.4g}"
    counts = (
        f"{row.model}, wave {row.wave}: named the markers of {public.right} of {public.asked} "
        f"public instances ({points(row.rate)} %, 95 % interval {points(low)} to {points(high)} %; "
        f"by chance 12.5 %; {p}) and of "
        f"{private.right} of {private.asked} private ones (p {p_words(row.p_private)})."
    )
    if row.finding is MarkerFinding.INVALID:
        return f"{counts} Invalid: it knows markers that it cannot have read."
    if row.finding is MarkerFinding.EXPOSED:
        return (
            f"{counts} Exposed: it has met the public instances. This shows no inflation of its "
            "score; the verdict has that."
        )
    return f"{counts} Exposure is not shown."


_MODEL: Columns = {"Model": "model", "#Wave": "wave"}
_P: Columns = {
    "#p": lambda row: p_words(row.p, row.p_floor),
    "#Adjusted p": lambda row: p_words(row.p_adjusted, row.p_floor),
}


def _exposure_table(rows: Sequence[Exposure]) -> ReportTable:
    return tabulate(
        "exposure",
        _WORDS["exposure"],
        rows,
        {
            **_MODEL,
            "#Public": lambda e: points(e.public),
            "#Private": lambda e: points(e.private),
            "#Gap": lambda e: signed(e.gap),
            "#95 % interval": lambda e: range_words(e.interval),
            **_P,
            "Result": lambda e: "exposed" if e.exposed else "not shown",
        },
    )


def _marker_table(rows: Sequence[MarkerExposure]) -> ReportTable:
    return tabulate(
        "markers",
        _WORDS["markers"],
        rows,
        {
            **_MODEL,
            "#Public": lambda m: f"{m.public.right} of {m.public.asked}",
            "#Private": lambda m: f"{m.private.right} of {m.private.asked}",
            "#Rate, 95 % interval": lambda m: f"{score_words(m.rate, m.interval)} %",
            "#Recalled": lambda m: f"{points(m.recalled)} %".replace("-", "−"),
            "#p": lambda m: p_words(m.p),
            "#Adjusted p": lambda m: NONE if m.p_adjusted is None else p_words(m.p_adjusted),
            "#Control": lambda m: p_words(m.p_private),
            "Result": "finding",
        },
    )
