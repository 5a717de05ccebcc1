"""The example observatory: the stored demo study, and published scores tested again.

python -m examples.observatory.build OUT            # the site, the same bytes each time
python -m examples.observatory.build OUT docs/images   # and pictures of its pages
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Literal

from analysis.report.report import report_json
from examples.replications.run import REPLICATIONS
from study.extras.site.site import make_site
from study.extras.tables.external_table import analyze_table

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "tests/data/demo-study.tar.xz"
TABLES = {"livecodebench": "time", "mmlu-cf": "random"}  # with how their arms came about
NOW = "2026-11-29T00:00:00Z"  # the time of the reports on them
PICTURES: dict[
    str, tuple[str, int, int, Literal["light", "dark"]]
] = {  # page, width, height, colours
    "observatory": ("index.html", 1400, 1240, "light"),
    "observatory-phone": ("index.html", 400, 1100, "dark"),
    "observatory-model": ("models/honest-1/index.html", 1400, 1240, "light"),
}


def build(out: Path) -> int:
    """Write the site, and return the number of its files."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with tarfile.open(DEMO) as archive:
            archive.extractall(place, filter="data")
        for name, allocation in TABLES.items():
            _write_report(place / name, name, allocation)
        return make_site(out, [str(place / "demo-study"), *(str(place / name) for name in TABLES)])


def _write_report(folder: Path, name: str, allocation: str) -> None:
    table, unexposed = REPLICATIONS[name]()
    folder.mkdir()
    path = folder / f"{name}.csv"
    table.to_csv(path, index=False)
    made = analyze_table(path, now=NOW, allocation=allocation, pre_exposure=unexposed)
    body = made if isinstance(made, dict) else report_json(made)
    (folder / "report.json").write_text(json.dumps(body | {"study": name}))


def take_pictures(site: Path, folder: Path) -> None:
    """Write pictures of pages of a site as PNG of few colours, by Chromium."""
    from PIL import Image
    from playwright.sync_api import ViewportSize, sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"))
        for name, (page, width, height, colours) in PICTURES.items():
            window = ViewportSize(width=width, height=height)
            opened = browser.new_page(viewport=window, color_scheme=colours)
            opened.goto((site / page).absolute().as_uri())
            picture = Image.open(io.BytesIO(opened.screenshot())).convert("RGB")
            picture.quantize(128).save(folder / f"{name}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    print(f"{build(Path(sys.argv[1]))} files in {sys.argv[1]}")
    if sys.argv[2:]:
        take_pictures(Path(sys.argv[1]), Path(sys.argv[2]))
