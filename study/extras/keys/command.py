"""The commands of ``dosimeter keys``: the study's key and the operator's, made in their files."""

from __future__ import annotations

from pathlib import Path

import click

from registry.sealing import new_identity, write_identity, write_key
from registry.signing import Signer
from study.errors import StudyError
from study.options import folder_option
from study.workspace.address import OWNER
from study.workspace.study import Study


def make_study_key(study: Study) -> tuple[Path, str]:
    """Write a new key for a study that is not drawn yet. Return its file and public key. Raises
    StudyError, RegistryError."""
    if study.ledger.entries():
        raise StudyError(
            f"{study.folder}: its ledger was begun with a key, and no other can take its place"
        )
    return study.key_file, write_identity(_place(study.key_file))


def make_operator_key(study: Study) -> tuple[Path, str, str]:
    """Write a new operator's key for a study that is not drawn yet, with the public key of the
    study, which must be here. Return its file, public age key and public signing key. Raises
    StudyError, RegistryError."""
    if study.ledger.entries():
        raise StudyError(
            f"{study.folder}: the draw announces the operator's key, and is made already: an "
            "operator needs a new study"
        )
    path, owner = study.operator_key_file, study.signer().public
    identity, recipient = new_identity()
    write_key(_place(path), f"# public key: {recipient}\n{OWNER}{owner}\n{identity}\n")
    return path, recipient, Signer.of(identity).public


def _place(path: Path) -> Path:
    """Make the folder of a key file, for its owner alone. Raises StudyError."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        place = path.parent
        raise StudyError(f"{place}: {error.strerror}; give a folder that you may write") from None
    return path


@click.group()
def keys() -> None:
    """Make the keys of a study.

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
