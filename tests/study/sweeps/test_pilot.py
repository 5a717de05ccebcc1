"""`dosimeter pilot`: apart from the study, paid once, within the budget, and read by `power` and
`init --guided`."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from generators.seed import Seed
from harness.sandboxes import LocalSandboxes
from registry.draws import FixedEntropy
from registry.verify import verify_study
from study import guided, pipeline, workspace
from study.cli.main import main
from study.errors import StudyError
from study.sweeps.pilot import PilotRequest, run_pilot
from study.workspace import pilot_draw
from study.workspace.pilot_draw import draw_pilot, identify_in
from study.workspace.setup import init_study
from study.workspace.study import Study
from study.workspace.study_draw import draw_seeds
from tests.harness.openai_server import Answer, Json, Served, completion, failure, serve
from tests.study.cli.program import PROGRAM
from tests.study.conftest import draw_tiny

ROOT = "00000000000000000000000000000000000000000000000000000000000005ed"
BUILT_IN = f"""\
study: tried
tasks: [compute_average/easy]
seeds_per_arm: 4
models:
  skilled: {{provider: scripted, agent: honest, error_rate: 0.02}}
  clumsy: {{provider: scripted, agent: honest, error_rate: 0.3}}
  spiked: {{provider: scripted, agent: spiked, error_rate: 0.3, release: release}}
waves:
  - [skilled, clumsy]
  - [spiked]
plan: {{permutations: 199}}
sandbox: {{kind: local}}
entropy: "fixed:{ROOT}"
"""
SERVED = """\
study: bought
tasks: [{task}]
seeds_per_arm: 4
models:
  theirs: {{provider: openai, model: sold-1, base_url: "{url}", api_key_env: NO_KEY, retries: 0,
           context: 40000{more}}}
waves:
  - [theirs]
plan: {{permutations: 199}}
sandbox: {{kind: local}}
prices: prices.yaml
"""
PRICES = """\
prices:
  - {provider: openai, model: "sold-*", input: 100, output: 1000, date: 2026-11-01, source: a test}
"""
CALL = 0.03  # USD of a call: 100 tokens and 20, as the server counts each
SINGLE = "{family: compute_average, difficulty: easy, mode: single_turn}"


class Vouched(LocalSandboxes):
    """The local sandbox, for a model whose every word the test has written itself."""

    isolates = True


def pilot(study: Study, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["pilot", "--study", str(study.folder), *arguments])


def outcome(study: Study, *arguments: str, code: int = 0) -> dict[str, Any]:
    result = pilot(study, *arguments, "--json")
    assert result.exit_code == code, result.output
    body: dict[str, Any] = json.loads(result.stdout)
    return body


def new_study(folder: Path, text: str = BUILT_IN) -> Study:
    init_study(folder, text)
    return pipeline.open_study(folder)


@pytest.fixture(scope="module")
def piloted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, dict[str, Any]]:
    """A study with a pilot before its draw, and what that showed."""
    study = new_study(tmp_path_factory.mktemp("piloted") / "study")
    shown = outcome(study, "--instances", "3", "--turns", "1")
    return study, shown


def test_it_shows_scores_by_turns_cost_and_variance(
    piloted: tuple[Study, dict[str, Any]],
) -> None:
    """A built-in agent takes three turns; with one, it has to answer what it has not read."""
    _, shown = piloted
    rows = {(row["model"], row["turns"]): row for row in shown["scores"]}
    assert sorted(rows) == [("clumsy", 1), ("clumsy", 10), ("skilled", 1), ("skilled", 10)]
    for model in ("skilled", "clumsy"):
        short, whole = rows[model, 1], rows[model, 10]
        assert (short["runs"], short["instances"], short["turns_of_the_task"]) == (6, 3, 10)
        assert (short["score"], short["floor"], short["at_limit"]) == (0, 1, 1)
        assert (whole["floor"], whole["at_limit"], whole["turns_taken"]) == (0, 0, 3)
    assert rows["skilled", 10]["score"] > rows["clumsy", 10]["score"] > 0
    assert rows["clumsy", 10]["ceiling"] == 0
    stratum, whole = shown["variance"]
    assert (stratum["stratum"], whole["stratum"]) == ("compute_average/easy", None)
    found = whole["found"]
    assert (found["runs"], found["instances"], found["repeats"]) == (12, 3, 6)  # with ten turns
    assert found["icc"] == found["components"]["seed_share"]
    models = {row["model"]: row for row in shown["models"]}
    assert models["skilled"]["done"] == models["skilled"]["owed"] == 12
    assert models["skilled"]["usd"] is None
    assert [row["model"] for row in shown["skipped"]] == ["spiked"]


def test_no_instance_or_seed_of_it_is_in_either_arm(
    piloted: tuple[Study, dict[str, Any]],
) -> None:
    """By the same fixed entropy; drawn before the study's own seeds, and after them."""
    study, _ = piloted
    before = draw_pilot(study, study.protocol.tasks, 3, lambda *step: None)
    draw_tiny(study)
    after = draw_pilot(study, study.protocol.tasks, 6, lambda *step: None)
    (task,) = study.protocol.tasks
    assert after[task][:3] == before[task]
    entries = study.entries()
    assert len(entries) == 8
    for secret in ("instance", "seed"):
        names = {getattr(each, secret) for each in after[task]}
        assert len(names) == 6
        assert not names & {getattr(entry, secret) for entry in entries}


