"""Options and output that commands share: tables to read, JSON for scripts. Progress goes to
stderr."""

from __future__ import annotations

import dataclasses
import functools
import logging
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TextIO

import click

from analysis.report.report import report_json
from study.encoding import plain_json, plain_text
from study.errors import StudyError
from study.workspace.address import open_study, store_address

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from analysis.report.report import Report
    from harness.spending.budget import Account
    from registry.ledger.chain import Entry
    from registry.ledger.records import JudgePin, ModelPin
    from registry.verify.findings import Verification
    from study.protocol.protocol import Protocol
    from study.steps.publish.release import Preview

Watch = Callable[[str, int, int], None]  # what, done, of
LOG_SECONDS = 30.0  # between two lines of progress where no terminal is
PATH = click.Path(path_type=Path)
_WIDE = 80  # columns of a terminal that has a bar beside the words
_GAP = 2  # characters between two columns, or beside the first and the last
_UNBROKEN = 24  # characters of a word that a narrow column does not break; of models, all

_VERDICT_STYLES = {
    "contaminated": "bold red",
    "no material inflation": "green",
    "inconclusive": "yellow",
    "withheld": "magenta",
}

# --- Options ---

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for a script.")
dirty_option = click.option(
    "--allow-dirty",
    is_flag=True,
    help="Go on with uncommitted changes. The ledger records it and the report shows it.",
)
parallel_option = click.option(
    "--parallel", type=click.IntRange(1, 256), default=4, show_default=True, help="Calls at once."
)


