"""A look at a study's data as files: nothing private in them, the same look the same bytes, what
changed since the last one, a second judge that says something else, and one that has drifted."""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from analysis.report.facts import ModelFact
from analysis.report.report import report_json
from analysis.report.write import report_files
from harness.judge.grade import submitted
from harness.spending.budget import Spend
from harness.spending.prices import read_prices
from harness.spending.purchases import CallKind
from publish.leakcheck.check import leaks_in, regenerate, release_needles
from registry.errors import BrokenPromise
from registry.ledger.records import pin_digest
from registry.provenance import utc_now
from registry.result_row import Arm
from registry.verify.verify import verify_study
from study import catalogue
from study.extras.judge.grade import GradeRequest, grade_study
from study.extras.judge.records import archived_cells, finished_waves, graded_by, read_attempt
from study.extras.transcripts.find import instance_of
from study.main import main
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.report.context import check_report
from study.steps.report.look import build_look
from study.steps.sweep.spending import sum_spends
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study
from tests.cases import cases
from tests.harness.openai_server import Answer, Json, Served, serve
from tests.study.conftest import PRICES, draw_tiny, run_wave
from tests.study.extras.judge.test_grade import CALL, answer_of, both, reads, verdicts

Archived = tuple[Study, Served]

PROTOCOL = cases(__file__, "protocol")


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Served]]:
    """The folder of a study with two closed waves, and a server for its judge, which is pleased
    with everything."""
    folder = tmp_path_factory.mktemp("reported") / "study"
    with serve(always=both) as served:
        init_study(folder, PROTOCOL.format(url=served.url))
        (folder / "prices.yaml").write_text(PRICES)
        study = pipeline.open_study(folder)
        draw_tiny(study)
        pipeline.register(study)
        run_wave(study, 0)
        pipeline.publish(study, None, lambda *step: None)
        run_wave(study, 1)
        yield folder, served


