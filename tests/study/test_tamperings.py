"""Tamperings with a finished study, by a stranger who can write to the store and by an owner who
has the key: each is named, by anyone who has a checkpoint that was kept elsewhere, or is stated as
not promised.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from harness.episodes.result import RESULT_CODEC
from harness.storage import attempt_key, result_key
from registry.ledger.chain import Entry, _seal_entry, head_digest
from registry.ledger.inventory import read_inventory, write_inventory
from registry.ledger.records import record_digest
from registry.provenance import read_provenance
from registry.sealing import CellKey, Keys, SealedSeeds, encrypt, seal_seeds
from registry.signing import Signer
from registry.stores.base import Store
from registry.stores.folder import FolderStore
from registry.verify.findings import Verification
from study.steps import pipeline
from study.steps.verify.verify import VerifyRequest, verify
from study.workspace.address import open_study as open_folder
from study.workspace.checkpoints import make_checkpoint
from study.workspace.study import CHECKOUT, Study
from tests.ledgers import keys_of_cell
from tests.study.conftest import SMALL, make_study, run_wave

STRANGER, FOREIGN_CELL = Signer(b"\x07" * 32), CellKey("ab" * 32, b"\x07" * 32)
NOW = "2099-01-01T00:00:00Z"
FOREIGN = "which is not the study's key"


@dataclass(frozen=True)
class Seen:
    """What verification says: a part of the message. ``by_key``: to the study's key only."""

    words: str
    by_key: bool = False


@dataclass(frozen=True)
class Kept:
    """Only a head that was noted elsewhere, or a checkpoint that was kept there, shows it."""


@dataclass(frozen=True)
class NotPromised:
    """No check can show it."""

    reason: str


Expected = Seen | Kept | NotPromised


@dataclass(frozen=True)
class Watched:
    """A finished study."""

    study: Study
    checkpoint: Path  # of all of it, kept elsewhere
    other: Path  # the study's folder as the owner made it anew from the last wave on


class World:
    """A finished study, and somebody who can write to its store."""

    def __init__(
        self, study: Study, watched: Watched, write: Callable[[str, bytes | None], None]
    ) -> None:
        self.study, self._write = study, write
        self.checkpoint, self.other = watched.checkpoint, watched.other
        self.entries = study.ledger.entries()
        self.head = head_digest(self.entries)
        self.owner = study.signer()
        self.keys = study.keys()

    def put(self, key: str, data: bytes | None) -> None:
        """Write an object over what is there; None removes it."""
        self._write(key, data)

    def first(self, prefix: str) -> str:
        return next(iter(self.study.store.list(prefix)))

    def rewrite(self, entries: Sequence[Entry], signer: Signer, start: int = 0) -> None:
        """Write these records for those of the ledger, signed by this key from the first one that
        differs on, with digests of records that changed in all that name them; and remove what the
        store has of checkpoints."""
        for key in [*self.study.store.list("checkpoints/")]:
            self.put(key, None)
        renamed: list[tuple[str, str]] = []
        chain: list[Entry] = []
        for number, entry in enumerate(entries):
            text = json.dumps(entry.body)
            for was, is_now in renamed:
                text = text.replace(was, is_now)
            before = self.entries[number] if number < len(self.entries) else None
            fresh = replace(
                entry,
                sequence=number,
                previous=head_digest(chain),
                body=json.loads(text),
                signer=signer.public,
            )
            same = (
                before is not None
                and number >= start
                and replace(
                    fresh, signer=before.signer, signature=before.signature, digest=before.digest
                )
                == before
            )
            if same and before is not None:
                chain.append(before)
                continue
            sealed, data = _seal_entry(fresh, signer)
            chain.append(sealed)
            self.put(f"ledger/{number:08d}.json", data)
            origin = next((e for e in self.entries if e.sequence == entry.sequence), None)
            if origin is not None and origin.kind == entry.kind:
                renamed.append((record_digest(origin.record), record_digest(sealed.record)))
        for number in range(len(entries), len(self.entries)):
            self.put(f"ledger/{number:08d}.json", None)

    def change(self, kind: str, edit: Callable[[Any], None], signer: Signer) -> None:
        """Change the body of the newest record of a kind."""
        place = max(entry.sequence for entry in self.entries if entry.kind == kind)
        body = json.loads(json.dumps(self.entries[place].body))
        edit(body)
        changed = [*self.entries]
        changed[place] = replace(changed[place], body=body)
        self.rewrite(changed, signer)

    def append(
        self, kind: str, signer: Signer, edit: Callable[[Any], None] = lambda b: None
    ) -> None:
        """Append the newest record of a kind once more, changed, and dated now."""
        last = next(entry for entry in reversed(self.entries) if entry.kind == kind)
        body = json.loads(json.dumps(last.body))
        edit(body)
        self.rewrite([*self.entries, replace(last, sequence=-1, body=body, time=NOW)], signer)

    def verify(self, by: str, head: str | None = None, noted: bool = False) -> Verification:
        """Verify as somebody, with the checkpoint that was kept elsewhere if ``noted``."""
        kept = (self.checkpoint,) if noted else ()
        request = VerifyRequest(head, regrade=by == "regrade", checkpoints=kept)
        with pytest.MonkeyPatch.context() as patch:
            if by == "anyone":
                patch.setenv("DOSIMETER_KEY_FILE", str(self.study.folder / "no-key"))
            return verify(open_folder(self.study.folder), request, lambda *step: None)


