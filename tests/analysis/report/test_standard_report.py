"""The report of a plan standard-v1: controls, monitoring, time, causes, changes; and a page that
everybody can read, in light and dark, on paper and by ear."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from analysis.calibrate.calibration import RecordedCalibration, read_calibration
from analysis.calibrate.part import calibration_part
from analysis.data.table import make_table
from analysis.errors import AnalysisError
from analysis.plan.look import ArmMean, analyse
from analysis.plan.presets import basic_plan, standard_plan
from analysis.plan.verdict import INCONCLUSIVE, NO_INFLATION, WITHHELD
from analysis.probe.part import exposure_part
from analysis.probe.probes import Exposure
from analysis.report.facts import ModelFact
from analysis.report.figures import style
from analysis.report.figures.levels import level_panels, plot_levels
from analysis.report.html import render_html
from analysis.report.json import changes_since
from analysis.report.limits import limits_of
from analysis.report.markdown import render_markdown
from analysis.report.report import (
    Report,
    ReportRequest,
    build_report,
    build_table_report,
    report_json,
)
from analysis.report.wording import headline, range_words, summarise
from analysis.report.write import report_files
from analysis.stats.intervals import MeanEstimate, points, signed
from analysis.stats.proportions import wilson
from analysis.transcripts.tool_use import Conduct, Use, tabulate_tools, tools_part
from analysis.words import words_in
from registry.result_row import Arm, ResultRow, Status
from tests.analysis.conftest import COUNTED, STRATA, Agent, lose, make_records, simulate
from tests.cases import cases

pytestmark = pytest.mark.filterwarnings("error")

OLD = tuple(Agent(f"old-{n}", 0.6) for n in range(4))
WAVES = (
    (0, OLD),
    (1, (OLD[0], Agent("honest", 0.7), Agent("told", 0.6, leak=0.9))),
    (2, (OLD[0], Agent("later", 0.65, missing=0.05), Agent("evil | <b>told</b>", 0.6, leak=0.9))),
)
PUBLISHED = "2025-12-01"
FACTS = (
    ModelFact("honest", "H", "2026-02-01", "2025-08-01"),
    ModelFact("told", "T", "2026-03-01", "2025-10-01"),
    ModelFact("later", "H", "2026-09-01"),
    ModelFact("evil | <b>told</b>", "T", "2026-11-01", "2026-05-01"),
)


def made_rows() -> list[ResultRow]:
    return [
        replace(
            row,
            score_sr=row.score,
            cost_usd=0.01 if row.model == "later" else None,
            error_class="overloaded" if row.status is Status.MISSING else "",
        )
        for row in simulate(WAVES, seeds=48)
    ]


def plan_of(**given: Any):
    made = {"pre_exposure": [a.name for a in OLD], "frozen": ["old-0"], "looks": 2,
            "permutations": 499, "control_margin": 0.2, "outcomes": COUNTED,
            "sensitivity": ["unadjusted", "leave-one-stratum-out", "shrinkage"],
            } | given  # fmt: skip
    return standard_plan(STRATA, 48, **made)


def make_report(rows: list[ResultRow], plan: Any, waves: int = 3, **given: Any) -> Report:
    records = make_records(WAVES)
    table = make_table([row for row in rows if row.wave < waves])
    parts: dict[str, Any] = {
        "registered": replace(records.registered, plan=plan), "sealed": records.sealed,
        "runs": records.runs[:waves], "table": table,
        "analysis": analyse(plan, table, records.registration),
        "issued": "2026-01-02T03:04:05Z", "published": PUBLISHED,
        "free": frozenset(a.name for a in OLD),
        "parts": [tools_part(tabulate_tools(
            Conduct(1, "told", STRATA[0], seed, 0, ((Use("run_command", 0.5, False),),))
            for seed in range(3)
        ))],
    } | given  # fmt: skip
    report = build_report(ReportRequest(**parts))
    return replace(report, facts=FACTS, ledger_head="sha256:" + "ab" * 32)


def dose(share: float, found: int) -> dict[str, Any]:
    low, high = wilson(found / 20, 20.0)
    return {"dose": share, "replicates": 20, "detected": found, "rate": found / 20,
            "interval": [low, high], "gap": 0.3 * share, "fitted": share,
            "lost_to_missing_runs": 0}  # fmt: skip


CALIBRATION: dict[str, Any] = {
    "how": "resampled", "beside": ["a", "b"],
    "plan": {"multiplicity": "westfall-young", "outcomes": ["score"]},
    "models_adjusted_over": 2, "model": "old-0", "wave": 0, "known": "full marks",
    "notes": ["A note."],
    "markers": {"asked": 48, "looks": 2, "models": 1, "alpha": 0.001, "false_alarms": 0.0005,
                "found": {"0.1": 0.2}},
    "alpha": 0.0125, "n_public": 48, "n_private": 48, "se": 0.04, "sd_of_blanks": 0.05,
    "limit_of_blank": 0.0658, "limit_of_detection": 0.1316, "dose_at_limit": 0.44,
    "dose_at_80": 0.3, "dose_at_80_interval": [0.2, None],
    "doses": [dose(0.0, 0), dose(0.2, 9), dose(1.0, 20)],
}  # fmt: skip
CALIBRATED = read_calibration(CALIBRATION, "it", "sha256:" + "ef" * 32, "2026-01-02T00:00:00Z")


def with_calibration(report: Report, made: RecordedCalibration) -> Report:
    parts = [part for part in report.parts if part.name != "calibration"]
    return replace(report, parts=(calibration_part(made), *parts))


@pytest.fixture(scope="module")
def rows() -> list[ResultRow]:
    return made_rows()


@pytest.fixture(scope="module")
def report(rows) -> Report:
    before = make_report(rows, plan_of(), 2)
    now = make_report(rows, plan_of())
    changed = changes_since(report_json(before), report_json(now), "sha256:" + "cd" * 32)
    return with_calibration(replace(now, changes=changed), CALIBRATED)


@pytest.fixture(scope="module")
def files(report) -> dict[str, str]:
    return report_files(report)


@pytest.fixture(scope="module")
def html(files) -> str:
    return files["report.html"]


class Reader(HTMLParser):
    """Start tags in order, and the text of headings."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))


