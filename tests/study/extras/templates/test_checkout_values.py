"""``dosimeter template values``: a values file from a PICARD checkout, read as text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from generators.seed import Seed
from generators.templates.family import template_family
from generators.templates.prepare import prepare
from study.errors import StudyError
from study.extras.templates.checkout_values import read_checkout, write_checkout_values
from study.protocol.yaml import read_template
from tests.cases import cases
from tests.study.cli.program import refusal, run

# The shapes that lists of values have in data generators; its words are ours. Running it would
# leave a file behind.
GENERATOR = cases(__file__, "generator")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "data_generator.py").write_text(GENERATOR)
    (folder / "config").mkdir()
    (folder / "config" / "entity_pool.txt").write_text("# words\nquokka\n\nnumbat\n../etc\n")
    return folder


def test_the_lists_have_the_types_that_they_stand_under(checkout: Path) -> None:
    values = read_checkout(checkout)
    assert values.pools == {"default": ["quokka", "numbat"]}
    assert values.types == cases(__file__, "types")
    assert values.left_out == 2
    assert not (checkout / "src" / "was_run").exists()


def test_a_template_draws_the_values_of_the_file(checkout: Path) -> None:
    folder = checkout.parent
    done = run("template", "values", "--from", str(checkout), "--out", str(folder / "v.yml"))
    assert done.exit_code == 0, done.output
    (folder / "mine.yml").write_text(cases(__file__, "drawing"))
    family = template_family(*read_template(folder, "mine.yml"))
    prompts = {
        prepare(family.compiled("1"), Seed(bytes([i]) * 32)).prompt.split()[:2][0]
        for i in range(40)
    }
    assert prompts == {"quokka", "numbat"}
    words = prepare(family.compiled("1"), Seed(bytes(32))).prompt.split()
    assert words[1] in ("Oakville", "Elmton")
    name, domain = words[2].split("@")
    assert name in {f"{a}.{b}" for a in ("ada", "bob") for b in ("stone", "hill")}
    assert domain in ("mail.test", "post.test")


def test_the_command_reports_what_it_wrote_as_json(checkout: Path) -> None:
    out = checkout.parent / "v.yml"
    done = run("template", "values", "--from", str(checkout), "--out", str(out), "--json")
    report = json.loads(done.stdout)
    assert report["values"]["city"] == 2
    assert report["values"]["pool default"] == 2
    assert report["left_out"] == 2


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("src/data_generator.py", b"x = [\n'a\xff',\n]", "data_generator.py:2: not UTF-8"),
        ("src/data_generator.py", b"def f(:\n", "data_generator.py:1: no Python"),
        ("src/data_generator.py", b"x = '\0'", "data_generator.py:1: no Python"),
        ("src/data_generator.py", b"x = " + b"[" * 5000, "data_generator.py:1: no Python"),
        ("config/entity_pool.txt", b"a\nb\n\xc3(", "entity_pool.txt:3: not UTF-8"),
        ("config/entity_pool.txt", b"word\n" * 1_000_000, "5000000 bytes"),
        ("config/entity_pool.txt", b"word\n" * 100_000, "more than 90000 values"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_nothing_written(
    checkout: Path, name: str, data: bytes, message: str
) -> None:
    (checkout / name).write_bytes(data)
    out = checkout.parent / "v.yml"
    assert message in refusal("template", "values", "--from", str(checkout), "--out", str(out))
    assert sorted(path.name for path in checkout.parent.iterdir()) == ["checkout"]


def test_a_folder_without_lists_and_a_file_that_is_there_are_refused(checkout: Path) -> None:
    with pytest.raises(StudyError, match="no PICARD checkout"):
        write_checkout_values(checkout / "config" / "none", checkout / "v.yml")
    out = checkout / "v.yml"
    write_checkout_values(checkout, out)
    before = out.read_bytes()
    with pytest.raises(StudyError, match="is there already"):
        write_checkout_values(checkout, out)
    assert out.read_bytes() == before
    with pytest.raises(StudyError, match=r"ends in \.yml"):
        write_checkout_values(checkout, checkout / "v.txt")
