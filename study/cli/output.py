"""Output of the command line: tables to read, JSON for scripts. Progress goes to stderr."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from registry.ledger import record_body

if TYPE_CHECKING:
    from analysis.report import Report
    from generators.validation import Survey
    from harness.spending import Account
    from harness.sweep import Progress as SweepProgress
    from registry.ledger import Entry
    from registry.verify import Verification
    from study.sweeps import SweepOutcome
    from study.tasks import TaskView

_MOST_FILES = 20  # that are listed of one example

Watch = Callable[[str, int, int], None]  # what, done, of
LOG_SECONDS = 30.0  # between two lines of progress where no terminal is

_VERDICT_STYLES = {
    "contaminated": "bold red",
    "no material inflation": "green",
    "inconclusive": "yellow",
    "withheld": "magenta",
}


def stdout() -> Console:
    """Return the console for results. In a file or a pipe, lines are wide."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 140)


@contextmanager
def show_logs(level: int) -> Iterator[None]:
    """Write the logs of study and harness to stderr, from a level on. They hold counts, names and
    places, and nothing of an instance, an answer or a key."""
    handler = logging.StreamHandler()
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
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_records(
    records: Sequence[Mapping[str, Any]], as_json: bool, title: str | None = None
) -> None:
    """Print rows that share their keys as a table, or as JSON."""
    if as_json:
        print_json(list(records))
        return
    table = _plain_table(title)
    for name in records[0] if records else ():
        numeric = all(isinstance(record[name], int | float) for record in records)
        table.add_column(name.replace("_", " "), justify="right" if numeric else "left")
    for record in records:
        table.add_row(*(_cell(value) for value in record.values()))
    stdout().print(table)


def print_survey(survey: Survey, as_json: bool) -> None:
    """Print the scores of each family and difficulty, and the bounds that do not hold."""
    if as_json:
        print_json(survey.as_json())
        return
    table = _plain_table(f"Scores over {survey.strata[0].seeds} seeds")
    table.add_column("task", overflow="fold")
    table.add_column("level")
    for name in ("solver", "guess", "noisy", "redrawn"):
        table.add_column(name, justify="right")
    table.add_column("holds")
    for each in survey.strata:
        numbers = (each.solver, each.best_guess[1])
        table.add_row(
            f"{each.family}@{each.version}",
            each.difficulty,
            *(f"{number:.3f}" for number in numbers),
            "–" if each.perturbed is None else f"{each.perturbed.mean:.3f}",
            str(sum(each.redraws)),
            "[green]yes[/]" if each.holds else "[bold red]no[/]",
        )
    console = Console(highlight=False, width=80)
    console.print(table)
    for problem in survey.problems:
        console.print(f"[bold red]out of bounds[/] {escape(problem)}", soft_wrap=True)


def print_step(record: Any, as_json: bool, summary: str, fresh: bool) -> None:
    """Print the record of a step, with a note if it was done before."""
    if as_json:
        print_json(record_body(record))
        return
    note = "" if fresh else " (done already; nothing changed)"
    stdout().print(escape(summary) + note, soft_wrap=True)


def print_task(view: TaskView, as_json: bool) -> None:
    """Print a task family's parameters, and the prompt, files and rubric of an example."""
    if as_json:
        print_json(view.as_json())
        return
    console = stdout()
    console.print(f"[bold]{view.name}[/] version {view.version}, {view.difficulty}")
    console.print(escape(view.summary))
    parameters = [{"parameter": name, "value": value} for name, value in view.parameters.items()]
    print_records(parameters, False, title="Parameters")
    console.rule("prompt", align="left")
    console.print(escape(view.prompt))
    console.rule("input files of an example", align="left")
    console.print(escape("\n".join(view.files[:_MOST_FILES])))
    if len(view.files) > _MOST_FILES:
        console.print(f"and {len(view.files) - _MOST_FILES} more", style="dim")
    console.print(f"single-turn form: {escape(view.single_turn)}\n", soft_wrap=True)
    print_records(_metarubrics(view), False, title="Rubric of the example")
    console.print("--json prints every criterion", style="dim")