def complete_models(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the names of the study's models that begin like this, for the shell's completion."""
    return _complete(context, incomplete, lambda study: [pin.name for pin in study.models])


def complete_judges(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the names of the study's judges that begin like this, for the shell's completion."""
    return _complete(context, incomplete, lambda study: [pin.name for pin in study.judges])


def complete_strata(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return family/difficulty of each task of the catalogue that begins like this."""
    from generators.task import DIFFICULTIES

    families = complete_families(context, parameter, incomplete.partition("/")[0])
    names = [f"{family}/{level}" for family in families for level in DIFFICULTIES]
    return [name for name in names if name.startswith(incomplete)]


def complete_families(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the task families of the catalogue that begin like this."""
    from generators.catalog import INSTALLED

    try:
        names = sorted({entry.partition("@")[0] for entry in INSTALLED.entries()})
    except Exception:  # a broken plug-in must not write into the user's command line
        return []
    return [name for name in names if name.startswith(incomplete)]


def _complete(
    context: click.Context, incomplete: str, names: Callable[[Protocol], list[str]]
) -> list[str]:
    """Return names in the study.yaml of --study, or here; nothing if it cannot be read. What stands
    before the last comma is kept."""
    from study.protocol.protocol import read_protocol

    before, comma, word = incomplete.rpartition(",")
    try:
        known = names(read_protocol(Path(context.params.get("place") or ".")))
    except Exception:  # an error must not be written into the user's command line
        return []
    return [f"{before}{comma}{name}" for name in known if name.startswith(word)]


def study_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add --study to a command, which gets the opened study as its parameter ``study``."""
    return _study_option(command, "The study's folder, or the address of its store.")


def folder_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add --study to a command that takes no address, since it writes files or begins a study."""
    return _study_option(command, "The study's folder, which holds study.yaml.", writes=True)


def _study_option(
    command: Callable[..., None], text: str, writes: bool = False
) -> Callable[..., None]:
    @click.option(
        "--study",
        "place",
        default=".",
        show_default=True,
        type=click.Path(),
        metavar="PATH" if writes else "PLACE",
        help=text,
    )
    @functools.wraps(command)
    def with_study(place: str, **options: Any) -> None:
        if writes and store_address(place) is not None:
            name = click.get_current_context().command_path
            raise StudyError(
                f"`{name}` needs the study's folder, and {place} is the address of a store: "
                "give the folder that holds study.yaml"
            )
        command(study=open_study(place), **options)

    return with_study


def models_option(of: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option that names some models, ``of`` a study or wave in its help."""
    return click.option(
        "--model",
        "models",
        multiple=True,
        metavar="NAME",
        shell_complete=complete_models,
        help=f"Of {of}; more than once for more. Default: all.",
    )


def cluster_address(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    """Return the address of a Ray cluster that an option gives. Raises BadParameter."""
    from study.protocol.sections import CLUSTER

    if value is None or re.fullmatch(CLUSTER, value):
        return value
    raise click.BadParameter(
        f"{value!r} is no address of a Ray cluster: give auto, HOST:PORT or ray://HOST:PORT"
    )


def cluster_options(when: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the options on where a sweep runs; their help starts with ``when`` they count."""
    options = (
        click.option(
            "--address",
            callback=cluster_address,
            show_default="start one here",
            help=f"{when}Ray cluster: auto, HOST:6379 or ray://HOST:10001.",
        ),
        click.option(
            "--workers",
            show_default="study.yaml's, else 1",
            type=click.IntRange(1),
            help=f"{when}Ray workers; one a node is enough.",
        ),
        click.option(
            "--parallel",
            show_default="study.yaml's, else 6",
            type=click.IntRange(1, 1024),
            help=f"{when}Episodes at once in a worker.",
        ),
    )

    def add(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def unknown_price_option(models: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option that allows paid calls of unknown cost, to ``models`` in its help."""
    return click.option(
        "--allow-unknown-price",
        is_flag=True,
        help=f"{models} whose price is not in the price file; what they cost stays unknown.",
    )


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
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
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
    """Print a value as indented JSON."""
    print(plain_json(value))


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
    columns = [_column(name, [record[name] for record in records], right) for name in records[0]]
    whole = [column.most for column in columns]
    widths = _fit(columns, stdout().width) if sys.stdout.isatty() else whole
    if widths is None:
        _print_blocks(records)
    else:
        stdout(sum(widths) + _GAP * len(widths)).print(_table(columns, widths))


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a table: ``least`` is the width in which no word is broken, ``most`` that in
    which no line is."""

    header: str
    cells: tuple[Text, ...]
    right: bool
    least: int
    most: int


def _column(name: str, values: Sequence[Any], right: Collection[str]) -> _Column:
    from rich.cells import cell_len

    header, cells = plain_text(name.replace("_", " ")), tuple(map(_cell, values))
    for cell in cells:
        cell.plain = plain_text(cell.plain)
    texts = [header, *(cell.plain for cell in cells)]
    most = max(cell_len(line) for text in texts for line in text.splitlines() or [""])
    if all(isinstance(value, int | float) for value in values) or name in right:
        least = max(map(cell_len, [*header.split(), *texts[1:]]))
        return _Column(header, cells, True, least, most)
    if name == "step":  # a command, to be copied
        return _Column(header, cells, False, most, most)
    longest = max((cell_len(word) for text in texts for word in text.split()), default=1)
    return _Column(
        header, cells, False, longest if name == "model" else min(longest, _UNBROKEN), most
    )


def _fit(columns: Sequence[_Column], width: int) -> list[int] | None:
    """Return the width of each column in a table of a width; None if words would be broken."""
    room = width - _GAP * len(columns)
    spare = room - sum(column.least for column in columns)
    wanted = sum(column.most - column.least for column in columns)
    if spare < 0:
        return None
    share = min(1.0, spare / wanted) if wanted else 0.0
    return [column.least + int(share * (column.most - column.least)) for column in columns]


def _table(columns: Sequence[_Column], widths: Sequence[int]) -> Table:
    from rich.box import SIMPLE_HEAD, Box
    from rich.table import Table

    # Rich would take a wider box itself where lines cannot be drawn.
    plain = stdout().options.ascii_only
    box = (
        Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
        if plain
        else SIMPLE_HEAD
    )
    table = Table(box=box, padding=(0, 1, 0, 0), pad_edge=False)
    for column, width in zip(columns, widths, strict=True):
        justify: Literal["left", "right"] = "right" if column.right else "left"
        table.add_column(column.header, justify=justify, overflow="fold", width=width)
    for row in zip(*(column.cells for column in columns), strict=True):
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


def print_preview(preview: Preview, as_json: bool) -> None:
    """Print what a publication would release."""
    if as_json:
        print_json(dataclasses.asdict(preview))
        return
    print_line(preview.card)
    for name, size in preview.files:
        print_line(f"{size:>12,}  {name}")
    total = sum(size for _, size in preview.files)
    print_line(f"{total:>12,}  bytes in {len(preview.files)} files: {preview.count} instances")
    print_line(f"content: {preview.content}")
    if preview.tags:
        print_line(f"would go to {preview.location} ({preview.access}): {', '.join(preview.tags)}")
    else:
        print_line(f"would go into the folder {preview.location!r} alone")
    print_line("dry run: no leak was found; nothing was kept, uploaded or recorded")


def accounts_json(accounts: Sequence[Account]) -> list[dict[str, Any]]:
    """Return the limits of a budget in USD, with spending and the replies of unknown cost."""
    return [
        {
            "limit": account.name,
            "usd": float(account.limit),
            "spent_usd": float(account.spent),
            "replies_of_unknown_cost": account.unknown,
        }
        for account in accounts
    ]


def print_accounts(accounts: Sequence[Account], over_budget: bool = False) -> None:
    """Print the limits of a budget, if it has any, and the remedy if it does not suffice."""
    if accounts:
        rows = [
            {
                "limit": account.name,
                "limit, USD": f"{account.limit:,.2f}",
                "spent, USD": f"{account.spent:,.4f}",
                "left, USD": f"{max(account.limit - account.spent, Decimal(0)):,.4f}",
                "replies of unknown cost": account.unknown,
            }
            for account in accounts
        ]
        money = ("limit, USD", "spent, USD", "left, USD")
        print_records(rows, title="Budget, in USD by limit", right=money)
    if over_budget:
        click.echo(
            "The budget does not pay for the rest. Raise `budget:` in study.yaml and run this "
            "again; no request is paid for twice."
        )


def print_failing(
    pins: Iterable[ModelPin | JudgePin], calls: Iterable[tuple[str, Sequence[tuple[str, int]]]]
) -> None:
    """Print a line for each model and class of failure of its provider. ``calls`` has the models
    with their failures."""
    from study.steps.sweep.failing import failing_words

    failing = [
        (model, failure, times)
        for model, failures in calls
        for failure, times in failures
        if failure.startswith("provider:")
    ]
    for line in failing_words(pins, failing):
        print_line(line, "failed:", "yellow")


def count_failures(failures: Sequence[tuple[str, int]]) -> str:
    """Return failures by class on one line."""
    return ", ".join(f"{count} × {name}" for name, count in failures)


def print_verdicts(report: Report, path: Path | None, as_json: bool) -> None:
    """Print the table of verdicts, notes, deviations, and the path of the report."""
    from analysis.stats.intervals import p_words

    body = report_json(report)
    if as_json:
        print_json(body)
        return
    rows = [
        {
            "wave": row["wave"],
            "model": row["model"],
            "verdict": styled(row["verdict"], _VERDICT_STYLES.get(row["verdict"], "")),
            "gap (95 %)": _gap(row["estimate"], row["interval"]),
            "adj. p": p_words(row["p_adjusted"], row["p_floor"]),
            "seeds": f"{row['n_public']}/{row['n_private']}",
        }
        for row in body["models"]
    ]
    title = f"Verdicts of {body['study']}: public minus private, in points"
    if rows or not body["before_publication"]:
        print_records(rows, title=title, right=("gap (95 %)", "adj. p", "seeds"))
    if early := [_early_row(row) for row in body["before_publication"]]:
        title = "Before publication: no verdicts; public minus private, in points"
        print_records(early, title=title, right=("gap (95 %)", "seeds"))
    if not rows:
        first = "verdicts need a wave with models to test that is begun after the release: "
        steps = "`dosimeter publish`, then `dosimeter sweep` of such a wave (docs/waves.md)"
        print_line(first + steps, "note:", "yellow")
    for note in dict.fromkeys(row["note"] for row in body["models"] if row["note"]):
        about = (f"{r['model']} at wave {r['wave']}" for r in body["models"] if r["note"] == note)
        print_line(note, f"{', '.join(about)}:", "yellow")
    for remark in body["remarks"]:
        print_line(remark, "remark:", "yellow")
    for deviation in body["deviations"]:
        print_line(deviation, "deviation:", "yellow")
    if path is not None:
        print_line(f"report: {path}")


def _early_row(row: Mapping[str, Any]) -> dict[str, object]:
    return {
        "wave": row["wave"],
        "model": row["model"],
        "gap (95 %)": _gap(row["gap"], row["interval"]),
        "seeds": f"{row['n_public']}/{row['n_private']}",
    }


def _gap(estimate: float | None, interval: Sequence[float] | None) -> str:
    if estimate is None or interval is None:
        return "–"
    low, high = interval
    return f"{100 * estimate:+.1f} ({100 * low:+.1f}…{100 * high:+.1f})".replace("-", "−")


def print_verification(verification: Verification, as_json: bool) -> None:
    """Print the checks that were made, the problems, and the omitted checks."""
    if as_json:
        print_json({"holds": verification.holds} | dataclasses.asdict(verification))
        return
    for name, count in verification.counts:
        print_line(f"{count:>8} {name}")
    print_line(f"the ledger is signed by {verification.signer or 'nobody'}")
    for place, problem in verification.problems:
        print_line(f"{place}: {problem}", "broken", "bold red")
    for left_out in verification.unchecked:
        print_line(left_out, "not checked:", "yellow")
    stdout().print("[green]everything checked holds[/]" if verification.holds else "[red]broken[/]")


def print_log(entries: Sequence[Entry], as_json: bool) -> None:
    """Print the records of a ledger, a line each."""
    if as_json:
        names = ("sequence", "time", "kind", "digest", "body")
        print_json([{name: getattr(entry, name) for name in names} for entry in entries])
        return
    if not entries:
        print_line("no records yet: `dosimeter register` makes the first")
    for entry in entries:
        digest = entry.digest.removeprefix("sha256:")[:12]
        facts = f" {entry.time}  {digest}  {entry.kind:<15}  {_about(entry.kind, entry.body)}"
        print_line(facts, f"{entry.sequence:>4}", "bold")


def _about(kind: str, body: Mapping[str, Any]) -> str:
    """Return the facts of a ledger record on one line."""
    match kind:
        case "announcement":
            named = body["beacon"]
            allots = f"drand round {named['round']}" if named else "a committed secret"
            reason = f"; again: {body['again']}" if body.get("again") else ""
            return f"a draw, to be allotted by {allots}{reason}"
        case "revealed":
            which = ", ".join(map(str, body["tranches"]))
            reason = f": {body['reason']}" if body.get("reason") else ""
            return f"{body['count']} seeds of tranche {which}{reason}"
        case "sealed-set":
            return f"{body['count']} seeds, entropy: {body['entropy']}"
        case "preregistration":
            return f"{body['plan']['name']}, commit {body['provenance']['commit'][:12]}"
        case "study-files":
            return "study.yaml and the files that it names"
        case "run-manifest":
            return f"wave {body['wave']}: {', '.join(m['name'] for m in body['models'])}"
        case "wave-closed":
            return f"wave {body['wave']}: {body['finished']} of {body['owed']}"
        case "graded":
            facts = f"wave {body['wave']} by {body['judge']['name']}: {body['graded']} episodes"
            return facts + ("" if body["pinned"] else ", a judge chosen afterwards")
        case "regraded":
            again = f"by {body['judge']['name']} again at wave {body['wave']}"
            return f"wave {body['first']} {again}: {body['graded']} episodes"
        case "judge-checked":
            return f"{body['judge']['name']} on {body['criteria']} criteria"
        case "calibrated":
            return f"{body['trials']} trials, {body['how']}"
        case "look":
            waves = ", ".join(f"wave {wave}: {count}" for wave, count in body["waves"])
            return f"`{body['command']}`, {waves} episodes"
        case "leak":
            return f"tranche {body['tranche']} from {body['since']}: {body['reason']}"
        case "probed":
            put = f"{body['what']} put to {body['model']['name']}"
            return f"wave {body['wave']}, {put}: {body['probes']}"
        case "release":
            return f"{body['count']} instances, {body['location']}"
        case "withdrawal":
            return f"{body['location']}: {body['reason']}"
        case _:
            return f"through wave {body['through_wave']}"


@contextmanager
def progress_watch(step: str) -> Iterator[Watch]:
    """Show a progress bar on stderr, fed with (step, done, of)."""
    with progress_bar() as show:
        yield lambda part, done, of: show(part or step, done, of)


@contextmanager
def progress_bar(transient: bool = False) -> Iterator[Watch]:
    """Show a bar from the first progress on, so that an error message stands by itself. A
    ``transient`` one vanishes at its end. Without a terminal, print a line every LOG_SECONDS;
    nothing with --json."""
    context = click.get_current_context(silent=True)
    if context is not None and context.params.get("as_json"):
        yield lambda step, done, of: None
        return
    console = stderr()
    if not console.is_terminal:
        yield _print_periodically(console)
        return
    from rich import progress

    wide = console.width >= _WIDE
    bar = progress.Progress(
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}"),
        *([progress.BarColumn()] if wide else []),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        *([progress.TimeRemainingColumn()] if wide else []),
        console=console,
        transient=transient,
    )

    def show(step: str, done: int, of: int) -> None:
        if not bar.tasks:
            bar.add_task(step, total=of or None, completed=done)
            bar.start()
        bar.tasks[0].total = of or None  # unknown again; `update` would keep the last one
        bar.update(bar.tasks[0].id, description=step, completed=done)

    try:
        yield show
    finally:
        if bar.tasks:  # stopping one that never began prints an empty line
            bar.stop()


def _print_periodically(console: Console) -> Watch:
    printed = time.monotonic()

    def show(step: str, done: int, of: int) -> None:
        nonlocal printed
        if time.monotonic() - printed >= LOG_SECONDS:
            count = f": {done} of {of}" if of else f": {done}" if done else ""
            console.print(step + count, soft_wrap=True)
            printed = time.monotonic()

    return show
