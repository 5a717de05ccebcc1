"""Run folders that people have: read as they are, scored as they were, and leniently beside."""

from __future__ import annotations

import json
import os
import stat
import warnings
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from generators.child_process import ChildLimits, run_in_child
from generators.templates.library import NAMES
from study.errors import StudyError
from study.extras.templates import run_tree as runtree
from study.extras.templates.answers import answers_of_runs
from study.extras.templates.prepare import prepare_template
from study.extras.templates.run_folder import (
    RunScores,
    read_rounds,
    read_samples,
    score_run,
    score_runs,
    write_scores,
)
from study.main import main
from tests.cases import cases

AT = datetime(2026, 11, 22, 2, 0, tzinfo=UTC)
HOME = "/home/someone/sandbox"  # where the folder's sandbox was when it was run


def precheck(kind: str, question: Any, sample: Any = 1, **key: Any) -> dict[str, Any]:
    return {
        "scoring_type": kind,
        "question_id": question,
        "sample_number": sample,
        "template": "How many orders are in {{artifacts}}/{{qs_id}}/{{entity1}}.db?",
        "substituted_question": f"How many orders are in {HOME}/q{question}_s{sample}/amber.db?",
        "entity1": "amber",
        "number1:1:9:integer": "4",
        "sandbox_components": [{"type": "create_sqlite", "name": "db"}],
        **key,
    }


def response(question: Any, sample: Any = 1, text: Any = "Done.") -> dict[str, Any]:
    return {
        "question_id": question,
        "sample_number": sample,
        "timestamp": "2025-06-28T10:11:26.100547",
        "response_text": text,
        "execution_successful": True,
        "error_message": None,
    }


