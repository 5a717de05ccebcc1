"""The files of a site: pages, figures' data, feeds and badges, in memory."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from analysis.csv_text import flat_csv
from analysis.json_values import plain_values
from analysis.plan.describe import describe_plan
from analysis.report.wording import (
    all_control_words,
    gap_words,
    monitored_words,
    score_words,
    time_words_of,
)
from analysis.stats.intervals import p_words, points, signed
from analysis.words import templates_in
from registry.checkpoints.timestamp import first_stamp
from registry.ledger.chain import Entry
from study.errors import StudyError
from study.extras.site.chart import HIGH, draw_chart
from study.extras.site.facts import ReportFacts, StudyFacts, inert
from study.extras.site.rows import KINDS, LEVELS, Row, counts_of, newest_rows, rows_of, slug, turned

FORMAT = "dosimeter/site/1"
INDEX = "index.json"
_NEWS = 50  # entries of the feed
_MOST_NUMBERS = 1 << 18  # bytes of a report's JSON that the site takes along
_HERE = Path(__file__).parent
# Of a Space of the Hub, which then serves the folder as it is.
_CARD = """---
title: Benchmark contamination
sdk: static
app_file: index.html
---

A site of `dosimeter site`: which language models score higher on what was published.
"""
_CHECK = _HERE / "templates/check.html"
_LETTER = 6.6  # pixels of a badge's text
# The records of a ledger that a study's page shows: what each is, and its values in words.
_STEPS: Mapping[str, str] = {
    "announcement": "Draw announced",
    "sealed-set": "Instances drawn and sealed: {count}",
    "preregistration": "Plan registered",
    "run-manifest": "Wave {wave} begun",
    "wave-closed": "Wave {wave} closed: {finished} of {owed} episodes finished",
    "graded": "Wave {wave} graded by a judge",
    "probed": "A model of wave {wave} probed from memory",
    "judge-checked": "A judge measured on known answers",
    "calibrated": "Known leaks put to the test",
    "release": "Public arm released: {count} instances",
    "exported": "Instances of wave {wave} written for another harness",
    "leak": "Leak declared: {reason}",
    "look": "Looked at the data: {command}",
    "revealed": "Seeds published",
    "report": "Report through wave {through_wave}",
}


@dataclass(frozen=True, slots=True)
class Step:
    """A line of a study's timeline; ``stamp`` is the earliest time by which others saw it."""

    number: int
    time: str
    what: str
    digest: str
    stamp: str


def build_site(studies: Sequence[StudyFacts]) -> dict[str, bytes]:
    """Return the files of a site by their paths. Raises StudyError for studies of one name."""
    names = [study.name for study in studies]
    if double := next((name for name in names if names.count(name) > 1), None):
        raise StudyError(f"two of the studies are named {double!r}: give each of them once")
    ordered = sorted(studies, key=lambda study: study.name)
    every = [row for study in ordered for row in rows_of(study)]
    static = sorted((_HERE / "static").iterdir())
    files = {f"static/{path.name}": path.read_bytes() for path in static}
    for text in (_front, _models, _studies, _check, _feeds):
        files |= {path: page.encode() for path, page in text(ordered, every)}
    for study in ordered:
        folder = f"studies/{slug(study.name)}"
        files |= {f"{folder}/evidence/{name}": data for name, data in study.evidence.items()}
        files |= {f"{folder}/report.json": study.numbers} if _takes_report(study) else {}
    return files


def _takes_report(study: StudyFacts) -> bool:
    return 0 < len(study.numbers) <= _MOST_NUMBERS


Pages = Iterator[tuple[str, str]]


def _front(studies: Sequence[StudyFacts], every: Sequence[Row]) -> Pages:
    rows = newest_rows(every)
    yield from _data("verdicts", rows)
    yield (
        "index.html",
        _render(
            "front.html.j2",
            root="",
            rows=rows,
            studies=studies,
            counts=[*counts_of(rows)],
            newest=max((r.issued for study in studies for r in study.reports), default=""),
            margin=_margin(studies),
            chart=draw_chart(rows, _margin(studies), lambda row: row.model),
            cite=_cite(studies),
        ),
    )


