"""A study whose strata are the questions of template files: run in containers, released, and
told apart from one that has read the release."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from generators.errors import GeneratorError
from generators.templates.family import template_family
from generators.templates.library import NAMES
from harness.episodes.result import EpisodeResult
from harness.sandboxes import docker
from registry.errors import BrokenPromise, RegistryError
from registry.ledger.records import Preregistration
from registry.verify.verify import verify_study
from study.errors import StudyError
from study.protocol.protocol import FILE_NAME, read_protocol
from study.protocol.yaml import read_template
from study.steps import pipeline
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study, manifest_of
from tests.cases import cases
from tests.study.cli.program import run
from tests.study.conftest import make_study, run_wave, sweep

QUESTIONS = {"past": 10, "formats": 4}
PROTOCOL = cases(__file__, "protocol")
OWN = cases(__file__, "own")


def results_of(study: Study, wave: int) -> list[EpisodeResult]:
    manifest = manifest_of(study.ledger, wave)
    assert manifest is not None
    return list(take_snapshot(study).waves[manifest.wave].results.values())


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Study:
    study = make_study(tmp_path_factory.mktemp("templates") / "study", PROTOCOL)
    run_wave(study, 0, parallel=6)
    pipeline.publish(study, None, lambda *step: None)
    run_wave(study, 1, parallel=6)
    return study


@pytest.mark.docker
def test_an_agent_that_solves_them_through_the_tools_scores_full_marks(swept: Study):
    results = results_of(swept, 0)
    assert len(results) == 2 * sum(QUESTIONS.values())
    assert {result.stratum.split("/")[0] for result in results} == set(QUESTIONS)
    assert [result.score for result in results] == [1.0] * len(results)
    assert all(result.turns == 4 and result.tool_calls == 3 for result in results)
    assert {result.grade.verdicts for result in results} == {(True, True)}


@pytest.mark.docker
def test_one_that_knows_the_release_and_nothing_else_is_right_on_it_alone(swept: Study):
    arms = {entry.instance: str(entry.arm) for entry in swept.entries()}
    scores = {
        arm: {r.score for r in results_of(swept, 1) if arms[r.instance] == arm}
        for arm in ("public", "private")
    }
    assert scores == {"public": {1.0}, "private": {0.0}}


@pytest.mark.docker
def test_the_release_holds_the_templates_and_the_report_their_breakdown(swept: Study):
    release = swept.folder / "release"
    for name in QUESTIONS:
        assert (release / "templates" / f"{name}.yml").read_text() == read_template(Path(), name)[1]
    report, page = pipeline.report(swept)
    assert "templated" in {part.name for part in report.parts}
    assert "past/301" in page.read_text()
    assert (page.parent / "templates" / "failure_modes.csv").is_file()
    assert verify_study(swept.store).holds


@pytest.mark.docker
def test_template_run_puts_a_model_into_containers_and_leaves_none(tmp_path: Path):
    study, out = tmp_path / "study", tmp_path / "run"
    study.mkdir()
    (study / FILE_NAME).write_text(PROTOCOL)
    arguments = ("--model", "honest", "--study", str(study), "--out", str(out), "--samples", "1")
    before = containers()
    done = run("template", "run", "formats", *arguments)
    assert done.exit_code == 0, done.output
    assert "4 of 4 right strictly" in done.stdout
    assert (out / "sandbox" / "q301_s1" / "artifacts").is_dir()
    assert containers() <= before


def containers() -> set[str]:
    """The ids of the sandboxes that there are, running or not."""
    with closing(docker.connect()) as client:
        found = client.containers(all=True, filters={"label": "dosimeter=1"})
        return {str(container["Id"]) for container in found}


def test_a_stratum_is_a_question_and_its_version_pins_the_file(tmp_path: Path):
    (tmp_path / "ours.yml").write_text(OWN)
    text = PROTOCOL.replace("{template: past}", "ours.yml").replace(
        "{template: formats}", "{template: formats, questions: [301, 304]}"
    )
    (tmp_path / FILE_NAME).write_text(text)
    protocol = read_protocol(tmp_path)
    assert [task.stratum for task in protocol.tasks] == ["ours/greet", "formats/301", "formats/304"]
    (tmp_path / "ours.yml").write_text(OWN + "# another byte\n")
    assert read_protocol(tmp_path).tasks[0].version != protocol.tasks[0].version
    assert read_protocol(tmp_path).tasks[1] == protocol.tasks[1]


def test_two_values_files_of_one_name_and_other_values_are_refused(tmp_path: Path):
    for folder, word in (("a", "quokka"), ("b", "numbat")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{folder}_test.yml").write_text("values: words.yml\n" + OWN)
        words = f"format: 1\npools: {{default: [{word}]}}\n"
        (tmp_path / folder / "words.yml").write_text(words)
    text = PROTOCOL.replace("{template: past}", "a/a_test.yml")
    text = text.replace("{template: formats}", "b/b_test.yml")
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(StudyError, match=r"yaml:4: .*values file words.yml with other values"):
        read_protocol(tmp_path)
    (tmp_path / "b" / "words.yml").write_text((tmp_path / "a" / "words.yml").read_text())
    assert read_protocol(tmp_path).template_paths == (
        *("a/a_test.yml", "a/words.yml", "b/b_test.yml", "b/words.yml"),
    )


def test_a_release_holds_the_values_file_beside_its_template_and_a_stratum_for_each_value(
    tmp_path: Path,
):
    words = "format: 1\npools: {default: [quokka, numbat]}\n"
    own = OWN.replace("Respond only", "{{manner}} only") + "  for_each: {manner: [Say, Write]}\n"
    (tmp_path / "ours.yml").write_text("values: words.yml\n" + own)
    (tmp_path / "words.yml").write_text(words)
    text = PROTOCOL.replace("  - {template: formats}\n", "").replace("kind: docker", "kind: local")
    text = text.replace("{template: past}", "{template: ours.yml, questions: [greet]}")
    study = make_study(tmp_path, text.replace("seeds_per_arm: 1", "seeds_per_arm: 2"))
    strata = [task.stratum for task in study.protocol.tasks]
    assert strata == ["ours/greet-manner-Say", "ours/greet-manner-Write"]
    run_wave(study, 0)
    pipeline.publish(study, None, lambda *step: None)
    assert (tmp_path / "release" / "templates" / "words.yml").read_text() == words


@pytest.mark.parametrize("edited", ["ours.yml", "words.yml"])
def test_the_registration_names_the_versions_and_an_edited_file_is_a_broken_promise(
    tmp_path: Path, edited: str
):
    files = {
        "ours.yml": "values: words.yml\n" + OWN,
        "words.yml": "format: 1\npools: {default: [quokka, numbat]}\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    text = PROTOCOL.replace("  - {template: formats}\n", "").replace("{template: past}", "ours.yml")
    text = text.replace("seeds_per_arm: 1", "seeds_per_arm: 2")
    study = make_study(tmp_path, text.replace("kind: docker", "kind: local"))
    entry = study.ledger.last("preregistration")
    assert entry is not None
    registered: Preregistration = entry.record
    (pinned,) = registered.tasks
    assert pinned == f"ours@{study.protocol.tasks[0].version}/greet"
    (tmp_path / edited).write_text(files[edited].replace("only", "just").replace("numbat", "koala"))
    with pytest.raises((BrokenPromise, RegistryError), match=r"registered, and not here: ours@"):
        sweep(pipeline.open_study(tmp_path), 0)


def test_a_question_of_few_instances_is_no_source_of_two_arms(tmp_path: Path):
    """One number of three and no files."""
    few = OWN.replace("{{entity1}} {{number1:1000:9999}}", "{{number1:1:3}}")
    (tmp_path / "ours.yml").write_text(few)
    text = PROTOCOL.replace("  - {template: formats}\n", "").replace("{template: past}", "ours.yml")
    said = "question greet: 3 different instances for 6 seeds"
    with pytest.raises(StudyError, match=said):
        make_study(tmp_path, text.replace("seeds_per_arm: 1", "seeds_per_arm: 3"))
    assert template_family("ours.yml", few).questions == ("greet",)


@pytest.mark.parametrize(("task", "said"), cases(__file__, "refused"))
def test_a_task_that_is_no_template_is_refused_by_line(tmp_path: Path, task: str, said: str):
    (tmp_path / "count_circles.yml").write_text(OWN)
    (tmp_path / "broken.yml").write_text(OWN.replace("entity1", "entitty1"))
    (tmp_path / FILE_NAME).write_text(PROTOCOL.replace("{template: past}", task))
    with pytest.raises((StudyError, GeneratorError)) as caught:
        read_protocol(tmp_path)
    assert said in str(caught.value)
    assert f"{FILE_NAME}:3" in str(caught.value)


def test_the_library_is_what_the_paper_gives():
    assert set(NAMES) == {"formats", "past", "past-varied"}


def test_prepared_bytes_depend_on_file_and_seed_alone(tmp_path: Path):
    from study.extras.templates.prepare import prepare_template

    told: list[tuple[int, int]] = []
    for name in ("one", "two"):
        count = prepare_template(
            "past", "ab" * 32, tmp_path / name, 2, lambda what, done, of: told.append((done, of))
        )
        assert count == 20
    files = [
        {
            path.relative_to(folder): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }
        for folder in (tmp_path / "one", tmp_path / "two")
    ]
    assert files[0] == files[1]
    assert told[19] == (20, 20)
    lines = [json.loads(line) for line in files[0][Path("precheck.jsonl")].splitlines()]
    assert [(line["question_id"], line["sample_number"]) for line in lines[:3]] == [
        (101, 1),
        (101, 2),
        (102, 1),
    ]
    trees = {path.parts[1] for path in files[0] if path.parts[0] == "sandbox"}
    assert trees == {f"q{q}_s{n}" for q in (201, 202, 301, 302, 401, 402) for n in (1, 2)}
    assert not list((tmp_path / "one" / "sandbox").rglob("precheck*"))
    with pytest.raises(StudyError, match="is there already"):
        prepare_template("past", "ab" * 32, tmp_path / "one", 2, lambda *_: None)
