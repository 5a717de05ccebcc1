"""A release: the public arm as a folder that ``datasets.load_dataset`` reads.

The folder is built beside its place and renamed to it whole. The same draw gives the same
bytes, so building it again finds it there. Read, it is complete, and every file is as its
checksums have it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from generators.task import DIFFICULTIES, Asset
from generators.templates import TemplateFamily
from publish.errors import PublishError
from publish.leakcheck import FindFamily, counted, regenerate, release_files
from registry.canonical import Digest, canonical_bytes, digest_bytes
from registry.errors import RegistryError
from registry.ledger import SealedSet
from registry.result_row import Arm
from registry.sealing import DrawnInstance, commitments_of, commitments_root

SHARD_BYTES = 256 << 20  # of content, before compression
ROW_GROUP = 64
EXAMPLES = 3  # of each stratum, on the card
_SHOWN = ("title", "marker", "task", "difficulty", "instance")
CHECKSUMS = "checksums.json"
_CARD = Path(__file__).with_name("dataset_card.md.j2")


@dataclass(frozen=True, slots=True)
class ReleaseText:
    """Words of people about a release."""

    study: str
    title: str
    licence: str = "apache-2.0"  # SPDX identifier, in lower case as the Hub writes it


@dataclass(frozen=True, slots=True)
class ReleaseManifest:
    """A release folder that is complete."""

    folder: Path
    instances_root: str  # Merkle root of the draw
    count: int  # rows
    content: Digest  # of checksums.json, and so of every file
    files: tuple[str, ...]


def build_release(
    folder: Path,
    entries: Sequence[DrawnInstance],
    sealed: SealedSet,
    find_family: FindFamily,
    text: ReleaseText,
    progress: Callable[[int], None] = lambda done: None,
) -> ReleaseManifest:
    """Write the public entries of a sealed draw as a release. ``progress`` gets the number of
    instances that are made.

    A complete folder with the same content is left as it is. Raises PublishError for an entry
    of the private arm or of another draw, for an instance that today's generators no longer
    make, for a folder that holds something else, and where it cannot be written.
    """
    leaves = _leaves(entries, sealed)
    folder = folder.absolute()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _draft_of(folder) as draft:
            drawn = _in_order(zip(leaves, entries, strict=True))
            _write_files(draft, drawn, sealed, find_family, text, progress)
            _put_in_place(draft, folder, read_release(draft).content)
    except OSError as error:
        raise PublishError(
            f"{folder}: cannot write the release ({error.filename or 'a file'}: "
            f"{error.strerror or error})"
        ) from error
    return read_release(folder)


def read_release(folder: Path) -> ReleaseManifest:
    """The manifest of a complete folder; every file's digest is recomputed. Raises
    PublishError that names the first file that is missing, altered or too many."""
    try:
        data = (folder / CHECKSUMS).read_bytes()
        promised = json.loads(data)
        record = json.loads((folder / "commitments.json").read_bytes())
        root, count = str(record["root"]), len(record["public"])
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
    return ReleaseManifest(folder, root, count, digest_bytes(data), (*sorted(digests), CHECKSUMS))


def _checksums(folder: Path) -> dict[str, str]:
    """SHA-256 of each file of a release but the list of them, in hex."""
    return {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in release_files(folder)
        if name != CHECKSUMS
    }


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
    """By family, difficulty and place in the draw, however they were handed in."""

    def place(leaf_entry: _Drawn) -> tuple[str, int, str, int]:
        level = leaf_entry[1].difficulty  # of a template's task it is a question's id
        known = DIFFICULTIES.index(level) if level in DIFFICULTIES else len(DIFFICULTIES)
        return leaf_entry[1].family, known, "" if level in DIFFICULTIES else level, leaf_entry[0]

    return sorted(drawn, key=place)


def _row(leaf: int, entry: DrawnInstance, find_family: FindFamily) -> dict[str, Any]:
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
    }


def _file(asset: Asset) -> dict[str, Any]:
    return {
        "path": asset.path,
        "media_type": asset.media_type,
        "sha256": asset.digest.removeprefix("sha256:"),
        "data": asset.data,
    }


# -- the files ----------------------------------------------------------------------------------


def _write_files(
    folder: Path,
    drawn: Sequence[_Drawn],
    sealed: SealedSet,
    find_family: FindFamily,
    text: ReleaseText,
    progress: Callable[[int], None],
) -> None:
    examples: list[dict[str, Any]] = []
    for stratum, members in groupby(counted(drawn, progress), key=lambda item: item[1].stratum):
        rows = (_row(leaf, entry, find_family) for leaf, entry in members)
        kept = _keep_first(rows, examples)
        _write_shards(folder / "data" / stratum.replace("/", "-"), kept)
    _write(folder / "commitments.json", canonical_bytes(_commitments(drawn, sealed)))
    for name in sorted({f"{entry.family}@{entry.version}" for _, entry in drawn}):
        if isinstance(family := find_family(name), TemplateFamily):  # seeds need it to be of use
            (folder / "templates").mkdir(exist_ok=True)
            _write(folder / "templates" / f"{family.name}.yml", family.file.text.encode())
    _write(folder / "README.md", _render_card(drawn, sealed, find_family, text, examples).encode())
    _write(folder / CHECKSUMS, canonical_bytes(_checksums(folder)))
    for place, _, _ in os.walk(folder):
        _sync(Path(place))


def _keep_first(
    rows: Iterable[dict[str, Any]], examples: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the rows, and add what the card shows of the first ones to the examples."""
    for number, row in enumerate(rows):
        if number < EXAMPLES:
            examples.append({name: row[name] for name in _SHOWN})
        yield row


