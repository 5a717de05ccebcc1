"""The files of a site: pages, figures' data, feeds and badges, in memory."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
from study.extras.site.facts import StudyFacts, inert
from study.extras.site.rows import WORDS, Row, counts_of, newest_rows, rows_of, slug, turned

FORMAT = "dosimeter/site/1"
INDEX = "index.json"
_NEWS = 50  # entries of the feed
_MOST_NUMBERS = 1 << 18  # bytes of a report's JSON that the site takes along
_HERE = Path(__file__).parent
_LETTER = 6.6  # pixels of a badge's text
_CHECK = _HERE / "templates/check.html"
Pages = Iterator[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Step:
    """A line of a study's timeline; ``stamp`` is the earliest time by which others saw it."""

    entry: Entry
    what: str
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
    for write in (_front, _models, _studies, _check, _feeds):
        files |= {path: page.encode() for path, page in write(ordered, every)}
    for study in ordered:
        folder = f"studies/{slug(study.name)}"
        files |= {f"{folder}/evidence/{name}": data for name, data in study.evidence.items()}
        files |= {f"{folder}/report.json": study.numbers} if _takes_report(study) else {}
    return files


def _takes_report(study: StudyFacts) -> bool:
    return 0 < len(study.numbers) <= _MOST_NUMBERS


def _front(studies: Sequence[StudyFacts], every: Sequence[Row]) -> Pages:
    rows = newest_rows(every)
    yield from _data("verdicts", rows)
    yield _page("", "front.html.j2", studies, rows, root="", newest=_newest(studies))


def _models(studies: Sequence[StudyFacts], every: Sequence[Row]) -> Pages:
    for model in _names(every):
        rows = [row for row in every if row.found.model == model]
        names = {row.study for row in rows}
        own = [study for study in studies if study.name in names]
        folder = rows[0].model_path
        yield from _data(f"{folder}findings", rows)
        yield f"{folder}badge.svg", _badge(model, newest_rows(rows))
        scores = [(study, score) for study in own for score in _scores(study, model)]
        more = {"model": model, "newest": newest_rows(rows), "scores": scores}
        yield _page(folder, "model.html.j2", own, rows, root="../../", **more)


def _studies(studies: Sequence[StudyFacts], every: Sequence[Row]) -> Pages:
    for study in studies:
        folder = f"studies/{slug(study.name)}/"
        rows = newest_rows(row for row in every if row.study == study.name)
        report = study.newest
        yield from _data(f"{folder}findings", rows)
        yield f"{folder}badge.svg", _badge(study.name, rows)
        yield f"{folder}evidence/{INDEX}", _json(sorted(study.evidence))
        more: dict[str, Any] = {
            "study": study,
            "report": report,
            "numbers": _takes_report(study),
            "timeline": [*_steps(study)],
            "plan": [text.split(". ", 1) for text in _plan_words(study)],
            "controls": all_control_words(report.controls) if report else "",
            "monitored": monitored_words(report.monitoring) if report else "",
            "scores": [*_scores(study)],
        }
        yield _page(folder, "study.html.j2", [study], rows, root="../../", **more)


def _page(
    folder: str, template: str, studies: Sequence[StudyFacts], rows: Sequence[Row], **more: Any
) -> tuple[str, str]:
    """Return a page with the figure of some rows, which are the looks at a ``model``, if there is
    one, in their order."""
    margin = min((study.newest.plan.margin for study in studies if study.newest), default=0.05)
    shown = [replace(row, released="") for row in rows] if "model" in more else rows

    def label(row: Row) -> str:
        return f"{row.study}, wave {row.found.wave}" if "model" in more else row.found.model

    values = {
        "studies": studies,
        "rows": rows,
        "counts": [*counts_of(rows)],
        "margin": margin,
        "chart": draw_chart(shown, margin, label),
        "cite": _cite(studies),
    }
    return f"{folder}index.html", _render(template, **values, **more)


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
        (report, verdict, study, _uuid(_key(study), report.issued, verdict.model, verdict.wave))
        for study in studies
        for report, verdict in turned(study)
        if report.issued
    ]
    news.sort(key=lambda item: (item[0].issued, item[3]), reverse=True)
    newest, site = _newest(studies), _uuid(*map(_key, studies))
    updated = newest or "1970-01-01T00:00:00Z"
    yield "feed.atom", _render("feed.atom.j2", news=news[:_NEWS], updated=updated, id=site)
    yield "README.md", _render("README.md.j2")
    models = [{"name": name, "path": f"models/{slug(name)}/"} for name in _names(every)]
    index = {
        "format": FORMAT,
        "newest": newest or None,
        "studies": [_study_body(study) for study in studies],
        "models": models,
        "findings": [plain_values(row.body()) for row in newest_rows(every)],
    }
    yield INDEX, _json(index)


