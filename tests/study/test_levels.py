"""Units that are published or stay sealed: from the draw to the verdicts of all levels, and the
reveal."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from analysis.report.deviations import mode_departures
from analysis.report.write import DATA
from registry.draws.allocation import sealed_units
from registry.result_row import Arm
from study.main import main
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.workspace.setup import registration_of
from study.workspace.study import Study
from tests.cases import cases
from tests.conftest import ROOT
from tests.harness.openai_server import Answer, Json, completion, serve
from tests.study.conftest import draw_tiny, run_wave

PAIRED = [f"p{n}{side}" for n in range(7) for side in "ab"]
ALONE = [f"f{n}" for n in range(9)]
STUDY, PAIR = cases(__file__, "study"), cases(__file__, "pair")


def write_questions(folder: Path) -> dict[str, tuple[str, str]]:
    """Four questions a topic, in a file for each of those in pairs and one for the others; returns
    topic and key by question."""
    rows = {}
    for topic in (*PAIRED, *ALONE):
        for n in range(4):
            digits = hashlib.sha256(f"{topic} {n}".encode()).hexdigest()
            words = " ".join(digits[at : at + 5] for at in range(8, 64, 5))
            rows[f"{topic} {words}?"] = topic, digits[:8]
    for name, topics in (*((topic, [topic]) for topic in PAIRED), ("alone", ALONE)):
        own = [f"{q},{topic},{key}\n" for q, (topic, key) in rows.items() if topic in topics]
        (folder / f"{name}.csv").write_text("".join(["question,topic,key\n", *own]))
    return rows


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study with a model that trained on the published topics, and one that did not."""
    folder = tmp_path_factory.mktemp("levels")
    rows, published = write_questions(folder), set[str]()

    def answer(request: Json) -> Answer:
        prompt = request["messages"][1]["content"]
        question = next(line for line in prompt.split("\n") if line in rows)
        topic, key = rows[question]
        luck = hashlib.sha256(f"{request['model']}/{question}".encode()).digest()[0]
        knows = luck < 50 or (request["model"] == "trained" and topic in published)
        return completion('<answer>\n{"answer": "%s"}\n</answer>' % (key if knows else "none"))

    with serve(always=answer) as served:
        pairs = "".join(PAIR.replace("TOPIC", t).replace("PAIR", t[:-1]) for t in PAIRED)
        text = STUDY.replace("PAIRS\n", pairs).replace("URL", served.url)
        init_study(folder / "study", text.replace("AREA", ", ".join(ALONE)))
        study = pipeline.open_study(folder / "study")
        draw_tiny(study)
        pipeline.register(study)
        run_wave(study, 0, parallel=4)
        pipeline.publish(study, None, lambda *step: None)
        published |= {name.rpartition("_")[2] for name in _strata(study, Arm.PUBLIC)}
        run_wave(study, 1, parallel=4)
        pipeline.report(study)
    return pipeline.open_study(folder / "study")


def _strata(study: Study, arm: Arm) -> set[str]:
    return {entry.difficulty for entry in study.entries() if entry.arm is arm}


def issued(study: Study, rows: str) -> list[dict[str, Any]]:
    (path,) = study.folder.rglob(DATA)
    return json.loads(path.read_text())[rows]


def test_one_of_each_pair_and_half_of_an_area_stay_sealed(studied: Study) -> None:
    sealed = studied.sealed_set()
    areas = [unit.area for unit in sealed_units(sealed.units, sealed.allocation_seed)]
    assert sorted(areas) == sorted([*(f"p{n}" for n in range(7)), *["topics"] * 4])
    assert [len(_strata(studied, arm)) for arm in Arm] == [7 + 5, 14 + 9]


def test_levels_above_the_instance_find_who_trained_on_what_was_published(studied: Study) -> None:
    rows = issued(studied, "levels")
    found = {(row["model"], row["level"]): row["finding"] for row in rows}
    assert found["trained", "variant"] == found["trained", "family"] == "shown"
    assert {found["clean", "variant"], found["clean", "family"]} <= {"not shown", "excluded"}
    assert "contaminated" not in {row["verdict"] for row in issued(studied, "models")}


def test_the_store_verifies_and_a_reveal_shows_everything(studied: Study) -> None:
    folder = str(studied.folder)
    checked = ("reveal", "--check", f"{folder}/reveal-study.json")
    for words in (("verify",), ("reveal", "--all"), checked):
        result = CliRunner().invoke(main, [*words, "--study", folder], input="y\n")
        assert result.exit_code == 0, result.output
    script = ROOT / "tests/external_check.py"
    subprocess.run([sys.executable, script, studied.folder / "store"], check=True)


def test_a_wave_in_another_mode_than_registered_is_named(studied: Study) -> None:
    registered = registration_of(studied)
    runs = [entry.record for entry in studied.ledger.find("run-manifest")]
    assert not [*mode_departures(registered, runs)]
    assert len([*mode_departures(registered, [replace(runs[0], single_turn=())])]) == 14 + 9


def test_the_report_says_it_below_its_headline(studied: Study) -> None:
    (page,) = studied.folder.rglob("report.md")
    text = " ".join(page.read_text().split())
    assert cases(__file__, "headline").strip() in text
    assert not re.search("is not registered|another measurement", text)