@pytest.fixture(scope="module")
def tags(html) -> list[tuple[str, dict[str, str | None]]]:
    reader = Reader()
    reader.feed(html)
    return reader.tags


# What it says


def test_the_headline_names_models_sizes_and_certainty(report, html, files):
    by = {v.model: v for v in report.verdicts}
    told, evil = by["told"], by["evil | <b>told</b>"]
    gaps = sorted((told.estimate, evil.estimate))
    first = (
        "2 of 4 models score higher on what was published: told and evil | <b>told</b>, by "
        f"{points(gaps[0])} to {points(gaps[1])} points of the weighted score (decided by score; "
        "adjusted p ≤ 0.0020)."
    )
    words = headline(report)
    assert words.startswith(first)
    low, high = sorted(by[name].deciding_bound for name in ("honest", "later"))
    assert words == (
        f"{first} honest and later are undecided: inflations of up to {points(low)} to "
        f"{points(high)} points remain possible."
    )
    assert f'<p class="lead">{escape(words)}</p>' in html
    assert "(decided by score; adjusted p ≤ 0.0020)." in files["report.md"]


def test_the_headline_says_what_a_single_model_and_an_open_verdict_allow(report):
    told, honest = (next(v for v in report.verdicts if v.model == n) for n in ("told", "honest"))
    one = headline(replace(report, verdicts=(replace(told, estimate=0.9, outcome="fraction"),)))
    assert one == (
        "1 of 1 model scores higher on what was published: told, by "
        f"{points(told.estimate)} points of the weighted score (decided by fraction; adjusted p ≤ "
        "0.0020)."
    )
    open_ = replace(honest, verdict=INCONCLUSIVE)
    again = replace(open_, wave=2, deciding_bound=0.5)
    cleared = replace(honest, verdict=NO_INFLATION, deciding_bound=0.031)
    assert headline(replace(report, verdicts=(cleared,))) == (
        "honest shows no inflation of the published instances above 3.1 points."
    )
    assert headline(replace(report, verdicts=(open_,))) == (
        f"honest is undecided: inflations of up to {points(honest.deciding_bound)} points remain "
        "possible."
    )
    assert headline(replace(report, verdicts=(open_, again))).startswith(
        "honest (waves 1 and 2) is undecided: inflations of up to "
    )
    why = [replace(honest, model=f"w-{n}", verdict=WITHHELD, note=f"reason {n}") for n in (1, 2)]
    assert headline(replace(report, verdicts=(*why, replace(why[0], model="w-3")))) == (
        "No verdict is issued on w-1, w-2 and w-3: reason 1; reason 2."
    )
    many = tuple(replace(open_, model=f"m-{n}") for n in range(9))
    assert headline(replace(report, verdicts=many)).startswith(
        "m-0, m-1, m-2, m-3, m-4 and 4 others are undecided"
    )