Tampering = Callable[[World, Signer], None]


def _set(*path: str | int, value: object) -> Callable[[Any], None]:
    def edit(body: Any) -> None:
        for name in path[:-1]:
            body = body[name]
        body[path[-1]] = value

    return edit


def _drop(kind: str) -> Tampering:
    def tamper(world: World, signer: Signer) -> None:
        place = max(entry.sequence for entry in world.entries if entry.kind == kind)
        world.rewrite([e for e in world.entries if e.sequence != place], signer)

    return tamper


def _change(kind: str, *path: str | int, value: object) -> Tampering:
    return lambda world, signer: world.change(kind, _set(*path, value=value), signer)


def _cut(count: int) -> Tampering:
    return lambda world, signer: world.rewrite(world.entries[:-count], signer)


def _later(world: World, signer: Signer) -> None:
    world.rewrite([replace(e, time=e.time.replace("20", "21", 1)) for e in world.entries], signer)


def _back(world: World, signer: Signer) -> None:
    *rest, last = world.entries
    world.rewrite([*rest, replace(last, time="2001-01-01T00:00:00Z")], signer)


def _anew(world: World, signer: Signer) -> None:
    world.rewrite(world.entries, signer, start=len(world.entries))


def _code(world: World, signer: Signer) -> None:
    """Name a clean commit of this repository, with another lock of libraries."""
    made = read_provenance(CHECKOUT, "none")

    def edit(body: Any) -> None:
        body["provenance"] |= {"commit": made.commit, "dirty": False, "lock": "sha256:" + "1" * 64}

    world.change("preregistration", edit, signer)


def _extra_leak(world: World, signer: Signer) -> None:
    body = {"tranche": 0, "since": "2026-01-01", "reason": "so it is said"}
    leak = replace(world.entries[-1], sequence=-1, kind="leak", body=body, time=NOW)
    world.rewrite([*world.entries, leak], signer)


def _manifest(world: World, signer: Signer) -> None:
    """One for a wave of which nobody has heard."""
    world.append("run-manifest", signer, _set("wave", value=7))


def _keys(world: World, signer: Signer, key: str) -> Keys:
    store = world.study.store
    place = key if store.exists(key) else world.first("attempts/")
    cell = keys_of_cell(world.study, place, key).cell if signer is not STRANGER else FOREIGN_CELL
    return replace(world.keys, signer=signer, cell=cell)


def _object(
    name: Callable[[World], str], data: Callable[[World, str, Signer], bytes | None]
) -> Tampering:
    def tamper(world: World, signer: Signer) -> None:
        key = name(world)
        world.put(key, data(world, key, signer))

    return tamper


def _signed(world: World, key: str, signer: Signer) -> bytes:
    return _keys(world, signer, key).seal(key, b"forged")


def _removed(world: World, key: str, signer: Signer) -> None:
    return None


