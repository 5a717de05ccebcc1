"""The inventory of a run: the name and digest of each object stored for it, under one root.

It is text that ``sha256sum -c`` reads. Parts of some thousand lines ``<digest>  <key>``, in key
order over all parts, are named by their own digest, ``inventory/parts/<digest>.txt``; a head
lists them, and is named by the root, ``inventory/<root>.txt``. A leaf of the root is the key's
bytes and then the digest's 32. Nothing in it is secret: a store shows keys and ciphertexts to
all its readers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from heapq import merge
from itertools import groupby, islice, pairwise
from typing import Any

from registry.canonical import Digest, digest_bytes
from registry.errors import BrokenPromise, RegistryError
from registry.ledger.merkle import MerkleTree
from registry.ledger.records import RunManifest, WaveClosed
from registry.stores.base import Store
from registry.stores.parallel import parallel_map

RUN_FOLDERS = ("attempts/", "responses/", "results/")
FOLDER = "inventory/"
PARTS = "inventory/parts/"
CHECKS = "checks/"  # results of judge checks: plain, each named by its digest
CALIBRATIONS = "calibrations/"  # likewise, of calibrations
_RESULTS = "results/"
_PROBES = "probes/"
_GRADES = "grades/"
_REGRADES = "regrades/"
_PAID_CALLS = "judgements/"
_SPREAD = {"responses/": 2}  # levels of folders below a folder of a run; of any other 1
_LINES = 4096  # a part
_LINE = re.compile(r"([0-9a-f]{64})  ([!-~]+)")
_HEX = re.compile(r"[0-9a-f]{64}")
_SEPARATORS = (".", "-")  # after the episode in a key
_PROBE = re.compile(r"[0-9a-f]{64}\.age")  # result of a probe; beside it lie its replies


@dataclass(frozen=True, slots=True)
class Inventory:
    """Numbers and roots of a run's objects, as ``WaveClosed`` records them; a root is 64
    hexadecimal digits."""

    objects: int
    objects_root: str
    results: int
    results_root: str


@dataclass(slots=True)
class InventoryTrees:
    """The two roots of an inventory as its lines go by, and the episodes that it has grades of, in
    the ``folder`` that is given: that of the results, or of a judge (``grades_folder``). With the
    digest of a ``model``, as 64 hexadecimal digits, it counts that model's probes instead."""

    folder: str = _RESULTS
    model: str = ""
    objects: MerkleTree = field(default_factory=MerkleTree)
    results: MerkleTree = field(default_factory=MerkleTree)
    graded: int = 0
    _episodes: Any = field(default_factory=sha256)

    def add(self, key: str, digest: str) -> None:
        """Add an object by its key and digest."""
        leaf = _digest_leaf(digest)
        self.objects.add(key.encode() + leaf)
        if key.startswith(_RESULTS):
            self.results.add(leaf)
        if self._counts(key):
            self.graded += 1
            self._episodes.update(key.rpartition("/")[2].partition(".")[0].encode())

    def _counts(self, key: str) -> bool:
        if self.model:
            folder, _, name = key.rpartition("/")
            return folder == f"{_PROBES}{self.model}" and _PROBE.fullmatch(name) is not None
        return key.startswith(self.folder)

    @property
    def episodes(self) -> str:
        """A digest of the names of the episodes that are graded in it."""
        named: str = self._episodes.hexdigest()
        return named

    def inventory(self) -> Inventory:
        """The numbers and roots of what was added."""
        objects, results = self.objects, self.results
        return Inventory(objects.size, objects.root().hex(), results.size, results.root().hex())