def _models(studies: Sequence[StudyFacts], every: Sequence[Row]) -> Pages:
    by_name = {study.name: study for study in studies}
    for model in sorted({row.model for row in every}):
        rows = [row for row in every if row.model == model]
        own = [by_name[name] for name in dict.fromkeys(row.study for row in rows)]
        folder = rows[0].model_path
        yield from _data(f"{folder}findings", rows)
        yield f"{folder}badge.svg", _badge(model, newest_rows(rows))
        yield (
            f"{folder}index.html",
            _render(
                "model.html.j2",
                root="../../",
                model=model,
                rows=rows,
                newest=newest_rows(rows),
                studies=own,
                scores=[(study, s) for study in own for s in _scores(study.newest, model)],
                early=[(s, e) for s in own for e in _early(s, model)],
                margin=_margin(own),
                chart=draw_chart(
                    [_undated(row) for row in rows],
                    _margin(own),
                    lambda row: f"{row.study}, wave {row.wave}",
                ),
                cite=_cite(own),
            ),
        )


def _studies(studies: Sequence[StudyFacts], every: Sequence[Row]) -> Pages:
    for study in studies:
        folder = f"studies/{slug(study.name)}/"
        rows = [row for row in every if row.study == study.name]
        if rows:
            yield from _data(f"{folder}findings", rows)
        yield f"{folder}badge.svg", _badge(study.name, newest_rows(rows))
        yield f"{folder}evidence/{INDEX}", _json(sorted(study.evidence))
        report = study.newest
        yield (
            f"{folder}index.html",
            _render(
                "study.html.j2",
                root="../../",
                study=study,
                report=report,
                numbers=_takes_report(study),
                rows=newest_rows(rows),
                counts=[*counts_of(newest_rows(rows))],
                steps=[*_steps(study)],
                plan=[text.split(". ", 1) for text in _plan_words(study)],
                controls=all_control_words(report.controls) if report else "",
                monitored=monitored_words(report.monitoring) if report else "",
                scores=[*_scores(report)],
                margin=_margin([study]),
                chart=draw_chart(newest_rows(rows), _margin([study]), lambda row: row.model),
                cite=_cite([study]),
            ),
        )


def _check(studies: Sequence[StudyFacts], every: Sequence[Row]) -> Pages:
    if _CHECK.is_file():
        listed = [
            {"name": study.name, "path": f"studies/{slug(study.name)}/"}
            for study in studies
            if study.entries
        ]
        yield "check/index.html", _render("check.html", root="../", studies=listed)


def _feeds(studies: Sequence[StudyFacts], every: Sequence[Row]) -> Pages:
    news = [
        (report, verdict, study, _id(study, report, verdict.model, verdict.wave))
        for study in studies
        for report, verdict in turned(study)
        if report.issued
    ]
    news.sort(key=lambda item: (item[0].issued, item[3]), reverse=True)
    newest = max((r.issued for s in studies for r in s.reports), default="")
    site = uuid.uuid5(uuid.NAMESPACE_OID, " ".join(_registration(study) for study in studies))
    updated = newest or "1970-01-01T00:00:00Z"
    yield "feed.atom", _render("feed.atom.j2", news=news[:_NEWS], updated=updated, id=site)
    yield "README.md", _CARD
    yield (
        INDEX,
        _json(
            {
                "format": FORMAT,
                "newest": newest or None,
                "studies": [_study_body(study) for study in studies],
                "models": [
                    {"name": model, "path": f"models/{slug(model)}/"}
                    for model in sorted({row.model for row in every})
                ],
                "findings": [_body(row) for row in newest_rows(every)],
            }
        ),
    )


def _study_body(study: StudyFacts) -> dict[str, Any]:
    report = study.newest
    return {
        "name": study.name,
        "path": f"studies/{slug(study.name)}/",
        "registration": _registration(study),
        "study_key": study.entries[0].signer if study.entries else None,
        "head": study.entries[-1].digest if study.entries else None,
        "reports": [
            {"through_wave": each.through_wave, "issued": each.issued} for each in study.reports
        ],
        "published": report.published if report else None,
    }


def _registration(study: StudyFacts) -> str:
    return study.newest.registration if study.newest else study.entries[0].digest


def _id(study: StudyFacts, report: ReportFacts, model: str, wave: int) -> uuid.UUID:
    """Return the lasting name of a verdict in feeds."""
    name = json.dumps([_registration(study), report.issued, model, wave])
    return uuid.uuid5(uuid.NAMESPACE_OID, name)