def test_it_rests_encrypted_and_apart(piloted: tuple[Study, dict[str, Any]]) -> None:
    study, shown = piloted
    keys = list(study.store.list("pilots/"))
    assert len([key for key in keys if not key.startswith("pilots/instances/")]) == 24
    others = {key.partition("/")[0] for key in study.store.list("")} - {"pilots"}
    assert others <= {"ledger", "sealed", "drawn"}  # of the draw alone: no results or attempts
    secrets = [
        secret
        for each in draw_pilot(study, study.protocol.tasks, 3, lambda *step: None).values()
        for instance in each
        for secret in (instance.seed, instance.instance.removeprefix("sha256:"))
    ]
    for key in keys:
        data = study.store.get(key)
        assert data.startswith(b"age-encryption.org/")
        assert not any(secret.encode() in data or secret in key for secret in secrets)
    assert not any(secret in json.dumps(shown) for secret in secrets)


def test_it_goes_on_and_grows(piloted: tuple[Study, dict[str, Any]]) -> None:
    study, shown = piloted
    again = outcome(study, "--instances", "3", "--turns", "1")
    assert [model["calls"]["fresh"] for model in again["models"]] == [0, 0]
    assert again["scores"] == shown["scores"]
    lost = sorted(k for k in study.store.list("pilots/") if not k.startswith("pilots/instances/"))
    (study.folder / "store" / lost[0]).unlink()  # killed before its result was stored
    more = outcome(study, "--instances", "3", "--turns", "1")
    assert sum(model["calls"]["fresh"] for model in more["models"]) == 1
    assert more["scores"] == shown["scores"]
    larger = outcome(study, "--model", "skilled", "--turns", "1", "--instances", "4")
    assert [(m["owed"], m["calls"]["fresh"]) for m in larger["models"]] == [(16, 4)]


def test_verify_counts_it_apart(piloted: tuple[Study, dict[str, Any]]) -> None:
    study, _ = piloted
    if study.ledger.last("sealed-set") is None:
        draw_tiny(study)
    found = verify_study(study.store, study.identities(), None)
    assert found.holds
    counts = dict(found.counts)
    assert counts["objects of pilots"] == len(list(study.store.list("pilots/")))
    assert "open objects (no record names them yet)" not in counts


def test_power_takes_its_variance(piloted: tuple[Study, dict[str, Any]]) -> None:
    study, shown = piloted
    quick = ("--trials", "20", "--json", "--gap", "0.3")
    place = str(study.folder)
    result = CliRunner().invoke(main, ["power", "--study", place, "--from", place, *quick])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["components"]["from"] == f"the pilot of {place}"
    components = shown["variance"][-1]["found"]["components"]
    assert answer["components"]["sd"] == pytest.approx(components["sd"], rel=0.2)
    assert answer["pilot"]["models"] == ["clumsy", "skilled"]


