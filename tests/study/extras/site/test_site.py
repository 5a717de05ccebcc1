"""A site says what its studies have made public, and nothing else; texts of others are inert."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import pytest

from analysis.plan.verdict import Word
from publish.leakcheck.check import leaks_in, release_needles
from registry.checkpoints.timestamp import Stamp
from study.errors import StudyError
from study.extras.site.facts import read_study
from study.extras.site.pages import build_site
from study.extras.site.rows import slug
from study.extras.site.site import make_site, write_site
from study.steps import pipeline
from tests.study.cli.program import refusal, run
from tests.study.extras.site.conftest import HOSTILE, hostile_report

_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "font-src 'none'; base-uri 'none'; form-action 'none'"
)
_TEXTS = (".html", ".atom", ".json")
_VOID = ("meta", "link", "br", "input")


class Page(HTMLParser):
    """The elements of a page, and its words."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words, self.open = "", list[str]()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self.open += [] if tag in _VOID else [tag]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.words += data


def files_of(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def pages_of(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*.html")) if "check" not in path.parts]


def words_of(path: Path) -> str:
    return " ".join(Page(path).words.split())


# --- content ---


def test_the_front_page_answers(site: Path) -> None:
    words = words_of(site / "index.html")
    for text in (
        "strong-1 +65.0 (+50.7 to +79.3)demo, since 2026-11-29, p ≤ 0.00005",
        "Cannot tell",
        "honest-2",
        "2029-10-01",
    ):
        assert text in words
    assert "the plan may be younger than the data" in words


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ("models/honest-1", ["Limit of detection", "What would change it", "80 instances an arm"]),
        ("models/strong-1", ["It would be withheld if a control", "count_circles/medium"]),
        (
            "studies/demo",
            ["Draw announced", "Plan registered", "Wave 2 closed: 260 of 260 episodes"],
        ),
        ("studies/demo", ["The seeds were drawn from fixed entropy", " % of the published"]),
        ("studies/demo", ["could have been chosen: its lists have no time-stamp", "C3, graded"]),
        ("studies/demo", ["Of 7 controls", "Hypotheses."]),
    ],
)
def test_pages_say_what_was_tested(site: Path, page: str, texts: list[str]) -> None:
    words = words_of(site / page / "index.html")
    assert [text for text in texts if text not in words] == []


