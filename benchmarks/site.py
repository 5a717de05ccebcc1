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

from pydantic import TypeAdapter

from study.extras.site.facts import ReportFacts, StudyFacts
from study.extras.site.pages import build_site
from study.extras.site.site import write_site

STUDIES, LOOKS, MODELS = 3, 8, 40
WORDS = ("inconclusive", "contaminated", "no inflation of the published instances above the margin")
_FORM = TypeAdapter(ReportFacts)


def report(study: int, looks: int) -> str:
    """Return the JSON of a study's report through a look."""
    draw, names = random.Random(study), [f"lab-{n % 7}/model-{n}" for n in range(MODELS)]
    more = {"n_public": 300, "n_private": 300, "alpha": 0.003, "outcome": "score", "se": 0.02}
    models = [
        {"model": name, "wave": wave, "verdict": draw.choice(WORDS), "estimate": gap, **more}
        | {"interval": [gap - 0.04, gap + 0.04], "upper": gap + 0.03, "deciding_bound": gap + 0.05}
        for wave in range(1, looks + 1)
        for name in names
        for gap in [round(draw.gauss(0.05, 0.08), 4)]
    ]
    facts = [
        {"model": name, "family": name[:5], "released": f"2029-{1 + n % 12:02}-{1 + n % 28:02}"}
        for n, name in enumerate(names)
    ]
    about = {"study": f"study-{study}", "issued": f"2030-0{looks}-01T00:00:00Z", "deviations": []}
    return json.dumps(about | {"through_wave": looks, "models": models, "facts": facts})


def study_of(texts: list[str]) -> StudyFacts:
    reports = tuple(_FORM.validate_json(text) for text in texts)
    return StudyFacts(name=reports[0].study, reports=reports, numbers=texts[-1].encode())


def drawn(page: Path) -> dict[str, int]:
    """Return the milliseconds to the first paint of a page, and to its end."""
    from playwright.sync_api import sync_playwright

    paint = """new Promise(done => new PerformanceObserver(
        list => done(list.getEntries().at(-1).startTime)
    ).observe({type: "paint", buffered: true}))"""
    end = "performance.getEntriesByType('navigation')[0].loadEventEnd"
    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=shutil.which("chromium")).new_page()
        opened.goto(page.as_uri())
        return {"paint": round(opened.evaluate(paint)), "loaded": round(opened.evaluate(end))}


def main() -> None:
    texts = [[report(study, look + 1) for look in range(LOOKS)] for study in range(STUDIES)]
    with tempfile.TemporaryDirectory(prefix="site-") as folder:
        out, start = Path(folder) / "out", time.perf_counter()
        files = build_site([study_of(own) for own in texts])
        write_site(out, files)
        seconds, size = time.perf_counter() - start, sum(map(len, files.values()))
        first = sum(len(files[n]) for n in ("index.html", "static/site.css", "static/site.js"))
        times = drawn(out / "index.html")
    line = {"benchmark": "site", "build_seconds": round(seconds, 1), "files": len(files)}
    line |= {"bytes": size, "first_page": first, "drawn_ms": times}
    line["met"] = [seconds <= 20, size <= 5e6, first <= 3e5, times["loaded"] <= 1000]
    print(json.dumps(line))


if __name__ == "__main__":
    main()
