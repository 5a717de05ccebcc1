"""The example observatory is built as its page says, with a calibration study of stored models."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from examples.observatory.build import PICTURES, ROOT, build
from study.steps import pipeline
from tests.examples.test_calibration import MODELS, sweep_stored


def test_it_has_the_findings_that_the_page_shows(tmp_path: Path) -> None:
    models = {name: MODELS[name] for name in ("base-1", "dose-00-1", "dose-04-1")}
    study = sweep_stored(tmp_path / "calibration", models, 400)
    pipeline.report(study)
    build(tmp_path / "out", [str(study.folder)])
    findings = json.loads((tmp_path / "out/index.json").read_text())["findings"]
    kinds = Counter(row["kind"] for row in findings if row["study"] != "calibration")
    assert kinds == {"contaminated": 5, "unsure": 8, "clean": 45, "compared": 21}
    doses = {row["model"]: row["kind"] for row in findings if row["study"] == "calibration"}
    assert doses == {"dose-00-1": "unsure", "dose-04-1": "contaminated"}
    for name, (page, *_) in PICTURES.items():
        assert (tmp_path / "out" / page).is_file()
        assert (ROOT / f"docs/images/{name}.png").stat().st_size <= 150_000