def _commitments(drawn: Sequence[_Drawn], sealed: SealedSet) -> dict[str, Any]:
    return {
        "format": "dosimeter/commitments/1",
        "how": (
            "commitment = HMAC-SHA256(key = nonce, message = the parts 'dosimeter/commitment', "
            "'1', instance (ASCII) and seed (32 bytes), each after its length as 4 bytes "
            "big-endian); root = RFC 6962 section 2.1 over the commitments' bytes"
        ),
        "root": sealed.root,
        "commitments": list(sealed.commitments),
        "entropy": sealed.entropy,
        "public": [
            {
                "leaf": leaf,
                "stratum": entry.stratum,
                "version": entry.version,
                "instance": entry.instance,
                "seed": entry.seed,
                "nonce": entry.nonce,
            }
            for leaf, entry in sorted(drawn, key=lambda item: item[0])
        ],
    }


def _render_card(
    drawn: Sequence[_Drawn],
    sealed: SealedSet,
    find_family: FindFamily,
    text: ReleaseText,
    examples: Sequence[dict[str, Any]],
) -> str:
    """The dataset card: Markdown with YAML metadata."""
    import jinja2

    tasks = []
    for name, members in groupby(drawn, key=lambda item: f"{item[1].family}@{item[1].version}"):
        levels = groupby(entry.difficulty for _, entry in members)
        tasks.append((find_family(name), [(level, len(list(group))) for level, group in levels]))
    # Markdown, not HTML: what is filled in comes from the catalogue and the protocol.
    environment = jinja2.Environment(  # noqa: S701 - no HTML is made
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters["yaml"] = partial(json.dumps, ensure_ascii=False)  # JSON text is YAML
    return environment.from_string(_CARD.read_text(encoding="utf-8")).render(
        text=text,
        tasks=tasks,
        count=len(drawn),
        size=_size_category(len(drawn)),
        sealed=sealed,
        examples=examples,
    )


def _size_category(count: int) -> str:
    """The Hub's name for how many rows a data set has."""
    bounds = {"n<1K": 1e3, "1K<n<10K": 1e4, "10K<n<100K": 1e5, "100K<n<1M": 1e6}
    return next((name for name, bound in bounds.items() if count < bound), "n>1M")


def _write_shards(folder: Path, rows: Iterable[dict[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema()
    folder.mkdir(parents=True)
    for number, shard in enumerate(_shards(rows)):
        path = folder / f"public-{number:05d}.parquet"
        table = pa.Table.from_pylist(shard, schema=schema)
        pq.write_table(table, path, compression="zstd", row_group_size=ROW_GROUP)
        _sync(path)


def _shards(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    shard: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        shard.append(row)
        size += 2 * sum(len(file["data"]) for file in row["input_files"])
        if size >= SHARD_BYTES:
            yield shard
            shard, size = [], 0
    if shard:
        yield shard


_TEXT = {"dtype": "string", "_type": "Value"}
_BYTES = {"dtype": "binary", "_type": "Value"}
_FILE = {"path": _TEXT, "media_type": _TEXT, "sha256": _TEXT, "data": _BYTES}
# The columns as Hugging Face's ``datasets`` notes them in a Parquet file's metadata.
FEATURES: dict[str, Any] = {
    **dict.fromkeys(("task", "version", "difficulty", "title", "marker"), _TEXT),
    **dict.fromkeys(("seed", "instance"), _TEXT),
    "leaf": {"dtype": "int64", "_type": "Value"},
    **dict.fromkeys(("nonce", "prompt", "answer_schema"), _TEXT),
    "input_files": {"feature": _FILE, "_type": "List"},
    "images": {"feature": {"_type": "Image"}, "_type": "List"},
    **dict.fromkeys(("truth", "rubric", "answer"), _TEXT),
}


def _schema() -> Any:
    import pyarrow as pa

    metadata = canonical_bytes({"info": {"features": FEATURES}})
    fields = [(name, _arrow_type(feature)) for name, feature in FEATURES.items()]
    return pa.schema(fields, metadata={b"huggingface": metadata})


def _arrow_type(feature: dict[str, Any]) -> Any:
    import pyarrow as pa

    match feature.get("_type"):
        case "Value":
            return pa.type_for_alias(feature["dtype"])
        case "List":
            return pa.list_(_arrow_type(feature["feature"]))
        case "Image":
            return pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    return pa.struct([(name, _arrow_type(inner)) for name, inner in feature.items()])


# -- whole or not at all ------------------------------------------------------------------------


@contextmanager
def _draft_of(folder: Path) -> Iterator[Path]:
    """An empty folder beside the place, gone afterwards; also what a killed build left of it."""
    draft = folder.with_name(f".{folder.name}.partial")
    lock = os.open(folder.parent, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released by the kernel should this process die
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        os.close(lock)


def _put_in_place(draft: Path, folder: Path, content: Digest) -> None:
    if os.path.lexists(folder):
        if read_release(folder).content != content:
            raise PublishError(
                f"{folder}: holds another release, and none is overwritten: name another folder"
            )
        return
    os.rename(draft, folder)
    _sync(folder.parent)


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