def _metarubrics(view: TaskView) -> list[dict[str, Any]]:
    """Return a row for each metarubric, with the first of its criteria: there may be hundreds."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for each in view.rubric:
        groups.setdefault(each["criterion"].split("/")[0], []).append(each)
    return [
        {
            "metarubric": name,
            "dimension": own[0]["dimension"],
            "weight": own[0]["weight"],
            "criteria": len(own),
            "the first asks": own[0]["asks"],
        }
        for name, own in groups.items()
    ]


def print_sweep(outcome: SweepOutcome, wave: int, as_json: bool) -> None:
    """Print whether a wave is closed; if not, the reason and the failures."""
    if as_json:
        progress = outcome.progress
        print_json(
            {
                "wave": wave,
                "closed": None if outcome.closed is None else record_body(outcome.closed),
                "exhausted": 0 if progress is None else progress.exhausted,
                "failures": {} if progress is None else dict(progress.failures),
                "held": 0 if progress is None else progress.held,
                "budget": [] if progress is None else accounts_json(progress.accounts),
            }
        )
        return
    console = stdout()
    if outcome.closed is not None:
        closed = outcome.closed
        console.print(
            f"wave {wave} is closed: {closed.finished} of {closed.owed} episodes scored, "
            f"{closed.missing} missing"
        )
        if outcome.progress is not None:
            print_accounts(outcome.progress.accounts)
        return
    assert outcome.progress is not None  # noqa: S101 - a wave that is not closed was swept
    if outcome.progress.held:
        console.print(
            f"[yellow]wave {wave} stays open:[/] its budget does not pay for the "
            f"{outcome.progress.held} episodes still owed. Raise `budget:` in study.yaml and run "
            "this again; no request is paid for twice.",
            soft_wrap=True,
        )
        print_accounts(outcome.progress.accounts)
        return
    console.print(
        f"[yellow]wave {wave} stays open:[/] {outcome.progress.exhausted} episodes failed on every "
        "attempt. Run this again to retry them, or add --close-missing to record them as missing."
    )
    print_records(
        [{"failure": name, "times": count} for name, count in outcome.progress.failures], False
    )


def accounts_json(accounts: Sequence[Account]) -> list[dict[str, Any]]:
    """Return the limits of a budget in USD, with spending and the replies of unknown cost."""
    return [
        {
            "limit": each.name,
            "usd": float(each.limit),
            "spent_usd": float(each.spent),
            "replies_of_unknown_cost": each.unknown,
        }
        for each in accounts
    ]


def print_accounts(accounts: Sequence[Account]) -> None:
    """Print the limits of a budget, if it has any."""
    if accounts:
        print_records(accounts_json(accounts), False, title="Budget")


def print_verdicts(report: Report, path: Path | None, as_json: bool) -> None:
    """Print the table of verdicts, notes, deviations, and the path of the report."""
    from analysis.report import report_json

    body = report_json(report)
    if as_json:
        print_json(body)
        return
    table = _plain_table(f"Verdicts of {body['study']}: public minus private, in points")
    table.add_column("wave", justify="right", no_wrap=True)
    table.add_column("model", overflow="fold", min_width=12)
    table.add_column("verdict", no_wrap=True)
    for name in ("gap (95 %)", "adj. p", "seeds"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in body["models"]:
        style = _VERDICT_STYLES.get(row["verdict"], "")
        table.add_row(
            str(row["wave"]),
            escape(row["model"]),
            f"[{style}]{row['verdict']}[/]",
            _gap(row["estimate"], row["interval"]),
            _probability(row["p_adjusted"]),
            f"{row['n_public']}/{row['n_private']}",
        )
    console = stdout()
    console.print(table)
    for why in dict.fromkeys(row["note"] for row in body["models"] if row["note"]):
        about = (f"{r['model']} at wave {r['wave']}" for r in body["models"] if r["note"] == why)
        console.print(f"[yellow]{escape(', '.join(about))}:[/] {escape(why)}", soft_wrap=True)
    for deviation in body["deviations"]:
        console.print(f"[yellow]deviation:[/] {escape(deviation)}", soft_wrap=True)
    if path is not None:
        console.print(f"report: {path}", soft_wrap=True)


def print_verification(verification: Verification, as_json: bool) -> None:
    """Print what was checked, what is broken and what was left out."""
    if as_json:
        print_json(record_body(verification))
        return
    console = stdout()
    for name, count in verification.counts:
        console.print(f"{count:>8} {name}")
    for place, problem in verification.problems:
        console.print(f"[bold red]broken[/] {escape(place)}: {escape(problem)}", soft_wrap=True)
    for left_out in verification.unchecked:
        console.print(f"[yellow]not checked:[/] {escape(left_out)}", soft_wrap=True)
    console.print("[green]everything checked holds[/]" if verification.holds else "[red]broken[/]")


def print_log(entries: Sequence[Entry], as_json: bool) -> None:
    """Print the records of a ledger, a line each."""
    if as_json:
        print_json(
            [
                {
                    "sequence": entry.sequence,
                    "time": entry.time,
                    "kind": entry.kind,
                    "digest": entry.digest,
                    "body": entry.body,
                }
                for entry in entries
            ]
        )
        return
    console = stdout()
    for entry in entries:
        digest = entry.digest.removeprefix("sha256:")[:12]
        console.print(
            f"[bold]{entry.sequence:>4}[/]  {entry.time}  {digest}  {entry.kind:<15}  "
            f"{_about(entry)}",
            soft_wrap=True,
        )


@contextmanager
def progress_watch(what: str) -> Iterator[Watch]:
    """Show a progress bar on stderr, fed with (what, done, of)."""
    with _bar() as show:
        yield lambda step, done, of: show(step or what, done, of)


@contextmanager
def sweep_watch(what: str) -> Iterator[Callable[[SweepProgress], None]]:
    """Show a progress bar on stderr, fed with a sweep's progress."""
    with _bar() as show:

        def watch(progress: SweepProgress) -> None:
            failed = sum(count for _, count in progress.failures)
            note = f" [yellow]{failed} failed attempts[/]" if failed else ""
            show(what + note, progress.finished, progress.owed)

        yield watch


