"""Malformed templates and values files: one error each, with file and line, from every command that
reads them, and nothing written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import process_time

import pytest

from tests.cases import cases
from tests.study.cli.program import run

TEMPLATE = cases(__file__, "template")
VALUES = cases(__file__, "values")
BIDI = "\u202e"
MILLION = 1_000_000
OTHERS = "; mend it, or choose among the other questions: "  # of commands that need all
LAUGHS = "a: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)


@dataclass(frozen=True)
class Fault:
    """A change of one of the two files, or all of its bytes, and the error that it deserves."""

    line: int
    words: str
    change: tuple[str, str] | bytes
    of_values: bool = False

    def files(self) -> dict[str, bytes]:
        """The bytes of both files, the fault in one of them."""
        text = VALUES if self.of_values else TEMPLATE
        if isinstance(self.change, bytes):
            data = self.change
        else:
            assert self.change[0] in text
            data = text.replace(*self.change, 1).encode()
        return {"mine.yml": TEMPLATE.encode(), "words.yml": VALUES.encode()} | {self.name: data}

    @property
    def name(self) -> str:
        """The file that the fault is in."""
        return "words.yml" if self.of_values else "mine.yml"


def fault(
    line: int, words: str, old: str | bytes, new: str = "", *, of_values: bool = False
) -> Fault:
    return Fault(line, words, old if isinstance(old, bytes) else (old, new), of_values)


def bare(setup: str, expected: str = "{{file_line:1:TARGET_FILE}}") -> bytes:
    """A template with one question, its sandbox on line 7."""
    return (
        "tests:\n- question_id: 1\n  samples: 2\n  template: '{{entity1}}'\n"
        f"  scoring_type: stringmatch\n  expected_response: '{expected}'\n{setup}"
    ).encode()


TEMPLATE_FAULTS = {
    name: fault(*case) for name, case in cases(__file__, "template_faults").items()
} | {
    "two documents": fault(30, "a second document starts here", f"{TEMPLATE}---\n".encode()),
    "nothing": fault(1, "a list under `tests:`, not nothing", b""),
    "laughs": fault(5, "at most 100000 values, aliases too", LAUGHS.encode()),
    "100,000 brackets": fault(1, "nested deeper than 32", b"tests: " + b"[" * 100_000),
    "50 MB": fault(1, "at most 4000000", b"# " + b"x" * 50 * MILLION),
    "for_each of 50,000": fault(
        14, "50000 values; at most 100", "[20, 30]", f"[{', '.join(map(str, range(50_000)))}]"
    ),
    "for_each of 5,000 combinations": fault(
        14,
        "for_each: 6400 strata; at most 100",
        "{rows: [20, 30]}",
        f"{{rows: {[*range(80)]}, count: {[*range(80)]}}}",
    ),
    "a long pattern": fault(
        24, "at most 200", "items: city", f"items: {{type: string, pattern: '{'(a|b)*' * 5000}'}}"
    ),
    "spaces after values": fault(1, "is no YAML file", "words.yml", f'a{" " * 3 * MILLION}"'),
    "10^6 braces in a path": fault(
        7,
        "is too long",
        bare(f"  sandbox_setup: {{type: create_tree, target_file: {'a' * MILLION}}}"),
    ),
    "10^6 quotes": fault(6, "is never closed", bare("", "{{csv_count:" + '"' * MILLION + "}}")),
    "Latin-1": fault(5, "byte 0xe9 in column 14", TEMPLATE.replace("How", "é").encode("latin-1")),
    "UTF-16": fault(1, "is UTF-16; write it as UTF-8", TEMPLATE.encode("utf-16")),
}
VALUE_FAULTS = {
    name: fault(*case, of_values=True) for name, case in cases(__file__, "value_faults").items()
} | {
    "a weight of 399 digits": fault(
        4, "is no share", "0.9, 0.1", f"{'9' * 399}, 0.1", of_values=True
    ),
    "Latin-1": fault(
        3, "byte 0xe9 in column 26", VALUES.replace("Dye", "Dé").encode("latin-1"), of_values=True
    ),
}
FAULTS = {f"template: {name}": case for name, case in TEMPLATE_FAULTS.items()} | {
    f"values: {name}": case for name, case in VALUE_FAULTS.items()
}
# Faults that only a sample shows: `check` adds of how many.
IN_SAMPLES = {"SQL of a JSON file", "a range of rows of 10^9"}
IN_ALL = {
    *("template: nothing", "template: 10^6 quotes", "template: a function", "template: Latin-1"),
    *("values: a key", "values: a null", "values: bidi in a value"),
}
MOST_SECONDS = 20.0  # of CPU for the four commands; of the slowest, 2 are used
COMMANDS = ("check", "prepare", "run", "export")


def refused(command: str, path: Path) -> list[str]:
    """The error lines of a command that refuses a file."""
    out = path.parent / "new" / "out"
    options = {
        "prepare": ("--seed", "0" * 64),
        "run": ("--server", "http://127.0.0.1:9"),
        "export": (),
    }
    written = ("--out", str(out), *options[command]) if command in options else ()
    done = run("template", command, str(path), *written)
    assert done.exit_code == 2, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
    if command != "check":
        assert not done.stdout
        return [line.removeprefix("dosimeter: ") for line in done.stderr.splitlines()]
    assert not done.stderr
    errors = [line for line in done.stdout.splitlines() if line.startswith("error ")]
    return [line.removeprefix("error ") for line in errors]


@pytest.fixture
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """The questions without a fault are not what is tested here."""
    monkeypatch.setattr("generators.templates.check.SAMPLES", 4)


def test_the_files_without_a_fault_are_taken(tmp_path: Path, few_samples: None) -> None:
    (tmp_path / "mine.yml").write_text(TEMPLATE)
    (tmp_path / "words.yml").write_text(VALUES)
    assert run("template", "check", str(tmp_path / "mine.yml")).exit_code == 0
    assert FAULTS.keys() > IN_ALL


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_error_and_nothing_is_written(
    tmp_path: Path, few_samples: None, name: str
) -> None:
    case = FAULTS[name]
    for file, data in case.files().items():
        (tmp_path / file).write_bytes(data)
    before = process_time()
    in_samples = name.partition(": ")[2] in IN_SAMPLES
    # All commands read a file alike: the kinds of fault in one, some faults in all of them.
    commands = COMMANDS[:-1] if in_samples else COMMANDS if name in IN_ALL else COMMANDS[:1]
    said = {command: refused(command, tmp_path / "mine.yml") for command in commands}
    assert process_time() - before < MOST_SECONDS
    for command, lines in said.items():
        (line,) = lines
        said[command] = [line.partition(OTHERS)[0]]
        assert line.startswith(f"{tmp_path / case.name}:{case.line}: "), line
        assert case.words in line
        assert len(line) < 1000
        assert line.isprintable(), "controls are written as escapes"
        assert "Traceback" not in line
    if not in_samples:
        assert len(set(map(tuple, said.values()))) == 1
    assert {each.name for each in tmp_path.iterdir()} == case.files().keys()


@pytest.mark.parametrize(
    ("name", "words"), [*cases(__file__, "bad_names"), (f"{'a' * 300}.yml", "File name too long")]
)
def test_a_file_by_a_bad_name_is_one_error(
    tmp_path: Path, few_samples: None, name: str, words: str
) -> None:
    (tmp_path / "words.yml").write_text(VALUES)
    (tmp_path / "folder").mkdir()
    if "missing" not in name and name != "folder" and len(name) < 255:
        (tmp_path / name).write_text(TEMPLATE)
    before = {each.name for each in tmp_path.iterdir()}
    said = [refused(command, tmp_path / name) for command in COMMANDS]
    assert said[0] == said[1] == said[2] == said[3]
    (line,) = said[0]
    assert words in line
    assert line.count("No such file") <= 1
    assert line.isprintable()
    assert {each.name for each in tmp_path.iterdir()} == before


def test_a_sample_without_a_key_leaves_no_folder_above_its_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yml"
    csv = "{type: create_csv, target_file: a.csv, content: {headers: [A], rows: 2}}"
    path.write_bytes(bare(f"  sandbox_setup: {csv}\n", "{{csv_sum:B:TARGET_FILE}}"))
    out = tmp_path / "x" / "y" / "out"
    done = run("template", "prepare", str(path), "--seed", "0" * 64, "--out", str(out))
    assert done.exit_code == 2
    assert done.stderr.startswith(f"dosimeter: {path}:6: tests[0].expected_response: ")
    assert [each.name for each in tmp_path.iterdir()] == ["mine.yml"]