def test_the_page_opens_with_headline_plot_table_and_controls_and_folds_the_rest(tags, html):
    top = html[: html.index("<details")]
    places = [top.index(part) for part in ('class="lead"', "gap-wide-t", ">Adjusted p<", "C1, ")]
    assert places == sorted(places)
    folded = [held["aria-labelledby"] for tag, held in tags if held.get("class") == "part"]
    assert {"words", "strata", "episodes", "missing", "plan", "limits"} <= set(folded)
    assert not any(tag == "details" and "open" in held for tag, held in tags)
    assert "details::details-content { content-vis" in html.split("@media print")[-1]


def test_gaps_by_stratum_average_to_the_gap_of_the_verdict(report, files):
    results = [result for look in report.looks for result in look.results]
    for result in results:
        assert [gap.stratum for gap in result.strata] == sorted(STRATA)
        mean = sum(gap.gap for gap in result.strata) / len(STRATA)
        assert mean == pytest.approx(result.verdict.estimate)
        for gap in result.strata:
            low, high = gap.interval
            assert low < gap.gap < high
    rows = list(csv.DictReader(io.StringIO(files["tables/strata.csv"])))
    assert len(rows) == len(results) * len(STRATA)
    assert float(rows[0]["interval_low"]) == pytest.approx(results[0].strata[0].interval[0])


def test_controls_stand_in_the_page_and_behind_each_verdict(html):
    assert "C1, released before publication" in html
    assert html.count("C1, frozen, change since the baseline") == 3  # by state, at two waves
    assert "The control that it rests on agrees: C3 (graded exactly)" in html
    assert "C3, graded exactly" in html


def test_a_harness_that_changed_leaves_verdicts_open_and_says_why_in_every_form(rows):
    def leaking(row: ResultRow) -> ResultRow:
        if row.wave == 2 and row.model == "old-0":
            good = row.arm == Arm.PUBLIC
            return replace(row, score=1.0 if good else 0.0, passed=10 if good else 0)
        return row

    made = report_files(make_report([leaking(row) for row in rows], plan_of()))
    for name in ("report.html", "report.md", "report.json"):
        assert "the harness changed" in made[name], name
    verdicts = list(csv.DictReader(io.StringIO(made["tables/verdicts.csv"])))
    assert [v["verdict"] for v in verdicts if v["wave"] == "2"] == ["inconclusive"] * 2


def test_causes_are_told_by_arm_and_add_up(report):
    lost = dict.fromkeys(Arm, 0)
    for loss in report.losses:
        assert (loss.model, loss.cause, loss.status) == ("later", "overloaded", Status.MISSING)
        lost[loss.arm] += loss.episodes
    assert lost == {r.arm: r.missing for r in report.funnel if r.model == "later"}
    assert sum(lost.values()) > 0


def test_dimensions_are_told_by_arm(report):
    found = {(d.wave, d.model, d.arm): d for d in report.dimensions}
    scores = {(m.wave, m.model, m.arm): m for m in report.means if not m.stratum}
    assert found.keys() == scores.keys()
    key = (1, "told", Arm.PUBLIC)
    mean = scores[key].estimate
    # The dimension is the score here.
    assert (found[key].mean, found[key].interval) == (mean.mean, mean.interval)


def test_tool_use_is_told_without_any_seed(report, files):
    assert set(report_json(report)["tools"]) == {"models", "by_tool", "left_out"}
    assert "tables/tools_by_tool.csv" in files
    assert "by_seed" not in "".join(files)


def test_what_changed_is_told(report, html, rows):
    assert report.changes is not None
    assert {model for model, _, _ in report.changes.added} == {"later", "evil | <b>told</b>"}
    assert "No earlier verdict has changed." in html
    before, now = report_json(report), report_json(report)
    now["models"][0]["verdict"], now["deviations"] = "withheld", ["A new one."]
    found = changes_since(before, now, "")
    turned = found.turned[0]
    assert (turned.before, turned.now) == (before["models"][0]["verdict"], "withheld")
    assert found.deviations == ("A new one.",)
    assert found.settled == tuple(before["deviations"])


def test_a_model_without_spread_has_a_flag_and_no_gap(rows):
    flat = [replace(r, score=0.0, score_sr=0.0, passed=0) if r.model == "told" else r for r in rows]
    made = make_report(flat, plan_of(), 2)
    files = report_files(made)
    row = next(line for line in files["report.md"].splitlines() if line.startswith("| told"))
    assert "| 0.0 floor | 0.0 floor | – | – | – | – |" in row
    assert "told, wave 1: public 0.0, private 0.0; no gap, inconclusive." in files["report.html"]
    assert "No information: 0 scores of the model differ" in files["report.md"]


def test_a_row_has_the_numbers_that_decide_it_and_no_others(report, files):
    for verdict in report.verdicts:
        told, bound = verdict.verdict == "contaminated", f"bound {signed(verdict.deciding_bound)}"
        shown = f"{range_words(verdict.interval)} | {'–' if told else bound[6:]} |"
        assert shown in files["report.md"]
        assert (f"{range_words(verdict.interval)}; {bound})" in files["report.html"]) != told


def test_limits_are_those_of_the_plan():
    always = tuple(words_in("analysis.report", "words.yaml")["limits"]["always"])
    basic = limits_of(basic_plan(STRATA, 24))
    assert basic[: len(always)] == always
    assert "No positive or negative control" in basic[-1]
    standard = limits_of(plan_of())
    assert not any("is part of the plan" in each and "negative" in each for each in standard)
    assert any("within 20 points, not the usual 5" in each for each in standard)
    assert any("No second grader" in each for each in standard)
    judged = {"second_grader": "judge", "control_margin": 0.05}
    assert limits_of(plan_of(spiked=["told"], regrade=1.0, **judged)) == always
    assert "grade archived answers again" in limits_of(plan_of(spiked=["told"], **judged))[-1]
    assert "taken on trust" in limits_of(plan_of(), of_study=False)[-1]


def test_a_table_from_elsewhere_has_a_page_of_the_same_kind(rows):
    plan = plan_of()
    table = make_table(rows)
    found = analyse(plan, table, "sha256:" + "00" * 32)
    text = render_html(build_table_report("t.csv", table, found, ("Not registered.",), "2026"))
    assert "none: a table from elsewhere" in text
    assert "No ledger promises anything of this table." in text
    assert "registered test" not in text.split("</header>")[1].split("</section>")[0]


def test_probes_from_memory_stand_apart(report, html):
    assert 'id="exposure"' not in html
    probe = Exposure(
        wave=1, model="told", public=0.3, private=0.1, gap=0.2, interval=(0.1, 0.3), p=0.001,
        p_adjusted=0.002, alpha=0.0125, exposed=True, n_public=48, n_private=48, strata=2,
    )  # fmt: skip
    made = report_files(replace(report, parts=(exposure_part([probe]),)))
    assert '<h2 id="exposure">' in made["report.html"]
    assert ">exposed</td>" in made["report.html"]
    assert "tables/exposure.csv" in made


