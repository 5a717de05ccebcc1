"""Opening a study: by its folder, or by the address of its store alone. For the latter, study.yaml
and the files that it names are recorded in the ledger, signed by the study's key."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from harness.sandboxes.user_folder import make_user_folder
from registry.canonical import canonical_bytes, digest_bytes, parse_canonical
from registry.errors import BrokenPromise
from registry.files import write_whole
from registry.ledger.chain import LEDGER, Entry, Ledger
from registry.ledger.records import StudyFiles
from registry.sealing import decrypt, encrypt, read_identities, read_private
from registry.signing import Signer
from registry.stores import open_store
from registry.stores.base import Store
from study.errors import StudyError
from study.protocol.protocol import FILE_NAME, read_protocol
from study.protocol.yaml import read_bounded
from study.workspace.study import KEY_VARIABLE, OPERATOR_VARIABLE, Study, is_study

logger = logging.getLogger(__name__)
OWNER = "# study: "  # line of an operator's key file, before the public key that signs the ledger
_SCHEMES = ("s3:", "file:")
_MOST_BYTES = 4_000_000  # of a template file, which may be larger than the others


def open_study(place: str | Path) -> Study:
    """Open a study by its folder, or by the address of its store and a key that the environment
    names. Raises StudyError, RegistryError, BrokenPromise."""
    if (address := store_address(place)) is None:
        folder = Path(place)
        protocol = read_protocol(folder)
        uri = protocol.store
        named = uri.startswith(_SCHEMES)  # else a folder, whatever is in its name
        store = open_store(uri if named else f"file:{(folder / uri).absolute()}")
    else:
        store = open_store(address)
        folder = _unpack_files(store)
        protocol = read_protocol(folder)
        for judge in protocol.judges:
            if "release" in dict(judge.settings):  # without it, it would grade otherwise
                raise StudyError(
                    f"{address}: judge {judge.name!r} reads the folder of a release, which is not "
                    "in the store: give the study's folder"
                )
    logger.info("study %s in %s, store %s", protocol.name, folder, store.uri)
    study = Study(folder, protocol, store, Ledger(store, lambda: study.signer()))
    return study


def store_address(place: str | Path) -> str | None:
    """Return the address of a store if the place is one: a URI, or the folder of a store. None for
    a study's folder, and for a place where nothing is."""
    folder = Path(place)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", str(place)):
        return str(place)
    if not is_study(folder) and (folder / LEDGER).is_dir():
        return f"file:{folder.absolute()}"
    return None


def record_files(study: Study, now: str) -> bool:
    """Record study.yaml and the files that it names, as they are, unless they are those recorded
    last. Return whether they are new. Raises StudyError for a file outside of the study's folder,
    RegistryError without the study's key."""
    files = _read_files(study)
    newest = study.ledger.last("study-files")
    if newest is not None and files == _open_files(study.store, newest.record, study.identities()):
        return False
    study.own_identities()  # before anything is stored
    # An operator must not have what the draw follows from.
    fixed = study.protocol.entropy != "system"
    sealed = encrypt(canonical_bytes(files), study.recipients() if fixed else study.readers())
    record = StudyFiles(digest_bytes(sealed))
    study.store.put(record.key, sealed)
    if study.store.get(record.key) != sealed:
        raise BrokenPromise(f"{record.key}: the store returns other bytes than were put there")
    study.ledger.append(record, now)
    return True


def check_files(study: Study) -> None:
    """Raise StudyError if study.yaml names a file outside of the study's folder."""
    for name in _named_files(study):
        if not _is_inside(name):
            raise StudyError(
                f"{name}: lies outside of the study's folder, and is to be recorded with "
                f"{FILE_NAME}: move it there"
            )


def _read_files(study: Study) -> Mapping[str, str]:
    """Return the texts of study.yaml and of the files that it names, by path. Raises StudyError for
    one outside of the study's folder, and for one that cannot be read."""
    check_files(study)
    files = {}
    for name in (FILE_NAME, *_named_files(study)):
        try:
            files[name] = read_bounded(study.folder / name, _MOST_BYTES, "a study's file").decode()
        except (FileNotFoundError, UnicodeDecodeError) as error:
            raise StudyError(f"{study.folder / name}: not a text file that can be read") from error
    return files


def _named_files(study: Study) -> Iterator[str]:
    if study.protocol.prices is not None:
        yield study.protocol.prices
    for path in study.protocol.template_paths:
        if (study.folder / path).is_file():  # else one of the library
            yield path


def _unpack_files(store: Store) -> Path:
    """Write the files that were recorded last into a folder of this user's cache, and return it.
    Raises StudyError if there are none."""
    if not (entries := Ledger(store).entries()):
        raise StudyError(
            f"{store.uri}: there is no ledger: give the address of a study's store, or the folder "
            f"that holds {FILE_NAME}"
        )
    recorded = [entry.record for entry in entries if entry.kind == "study-files"]
    if not recorded:
        raise StudyError(
            f"{store.uri}: no {FILE_NAME} is on record yet: run `dosimeter register` in the "
            "study's folder, which records it"
        )
    files = _open_files(store, recorded[-1], _read_keys(store, entries[0]))
    # Named by its content, so that it never changes under a command that is at work.
    folder = make_user_folder(f"studies/{Path(recorded[-1].key).stem}")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_whole(folder / name, text)
    return folder


def _open_files(store: Store, record: StudyFiles, identities: tuple[str, ...]) -> dict[str, str]:
    """Return the texts of recorded files by path. Raises BrokenPromise unless they are those of the
    record."""
    sealed = store.get(record.key)
    if (found := digest_bytes(sealed)) != record.content:
        raise BrokenPromise(
            f"{record.key}: was altered: digest {record.content} expected, {found} found"
        )
    files = parse_canonical(decrypt(sealed, identities, record.key), record.key)
    for name in files:
        if not _is_inside(name):
            raise BrokenPromise(f"{record.key}: {name!r} in it is no path inside of a folder")
    return dict(files)


def _read_keys(store: Store, first: Entry) -> tuple[str, ...]:
    """Return the identities of the key that the environment names, if it is of the study that began
    the ledger: whoever can write to the store could have put another one there. Raises StudyError,
    BrokenPromise."""
    key, operator = os.environ.get(KEY_VARIABLE), os.environ.get(OPERATOR_VARIABLE)
    if key and (Path(key).exists() or not operator):
        identities = read_identities(Path(key))
        if first.signer not in {Signer.of(each).public for each in identities}:
            raise BrokenPromise(f"{key}: not the key that began this ledger, in {store.uri}")
        return identities
    if not operator:
        raise StudyError(
            f"{store.uri}: its study.yaml is sealed: name the file of the operator's key in "
            f"{OPERATOR_VARIABLE}, or that of the study's key in {KEY_VARIABLE}"
        )
    identities = read_identities(Path(operator))
    owners = re.findall(rf"^{OWNER}(\S+)$", read_private(Path(operator)), re.MULTILINE)
    if not owners:
        raise StudyError(
            f"{operator}: add the line `{OWNER}{first.signer}` if that is the study's public key, "
            f"by which the ledger in {store.uri} is trusted"
        )
    if first.signer not in owners:
        raise BrokenPromise(
            f"{store.uri}: not the ledger of the study that {operator} names, {owners[0]}: "
            f"{first.signer} signed its first record"
        )
    return identities


def _is_inside(name: str) -> bool:
    """Report whether a path leads to a file below the folder that it starts from."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts
