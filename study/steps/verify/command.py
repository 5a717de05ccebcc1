"""The commands ``dosimeter verify`` and ``dosimeter log``."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.files import write_whole
from registry.ledger.chain import Entry
from study.errors import StudyError
from study.options import PATH, json_option, study_option
from study.printing import (
    Exit,
    print_json,
    print_line,
    print_note,
    print_records,
    progress_watch,
    stdout,
)
from study.steps import pipeline
from study.workspace.checkpoints import make_checkpoint
from study.workspace.study import Study

if TYPE_CHECKING:
    from registry.verify.findings import Verification

_OPAQUE = re.compile(r"[0-9a-f]{64}|age1")  # digests and keys
_LONGEST = 60  # characters of a fact


@click.command()
@study_option
@click.option(
    "--head",
    show_default="the ledger as it is",
    help="Digest of the last ledger record, as noted elsewhere.",
)
@click.option(
    "--checkpoint",
    "checkpoints",
    multiple=True,
    metavar="FILE",
    type=PATH,
    show_default="those in the store",
    help="A checkpoint kept elsewhere, such as a release's or a report's.",
)
@click.option(
    "--tsa-ca",
    "authorities",
    metavar="FILE.pem",
    type=PATH,
    show_default="those that this system trusts",
    help="More root certificates of time-stamping authorities, and their revocation lists.",
)
@click.option(
    "--release",
    show_default="that of the study",
    metavar="FOLDER",
    type=PATH,
    help="The released files to compare, such as a copy from the Hub.",
)
@click.option(
    "--regrade",
    is_flag=True,
    help="Make every grade again from its stored attempt. Needs the study's key.",
)
@click.option(
    "--checkpoint-out",
    metavar="FILE",
    type=PATH,
    show_default="none",
    help="If all holds, sign a checkpoint and write it to a new file, to be kept elsewhere.",
)
@json_option
def verify(study: Study, checkpoint_out: Path | None, as_json: bool, **asked: Any) -> None:
    """Check the ledger, every stored object, the release and the reports against what was recorded.

    Checks signatures and dates, that each record was made once, and that no attempt is missing.
    Without the key it checks what it can, and lists what it left out. Exits with 3 if something
    does not hold.

    \b
    Examples:
      dosimeter verify --study my-study
      dosimeter verify --checkpoint release/checkpoint.txt
      dosimeter verify --regrade --json | jq '.problems[]'
    """
    from study.steps.verify.verify import VerifyRequest

    if asked["head"] and not re.fullmatch("sha256:[0-9a-f]{64}", asked["head"]):
        raise StudyError(f"--head {asked['head']}: write sha256: and 64 hexadecimal digits")
    request = VerifyRequest(**asked, processes=os.cpu_count() or 1)
    with progress_watch("verifying") as watch:
        verification = pipeline.verify(study, request, watch)
    if verification.holds and not study.ledger.entries():
        raise StudyError(f"{study.store.uri}: nothing is recorded: run `dosimeter register` first")
    print_verification(verification, as_json)
    if not verification.holds:
        sys.exit(Exit.BROKEN)
    if checkpoint_out:
        signed = make_checkpoint(study)
        write_whole(checkpoint_out, signed.note, new=True)
        print_note(f"signed a checkpoint of the ledger's {signed.checkpoint.size} records")


@click.command()
@study_option
@json_option
def log(study: Study, as_json: bool) -> None:
    """Print the ledger, record by record.

    \b
    Example:
      dosimeter log --json | jq .kind
    """
    print_log(study.ledger.entries(), as_json)


def print_verification(verification: Verification, as_json: bool) -> None:
    """Print the checks that were made, the problems, and the omitted checks."""
    if as_json:
        print_json({"holds": verification.holds} | dataclasses.asdict(verification))
        return
    for name, count in verification.counts:
        print_line(f"{count:>8} {name}")
    print_records([dataclasses.asdict(promise) for promise in verification.promises])
    for stamp in verification.stamps:
        name = f"time-stamp {stamp.serial:x} of {stamp.authority}, of ledger record"
        print_line(f"{name} {stamp.sequence}, {stamp.time}")
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
        facts = f" {entry.time}  {digest}  {entry.kind:<15}  {'; '.join(_facts(entry.body))}"
        print_line(facts, f"{entry.sequence:>4}", "bold")


def _facts(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the facts of a ledger record by their names, each cut to a length; without digests and
    keys, which `--json` has."""
    for name, value in body.items():
        values = value if isinstance(value, list | tuple) else (value,)
        named = (each.get("name", "") if isinstance(each, dict) else each for each in values)
        text = ", ".join(str(each) for each in named if each is not None)
        if text and not _OPAQUE.search(text):
            yield f"{name} {text:.{_LONGEST}}"
