"""A release: the public arm as a folder that ``datasets.load_dataset`` reads.

The folder is built beside its place and renamed to it whole. The same draw gives the same
bytes, so building it again finds it there. Later tranches add files and change none but the card
and the checksums. Read, it is complete, and every file is as its checksums have it.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from generators.dressings.family import DressedFamily
from generators.items import HARBOR
from generators.items.item import read_items
from generators.seed import Seed
from generators.task import DIFFICULTIES, Asset, TaskInstance
from generators.templates.family import TemplateFamily
from publish.croissant import CROISSANT, croissant
from publish.dataset_card import ReleaseText, render_card, split_of
from publish.errors import PublishError
from publish.inspect_task import EVAL, AskedSplits, Question, config_of, question_columns
from publish.leakcheck.check import FindFamily, counted, regenerate, release_files
from publish.leakcheck.secrets import SENTENCE, drawn_rows
from publish.row_schema import row_schema
from registry.canonical import Digest, canonical_bytes, digest_bytes
from registry.errors import RegistryError
from registry.files import sync_path
from registry.ledger.draw_records import SealedSet
from registry.result_row import Arm
from registry.sealing import DrawnInstance, commitments_of, commitments_root

SHARD_BYTES = 64 << 20  # of content, before compression
ROW_GROUP, GROUP_BYTES = 64, 8 << 20  # rows, or bytes of content, that are in memory at a time
EXAMPLES = 3  # of each stratum, on the card
_SHOWN = ("title", "marker", "task", "difficulty", "instance")
_OPENED = ("stratum", "version", "instance", "seed", "nonce")
CHECKSUMS, CARD = "checksums.json", "README.md"
COMMITMENTS, OPENINGS = "commitments.json", "openings"
CHECKPOINT = "checkpoint.txt"
# The Hub's list of the files that it stores as LFS objects, and its client's notes on downloads.
HUBS_OWN = (".gitattributes", ".cache/")
_CHANGING = frozenset((CHECKSUMS, CARD, EVAL, CROISSANT))  # when a tranche is added

Ask = Callable[[TaskInstance], Question | None]  # an instance as one message, if it fits into one


@dataclass(frozen=True, slots=True)
class ReleaseManifest:
    """A release folder that is complete."""

    folder: Path
    instances_root: str  # Merkle root of the draw
    count: int  # rows
    tranches: tuple[int, ...]  # that it has the public arms of, ascending
    content: Digest  # of checksums.json, and so of every file
    files: tuple[str, ...]


def build_release(
    folder: Path,
    entries: Sequence[DrawnInstance],
    sealed: SealedSet,
    find_family: FindFamily,
    text: ReleaseText,
    progress: Callable[[int], None] = lambda done: None,
    checkpoint: str = "",
    ask: Ask = lambda instance: None,
) -> ReleaseManifest:
    """Write the public entries of a sealed draw as a release. ``progress`` gets the number of
    instances that are made; ``checkpoint`` is the ledger's, as a signed note; ``ask`` gives the
    form that Inspect runs from the Hub.

    A complete folder with the same content is left as it is, and one with fewer tranches is
    replaced if all of its files but the card and the checksums stay as they are. Raises
    PublishError for an entry of the private arm or of another draw, for an instance that today's
    generators no longer make, for a folder that holds something else, and where it cannot be
    written.
    """
    leaves = _leaves(entries, sealed)
    folder = folder.absolute()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with draft_folder(folder) as draft:
            drawn = _in_order(zip(leaves, entries, strict=True))
            _write_files(draft, drawn, sealed, find_family, text, progress, checkpoint, ask)
            _put_in_place(read_release(draft), folder)
    except OSError as error:
        raise PublishError(
            f"{folder}: cannot write the release ({error.filename or 'a file'}: "
            f"{error.strerror or error})"
        ) from error
    return read_release(folder)


def read_release(folder: Path) -> ReleaseManifest:
    """The manifest of a complete folder; every file's digest is recomputed. Raises PublishError
    that names the first file that is missing, altered or too many."""
    try:
        data = (folder / CHECKSUMS).read_bytes()
        promised = json.loads(data)
        root = str(json.loads((folder / COMMITMENTS).read_bytes())["root"])
        opened = [json.loads(each.read_bytes()) for each in (folder / OPENINGS).glob("*.json")]
        tranches = tuple(sorted(int(each["tranche"]) for each in opened))
        count = sum(len(each["public"]) for each in opened)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PublishError(
            f"{folder}: not a complete release: move it away and build again"
        ) from error
    digests = _checksums(folder)
    for name in sorted(promised.keys() | digests.keys()):
        if promised.get(name) != digests.get(name):
            raise PublishError(
                f"{folder}/{name}: not as {CHECKSUMS} has it: move the folder away and build again"
            )
    files = (*sorted(digests), CHECKSUMS)
    return ReleaseManifest(
        folder=folder,
        instances_root=root,
        count=count,
        tranches=tranches,
        content=digest_bytes(data),
        files=files,
    )


def lasting(names: Iterable[str]) -> list[str]:
    """Return the files of a release that stay as they are when a tranche is added, sorted."""
    return sorted(set(names) - _CHANGING)


def file_digest(path: Path, algorithm: str = "sha256", head: bytes = b"") -> str:
    """Digest of a file's content after ``head``, in hex, read in small pieces. Raises OSError."""
    digest = hashlib.new(algorithm, head, usedforsecurity=algorithm != "sha1")
    with path.open("rb") as file:
        while data := file.read(1 << 20):
            digest.update(data)
    return digest.hexdigest()