def episode_stem(folder: str, digits: str) -> str:
    """Return the common stem of the keys, in a folder of runs, of all episodes whose names begin
    with some ``digits``. Episodes lie in subfolders by their first two digits, so that one listing
    need not hold all names; replies, of which an episode has many, by the next two as well, so that
    those of one episode are listed quickly from a folder."""
    depth = min(_SPREAD.get(folder, 1), len(digits) // 2)
    subfolders = "".join(f"{digits[2 * level : 2 * level + 2]}/" for level in range(depth))
    whole = depth == _SPREAD.get(folder, 1)
    return f"{folder}{subfolders}{digits if whole else digits[2 * depth :]}"


def run_objects(
    store: Store, manifest: RunManifest, is_owed: Callable[[str], bool]
) -> Iterator[str]:
    """The keys of all that is stored for a run, in key order: its episodes' attempts,
    responses and results, and what lies beside its key. ``is_owed`` reports if the 64 digits of a
    name are those of an episode of the run; it is asked in key order."""
    for folder in RUN_FOLDERS:
        end = len(episode_stem(folder, "0" * 64))
        for key in store.list(folder):
            episode = key[end - 64 : end]
            placed = key[end : end + 1] in _SEPARATORS and key.startswith(folder + episode[:2])
            if placed and is_owed(episode):
                yield key
    yield from store.list(manifest.run_key.rpartition("/")[0] + "/")


def grades_folder(judge: str, look: int | None = None) -> str:
    """Return the folder of a judge's first grades, or of those at a later look's wave; ``judge`` is
    the digest of its pin."""
    digest = judge.removeprefix("sha256:")
    return f"{_GRADES}{digest}/" if look is None else f"{_REGRADES}{digest}/{look:04d}/"


def judge_objects(
    store: Store,
    judge: str,
    episodes: Collection[str],
    before: Iterable[str],
    look: int | None = None,
) -> Iterator[str]:
    """The keys of a judge's grades of some episodes, at a ``look`` those that it made again, and of
    its replies that no inventory ``before``, of which the roots are given, lists; in key order.
    Digests name judge and episodes."""
    wanted = frozenset(episode.removeprefix("sha256:") for episode in episodes)
    grades = (
        key
        for key in (store.list(grades_folder(judge, look)) if wanted else ())
        if key.rpartition("/")[2].removesuffix(".age") in wanted
    )
    yield from merge(grades, _unpromised(store, judge, before))


def _unpromised(store: Store, judge: str, before: Iterable[str]) -> Iterator[str]:
    """A judge's replies that no inventory lists."""
    digest = judge.removeprefix("sha256:")
    listed = [((key, True) for key, _ in read_inventory(store, root)) for root in before]
    stored = ((key, False) for key in store.list(f"{_PAID_CALLS}{digest}/"))
    for key, group in groupby(merge(stored, *listed), key=lambda line: line[0]):
        if not any(promised for _, promised in group):
            yield key


def probe_objects(store: Store, model: str, calls: Collection[str]) -> Iterator[str]:
    """The keys of all that is stored for some probes of a model, in key order. Digests name model
    and probes."""
    folder = f"{_PROBES}{model.removeprefix('sha256:')}/"
    wanted = frozenset(call.removeprefix("sha256:") for call in calls)
    for key in store.list(folder) if wanted else ():
        if re.split(r"[-.]", key.removeprefix(folder))[0] in wanted:
            yield key


def write_inventory(
    store: Store,
    keys: Iterable[str],
    inspect: Callable[[str, bytes], None] = lambda key, data: None,
    progress: Callable[[int], None] = lambda done: None,
) -> Inventory:
    """Digest the objects and keep their list in the store. ``keys`` come in key order.

    Each object is read once, by several threads if the store is remote, and ``inspect`` gets its
    key and bytes in them. ``progress`` gets the number of objects so far. Holds one part in memory.
    After a kill, no head names the parts already stored; the next run uses them. Raises StoreError.
    """

    def read(key: str) -> str:
        data = store.get(key)
        inspect(key, data)
        return digest_bytes(data)

    trees, parts, before = InventoryTrees(), list[str](), ""
    rest = iter(keys)
    while block := list(islice(rest, _LINES)):
        for first, second in pairwise((before, *block)):
            if second <= first:
                raise RegistryError(f"{second}: an inventory takes keys in order, each once")
        lines = list[str]()
        for key, digest in zip(block, parallel_map(store, read, block), strict=True):
            trees.add(key, digest)
            lines.append(f"{digest.removeprefix('sha256:')}  {key}\n")
            progress(trees.objects.size)
        data = "".join(lines).encode()
        parts.append(digest_bytes(data).removeprefix("sha256:"))
        store.put(part_key(parts[-1]), data)
        before = block[-1]
    inventory = trees.inventory()
    store.put(head_key(inventory.objects_root), "".join(f"{part}\n" for part in parts).encode())
    return inventory


def read_inventory(store: Store, root: str) -> Iterator[tuple[str, Digest]]:
    """The keys and digests listed under a root, in key order, one part in memory at a time.

    Raises BrokenPromise where a list is not the one that was written, MissingKey where it is
    gone. The reader must check that the lines add up to the root (InventoryTrees).
    """
    before = ""
    for part in _read_head(store, head_key(root)):
        for key, digest in _read_part(store, part):
            if key <= before:
                raise BrokenPromise(f"{part_key(part)}: {key} is out of order")
            yield key, digest
            before = key


def read_results(store: Store, closed: WaveClosed) -> Iterator[tuple[str, Digest]]:
    """The keys and digests of a closed wave's results, in key order. The inventory is read by
    several threads if the store is remote.

    After the last line, raises BrokenPromise unless the digests are those that the ledger records.
    A reader must come to the end before it relies on any of them, and check that each result is the
    one that its key names. Raises as ``read_inventory``.
    """
    parts, tree = _read_head(store, head_key(closed.objects_root)), MerkleTree()
    for lines in parallel_map(store, lambda part: [*_read_part(store, part)], parts):
        for key, digest in lines:
            if key.startswith(_RESULTS):
                tree.add(_digest_leaf(digest))
                yield key, digest
    if tree.root().hex() != closed.results_root:
        raise BrokenPromise(
            f"wave {closed.wave}: its inventory lists other results than the ledger records: see "
            "`dosimeter verify`"
        )


def head_key(root: str) -> str:
    """The store key of the first page of an inventory."""
    return f"{FOLDER}{root}.txt"


def part_key(part: str) -> str:
    """The store key of a part of an inventory."""
    return f"{PARTS}{part}.txt"


def _read_head(store: Store, key: str) -> list[str]:
    parts = _lines(store.get(key), key)
    if not all(_HEX.fullmatch(part) for part in parts):
        raise BrokenPromise(f"{key}: was altered: not a list of inventory parts")
    return parts


def _read_part(store: Store, part: str) -> Iterator[tuple[str, Digest]]:
    key = part_key(part)
    data = store.get(key)
    if (digest := digest_bytes(data)) != f"sha256:{part}":
        raise BrokenPromise(f"{key}: was altered: digest sha256:{part} expected, {digest} found")
    for line in _lines(data, key):
        if not (match := _LINE.fullmatch(line)):
            raise BrokenPromise(f"{key}: not a line of an inventory: {line[:80]!r}")
        yield match[2], Digest(f"sha256:{match[1]}")


def _lines(data: bytes, key: str) -> list[str]:
    text = data.decode("ascii", "replace")
    if text and not text.endswith("\n"):
        raise BrokenPromise(f"{key}: was cut: its last line is not whole")
    return text.split("\n")[:-1]


def _digest_leaf(digest: str) -> bytes:
    return bytes.fromhex(digest.removeprefix("sha256:"))