def _better(world: World, key: str, signer: Signer) -> bytes:
    """A result with a score of 1, by this signer."""
    result = RESULT_CODEC.read(world.study.store, key, world.keys)
    return _keys(world, signer, key).seal(key, RESULT_CODEC.encode(replace(result, score=0.987)))


def _better_and_closed(world: World, signer: Signer) -> None:
    """A better result, and the closing of its wave made again to suit."""
    store = world.study.store
    closed = next(e for e in reversed(world.entries) if e.kind == "wave-closed")
    listed = [key for key, _ in read_inventory(store, closed.record.objects_root)]
    key = next(key for key in listed if key.startswith("results/"))
    world.put(key, _better(world, key, signer))

    class Written:
        """The store, written to as a tamperer does."""

        uri = store.uri
        get, exists, list = store.get, store.exists, store.list

        def put(self, name: str, data: bytes) -> bool:
            if not store.exists(name):
                world.put(name, data)
            return True

        replace = put

    made = write_inventory(Written(), listed)  # type: ignore[arg-type]
    for name in store.list("tables/"):
        world.put(name, None)

    def edit(body: Any) -> None:
        body |= {"results_root": made.results_root, "objects_root": made.objects_root}

    world.change("wave-closed", edit, signer)


def _swapped(world: World, signer: Signer) -> None:
    one, two = [*world.study.store.list("results/")][:2]
    first, second = world.study.store.get(one), world.study.store.get(two)
    world.put(one, second)
    world.put(two, first)


def _sealed(world: World, signer: Signer) -> None:
    """Another sealed set under the old name, with arms that suit."""
    other = SealedSeeds(tuple(world.study.drawn_seeds())[::-1], "00" * 32)
    world.put(world.first("sealed/"), seal_seeds(other, world.study.recipients()))


def _file(name: str, extra: bytes = b"\n") -> Tampering:
    def tamper(world: World, signer: Signer) -> None:
        path = next(world.study.folder.glob(name))
        path.write_bytes(path.read_bytes() + extra)

    return tamper


def _nothing(world: World, signer: Signer) -> None:
    pass


def _other_run(world: World, signer: Signer) -> None:
    """Keep what the owner has made of the last wave in another store, which nobody has seen."""
    if signer is STRANGER:
        return
    other = FolderStore(world.other / "store")
    for key in {*world.study.store.list(), *other.list()}:
        world.put(key, other.get(key) if other.exists(key) else None)
    reports = world.study.folder / "reports"
    for path in (world.other / "reports").rglob("*.*"):
        (reports / path.relative_to(world.other / "reports")).write_bytes(path.read_bytes())


def _first_result(world: World) -> str:
    return world.first("results/")


def _no_episode(folder: Callable[[str], str]) -> Callable[[World], str]:
    return lambda world: folder("sha256:" + "ab" * 32)


def _next_attempt(world: World) -> str:
    return world.first("attempts/").replace("-0001.cell", "-0002.cell")