def lines(rows: list[Any]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


KEYS = [
    precheck("stringmatch", 102, 1, expected_response="amber"),
    precheck("stringmatch", 102, 2, expected_response="azure"),
    precheck("jsonmatch", 103, 1, expected_response='{"total": 4}'),
    precheck("readfile_jsonmatch", 402, 1)
    | {"file_to_read": f"{HOME}/q402_s1/big.json", "expected_content": '{"n": 4}'}
    | {"expected_content_before_template_functions": '{"n": {{sqlite_query:…}}}'},
    precheck("readfile_stringmatch", 401, 1)
    | {"file_to_read": f"{HOME}/q401_s1/sum.txt", "expected_content": "246472"},
    precheck("files_exist", 101, 1, files_to_check=[f"{HOME}/diary/a.log", f"{HOME}/diary/b"]),
    precheck(
        "directory_structure", 104, 1, expected_paths=[f"{HOME}/q104_s1/x/", f"{HOME}/q104_s1/x/y"]
    ),
    precheck("stringmatch", 102, 3, expected_response="copper"),
]
RESPONSES = [
    response(102, 1, "<think>\nhm\n</think>\n\namber"),
    response(102, 2, "**Azure**"),
    response(103, 1, 'The total:\n```json\n{"total": 4}\n```'),
    response(402),
    response(401),
    response(101),
    response(104),
]
FILES = cases(__file__, "files")
CORRECT = [True, False, False, True, False, True, True, False]
LENIENT = [True, True, True, True, False, True, True, False]


def put_tree(root: Path, files: dict[str, str] = FILES) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def put_zip(path: Path, prefix: str = "", files: dict[str, str] = FILES) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(prefix + name, text)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "test_20250628_101107"
    folder.mkdir()
    (folder / "precheck.jsonl").write_text(lines(KEYS))
    (folder / "responses.jsonl").write_text(lines(RESPONSES))
    return folder


def one(run: Path, key: dict[str, Any], said: Any = "Done.") -> bool:
    """The strict verdict on one sample alone."""
    (run / "precheck.jsonl").write_text(lines([key]))
    (run / "responses.jsonl").write_text(lines([response(1, 1, said)]))
    return score_run(run, AT).results[0].strict.correct


def refusal(run: Path, *remaps: str) -> str:
    with pytest.raises(StudyError) as refused:
        score_run(run, AT, remaps)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def verdicts(scores: RunScores) -> tuple[list[bool], list[bool]]:
    return (
        [each.strict.correct for each in scores.results],
        [each.lenient.correct for each in scores.results],
    )


# --- where the sandbox is


def test_a_tree_beside_it_is_scored(run):
    put_tree(run / "sandbox")
    assert verdicts(score_run(run, AT, [f"{HOME}=sandbox"])) == (CORRECT, LENIENT)


def test_a_tree_elsewhere_is_scored(run, tmp_path):
    put_tree(tmp_path / "moved")
    assert verdicts(score_run(run, AT, [f"{HOME}/={tmp_path / 'moved'}"])) == (CORRECT, LENIENT)


@pytest.mark.parametrize(
    ("prefix", "inner"),
    [("", ""), ("sandbox/", ""), ("sandbox/", "/sandbox"), ("home/someone/sandbox/", HOME)],
)
def test_a_zip_is_scored_without_being_unpacked(run, prefix, inner):
    put_zip(run / "sandbox_model.zip", prefix)
    before = sorted(run.rglob("*"))
    assert verdicts(score_run(run, AT, [f"{HOME}=sandbox_model.zip{inner}"])) == (CORRECT, LENIENT)
    assert sorted(run.rglob("*")) == before


def test_the_longest_old_path_counts_and_ends_with_a_whole_name(run, tmp_path):
    put_tree(run / "sandbox", {name: "wrong" for name in FILES if name[0] == "q"})
    put_tree(tmp_path / "diary", {"a.log": "", "b": ""})
    remaps = (f"{HOME}=sandbox", f"{HOME}/diary={tmp_path / 'diary'}", "/home/some=/")
    assert score_run(run, AT, remaps).results[5].strict.correct
    said = refusal(run, "/home/someone/sand=sandbox")
    assert "precheck.jsonl:4: the path '/home/someone/sandbox/q402_s1/big.json'" in said
    assert "--remap /home/someone/sandbox/q402_s1=" in said


def test_relative_paths_are_those_of_the_tree_and_of_each_sample(run):
    put_tree(run / "sandbox", {"q1_s1/artifacts/a.txt": "own", "a.txt": "all"})
    for path, content in (
        ("artifacts/a.txt", "own"),
        ("a.txt", "all"),
        ("test_artifacts/a.txt", "all"),
        ("x/../a.txt", "all"),
        (str(run / "sandbox" / "a.txt"), "all"),
    ):
        key = precheck("readfile_stringmatch", 1, file_to_read=path, expected_content=content)
        assert one(run, key), path


def test_a_zip_in_the_folder_is_its_tree_for_relative_paths(run):
    put_zip(run / "sandbox_one.zip", "sandbox/", {"q1_s1/artifacts/a.txt": "own"})
    key = precheck(
        "readfile_stringmatch", 1, file_to_read="artifacts/a.txt", expected_content="own"
    )
    assert one(run, key)
    put_zip(run / "sandbox_two.zip")
    assert "has several zips (sandbox_one.zip, sandbox_two.zip)" in refusal(run)


@pytest.mark.parametrize("path", ["../secret", "a/../../secret", "/etc/passwd", "{home}/../secret"])
def test_a_path_that_leads_out_is_refused_before_anything_is_scored(run, tmp_path, path):
    (tmp_path / "secret").write_text("secret")
    (run / "sandbox").mkdir()
    path = path.format(home=HOME)
    for key in (
        precheck("readfile_stringmatch", 1, file_to_read=path, expected_content="secret"),
        precheck("files_exist", 1, files_to_check=["a", path]),
        precheck("directory_structure", 1, expected_paths=[path]),
    ):
        (run / "precheck.jsonl").write_text(lines([*KEYS[:2], key]))
        assert "precheck.jsonl:3: the path " in refusal(run, f"{HOME}=sandbox")


def test_links_that_lead_out_lead_nowhere_and_links_inside_are_followed(run, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a").write_text("secret")
    put_tree(run / "sandbox", {"x/real": "inside"})
    root = run / "sandbox"
    links = {
        "out": tmp_path / "secret",
        "outdir": tmp_path / "outside",
        "near": "x/real",
        "neardir": "x",
        "loop": "loop",
        "gone": "nothing",
        "up": "../../secret",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    for path, content, correct in cases(__file__, "links"):
        key = precheck("readfile_stringmatch", 1, file_to_read=path, expected_content=content)
        assert one(run, key) is correct, path
        assert one(run, precheck("files_exist", 1, files_to_check=[path])) is correct, path
    assert one(run, precheck("directory_structure", 1, expected_paths=["neardir/", "near"]))
    assert not one(run, precheck("directory_structure", 1, expected_paths=["outdir/"]))


def test_a_tree_itself_leads_nowhere_out(run, tmp_path):
    (tmp_path / "secret").write_text("secret")
    put_tree(run / "sandbox")
    tree = runtree.FolderTree(run / "sandbox")
    for path in ("../../secret", "diary/../../../secret", "..", "../sandbox/diary/b", "diary/."):
        assert tree.read(path) is None
        assert tree.kind(path) is None
    assert tree.read("diary/b") == b""
    assert tree.kind("diary") == tree.kind("") == "folder"


def test_everything_may_be_mapped(run):
    put_tree(run / "all", {f"{HOME}/{name}"[1:]: text for name, text in FILES.items()})
    assert verdicts(score_run(run, AT, ["/=all"])) == (CORRECT, LENIENT)


def test_what_is_no_regular_file_is_not_read(run):
    (run / "sandbox").mkdir()
    os.mkfifo(run / "sandbox" / "pipe")
    for path in ("pipe", "nul\0byte", "x" * 5000, "."):
        key = precheck("readfile_stringmatch", 1, file_to_read=path, expected_content="")
        assert not one(run, key)


def test_a_zip_that_would_lead_out_is_refused(run):
    for name in ("../secret", "a/../../secret", "/etc/secret"):
        put_zip(run / "sandbox.zip", files={name: "secret", "a": ""})
        assert f"the entry {name!r} leads out of it" in refusal(run, f"{HOME}=sandbox.zip")


def test_a_link_in_a_zip_leads_nowhere(run):
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(run / "sandbox.zip", "w") as archive:
        archive.writestr(link, "/etc/hostname")
        archive.writestr("real", "")
    key = precheck("readfile_stringmatch", 1, file_to_read="link", expected_content="/etc/hostname")
    assert not one(run, key)
    assert not one(run, precheck("files_exist", 1, files_to_check=["link"]))
    assert one(run, precheck("files_exist", 1, files_to_check=["real"]))


def test_a_zip_bomb_is_refused_by_what_it_says_it_holds(run, monkeypatch):
    put_zip(run / "sandbox.zip", files={"a": "0" * 2_000_000, "b": "0" * 2_000_000})
    assert (run / "sandbox.zip").stat().st_size < 20_000
    monkeypatch.setattr(runtree, "MOST_BYTES", 3_000_000)
    assert "2 entries of 4,000,000 bytes; at most" in refusal(run, f"{HOME}=sandbox.zip")
    monkeypatch.setattr(runtree, "MOST_ENTRIES", 1)
    assert "at most 1 and" in refusal(run, f"{HOME}=sandbox.zip")


def test_a_small_zip_takes_little_memory_whatever_its_names_and_methods(run):
    with zipfile.ZipFile(run / "sandbox.zip", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("a", bytes(200_000_000))
        archive.writestr("b/" * 30_000 + "c", "")
    assert (run / "sandbox.zip").stat().st_size < 200_000
    (run / "responses.jsonl").write_text(lines([response(1)]))
    key = precheck("readfile_stringmatch", 1, file_to_read="a", expected_content="0")
    (run / "precheck.jsonl").write_text(lines([key]))
    with pytest.raises(StudyError, match="'a' cannot be read: it is packed by another method"):
        run_in_child(ChildLimits(seconds=10, memory=150_000_000), score_run, run, AT).value()


def test_a_long_file_in_a_tree_or_a_zip_is_read_no_further_than_is_scored(run):
    key = precheck("readfile_stringmatch", 1, file_to_read="a", expected_content="0")
    with zipfile.ZipFile(run / "sandbox.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", b"0" * 40_000_000)
    assert not one(run, key)
    assert "too long to be scored: 16,777,217" in score_run(run, AT).results[0].strict.error
    (run / "sandbox").mkdir()
    with open(run / "sandbox" / "a", "wb") as file:
        file.truncate(100_000_000)
    assert "too long to be scored: 16,777,217" in score_run(run, AT).results[0].strict.error


def test_a_broken_zip_is_refused(run):
    (run / "sandbox.zip").write_bytes(b"PK\x03\x04 cut off")
    assert "cannot be read as a zip" in refusal(run, f"{HOME}=sandbox.zip")
    put_zip(run / "sandbox.zip")
    data = bytearray((run / "sandbox.zip").read_bytes())
    data[data.index(b"big.json") + 8] ^= 0xFF
    (run / "sandbox.zip").write_bytes(data)
    assert "'q402_s1/big.json' cannot be read" in refusal(run, f"{HOME}=sandbox.zip")


def test_a_zip_with_a_name_twice_counts_the_last(run):
    with warnings.catch_warnings(), zipfile.ZipFile(run / "sandbox.zip", "w") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("a", "first")
        archive.writestr("a", "last")
    assert one(run, precheck("readfile_stringmatch", 1, file_to_read="a", expected_content="last"))


@pytest.mark.parametrize(
    ("remap", "said"),
    [
        ("nonsense", "must be OLD=NEW"),
        ("=sandbox", "must be OLD=NEW"),
        ("/a=", "must be OLD=NEW"),
        (f"{HOME}=nowhere", "nowhere is a folder or a zip"),
        (f"{HOME}=sandbox.zip/nowhere", "holds no folder 'nowhere'"),
    ],
)
def test_a_bad_remap_is_refused(run, remap, said):
    put_zip(run / "sandbox.zip")
    assert said in refusal(run, remap)


@pytest.mark.parametrize(
    ("tree", "remaps"),
    [
        ("none", ()),
        ("empty", ()),
        ("other", ()),
        ("empty", (f"{HOME}=sandbox",)),
        ("other", (f"{HOME}=sandbox",)),
    ],
)
def test_without_the_sandbox_tree_questions_about_files_are_undetermined(run, tree, remaps):
    if tree != "none":
        (run / "sandbox").mkdir()
    if tree == "other":
        put_tree(run / "sandbox", {"of/another/run.txt": ""})
    (run / "responses.jsonl").write_text(lines(RESPONSES[:-1]))
    scores = score_run(run, AT, remaps)
    assert [each.failure for each in scores.results] == cases(__file__, "failures")
    (told,) = scores.warnings
    assert told.startswith("4 of the 4 questions about files are undetermined")
    head = scores.as_json()["metadata"]
    assert (head["total_questions"], head["correct_answers"], head["undetermined"]) == (5, 1, 3)
    assert scores.as_json()["by_question"]["402"]["total"] == 0
    row = list(scores.details())[3]
    assert (row["correct"], row["lenient_correct"], row["failure"]) == (None, None, "undetermined")


@pytest.mark.parametrize(("name", "prefix"), cases(__file__, "remaps"))
def test_a_remap_is_found_in_the_one_tree_of_the_folder(run, name, prefix):
    if name.endswith(".zip"):
        put_zip(run / name, prefix)
    else:
        put_tree(run / name)
    scores = score_run(run, AT)
    assert verdicts(scores) == (CORRECT, LENIENT)
    (told,) = scores.warnings
    assert told.startswith("paths below /home")
    assert str(run / name) in told


def test_no_remap_is_found_between_two_zips(run):
    for name in ("a.zip", "b.zip"):
        put_zip(run / name)
    scores = score_run(run, AT)
    assert scores.undetermined == 4
    assert "--remap /home/someone/sandbox/q402_s1=" in scores.warnings[0]


def test_a_remap_may_be_a_rule_or_one_for_each_run(run, tmp_path):
    put_zip(tmp_path / f"tree_{run.name}.zip")
    scores = score_run(run, AT, [f"{HOME}={tmp_path}/tree_{{run}}.zip"])
    assert verdicts(scores) == (CORRECT, LENIENT)
    put_zip(run / "nova.zip")
    two = [f"{HOME}=llama.zip", f"{HOME}=nova.zip"]
    assert verdicts(score_run(run, AT, two)) == (CORRECT, LENIENT)
    assert "llama.zip is a folder or a zip" in refusal(run, two[0])


def test_what_is_undetermined_is_in_no_table_as_a_failure(run):
    scored = score_runs([("m", run)], AT, ())
    strict = [each.strict for each in answers_of_runs([f"m={run}"], AT)[0].rows]
    assert strict == [True, False, False, None, None, None, None, False]
    (model,) = scored
    assert model.scores.undetermined == 4


# --- responses


def test_a_missing_response_is_wrong_with_its_reason_and_counted(run):
    put_tree(run / "sandbox")
    (run / "responses.jsonl").write_text("")
    scores = score_run(run, AT, [f"{HOME}=sandbox"])
    assert verdicts(scores) == ([False] * 8, [False] * 8)
    assert {each.failure for each in scores.results} == {"missing response"}
    head = scores.as_json()["metadata"]
    assert (head["total_questions"], head["correct_answers"]) == (8, 0)
    assert head["missing_responses"] == 8
    assert next(scores.details())["error_message"] == "responses.jsonl holds no response to it"


def test_the_last_of_several_responses_counts_and_each_key_is_scored(run):
    key = precheck("stringmatch", 1, expected_response="b")
    (run / "precheck.jsonl").write_text(lines([key, key]))
    (run / "responses.jsonl").write_text(lines([response(1, 1, "a"), response(1, 1, "b")]))
    assert verdicts(score_run(run, AT)) == ([True, True], [True, True])
    (run / "responses.jsonl").write_text(lines([response(1, 1, "b"), response(1, 1, "a")]))
    assert verdicts(score_run(run, AT)) == ([False, False], [False, False])


def test_ids_are_compared_as_they_are_written(run):
    (run / "precheck.jsonl").write_text(
        lines([precheck("stringmatch", "1", expected_response="a")])
    )
    (run / "responses.jsonl").write_text(lines([response(1, 1, "a")]))
    scores = score_run(run, AT)
    assert scores.results[0].failure == "missing response"
    assert scores.warnings == ("1 responses are to no sample of precheck.jsonl; left out",)


@pytest.mark.parametrize("said", [None, 5, ["amber"], {"text": "amber"}, True])
def test_a_response_that_is_no_text_is_wrong(run, said):
    assert not one(run, precheck("stringmatch", 1, expected_response="amber"), said)


def test_a_failed_execution_is_no_answer_whatever_it_said(run):
    key = precheck("stringmatch", 1, expected_response="amber")
    (run / "precheck.jsonl").write_text(lines([key]))
    row = response(1, 1, "amber") | {"execution_successful": False, "error_message": "late"}
    (run / "responses.jsonl").write_text(lines([row]))
    scores = score_run(run, AT)
    (result,) = scores.results
    assert (result.scores, result.failure, result.lost) == (None, "lost run", "late")
    head = scores.as_json()["metadata"]
    assert (head["total_questions"], head["lost_runs"], head["undetermined"]) == (0, 1, 0)
    (run / "responses.jsonl").write_text(lines([row, response(1, 1, "amber")]))
    assert score_run(run, AT).results[0].strict.correct, "the run was repeated"


@pytest.mark.parametrize("flag", [False, None, "false", 0])
def test_what_is_not_called_a_success_is_none_and_its_cause_is_one_plain_line(run, flag):
    (run / "precheck.jsonl").write_text(lines([precheck("stringmatch", 1, expected_response="a")]))
    row = response(1, 1, "a") | {"execution_successful": flag, "error_message": {"x": "\x1b[2J\n"}}
    (run / "responses.jsonl").write_text(lines([row]))
    (result,) = score_run(run, AT).results
    assert result.undetermined
    assert result.lost.isprintable()


def test_a_sample_whose_line_cannot_be_read_is_not_wrong(run):
    keys = [precheck("stringmatch", 1, sample, expected_response="a") for sample in (1, 2)]
    (run / "precheck.jsonl").write_text(lines(keys))
    (run / "responses.jsonl").write_text(lines([response(1, 1, "a")]) + '{"question_id": 1, "sam')
    scores = score_run(run, AT)
    assert [result.failure for result in scores.results] == [None, "lost run"]
    assert scores.as_json()["metadata"]["accuracy_percentage"] == 100.0
    with pytest.raises(StudyError, match=r"malformed lines skipped: 1.*mend or remove them"):
        list(score_runs([("m", run)], AT, ()))


def test_a_byte_order_mark_does_not_count_and_other_forms_of_files_are_refused(run):
    key = precheck("stringmatch", 1, expected_response="amber")
    (run / "precheck.jsonl").write_text(lines([key]))
    text = lines([response(1, 1, "amber")])
    (run / "responses.jsonl").write_text(text, encoding="utf-8-sig")
    assert score_run(run, AT).results[0].strict.correct
    (run / "responses.jsonl").write_text(text, encoding="utf-16")
    with pytest.raises(StudyError, match="is UTF-16; write it as UTF-8"):
        score_run(run, AT)
    (run / "responses.jsonl").write_text(f"[{text}]")
    with pytest.raises(StudyError, match="is a JSON array; write an object a line"):
        score_run(run, AT)


def test_blank_lines_do_not_count_and_other_line_ends_do_not_matter(run):
    key = precheck("stringmatch", 1, expected_response="ä")
    (run / "precheck.jsonl").write_bytes(f"\n{json.dumps(key, ensure_ascii=False)}\r\n\n".encode())
    (run / "responses.jsonl").write_text(lines([response(1, 1, "ä")]).rstrip())
    assert score_run(run, AT).results[0].strict.correct


@pytest.mark.parametrize(("line", "said"), cases(__file__, "a malformed line of the key is named"))
def test_a_malformed_line_of_the_key_is_named(run, line, said):
    good = json.dumps(precheck("stringmatch", 1, 1, expected_response="a"))
    (run / "precheck.jsonl").write_text(f"{good}\n{line}\n")
    (run / "responses.jsonl").write_text(lines([response(1), response(1, 2)]))
    assert f"{run / 'precheck.jsonl'}{said}" in refusal(run)


def test_bytes_that_are_no_text_are_named_by_their_line(run):
    (run / "precheck.jsonl").write_bytes(b'{"a": "\xff"}\n')
    assert "precheck.jsonl:1: is no JSON" in refusal(run)


def test_malformed_lines_of_responses_are_skipped_and_counted(run):
    good = lines([response(1, 1, "a")])
    path = run / "responses.jsonl"
    path.write_bytes(
        f'{{cut\n[1]\n{{"question_id": 1}}\n{good}'.encode() + b"\xff\n" + good.encode()[:40]
    )
    (run / "precheck.jsonl").write_text(lines([precheck("stringmatch", 1, expected_response="a")]))
    scores = score_run(run, AT)
    assert verdicts(scores) == ([True], [True])
    assert scores.as_json()["metadata"]["malformed_responses"] == 5
    (told,) = scores.warnings
    assert told.startswith("malformed lines skipped: 5; the first: ")
    assert "responses.jsonl:1: is no JSON (" in told


def test_a_folder_without_its_files_is_refused(run):
    (run / "responses.jsonl").unlink()
    assert "responses.jsonl: No such file or directory; a run folder holds" in refusal(run)
    (run / "precheck.jsonl").write_text("\n")
    assert "precheck.jsonl: holds no sample" in refusal(run)


# --- scores.json


def test_scores_are_written_in_their_shape_with_the_lenient_column_beside(run):
    put_tree(run / "sandbox")
    path = write_scores(run, score_run(run, AT, [f"{HOME}=sandbox"]))
    written = json.loads(path.read_text())
    assert list(written) == ["metadata", "by_question", "by_scoring_type", "detailed_results"]
    head = written["metadata"]
    assert {name: head[name] for name in list(head)[:5]} == cases(__file__, "head")
    assert (head["lenient_correct_answers"], head["lenient_accuracy_percentage"]) == (6, 75.0)
    assert (head["formatting_failures"], head["task_failures"], head["missing_responses"]) == (
        2,
        1,
        1,
    )
    assert written["by_question"]["102"] == cases(__file__, "counts")
    assert written["by_scoring_type"]["readfile_stringmatch"]["task_failures"] == 1
    rows = written["detailed_results"]
    assert [row["correct"] for row in rows] == CORRECT
    assert [row["lenient_correct"] for row in rows] == LENIENT
    assert rows[0]["error_message"] is None
    assert rows[1]["failure"] == "formatting failure"
    assert list(rows[1]) == [
        *("question_id", "sample_number", "scoring_type", "correct", "error_message"),
        *("details", "timestamp", "lenient_correct", "failure"),
    ]
    assert rows[1]["details"]["expected"] == "azure"
    assert rows[4]["details"]["actual_content"] == "0"


@pytest.mark.parametrize("rows", [5, [5], {"a": 1}, [{"question_id": 102, "correct": True}]])
def test_scores_of_another_program_are_kept(run, rows):
    put_tree(run / "sandbox")
    (run / "scores.json").write_text(json.dumps({"metadata": {}, "detailed_results": rows}))
    for _ in range(2):
        write_scores(run, score_run(run, AT, [f"{HOME}=sandbox"]))
    assert json.loads((run / "scores.before.json").read_text())["detailed_results"] == rows
    assert json.loads((run / "scores.json").read_text())["metadata"]["scorer"] == "dosimeter"
    assert not [path for path in run.iterdir() if path.name.startswith(".")]


def test_scores_that_cannot_be_put_leave_the_old_ones(run, monkeypatch):
    put_tree(run / "sandbox")
    scores = score_run(run, AT, [f"{HOME}=sandbox"])
    before = write_scores(run, scores).read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StudyError, match=r"scores.json: cannot be written: No space left"):
        write_scores(run, scores)
    assert (run / "scores.json").read_bytes() == before
    assert not [path for path in run.iterdir() if path.name.startswith(".")]


# --- the rest


def test_their_type_for_edits_is_scored_with_everything_else_preserved(run):
    files = cases(__file__, "edited")
    put_tree(run / "sandbox", files)
    for name, correct in (("out.json", True), ("bad.json", False)):
        key = precheck("json_targeted_edit", 1, original_file=f"{HOME}/in.json") | {
            "modified_file": f"{HOME}/{name}",
            "edit_verification": {
                "target_changes": [{"selector": "$.s[?(@.t == 'x')].e", "expected_value": 9}],
                "preservation_spec": {"exclude_paths": ["$.at"]},
            },
        }
        (run / "precheck.jsonl").write_text(lines([key]))
        (run / "responses.jsonl").write_text(lines([response(1)]))
        (result,) = score_run(run, AT, [f"{HOME}=sandbox"]).results
        assert result.strict.correct is correct, result.strict.error
    assert result.strict.details["other_changes"] == ["$.s[1].e: expected 2, found 3"]


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_prepared_template_answered_by_its_key_scores_full(name, tmp_path):
    out = tmp_path / "out"
    prepare_template(name, "5e" * 32, out, 2, lambda *_: None)
    keys = [json.loads(line) for line in (out / "precheck.jsonl").read_text().splitlines()]
    rows = []
    for key in keys:
        ids = key["question_id"], key["sample_number"]
        root = out / "sandbox" / "q{}_s{}".format(*ids)
        for path in (*key.get("files_to_check", ()), *key.get("expected_paths", ())):
            put_tree(root, {f"{path}.keep" if path.endswith("/") else path: ""})
        if "file_to_read" in key:
            put_tree(root, {key["file_to_read"]: key["expected_content"]})
        rows.append(response(*ids, key.get("expected_response", "Done.")))
    (out / "responses.jsonl").write_text(lines(rows))
    scores = score_run(out, AT)
    assert [each.strict.error for each in scores.results] == [""] * len(keys)
    assert scores.warnings == ()


def test_conversations_tell_how_many_rounds_they_took(run):
    (run / "conversations").mkdir()
    assert read_rounds(run) == {}
    statistics = {"total_messages": 9, "inference_rounds": 4, "tool_calls": 3, "tools_used": ["ls"]}
    path = run / "conversations" / "q102_s1.json"
    path.write_text(json.dumps({"statistics": {**statistics, "execution_time_seconds": 2.5}}))
    (run / "conversations" / "q102_s2.json").write_text("{}")
    assert read_rounds(run) == {"q102_s1": 4, "q102_s2": None}
    path.write_text("[]")
    with pytest.raises(StudyError, match=r"q102_s1.json: is no conversation"):
        read_rounds(run)


def test_a_key_keeps_what_the_line_says(run):
    samples = read_samples(run / "precheck.jsonl")
    assert [each.id for each in samples][:2] == [(102, 1), (102, 2)]
    assert samples[3].key.file == f"{HOME}/q402_s1/big.json"
    assert samples[3].key.expected == '{"n": 4}'
    assert samples[3].qs_id == "q402_s1"
    assert samples[6].key.paths[0].endswith("x/")


def test_the_command_prints_scores(run):
    put_tree(run / "sandbox")
    command = ["template", "score", str(run), "--remap", f"{HOME}=sandbox"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    assert "4 of 8 right strictly (50.0 %), 6 leniently (75.0 %)" in done.stdout
    assert f"wrote {run / 'scores.json'}" in done.stdout
    told = json.loads(CliRunner().invoke(main, [*command, "--json"]).stdout)
    assert told["metadata"]["correct_answers"] == 4
    assert told["by_question"]["402"]["total"] == 1
    assert [row["correct"] for row in told["detailed_results"]] == CORRECT


def test_the_command_refuses_in_one_line_and_writes_nothing(run):
    done = CliRunner().invoke(main, ["template", "score", str(run), "--remap", "/x=/"])
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"dosimeter: {run / 'precheck.jsonl'}:4: the path ")
    assert not (run / "scores.json").exists()


def test_the_command_tells_by_its_exit_code_that_verdicts_are_lacking(run):
    done = CliRunner().invoke(main, ["template", "score", str(run)])
    assert done.exit_code == 1, done.output
    assert "1 of 4 right strictly (25.0 %), 3 leniently (75.0 %)" in done.stdout
    assert "4 of the 4 questions about files are undetermined" in done.stdout
