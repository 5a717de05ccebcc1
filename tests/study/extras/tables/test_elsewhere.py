"""A wave that another harness runs: exported under opaque ids, run there, imported, reported."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from generators.seed import Seed
from registry.ledger.records import Exported
from registry.provenance import utc_now
from registry.result_row import ResultRow
from registry.sealing import decrypt, new_identity
from study.main import main
from study.steps import pipeline
from study.steps.report.look import graded_rows
from study.steps.sweep.sweep import SweepRequest, begin_wave, close_wave
from study.steps.verify.verify import VerifyRequest, verify
from study.workspace.setup import pinned_image
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study
from tests.cases import cases
from tests.harness.openai_server import completion, serve
from tests.study.conftest import make_study, run_wave

Lines = list[dict[str, Any]]

TEXT = cases(__file__, "text")
WRONG = "no idea"
LM_EVAL = cases(__file__, "lm_eval")  # what its command does, without the list of its own tasks


def run(*words: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, [*map(str, words)])
    return result.exit_code, result.stdout, result.stderr


def export(folder: Path, form: str, out: Path, *more: str, wave: int = 1) -> tuple[int, str, str]:
    words = ["--wave", wave, "--format", form, "--out", out, "--study", folder, "--allow-dirty"]
    return run("export", "tasks", *map(str, words), *(more or ("--plain",)))


def take(folder: Path, kind: str, *places: str | Path, wave: int = 1) -> tuple[int, str, str]:
    return run("import", kind, *places, "--wave", str(wave), "--study", folder)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose first wave is closed, and its public arm released."""
    study = make_study(tmp_path_factory.mktemp("away") / "away", TEXT)
    run_wave(study)
    pipeline.publish(study, None, lambda *step: None)
    return study.folder


@pytest.fixture(scope="module")
def exported(begun: Path) -> Path:
    """The same with its second wave exported as JSON lines, beside it."""
    folder = Path(shutil.copytree(begun, begun.parent / "exported"))
    assert export(folder, "jsonl", begun.parent / "given")[0] == 0
    return folder


@pytest.fixture
def folder(exported: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(exported, tmp_path / "away"))


def rows_in(out: Path) -> Lines:
    return [json.loads(line) for line in (out / "tasks.jsonl").read_text("utf-8").splitlines()]


@cache
def keys_of(folder: Path) -> dict[str, str]:
    """The answers that earn full marks, by the first line of the prompt."""
    study, found = pipeline.open_study(folder), {}
    for each in study.entries():
        family = study.protocol.catalog.family(each.family, each.version)
        made = family.generate(each.difficulty, Seed.from_hex(each.seed))
        block = json.dumps(family.key(made.truth))
        found[made.brief.prompt.splitlines()[0]] = f"<answer>\n{block}\n</answer>"
    return found


def answer_to(folder: Path, prompt: str) -> str:
    return next(answer for line, answer in keys_of(folder).items() if line in prompt)


@pytest.fixture
def lines(begun: Path) -> Lines:
    """Right answers to all but the first of the exported instances."""
    given = rows_in(begun.parent / "given")
    lines = [{"id": row["id"], "answer": answer_to(begun, row["prompt"])} for row in given]
    lines[0]["answer"] = WRONG
    return lines


def write_log(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def rows_of(folder: Path, wave: int = 1) -> list[ResultRow]:
    snapshot = take_snapshot(pipeline.open_study(folder))
    return list(graded_rows(snapshot, [snapshot.waves[wave]]))


def verified(folder: Path) -> tuple[str, ...]:
    found = verify(pipeline.open_study(folder), VerifyRequest(regrade=True), lambda *step: None)
    assert found.problems == ()
    return found.unchecked


def secrets_of(study: Study) -> Iterator[str]:
    """All that an export must not hold."""
    yield from study.secret_keys().values()
    for each in study.entries():
        yield from (each.seed, each.nonce, each.instance, each.instance.removeprefix("sha256:"))
        family = study.protocol.catalog.family(each.family, each.version)
        key = family.key(family.generate(each.difficulty, Seed.from_hex(each.seed)).truth)
        yield from (json.dumps(key), json.dumps(key, indent=2))


# -- the export


def test_an_export_holds_no_arm_seed_or_key_and_one_order(begun: Path, exported: Path) -> None:
    out, study = begun.parent / "given", pipeline.open_study(exported)
    rows, text = rows_in(out), (out / "tasks.jsonl").read_text("utf-8")
    assert len(rows) == 12
    assert {tuple(row) for row in rows} == {("id", "prompt")}
    assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)
    assert not [secret for secret in secrets_of(study) if secret in text]
    assert not re.search(r"\b(public|private|arm|seed)\b", text)
    released = "".join(
        path.read_bytes().hex() for path in (exported / "release").rglob("*") if path.is_file()
    )
    assert not any(row["id"].encode().hex() in released for row in rows)
    assert (out.stat().st_mode | (out / "tasks.jsonl").stat().st_mode) & 0o077 == 0


