"""Sites that several tests read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from study.extras.site.site import make_site
from tests.cases import cases

HOSTILE: tuple[str, ...] = tuple(cases(__file__, "hostile"))


@pytest.fixture(scope="session")
def keyless(stored_demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stored demo study without what is sealed, and with something else in place of its key."""
    folder = tmp_path_factory.mktemp("keyless") / "demo-study"
    shutil.copytree(stored_demo, folder, ignore=shutil.ignore_patterns("*.age", "*.cell"))
    (folder / "keys/study.txt").write_text("no key")
    return folder


def hostile_report(study: str = HOSTILE[0]) -> dict[str, Any]:
    """A report in which every name and text is one of the hostile ones."""
    text = HOSTILE[1]
    words = ("contaminated", "inconclusive", "withheld", "not comparable", text)
    number: dict[str, Any] = {"n_public": 9, "n_private": 9, "alpha": 0.01, "note": text}
    models = [
        {
            "model": name,
            "wave": wave,
            "verdict": words[wave % 5],
            "estimate": wave / 20,
            "interval": [wave / 20 - 0.1, wave / 20 + 0.1],
            "outcome": text,
            **number,
        }
        for wave, name in enumerate(HOSTILE)
    ]
    level = {"level": text, "finding": text, "estimate": 0.1, "interval": [0, 1], "units": 3}
    more = {"deciding_bound": 0.3, "p_adjusted": 0.5, "alpha": 0.01, "why": text}
    return {
        "study": study,
        "models": models,
        "deviations": [text],
        "issued": "2030-01-01T00:00:00Z",
        "description": text,
        "plan": {"name": text, "margin": 0.05, "strata": [text], "chances": text},
        "plan_in_words": [f"{text}. {text}", text],
        "facts": [
            {"model": name, "family": text, "released": "2029-01-01"} for name in HOSTILE[:6]
        ],
        "scores": [{"wave": 1, "model": text, "stratum": "all", "arm": text, "mean": 1}],
        "levels": [{**level, **more, "model": name, "wave": 1} for name in HOSTILE],
        "limits": [text],
        "remarks": [text],
        "selection": text,
    }


@pytest.fixture(scope="session")
def site(keyless: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of the stored demo study and of hostile reports."""
    folder = tmp_path_factory.mktemp("site")
    for number, name in enumerate(HOSTILE[:2]):
        (folder / f"table-{number}").mkdir()
        path = folder / f"table-{number}/report.json"
        path.write_text(json.dumps(hostile_report(name)))
    places = [str(keyless), *(str(folder / f"table-{number}") for number in range(2))]
    make_site(folder / "out", places)
    return folder / "out"
