"""Stored episodes graded by judges behind a real server: resumed, kept, and shown beside the
registered test, never in its place."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from unittest.mock import ANY

import pytest

from analysis.report.report import report_json
from generators.catalog import INSTALLED
from generators.grading.rubric import Part
from harness.episodes.result import RESULT_CODEC
from harness.judge.answer_sheets import make_sheets
from harness.judge.judge import SYSTEM, Judge, Submission, judging_bound
from harness.spending.budget import Spend
from harness.spending.prices import read_prices
from harness.spending.purchases import FAILED_CALL_CODEC, CallKind
from harness.storage import TABLES
from harness.sweep.run_cell import open_budget
from harness.sweep.schedule import Schedule
from registry.ledger.records import JudgeRule, Plan, pin_digest, read_record, record_body
from registry.provenance import utc_now
from registry.result_row import ResultRow
from registry.sealing import decrypt, new_identity
from registry.verify.verify import verify_study
from study.errors import StudyError
from study.extras.judge.grade import GradeRequest, grade_study
from study.extras.judge.records import graded_by
from study.protocol.protocol import read_protocol
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.report.look import graded_rows
from study.steps.sweep.spending import price_pins, sum_spends
from study.steps.sweep.sweep import context_of
from study.workspace.setup import NO_IMAGE
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study, manifests_of
from tests.cases import cases
from tests.harness.openai_server import Answer, Json, Served, completion, failure, serve
from tests.ledgers import keys_of_cell
from tests.study.cli.program import run_in as run
from tests.study.conftest import PRICES, draw_tiny, run_wave

Swept = tuple[Study, Served]

PROTOCOL = cases(__file__, "protocol")
CALL = Decimal("0.03")  # of 100 tokens and 20, as the server counts each
EPISODES = 2 * 2 * 2  # tasks, arms, seeds
ASKED = re.compile(r"^(c\d+)\. (.*)$", re.M)
BLOCK = re.compile(r"<<<answer (\w{32})>>>\n(.*)\n<<<end of answer \1>>>", re.S)
COUNT = re.compile(r"(\S+\.png) shows (\d+)")
NUMBER = re.compile(r"(?: is| are) (-?\d+(?:\.\d+)?)")
KEY = "sk-judge-do-not-keep"


def answer_of(request: Json) -> tuple[str, list[tuple[str, str]]]:
    text = request["messages"][1]["content"]
    found = BLOCK.search(text)
    assert found is not None
    return found[2], ASKED.findall(text[found.end() :])


def verdicts(request: Json, met: Callable[[str, str], bool]) -> Answer:
    text, asked = answer_of(request)
    listed = [{"id": id_, "evidence": "", "met": met(text, each)} for id_, each in asked]
    return completion(json.dumps({"verdicts": listed}))


def reads(text: str, criterion: str) -> bool:
    """A careful judge: a stated number must stand in the answer, and a count beside its file."""
    if count := COUNT.search(criterion):
        return f'"{count[1]}": {count[2]}' in text
    wanted = NUMBER.search(criterion)
    if wanted is None:
        return True
    found = [float(each) for each in re.findall(r"-?\d+(?:\.\d+)?", text)]
    return any(abs(each - float(wanted[1])) <= 0.005 for each in found)


def both(request: Json) -> Answer:
    kind = request["model"] == "kind-1"
    return verdicts(request, lambda text, each: kind or reads(text, each))


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Served]]:
    """The folder of a study with a closed wave, and a server for its judges."""
    folder = tmp_path_factory.mktemp("judged") / "study"
    with serve(always=both) as served:
        asks = "judges: {{kind: {{min_specificity: 0.6}}, strict: {{min_sensitivity: 0.9}}}}"
        init_study(folder, PROTOCOL.replace("199}}", f"199, {asks}}}}}").format(url=served.url))
        (folder / "prices.yaml").write_text(PRICES)
        study = pipeline.open_study(folder)
        draw_tiny(study)
        pipeline.register(study)
        pipeline.publish(study, None, lambda *step: None)
        run_wave(study)
        yield folder, served


@pytest.fixture
def swept(closed: tuple[Path, Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Swept:
    """A copy of the study, and the server: ``always`` may be set to another judge."""
    folder, served = closed
    monkeypatch.setenv("JUDGE_KEY", KEY)
    shutil.copytree(folder, tmp_path / "study")
    served.always = both
    served.requests.clear()
    return pipeline.open_study(tmp_path / "study"), served


def _rows(study: Study) -> list[ResultRow]:
    snapshot = take_snapshot(study)
    return list(graded_rows(snapshot, [snapshot.waves[0]]))


def test_a_result_that_is_not_the_closed_one_is_compared_with_no_judge(swept: Swept) -> None:
    study, _ = swept
    place = next(study.store.list("results/"))
    forged = replace(RESULT_CODEC.read(study.store, place, study.keys()), error_class="forged")
    data = keys_of_cell(study, place).seal(place, RESULT_CODEC.encode(forged))
    (study.folder / "store" / place).write_bytes(data)
    refused = run(study, "judge", "grade", "--judge", "kind")
    assert refused.exit_code == 3, refused.output
    assert f"{place}: not the result that wave 0 was closed with" in refused.stderr


def test_judges_grade_what_is_stored_once_and_stand_beside_the_registered_test(
    swept: Swept,
) -> None:
    study, served = swept
    kept = set(study.store.list())
    result = run(study, "judge", "grade", "--judge", "strict", "--judge", "kind", "--json")
    assert result.exit_code == 0, result.output
    strict, kind = json.loads(result.stdout)["judges"]
    assert [strict["graded"], strict["fresh"], strict["ungraded"]] == [EPISODES, EPISODES, 0]
    assert strict["kappa"] > 0.6
    assert kind["kappa"] == 0
    assert len(served.requests) == 2 * EPISODES
    made = set(study.store.list()) - kept
    added = {key for key in made if not key.startswith(TABLES)}  # rows of the closed wave
    sealed = {key for key in added if key.endswith(".age")}
    assert len(sealed) == 4 * EPISODES
    assert {key.partition("/")[0] for key in sealed} == {"grades", "judgements"}
    assert {key.partition("/")[0] for key in added - sealed} == {"ledger", "inventory"}
    assert [strict["cost_usd"], strict["recorded"], strict["unpinned"]] == [
        float(EPISODES * CALL), [0], []
    ]  # fmt: skip
    stranger = new_identity()[0]
    for key in sealed:
        with pytest.raises(Exception, match="key"):
            decrypt(study.store.get(key), (stranger,), key)

    study = edit(study, "model: strict-1", "model: strict-1, seconds: 900, retries: 5")
    again = json.loads(run(study, "judge", "grade", "--judge", "strict", "--json").stdout)
    assert (again["judges"][0]["fresh"], len(served.requests)) == (0, 2 * EPISODES)

    after = pipeline.report(study)[0]
    assert [v.hypothesis for v in after.verdicts] == ["primary"]
    assert after.exploratory == ()  # the plan asks for judges that were measured
    columns = report_json(after)["judges"]
    assert [each["withheld"] != "" for each in columns] == [True, True]
    rows = _rows(study)
    assert {row.grader for row in rows} == {"deterministic", "strict", "kind"}
    assert all(row.score == 1.0 for row in rows if row.grader == "kind")
    assert all(row.passed == row.total for row in rows if row.grader == "kind")
    found = verify_study(study.store, study.identities())
    assert found.holds
    assert dict(found.counts)["waves graded by judges"] == 2
    assert "open objects (no record names them yet)" not in dict(found.counts)
    begun, now = manifests_of(study.ledger, 0)[0].judges, study.protocol.judges
    assert begun != now
    assert [*map(pin_digest, begun)] == [*map(pin_digest, now)]
    assert not any(KEY.encode() in study.store.get(key) for key in study.store.list())


def test_a_judge_that_dies_midway_is_resumed_and_nothing_is_bought_twice(swept: Swept) -> None:
    study, served = swept
    study = edit(study, "sandbox:", "sweep: {parallel: 1}\nsandbox:")
    wanted = len(served.requests)

    def dies(request: Json) -> Answer:
        return both(request) if len(served.requests) <= 3 else failure(401)

    served.always = dies
    result = run(study, "judge", "grade", "--judge", "strict", "--json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)["judges"][0]
    assert told["graded"] == 3
    assert dict(map(tuple, told["failures"])) == {
        "provider:auth": 1, "not tried after that": EPISODES - 4
    }  # fmt: skip
    assert len(served.requests) == wanted + 4  # the dead provider was not asked by all the others
    graders = {row.grader for row in _rows(study)}
    assert graders == {"deterministic"}  # no column with holes

    served.always = both
    assert run(study, "judge", "grade", "--judge", "strict").exit_code == 0
    assert len(served.requests) == wanted + 4 + EPISODES - 3


def test_a_kill_between_a_reply_and_its_grade_costs_no_reply(swept: Swept) -> None:
    study, served = swept
    study = edit(study, "sandbox:", "sweep: {parallel: 1}\nsandbox:")
    replied, go_on = threading.Event(), threading.Event()

    def slow(request: Json) -> Answer:
        if len(served.requests) == 3:
            replied.set()
            go_on.wait(60)
        return both(request)

    served.always = slow
    command = [sys.executable, "-m", "study.main", "judge", "grade", "--judge", "strict"]
    process = subprocess.Popen(
        [*command, "--study", str(study.folder)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert replied.wait(120)
    with process:  # its pipe is closed, too
        process.send_signal(signal.SIGKILL)
    go_on.set()
    digest = pin_digest(study.protocol.judges[0])
    grades = graded_by(study, digest)
    assert len(list(study.store.list("judgements/"))) == 2
    assert len(grades) in (1, 2)
    os.remove(
        study.folder / "store" / next(study.store.list("grades/"))
    )  # the last was not written
    served.always = both
    grade_study(study, GradeRequest(("strict",)), lambda *step: None, utc_now)
    assert len(served.requests) == 3 + EPISODES - 2  # the one that was under way is asked again
    assert len(graded_by(study, digest)) == EPISODES


def test_garbage_is_never_held_against_the_model(swept: Swept) -> None:
    study, served = swept
    served.always = completion("Everything is fine.")
    told = json.loads(run(study, "judge", "grade", "--judge", "strict", "--json").stdout)["judges"][
        0
    ]
    assert told["graded"] == EPISODES
    assert told["ungraded"] == told["criteria"] > 0
    rows = _rows(study)
    judged = [row for row in rows if row.grader == "strict"]
    assert len(judged) == EPISODES
    assert {(row.status, row.score, row.passed) for row in judged} == {("missing", None, None)}
    assert all(row.score is not None for row in rows if row.grader == "deterministic")


def edit(study: Study, old: str, new: str) -> Study:
    path = study.folder / "study.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return pipeline.open_study(study.folder)


def grade(study: Study, *options: str) -> tuple[int, Json]:
    result = run(study, "judge", "grade", "--judge", "strict", "--json", *options)
    assert result.stdout, result.output
    return result.exit_code, json.loads(result.stdout)


def test_a_plan_shows_the_judge_that_it_trusts_and_withholds_the_other(swept: Swept) -> None:
    study, served = swept
    strata = [(task.family, task.version, task.difficulty) for task in study.protocol.tasks]
    known = {
        (sheet.answer, criterion.text): right
        for sheet in make_sheets(strata, 400, INSTALLED)
        for criterion, right in zip(sheet.parts, sheet.truths, strict=True)
    }

    def measured(request: Json) -> Answer:
        kind = request["model"] == "kind-1"
        return verdicts(request, lambda text, each: kind or known[text, each])

    served.always = measured
    for name in ("strict", "kind"):
        result = run(study, "judge", "check", name)
        assert result.exit_code == 0, result.output
    served.always = both
    assert run(study, "judge", "grade", "--judge", "strict", "--judge", "kind").exit_code == 0

    page = run(study, "report", "--json")
    assert page.exit_code == 0, page.output
    told = json.loads(page.stdout)
    strict, kind = told["judges"]
    assert (strict["withheld"], strict["criteria"] >= 400, strict["unpinned"]) == (None, True, [])
    assert strict["sensitivity"]["rate"] == strict["specificity"]["rate"] == 1.0
    (gap,) = strict["gaps"]
    assert gap["corrected"] == pytest.approx(gap["judged"])  # nothing to free it of
    assert gap["interval"][0] < gap["corrected"] < gap["interval"][1]
    assert kind["withheld"] == "specificity 0.000, the plan asks for 0.6 or more"
    assert kind["gaps"] == []
    assert {row["hypothesis"] for row in told["exploratory"]} == {"graded by strict"}
    assert f"The column of judge kind is withheld: {kind['withheld']}." in told["deviations"]
    html = (study.folder / "reports" / "wave-0" / "report.html").read_text()
    assert "withheld: specificity 0.000" in html
    assert "freed of its errors" in html
    assert "judge strict; objects" in run(study, "log").stdout
    found = verify_study(study.store, study.identities())
    assert found.holds
    assert dict(found.counts)["checks of judges"] == 2
    assert "open objects (no record names them yet)" not in dict(found.counts)
    check = next(study.store.list("checks/"))
    (study.folder / "store" / check).write_bytes(b"{}")
    assert any(place == check for place, _ in verify_study(study.store).problems)
    broken = run(study, "report")
    assert (broken.exit_code, "not the judge check that the ledger names" in broken.stderr) == (
        3, True,
    )  # fmt: skip


def test_verdicts_of_judges_stand_beside_the_exact_ones_in_transcripts_and_logs(
    swept: Swept, tmp_path: Path
) -> None:
    study, _ = swept
    assert run(study, "judge", "grade", "--judge", "strict", "--judge", "kind").exit_code == 0
    rows = _rows(study)
    episodes = json.loads(run(study, "show", "--json").stdout)
    half = next(each for each in episodes if 0 < each["score"] < 1)
    told = json.loads(run(study, "show", half["episode"], "--grade", "--json").stdout)["grade"]
    strict, kind = told["judges"]
    assert [strict["judge"], kind["judge"], kind["score"]] == ["strict", "kind", 1.0]
    assert [each["id"] for each in strict["parts"]] == [each["id"] for each in told["parts"]]
    assert all(each["passed"] in (True, None) for each in kind["parts"])
    page = run(study, "show", half["episode"], "--grade").stdout
    failed = [line for line in page.splitlines() if line.startswith("fail  ")]
    assert len(failed) == sum(each["passed"] is False for each in told["parts"]) > 0
    assert all("strict " in line and line.endswith("kind pass") for line in failed)

    result = run(study, "export", "--out", str(tmp_path / "logs"))
    assert result.exit_code == 0, result.output
    for path in (tmp_path / "logs").glob("*.eval"):
        with zipfile.ZipFile(path) as archive:
            header = json.loads(archive.read("header.json"))
            (first, *_) = (name for name in archive.namelist() if name.startswith("samples/"))
            sample = json.loads(archive.read(first))
        scores = {each["name"]: each for each in header["results"]["scores"]}
        assert list(scores) == list(sample["scores"]) == ["deterministic", "strict", "kind"]
        assert scores["kind"]["metrics"]["mean"]["value"] == 1.0
        task, _, difficulty = header["eval"]["task"].partition("/")
        for name, each in scores.items():
            own = [row.score for row in rows if row.arm == "public" and row.grader == name
                   and (row.family, row.difficulty) == (task, difficulty)]  # fmt: skip
            assert each["metrics"]["mean"]["value"] == pytest.approx(sum(own) / len(own))
            assert each["scored_samples"] == len(own)
        verdicts = sample["scores"]["kind"]["explanation"].splitlines()
        assert {"- pass"} <= {line.partition(":")[0] for line in verdicts} <= {"- pass", "- none"}
        if importlib.util.find_spec("inspect_ai"):
            from inspect_ai.log import read_eval_log

            log = read_eval_log(str(path))
            assert [each.name for each in log.results.scores] == list(scores)


def test_a_judge_that_the_manifest_does_not_name_is_recorded_as_chosen_afterwards(
    swept: Swept,
) -> None:
    study, served = swept
    late = f'  late: {{provider: openai, model: late-1, base_url: "{served.url}", api_key_env: ""}}'
    study = edit(study, "plan:", f"{late}\nplan:")
    told = run(study, "judge", "grade", "--judge", "late")
    assert told.exit_code == 0, told.output
    assert "it is recorded as chosen afterwards" in " ".join(told.stdout.split())
    (record,) = (entry.record for entry in study.ledger.find("graded"))
    assert (record.judge.name, record.wave, record.pinned) == ("late", 0, False)
    report = pipeline.report(study)[0]
    assert any("without naming judge late" in each for each in report.deviations)
    log = run(study, "log")
    assert log.exit_code == 0, log.output
    assert f"graded {EPISODES}; judge late" in log.stdout
    assert verify_study(study.store, study.identities()).holds
    # Nobody can say afterwards that it was named.
    path = next(
        path for path in (study.folder / "store" / "ledger").iterdir()
        if '"pinned":false' in path.read_text()
    )  # fmt: skip
    path.write_text(path.read_text().replace('"pinned":false', '"pinned":true'))
    problems = verify_study(study.store, study.identities()).problems
    assert any("manifest does not name it" in problem for _, problem in problems)


def test_what_a_judge_graded_can_neither_vanish_nor_change(swept: Swept) -> None:
    study, _ = swept
    assert grade(study)[0] == 0
    store = study.folder / "store"
    gone = next(study.store.list("grades/"))
    kept = (store / gone).read_bytes()
    (store / gone).unlink()
    assert (gone, "missing: it was removed from the store") in verify_study(study.store).problems
    (store / gone).write_bytes(kept)
    changed = next(study.store.list("judgements/"))
    (store / changed).write_bytes(kept)
    ((place, problem),) = verify_study(study.store, study.identities()).problems
    assert (place, problem.startswith("was altered")) == (changed, True)


def test_a_budget_stops_a_judge_before_it_is_passed_and_raised_it_goes_on(swept: Swept) -> None:
    study, served = swept
    study = edit(study, "sandbox:", "budget: {judges: {strict: 0.1}}\nsandbox:")
    code, told = grade(study)
    # One goes first; then twice what it cost is set aside: 0.03 + 0.06 fits, 0.06 + 0.06 does not.
    assert (code, len(served.requests)) == (1, 2)
    (strict,) = told["judges"]
    assert (strict["graded"], strict["cost_usd"], strict["recorded"]) == (2, 0.06, [])
    assert dict(map(tuple, strict["failures"])) == {"not paid for by the budget": EPISODES - 2}
    (account,) = told["budget"]
    assert (account["wave"], account["limit"], account["spent_usd"]) == (0, "judge strict", 0.06)
    assert (grade(study)[0], len(served.requests)) == (1, 2)
    assert sum_spends(study, 0, read_prices(study.folder / "prices.yaml"), CallKind.JUDGE) == (
        (ANY, Spend(2 * CALL)),
    )
    study = edit(study, "{judges: {strict: 0.1}}", "{run: 0.3, providers: {openai: 0.3}}")
    code, told = grade(study)
    assert (code, told["judges"][0]["graded"], told["judges"][0]["recorded"]) == (0, EPISODES, [0])
    assert len(served.requests) == EPISODES
    assert {row["spent_usd"] for row in told["budget"]} == {float(EPISODES * CALL)}
    manifest = manifests_of(study.ledger, 0)[0]
    pricing = price_pins(study, manifest.models)
    judged = sum_spends(study, 0, pricing.prices, CallKind.JUDGE)
    context = context_of(study, manifest, NO_IMAGE, 1, pricing, judged)
    budget = open_budget(Schedule(()), b"", study.store, context)  # as the sweep's coordinator does
    assert budget is not None
    assert {each.spent for each in budget.accounts()} == {EPISODES * CALL}
    # What one judge has cost leaves nothing for the next.
    result = run(study, "judge", "grade", "--judge", "kind")
    assert result.exit_code == 1
    assert "Raise `budget:`" in result.stdout


def test_with_bounds_no_judge_passes_a_limit_at_all(swept: Swept) -> None:
    study, served = swept
    study = edit(study, "sandbox:", "budget: {run: 1, reserve: bound}\nsandbox:")
    refused = run(study, "judge", "grade", "--judge", "strict")
    assert (refused.exit_code, "state its `max_tokens`" in refused.stderr) == (2, True)
    pin = replace(study.protocol.judges[0], settings=(("max_tokens", "200"),))
    judge = Judge(pin, object())  # type: ignore[arg-type]  # it is asked nothing
    price = read_prices(study.folder / "prices.yaml").prices[0]
    parts = [Part(f"m/{n}", f"m-{n}", "m", "It is so.", "SR", 1.0, "", None) for n in range(25)]
    bound = judging_bound(judge, Submission("Do it.", "Done."), parts, price)
    assert bound is not None
    # Two calls, three tries each, with 200 tokens of reply at 0.001 USD and at least the text.
    assert bound > 2 * 3 * (200 * Decimal("0.001") + len(SYSTEM) * Decimal("0.0001"))
    assert bound < 2 * 3 * (200 * Decimal("0.001") + 3 * len(SYSTEM) * Decimal("0.0001"))
    assert not served.requests


def test_what_a_judge_would_cost_is_told_before_it_is_asked(swept: Swept) -> None:
    study, served = swept
    study = edit(study, "model: strict-1,", "model: strict-1, max_tokens: 300,")
    before = set(study.store.list())
    shown = json.loads(run(study, "sweep", "--wave", "0", "--dry-run", "--json").stdout)["judges"]
    for row in shown:
        sent, longest = row["usd_sent"], row["usd_with_longest_replies"]
        assert sent == pytest.approx(row["tokens_of_all_calls"] * 100 / 1e6)
        assert longest == (pytest.approx(sent + 0.3) if row["judge"] == "strict" else None)
    assert not served.requests
    assert set(study.store.list()) == before


def test_an_unknown_price_needs_a_word(swept: Swept) -> None:
    study, served = swept
    study = edit(study, "prices: prices.yaml\n", "")
    (study.folder / "prices.yaml").unlink()
    study = pipeline.open_study(study.folder)
    refused = run(study, "judge", "grade", "--judge", "strict")
    assert (refused.exit_code, "--allow-unknown-price" in refused.stderr) == (2, True)
    assert not served.requests
    code, told = grade(study, "--allow-unknown-price")
    assert (code, told["judges"][0]["cost_usd"]) == (0, None)


def test_requests_that_fail_are_kept_and_counted_by_class(swept: Swept) -> None:
    study, served = swept

    def busy(request: Json) -> Answer:
        turn = len(served.requests)
        return failure(429, headers=(("retry-after", "0"),)) if turn in (1, 3) else both(request)

    served.always = busy
    code, told = grade(study)
    assert code == 0
    assert told["judges"][0]["failed_tries"] == [["rate_limit", 2]]
    tries = [key for key in study.store.list("judgements/") if key.count("-") == 2]
    assert len(tries) == 2
    identities = study.identities()
    for key in tries:
        kept = FAILED_CALL_CODEC.read(study.store, key, study.keys()).failed
        assert (kept.kind, kept.status) == ("rate_limit", 429)
        assert b"SECRET PROMPT" in kept.raw
    assert verify_study(study.store, identities).holds


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    cases(__file__, "bad_judges"),
)  # fmt: skip
def test_a_bad_judge_is_named_by_its_line(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    text = PROTOCOL.replace(old, new)
    assert text != PROTOCOL
    (tmp_path / "study.yaml").write_text(text.format(url="http://127.0.0.1:1/v1"))
    with pytest.raises(StudyError, match=message) as error:
        read_protocol(tmp_path)
    assert f"study.yaml:{line}:" in str(error.value)


def test_a_plan_that_asks_something_of_a_judge_pins_it(tmp_path: Path) -> None:
    text = PROTOCOL.format(url="http://127.0.0.1:1/v1")
    asks = text.replace("199}", "199, judges: {strict: {min_specificity: 0.9}}}")
    (tmp_path / "study.yaml").write_text(asks)
    protocol = read_protocol(tmp_path)
    plan = protocol.registered_plan()
    assert plan.judges == (
        JudgeRule("strict", pin_digest(protocol.judges[0]), min_specificity=0.9),
    )
    assert read_record(Plan, json.loads(json.dumps(record_body(plan))), "a plan") == plan
    (tmp_path / "study.yaml").write_text(text)
    assert "judges" not in record_body(read_protocol(tmp_path).registered_plan())


def test_an_unknown_judge_and_a_wave_not_begun_are_one_line(swept: Swept) -> None:
    study, _ = swept
    unknown = run(study, "judge", "grade", "--judge", "nobody")
    assert (unknown.exit_code, "known: strict, kind" in unknown.stderr) == (2, True)
    early = run(study, "judge", "grade", "--judge", "strict", "--wave", "7")
    assert (early.exit_code, "wave 7 was not begun" in early.stderr) == (2, True)


def test_families_and_judges_leave_the_pins_of_models_as_they_were(tmp_path: Path) -> None:
    text = PROTOCOL.format(url="http://127.0.0.1:1/v1")
    (tmp_path / "study.yaml").write_text(text)
    named = read_protocol(tmp_path)
    (tmp_path / "study.yaml").write_text(
        text.replace("agent: honest,", "agent: honest, family: b,")
    )
    other = read_protocol(tmp_path)
    assert other.models == named.models
    assert dict(other.families) == {"honest": "b", "strict": "a"}
    assert dict(named.judges[0].settings)["temperature"] == "0.0"