def _checksums(folder: Path) -> dict[str, str]:
    """SHA-256 of each file of a release but the list of them, in hex."""
    names = (name for name in release_files(folder) if name != CHECKSUMS)
    return {name: file_digest(folder / name) for name in names}


# -- what goes in -----------------------------------------------------------------------------


def _leaves(entries: Sequence[DrawnInstance], sealed: SealedSet) -> list[int]:
    """The place of each entry's commitment in the draw. Raises PublishError."""
    if not entries:
        raise PublishError("a release needs at least one public instance")
    if any(entry.arm is not Arm.PUBLIC for entry in entries):
        raise PublishError("an entry of the private arm was handed in for release")
    try:
        root = commitments_root(sealed.commitments)
        opened = commitments_of(entries)
    except (RegistryError, ValueError):
        raise PublishError("the commitments of the draw cannot be read") from None
    if root != sealed.root:
        raise PublishError("the commitments are not those under the Merkle root of the draw")
    places = {commitment: leaf for leaf, commitment in enumerate(sealed.commitments)}
    if len(set(opened)) != len(opened) or not places.keys() >= set(opened):
        raise PublishError("an entry is not one of the draw's, or is handed in twice")
    return [places[commitment] for commitment in opened]


_Drawn = tuple[int, DrawnInstance]


def _in_order(drawn: Iterable[_Drawn]) -> list[_Drawn]:
    """By family, difficulty, tranche and place in the draw, however they were handed in."""

    def place(leaf_entry: _Drawn) -> tuple[str, int, str, int, int]:
        leaf, entry = leaf_entry
        level = entry.difficulty  # of a template's task it is a question's id
        known = DIFFICULTIES.index(level) if level in DIFFICULTIES else len(DIFFICULTIES)
        return entry.family, known, "" if level in DIFFICULTIES else level, entry.tranche, leaf

    return sorted(drawn, key=place)


def _row(leaf: int, entry: DrawnInstance, find_family: FindFamily, ask: Ask) -> dict[str, Any]:
    instance, key = regenerate(entry, find_family)
    images = [asset for asset in instance.brief.assets if asset.media_type.startswith("image/")]
    return {
        "task": entry.family,
        "version": entry.version,
        "difficulty": entry.difficulty,
        "title": instance.title,
        "marker": instance.marker,
        "seed": entry.seed,
        "instance": entry.instance,
        "leaf": leaf,
        "nonce": entry.nonce,
        "prompt": instance.brief.prompt,
        "answer_schema": instance.brief.answer_schema,
        "input_files": [_file(asset) for asset in instance.brief.assets],
        "images": [{"bytes": image.data, "path": image.path} for image in images],
        "truth": canonical_bytes(instance.truth.as_json()).decode(),
        "rubric": canonical_bytes(instance.rubric.as_json()).decode(),
        "answer": canonical_bytes(key).decode(),
        **question_columns(ask(instance), key),
    }


