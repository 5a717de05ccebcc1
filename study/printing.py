"""Output that commands share: tables to read, JSON for scripts. Progress goes to stderr."""

from __future__ import annotations

import dataclasses
import json
import logging
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TextIO

import click

from harness.logs import log_formatter

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table
    from rich.text import Text

Watch = Callable[[str, int, int], None]  # what, done, of
LOG_SECONDS = 30.0  # between two lines of progress where no terminal is
_WIDE = 80  # columns of a terminal that has a bar beside the words
_UNBOUNDED = 100_000  # columns of a file or a pipe


class Exit(IntEnum):
    """The exit codes of every command: docs/reference/cli.md."""

    DONE = 0
    OWED = 1
    BAD_INPUT = 2
    BROKEN = 3
    INTERRUPTED = 130


def exit_by(complete: bool) -> NoReturn:
    """Exit with 0 for complete work, and with 1 if some is owed or has failed."""
    sys.exit(Exit.DONE if complete else Exit.OWED)


# --- Output ---


def stdout(width: int | None = None) -> Console:
    """Return the console for results. In a file or a pipe, lines are as wide as ``width``."""
    from rich.console import Console  # not for --help, which is to be fast

    return Console(highlight=False, width=None if sys.stdout.isatty() else width or 140)


def stderr() -> Console:
    """Return the console for progress."""
    from rich.console import Console

    return Console(stderr=True)


def styled(text: str, style: str = "") -> Text:
    """Return a text without markup in a style."""
    from rich.text import Text

    return Text(text, style)


def print_line(text: str, label: str = "", style: str = "") -> None:
    """Print a text without markup, after a label in a style. A terminal gets lines that are broken
    between words, a file or a pipe a single line."""
    line = styled("").append(label, style).append(" " if label and text else "").append(text)
    stdout().print(line, soft_wrap=not sys.stdout.isatty())


def range_words(low: float, high: float | None, digits: int) -> str:
    """Return a range of numbers that may have no upper bound."""
    return f"{low:,.{digits}f} … {'no bound' if high is None else f'{high:,.{digits}f}'}"


def print_note(text: str) -> None:
    """Print a note on stderr, as ``print_line`` prints a text."""
    console = stderr()
    console.print(styled(f"note: {text}"), soft_wrap=not console.is_terminal, highlight=False)


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to what is stderr at that moment: while a bar or a table is shown, above it."""

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, stream: TextIO) -> None:
        pass  # as the base class sets it


@contextmanager
def show_logs(level: int) -> Iterator[None]:
    """Write the logs of study and harness to stderr, from a level on. They hold counts, names and
    places, and nothing of an instance, an answer or a key."""
    handler = _StderrHandler()
    handler.setFormatter(log_formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    loggers = [logging.getLogger(package) for package in ("study", "harness")]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            logger.setLevel(logging.NOTSET)


def print_json(value: Any) -> None:
    """Print a value as indented JSON, with escapes unless stdout is UTF-8."""
    utf8 = (sys.stdout.encoding or "").lower() == "utf-8"
    print(json.dumps(value, indent=2, ensure_ascii=not utf8))


def print_records(
    records: Sequence[Mapping[str, Any]],
    as_json: bool = False,
    title: str | None = None,
    right: Collection[str] = (),
) -> None:
    """Print rows that share their keys as a table without frames, or as JSON. Columns of numbers
    and those named in ``right`` are aligned to the right; a cell may be a styled Text.

    Nothing is cut off: a file or a pipe gets the whole width, and a terminal that is too narrow
    for the columns gets a block of lines for each row."""
    if as_json:
        print_json(list(records))
        return
    if title:
        print_line("", title, "bold")
    if not records:
        print_line("none")
        return
    console, table = stdout(_UNBOUNDED), _table(records, right)
    whole = console.options.update(max_width=_UNBOUNDED)
    if console.measure(table, options=whole).minimum > console.width:
        _print_blocks(records)
    else:
        console.print(table)


def _table(records: Sequence[Mapping[str, Any]], right: Collection[str]) -> Table:
    """Return a table, of whose texts the widest alone is broken into lines, between words."""
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.table import Table

    columns = {name: [record[name] for record in records] for name in records[0]}
    cells = {name: [*map(_cell, values)] for name, values in columns.items()}
    widths = {
        name: max(cell_len(line) for text in (name, *texts) for line in str(text).split("\n"))
        for name, texts in cells.items()
    }
    numbers = {
        name
        for name, values in columns.items()
        if name in right or all(isinstance(value, int | float) for value in values)
    }
    broken = max(columns.keys() - {*numbers, "model", "step"}, key=widths.__getitem__, default="")
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name, width in widths.items():
        justify: Literal["left", "right"] = "right" if name in numbers else "left"
        heading = name.replace("_", " ")
        table.add_column(heading, justify=justify, width=None if name == broken else width)
    for row in zip(*cells.values(), strict=True):
        table.add_row(*row)
    return table


def _print_blocks(records: Sequence[Mapping[str, Any]]) -> None:
    """Print each row as lines of name and value, the first of them as a heading."""
    for number, record in enumerate(records):
        if number:
            print_line("")
        (first, heading), *rest = record.items()
        print_line(_cell(heading).plain, first.replace("_", " "), "bold")
        for name, value in rest:
            line = styled(f"  {name.replace('_', ' ')}: ").append_text(_cell(value))
            stdout().print(line, overflow="fold")


def _cell(value: Any) -> Text:
    if value is None:
        return styled("–")
    if isinstance(value, float):
        return styled(f"{value:.4g}")
    if isinstance(value, list | tuple):
        return styled(", ".join(map(str, value)))
    return styled(str(value)) if isinstance(value, str | int) else value


def print_step(record: Any, as_json: bool, summary: str, fresh: bool) -> None:
    """Print the record of a step, with a note if it was done before."""
    if as_json:
        print_json(dataclasses.asdict(record))
    else:
        print_line(summary + ("" if fresh else " (done already; nothing changed)"))


def wants_json() -> bool:
    """Whether the program was called with --json."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.find_root().params.get("as_json"))


