"""Command lines of bash in a sandbox: the tool's own limits hold for all that one starts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from generators.task import Asset, Limits
from harness.agent.tools import use_tool
from harness.episode import ToolUse
from harness.model import ToolCall
from harness.sandboxes.sandbox import Sandbox, SandboxProvider
from tests.cases import cases

LIMITS = Limits(output_bytes=20_000)
FILES = cases(__file__, "files")


@pytest.fixture(scope="module")
def box(provider: SandboxProvider) -> Iterator[Sandbox]:
    assets = [Asset(name, "text/plain", text.encode()) for name, text in FILES.items()]
    with provider.open(assets, LIMITS) as opened:
        yield opened


def use(box: Sandbox, line: str, seconds: float = 30.0) -> ToolUse:
    call = ToolCall("c", "run_command", json.dumps({"command": line}))
    return use_tool(call, box, LIMITS, seconds, time.monotonic)


def output(box: Sandbox, line: str) -> str:
    """What a line that succeeds prints."""
    used = use(box, line)
    text, _, status = used.result.text.rpartition("[exit code ")
    assert (used.exit_code, used.limits) == (0, ()), text + status
    return text


LINES = cases(__file__, "lines")


@pytest.mark.parametrize("line", LINES)
def test_lines_mean_what_bash_makes_of_them(box: Sandbox, line: str) -> None:
    assert output(box, line) == LINES[line]


def test_each_call_begins_in_the_work_folder_without_the_last_ones_variables(box: Sandbox) -> None:
    assert output(box, "cd data; kept=1; export kept; pwd").rstrip().endswith("/data")
    assert output(box, 'ls a.csv; echo "${kept-unset}"') == "a.csv\nunset\n"


def test_a_line_has_the_environment_of_a_program(box: Sandbox) -> None:
    """And nothing of the host's: what the two differ in are bash's own variables."""
    show = "import os; print(sorted(set(os.environ) - {'_', 'SHLVL', 'PWD', 'OLDPWD'}))"
    program = box.run(("python3", "-c", show), 30.0).output.decode()
    assert output(box, f'python3 -c "{show}"') == program
    assert output(box, "shopt login_shell; echo $-").split()[1:] == ["off", "hBc"]


@pytest.mark.parametrize(("line", "code", "text"), cases(__file__, "failing"))
def test_a_line_that_fails_is_told_with_its_exit_code(
    box: Sandbox, line: str, code: int, text: str
) -> None:
    used = use(box, line)
    assert (used.exit_code, used.limits) == (code, ())
    assert text in used.result.text
    assert f"[exit code {code}, " in used.result.text


def test_nothing_is_read_from_standard_input(box: Sandbox) -> None:
    assert output(box, "cat; read -r line || echo empty") == "empty\n"


def test_one_time_limit_holds_for_the_whole_line(box: Sandbox) -> None:
    used = use(box, "sleep 0.2 | cat; trap '' TERM; sleep 100 | sleep 100 || echo no; echo no", 2.0)
    assert (used.exit_code, used.limits) == (137, ("time",))
    assert "no\n" not in used.result.text
    assert used.seconds < 20
    assert output(box, "echo on") == "on\n"


def test_one_output_cap_holds_for_the_whole_line(box: Sandbox) -> None:
    result = box.run(("bash", "-c", "seq 5000; seq 5000"), 30.0)
    assert result.output_bytes == 2 * 23_893
    assert len(result.output) <= LIMITS.output_bytes
    assert b"bytes left out" in result.output
    assert "47,786 bytes in all" in use(box, "seq 5000; seq 5000").result.text


def test_endless_programs_end_with_their_readers_or_with_the_limit(box: Sandbox) -> None:
    assert output(box, "seq 999999999 | head -c 3 | wc -c").split() == ["3"]
    used = use(box, "while true; do head -c 1M /dev/zero; done; echo no", 60.0)
    assert (used.exit_code, used.limits) == (137, ("output",))


def test_nothing_of_a_line_is_left(box: Sandbox) -> None:
    start = 'import subprocess; subprocess.Popen(["sleep", "987"], start_new_session=True)'
    look = "grep -lzx '98[7]' /proc/[0-9]*/cmdline 2> /dev/null"
    begun = time.monotonic()
    assert output(box, f"sleep 987 & python3 -c '{start}'; {look} | wc -l").split() == ["2"]
    assert time.monotonic() - begun < 20
    assert use(box, look).exit_code in (1, 2)
    assert use(box, f"python3 -c '{start}' | cat; echo no", 2.0).limits == ("time",)
    assert use(box, look).exit_code in (1, 2)