ALTERED, EXTRA = Seen("was altered: digest"), Seen("an extra object")
REWRITTEN = Seen("one of these was rewritten")  # by the checkpoint of the report or the release
# Attack; how; what is seen if a stranger does it, and if the owner does, who signs all anew.
ROWS: list[tuple[str, Tampering, Expected, Expected]] = [
    ("the last record dropped", _cut(1), Kept(), Kept()),
    ("rolled back to before the last wave", _cut(4), EXTRA, EXTRA),
    ("a record dropped from the middle", _drop("release"), Seen(FOREIGN), REWRITTEN),
    ("a look erased, the newest record", _drop("look"), Kept(), Kept()),
    ("a plan changed and hashed anew", _change("preregistration", "plan", "alpha", value=0.5),
     Seen(FOREIGN), Seen("and registered is")),
    ("a margin loosened", _change("preregistration", "plan", "margin", value=0.5),
     Seen(FOREIGN), Seen("and registered is")),
    ("a model's pin changed", _change("run-manifest", "models", 0, "version", value="better"),
     Seen(FOREIGN), REWRITTEN),
    ("another commit named", _change("preregistration", "provenance", "commit", value="c" * 40),
     Seen(FOREIGN), REWRITTEN),
    ("a clean commit named with another lock", _code, Seen(FOREIGN),
     Seen("is not that of its commit")),
    ("entropy renamed", _change("sealed-set", "entropy", value="operating system"),
     Seen(FOREIGN), REWRITTEN),
    ("another allocation seed", _change("sealed-set", "allocation_seed", value="5e" * 32),
     Seen(FOREIGN), Seen("follows from the announced value, not the recorded one")),
    ("a release record changed", _change("release", "content", value="sha256:" + "1" * 64),
     Seen(FOREIGN), Seen("checksums.json: was altered")),
    ("deviations left out", _change("report", "deviations", value=[]), Seen(FOREIGN),
     Seen("its deviations are not those that the ledger records")),
    ("all dates moved", _later, Seen("the ledger was replaced"), REWRITTEN),
    ("dates out of order", _back, Seen(FOREIGN), Seen("its time goes back")),
    ("the whole ledger signed anew", _anew, Seen("the ledger was replaced"),
     NotPromised("it is the same, byte for byte")),
    ("a second preregistration", lambda w, s: w.append("preregistration", s), Seen(FOREIGN),
     Seen("a second preregistration")),
    ("a second draw", lambda w, s: w.append("sealed-set", s), Seen(FOREIGN),
     Seen("a second sealed-set")),
    ("a second wave-closed", lambda w, s: w.append("wave-closed", s), Seen(FOREIGN),
     Seen("a second wave-closed")),
    ("a second report of the same look", lambda w, s: w.append("report", s), Seen(FOREIGN),
     Seen("a second report with the same content")),
    ("a release of other content",
     lambda w, s: w.append("release", s, _set("content", value="sha256:" + "1" * 64)),
     Seen(FOREIGN), Seen("a second release of this draw, of other content")),
    ("a false leak", _extra_leak, Seen(FOREIGN),
     NotPromised("that something leaked is the owner's word; the report shows what it changes")),
    ("a forged manifest", _manifest, Seen(FOREIGN), Seen("has the keys of another wave's run")),
    ("an extra attempt", _object(_next_attempt, _signed), EXTRA, EXTRA),
    ("a junk result of no episode", _object(_no_episode(result_key), _signed), EXTRA, EXTRA),
    ("a junk attempt of no episode",
     _object(_no_episode(lambda e: attempt_key(e, 1)), _signed), EXTRA, EXTRA),
    ("a forged result in the place of one", _object(_first_result, _better), ALTERED, ALTERED),
    ("a forged result, and its wave closed anew", _better_and_closed, Seen(FOREIGN),
     REWRITTEN),
    ("a forged grade by a judge",
     _object(lambda w: f"grades/{'ab' * 32}/{'cd' * 32}.age", _signed),
     Seen("which is none of the study's", by_key=True),
     NotPromised("no record names it: it counts once the ledger has it, and is then rebuilt")),
    ("a forged probe", _object(lambda w: f"probes/{'ab' * 32}/{'cd' * 32}.age", _signed),
     Seen("which is none of the study's", by_key=True),
     NotPromised("no record names it: it counts once the ledger has it")),
    ("an attempt deleted", _object(lambda w: w.first("attempts/"), _removed), Seen("missing"),
     Seen("missing")),
    ("a result deleted", _object(_first_result, _removed), Seen("missing"), Seen("missing")),
    ("two results exchanged", _swapped, ALTERED, ALTERED),
    ("the sealed set exchanged", _sealed, ALTERED, ALTERED),
    ("a run's key exchanged",
     _object(lambda w: next(k for k in w.study.store.list("runs/") if k.endswith("key.age")),
             lambda w, k, s: encrypt(b"AGE-SECRET-KEY-1", w.study.recipients())),
     ALTERED, ALTERED),
    ("an inventory list changed",
     _object(lambda w: w.first("inventory/parts/"), lambda w, k, s: w.study.store.get(k)[67:]),
     ALTERED, ALTERED),
    ("released files altered", _file("release/data/*/*.parquet"), ALTERED, ALTERED),
    ("a file added to the release", _file("release/README.md", b"more\n"), ALTERED, ALTERED),
    ("the report's page altered", _file("reports/*/report.html"), ALTERED, ALTERED),
    ("the report's numbers altered", _file("reports/*/report.json"), ALTERED, ALTERED),
    ("an unrecorded look", _nothing,
     NotPromised("whoever has the key can open the store with a program of their own"),
     NotPromised("whoever has the key can open the store with a program of their own")),
    ("a wave run in two stores, and one kept", _other_run,
     NotPromised("it takes the key"), Kept()),
]  # fmt: skip


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """A study that was run to its report, and looked at."""
    from study.extras.transcripts.show import list_records

    folder = tmp_path_factory.mktemp("watched")
    study = make_study(folder / "small", SMALL)
    run_wave(study, 0, parallel=4)
    pipeline.publish(study, None, lambda *step: None)
    shutil.copytree(study.folder, folder / "other")
    for each in (study, open_folder(folder / "other")):
        run_wave(each, 1, parallel=4)
        pipeline.report(each)
        list_records(each, None, None, True)
    (folder / "kept.txt").write_bytes(make_checkpoint(study).note)
    return Watched(study, folder / "kept.txt", folder / "other")


