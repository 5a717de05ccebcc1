"""The commands of ``dosimeter keys``: the study's key and the operator's, made and checked in their
files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from registry.errors import BrokenPromise, RegistryError
from registry.sealing import (
    new_identity,
    open_seeds,
    parse_identities,
    read_private,
    recipient_of,
    write_identity,
    write_key,
)
from registry.signing import Signer
from study.errors import StudyError, without_keys
from study.options import PATH, folder_option, json_option, study_option
from study.printing import Exit, print_json, print_records
from study.workspace.address import OWNER
from study.workspace.study import Study


@dataclass(frozen=True, slots=True)
class CheckedKey:
    """A key in a file. ``opens_draw`` is None while nothing is drawn; ``problem`` is "" if all is
    well."""

    file: str
    key: str
    public_key: str
    opens_draw: bool | None = None
    problem: str = ""


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


def check_keys(study: Study, paths: Sequence[Path]) -> tuple[CheckedKey, ...]:
    """Report whose keys some files hold, and whether they open the draw. Nothing secret is in it.
    Raises RegistryError if the ledger cannot be read."""
    rows: list[CheckedKey] = []
    for path in paths:
        name = str(path)
        try:
            keys = parse_identities(read_private(path), name)
            rows += [_check(study, name, identity) for identity in keys]
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not a key file"
            rows.append(CheckedKey(without_keys(name, random=False), "", "", problem=reason))
        except RegistryError as error:
            problem = str(error).removeprefix(name).lstrip(":, ")
            rows.append(CheckedKey(name, "", "", problem=problem))
    return tuple(rows)


def default_files(study: Study) -> tuple[Path, ...]:
    """Return the files of the study's and the operator's key, those that are there."""
    return tuple(path for path in (study.key_file, study.operator_key_file) if path.exists())


def _check(study: Study, file: str, identity: str) -> CheckedKey:
    recipient, signer = recipient_of(identity), Signer.of(identity).public
    opens = _opens_draw(study, identity)
    announced = study.announcement()
    operator = announced.operator_signer if announced else ""
    if announced is None and study.protocol.operator is not None:
        operator = study.protocol.operator.signer
    signers = [entry.signer for entry in study.ledger.entries()[:1]]
    if signer in signers:
        problem = "does not open the draw that it has signed" if opens is False else ""
        return CheckedKey(file, "the study's", recipient, opens, problem)
    if signer == operator:
        problem = "opens the draw, which an operator's key must not" if opens else ""
        return CheckedKey(file, "the operator's", recipient, opens, problem)
    if opens or recipient in _recipients(study):
        return CheckedKey(file, "a recipient's, which signs nothing", recipient, opens)
    if signers:
        return CheckedKey(file, "another's", recipient, opens, "no key of this study")
    return CheckedKey(file, "not used yet", recipient, opens)


def _opens_draw(study: Study, identity: str) -> bool | None:
    if study.ledger.last("sealed-set") is None:
        return None
    uri = study.sealed_set().uri
    try:
        open_seeds(study.store.get(uri), (identity,), uri)
    except BrokenPromise:
        raise
    except RegistryError:
        return False
    return True


def _recipients(study: Study) -> tuple[str, ...]:
    """Return the public keys of those who may open the draw, as far as they are known without a
    key."""
    announced = study.ledger.last("announcement")
    return study.protocol.recipients if announced is None else announced.record.recipients


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
@json_option
def check(study: Study, files: tuple[Path, ...], as_json: bool) -> None:
    """Report whose keys some files hold, and whether they open the draw.

    Without files, the study's and the operator's key. Exits with 2 if something is wrong.

    \b
    Examples:
      dosimeter keys check
      dosimeter keys check recipient.txt
    """
    paths = files or default_files(study)
    rows = [asdict(row) for row in check_keys(study, paths)]
    if as_json:
        print_json({"keys": rows})
    else:
        words = {None: "", True: "yes", False: "no"}
        print_records([row | {"opens_draw": words[row["opens_draw"]]} for row in rows])
    wrong = any(row["problem"] for row in rows)
    sys.exit(Exit.BAD_INPUT if wrong else Exit.DONE)