def test_a_calibration_is_told_in_words_a_table_and_a_figure(report, html, files):
    assert "limit of detection 13.2 points" in html
    assert "knows 30.0\u00a0% of the public instances" in html
    assert "(95\u00a0% interval: at least 20.0\u00a0%, without an upper end)" in html
    assert "| 20 % | 9 of 20 | 45 % |" in files["report.md"]
    doses = list(csv.DictReader(io.StringIO(files["tables/calibration_doses.csv"])))
    assert [row["detected"] for row in doses] == ["0", "9", "20"]
    ends = [(float(row["interval_low"]), float(row["interval_high"])) for row in doses]
    assert ends == [pytest.approx(wilson(found / 20, 20.0)) for found in (0, 9, 20)]
    (kept,) = csv.DictReader(io.StringIO(files["tables/calibration.csv"]))
    assert float(kept["limit_of_detection"]) == 0.1316
    assert "figures/calibration.svg" in files
    assert any("known leaks in stored scores" in limit for limit in report.limits)
    assert json.loads(files["report.json"])["calibration"][0]["model"] == "old-0"
    with pytest.raises(AnalysisError, match="it: not a calibration"):
        read_calibration({**CALIBRATION, "doses": [{}]}, "it", "", "")


def test_a_claim_names_its_outcome_and_its_p_at_the_floor(report, html):
    claims = [v for v in report.verdicts if v.verdict == "contaminated"]
    assert claims
    for verdict in claims:
        named = {"score": "weighted score", "fraction": "fraction of criteria passed"}
        words = summarise(verdict)
        assert f"on private instances, by the {named[verdict.outcome]} (95 % interval" in words
        assert verdict.p_adjusted == verdict.p_floor == 0.002
        assert "has probability ≤ 0.0020, adjusted" in words
    assert "≤ 0.0020" in html


def test_missing_runs_stand_in_a_table_and_their_tipping_points_in_a_file(rows):
    lost = lose(rows, lambda row: row.model == "told" and int(row.instance[-1], 16) < 2)
    made = make_report(lost, plan_of(), 2)
    (told,) = [r for r in made.looks[0].results if r.model == "told"]
    assert told.missing.public > 0 < told.missing.private
    files = report_files(made)
    assert next(row for row in files["report.html"].split("<tr") if ">told<" in row)
    missing = csv.DictReader(io.StringIO(files["tables/missing.csv"]))
    (row,) = [row for row in missing if row["model"] == "told"]
    assert int(row["public"]) == told.missing.public
    assert row["tipping_decision"] == "contaminated"
    steps = [
        float(row["share"]) for row in csv.DictReader(io.StringIO(files["tables/tipping.csv"]))
        if row["model"] == "told"
    ]  # fmt: skip
    assert steps == pytest.approx([step / 10 for step in range(11)])
    assert "told, wave 1: contaminated, p " in files["figures/tipping.svg"]


def test_every_table_of_the_page_has_its_numbers_in_the_json(report, html, files):
    """Whatever number a cell shows, a value of the JSON rounds to it."""
    shown = {text for row in re.findall(r'<td role="cell" class="n"[^>]*>(.*?)</td>', html)
             for text in re.findall(r"(?<![\d.])\d+\.\d+(?![\d.]| ×)", row)}  # fmt: skip
    held = [abs(value) for value in numbers(json.loads(files["report.json"]))]
    known = np.sort(np.array([*held, *(100 * value for value in held)]))
    assert len(shown) > 100
    for text in shown:
        half = 0.5 * 10.0 ** -len(text.partition(".")[2]) + 1e-6
        low, high = np.searchsorted(known, [float(text) - half, float(text) + half])
        assert low < high, text


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from numbers(each)
    elif isinstance(value, float | int) and not isinstance(value, bool):
        yield float(value)


# The files


def test_figures_are_files_of_their_own(files):
    for name in ("gaps", "time"):
        root = ElementTree.fromstring(files[f"figures/{name}.svg"])  # our own file
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "var(--" not in files[f"figures/{name}.svg"]


