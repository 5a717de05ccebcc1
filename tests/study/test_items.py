"""A benchmark of somebody's own, from a file to verdicts by the command line; and what becomes of
its items on the way."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from analysis.report.write import DATA
from generators.seed import Seed
from publish.leakcheck.check import find_leaks, release_needles
from registry.result_row import Arm
from study.errors import StudyError
from study.main import main
from study.protocol.pool import read_rows
from study.steps import pipeline
from study.steps.lint.later_refusals import unproved_tasks, weak_questions
from study.workspace.study import Study
from tests.harness.openai_server import Answer, Json, completion, serve
from tests.study.conftest import draw_tiny, run_wave

ITEMS = 40
WORDS = ("river", "stone", "cloud", "engine", "violin", "bridge", "lantern", "forest", "mirror")


def write_questions(path: Path) -> dict[str, str]:
    """A file as an owner has it; returns the right choices by question."""
    right = {}
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["question", "a", "b", "c", "d", "key"])
        for n in range(ITEMS):
            digits = hashlib.sha256(str(n).encode()).digest()
            words = {hashlib.sha256(digits + word.encode()).hexdigest(): word for word in WORDS}
            choices = [words[key] for key in sorted(words)]
            question = f"Which of these did sample {digits.hex()[:12]} show in run {n}?"
            rows.writerow([question, *choices[:4], "abcd"[digits[0] % 4]])
            right[question] = choices[digits[0] % 4]
    return right


@dataclass(frozen=True)
class Owned:
    study: Study
    shown: str  # what init printed
    right: dict[str, str]


def dosimeter(*arguments: str | Path) -> str:
    result = CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def owned(tmp_path_factory: pytest.TempPathFactory) -> Owned:
    """A study from file to report. The new model knows what was published, and else guesses with
    some skill as the others do; the file is gone once its items are drawn."""
    folder = tmp_path_factory.mktemp("owned")
    pool, place = folder / "questions.csv", folder / "study"
    right = write_questions(pool)
    shown = dosimeter("init", place, "--items", pool)
    known: set[str] = set()

    def answer(request: Json) -> Answer:
        prompt = request["messages"][1]["content"]
        question = next(line for line in prompt.split("\n") if line in right)
        letters = dict(re.findall(r"^([A-D])\. (\w+)$", prompt, re.M))
        luck = hashlib.sha256(f"{request['model']}/{question}".encode()).digest()[0]
        knows = luck < 100 or (request["model"] == "my-model" and question in known)
        letter = next(k for k, text in letters.items() if (text == right[question]) == knows)
        return completion(f'It is so.\n<answer>\n{{"answer": "{letter}"}}\n</answer>')

    with serve(always=answer) as served:
        file = place / "study.yaml"
        text = file.read_text().replace("http://127.0.0.1:8000/v1", served.url)
        text = re.sub(r"^  ([\w-]+): (.*)name-at-the-server", r"  \1: \2\1", text, flags=re.M)
        # Stamps need the network; a fixed draw gives the same verdict each time.
        text = re.sub(r"^stamps:.*$", f'entropy: "fixed:{1:064x}"', text, flags=re.M)
        file.write_text(text)
        study = pipeline.open_study(place)
        draw_tiny(study)
        pipeline.register(study)
        pool.unlink()
        run_wave(study, 0, parallel=4)
        dosimeter("publish", "--study", place)
        known |= {question for question in right if question in "\n".join(released(study))}
        run_wave(study, 1, parallel=4)
        dosimeter("report", "--study", place)
    return Owned(pipeline.open_study(place), shown, right)


def released(study: Study) -> list[str]:
    """The prompts of the release, as a stranger opens it."""
    from datasets import load_dataset

    cache = str(study.folder.parent / "cache")
    release = str(study.folder / "release")
    return list(load_dataset(release, split="public", cache_dir=cache)["prompt"])


def asked(study: Study, right: dict[str, str], arm: Arm) -> set[str]:
    """The questions of an arm."""
    generate = study.protocol.catalog.family("items").generate
    prompts = [
        generate(each.difficulty, Seed.from_hex(each.seed)).brief.prompt
        for each in study.entries()
        if each.arm is arm
    ]
    return {question for question in right if question in "\n".join(prompts)}


def test_the_pool_is_used_up_and_split_in_halves(owned: Owned) -> None:
    public, private = (asked(owned.study, owned.right, arm) for arm in Arm)
    assert len(public) == len(private) == ITEMS / 2
    assert public | private == {*owned.right}
    assert public == {each for each in owned.right if each in "\n".join(released(owned.study))}


def test_who_knows_what_was_published_is_found(owned: Owned) -> None:
    (path,) = owned.study.folder.rglob(DATA)
    (verdict,) = json.loads(path.read_text())["models"]
    assert (verdict["model"], verdict["verdict"]) == ("my-model", "contaminated")


def test_init_shows_three_questions_as_models_get_them_with_their_keys(owned: Owned) -> None:
    shown = owned.shown.split("\n\n")[:3]
    for text, (question, choice) in zip(shown, owned.right.items(), strict=False):
        letter = text.split("→ ")[1].strip()
        assert text.startswith(question)
        assert f"\n{letter}. {choice}\n" in text


def test_no_private_question_lies_anywhere_in_clear(owned: Owned) -> None:
    """Its number stands in no file, as it is or in base64 or hexadecimal."""
    folder, private = owned.study.folder.parent, asked(owned.study, owned.right, Arm.PRIVATE)
    names = [re.findall(r"sample (\w{12}) ", question)[0].encode() for question in private]
    wanted = [form for name in names for form in (name, name.hex().encode(), b64encode(name))]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 2 * ITEMS
    for path in files:
        data = path.read_bytes()
        assert not [form for form in wanted if form in data], path


@pytest.mark.parametrize("spell", [str, str.upper, lambda text: b64encode(text.encode()).decode()])
def test_the_leak_check_finds_a_private_question(
    owned: Owned, spell: Callable[[str], str], tmp_path: Path
) -> None:
    study = owned.study
    needles = release_needles(study.entries(), study.protocol.catalog.family)
    one = min(asked(study, owned.right, Arm.PRIVATE))
    clean = tmp_path / "clean.md"
    clean.write_text(min(asked(study, owned.right, Arm.PUBLIC)), encoding="utf-8")
    assert find_leaks(tmp_path, needles) == ()
    (tmp_path / "note.md").write_text(f"as in {spell(one)} so", encoding="utf-8")
    assert {leak.file for leak in find_leaks(tmp_path, needles)} == {"note.md"}


def test_everything_is_verified_with_the_key_and_without(owned: Owned) -> None:
    assert "holds" in dosimeter("verify", "--study", owned.study.folder)


def test_the_files_of_a_folder_are_one_pool_with_the_same_columns(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"no file \.csv, \.jsonl, \.parquet"):
        read_rows(tmp_path)
    (tmp_path / "b.csv").write_text("question,key\n2 + 2?,4\n")
    (tmp_path / "a.jsonl").write_text('{"key": "2", "question": "1 + 1?"}\n')
    (tmp_path / "notes.txt").write_text("no items\n")
    assert [row["question"] for row in read_rows(tmp_path)] == ["1 + 1?", "2 + 2?"]
    (tmp_path / "c.csv").write_text("question,answer\n3 + 3?,6\n")
    with pytest.raises(StudyError, match=r"c\.csv: other columns .*: answer, key"):
        read_rows(tmp_path)
    (tmp_path / "c.csv").write_text("question;answer\n3 + 3?;6\n")
    with pytest.raises(StudyError, match=r"c\.csv:1: is separated by ';': write it with commas"):
        read_rows(tmp_path)


@pytest.mark.parametrize("copies", [1, 3])
def test_near_duplicates_are_shown_and_many_of_them_need_a_reason(
    copies: int, tmp_path: Path
) -> None:
    pool, place = tmp_path / "questions.csv", tmp_path / "study"
    texts = [hashlib.sha256(bytes([n])).digest().hex(" ", 2) + " is?" for n in range(150)]
    texts += [f"{text} so" for text in texts[:copies]]
    pool.write_text("question,key\n" + "".join(f"{text},k{n}\n" for n, text in enumerate(texts)))
    dosimeter("init", place, "--items", pool)
    protocol = pipeline.open_study(place).protocol
    few, many = [*weak_questions(protocol)], dict(unproved_tasks(protocol, lambda *_: None))
    (problem,) = many["questions.csv"] if copies > 1 else [what for _, what in few]
    assert f"rows 1 and 151 ('{texts[0][:90]}" in problem
    assert (len(few), len(many)) == ((0, 1) if copies > 1 else (1, 0))


@pytest.mark.docker  # files are for agents
def test_an_input_file_that_no_release_may_hold_is_refused_with_its_row(tmp_path: Path) -> None:
    pool, place = tmp_path / "questions.csv", tmp_path / "study"
    write_questions(pool)
    pool.write_text(pool.read_text("utf-8").replace("a,b,c,d", "Wahl 1,Wahl 2,Wahl 3,Wahl 4", 1))
    assert "\nA. " in dosimeter("init", place, "--items", pool)
    (tmp_path / "notes.txt").write_text("nothing", encoding="utf-8")
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8\xff\xe0")
    head, *rows = pool.read_text(encoding="utf-8").splitlines()
    files = ["notes.txt"] + ["notes.txt;photo.jpg"] * (len(rows) - 1)
    lines = [f"{head},files", *(f"{row},{names}" for row, names in zip(rows, files, strict=True))]
    pool.write_text("\n".join(lines), encoding="utf-8")
    protocol = place / "study.yaml"
    text = protocol.read_text(encoding="utf-8").replace("kind: local", "kind: docker")
    protocol.write_text(text.replace("    answer: key\n", "    answer: key\n    files: files\n"))
    for command in (["lint", str(protocol)], ["register", "--study", str(place)]):
        result = CliRunner().invoke(main, command)
        assert result.exit_code != 0
        says = "row 2: photo.jpg: it could not be released: neither UTF-8 text, nor a PNG image"
        assert says in " ".join(result.output.split())
