"""Output in encodings that lack characters of our texts: replaced, never an error."""

from __future__ import annotations

import ast
import io
import json
import sys
from pathlib import Path

import pytest

from registry.provenance import PACKAGES
from study.encoding import PLAIN, replace_in_streams
from study.printing import print_records
from study.steps.init.folder import init_study
from tests.study.cli.program import run_process
from tests.study.conftest import SMALLNESS

ROOT = Path(__file__).resolve().parents[3]
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
LATIN = {"PYTHONIOENCODING": "latin-1", "LC_ALL": "C"}
STUDY = """\
study: plain
description: "ĝ – √2 ≤ 日本"
tasks: [{family: compute_average, difficulty: easy}]
seeds_per_arm: 2
models:
  honest: {provider: scripted, agent: honest, error_rate: 0.3}
waves: [[honest]]
plan: {alpha: 0.4, permutations: 199}
sandbox: {kind: local}
"""


def run(environment: dict[str, str], *arguments: str) -> tuple[int, bytes, bytes]:
    """Exit code, output and errors of the program with an environment."""
    done = run_process(*arguments, environment=environment)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("environment", "command"),
    [
        ({"LC_ALL": "C"}, "--help"),
        (ASCII, "tasks list"),
        (ASCII, "tasks show hubble_constant/easy"),
        (ASCII, "tasks show no–such"),
        (LATIN, "tasks show no–such"),
        (LATIN, "template check past"),
    ],
    ids=str,
)
def test_commands_do_not_fail_for_an_encoding(environment: dict[str, str], command: str) -> None:
    code, out, err = run(environment, *command.split())
    assert code == (2 if "no–such" in command else 0), err
    assert b"Traceback" not in err
    if environment is ASCII:
        assert out.isascii()
        assert err.isascii()
        assert out + err
    elif environment is LATIN:
        for replaced in (b"\xe2\x80", b"\\u20"):  # neither UTF-8 nor escapes
            assert replaced not in out + err


def test_plain_equivalents_stand_for_what_ascii_lacks(tmp_path: Path) -> None:
    init_study(tmp_path, STUDY)
    assert (
        run({}, "register", "--draw", "--study", str(tmp_path), "--underpowered", SMALLNESS)[0] == 0
    )
    words = ("wave", "list", "--study", str(tmp_path))
    code, plain, _ = run(ASCII, *words)
    assert code == 0
    assert plain.isascii()
    _, full, _ = run({"PYTHONUTF8": "1"}, *words)
    assert "─" in full.decode()
    assert plain.decode() == full.decode().replace("─", "-")


def test_a_table_is_as_wide_as_its_plain_equivalents(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    replace_in_streams()
    print_records([{"gap": "1…2", "next": "one"}, {"gap": "1", "next": "two"}])
    stream.flush()
    lines = stream.buffer.getvalue().decode("ascii").splitlines()  # type: ignore[attr-defined]
    first, second = (next(line for line in lines if word in line) for word in ("one", "two"))
    assert "1...2" in first
    assert first.index("one") == second.index("two")


def test_json_keeps_every_character() -> None:
    words = ("tasks", "show", "hubble_constant/easy", "--json")
    _, full, _ = run({"PYTHONUTF8": "1"}, *words)
    for environment in (ASCII, LATIN):
        code, plain, _ = run(environment, *words)
        assert code == 0
        assert json.loads(plain.decode("latin-1")) == json.loads(full.decode())


SHOWN = ("command.py", "wave_command.py", "printing.py", "options.py", "accounts.py", "live.py")


def test_our_own_characters_have_plain_equivalents() -> None:
    """Every character of a text in the program, but for those of tasks and names of people."""
    used = {
        character
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if path.name in SHOWN
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for character in node.value
        if not character.isascii()
    }
    assert {"–", "…"} <= used
    assert used - PLAIN.keys() == set()
    assert "".join(PLAIN.values()).isascii()