def _file(asset: Asset) -> dict[str, Any]:
    return {
        "path": asset.path,
        "media_type": asset.media_type,
        "sha256": asset.digest.removeprefix("sha256:"),
        "text": _text_of(asset.data),
        "data": asset.data,
    }


def _text_of(data: bytes) -> str | None:
    """The content as text, so that it can be crawled and read; None for what is no UTF-8 text."""
    try:
        return None if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


# -- the files ----------------------------------------------------------------------------------


def _write_files(
    folder: Path,
    drawn: Sequence[_Drawn],
    sealed: SealedSet,
    find_family: FindFamily,
    text: ReleaseText,
    progress: Callable[[int], None],
    checkpoint: str,
    ask: Ask,
) -> None:
    examples: list[dict[str, Any]] = []
    asked = AskedSplits()

    def part(item: _Drawn) -> tuple[str, int]:
        return item[1].stratum, item[1].tranche

    for (stratum, tranche), members in groupby(counted(drawn, progress), key=part):
        rows = (_row(leaf, entry, find_family, ask) for leaf, entry in members)
        kept = _keep_first(rows, examples if tranche == drawn[0][1].tranche else [])
        split = split_of(tranche)
        noted = asked.noted(stratum, split, kept)
        _write_shards(folder / "data" / config_of(stratum), split, noted)
    _write(folder / COMMITMENTS, canonical_bytes(_commitments(sealed)))
    if checkpoint:
        _write(folder / CHECKPOINT, checkpoint.encode())
    for tranche in {entry.tranche for _, entry in drawn}:
        opened = canonical_bytes(_openings(tranche, drawn, sealed))
        _write(folder / OPENINGS / f"{split_of(tranche)}.json", opened)
    for name in sorted({f"{entry.family}@{entry.version}" for _, entry in drawn}):
        family = find_family(name)
        templates = folder / "templates"
        if isinstance(family, TemplateFamily) and _is_shown(family, drawn):
            _write(templates / f"{family.name}.yml", family.file.text.encode())
            if family.file.values_name:
                _write(templates / family.file.values_name, family.file.values_text.encode())
        elif isinstance(family, DressedFamily):
            _write(templates / f"{family.name}.yml", family.dressing.text.encode())
    for _, entry in drawn:
        if entry.family == HARBOR:
            _write_task(folder / "tasks" / entry.difficulty, entry)
    entries = [entry for _, entry in drawn]
    card = render_card(entries, sealed, find_family, text, examples, asked.configs)
    _write(folder / CARD, card.encode())
    splits = [split_of(each) for each in sorted({entry.tranche for entry in entries})]
    described = {CROISSANT: canonical_bytes(croissant(text, splits))}
    for name, data in (asked.files(text) | described).items():
        _write(folder / name, data)
    _write(folder / CHECKSUMS, canonical_bytes(_checksums(folder)))
    for place, _, _ in os.walk(folder):
        sync_path(Path(place))


def _write_task(folder: Path, entry: DrawnInstance) -> None:
    """Write the folder of an agent task as it was given."""
    (item,) = read_items(Seed.from_hex(entry.seed).item)
    for path, data in item.files:
        _write(folder / str(item.answer["task"]) / path, base64.b64decode(data))


def _is_shown(family: TemplateFamily, drawn: Sequence[_Drawn]) -> bool:
    """Report whether the public instances hold all that the template's author listed: the rows of
    tables, and sentences. The others are what private instances are made of."""
    rows = family.listed_rows()
    hidden = [r for r in rows if len(r) > 1 or len(r[0]) >= SENTENCE or r[0].count(" ") > 1]
    for _, entry in drawn:
        if hidden and (entry.family, entry.version) == (family.name, family.version):
            made, _ = regenerate(entry, lambda name: family)
            lines = [" ".join(row) for row in drawn_rows(made)]
            lines += chain(
                *(a.data.decode("utf-8", "replace").split("\n") for a in made.brief.assets)
            )
            hidden = [row for row in hidden if not any(_shows(line, row) for line in lines)]
    return not hidden


