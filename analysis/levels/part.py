"""The part of a report on the levels: a line a model and level, and a figure of their intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from analysis.csv_text import csv_files, without
from analysis.json_values import plain_values
from analysis.levels.levels import LevelVerdict, finding_of
from analysis.plan.verdict import INCONCLUSIVE, Verdict
from analysis.report.figures import style
from analysis.report.figures.intervals import draw_gaps
from analysis.report.part import (
    NONE,
    Block,
    Columns,
    Heading,
    Paragraph,
    Part,
    PartFigure,
    ReportTable,
    tabulate,
)
from analysis.report.wording import name_models
from analysis.stats.intervals import counted, p_words, points, signed
from analysis.words import words_in
from registry.ledger.draw_records import VARIANT, Unit

INSTANCE = "instance"
_WORDS = words_in("analysis.levels", "words.yaml")
_ROW, _HEAD, _FOOT = 0.27, 0.3, 0.52  # inches


def levels_part(
    found: Sequence[LevelVerdict],
    instances: Sequence[Verdict],
    margin: float,
    revealed: Mapping[int, Sequence[Unit]],
) -> Part:
    """The part with the three levels of each model: ``found`` above the instance, and the verdicts
    on instances; with the sealed units that were public before a wave, by wave."""
    rows = sorted(_rows(found, instances), key=lambda row: (row.verdict.wave, row.verdict.model))
    table = _table(rows, found)
    data, public = [_datum(each) for each in found], [*_revealed(revealed)]
    return Part(
        name="levels",
        title=_WORDS["title"],
        after="verdicts",
        body=(*_body(rows, table, margin), *public),
        summary=(Heading(_WORDS["title"]), Paragraph(_WORDS["layman"]), table, *public),
        data={"levels": data},
        headline="".join(_headlines(rows)).strip(),
        files=csv_files({"levels": data}),
    )


def _datum(each: LevelVerdict) -> dict[str, object]:
    row = plain_values([asdict(each)])[0]
    return without(row["verdict"], "verdict", "hypothesis", "note") | without(row, "verdict")


def _headlines(rows: Sequence[LevelVerdict]) -> Iterator[str]:
    """A sentence for all models of the newest look of which the same levels above the instance are
    shown."""
    shown = [row for row in _newest(rows) if row.finding == "shown" and row.level != INSTANCE]
    verdicts = {row.verdict.model: row.verdict for row in shown}

    def words(model: str) -> str:
        return " and ".join(_WORDS[row.level] for row in shown if row.verdict.model == model)

    for what in dict.fromkeys(map(words, verdicts)):
        alike = [verdict for model, verdict in verdicts.items() if words(model) == what]
        models, several = name_models(alike, alike)
        yield _WORDS["headlines" if several else "headline"].format(models=models, what=what)


def _newest(rows: Sequence[LevelVerdict]) -> Sequence[LevelVerdict]:
    """The rows of the newest look, of rows in the order of waves."""
    return [row for row in rows if row.verdict.wave == rows[-1].verdict.wave]


def _rows(found: Sequence[LevelVerdict], instances: Sequence[Verdict]) -> Iterator[LevelVerdict]:
    tested = {(each.verdict.wave, each.verdict.model) for each in found}
    for verdict in instances:
        if (verdict.wave, verdict.model) in tested:
            yield LevelVerdict(INSTANCE, verdict, finding_of(verdict), 0, None, why=verdict.note)
    yield from found


def _words(row: LevelVerdict) -> str:
    """The finding in words."""
    bound = points(max(row.verdict.deciding_bound, 0.0))
    text = _WORDS[row.finding].format(bound=bound, level=_WORDS[row.level], why=row.why)
    return f"{text}; {row.why}" if row.why and row.finding == "not shown" else text


def _body(rows: Sequence[LevelVerdict], table: ReportTable, margin: float) -> Iterator[Block]:
    yield Paragraph(_WORDS["introduction"])
    yield PartFigure("levels", _WORDS["figure"], partial(plot_levels, _newest(rows), margin))
    yield table
    yield Paragraph(_WORDS["layman"])
    yield Paragraph(_WORDS["limits"], note=True)


def _revealed(revealed: Mapping[int, Sequence[Unit]]) -> Iterator[Block]:
    """Notes on the sealed units that were public before a wave."""
    for wave, units in sorted(revealed.items()):
        names = ", ".join(unit.name for unit in units)
        yield Paragraph(_WORDS["revealed"].format(wave=wave, units=names), note=True)


def _table(rows: Sequence[LevelVerdict], found: Sequence[LevelVerdict]) -> ReportTable:
    sizes = {each.level: each for each in found}
    counts = [counted(e.units, "pair" if e.level == VARIANT else "unit") for e in sizes.values()]
    taus = [NONE if each.tau is None else f"{each.tau:.2f}" for each in sizes.values()]
    caption = _WORDS["caption"].format(units=", ".join(counts), tau=", ".join(taus))
    columns: Columns = {
        "Model": "verdict.model",
        "#Wave": "verdict.wave",
        "Level": lambda row: _WORDS[row.level],
        "Finding": _words,
        "#Gap": lambda row: NONE if row.verdict.estimate is None else signed(row.verdict.estimate),
        "#95 % interval": lambda row: " to ".join(map(signed, row.verdict.interval)),
        "#Adjusted p": lambda row: p_words(row.verdict.p_adjusted, row.verdict.p_floor),
        "#Level of p": lambda row: f"{row.verdict.alpha:.2g}",
    }
    return tabulate("levels", caption, rows, columns, fold=_WORDS["title"])


@style.styled
def plot_levels(rows: Sequence[LevelVerdict], margin: float, width: float = style.WIDE) -> str:
    """A row for each model and level: the gap with its 95 % interval, and a mark by finding. SVG
    text for inlining in HTML."""
    cut, names = (24, _WORDS) if width > style.NARROW else (12, {r.level: r.level for r in rows})
    labels = [f"{style.cut(row.verdict.model, cut)}: {names[row.level]}" for row in rows]
    bare: Any = {"cannot be tested": {"verdict": INCONCLUSIVE, "estimate": None}}
    drawn = [replace(row.verdict, **bare.get(row.finding, {})) for row in rows]
    marks = style.verdict_marks(verdict.verdict for verdict in drawn)
    figure, key = style.keyed_figure(width, _ROW * len(labels) + _HEAD + _FOOT, marks)
    left = style.label_width(labels, width)
    axes = style.row_axes(figure, labels, left=left, head=_HEAD + key, foot=_FOOT)
    draw_gaps(axes, drawn, margin)
    axes.set_xlabel("Published minus sealed, points")
    words = " ".join(f"{row.verdict.model}, {_WORDS[row.level]}: {_words(row)}." for row in rows)
    return style.draw_svg(figure, f"levels-of-leaks-{style.slug(width)}", _WORDS["title"], words)
