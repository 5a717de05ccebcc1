"""Tables on narrow terminals and in pipes: no cell is cut off."""

from __future__ import annotations

import os
import pty
import re
import sys
from collections.abc import Callable

import pytest

from study.cli.output import print_records

ROWS = [
    {
        "model": f"a-model-with-a-long-name-{number}",
        "basis": "12 pilots",
        "input tokens": "1,000,000 … 2,000,000",
        "output tokens": "100,000 … 200,000",
        "USD": "1.00 … 2.00",
        "episodes": 1234567,
        "notes": ["a sentence that goes on for a while", "and another one"],
    }
    for number in range(3)
]
CELLS = ["1,000,000", "2,000,000", "100,000", "200,000", "1.00", "2.00", "1234567", "another", "12"]


def on_terminal(width: int, show: Callable[[], None]) -> str:
    """The output of a function in a process of its own, on a terminal of a width."""
    process, terminal = pty.fork()
    if process == 0:
        try:
            os.environ.update(COLUMNS=str(width), NO_COLOR="1", TERM="xterm")
            sys.stdout = os.fdopen(1, "w", encoding="utf-8")
            sys.__stdout__ = sys.stdout
            show()
            sys.stdout.flush()
        finally:
            os._exit(0)
    written = b""
    try:
        while part := os.read(terminal, 1 << 16):
            written += part
    except OSError:  # how the end of a terminal is reported
        pass
    os.waitpid(process, 0)
    os.close(terminal)
    return re.sub(r"\x1b\[\d*m", "", written.decode().replace("\r", ""))


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140])
def test_no_model_and_no_number_is_cut_off_on_a_terminal(width: int) -> None:
    text = on_terminal(width, lambda: print_records(ROWS, title="What wave 0 still owes"))
    assert "What wave 0 still owes" in text
    for number in range(3):
        assert f"a-model-with-a-long-name-{number}" in text
    for cell in CELLS:
        assert text.count(cell) == 3 * sum(cell in str(v) for v in ROWS[0].values()), (cell, text)
    assert max(map(len, text.splitlines())) <= width, "the terminal would wrap lines itself"


def test_a_narrow_terminal_gets_lines_of_name_and_value() -> None:
    text = on_terminal(50, lambda: print_records(ROWS[:1]))
    assert text.splitlines()[0] == "model a-model-with-a-long-name-0"
    assert "  USD: 1.00 … 2.00" in text.splitlines()


def test_a_pipe_gets_every_row_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{**row, "text": "a long sentence, " * 20 + "its end"} for row in ROWS]
    print_records(rows, title="Long")
    lines = [line for line in capsys.readouterr().out.splitlines() if "a-model" in line]
    assert len(lines) == 3
    for line in lines:
        assert line.rstrip().endswith("its end")
        assert re.search(r"1,000,000 … 2,000,000 .*100,000 … 200,000 .*1234567", line)


def test_an_empty_table_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_records([], title="Waves")
    assert capsys.readouterr().out == "Waves\nnone\n"