def _shows(line: str, row: tuple[str, ...]) -> bool:
    """Report whether all values stand in a line, each by itself."""
    return all(value in line for value in row) and all(
        re.search(rf"(?<!\w){re.escape(value)}(?!\w)", line) for value in row
    )


def _keep_first(
    rows: Iterable[dict[str, Any]], examples: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the rows, and add what the card shows of the first ones to the examples."""
    for number, row in enumerate(rows):
        if number < EXAMPLES:
            examples.append({name: row[name] for name in (*_SHOWN, "images")})
        yield row


def _commitments(sealed: SealedSet) -> dict[str, Any]:
    return {
        "format": "dosimeter/commitments/1",
        "how": (
            "commitment = HMAC-SHA256(key = nonce, message = the parts 'dosimeter/commitment', "
            "'1', instance (ASCII) and seed (32 bytes, and the item if there is one), each after "
            "its length as 4 bytes big-endian); root = RFC 6962 section 2.1 over the commitments' "
            "bytes"
        ),
        "root": sealed.root,
        "commitments": list(sealed.commitments),
        "entropy": sealed.entropy,
    }


def _openings(tranche: int, drawn: Iterable[_Drawn], sealed: SealedSet) -> dict[str, Any]:
    """What opens the commitments of a tranche's public arm."""
    members = [item for item in drawn if item[1].tranche == tranche]
    return {
        "format": "dosimeter/openings/1",
        "root": sealed.root,
        "tranche": tranche,
        "public": [
            {"leaf": leaf} | {name: getattr(entry, name) for name in _OPENED}
            for leaf, entry in sorted(members, key=itemgetter(0))
        ],
    }


def _write_shards(folder: Path, split: str, rows: Iterable[dict[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = row_schema()
    folder.mkdir(parents=True, exist_ok=True)
    for number, (_, groups) in enumerate(groupby(_row_groups(rows), key=itemgetter(0))):
        path = folder / f"{split}-{number:05d}.parquet"
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for _, group in groups:
                writer.write_table(pa.Table.from_pylist(group, schema=schema))
        sync_path(path)


def _row_groups(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yield the rows of each row group, with a number that its shard's groups have in common."""
    group: list[dict[str, Any]] = []
    before = size = 0
    for row in rows:
        group.append(row)
        size += 2 * sum(len(file["data"]) for file in row["input_files"])  # also as text or image
        if len(group) == ROW_GROUP or size >= GROUP_BYTES:
            yield before // SHARD_BYTES, group
            group, before, size = [], before + size, 0
    if group:
        yield before // SHARD_BYTES, group


# -- whole or not at all ------------------------------------------------------------------------


@contextmanager
def draft_folder(folder: Path) -> Iterator[Path]:
    """An empty folder beside a release's place, gone afterwards, and with it what a killed process
    left there. Another process waits for it."""
    draft, replaced = folder.with_name(f".{folder.name}.partial"), _replaced(folder)
    lock = os.open(folder.parent, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released by the kernel should this process die
        if replaced.exists() and not os.path.lexists(folder):
            os.rename(replaced, folder)
        for left in (draft, replaced):
            shutil.rmtree(left, ignore_errors=True)
        draft.mkdir()
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        os.close(lock)


def _replaced(folder: Path) -> Path:
    """Where a release is while one with more tranches takes its place."""
    return folder.with_name(f".{folder.name}.replaced")


def _put_in_place(draft: ReleaseManifest, folder: Path) -> None:
    if os.path.lexists(folder):
        before = read_release(folder)
        if before.content == draft.content:
            return
        if not _adds_to(before, draft):
            raise PublishError(
                f"{folder}: holds another release, and none is overwritten: name another folder"
            )
        os.rename(folder, _replaced(folder))
    os.rename(draft.folder, folder)
    sync_path(folder.parent)
    shutil.rmtree(_replaced(folder), ignore_errors=True)


def _adds_to(before: ReleaseManifest, draft: ReleaseManifest) -> bool:
    """Report whether a release adds tranches to another and keeps what that one has."""
    return set(before.tranches) < set(draft.tranches) and all(
        name in draft.files
        and file_digest(before.folder / name) == file_digest(draft.folder / name)
        for name in lasting(before.files)
    )


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    sync_path(path)