def test_init_computes_the_seeds_by_it_too(
    piloted: tuple[Study, dict[str, Any]], tmp_path: Path
) -> None:
    """They are enough by the published variance, which `draw` asks for, and by the pilot's."""
    study, _ = piloted
    new = workspace.NewStudy(gap=0.5, tasks=("compute_average/easy",))
    now = "2026-11-22T10:00:00Z"
    plain = guided.forecast_study(new, now, lambda *step: None)
    source = guided.read_source(study.folder, now)
    by_pilot = guided.forecast_study(new, now, lambda *step: None, source)
    assert by_pilot.new.seeds_per_arm >= plain.new.seeds_per_arm
    assert by_pilot.source == source
    assert source.words == f"the pilot of {study.folder}"
    wide = replace(source.variance.components, sd=(0.5, 0.5, 0.5))
    noisy = replace(source, variance=replace(source.variance, components=wide))
    by_noisy = guided.forecast_study(new, now, lambda *step: None, noisy)
    assert by_noisy.new.seeds_per_arm > plain.new.seeds_per_arm
    elsewhere = CliRunner().invoke(
        main, ["init", str(tmp_path / "n"), "--guided", "--from", "nowhere.csv"]
    )
    assert elsewhere.exit_code == 2
    assert "nowhere.csv" in elsewhere.stderr
    assert "Models under test" not in elsewhere.output  # it is read before any question
    refused = CliRunner().invoke(main, ["init", str(tmp_path / "n"), "--from", str(study.folder)])
    assert (refused.exit_code, "--guided" in refused.stderr) == (2, True)


FEW = """\
tests:
- question_id: greet
  samples: 2
  template: "Respond only with {{number1:1:9}}"
  scoring_type: stringmatch
  expected_response: "{{number1:1:9}}"
"""


@pytest.mark.parametrize("first", ["pilot", "draw"])
def test_questions_that_differ_by_their_title_alone_are_the_same(
    tmp_path: Path, first: str
) -> None:
    """Nine questions: six for the arms, three for the pilot, and not one more."""
    text = BUILT_IN.replace("[compute_average/easy]", "[few.yml]").replace(
        "seeds_per_arm: 4", "seeds_per_arm: 3"
    )
    (tmp_path / "few.yml").write_text(FEW)
    study = new_study(tmp_path, text)
    (task,) = study.protocol.tasks
    steps = [
        lambda: draw_pilot(study, [task], 3, lambda *step: None),
        lambda: draw_seeds(study, lambda *step: None, lambda: "2026-11-22T10:00:00Z"),
    ]
    for step in steps if first == "pilot" else reversed(steps):
        step()
    drawn = draw_pilot(study, [task], 3, lambda *step: None)[task]
    family = study.protocol.catalog.family(task.family, task.version)
    prompts = {
        family.generate(task.difficulty, Seed.from_hex(each.seed)).brief.prompt.splitlines()[-1]
        for each in (*drawn, *study.entries())
    }
    assert len(prompts) == 9
    with pytest.raises(StudyError, match="few/greet: 100 draws gave no instance"):
        draw_pilot(study, [task], 4, lambda *step: None)


def test_a_seed_that_the_study_has_is_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = new_study(tmp_path / "study")
    draw_tiny(study)
    taken = bytes.fromhex(study.entries()[0].seed)

    class Unlucky(FixedEntropy):
        def draw(self, size: int, *path: str | int) -> bytes:
            return taken if path[-1] == 0 else super().draw(size, *path)

    monkeypatch.setattr(pilot_draw, "entropy_of", lambda protocol: Unlucky(bytes(32)))
    (drawn,) = draw_pilot(study, study.protocol.tasks, 2, lambda *step: None).values()
    assert len({each.seed for each in drawn} - {taken.hex()}) == 2
    identify = identify_in(study.protocol.catalog)
    for each in drawn:
        stratum = (each.family, each.version, each.difficulty)
        assert identify(*stratum, bytes.fromhex(each.seed)) == each.instance


