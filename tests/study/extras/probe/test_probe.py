"""`dosimeter probe`: models asked from memory, once each, paid from the wave's budget; the report
tells the arms apart."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from analysis.probe.probes import Exposure
from analysis.report.report import report_json
from analysis.report.write import report_files
from harness.model import MARKER_MARK, PROBE_MARK
from harness.spending.prices import read_prices
from harness.spending.purchases import CallKind
from registry.canonical import digest_value
from registry.ledger.records import record_body
from registry.provenance import utc_now
from registry.verify.verify import verify_study
from study.extras.probe.results import exposure_of, markers_of
from study.main import main
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.sweep.exposure_ledger import burned_tranches
from study.steps.sweep.spending import sum_spends
from study.steps.sweep.sweep import SweepRequest, begin_wave
from study.workspace.setup import NO_IMAGE, registration_of
from study.workspace.study import Study
from tests.cases import cases
from tests.harness.openai_server import Answer, Json, Served, completion, serve
from tests.study.conftest import PRICES, promise_unchecked, run_wave

Probed = tuple[Study, Served]

PROTOCOL = cases(__file__, "protocol")
CALL = Decimal("0.03")  # of 100 tokens and 20, as the server counts each
OWED = 8


def shrugs(request: Json) -> Answer:
    assert request["messages"][0]["content"].startswith(PROBE_MARK)
    assert not request.get("tools")
    return completion('I do not know.\n<answer>\n{"average": 0}\n</answer>')


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Served]]:
    """The folder of a study with a release and, after it, a closed wave; and a server."""
    folder = tmp_path_factory.mktemp("probed") / "study"
    both = "/v1/(chat/)?completions"
    with serve(always=shrugs, path=both, check=lambda request: []) as served:
        init_study(folder, PROTOCOL.format(url=served.url))
        (folder / "prices.yaml").write_text(PRICES)
        study = pipeline.open_study(folder)
        promise_unchecked(study)
        pipeline.publish(study, False, lambda *step: None)
        run_wave(study)
        yield folder, served


@pytest.fixture
def probed(closed: tuple[Path, Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Probed:
    folder, served = closed
    monkeypatch.setenv("PROBE_KEY", "sk-probe")
    shutil.copytree(folder, tmp_path / "study")
    served.always = shrugs
    served.requests.clear()
    return pipeline.open_study(tmp_path / "study"), served


def run(study: Study, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["probe", "--study", str(study.folder), *arguments])


def probe(study: Study, *arguments: str) -> tuple[int, dict[str, Any]]:
    result = run(study, *arguments, "--json")
    assert result.stdout, result.output
    told: dict[str, Any] = json.loads(result.stdout)
    return result.exit_code, told


def exposures(study: Study, *waves: int) -> dict[str, Exposure]:
    registered = registration_of(study)
    registration = digest_value(record_body(registered))
    found = exposure_of(study, registered.plan, registration, waves)
    return {row.model: row for row in found}


def test_who_has_read_the_release_is_found_out_without_an_episode(probed: Probed) -> None:
    study, _ = probed
    before = set(study.store.list(""))
    code, told = probe(study, "--wave", "0")
    assert code == 0
    honest, spiked = told["models"]
    assert (honest["owed"], honest["done"], honest["fresh"], honest["mean_score"]) == (8, 8, 8, 0)
    assert (spiked["mean_score"], spiked["cost_usd"]) == (0.5, 0)  # no word of the arms
    assert "public" not in json.dumps(told)
    rows = exposures(study, 0)
    assert (rows["spiked"].public, rows["spiked"].private) == (1, 0)
    assert rows["spiked"].p_adjusted == pytest.approx(1 / 70)  # of all 8-choose-4 allocations
    assert rows["spiked"].exposed and not rows["honest"].exposed  # noqa: PT018
    new = {key for key in study.store.list("probes/") if key not in before}
    assert len(new) == 2 * OWED  # built-in agents are not paid: their replies are not kept
    for key in new:
        assert study.store.get(key).startswith(b"age-encryption.org/")
    again = probe(study, "--wave", "0")[1]
    assert [each["fresh"] for each in again["models"]] == [0, 0]
    hold_to_the_ledger(study, sorted(new)[0])


def hold_to_the_ledger(study: Study, key: str) -> None:
    """Every object of the probes is promised: whole it holds, altered or gone it does not."""
    records = [entry.record for entry in study.ledger.find("probed")]
    assert [(r.model.name, r.what, r.probes, r.objects) for r in records] == [
        ("honest", "questions", OWED, OWED),
        ("spiked", "questions", OWED, OWED),
    ]
    found = verify_study(study.store, study.identities(), None)
    assert found.holds
    counts = dict(found.counts)
    assert counts["models probed"] == 2
    assert "open objects (no record names them yet)" not in counts
    path = study.folder / "store" / key
    kept = path.read_bytes()
    for damaged in (b"something else", None):
        path.unlink()
        if damaged is not None:
            path.write_bytes(damaged)
        ((place, problem), *_) = verify_study(study.store, None, None).problems
        assert place == key
        assert ("was altered" if damaged else "was removed") in problem
        if damaged is None:
            path.write_bytes(kept)
    assert verify_study(study.store, study.identities(), None).holds


def test_markers_show_who_has_read_the_release(probed: Probed) -> None:
    """Four of four public markers have p = 8^-4, whatever the skill; private ones are the control.
    Asked again, no question is put twice; no verdict changes."""
    study, _ = probed
    plain, _ = pipeline.report(study)
    code, told = probe(study, "--wave", "0", "--markers")
    assert code == 0
    assert [(row["model"], row["done"], row["what"]) for row in told["models"]] == [
        ("honest", OWED, "markers"),
        ("spiked", OWED, "markers"),
    ]
    assert "public" not in json.dumps(told)
    results = [k for k in study.store.list("probes/") if "-" not in k.rpartition("/")[2]]
    assert len(results) == 2 * OWED
    records = [entry.record for entry in study.ledger.find("probed")]
    assert [(r.what, r.probes) for r in records] == [("markers", OWED)] * 2
    assert verify_study(study.store, study.identities(), None).holds
    again = probe(study, "--wave", "0", "--markers")[1]
    assert [row["fresh"] for row in again["models"]] == [0, 0]
    report, page = pipeline.report(study)
    rows = json.loads((page.parent / "report.json").read_text())["markers"]
    found = {row["model"]: row for row in rows}
    assert found["spiked"]["public"] == {"asked": 4, "right": 4, "unnamed": 0}
    assert found["spiked"]["p"] == 0.000244141
    assert [found[name]["finding"] for name in ("honest", "spiked")] == ["not shown", "exposed"]
    assert report.verdicts == plain.verdicts
    assert "spiked, wave 0: named the markers of 4 of 4 public instances" in page.read_text()
    assert "named the markers of 4 of 4 public" in (page.parent / "report.md").read_text()
    assert (page.parent / "tables" / "markers.csv").exists()
    change(study, "plan: {", "plan: {marker_alpha: 0.01, ")
    refused = run(pipeline.open_study(study.folder), "--wave", "0", "--markers")
    assert refused.exit_code == 3
    assert "plan.marker_alpha: here is 0.01, and registered is 0.001" in refused.output


def change(study: Study, old: str, new: str) -> None:
    path = study.folder / "study.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_markers_of_a_served_model_are_paid_once(probed: Probed) -> None:
    """A reply that names no marker counts, as not right."""
    study, served = probed
    code, told = probe(study, "--wave", "1", "--model", "served", "--markers")
    assert (code, len(served.requests)) == (0, OWED)
    assert told["models"][0]["mean_score"] == 0
    system, user = served.requests[0]["messages"]
    assert system["content"].startswith(MARKER_MARK)
    assert user["content"].startswith("Title: ")
    # Killed between a reply and its result: the reply is read again, not bought.
    results = [k for k in study.store.list("probes/") if "-" not in k.rpartition("/")[2]]
    for key in results[:3]:
        (study.folder / "store" / key).unlink()
    code, told = probe(study, "--wave", "1", "--model", "served", "--markers")
    assert (code, told["models"][0]["fresh"], len(served.requests)) == (0, 3, OWED)
    change(study, "  served: {", "  served: {seconds: 17, ")  # asked more patiently
    code, told = probe(study, "--wave", "1", "--model", "served", "--markers")
    assert (code, told["models"][0]["fresh"], len(served.requests)) == (0, 0, OWED)
    (row,) = markers_of(study, registration_of(study).plan, [1])
    assert (row.public.unnamed, row.private.unnamed, row.p) == (4, 4, 1)


def test_markers_asked_after_the_prompts_were_sent_have_a_doubtful_control(probed: Probed) -> None:
    """It is noted of a provider that may keep them alone."""
    study, _ = probed
    before = probe(study, "--wave", "1", "--markers")[1]
    begin(study, 1)
    begin(study, 2)
    after = [probe(study, "--wave", wave, "--markers")[1]["notes"] for wave in ("1", "2")]
    assert before["notes"] == []
    assert [[note.partition(":")[0] for note in notes] for notes in after] == [["served"], ["mute"]]
    assert "ask for markers before the sweep" in after[0][0]
    assert probe(study, "--wave", "1")[1]["notes"] == []


def test_the_report_tells_of_exposure(probed: Probed) -> None:
    study, _ = probed
    plain, _ = pipeline.report(study)
    assert report_json(plain)["exposure"] == []
    assert 'id="exposure"' not in str(report_files(plain)["report.html"])
    probe(study, "--wave", "0", "--model", "spiked")
    report, page = pipeline.report(study)
    (row,) = json.loads((page.parent / "report.json").read_text())["exposure"]
    assert (row["model"], row["gap"], row["exposed"], row["wave"]) == ("spiked", 1, True, 0)
    assert report.verdicts == plain.verdicts  # secondary: no verdict hangs on it
    assert pipeline.report(study)[0] == report


def test_replies_are_bought_once_and_counted(probed: Probed) -> None:
    study, served = probed
    code, told = probe(study, "--wave", "1", "--model", "served")
    assert (code, len(served.requests)) == (0, OWED)
    (row,) = told["models"]
    assert row["cost_usd"] == pytest.approx(float(OWED * CALL))
    # Killed between a reply and what it was worth: the reply is read again, not bought.
    results = [k for k in study.store.list("probes/") if "-" not in k.rpartition("/")[2]]
    for key in results[:3]:
        (study.folder / "store" / key).unlink()
    code, told = probe(study, "--wave", "1", "--model", "served")
    assert (code, told["models"][0]["fresh"], len(served.requests)) == (0, 3, OWED)
    prices = read_prices(study.folder / "prices.yaml")
    ((model, spend),) = sum_spends(study, 1, prices, CallKind.PROBE)
    assert (model.name, spend.usd) == ("served", OWED * CALL)
    assert sum_spends(study, 0, prices, CallKind.PROBE) == ()
    judged = sum_spends(study, 1, prices, CallKind.JUDGE)
    assert sum_spends(study, 1, prices, CallKind.JUDGE, CallKind.PROBE) == (*judged, (model, spend))
    begin(study, 1)  # whose manifest comes after what the questions told its provider
    assert burned_tranches(study.ledger.entries())[1, "served"] == {0}


def begin(study: Study, wave: int) -> None:
    """What a sweep puts into the ledger before its first episode."""
    image, request = NO_IMAGE, SweepRequest(wave, allow_dirty=True)
    begin_wave(study, request, image, utc_now)


@pytest.mark.parametrize(("arguments", "said"), cases(__file__, "refused"))
def test_what_cannot_be_asked_is_one_line(
    probed: Probed, arguments: tuple[str, ...], said: str
) -> None:
    result = run(probed[0], *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