@contextmanager
def progress_watch(step: str) -> Iterator[Watch]:
    """Show a bar on stderr from the first progress on, so that an error message stands by itself.
    It is fed with (part, done, of); a part without a name is the ``step``. Without a terminal,
    print a line every LOG_SECONDS; nothing with --json."""
    console = stderr()
    if wants_json():
        yield lambda part, done, of: None
    elif not console.is_terminal:
        yield _print_periodically(step, console)
    else:
        bar = progress_bar(console, remaining=console.width >= _WIDE)

        def show(part: str, done: int, of: int) -> None:
            move_bar(bar, part or step, done, of)
            bar.start()

        try:
            yield show
        finally:
            if bar.tasks:  # stopping one that never began prints an empty line
                bar.stop()


def progress_bar(console: Console, remaining: bool = False) -> Progress:
    """Return a bar for one task, which ``move_bar`` feeds, with the time that it has taken and, if
    wanted, an estimate of the ``remaining`` one."""
    from rich import progress

    return progress.Progress(
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}", markup=False),
        *([progress.BarColumn()] if console.width >= _WIDE else []),
        progress.TaskProgressColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        *([progress.TimeRemainingColumn()] if remaining else []),
        console=console,
    )


def move_bar(bar: Progress, what: str, done: int, of: int) -> None:
    """Show the progress of a step in a bar; ``of`` is 0 if it is not known."""
    if not bar.tasks:
        bar.add_task(what)
    task = bar.tasks[0]
    # `update` would keep the total of the step before, and the time at which that was done.
    task.total, task.finished_time = of or None, None
    bar.update(task.id, description=what, completed=done)


def _print_periodically(step: str, console: Console) -> Watch:
    printed = time.monotonic()

    def show(part: str, done: int, of: int) -> None:
        nonlocal printed
        if time.monotonic() - printed >= LOG_SECONDS:
            console.print(count_words(part or step, done, of), soft_wrap=True)
            printed = time.monotonic()

    return show


def count_words(what: str, done: int, of: int) -> str:
    """Return the progress of a step on a line."""
    return f"{what}: {done} of {of}" if of else f"{what}: {done}" if done else what