def _study_body(study: StudyFacts) -> dict[str, Any]:
    return {
        "name": study.name,
        "path": f"studies/{slug(study.name)}/",
        "registration": _key(study),
        "study_key": study.entries[0].signer if study.entries else None,
        "head": study.entries[-1].digest if study.entries else None,
        "reports": [{"wave": each.through_wave, "issued": each.issued} for each in study.reports],
        "published": study.newest.published if study.newest else None,
    }


def _names(rows: Sequence[Row]) -> list[str]:
    return sorted({row.found.model for row in rows})


def _newest(studies: Sequence[StudyFacts]) -> str:
    return max((report.issued for study in studies for report in study.reports), default="")


def _key(study: StudyFacts) -> str:
    """Return the digest that names a study."""
    return study.newest.registration if study.newest else study.entries[0].digest


def _uuid(*parts: str | int) -> str:
    """Return a lasting name for feeds."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(parts)))


def _scores(study: StudyFacts, model: str = "") -> Iterator[tuple[Any, ...]]:
    """Yield wave, model, and the mean score in words of each arm, over all strata."""
    arms: dict[tuple[int, str], dict[str, str]] = {}
    for score in study.newest.scores if study.newest else ():
        if score.stratum == "all" and model in ("", score.model):
            words = score_words(score.mean, score.interval)
            arms.setdefault((score.wave, score.model), {})[score.arm] = words
    for (wave, name), means in arms.items():
        yield wave, name, means.get("public", "–"), means.get("private", "–")


def _plan_words(study: StudyFacts) -> Sequence[str]:
    plans = [entry for entry in study.entries if entry.kind == "preregistration"]
    if not plans:
        return study.newest.plan_in_words if study.newest else ()
    return [inert(text) for text in describe_plan(plans[-1].record.plan).split("\n")]


def _steps(study: StudyFacts) -> Iterator[Step]:
    for entry in study.entries:
        if (step := WORDS["steps"].get(entry.kind)) is not None:
            values = {"finished": 0, "owed": 0, "count": 0, "wave": 0, **entry.body}
            stamp = first_stamp(study.stamps, entry.sequence)
            words = f"{stamp.time}, by {inert(stamp.authority)}" if stamp else ""
            yield Step(entry, str(inert(step.format_map(values))), words)


def _cite(studies: Sequence[StudyFacts]) -> str:
    """Return the sentence by which the figures of some studies are cited."""
    parts = []
    for study in studies:
        if report := study.newest:
            through = f"contamination report through wave {report.through_wave}"
            words = [study.name, through, report.issued[:10]]
            words += [f"registration {report.registration}"] if report.registration else []
            words += [f"ledger head {study.entries[-1].digest}"] if study.entries else []
            parts.append(", ".join(filter(None, words)))
    return f"dosimeter. {'; '.join(parts)}."


# -- data, badges


def _data(name: str, rows: Sequence[Row]) -> Pages:
    """Yield the rows of a figure as JSON and CSV."""
    if bodies := [plain_values(row.body()) for row in rows]:
        yield f"{name}.json", _json(bodies)
        yield f"{name}.csv", flat_csv(bodies)


def _json(value: Any) -> str:
    return json.dumps(value, indent=0, ensure_ascii=False, allow_nan=False) + "\n"


def _badge(name: str, rows: Sequence[Row]) -> str:
    counts = [(label.lower(), len(own), kind) for kind, label, own in counts_of(rows) if own]
    total = sum(count for _, count, _ in counts)
    words = [f"{label} {n} of {total}" if total > 1 else label for label, n, _ in counts]
    kind, value = counts[0][2] if counts else "unsure", ", ".join(words) or "no verdict yet"
    wide = [round(_LETTER * len(part) + 14) for part in ("contamination", value)]
    return _render("badge.svg.j2", name=name, value=value, kind=kind, wide=wide)


def _render(template: str, **values: Any) -> str:
    pages = templates_in(
        "study.extras.site",
        signed=signed,
        points=points,
        p=p_words,
        gap=gap_words,
        level="{:.4g}".format,
        stamp=time_words_of,
        slug=slug,
    )
    known = {**WORDS, "high": HIGH, "checked": _CHECK.is_file()}
    text: str = pages.get_template(template).render(**known | values)
    return text.strip("\n") + "\n"
