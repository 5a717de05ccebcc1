"""A template in PICARD's form asks the same questions; what PICARD has no form for is named, and
nothing is written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from generators.errors import TemplateError
from generators.seed import Seed
from generators.templates.check import check_text
from generators.templates.family import template_family
from generators.templates.library import NAMES, library_text
from generators.templates.prepare import prepare
from study.extras.templates.export import export_template
from tests.cases import cases
from tests.study.cli.program import run

ROOT = Path(__file__).resolve().parents[4]
PAGE = (ROOT / "docs/template-reference.md").read_text()
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S)
SEED = Seed(bytes(range(32)))


def exported(folder: Path, text: str, name: str = "mine") -> str:
    path = folder / f"{name}.yml"
    path.write_text(text)
    return export_template(str(path), folder / "out").file.read_text()


def refusals(folder: Path, text: str) -> list[str]:
    path = folder / "mine.yml"
    path.write_text(text)
    with pytest.raises(TemplateError) as caught:
        export_template(str(path), folder / "x" / "out")
    assert not (folder / "x").exists()
    return [line.removeprefix(f"{path}:") for line in str(caught.value).splitlines()]


def same_samples(before: str, after: str) -> None:
    """Both files ask the same: with one seed, the same question, files and key."""
    first, second = (template_family("mine.yml", text) for text in (before, after))
    assert first.questions == second.questions
    for id in first.questions:
        for number in range(3):
            made = [
                prepare(family.compiled(id), SEED.child(id, number)) for family in (first, second)
            ]
            assert made[0].prompt == made[1].prompt
            assert made[0].key == made[1].key
            assert made[0].files == made[1].files


LIBRARY = {name: library_text(name) for name in sorted(NAMES)}
FORMS = cases(__file__, "forms")
EXPORTED = {0, 2, 4, 7, 8, 12}  # examples of the page that PICARD has a form for


@pytest.mark.parametrize("name", [*LIBRARY, *FORMS])
def test_an_exported_file_asks_the_same(tmp_path: Path, name: str) -> None:
    before = LIBRARY.get(name) or FORMS[name]
    same_samples(before, exported(tmp_path, before))


@pytest.mark.parametrize("index", range(len(EXAMPLES)))
def test_an_example_of_the_reference_is_exported_or_refused(tmp_path: Path, index: int) -> None:
    before = EXAMPLES[index]
    if index not in EXPORTED:
        assert refusals(tmp_path, before)
        return
    after = exported(tmp_path, before)
    assert not check_text(after, "mine.yml").errors
    if "count: [" not in before:  # a drawn count becomes a placeholder, which is drawn anew
        same_samples(before, after)


def test_what_picard_would_guess_is_written_out(tmp_path: Path) -> None:
    tests = {}
    for index, text in enumerate(FORMS.values()):
        folder = tmp_path / str(index)
        folder.mkdir()
        tests |= {
            test["question_id"]: test for test in yaml.safe_load(exported(folder, text))["tests"]
        }
    assert sorted(map(str, tests)) == [
        "7",
        "crew",
        *(f"old-rows-{rows}-column-{column}" for rows in (20, 40) for column in ("AGE-YRS", "PAY")),
        "shop",
    ]
    old = tests["old-rows-20-column-AGE-YRS"]
    question = "{{artifacts}}/{{qs_id}}/{{entity1}}.csv: "
    assert old["template"] == question + "{{number1:20:60}} of AGE_YRS, {{number1:20:60}}"
    assert "{{csv_count_where:ID:DEPT:==:HR:TARGET_FILE[file]}}" in old["expected_response"]
    (csv,) = old["sandbox_setup"]["components"]
    assert csv["content"]["rows"] == 20
    assert csv["content"]["header_types"] == ["id", "age", "lorem_words", "department"]
    assert csv["config"] == {"clutter": {"count": 2}}
    people, orders = tests["shop"]["sandbox_setup"]["components"][0]["content"]["tables"]
    assert (people["name"], orders["name"]) == ("people", "orders")
    assert orders["columns"][0] == cases(__file__, "buyer")
    assert tests["crew"]["expected_response"] == "{{json_value:captain:TARGET_FILE[crew]}}"
    crew, log = tests["crew"]["sandbox_setup"]["components"]
    assert crew["content"]["schema"]["kind"] == {
        "type": "object",
        "properties": {"type": 5, "size": {"type": "integer", "minimum": 5000, "maximum": 6000}},
    }
    assert log["content"]["schema"] == {"open": "boolean", "day": "date"}


def test_a_count_between_two_becomes_a_free_placeholder(tmp_path: Path) -> None:
    (test,) = yaml.safe_load(exported(tmp_path, EXAMPLES[7]))["tests"]
    assert test["sandbox_setup"]["components"][0]["content"]["schema"]["crew"]["count"] == (
        "{{number1:30:60}}"
    )


def test_a_pool_of_ones_own_becomes_the_pool(tmp_path: Path) -> None:
    (tmp_path / "words.yml").write_text("format: 1\npools: {default: [quokka, numbat]}\n")
    exported(tmp_path, "values: words.yml\n" + FORMS["PICARD needs no rewriting"])
    assert (tmp_path / "out/config/entity_pool.txt").read_text() == "quokka\nnumbat\n"


BASE = cases(__file__, "base")
REFUSED = cases(__file__, "refused")


def changed(old: str | tuple[str, ...], new: str | tuple[str, ...]) -> str:
    text = BASE
    pairs = [(old, new)] if isinstance(old, str) else zip(old, new, strict=True)
    for before, after in pairs:
        assert isinstance(before, str)
        assert isinstance(after, str)
        assert before in text
        text = text.replace(before, after, 1)
    return text


def test_the_file_without_a_fault_is_exported(tmp_path: Path) -> None:
    same_samples(BASE, exported(tmp_path, BASE))


@pytest.mark.parametrize("name", REFUSED)
def test_what_picard_lacks_is_one_error(tmp_path: Path, name: str) -> None:
    line, words, old, new = REFUSED[name]
    (error,) = refusals(tmp_path, changed(old, new))
    assert words in error
    assert error.startswith(f"{line}: ")


def test_all_are_listed(tmp_path: Path) -> None:
    text = changed(("rows: 20", "items: city"), ("rows: '{{number1:1:9}}'", "items: version"))
    assert [line.partition(":")[0] for line in refusals(tmp_path, text)] == ["12", "16"]


def test_the_command(tmp_path: Path) -> None:
    path, out = tmp_path / "mine.yml", tmp_path / "out"
    path.write_text(BASE + FORMS["PICARD needs no rewriting"].partition("\n")[2])
    done = run("template", "export", str(path), "--out", str(out), "--questions", "7", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"written": str(out / "config/mine.yml"), "questions": ["7"]}
    again = run("template", "export", str(path), "--out", str(out))
    assert again.exit_code == 2
    assert "is there already" in again.stderr
    path.write_text(changed("items: city", "items: version"))
    refused = run("template", "export", str(path), "--out", str(tmp_path / "other"))
    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"dosimeter: {path}:16: tests[0].sandbox_setup.components[1].")
    assert not (tmp_path / "other").exists()