def test_an_export_is_on_record_whether_plain_or_sealed(folder: Path, tmp_path: Path) -> None:
    identity, recipient = new_identity()
    sealed = tmp_path / "sealed"
    code, _, error = export(folder, "inspect", sealed, "--to", recipient)
    assert (code, error) == (0, "")
    assert {path.name for path in sealed.iterdir()} == {"tasks.jsonl.age", "task.py"}
    plain = decrypt((sealed / "tasks.jsonl.age").read_bytes(), [identity], "wave")
    assert len(plain.splitlines()) == 12
    code, _, error = export(folder, "lm-eval", tmp_path / "out")
    assert (code, error.startswith("warning: ")) == (0, True)
    ledger = pipeline.open_study(folder).ledger
    records: list[Exported] = [entry.record for entry in ledger.find("exported")]
    assert [(record.form, record.recipients) for record in records] == [
        ("jsonl", ()),
        ("inspect", (recipient,)),
        ("lm-eval", ()),
    ]
    assert all(entry.time and entry.signer for entry in ledger.find("exported"))
    assert len(ledger.find("run-manifest")) == 2
    assert "form jsonl; instances 12" in run("log", "--study", folder)[1]


def test_another_wave_has_other_ids_in_another_order(
    begun: Path, folder: Path, tmp_path: Path
) -> None:
    assert export(folder, "jsonl", tmp_path / "out", wave=2)[0] == 0
    before, after = rows_in(begun.parent / "given"), rows_in(tmp_path / "out")
    assert not {row["id"] for row in before} & {row["id"] for row in after}
    prompts = [[row["prompt"] for row in rows] for rows in (before, after)]
    assert sorted(prompts[0]) == sorted(prompts[1])
    assert prompts[0] != prompts[1]


@pytest.mark.parametrize(("text", "words", "why"), cases(__file__, "wrong_exports"))
def test_a_wrong_export_is_one_line_and_begins_nothing(
    begun: Path, tmp_path: Path, text: str, words: tuple[str, ...], why: str
) -> None:
    folder = Path(shutil.copytree(begun, tmp_path / "away"))
    if text:
        path = folder / "study.yaml"
        modes = "- {models: [nova], modes: {compute_average/easy: agentic}}"
        path.write_text(path.read_text("utf-8").replace("- [nova]\n", modes + "\n", 1), "utf-8")
    code, _, error = export(folder, "jsonl", tmp_path / "out", *words)
    assert (code, why in error) == (2, True), error
    assert not (tmp_path / "out").exists()
    assert len(pipeline.open_study(folder).ledger.find("run-manifest")) == 1


def test_pictures_are_for_inspect_alone(tmp_path: Path) -> None:
    study = make_study(tmp_path / "away", TEXT.replace("order_statistics", "count_circles"))
    code, _, error = export(study.folder, "jsonl", tmp_path / "out")
    assert (code, "count_circles/easy cannot be exported: it has pictures" in error) == (2, True)
    assert export(study.folder, "inspect", tmp_path / "out")[0] == 0
    parts = [row["input"][1]["content"] for row in rows_in(tmp_path / "out")]
    shown = [part["image"] for each in parts if isinstance(each, list) for part in each[1:]]
    assert shown
    assert all(image.startswith("data:image/png;base64,") for image in shown)