def _margin(studies: Sequence[StudyFacts]) -> float:
    return min((study.newest.plan.margin for study in studies if study.newest), default=0.05)


def _scores(report: ReportFacts | None, model: str = "") -> Iterator[tuple[Any, ...]]:
    """Yield wave, model, and the mean score in words of each arm, over all strata."""
    arms: dict[tuple[int, str], dict[str, str]] = {}
    for score in report.scores if report else ():
        if score.stratum == "all" and model in ("", score.model):
            words = score_words(score.mean, score.interval)
            arms.setdefault((score.wave, score.model), {})[score.arm] = words
    for (wave, name), means in arms.items():
        yield wave, name, means.get("public", "–"), means.get("private", "–")


def _early(study: StudyFacts, model: str) -> Iterator[Any]:
    report = study.newest
    yield from (row for row in (report.before_publication if report else ()) if row.model == model)


def _undated(row: Row) -> Row:
    return replace(row, released="")


def _plan_words(study: StudyFacts) -> Sequence[str]:
    plans = [entry for entry in study.entries if entry.kind == "preregistration"]
    if not plans:
        return study.newest.plan_in_words if study.newest else ()
    return [inert(text) for text in describe_plan(plans[-1].record.plan).split("\n")]


def _steps(study: StudyFacts) -> Iterator[Step]:
    for entry in study.entries:
        if entry.kind in _STEPS:
            stamp = first_stamp(study.stamps, entry.sequence)
            yield Step(
                number=entry.sequence,
                time=entry.time,
                what=_step_words(entry),
                digest=entry.digest,
                stamp=f"{stamp.time}, by {inert(stamp.authority)}" if stamp else "",
            )


def _step_words(entry: Entry) -> str:
    body = {"finished": 0, "owed": 0, "count": 0, "wave": 0, **entry.body}
    return str(inert(_STEPS[entry.kind].format_map(body)))


def _cite(studies: Sequence[StudyFacts]) -> str:
    """Return the sentence by which the figures of some studies are cited."""
    parts = []
    for study in studies:
        report = study.newest
        head = study.entries[-1].digest if study.entries else ""
        if report is not None:
            ends = f", ledger head {head}" if head else ""
            through = f"contamination report through wave {report.through_wave}"
            parts.append(
                f"{study.name}, {through}, {report.issued[:10] or 'undated'}, registration "
                f"{report.registration or 'none'}{ends}"
            )
    return f"dosimeter. {'; '.join(parts)}."


# -- data, badges


def _data(name: str, rows: Sequence[Row]) -> Pages:
    """Yield the rows of a figure as JSON and CSV."""
    bodies = [_body(row) for row in rows]
    yield f"{name}.json", _json(bodies)
    yield f"{name}.csv", flat_csv(bodies) if bodies else "model,study\n"


def _body(row: Row) -> dict[str, Any]:
    body = asdict(row) | {"study_path": row.study_path, "model_path": row.model_path}
    texts = ("words", "detectable", "change")
    return {name: plain_values(value) for name, value in body.items() if name not in texts}


def _json(value: Any) -> str:
    return json.dumps(value, indent=0, ensure_ascii=False, allow_nan=False) + "\n"


def _badge(name: str, rows: Sequence[Row]) -> str:
    counts = [(label.lower(), len(own), kind) for kind, label, own in counts_of(rows) if own]
    total = sum(count for _, count, _ in counts)
    text = ", ".join(
        f"{label} {count} of {total}" if total > 1 else label for label, count, _ in counts
    )
    kind = counts[0][2] if counts else "unsure"
    label, value = "contamination", text or "no verdict yet"
    wide = [round(_LETTER * len(part) + 14) for part in (label, value)]
    return _render("badge.svg.j2", name=name, label=label, value=value, kind=kind, wide=wide)


def _render(template: str, **values: Any) -> str:
    pages = templates_in(
        "study.extras.site",
        signed=signed,
        points=points,
        p=p_words,
        gap=gap_words,
        stamp=time_words_of,
        slug=slug,
    )
    text: str = pages.get_template(template).render(
        kinds=KINDS, levels=LEVELS, high=HIGH, checked=_CHECK.is_file(), **values
    )
    return text.lstrip("\n")