# --- Models that are paid for ---


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("NO_KEY", "sk-none")
    with serve(always=lambda request: completion("I give up.")) as served:
        yield served


def bought(folder: Path, url: str, task: str, budget: str = "", more: str = "") -> Study:
    init_study(folder, SERVED.format(task=task, url=url, more=more) + budget)
    (folder / "prices.yaml").write_text(PRICES)
    return pipeline.open_study(folder)


def test_a_failed_episode_goes_on_from_its_replies(
    tmp_path: Path, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("study.sweeps.pilot.LocalSandboxes", Vouched)
    study = bought(tmp_path / "study", served.url, "compute_average/easy")
    look = completion(calls=[("c1", "run_command", {"command": "ls"})])
    once = ("--instances", "1", "--runs", "1", "--turns", "10")

    def fails_second(request: Json) -> Answer:
        return look if len(request["messages"]) == 2 else failure(401)

    served.always = fails_second
    body = outcome(study, *once, code=1)
    assert body["models"][0]["calls"]["failures"] == [["provider:auth", 1]]
    assert (body["models"][0]["done"], len(served.requests)) == (0, 2)
    assert body["scores"] == []
    served.requests.clear()
    served.always = lambda request: completion('<answer>\n{"averages": []}\n</answer>')
    body = outcome(study, *once)
    (model,) = body["models"]
    assert len(served.requests) == 1  # the first reply was not bought again
    assert len(served.requests[0]["messages"]) == 4
    assert model["done"] == 1
    assert model["calls"]["cost_usd"] == pytest.approx(CALL)
    assert model["usd"] == model["usd_of_run"] == pytest.approx(2 * CALL)
    (served_row,) = body["scores"]
    assert (served_row["turns"], served_row["turns_taken"]) == (10, 2)


def test_the_budget_stops_it_and_raised_it_goes_on(tmp_path: Path, served: Served) -> None:
    """A task in a single turn has one budget: eight episodes, of which 0.1 USD pay for two."""
    study = bought(tmp_path / "study", served.url, SINGLE, "budget: {run: 0.1}\n")
    shown = pilot(study)
    assert (shown.exit_code, len(served.requests)) == (1, 2)
    assert "The budget does not pay for the rest" in shown.stdout
    body = outcome(study, code=1)  # it pays for no more
    assert len(served.requests) == 2
    assert dict(map(tuple, body["models"][0]["calls"]["failures"])) == {
        "not paid for by the budget": 6
    }
    assert body["budget"][0]["spent_usd"] == pytest.approx(2 * CALL)
    path = study.folder / "study.yaml"
    path.write_text(path.read_text().replace("run: 0.1", "run: 0.3"))
    study = pipeline.open_study(study.folder)
    body = outcome(study)
    assert len(served.requests) == 8
    assert body["budget"][0]["spent_usd"] == pytest.approx(8 * CALL)
    assert [row["turns"] for row in body["scores"]] == [1]


@pytest.mark.slow
def test_killed_it_goes_on_and_buys_nothing_twice(tmp_path: Path, served: Served) -> None:
    """Of eight episodes in a single turn, one at a time: the one in flight may be bought again."""
    study = bought(tmp_path / "study", served.url, SINGLE)
    begun, hold = threading.Event(), threading.Event()

    def answer(request: Json) -> Answer:
        if len(served.requests) == 4:
            begun.set()
            hold.wait(60)
        return completion("I give up.")

    served.always = answer
    once = ("pilot", "--study", str(study.folder), "--parallel", "1")
    with subprocess.Popen([*PROGRAM, *once], stdout=subprocess.DEVNULL) as process:
        assert begun.wait(120)
        process.kill()
    hold.set()
    body = outcome(study, "--parallel", "1")
    assert (body["models"][0]["done"], body["models"][0]["calls"]["fresh"]) == (8, 5)
    assert len(served.requests) == 8 + 1


def test_the_estimate_sends_nothing_and_needs_no_key(tmp_path: Path, served: Served) -> None:
    more = ", max_tokens: 2000"
    study = bought(tmp_path / "study", served.url, "compute_average/easy", more=more)
    (study.folder / "keys" / "study.txt").unlink()
    before = sorted(study.folder.rglob("*"))
    (row,) = outcome(study, "--estimate", "--instances", "2")["models"]
    assert (row["model"], row["episodes"]) == ("theirs", 2 * 2 * 3)
    # Turn budgets of 2, 5 and 10, and a last question: 4 runs each. A request has 40,000 tokens,
    # written to a cache, and a reply of 2,000.
    request = (40_000 * 125 + 2_000 * 1000) / 1e6
    assert row["most_usd"] == pytest.approx(4 * (3 + 6 + 11) * request)
    assert 0 < row["first_usd"] < row["most_usd"]
    assert served.requests == []
    assert sorted(study.folder.rglob("*")) == before


def test_the_estimate_leaves_out_what_was_run(tmp_path: Path, served: Served) -> None:
    study = bought(tmp_path / "study", served.url, SINGLE, more=", max_tokens: 2000")

    def estimate(instances: int) -> dict[str, Any]:
        (row,) = outcome(study, "--estimate", "--instances", str(instances))["models"]
        return dict(row)

    whole = estimate(3)
    outcome(study, "--instances", "1")
    rest, done = estimate(3), estimate(1)
    assert (whole["episodes"], rest["episodes"], done["episodes"]) == (6, 4, 0)
    assert rest["first_usd"] == pytest.approx(whole["first_usd"] * 4 / 6)
    assert rest["most_usd"] == pytest.approx(whole["most_usd"] * 4 / 6)
    assert done["first_usd"] == done["most_usd"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "nobody"), "there is no model 'nobody' in study.yaml; it has skilled, clumsy"),
        (("--model", "spiked"), "'spiked' is an agent that knows a release"),
        (("--difficulty", "extreme"), "'extreme' is not one of"),
        (("--turns", "0"), "0 is not in the range"),
    ],
)
def test_what_cannot_be_run_is_one_line(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    study = new_study(tmp_path / "study")
    before = sorted(study.folder.rglob("*"))
    result = pilot(study, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert sorted(study.folder.rglob("*")) == before


def test_a_model_that_is_not_built_in_needs_a_sandbox_that_isolates(
    tmp_path: Path, served: Served
) -> None:
    study = bought(tmp_path / "study", served.url, "compute_average/easy")
    result = pilot(study)
    assert result.exit_code == 2
    assert "`sandbox: docker`" in result.stderr
    assert served.requests == []


def test_other_difficulties_have_rows_of_their_own(tmp_path: Path) -> None:
    """They show what a level would do, and count in no variance that `power` takes."""
    study = new_study(tmp_path / "study")
    request = PilotRequest(("skilled",), ("medium",), (1,), instances=1, runs=1)
    made = run_pilot(study, request, lambda *step: None, lambda: "2026-11-22T10:00:00Z")
    assert {row.stratum for row in made.scores} == {"compute_average/medium"}
    assert made.complete
    from study.sweeps import pilot_table

    assert pilot_table(study) is None


def test_questions_of_templates_have_no_difficulty(tmp_path: Path) -> None:
    (tmp_path / "few.yml").write_text(FEW)
    once = ("--instances", "1", "--runs", "1", "--turns", "1", "--model", "skilled")
    text = BUILT_IN.replace("seeds_per_arm: 4", "seeds_per_arm: 3")
    study = new_study(
        tmp_path, text.replace("compute_average/easy", "compute_average/easy, few.yml")
    )
    body = outcome(study, *once)
    assert {row["stratum"] for row in body["scores"]} == {"compute_average/easy", "few/greet"}
    body = outcome(study, *once, "--difficulty", "medium")
    assert {row["stratum"] for row in body["scores"]} == {"compute_average/medium"}
    path = study.folder / "study.yaml"
    path.write_text(path.read_text().replace("compute_average/easy, ", ""))
    refused = pilot(pipeline.open_study(study.folder), *once, "--difficulty", "medium")
    assert refused.exit_code == 2
    assert "questions of templates, which have no difficulty" in refused.stderr