def test_an_exported_wave_is_neither_swept_nor_closed_by_hand(folder: Path) -> None:
    for words in (("sweep", "--allow-dirty", "--wave", "1"), ("wave", "close", "1")):
        code, _, error = run(*words, "--study", folder)
        assert (code, "wave 1 was exported to be run elsewhere" in error) == (2, True), error
    assert "import --wave 1" in run("status", "--study", folder)[1]


def test_a_wave_that_a_sweep_has_begun_is_not_exported(folder: Path, tmp_path: Path) -> None:
    study, request = pipeline.open_study(folder), SweepRequest(2, allow_dirty=True)
    begin_wave(study, request, pinned_image(study.protocol), utc_now)
    code, _, error = export(folder, "jsonl", tmp_path / "out", wave=2)
    assert (code, "here is elsewhere, and wave 2 was begun with " in error) == (3, True)
    assert not (tmp_path / "out").exists()


# -- the import


def test_from_an_export_to_the_report(folder: Path, tmp_path: Path, lines: Lines) -> None:
    log = write_log(tmp_path / "log.jsonl", lines[:-1])
    code, out, error = take(folder, "jsonl", f"nova={log}")
    assert (code, error) == (0, "")
    assert "wave 1 is closed: 11 scored, 1 missing" in out
    rows = rows_of(folder)
    assert len(rows) == len({row.instance for row in rows}) == 12
    assert sorted(row.score is None or row.score for row in rows).count(True) == 11
    assert [row.score for row in rows if row.status == "model_failure"] == [0.0]
    report, page = pipeline.report(pipeline.open_study(folder))
    words = "nova was run elsewhere by a harness that JSON lines do not name, not blind to what"
    assert any(words in each and "regraded" in each for each in report.deviations)
    assert words in page.read_text("utf-8")
    assert any(words in each for each in verified(folder))
    [closed] = pipeline.open_study(folder).ledger.find("wave-closed")[1:]
    assert closed.record.elsewhere[0].logs[0].startswith("sha256:")
    code, _, error = take(folder, "jsonl", f"nova={log}")
    assert (code, "wave 1 is closed" in error) == (2, True)
    code, _, error = export(folder, "jsonl", tmp_path / "late")
    assert (code, "wave 1 is closed" in error, (tmp_path / "late").exists()) == (2, True, False)


def test_scores_of_a_log_without_answers_are_taken_and_named(
    folder: Path, tmp_path: Path, lines: Lines
) -> None:
    scored = [{"id": line["id"], "model": "nova-1", "score": n % 2} for n, line in enumerate(lines)]
    code, out, error = take(folder, "jsonl", write_log(tmp_path / "log.jsonl", scored))
    assert (code, error) == (0, "")
    assert "not regraded: 12 scores are those of the logs" in out
    assert sum(row.score or 0 for row in rows_of(folder)) == 6
    report, _ = pipeline.report(pipeline.open_study(folder))
    assert any("(as nova-1) was run elsewhere" in each for each in report.deviations)
    assert "scores of wave 1 that are those of another harness's logs" in verified(folder)


def test_the_logs_of_eee_and_harbor_are_joined(folder: Path, tmp_path: Path, lines: Lines) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    rows = [
        {"model_id": "org/x", "evaluation_name": "w", "sample_id": line["id"]}
        | {"output": {"raw": [line["answer"]]}, "evaluation": {"score": 0.0}}
        for line in lines
    ]
    assert take(folder, "eee", f"nova={write_log(tmp_path / 'log.jsonl', rows)}")[0] == 0
    assert sum(row.score or 0 for row in rows_of(folder)) == 11
    for line in lines:
        trial = {"id": line["id"], "trial_name": "t", "task_name": f"org/{line['id']}"}
        trial |= {"agent_info": {"name": "a", "version": "2"}}
        trial |= {"verifier_result": {"rewards": {"reward": 1.0}}}
        (place := tmp_path / "job" / line["id"]).mkdir(parents=True)
        write_log(place / "result.json", [trial])
    code, out, _ = take(copy, "harbor", f"nova={tmp_path / 'job'}")
    assert (code, "by Harbor with a 2, not blind" in out) == (0, True)
    assert sum(row.score or 0 for row in rows_of(copy)) == 12


