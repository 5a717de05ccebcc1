"""The commands ``dosimeter checkpoint`` and ``dosimeter witness``: a ledger that others watch."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from study import workspace
from study.cli.output import PATH, json_option, print_json, print_note, study_option
from study.errors import StudyError
from study.files import exclusive

if TYPE_CHECKING:
    from registry.checkpoints import SignedCheckpoint
    from study.workspace import Study


@click.command()
@study_option
@click.option(
    "--tsa",
    metavar="URL",
    default="",
    show_default="no time-stamp",
    help="Also store a time-stamp (RFC 3161) of the authority there.",
)
@click.option(
    "--add",
    "files",
    multiple=True,
    metavar="FILE",
    type=PATH,
    show_default="a new checkpoint",
    help="Instead, store what a witness cosigned and sent; may be given more than once.",
)
@json_option
def checkpoint(study: Study, tsa: str, files: tuple[Path, ...], as_json: bool) -> None:
    """Sign the ledger as it is now, for witnesses to check and cosign.

    It is a signed note in the C2SP checkpoint format. It goes into the store, and is printed.

    \b
    Examples:
      dosimeter checkpoint
      dosimeter checkpoint --tsa https://tsa.example.org/tsr
      dosimeter checkpoint --add anna.txt --add ben.txt
    """
    if files and tsa:
        raise click.UsageError("--tsa stamps a new checkpoint, and --add makes none: give one")
    if files:
        signed, fresh = workspace.add_cosigned(study, files), True
    else:
        signed, fresh = workspace.make_checkpoint(study, tsa)
    _print_checkpoint(signed, bytes(signed.note).decode(), as_json)
    if not fresh:
        print_note("the ledger has not grown since this checkpoint was made")


def _print_checkpoint(signed: SignedCheckpoint, note: str, as_json: bool, **more: Any) -> None:
    """Print a note as it is, and who signed it to stderr; or both as JSON."""
    shown, cosigned = signed.checkpoint, [name for name, _ in signed.witnesses]
    if as_json:
        print_json(
            {
                "records": shown.size,
                "root": shown.root.hex(),
                "head": shown.head,
                "study_key": shown.study,
                "witnesses": [{"name": name, "time": time} for name, time in signed.witnesses],
                **more,
                "note": note,
            }
        )
        return
    click.echo(note, nl=False)
    others = f"; cosigned by {', '.join(cosigned)}" if cosigned else ""
    print_note(f"the ledger's {shown.size} records, signed by the study's key{others}")


@click.group()
def witness() -> None:
    """For custodians: check that a study's ledger only grew, and sign that.

    It needs the study's store to read, and neither its key nor its study.yaml.

    \b
    Once:
      dosimeter witness init anna.witness --name example.org/anna
    Every few months:
      dosimeter witness sign anna.witness s3://bucket/study
    """


@witness.command()
@click.argument("state", type=PATH, metavar="STATE")
@click.option("--name", required=True, help="Name of the key, such as example.org/anna.")
def init(state: Path, name: str) -> None:
    """Make a key, and print its public half for the study's `witnesses:`.

    The file STATE holds the private half, and later what was seen. Keep it, and a copy.

    \b
    Example:
      dosimeter witness init anna.witness --name example.org/anna
    """
    from registry.checkpoints import new_witness

    click.echo(str(new_witness(state, name)))


@witness.command()
@click.argument("state", type=PATH, metavar="STATE")
@click.argument("store", metavar="STORE")
@click.option(
    "--study-key",
    metavar="KEY",
    default="",
    show_default="the key seen before",
    help="The study's public key as its authors publish it, for the first time.",
)
@click.option(
    "--checkpoint",
    "files",
    multiple=True,
    metavar="FILE",
    type=PATH,
    show_default="those in the store",
    help="A checkpoint from elsewhere, such as a release or a report, to be checked as well.",
)
@click.option(
    "--out",
    metavar="FILE",
    type=PATH,
    show_default="into the store",
    help="Write the cosigned checkpoint to a file instead, to be sent to the study.",
)
@json_option
def sign(
    state: Path,
    store: str,
    study_key: str,
    files: tuple[Path, ...],
    out: Path | None,
    as_json: bool,
) -> None:
    """Check that the ledger in STORE extends what you saw last, and cosign its checkpoint.

    A rollback, a split view and a rewritten record are refused, with the record's name (exit
    code 3). Nothing is signed then.

    \b
    Examples:
      dosimeter witness sign anna.witness /mnt/study/store
      dosimeter witness sign anna.witness s3://bucket/study --out anna.txt
    """
    from registry.checkpoints import cosign, put_checkpoint, read_witness, write_witness
    from registry.files import write_whole
    from registry.stores import open_store

    opened = open_store(store)
    given = {str(path): workspace.read_file(path) for path in files}
    with exclusive(state.with_name(f"{state.name}.lock"), "another `dosimeter witness`"):
        known = read_witness(state)
        made = cosign(known, opened, int(time.time()), study_key, given)
        if out is not None and out.exists():
            raise StudyError(f"{out}: is there already; name another file, or move it away")
        write_witness(state, made.state)
        if out is None:
            put_checkpoint(opened, made.signed, made.leaves)
        else:
            write_whole(out, bytes(made.signed.note).decode())
    _print_checkpoint(made.signed, bytes(made.signed.note).decode(), as_json, before=made.before)
    if not made.named:
        print_note(f"the study does not name {known.name} as a witness: it will not be counted")