def test_data_are_the_same_in_every_form(site: Path, keyless: Path) -> None:
    rows = json.loads((site / "verdicts.json").read_text())
    with (site / "verdicts.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    index = json.loads((site / "index.json").read_text())
    assert index["findings"] == rows
    assert [row["finding"] for row in table] == [row["finding"] for row in rows]
    assert not any(row["model"].startswith("=") for row in table)
    strong = next(row for row in rows if row["model"] == "strong-1")
    first = read_study(str(keyless)).reports[0]
    assert (strong["kind"], strong["since"]) == ("contaminated", first.issued)
    assert strong["gap"] == pytest.approx(0.65, abs=0.001)


def test_the_feed_has_each_verdict_with_its_first_report(site: Path, keyless: Path) -> None:
    atom = "{http://www.w3.org/2005/Atom}"
    feed = ElementTree.fromstring((site / "feed.atom").read_bytes())
    entries = [
        e for e in feed.iter(f"{atom}entry") if "(demo," in (e.findtext(f"{atom}title") or "")
    ]
    times = {e.findtext(f"{atom}title"): e.findtext(f"{atom}updated") for e in entries}
    assert len(entries) == len({e.findtext(f"{atom}id") for e in entries}) == 7
    for number, report in enumerate(read_study(str(keyless)).reports, 1):
        assert times[f"mild-{number}: contaminated (demo, wave {number})"] == report.issued


def test_badges_are_pictures_with_words(site: Path) -> None:
    for badge in site.rglob("badge.svg"):
        assert "contamination: " in ElementTree.fromstring(badge.read_bytes()).attrib["aria-label"]
    badge = (site / "studies/demo/badge.svg").read_text()
    assert "demo, contamination: contaminated 5 of 7, cannot tell 2 of 7" in badge


def test_links_lead_to_files_of_the_site(site: Path) -> None:
    for path in pages_of(site):
        page = Page(path)
        ids = {found["id"] for _, found in page.elements if "id" in found}
        assert len(ids) == sum("id" in found for _, found in page.elements), path
        links = [
            found[name] for _, found in page.elements for name in ("href", "src") if name in found
        ]
        for link in links:
            parts = urlsplit(link)
            assert (parts.scheme, parts.netloc) == ("", ""), link
            assert not parts.path or (path.parent / unquote(parts.path)).is_file(), (path, link)
            assert parts.path or parts.fragment in ids, (path, link)


def test_a_store_alone_has_a_page_of_its_promises(stored_demo: Path, tmp_path: Path) -> None:
    make_site(tmp_path / "out", [str(stored_demo / "store")])
    words = words_of(tmp_path / "out/studies/demo/index.html")
    assert "No report of this study is public yet." in words
    assert "Public arm released: 16 instances (release)" in words
    assert "A report through wave 2 is recorded, and its file is not here." in words


def pages_with(keyless: Path, **changes: Any) -> dict[str, str]:
    """The pages of the demo study with changes to what was read of it."""
    files = build_site([replace(read_study(str(keyless)), **changes)])
    return {name: data.decode() for name, data in files.items() if name.endswith(_TEXTS)}


def test_the_timeline_has_the_earliest_stamp_that_covers_a_step(keyless: Path) -> None:
    stamps = (
        Stamp(2, "2026-11-28T02:07:30Z", 7, "CN=<b>first"),
        Stamp(5, "2026-11-28T02:08:30Z", 8, "CN=second"),
    )
    page = pages_with(keyless, stamps=stamps)["studies/demo/index.html"]
    rows = [row.split("</tr>")[0] for row in page.split("<tr>")[1:]]
    registered = next(row for row in rows if "Plan registered" in row)
    assert "2026-11-28T02:07:30Z, by CN=&lt;b&gt;first" in registered
    assert "by CN=second" in next(row for row in rows if "Wave 0 closed" in row)
    assert 'Stamp">–' in next(row for row in rows if "Report through wave 2" in row)


def test_a_verdict_that_changes_is_news(keyless: Path) -> None:
    first, last = read_study(str(keyless)).reports
    before = tuple(replace(verdict, verdict=Word("inconclusive")) for verdict in first.models)
    pages = pages_with(keyless, reports=(replace(first, models=before), last))
    assert pages["feed.atom"].count("<title>mild-1: ") == 2
    found = json.loads(pages["models/mild-1/findings.json"])
    assert (found[0]["kind"], found[0]["since"]) == ("contaminated", last.issued)


def test_levels_are_findings_of_their_own(tmp_path: Path) -> None:
    def shown(body: dict[str, Any]) -> None:
        body["levels"] = [body["levels"][0] | {"level": "variant", "finding": "shown"}]

    report_with(tmp_path, shown)
    make_site(tmp_path / "out", [str(tmp_path / "table")])
    rows = json.loads((tmp_path / "out/verdicts.json").read_text())
    levels = {row["level"]: row["kind"] for row in rows if row["model"] == HOSTILE[0]}
    assert levels == {"instance": "contaminated", "variant": "contaminated"}
    words = words_of(tmp_path / "out/index.html")
    assert "trained on the variant 1 shown" in words
    assert "3 contaminated" in words  # each model once


def test_large_files_are_left_out(keyless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("study.extras.site.facts._SMALL", 30_000)
    monkeypatch.setattr("study.extras.site.pages._MOST_NUMBERS", 1000)
    names = build_site([read_study(str(keyless))])
    folders = {name.split("/")[3] for name in names if "/evidence/" in name}
    assert folders == {"ledger", "checkpoints", "index.json"}
    assert "studies/demo/report.json" not in names


# --- the same bytes, and nothing private ---


def test_the_same_studies_give_the_same_bytes(
    stored_demo: Path, site: Path, keyless: Path, tmp_path: Path
) -> None:
    make_site(tmp_path / "with-key", [str(stored_demo)])
    make_site(tmp_path / "without", [str(keyless)])
    assert files_of(tmp_path / "with-key") == files_of(tmp_path / "without")


def test_nothing_follows_from_a_private_seed(stored_demo: Path, site: Path) -> None:
    """Seeds, nonces, names and keys of all; and what follows from those of the family that is made
    in seconds."""
    study = pipeline.open_study(stored_demo)
    entries, files = study.entries(), files_of(site)
    private = [entry for entry in entries if entry.arm == "private"]
    assert len(private) == 36
    texts = [text for entry in private for text in (entry.seed, entry.nonce, entry.instance)]
    secrets = [text.encode() for text in (*texts, *study.secret_keys().values())]
    secrets += [bytes.fromhex(text[-64:]) for text in texts]
    for data in files.values():
        assert not any(secret in data for secret in secrets)
    quick = [entry for entry in entries if entry.family == "compute_average"]
    needles = release_needles(quick, study.protocol.catalog.family)
    pages = b"\n".join(data for name, data in files.items() if not name.endswith(".parquet"))
    assert leaks_in("all pages", pages, needles) == ()
    assert leaks_in("a page", quick[0].seed.encode() + quick[1].seed.encode(), needles)


def test_only_public_objects_are_taken_along(site: Path) -> None:
    evidence = site / "studies/demo/evidence"
    files = files_of(evidence)
    assert json.loads(files.pop("index.json")) == sorted(files)
    assert not any(name.endswith((".age", ".cell")) for name in files)
    folders = {name.split("/")[0] for name in files}
    assert folders == {"ledger", "checkpoints", "inventory", "calibrations", "release", "begun"}


# --- texts of others ---


def elements(folder: Path) -> Iterator[tuple[Path, str, dict[str, str]]]:
    for path in pages_of(folder):
        yield from ((path, tag, found) for tag, found in Page(path).elements)


def test_pages_hold_no_code_and_no_style_of_their_own(site: Path) -> None:
    for path, tag, found in elements(site):
        assert not any(name == "style" or name.startswith("on") for name in found), (path, tag)
        assert tag not in ("style", "img", "iframe", "object", "base", "embed"), path
        assert tag != "script" or found["src"].endswith("static/site.js"), path
    policies = [m["content"] for _, tag, m in elements(site) if "http-equiv" in m]
    assert policies == [_CSP] * len(pages_of(site))


def test_names_stay_words(site: Path) -> None:
    words = words_of(site / "index.html")
    for name in HOSTILE:
        if name.isprintable():
            assert name in words
    assert "\u202e" not in words
    assert "\ufffdgnp.exe" in words
    for path in (*site.rglob("*.svg"), site / "feed.atom"):
        ElementTree.fromstring(path.read_bytes())


def test_no_two_names_share_an_address() -> None:
    names = [*HOSTILE, "a", "A", "a b", "a-b", "a.b", "..", ".", "", "é", slug("A"), slug("a b")]
    assert len({slug(name) for name in names}) == len(names)
    assert all(part not in ("", ".", "..") and "/" not in part for part in map(slug, names))


# --- its place, and what is refused ---


def test_an_earlier_site_is_replaced_whole(keyless: Path, tmp_path: Path) -> None:
    out, table = tmp_path / "out", tmp_path / "table"
    table.mkdir()
    (table / "report.json").write_text(json.dumps(hostile_report("other")))
    make_site(out, [str(table), str(keyless)])
    make_site(out, [str(keyless)])
    assert [path.name for path in (out / "studies").iterdir()] == ["demo"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "table"]


@pytest.mark.parametrize("name", ["../notes", "/etc/passwd", "a/../../notes", "a\0b"])
def test_a_release_s_file_stays_inside_of_the_site(
    keyless: Path, tmp_path: Path, name: str
) -> None:
    study = replace(read_study(str(keyless)), evidence={f"release/{name}": b"x"})
    with pytest.raises(StudyError, match="no path inside"):
        write_site(tmp_path / "out", build_site([study]))
    assert [*tmp_path.iterdir()] == []


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # the store's files cannot be written
    path.write_text(text)


def report_with(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    body = hostile_report("table")
    change(body)
    write(folder, "table/report.json", json.dumps(body))


@pytest.mark.parametrize(
    ("prepare", "arguments", "words", "code"),
    [
        (None, ["out", "nowhere"], ["nowhere", "study.yaml", "report.json"], 2),
        (None, ["out"], ["STUDY"], 2),
        (None, ["absent/out", "demo"], ["absent"], 2),
        (lambda f: write(f, "out", "x"), ["out", "demo"], ["not a folder"], 2),
        (lambda f: write(f, "out/notes.txt", "x"), ["out", "demo"], ["something else"], 2),
        (lambda f: write(f, "out/index.json", "[]"), ["out", "demo"], ["something else"], 2),
        (None, ["out", "demo", "demo"], ["'demo'", "once"], 2),
        (lambda f: write(f, "t/report.json", "{"), ["out", "t"], ["t/report.json", "not JSON"], 2),
        (lambda f: write(f, "t/report.json", "[1e999]"), ["out", "t"], ["t/report.json"], 2),
        (
            lambda f: report_with(f, lambda body: body["models"][3].update(estimate="big")),
            ["out", "table"],
            ["table/report.json", "models.3.estimate"],
            2,
        ),
        (
            lambda f: report_with(f, lambda body: body["facts"][0].update(released="soon")),
            ["out", "table"],
            ["table/report.json", "facts.0.released"],
            2,
        ),
        (
            lambda f: write(f, "demo/reports/wave-2/report.json", "{}"),
            ["out", "demo"],
            ["wave-2/report.json", "was altered", "verify"],
            3,
        ),
        (
            lambda f: write(f, "demo/release/README.md", "my private notes"),
            ["out", "demo"],
            ["release/README.md", "was altered"],
            3,
        ),
        (
            lambda f: write(f, "demo/store/ledger/00000003.json", "{}"),
            ["out", "demo"],
            ["ledger/00000003.json"],
            3,
        ),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(
    keyless: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prepare: Callable[[Path], None] | None,
    arguments: list[str],
    words: list[str],
    code: int,
) -> None:
    shutil.copytree(keyless, tmp_path / "demo")
    if prepare:
        prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = files_of(tmp_path)
    line = refusal("site", *arguments, code=code)
    assert [word for word in words if word not in line] == []
    assert files_of(tmp_path) == before


def test_the_command_names_the_page_to_open(keyless: Path, tmp_path: Path) -> None:
    done = run("site", str(tmp_path / "out"), str(keyless))
    assert done.exit_code == 0, done.output
    assert f"open {tmp_path}/out/index.html" in done.stdout