def test_a_log_of_inspect_that_every_eval_ever_converted_is_joined_once(
    folder: Path, tmp_path: Path, lines: Lines
) -> None:
    """Its own lines, with the ids of this wave: of each run one by each of two scorers."""
    made = Path(__file__).parents[3] / "data" / "eee" / "two_scorers.jsonl"
    rows = [json.loads(line) for line in made.read_text("utf-8").splitlines()]
    ids = list(dict.fromkeys(row["sample_id"] for row in rows))
    given = dict(zip(ids, lines, strict=False))
    for row in rows:
        line = given[row["sample_id"]]
        row |= {"sample_id": line["id"], "output": {"raw": [line["answer"]]}}
    log = write_log(tmp_path / "log.jsonl", rows)
    code, out, error = take(folder, "eee", f"nova={log}")
    assert (code, error) == (0, "")
    assert "wave 1 is closed: 7 scored, 5 missing" in out
    scores = [row.score for row in rows_of(folder) if row.score is not None]
    assert sorted(scores) == [0.0] + [1.0] * 6


def test_lm_eval_runs_the_exported_task_and_its_samples_are_joined(
    begun: Path, tmp_path: Path
) -> None:
    out, folder = tmp_path / "given", Path(shutil.copytree(begun, tmp_path / "again"))
    assert export(folder, "lm-eval", out)[0] == 0
    with serve(
        always=lambda asked: completion(answer_to(begun, asked["messages"][-1]["content"]))
    ) as served:
        asking = f"model=nova,base_url={served.url}/chat/completions,num_concurrent=4"
        run = [sys.executable, "-c", LM_EVAL, asking]
        away = dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"), "1")
        env = os.environ | away | {"HF_HOME": str(tmp_path / "hub")}
        subprocess.run(run, cwd=out, env=env, check=True, capture_output=True)
    code, shown, error = take(folder, "lm-eval", f"nova={out / 'logs'}")
    assert (code, error) == (0, "")
    assert "by lm-evaluation-harness 0.4." in shown
    assert "not blind to what it ran, regraded" in shown
    assert [row.score for row in rows_of(folder)] == [1] * 12