def test_levels_are_drawn_from_the_easiest_on_and_other_names_are_none():
    names = ("t/hard", "t/easy", "u/level-10", "u/level-9", "q/q301", "q/q302", "v/easy", "")
    score = MeanEstimate(0.5, (0.4, 0.6), 8)
    means = [
        ArmMean(wave, "m", name, arm, score) for wave in (0, 1) for name in names for arm in Arm
    ]
    assert level_panels(means) == [
        ("m", 1, "t", ["t/easy", "t/hard"]), ("m", 1, "u", ["u/level-9", "u/level-10"]),
    ]  # fmt: skip
    words = "m, t: easy 50.0 public, 50.0 private; hard 50.0 public, 50.0 private. m, u: level-9"
    for width in (style.WIDE, style.NARROW):
        assert words in plot_levels(means, width)
    assert not level_panels([mean for mean in means if not mean.stratum.startswith(("t", "u"))])


def test_the_summary_is_markdown_that_no_name_breaks(report):
    text = render_markdown(report)
    assert r"evil \| \<b\>told\</b\>" in text
    assert "<b>" not in text
    widths = {line.replace(r"\|", "").count("|") for line in text.splitlines() if line[:1] == "|"}
    assert "## Limits" in text
    assert len(widths) > 1  # tables of several kinds, each in whole rows
    assert all(f"- {limit[:20]}" in text for limit in report.limits)


# The page


def test_the_page_loads_nothing(html, tags):
    loads = [held[n] for _, held in tags for n in ("src", "href", "srcset", "data") if n in held]
    assert all(load and load.startswith("#") for load in loads)
    assert not {tag for tag, _ in tags} & {"script", "link", "iframe", "img", "object", "base"}
    assert "http" not in html
    assert "<b>told" not in html


def test_ids_are_unique_and_every_link_and_label_leads_somewhere(tags):
    ids = [held["id"] for _, held in tags if "id" in held]
    assert len(ids) == len(set(ids))
    named = {str(held["href"])[1:] for _, held in tags if "href" in held}
    for _, held in tags:
        named |= set(str(held.get("aria-labelledby") or "").split())
    assert named <= set(ids)


CHROMIUM = next((found for n in ("chromium", "chromium-browser", "google-chrome")
                 if (found := shutil.which(n))), None)  # fmt: skip
FLAGS = cases(__file__, "flags")  # fmt: skip
# Measures the page in a frame of a given width, and writes what it finds into the wrapper's body.
WRAPPER = cases(__file__, "wrapper")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="NO CHROMIUM HERE: the page's layout is NOT checked")
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_overflows_in_a_browser(files, tmp_path: Path, width: int, dark: bool):
    (tmp_path / "report.html").write_text(files["report.html"], encoding="utf-8")
    wrapper = tmp_path / "wrapper.html"
    wrapper.write_text(WRAPPER.format(width=width), encoding="utf-8")
    found, errors = browse(wrapper, tmp_path / "profile", dark)
    assert found["out"] == []
    assert found["over"] <= 0
    assert found["drawn"] == 4
    assert width < 700 or found["rows"] <= 900 - 2 * 65  # two rows more are in the first screen
    assert found["height"] <= (8000 if width < 700 else 6 * 900)
    assert not any("(verdicts)" in name for name in found["scrolls"])
    if width < 700:
        assert found["scrolls"] == []
    assert found["ground"] == ("rgb(22, 23, 26)" if dark else "rgb(253, 253, 251)")
    assert list(errors) == []


def browse(page: Path, profile: Path, dark: bool) -> tuple[dict[str, Any], Iterator[str]]:
    """What the wrapper found, and what the browser's console said."""
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    command = [str(CHROMIUM), *FLAGS, scheme, f"--user-data-dir={profile}", "--dump-dom"]
    done = subprocess.run(
        [*command, f"file://{page}"], capture_output=True, text=True, timeout=120, check=True
    )
    match = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert match, done.stderr[-2000:]
    said = (line for line in done.stderr.splitlines() if "CONSOLE" in line)
    return json.loads(
        match[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    ), said


def test_no_share_above_the_whole_is_told(report):
    found = replace(CALIBRATED.found, enough=None, enough_interval=(1.738, None))
    html = report_files(with_calibration(report, replace(CALIBRATED, found=found)))["report.html"]
    assert "(95\u00a0% interval: beyond 100\u00a0%)" in html
