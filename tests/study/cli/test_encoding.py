"""Output in encodings that lack characters of our texts: replaced, never an error."""

from __future__ import annotations

import json

import pytest

from tests.cases import cases
from tests.study.cli.program import run_process

ASCII, LATIN = cases(__file__, "ascii"), cases(__file__, "latin")


def run(environment: dict[str, str], *arguments: str) -> tuple[int, bytes, bytes]:
    """Exit code, output and errors of the program with an environment."""
    done = run_process(*arguments, environment=environment)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(("environment", "command"), cases(__file__, "commands"), ids=str)
def test_commands_do_not_fail_for_an_encoding(environment: dict[str, str], command: str) -> None:
    code, out, err = run(environment, *command.split())
    assert code == (2 if "no–such" in command else 0), err
    assert b"Traceback" not in err
    if environment == ASCII:
        assert out.isascii()
        assert err.isascii()
        assert out + err
    elif environment == LATIN:
        for replaced in (b"\xe2\x80", b"\\u20"):  # neither UTF-8 nor escapes
            assert replaced not in out + err


def test_json_keeps_every_character() -> None:
    words = ("tasks", "show", "hubble_constant/easy", "--json")
    _, full, _ = run({"PYTHONUTF8": "1"}, *words)
    for environment in (ASCII, LATIN):
        code, plain, _ = run(environment, *words)
        assert code == 0
        assert json.loads(plain.decode("latin-1")) == json.loads(full.decode())