@contextmanager
def _bar() -> Iterator[Watch]:
    """Show a bar from the first progress on, so that an error message stands by itself. Without a
    terminal, print a line every LOG_SECONDS."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _print_periodically(console)
        return
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )

    def show(step: str, done: int, of: int) -> None:
        if not bar.tasks:
            bar.add_task(step)
            bar.start()
        bar.update(bar.tasks[0].id, description=step, completed=done, total=of or None)

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
            console.print(f"{step}: {done} of {of}" if of else step, soft_wrap=True)
            printed = time.monotonic()

    return show


def _about(entry: Entry) -> str:
    body = entry.body
    facts = {
        "sealed-set": lambda: f"{body['count']} seeds, entropy: {body['entropy']}",
        "preregistration": lambda: (
            f"{body['plan']['name']}, commit {body['provenance']['commit'][:12]}"
        ),
        "run-manifest": lambda: (
            f"wave {body['wave']}: {', '.join(m['name'] for m in body['models'])}"
        ),
        "wave-closed": lambda: f"wave {body['wave']}: {body['finished']} of {body['owed']}",
        "graded": lambda: (
            f"wave {body['wave']} by {body['judge']['name']}: {body['graded']} episodes"
            + ("" if body["pinned"] else ", a judge chosen afterwards")
        ),
        "regraded": lambda: (
            f"wave {body['first']} by {body['judge']['name']} again at wave {body['wave']}: "
            f"{body['graded']} episodes"
        ),
        "judge-checked": lambda: f"{body['judge']['name']} on {body['criteria']} criteria",
        "calibrated": lambda: f"{body['trials']} trials, {body['how']}",
        "leak": lambda: f"tranche {body['tranche']} from {body['since']}: {body['reason']}",
        "probed": lambda: (
            f"wave {body['wave']}, {body['what']} put to {body['model']['name']}: {body['probes']}"
        ),
        "release": lambda: f"{body['count']} instances, {body['location']}",
        "report": lambda: f"through wave {body['through_wave']}",
    }
    return escape(facts[entry.kind]())


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return escape(", ".join(str(each) for each in value))
    return escape(str(value))


def _plain_table(title: str | None) -> Table:
    """Return an empty table without frames, for 80 columns."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )


def _gap(estimate: float | None, interval: Sequence[float] | None) -> str:
    if estimate is None or interval is None:
        return "–"
    low, high = interval
    return f"{100 * estimate:+.1f} ({100 * low:+.1f}…{100 * high:+.1f})".replace("-", "−")


def _probability(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.4f}" if value >= 0.001 else f"{value:.5f}"
