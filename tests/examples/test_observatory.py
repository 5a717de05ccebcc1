"""The example observatory is built as its page says."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from examples.observatory.build import PICTURES, ROOT, build


def test_it_has_the_findings_that_the_page_shows(tmp_path: Path) -> None:
    build(tmp_path / "out")
    index = json.loads((tmp_path / "out/index.json").read_text())
    kinds = Counter(row["kind"] for row in index["findings"])
    assert kinds == {"contaminated": 5, "unsure": 8, "clean": 45, "compared": 21}
    for name, (page, *_) in PICTURES.items():
        assert (tmp_path / "out" / page).is_file()
        assert (ROOT / f"docs/images/{name}.png").stat().st_size <= 150_000