def test_a_closing_that_hides_or_claims_another_harness_is_broken(
    folder: Path, tmp_path: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hide(*arguments: Any) -> Any:
        return close_wave(*arguments[:-1])

    monkeypatch.setattr("study.extras.tables.elsewhere.close_wave", hide)
    log = write_log(tmp_path / "log.jsonl", lines)
    assert take(folder, "jsonl", f"nova={log}")[0] == 0
    found = verify(pipeline.open_study(folder), VerifyRequest(), lambda *step: None)
    assert [why for _, why in found.problems] == [
        "wave-closed: the models run elsewhere are not its manifest's"
    ]


Change = Callable[[Lines], object]


@pytest.mark.parametrize(
    ("change", "name", "why"),
    [
        (lambda rows: rows[3].update(id=rows[3]["id"][:-1] + "x"), "nova", "no id of this wave"),
        (lambda rows: rows[3].update(id="0" * 32), "nova", "no id of this wave: it was edited"),
        (lambda rows: rows.append(rows[3]), "nova", "epoch 1 of nova is there twice"),
        (lambda rows: rows[3].update(epoch=2), "nova", "epoch 2 of nova is not owed by this wave"),
        (lambda rows: None, "vega", "it is of '', and not of 'vega'; wave 1 runs nova"),
        (lambda rows: None, "", "it is of '', which wave 1 does not name: give it as MODEL="),
        (lambda rows: [r.update(model="x") for r in rows], "", "of 'x', which wave 1 does not"),
        (lambda rows: rows[0].update(model="x"), "nova", "its logs are of several models: , x"),
        (lambda rows: rows[0].update(model="x\n"), "nova", "a name of its model or harness is"),
        (lambda rows: [row.pop("answer") for row in rows], "nova", "no log has an answer or a"),
        (lambda rows: rows[0].update(score=2), "nova", "a score is a number from 0 to 1"),
        (lambda rows: rows[0].pop("id"), "nova", "log.jsonl:1: not a run: id: Field required"),
        (lambda rows: rows.clear(), "nova", "no log has an answer or a score of nova"),
    ],
)
def test_a_wrong_log_is_one_line_and_writes_nothing(
    exported: Path, tmp_path: Path, lines: Lines, change: Change, name: str, why: str
) -> None:
    change(lines)
    log = write_log(tmp_path / "log.jsonl", lines)
    before = {path: path.read_bytes() for path in exported.rglob("*") if path.is_file()}
    code, _, error = take(exported, "jsonl", f"{name}={log}" if name else log)
    assert (code, error.count("\n")) == (2, 1), error
    assert why in error
    assert {p for p in exported.rglob("*") if p.is_file()} - before.keys() <= {
        exported / ".sweep-1.lock"
    }
    assert all(path.read_bytes() == data for path, data in before.items())


def test_a_wave_is_exported_before_it_is_imported(folder: Path, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [{"id": "a", "score": 1}])
    assert "wave 2 is not exported" in take(folder, "jsonl", log, wave=2)[2]
    assert "wave 0 is not exported" in take(folder, "jsonl", log, wave=0)[2]
    code, _, error = run("import", "picard", log, "--wave", "1", "--study", folder)
    assert (code, "--wave takes logs of inspect" in error) == (2, True)


def test_two_models_of_a_wave_are_imported_together_or_not(folder: Path, tmp_path: Path) -> None:
    assert export(folder, "jsonl", tmp_path / "out", wave=2)[0] == 0
    both = [{"id": row["id"], "answer": WRONG} for row in rows_in(tmp_path / "out")]
    log = write_log(tmp_path / "log.jsonl", both)
    code, _, error = take(folder, "jsonl", f"nova={log}", wave=2)
    assert (code, "no log has an answer or a score of vega" in error) == (2, True)
    code, _, error = take(folder, "jsonl", f"nova={log}", f"vega={log}", wave=2)
    assert (code, error) == (0, "")
    assert len(rows_of(folder, wave=2)) == 24


def test_an_import_that_was_cut_off_goes_on_with_the_same_logs_only(
    folder: Path, tmp_path: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines[2] = {"id": lines[2]["id"], "score": 1}
    log, put = write_log(tmp_path / "log.jsonl", lines), []

    def killed(*arguments: object) -> object:
        put.append(arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("study.extras.tables.elsewhere.close_wave", killed)
        take(folder, "jsonl", f"nova={log}")
    assert put
    lines[1]["answer"] = WRONG
    other = write_log(tmp_path / "other.jsonl", lines)
    code, _, error = take(folder, "jsonl", f"nova={other}")
    assert (code, "an import that was cut off had other logs" in error) == (2, True)
    assert take(folder, "jsonl", f"nova={log}")[0] == 0
    assert sum(row.score or 0 for row in rows_of(folder)) == 11


# -- Inspect itself


def test_inspect_runs_the_exported_task_and_no_sample_is_lost_or_doubled(
    begun: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from inspect_ai import eval
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    assert export(folder, "inspect", tmp_path / "out")[0] == 0
    first = rows_in(tmp_path / "out")[0]["input"][1]["content"]

    def reply(messages: list[Any], *request: Any) -> ModelOutput:
        prompt = messages[-1].text
        text = WRONG if prompt == first else answer_to(begun, prompt)
        output = ModelOutput.from_content("mockllm/model", text)
        output.usage = ModelUsage(input_tokens=7, output_tokens=3, total_tokens=10)
        return output

    monkeypatch.chdir(tmp_path)
    model = get_model("mockllm/model", custom_outputs=reply)
    logs = str(tmp_path / "logs")
    eval("out/task.py", model=model, log_dir=logs, display="none", score_display=False)
    code, out, error = take(folder, "inspect", f"nova={logs}")
    assert (code, error) == (0, ""), error
    assert "nova (as mockllm/model) was run elsewhere by Inspect 0." in out
    rows = rows_of(folder)
    assert len(rows) == len({row.instance for row in rows}) == 12
    assert sum(row.score or 0 for row in rows) == 11
    assert {(row.input_tokens, row.output_tokens, row.mode) for row in rows} == {
        (7, 3, "single_turn")
    }
    verified(folder)
    log = next(Path(logs).glob("*.eval"))
    log.write_bytes(log.read_bytes()[:400])
    copy = folder.parent / "copy"
    shutil.copytree(begun.parent / "exported", copy)
    code, _, error = take(copy, "inspect", f"nova={log}")
    assert (code, "not a log of Inspect that can be read" in error) == (2, True)
