"""A site of 3 studies of 8 looks at 40 models, and its front page in Chromium: one JSON line.

Each model has a verdict at each look, so that the reports have 960. ``build_seconds`` are from
JSON of the reports to the last file; ``drawn_ms`` to its first paint and the end of loading.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from study.extras.site.facts import ReportFacts, StudyFacts
from study.extras.site.pages import build_site
from study.extras.site.site import write_site

STUDIES, LOOKS, MODELS = 3, 8, 40
WORDS = ("inconclusive", "contaminated", "no inflation of the published instances above the margin")
_FORM = TypeAdapter(ReportFacts)


def report(study: int, looks: int) -> dict[str, Any]:
    """Return the report of a study through a look."""
    draw = random.Random(study)
    names = [f"lab-{number % 7}/model-{number}" for number in range(MODELS)]
    more = {"n_public": 300, "n_private": 300, "alpha": 0.003, "outcome": "score", "se": 0.02}
    models = [
        {"model": name, "wave": wave, "verdict": draw.choice(WORDS), "estimate": gap, **more}
        | {"interval": [gap - 0.04, gap + 0.04], "upper": gap + 0.03, "deciding_bound": gap + 0.05}
        for wave in range(1, looks + 1)
        for name in names
        for gap in [round(draw.gauss(0.05, 0.08), 4)]
    ]
    plan = {"name": "standard-v1", "margin": 0.05, "strata": [f"task-{n}/hard" for n in range(12)]}
    return {
        "study": f"study-{study}",
        "models": models,
        "deviations": [],
        "issued": f"2030-0{looks}-01T00:00:00Z",
        "through_wave": looks,
        "plan": plan,
        "facts": [
            {"model": name, "family": name[:5], "released": f"2029-{1 + n % 12:02}-{1 + n % 28:02}"}
            for n, name in enumerate(names)
        ],
    }


def study_of(texts: list[str]) -> StudyFacts:
    reports = tuple(_FORM.validate_json(text) for text in texts)
    return StudyFacts(name=reports[0].study, reports=reports, numbers=texts[-1].encode())


def drawn(page: Path) -> dict[str, float]:
    """Return the milliseconds to the first paint of a page, and to its end."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"))
        opened = browser.new_page()
        opened.goto(page.as_uri())
        paint = """new Promise(done => new PerformanceObserver(
            list => done(list.getEntries().at(-1).startTime)
        ).observe({type: "paint", buffered: true}))"""
        end = "performance.getEntriesByType('navigation')[0].loadEventEnd"
        times = {"paint": opened.evaluate(paint), "loaded": opened.evaluate(end)}
        browser.close()
    return {name: round(value) for name, value in times.items()}


def main() -> None:
    texts = [[json.dumps(report(s, n + 1)) for n in range(LOOKS)] for s in range(STUDIES)]
    with tempfile.TemporaryDirectory(prefix="site-") as folder:
        out, start = Path(folder) / "out", time.perf_counter()
        files = build_site([study_of(own) for own in texts])
        write_site(out, files)
        seconds = time.perf_counter() - start
        first = sum(len(files[n]) for n in ("index.html", "static/site.css", "static/site.js"))
        line: dict[str, Any] = {"benchmark": "site", "build_seconds": round(seconds, 1)}
        line |= {"files": len(files), "bytes": sum(map(len, files.values())), "first_page": first}
        line |= {"drawn_ms": drawn(out / "index.html")}
        targets = (seconds <= 20, line["bytes"] <= 5e6, first <= 3e5)
        line["met"] = [*targets, line["drawn_ms"]["loaded"] <= 1000]
        print(json.dumps(line))


if __name__ == "__main__":
    main()