@pytest.fixture
def study(closed: tuple[Path, Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setenv("JUDGE_KEY", "none")
    shutil.copytree(closed[0], tmp_path / "study")
    return pipeline.open_study(tmp_path / "study")


def grade(study: Study) -> None:
    grade_study(study, GradeRequest(("kind",)), lambda *step: None, utc_now)


def test_a_second_judge_that_sees_no_gap_withholds_the_verdict(
    study: Study, closed: tuple[Path, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that finds nothing met: one that is pleased with everything sees the gates' gap."""
    monkeypatch.setattr(closed[1], "always", lambda request: verdicts(request, lambda *_: False))
    before = pipeline.report(study)[0]
    assert [(v.model, v.verdict) for v in before.verdicts] == [("reader", "withheld")]
    assert "kind has not graded reader" in before.verdicts[0].note
    grade(study)
    after, page = pipeline.report(study)
    c1, c3, again, static = after.controls
    assert (static.what, static.state) == ("criteria that need no answer key", "agrees")
    assert (c1.kind, c1.state, c3.kind, c3.state) == ("C1", "agrees", "C3", "disagrees")
    assert (again.what, again.state) == ("answers graded again", "disagrees")
    assert "`dosimeter judge grade --judge kind --again-at 1` does" in again.says
    assert after.verdicts[0].verdict == "withheld"
    assert after.verdicts[0].p_adjusted <= 0.001, "the exact grader sees the gap"
    assert "kind finds a gap of" in page.read_text(encoding="utf-8")


def test_a_report_is_a_folder_of_files_that_tell_the_same(study: Study) -> None:
    _, page = pipeline.report(study)
    body = json.loads((page.parent / "report.json").read_text(encoding="utf-8"))
    with (page.parent / "tables" / "verdicts.csv").open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert float(row["estimate"]) == body["models"][0]["estimate"]
    assert (page.parent / "report.md").is_file()
    assert {path.name for path in (page.parent / "figures").iterdir()} == {
        "gaps.svg",
        "strata.svg",
        "time.svg",
    }
    assert body["tools"]["models"]
    assert {fact["model"]: fact["cutoff"] for fact in body["facts"]}["reader"] == "2026-06-01"
    assert body["published"] is not None
    assert body["ledger_head"] in {entry.digest for entry in study.ledger.entries()}
    assert {cost["free"] for cost in body["costs"]} == {True}


def test_the_same_look_is_the_same_bytes_whatever_the_ledger_holds_since(study: Study) -> None:
    _, first = pipeline.report(study, 0)
    held = {path: path.read_bytes() for path in first.parent.rglob("*") if path.is_file()}
    pipeline.report(study)
    count = len(study.ledger.entries())
    _, again = pipeline.report(study, 0)
    assert again == first
    assert {path: path.read_bytes() for path in held} == held
    assert len(study.ledger.entries()) == count


def test_a_later_look_says_what_is_new_since_one_that_is_as_the_ledger_has_it(study: Study) -> None:
    first, page = pipeline.report(study, 0)
    assert first.changes is None
    data = page.with_name("report.json")
    text = data.read_text(encoding="utf-8")
    data.write_text(text.replace("reported", "altered"))
    assert build_look(take_snapshot(study), None, utc_now()).report.changes is None
    data.write_text(text)
    later, page = pipeline.report(study)
    assert later.changes is not None
    assert later.changes.through_wave == 0
    assert [model for model, _, _ in later.changes.added] == ["reader"]
    assert "New since the last report" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", ["attempts/", "results/", "drawn/"])
def test_a_report_without_an_object_of_the_ledgers_is_a_broken_promise(
    study: Study, folder: str
) -> None:
    for key in [*study.store.list("tables/"), *study.store.list(folder)]:
        (study.folder / "store" / key).unlink()
    with pytest.raises(BrokenPromise, match="see `dosimeter verify`"):
        pipeline.report(pipeline.open_study(study.folder))


def test_nothing_that_follows_from_a_private_seed_goes_into_a_report(study: Study) -> None:
    """The id of a private instance, planted where a report prints what study.yaml says."""
    entries = study.entries()
    secret = next(entry.instance for entry in entries if entry.arm is Arm.PRIVATE)
    known = next(entry.instance for entry in entries if entry.arm is Arm.PUBLIC)
    count = len(study.ledger.entries())

    def planted(text: str) -> Study:
        facts = (*study.protocol.facts[:1], ModelFact("reader", text))
        return replace(study, protocol=replace(study.protocol, facts=facts))

    with pytest.raises(BrokenPromise, match="would reveal the private arm") as refused:
        pipeline.report(planted(secret))
    assert "report.html: instance id of private commitment" in str(refused.value)
    assert secret.removeprefix("sha256:")[:12] not in str(refused.value)
    assert not list(study.folder.rglob("report.*"))
    assert len(study.ledger.entries()) == count
    assert pipeline.report(planted(known))[1].is_file(), "the public arm is no secret"


def test_every_file_of_a_report_is_looked_through(study: Study) -> None:
    files = report_files(build_look(take_snapshot(study), None, utc_now()).report)
    entries, find = study.entries(), study.protocol.catalog.family
    private = next(entry for entry in entries if entry.arm is Arm.PRIVATE)
    shared = regenerate(private, find)[0].brief.prompt.splitlines()[-1]
    assert leaks_in("", shared.encode(), release_needles(entries, find, excused=False))
    check_report(study, files | {"report.md": files["report.md"] + shared}, 1)
    secret = private.seed
    for where in ("report.md", "tables/verdicts.csv", "figures/gaps.svg"):
        with pytest.raises(BrokenPromise, match=f"{where}: seed"):
            check_report(study, files | {where: files[where] + secret}, 1)


def test_without_extras_a_report_has_the_same_verdicts_and_no_parts(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = build_look(take_snapshot(study), None, utc_now())
    monkeypatch.setattr(catalogue, "EXTRAS", ())
    bare = build_look(take_snapshot(study), None, utc_now())
    assert {"tools", "exposure", "calibration", "judges"} <= {p.name for p in whole.report.parts}
    assert (bare.report.parts, bare.report.verdicts) == ((), whole.report.verdicts)
    assert bare.table == whole.table
    assert "Tools</h2>" in report_files(whole.report)["report.html"]
    assert "Tools</h2>" not in report_files(bare.report)["report.html"]


# The first wave's answers, graded again at a later look


Told = dict[str, Any]
ARCHIVE = 2 * 2 * 4  # tasks, arms, seeds
CALLS = ARCHIVE // 2 * (2 + 1)  # the parts of compute_average take two


def careful(request: Json) -> Answer:
    return verdicts(request, reads)


@pytest.fixture(scope="module")
def graded(
    closed: tuple[Path, Served], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Served]:
    """The study with both waves graded by its second grader, which is a careful judge now."""
    folder, served = tmp_path_factory.mktemp("graded") / "study", closed[1]
    shutil.copytree(closed[0], folder)
    served.always = careful
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUDGE_KEY", "none")
        assert run(pipeline.open_study(folder), "judge", "grade", "--judge", "kind")[0] == 0
    served.always = both
    return folder, served


@pytest.fixture
def archived(
    graded: tuple[Path, Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Archived]:
    folder, served = graded
    monkeypatch.setenv("JUDGE_KEY", "none")
    shutil.copytree(folder, tmp_path / "study")
    served.always = careful
    served.requests.clear()
    yield pipeline.open_study(tmp_path / "study"), served
    served.always = both


def run(study: Study, *arguments: str) -> tuple[int, Told, str]:
    """Exit code, what --json says, and the error."""
    result = CliRunner().invoke(main, [*arguments, "--study", str(study.folder), "--json"])
    return result.exit_code, json.loads(result.stdout or "{}"), result.stderr


def again(study: Study, *options: str) -> tuple[int, Told, str]:
    return run(study, "judge", "grade", "--judge", "kind", "--again-at", "1", *options)


def arms_of(study: Study) -> dict[str, Arm]:
    """The arm of each answer of the first wave, by its text: what no judge can know."""
    arms, keys = {entry.instance: entry.arm for entry in study.entries()}, study.keys()
    briefs = {entry.instance: instance_of(study, entry).brief for entry in study.entries()}
    return {
        submitted(briefs[cell.instance], read_attempt(study, cell.episode, keys)): arms[
            cell.instance
        ]
        for cell in finished_waves(study, 0)[0]
    }


def test_archived_answers_are_graded_again_once_and_the_look_may_speak(archived: Archived) -> None:
    held, served = archived
    kept = set(held.store.list())

    code, told, _ = again(held)
    assert (code, told["again_at"], len(served.requests)) == (0, 1, CALLS)
    (row,) = told["judges"]
    assert [row["owed"], row["graded"], row["fresh"], row["recorded"]] == [
        ARCHIVE,
        ARCHIVE,
        ARCHIVE,
        [1],
    ]
    added = Counter(key.partition("/")[0] for key in set(held.store.list()) - kept)
    assert added == {"regrades": ARCHIVE, "judgements": CALLS, "inventory": 2, "ledger": 1}
    assert again(held)[1]["judges"][0]["fresh"] == 0
    assert len(served.requests) == CALLS, "nothing is bought twice"
    assert run(held, "judge", "grade", "--judge", "kind")[1]["judges"][0]["fresh"] == 0
    # What the look's wave pays for is no part of what the first one cost.
    prices = read_prices(held.folder / "prices.yaml")
    costs = [sum_spends(held, wave, prices, CallKind.JUDGE)[0][1] for wave in (0, 1)]
    assert costs == [Spend(CALLS * CALL), Spend(2 * CALLS * CALL)]

    after = run(held, "report")[1]
    (verdict,) = after["models"]
    assert verdict["verdict"] == "contaminated", verdict["note"]
    c3 = [control for control in after["controls"] if control["kind"] == "C3"]
    assert [(each["what"], each["state"]) for each in c3] == [
        ("graded by kind", "agrees"),
        ("answers graded again", "agrees"),
    ]
    (judge,) = after["judges"]
    assert [row["model"] for row in judge["drift"]] == [None, "before"]
    assert judge["drift"][0]["gap"] == 0
    assert judge["errors_by_arm"]["p_specificity"] > 0.05
    page = held.folder / "reports" / "wave-1"
    html = (page / "report.html").read_text(encoding="utf-8")
    assert "Archived answers graded again" in html
    assert "Errors by arm" in html
    assert judge["uncorrected"] is None, "there are 400 criteria of known truth or more"
    assert judge["gaps"][0]["by_arm"] is not None
    assert "p_specificity" in (page / "tables" / "judges.csv").read_text(encoding="utf-8")
    assert "before" in (page / "tables" / "judge_drift.csv").read_text(encoding="utf-8")

    found = verify_study(held.store, held.identities())
    assert found.holds, found.problems
    assert dict(found.counts)["waves graded again by judges"] == 1
    assert "open objects (no record names them yet)" not in dict(found.counts)
    log = CliRunner().invoke(main, ["log", "--study", str(held.folder)]).stdout
    assert f"first 0; graded {ARCHIVE}; judge kind" in " ".join(log.split())
    gone = next(held.store.list("regrades/"))
    (held.folder / "store" / gone).unlink()
    assert (gone, "missing: it was removed from the store") in verify_study(held.store).problems


def test_a_judge_that_moved_in_one_arm_withholds_the_verdict(archived: Archived) -> None:
    held, served = archived
    arms = arms_of(held)

    def drifted(request: Json) -> Answer:
        unkind = arms[answer_of(request)[0]] is Arm.PRIVATE
        return verdicts(request, lambda text, each: not unkind and reads(text, each))

    served.always = drifted
    assert again(held)[0] == 0
    report = build_look(take_snapshot(held), None, utc_now()).report
    (verdict,) = report.verdicts
    assert verdict.verdict == "withheld"
    assert "C3 (answers graded again): kind graded 16 answers of wave 0" in verdict.note
    assert verdict.p_adjusted <= 0.001, "the numbers stay"
    whole = report_json(report)["judges"][0]["drift"][0]
    assert (whole["model"], whole["wave"]) == (None, 1)
    assert whole["gap"] > 0.3
    assert whole["private"] < -0.3 < whole["public"] == 0
    assert any("the change is not alike in the arms" in each for each in report.deviations)


def test_a_retired_second_grader_is_replaced_under_its_name_by_one_that_grades_all_looks(
    archived: Archived,
) -> None:
    """The rule of the registered plan."""
    held, _ = archived
    assert again(held)[0] == 0
    (before,) = build_look(take_snapshot(held), None, utc_now()).report.verdicts
    assert before.verdict == "contaminated"
    path = held.folder / "study.yaml"
    path.write_text(path.read_text().replace("model: kind-1", "model: heir-1"))
    held = pipeline.open_study(held.folder)
    (none,) = build_look(take_snapshot(held), None, utc_now()).report.verdicts
    assert (none.verdict, "kind has not graded reader" in none.note) == ("withheld", True)
    assert run(held, "judge", "grade", "--judge", "kind")[0] == 0
    assert again(held)[0] == 0
    report = build_look(take_snapshot(held), None, utc_now()).report
    assert [verdict.verdict for verdict in report.verdicts] == ["contaminated"]
    late = [line for line in report.deviations if "without naming judge kind" in line]
    assert [line[:6] for line in late] == ["Wave 0", "Wave 1"]


def test_killed_between_a_reply_and_its_grade_it_buys_nothing_again(archived: Archived) -> None:
    held, served = archived
    assert again(held)[0] == 0
    # As a kill leaves it: the last grade and the record were not written.
    for key in (next(held.store.list("regrades/")), max(held.store.list("ledger/"))):
        (held.folder / "store" / key).unlink()
    code, told, _ = again(held)
    assert (code, told["judges"][0]["fresh"], len(served.requests)) == (0, 1, CALLS)
    assert verify_study(held.store, held.identities()).holds


def test_the_budget_of_the_looks_wave_pays(archived: Archived) -> None:
    held, served = archived
    path = held.folder / "study.yaml"
    # The wave's own grades took 0.72; 0.84 leaves four calls, of which the last cannot be sure.
    budget = "budget: {judges: {kind: 0.84}}\nsweep: {parallel: 1}\nsandbox:"
    path.write_text(path.read_text().replace("sandbox:", budget))
    held = pipeline.open_study(held.folder)
    code, told, _ = again(held)
    assert code == 1
    assert 0 < told["judges"][0]["graded"] < 5
    assert told["judges"][0]["recorded"] == []
    assert told["budget"][0]["wave"] == 1
    path.write_text(path.read_text().replace("kind: 0.84", "kind: 2"))
    code, told, _ = again(pipeline.open_study(held.folder))
    assert (code, told["judges"][0]["recorded"], len(served.requests)) == (0, [1], CALLS)


def test_a_share_is_drawn_alike_from_the_arms_and_the_same_each_time(archived: Archived) -> None:
    held, _ = archived
    entries = {entry.instance: entry for entry in held.entries()}
    drawn = archived_cells(held, 0.5)
    cells = Counter((entries[c.instance].stratum, entries[c.instance].arm) for c in drawn)
    assert set(cells.values()) == {2}
    assert len(cells) == 4
    assert archived_cells(held, 0.5) == drawn
    assert {c.episode for c in drawn} < {c.episode for c in archived_cells(held, 0.75)}
    digest = pin_digest(held.protocol.judges[0])
    assert {c.episode for c in archived_cells(held, 1.0)} <= graded_by(held, digest)


def test_what_cannot_be_graded_again_is_one_line(archived: Archived, tmp_path: Path) -> None:
    held, served = archived
    late = run(held, "judge", "grade", "--judge", "kind", "--again-at", "7")
    assert (late[0], "wave 7 was not begun" in late[2]) == (2, True)
    both = run(held, "judge", "grade", "--judge", "kind", "--again-at", "1", "--wave", "0")
    assert (both[0], "leave --wave out" in both[2]) == (2, True)
    text = (held.folder / "study.yaml").read_text()
    other = f'  other: {{provider: openai, model: o-1, base_url: "{served.url}", api_key_env: ""}}'
    (held.folder / "study.yaml").write_text(text.replace("plan:", f"{other}\nplan:", 1))
    ungraded = run(held, "judge", "grade", "--judge", "other", "--again-at", "1")
    assert (ungraded[0], "judge 'other' has not graded wave 0 whole" in ungraded[2]) == (2, True)
    assert not served.requests