@pytest.fixture(scope="module")
def kept(watched: Watched, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A copy of the study."""
    folder = tmp_path_factory.mktemp("tampered") / "small"
    shutil.copytree(watched.study.folder, folder)
    return open_folder(folder)


@pytest.fixture
def world(kept: Study, watched: Watched) -> Iterator[World]:
    """Somebody who writes to the store; what they did is undone."""
    files = {path: path.read_bytes() for path in kept.folder.rglob("*.*") if path.is_file()}
    undo: dict[str, bytes | None] = {}

    def write(key: str, data: bytes | None) -> None:
        undo.setdefault(key, kept.store.get(key) if kept.store.exists(key) else None)
        _overwrite(kept.store, key, data)

    yield World(kept, watched, write)
    for key, before in undo.items():
        _overwrite(kept.store, key, before)
    for path, data in files.items():
        if not path.is_relative_to(kept.folder / "store") and path.read_bytes() != data:
            path.write_bytes(data)


def _overwrite(store: Store, key: str, data: bytes | None) -> None:
    """Write as nobody does who keeps to the store's promises."""
    if data is not None:
        store.replace(key, data)
    else:
        assert isinstance(store, FolderStore)
        (Path(store.path) / key).unlink(missing_ok=True)


def _messages(found: Verification) -> str:
    return "\n".join(f"{place}: {problem}" for place, problem in found.problems)


@pytest.mark.slow
@pytest.mark.parametrize("attacker", ["stranger", "owner"])
@pytest.mark.parametrize(("name", "tamper", "stranger", "owner"), ROWS, ids=[r[0] for r in ROWS])
def test_each_tampering_is_named_or_known_to_need_what_was_kept(
    world: World, name: str, tamper: Tampering, stranger: Expected, owner: Expected, attacker: str
) -> None:
    expected = stranger if attacker == "stranger" else owner
    tamper(world, STRANGER if attacker == "stranger" else world.owner)
    alone, with_head, with_checkpoint = (
        _messages(world.verify("anyone", head, noted))
        for head, noted in ((None, False), (world.head, False), (None, True))
    )
    match expected:
        case Seen(words, by_key=False):
            assert words in alone
            assert words in with_head
            assert words in with_checkpoint
        case Seen(words, by_key=True):
            assert (alone, with_head, with_checkpoint) == ("", "", "")
            assert words in _messages(world.verify("owner"))
        case Kept():
            assert alone == "", "then it needs no checkpoint"
            assert "expected in the chain" in with_head
            assert "which the study's key signed" in with_checkpoint
        case NotPromised():
            assert (alone, with_head, with_checkpoint) == ("", "", ""), "then it can be promised"
            assert world.verify("owner").holds


@pytest.mark.slow
def test_the_study_that_is_tampered_with_holds(world: World) -> None:
    found = world.verify("regrade", world.head, noted=True)
    assert found.holds, found.problems
    assert dict(found.counts)["checkpoints"] == 3, "of the release, the report and the end"
