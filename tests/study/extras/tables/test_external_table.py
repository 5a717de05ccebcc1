"""``dosimeter analyze``: any table, the same analysis, the same JSON; one clear error otherwise."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from study.main import main
from tests.analysis.conftest import simulate
from tests.analysis.plan.test_standard import WAVES
from tests.cases import cases

OLD = [f"old-{n}" for n in range(4)]
COLUMNS = ("look", "model", "arm", "stratum", "instance", "score", "passed", "total", "allocation")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "results.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for row in simulate(WAVES):
            named = [row.wave, *(getattr(row, name) for name in COLUMNS[1:-1]), "random"]
            writer.writerow([str(value) for value in named])
    return path


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["analyze", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_a_small_file_of_a_large_table_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {"seconds": 60, "memory": 100_000_000}
    monkeypatch.setattr("study.files._LIMITS", small)
    path, rows = tmp_path / "rows.parquet", 3_000_000
    row = {"model": "m", "arm": "public", "stratum": "a/b", "instance": "i", "score": 0.5}
    pq.write_table(pa.table({name: pa.repeat(value, rows) for name, value in row.items()}), path)
    assert path.stat().st_size < 1_000_000
    code, _, error = run(str(path))
    assert (code, error) == (
        2,
        f"dosimeter: {path}: to read this table takes more than 100 MB of memory\n",
    )


def test_without_a_plan_the_standard_preset_runs_and_says_so(table: Path) -> None:
    code, out, _ = run(str(table), "--json")
    assert code == 0
    body = json.loads(out)
    assert body["plan"]["name"] == "standard-v1"
    assert "No plan was given: the preset standard-v1 was run" in body["deviations"][0]
    assert any("nothing calibrates the scores" in each for each in body["deviations"])
    assert {row["verdict"] for row in body["models"] if row["model"] == "told"} == {"contaminated"}


def test_controls_are_named_and_leave_the_models_tested(table: Path) -> None:
    named = [part for name in OLD for part in ("--pre-exposure", name)]
    code, out, _ = run(str(table), *named, "--json")
    assert code == 0
    body = json.loads(out)
    assert {row["model"] for row in body["models"]} == {"honest", "later", "told"}
    assert body["controls"][0]["models"] == OLD
    assert body["looks"][0]["calibrated_by"]["share_of_instances"] == 1.0
    assert body["monitoring"]["rejected_at"] == 1


def test_a_plan_file_is_run_as_it_stands(table: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    controls = f"{{pre_exposure: [{', '.join(OLD)}], frozen: [old-0]}}"
    plan.write_text(
        f"preset: standard-v1\nlooks: 4\npermutations: 999\nsensitivity: []\ncontrols: {controls}\n"
    )
    code, out, _ = run(str(table), "--plan", str(plan), "--json")
    assert code == 0
    body = json.loads(out)
    assert (body["plan"]["looks"], body["plan"]["permutations"]) == (4, 999)
    assert {row["analysis"] for row in body["sensitivity"]} == {"false-discovery"}  # always told
    assert [control["what"] for control in body["controls"]].count(
        "frozen, change since the baseline"
    ) == 2
    assert body["deviations"][0].startswith("The plan is that of plan.yaml; no ledger shows")


def test_a_leak_behind_gates_is_found_by_the_outcome_without_them(
    table: Path, tmp_path: Path
) -> None:
    """What the score hides, as half of the readings were wrong, another registered outcome shows; a
    table without it is refused in one line. Rows that mark the key have it as second outcome."""
    gated = tmp_path / "gated.csv"
    with table.open(encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    score = header.index("score")
    with gated.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*header, "gate_free", "key_fraction"])
        for place, row in enumerate(rows):
            hidden = ["0.5" if place % 3 else "0.4", *row[score + 1 :]]
            writer.writerow([*row[:score], *hidden, row[score], row[score]])
    plan = tmp_path / "plan.yaml"
    plan.write_text("outcomes: [score, gate-free]\npermutations: 999\n")
    code, out, _ = run(str(gated), "--plan", str(plan), "--json")
    assert code == 0
    told = [row for row in json.loads(out)["models"] if row["model"] == "told"]
    assert {(row["verdict"], row["outcome"]) for row in told} == {("contaminated", "gate-free")}
    code, _, message = run(str(table), "--plan", str(plan))
    assert code == 2
    assert "outcome 'gate-free' needs gate_free in every scored row" in message
    assert len(message.strip().splitlines()) == 1
    code, out, _ = run(str(gated), "--json")
    assert json.loads(out)["plan"]["outcomes"] == ["score", "key-fraction", "gate-free"]


def test_of_a_judges_scores_no_control_is_told(table: Path, tmp_path: Path) -> None:
    """A table by one judge: exact grading cannot be said of it, nor is there an archive."""
    judged, plan = tmp_path / "judged.csv", tmp_path / "plan.yaml"
    with table.open(encoding="utf-8", newline="") as old, judged.open("w", newline="") as new:
        writer = csv.DictWriter(new, [*COLUMNS, "grader"])
        writer.writeheader()
        writer.writerows(row | {"grader": "one"} for row in csv.DictReader(old))
    plan.write_text("preset: standard-v1\npermutations: 499\nsensitivity: []\n")
    for path, state, says in (
        (judged, "not run", "The scores are those of one: neither its errors by arm nor a drift"),
        (table, "agrees", "The verdicts rest on exact checks: no judge has a part in them."),
    ):
        body = json.loads(run(str(path), "--plan", str(plan), "--json")[1])
        told = [c for c in body["controls"] if c["kind"] == "C3"]
        assert {c["state"] for c in told} == {state}
        assert all(c["says"].startswith(says) for c in told)
    plan.write_text("preset: standard-v1\ncontrols: {regrade: 1}\n")
    assert "a table has no archived answers" in run(str(table), "--plan", str(plan))[2]


@pytest.mark.parametrize(("plan", "said"), cases(__file__, "bad_plans"))
def test_a_bad_plan_is_one_error(table: Path, tmp_path: Path, plan: str, said: str) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(plan + "\n", encoding="utf-8")
    code, out, err = run(str(table), "--plan", str(path))
    assert (code, out) == (2, "")
    assert len(err.strip().splitlines()) == 1
    assert said in err


def test_a_report_never_takes_the_place_of_anything_else(tmp_path: Path) -> None:
    """Nor is a table analysed for minutes before that is told."""
    mine = tmp_path / "paper" / "figures" / "mine.svg"
    mine.parent.mkdir(parents=True)
    mine.write_text("<svg/>", encoding="utf-8")
    for folder, said in (("paper", "figures/ of something else"), ("paper/figures/mine.svg/x", "")):
        code, out, err = run(str(tmp_path / "never-read.csv"), "--out", str(tmp_path / folder))
        assert (code, out) == (2, "")
        assert folder in err
        assert said in err
        assert err.count("\n") == 1
    assert mine.read_text("utf-8") == "<svg/>"


def test_tranches_and_fresh_instances_of_a_look_are_no_deviation(tmp_path: Path) -> None:
    """What a plan leaves open is taken from the largest look and tranche 0, not from all rows."""
    path = tmp_path / "tranches.csv"
    rows = ["look,model,arm,stratum,instance,score,tranche,allocation"]
    for look in (1, 2):
        for n in range(24):
            arm, name = ("public", "private")[n % 2], f"{look * (n > 7)}-{n}"
            rows.append(f"{look},m,{arm},t,{name},{n % 5 / 5},{look * (n > 7)},random")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    code, out, _ = run(str(path), "--json")
    assert code == 0
    body = json.loads(out)
    assert body["plan"]["seeds_per_arm"] == 4
    assert not any("were registered" in each for each in body["deviations"])


def test_a_table_with_scores_alone_is_tested_on_them(tmp_path: Path) -> None:
    path = tmp_path / "least.csv"
    rows = ["model,arm,stratum,instance,score,allocation"]
    rows += [
        f"m,{arm},t,{arm}{n},{n % 5 / 5},random" for arm in ("public", "private") for n in range(9)
    ]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    code, out, _ = run(str(path), "--json")
    assert code == 0
    body = json.loads(out)
    assert body["plan"]["outcomes"] == ["score"]
    assert body["models"][0]["estimate"] == pytest.approx(0)
    assert any("the weighted score is the only outcome" in each for each in body["deviations"])


def dated(table: Path, folder: Path, days: dict[str, str]) -> Path:
    """The table with a column of dates, by look."""
    path = folder / "dated.csv"
    with table.open(encoding="utf-8") as source, path.open("w", encoding="utf-8") as file:
        file.write(f"{source.readline().rstrip()},date\n")
        for line in source:
            file.write(f"{line.rstrip()},{days[line.partition(',')[0]]}\n")
    return path


@pytest.mark.parametrize("preset", ["basic-v1", "standard-v1"])
def test_a_look_before_the_publication_gives_no_verdict(
    table: Path, tmp_path: Path, preset: str
) -> None:
    days = {"0": "2026-01-05", "1": "2026-05-31", "2": "2026-06-01"}
    path, plan = dated(table, tmp_path, days), tmp_path / "plan.yaml"
    controls = f"controls: {{pre_exposure: [{', '.join(OLD)}]}}\n" * (preset == "standard-v1")
    text = f"preset: {preset}\npermutations: 1999\n{controls}"
    plan.write_text(f"{text}published: 2026-06-01\n")
    code, out, err = run(str(path), "--plan", str(plan), "--json")
    assert code == 0, err
    body = json.loads(out)
    assert body["published"] == "2026-06-01"
    assert body["plan"]["looks"] == 1, "the only look after it"
    assert {row["wave"] for row in body["models"]} == {2}
    assert {row["model"]: row["verdict"] for row in body["models"]}["told"] == "contaminated"
    early = {(row["wave"], row["model"]) for row in body["before_publication"]}
    assert {(1, "honest"), (1, "told")} <= early
    assert ((0, "old-1") in early) == (preset == "basic-v1"), "controls are no tested models"
    assert not any("could not be checked" in line for line in body["deviations"])
    for given in (text, f"{text}published: 2026-06-01\n"):
        plan.write_text(given)
        other = table if "published" in given else path
        body = json.loads(run(str(other), "--plan", str(plan), "--json")[1])
        assert {1, 2} <= {row["wave"] for row in body["models"]}
        assert any("could not be checked" in line for line in body["deviations"])


def _sized(path: Path, sizes: dict[str, tuple[int, int]], **columns: str) -> Path:
    """A table of a leaking model; ``sizes`` has the public and private instances by stratum."""
    rows = [",".join(("model,arm,stratum,instance,score", *columns))]
    for stratum, pair in sizes.items():
        for arm, n in zip(("public", "private"), pair, strict=True):
            for i in range(n):
                score = float(i % 3 > 0) if arm == "public" else float(i % 3 > 1)
                cells = ("new", arm, stratum, f"{stratum}{arm}{i}", score, *columns.values())
                rows.append(",".join(map(str, cells)))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_a_tiny_stratum_is_reported_without_weight(tmp_path: Path) -> None:
    table = _sized(tmp_path / "t.csv", {"a": (60, 60), "b": (1, 3)}, allocation="random")
    body = json.loads(run(str(table), "--json")[1])
    assert [row["verdict"] for row in body["models"]] == ["contaminated"]
    assert "b has fewer than 5 instances in an arm: reported without weight." in body["deviations"]
    assert "b" in {row["stratum"] for row in body["scores"]}
    assert any("nothing guards a look against a fault of its own" in d for d in body["deviations"])


def test_too_few_instances_for_any_claim_are_named(tmp_path: Path) -> None:
    table = _sized(tmp_path / "t.csv", {"a": (3, 3)}, allocation="random")
    (row,) = json.loads(run(str(table), "--json")[1])["models"]
    assert row["note"].startswith("too few instances: the least p is 0.05, and a claim needs 0.025")
    assert row["interval"][0] >= -1
    assert row["interval"][1] <= 1


@pytest.mark.parametrize("allocation", ["time", "authored", "unknown"])
def test_arms_not_allotted_at_random_give_an_estimate_alone(
    tmp_path: Path, allocation: str
) -> None:
    table, plan = _sized(tmp_path / "t.csv", {"a": (90, 90)}), tmp_path / "plan.yaml"
    for preset in ("basic-v1", "standard-v1"):
        plan.write_text(f"preset: {preset}\nallocation: {allocation}\n")
        body = json.loads(run(str(table), "--plan", str(plan), "--json")[1])
        assert [row["verdict"] for row in body["models"]] == ["an estimate without a verdict"]
        assert any("not allotted to the arms at random" in line for line in body["deviations"])
    cells = [line.split(",")[1:4] for line in table.read_text().splitlines()[1:]]
    dead = [",".join((f"old{m}", *cell, str(m % 2))) for m in range(8) for cell in cells]
    table.write_text(table.read_text() + "\n".join(dead))
    named = [f"--pre-exposure=old{m}" for m in range(8)]
    (row,) = json.loads(run(str(table), "--plan", str(plan), *named, "--json")[1])["models"]
    assert "0 control models have scores that differ" in row["note"]
    code, _, err = run(str(table))
    assert (code, "arms: not stated; state one of random, time" in err) == (2, True)
    code, _, err = run(str(_sized(table, {"a": (9, 9)}, allocation="random")), "--plan", str(plan))
    assert (code, "'random'" in err) == (2, True)
