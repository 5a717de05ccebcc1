"""The commands of ``dosimeter keys``: the study's key and the operator's."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from study.extras.keys.custody import (
    check_keys,
    check_store,
    default_files,
    make_operator_key,
    make_study_key,
)
from study.options import PATH, folder_option, json_option, study_option
from study.printing import Exit, print_json, print_records

if TYPE_CHECKING:
    from study.workspace.study import Study


@click.group()
def keys() -> None:
    """Make and check the keys of a study.

    A secret is never an argument and is not printed. A key may also come from a pipe:
    DOSIMETER_KEY_FILE=<(pass show my-study). docs/custodians.md says how several people hold it.
    """


@keys.command("new", short_help="Write a new key, for a study or its operator.")
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
        path, recipient = make_study_key(study)
        click.echo(f"wrote {path}, public key {recipient}", err=True)
        return
    path, recipient, signer = make_operator_key(study)
    click.echo(f"wrote {path}; its public halves for study.yaml:", err=True)
    click.echo(f'operator:\n  recipient: {recipient}\n  signer: "{signer}"')


@keys.command()
@study_option
@click.argument("files", nargs=-1, metavar="[FILE]...", type=PATH)
@click.option("--store", is_flag=True, help="Also if the store keeps what is overwritten.")
@json_option
def check(study: Study, files: tuple[Path, ...], store: bool, as_json: bool) -> None:
    """Report whose keys some files hold, and whether they open the draw.

    Without files, the study's and the operator's key. Exits with 2 if something is wrong.

    \b
    Examples:
      dosimeter keys check
      dosimeter keys check recipient.txt
      dosimeter keys check --store
    """
    paths = files or default_files(study)
    rows = [asdict(row) for row in check_keys(study, paths)]
    kept = asdict(check_store(study)) if store else None
    if as_json:
        print_json({"keys": rows} | ({} if kept is None else {"store": kept}))
    else:
        words = {None: "", True: "yes", False: "no"}
        print_records([row | {"opens_draw": words[row["opens_draw"]]} for row in rows])
        if kept is not None:
            print_records([kept | {"versions": words[kept["versions"]]}])
    wrong = any(row["problem"] for row in [*rows, *([kept] if kept else [])])
    sys.exit(Exit.BAD_INPUT if wrong else Exit.DONE)
