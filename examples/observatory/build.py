"""The example observatory: the stored demo study, published scores tested again, and further
studies, such as the calibration study that ``make calibrate`` makes.

python -m examples.observatory.build OUT [STUDY…]   # the site; the same bytes from the same studies
python -m examples.observatory.build OUT calibration-study --pictures docs/images   # and pictures
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import Sequence
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


def build(out: Path, studies: Sequence[str] = ()) -> int:
    """Write the site, with further studies as ``dosimeter site`` takes them; return the number of
    its files."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with tarfile.open(DEMO) as archive:
            archive.extractall(place, filter="data")
        for name, allocation in TABLES.items():
            _write_report(place / name, name, allocation)
        made = [str(place / name) for name in ("demo-study", *TABLES)]
        return make_site(out, [*made, *studies])


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
    parser = argparse.ArgumentParser(prog="python -m examples.observatory.build")
    parser.add_argument("out", type=Path)
    parser.add_argument("studies", nargs="*", metavar="STUDY")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    print(f"{build(given.out, given.studies)} files in {given.out}")
    if given.pictures:
        take_pictures(given.out, given.pictures)
