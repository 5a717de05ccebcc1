"""The commands of ``dosimeter keys``: the study's key, its shares, and the operator's key."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from study import workspace
from study.cli.output import (
    PATH,
    Exit,
    folder_option,
    json_option,
    print_json,
    print_records,
    study_option,
)

if TYPE_CHECKING:
    from registry.shares import KeyShare
    from study.workspace import Study


@click.group()
def keys() -> None:
    """The keys of a study: made, split among custodians, put together, checked.

    A secret is never an argument and is not printed unless asked for. A key may also come from a
    pipe: DOSIMETER_KEY_FILE=<(pass show my-study).

    \b
    From a new study to custodians (docs/custodians.md has the whole way):
      dosimeter keys new --operator
      dosimeter register
      dosimeter keys split --shares 3 --threshold 2
      dosimeter keys check
    """


@keys.command("new")
@folder_option
@click.option("--operator", is_flag=True, help="The key by which a machine runs waves.")
def new(study: Study, operator: bool) -> None:
    """Write a new key for a study that is not drawn yet; `init` has written one.

    With --operator the lines for study.yaml that name the key go to stdout.

    \b
    Examples:
      dosimeter keys new --study my-study
      dosimeter keys new --operator --study my-study >> my-study/study.yaml
    """
    if not operator:
        path, recipient = workspace.make_study_key(study)
        click.echo(f"wrote {path}, public key {recipient}", err=True)
        return
    path, recipient, signer = workspace.make_operator_key(study)
    click.echo(f"wrote {path}; its public halves for study.yaml:", err=True)
    click.echo(f'operator:\n  recipient: {recipient}\n  signer: "{signer}"')


@keys.command()
@folder_option
@click.option("--shares", type=click.IntRange(2, 16), default=3, help="Number of shares.")
@click.option("--threshold", type=click.IntRange(2, 16), default=2, help="So many give the key.")
@click.option(
    "--out", show_default="shares/ beside the key", type=PATH, help="New folder of the share files."
)
@click.option("--print", "printed", is_flag=True, help="Print the shares and write no files.")
def split(study: Study, shares: int, threshold: int, out: Path | None, printed: bool) -> None:
    """Split the study's key by SLIP-39 into shares of 33 words, each a file for one custodian.

    \b
    Examples:
      dosimeter keys split
      dosimeter keys split --shares 5 --threshold 3 --out /media/stick/shares
    """
    made = workspace.split_key(study, shares, threshold)
    if printed:
        click.echo("\n".join(share.text(shares) for share in made))
        return
    for path in workspace.write_shares(made, out or study.key_file.parent / "shares"):
        click.echo(f"wrote {path}", err=True)
    click.echo(
        "give each file to its custodian; once `keys check` has read their copies, remove these "
        f"files and {study.key_file}",
        err=True,
    )


@keys.command()
@folder_option
@click.argument("files", nargs=-1, metavar="[SHARE]...", type=PATH)
def combine(study: Study, files: tuple[Path, ...]) -> None:
    """Write the study's key from shares: files, or words that are typed in and not shown.

    \b
    Examples:
      dosimeter keys combine share-1.txt share-3.txt
      dosimeter keys combine
    """
    from registry.shares import read_share

    if study.key_file.exists():
        raise click.UsageError(f"{study.key_file} exists; a key is never overwritten")
    shares = [read_share(path) for path in files] if files else _ask_shares()
    path, recipient = workspace.combine_key(study, shares)
    click.echo(f"wrote {path}, public key {recipient}; remove it after use", err=True)


def _ask_shares() -> list[KeyShare]:
    """Read as many shares from the terminal as the first one asks for."""
    from registry.shares import parse_share

    shares: list[KeyShare] = []
    while not shares or len(shares) < shares[0].threshold:
        place = f"share {len(shares) + 1}"
        shares.append(parse_share(click.prompt(f"{place}, its words", hide_input=True), place))
    return shares


@keys.command()
@study_option
@click.argument("files", nargs=-1, metavar="[FILE]...", type=PATH)
@click.option("--store", is_flag=True, help="Also if the store keeps what is overwritten.")
@json_option
def check(study: Study, files: tuple[Path, ...], store: bool, as_json: bool) -> None:
    """Report whose keys or shares some files hold, and whether they open the draw.

    Without files, the study's and the operator's key. Exits with 2 if something is wrong.

    \b
    Examples:
      dosimeter keys check
      dosimeter keys check share-1.txt share-3.txt
      dosimeter keys check --store
    """
    paths = files or workspace.default_files(study)
    rows = [asdict(row) for row in workspace.check_keys(study, paths)]
    kept = asdict(workspace.check_store(study)) if store else None
    if as_json:
        print_json({"keys": rows} | ({} if kept is None else {"store": kept}))
    else:
        words = {None: "", True: "yes", False: "no"}
        print_records([row | {"opens_draw": words[row["opens_draw"]]} for row in rows])
        if kept is not None:
            print_records([kept | {"versions": words[kept["versions"]]}])
    wrong = any(row["problem"] for row in [*rows, *([kept] if kept else [])])
    sys.exit(Exit.BAD_INPUT if wrong else Exit.DONE)
