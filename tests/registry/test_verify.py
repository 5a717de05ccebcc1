"""Verification: a whole study holds; each kind of tampering is found, and named."""

from __future__ import annotations

import hashlib
import shutil
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import registry.ledger.inventory as inventory_module
from registry.canonical import digest_bytes
from registry.draws.allocation import commit_secret, sealed_key
from registry.draws.seeds import FixedEntropy, SystemEntropy, draw
from registry.errors import RegistryError, StoreError, StoreUnavailable
from registry.ledger.chain import Entry, Ledger, _seal_entry, head_digest
from registry.ledger.draw_records import Announcement
from registry.ledger.inventory import (
    episode_stem,
    head_key,
    judge_objects,
    read_inventory,
    run_objects,
    write_inventory,
)
from registry.ledger.merkle import merkle_root
from registry.ledger.records import (
    CalibrationMade,
    Graded,
    JudgePin,
    Leak,
    Look,
    Plan,
    Preregistration,
    Provenance,
    Regraded,
    Release,
    ReportIssued,
    RunManifest,
    SealedSet,
    WaveClosed,
    record_digest,
)
from registry.sealing import (
    CellKey,
    DrawnSeed,
    SealedSeeds,
    commitments_of,
    commitments_root,
    encrypt,
    new_identity,
    open_run,
    run_name,
    seal_seeds,
)
from registry.signing import Signer
from registry.stores.base import MemoryStore, Store
from registry.stores.folder import FolderStore
from registry.verify.findings import Verification
from registry.verify.verify import verify_study
from tests.cases import cases
from tests.ledgers import keys_of, seal_draw

IDENTITY, RECIPIENT = new_identity()
KEYS = keys_of(IDENTITY)
NOW = "2026-11-01T12:00:00Z"
ZERO = "00" * 32
EPISODES = [hashlib.sha256(b"episode %d" % number).hexdigest() for number in range(6)]
PLAN = Plan(
    "basic-v1", ("f/easy",), 3, 1, 2, 0.025, ("score",), 999, 1000, 0.05, "holm", "words", ()
)
PROVENANCE = Provenance("c" * 40, False, "missing", "none", "3.11.2", ())


def signed_ledger(store: Store) -> Ledger:
    """A store's ledger, whose records the study's key signs."""
    return Ledger(store, lambda: Signer.of(IDENTITY))


def put(store: Store, key: str) -> None:
    """Store an object that holds its own name, signed by the study."""
    store.put(key, KEYS.seal(key, key.encode()))


def make_study(store: Store, waves: int = 2) -> None:
    """A study as the pipeline leaves it, with stand-ins for what its objects hold."""
    ledger = signed_ledger(store)
    drawn = draw([("f", "1", "easy")], 3, SystemEntropy(), lambda *args: "sha256:" + args[3].hex())
    sealed = seal_draw(store, ledger, drawn, [RECIPIENT], NOW)
    registered = Preregistration("study", PLAN, sealed.root, PROVENANCE)
    ledger.append(registered, NOW)
    for wave in range(waves):
        manifest = begin_wave(store, ledger, registered, wave)
        close_wave(store, ledger, manifest, EPISODES[3 * wave : 3 * wave + 3])


def begin_wave(store: Store, ledger: Ledger, registered: Preregistration, wave: int) -> RunManifest:
    folder = f"runs/{hashlib.sha256(b'run %d' % wave).hexdigest()}"
    run, run_recipient = new_identity()
    manifest = RunManifest(
        study="study",
        wave=wave,
        plan=record_digest(registered),
        instances_root=registered.sealed_root,
        models=(),
        judges=(),
        sandbox="local",
        runtime="",
        replicates=(),
        schedule_seed=ZERO,
        run_recipient=run_recipient,
        run_key=f"{folder}/key.age",
        provenance=PROVENANCE,
        single_turn=(),
    )
    store.put(f"{folder}/key.age", encrypt(run.encode(), [RECIPIENT]))
    put(store, f"{folder}/instances.age")
    ledger.append(manifest, NOW)
    return manifest


def close_wave(
    store: Store, ledger: Ledger, manifest: RunManifest, episodes: list[str]
) -> WaveClosed:
    run = open_run(store.get(manifest.run_key), manifest, [IDENTITY])
    for episode in episodes:
        cell = CellKey.of(run, run_name(manifest.run_recipient), episode)
        for key in (
            f"{episode_stem('responses/', episode)}.0000-0000.cell",
            f"{episode_stem('attempts/', episode)}-0000.cell",
            f"{episode_stem('results/', episode)}.cell",
        ):
            store.put(key, cell.seal(key, key.encode()))
    made = write_inventory(store, run_objects(store, manifest, frozenset(episodes).__contains__))
    closed = WaveClosed(
        wave=manifest.wave,
        manifest=record_digest(manifest),
        owed=len(episodes),
        finished=made.results,
        missing=0,
        results_root=made.results_root,
        objects=made.objects,
        objects_root=made.objects_root,
    )
    ledger.append(closed, NOW)
    return closed


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    make_study(FolderStore(folder, durable=False))
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy to tamper with."""
    return Path(shutil.copytree(whole, tmp_path / "store"))


def _verify(folder: Path, key: bool = True) -> Verification:
    return verify_study(FolderStore(folder), [IDENTITY] if key else None)


def test_an_untouched_study_holds_with_and_without_the_key(folder: Path) -> None:
    head = head_digest(signed_ledger(FolderStore(folder)).entries())
    seen: list[tuple[int, int]] = []
    found = verify_study(
        FolderStore(folder), [IDENTITY], head, lambda done, of: seen.append((done, of))
    )
    assert found.problems == ()
    assert found.holds
    assert found.unchecked == ()
    assert found.head == head
    # a wave: its key and instances, and three objects for each of three episodes; and its list
    assert dict(found.counts) == cases(__file__, "counts")
    assert [done for done, _ in seen] == list(range(1, len(seen) + 1))
    without = _verify(folder, key=False)
    assert without.holds
    assert dict(without.counts)["objects"] == 24
    assert len(without.unchecked) == 3
    assert "no key was given" in without.unchecked[1]
    assert "no time-stamp that was checked" in without.unchecked[2]


PIN = JudgePin("j", "them", "j-1", "sha256:p")


def graded(folder: Path, wave: int, **wrong: object) -> Verification:
    """What is found of a study in which a judge has graded a wave, if that is so recorded."""
    store = FolderStore(folder, durable=False)
    ledger, judge = signed_ledger(store), record_digest(PIN)
    closed = ledger.find("wave-closed")[wave].record
    episodes = EPISODES[3 * wave : 3 * wave + 3]
    others = {episode: f"grades/{judge[7:]}/{episode}.age" for episode in EPISODES}
    for key in (*others.values(), f"judgements/{judge[7:]}/{'e' * 64}-00.age"):
        put(store, key)
    made = write_inventory(store, judge_objects(store, judge, wrong.pop("episodes", episodes), ()))
    record = Graded(wave, closed.manifest, PIN, 3, made.objects, made.objects_root, pinned=False)
    ledger.append(replace(record, **wrong), NOW)
    return _verify(folder)


def test_what_a_judge_graded_holds_and_is_the_waves_episodes(folder: Path) -> None:
    found = graded(folder, 1)
    assert found.holds, found.problems
    assert dict(found.counts)["waves graded by judges"] == 1
    # Those of the other wave, which no record promises, are open still.
    assert dict(found.counts)["open objects (no record names them yet)"] == 3


def calibrated(folder: Path, **wrong: object) -> Verification:
    """What is found of a study with a calibration on record, if that is so recorded."""
    store = FolderStore(folder, durable=False)
    ledger, data = signed_ledger(store), b'{"rates":[]}'
    plan = record_digest(ledger.find("preregistration")[0].record)
    digest = digest_bytes(data)
    key = f"calibrations/{digest.removeprefix('sha256:')}.json"
    store.put(key, data)
    made = write_inventory(store, [key])
    record = CalibrationMade(
        plan, "resampled", 0, 120, digest, key, made.objects, made.objects_root
    )  # fmt: skip
    ledger.append(replace(record, **wrong), NOW)
    if wrong.get("how") == "altered":
        (folder / key).chmod(0o644)
        (folder / key).write_bytes(b"{}")
    return _verify(folder, key=False)


def test_a_calibration_on_record_holds(folder: Path) -> None:
    found = calibrated(folder)
    assert found.holds, found.problems
    assert dict(found.counts)["calibrations"] == 1


@pytest.mark.parametrize(("wrong", "problem"), cases(__file__, "problems"))
def test_a_calibration_that_is_not_as_recorded_is_found(
    folder: Path, wrong: dict[str, object], problem: str
) -> None:
    found = calibrated(folder, **wrong)
    assert any(problem in told for _, told in found.problems), found.problems


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"episodes": EPISODES[:3]}, "graded episodes"),
        ({"episodes": EPISODES[3:5]}, "grades 3, 2 found"),
        ({"graded": 2}, "grades 2, 3 found"),
        ({"objects": 3}, "objects 3, 4 found"),
        ({"pinned": True}, "pinned True, but the wave's manifest does not name it"),
        ({"manifest": "sha256:" + "0" * 64}, "closed wave's manifest"),
    ],
)
def test_a_record_of_grades_that_are_not_so_is_found(
    folder: Path, wrong: dict[str, object], problem: str
) -> None:
    found = graded(folder, 1, **wrong)
    assert any(problem in told for _, told in found.problems), found.problems


@pytest.mark.parametrize(
    ("count", "wrong", "problem"),
    [
        (3, {}, ""),
        (2, {}, "grades 3, 2 found"),
        (2, {"graded": 2}, "graded episodes"),
        (2, {"graded": 2, "share": 0.5}, ""),  # which episodes they are is not told in public
        (3, {"wave": 2}, "grades 3, 0 found"),
        (3, {"judge": replace(PIN, version="j-2")}, "first grading of"),
    ],
)
def test_what_a_judge_graded_again_is_the_first_waves_and_was_graded_before(
    folder: Path, count: int, wrong: dict[str, object], problem: str
) -> None:
    graded(folder, 0)
    store, judge = FolderStore(folder, durable=False), record_digest(PIN)
    ledger = signed_ledger(store)
    (first, *_) = (entry.record for entry in ledger.find("graded"))
    for episode in EPISODES[:3]:
        put(store, f"regrades/{judge[7:]}/0001/{episode}.age")
    keys = judge_objects(store, judge, EPISODES[:count], [first.objects_root], 1)
    made = write_inventory(store, keys)
    of = made.objects, made.objects_root
    record = Regraded(1, first.manifest, PIN, 3, *of, first=0, share=1.0)
    ledger.append(replace(record, **wrong), NOW)
    found = _verify(folder)
    assert dict(found.counts)["waves graded again by judges"] == 1
    assert any(problem in told for _, told in found.problems) if problem else found.holds


def test_replies_are_promised_once(folder: Path) -> None:
    store, judge = FolderStore(folder, durable=False), record_digest(PIN)
    key = f"judgements/{judge[7:]}/{'e' * 64}-00.age"
    later = f"judgements/{judge[7:]}/{'f' * 64}-00.age"
    store.put(key, b"one")
    first = write_inventory(store, judge_objects(store, judge, (), ()))
    store.put(later, b"another")
    assert list(judge_objects(store, judge, (), [first.objects_root])) == [later]
    assert list(judge_objects(store, judge, (), ())) == [key, later]


def test_verification_writes_nothing(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    _verify(folder)
    assert sorted(folder.rglob("*")) == before


def _one(folder: Path, pattern: str) -> Path:
    return sorted(folder.glob(pattern))[0]


OBJECTS = cases(__file__, "objects")


TAMPERS: dict[str, Callable[[bytes], bytes | None]] = {
    "cut": lambda data: data[:-1],
    "longer": lambda data: data + b"\n",
    "a bit": lambda data: data[:20] + bytes([data[20] ^ 1]) + data[21:],
    "forged": lambda data: encrypt(b"forged", [RECIPIENT]),
    "empty": lambda data: b"",
    "removed": lambda data: None,
}


@pytest.mark.parametrize("pattern", OBJECTS)
def test_every_kind_of_object_is_found_when_altered_or_removed(folder: Path, pattern: str) -> None:
    victim = _one(folder, pattern)
    whole = victim.read_bytes()
    for name, tamper in TAMPERS.items():
        victim.unlink()
        if (data := tamper(whole)) is not None:
            victim.write_bytes(data)
        for key in True, False:
            found = _verify(folder, key)
            assert not found.holds, name
            assert victim.name in str(found.problems) or victim.parent.name == "inventory"
        victim.write_bytes(whole)


def test_an_inventory_rewritten_to_suit_does_not_match_the_ledger(folder: Path) -> None:
    """Who removes a result and makes the lists agree still cannot make the root agree."""
    store = FolderStore(folder)
    entry = signed_ledger(store).find("wave-closed")[0]
    root = entry.record.objects_root
    victim = next(key for key, _ in read_inventory(store, root) if key.startswith("results/"))
    (folder / victim).unlink()
    made = write_inventory(store, [key for key, _ in read_inventory(store, root) if key != victim])
    shutil.copy(folder / head_key(made.objects_root), folder / head_key(root))
    assert list(dict(_verify(folder, key=False).problems)) == [entry.place]
    found = [problem for _, problem in _verify(folder, key=False).problems]
    assert any("objects root" in each for each in found)
    assert any("results root" in each for each in found)


def test_a_wrong_key_is_one_error_that_names_the_right_one(folder: Path) -> None:
    with pytest.raises(RegistryError, match=f"sealed to {RECIPIENT}.*use the study's key file"):
        verify_study(FolderStore(folder), [new_identity()[0]])


def test_a_cut_ledger_shows_only_against_a_head_noted_elsewhere(folder: Path) -> None:
    head = head_digest(signed_ledger(FolderStore(folder)).entries())
    (folder / "ledger/00000006.json").unlink()
    without = _verify(folder)
    assert without.holds
    assert "open objects" in str(without.counts), "the cut wave's objects are named by no record"
    found = verify_study(FolderStore(folder), [IDENTITY], expected_head=head)
    assert [place for place, _ in found.problems] == ["ledger/"]


def test_objects_of_an_open_wave_are_counted_as_open(folder: Path) -> None:
    store = FolderStore(folder)
    ledger = signed_ledger(store)
    begun = begin_wave(store, ledger, ledger.find("preregistration")[0].record, 2)
    run = open_run(store.get(begun.run_key), begun, [IDENTITY])
    cell = CellKey.of(run, run_name(begun.run_recipient), "ab" * 32)
    key = f"attempts/ab/{'ab' * 32}-0001.cell"
    store.put(key, cell.seal(key, b"an attempt"))
    found = _verify(folder)
    assert found.holds, found.problems
    # the run's key and instances, and the attempt
    assert dict(found.counts)["open objects (no record names them yet)"] == 3
    key = f"attempts/cd/{'cd' * 32}-0001.cell"
    store.put(key, keys_of(new_identity()[0]).seal(key, b"forged"))
    assert _verify(folder, key=False).holds, "nobody without the key can see whose it is"
    assert "which is none of the study's" in dict(_verify(folder).problems)[key]


@pytest.mark.parametrize("key", [True, False], ids=["with key", "without"])
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (f"{episode_stem('attempts/', EPISODES[0])}-0001.cell", "an extra object"),
        (f"{episode_stem('attempts/', EPISODES[0])}-0002.cell", "attempt 1 of this episode is not"),
        (f"{episode_stem('responses/', EPISODES[0])}.0000-0001.cell", "an extra object"),
        (f"{episode_stem('results/', 'ab' * 32)}.cell", "an extra object"),
    ],
)
def test_objects_that_are_added_after_the_closing_are_named(
    folder: Path, name: str, problem: str, key: bool
) -> None:
    put(FolderStore(folder), name)
    problems = _verify(folder, key).problems
    assert all(place == name for place, _ in problems)
    assert any(problem in words for _, words in problems), problems


def test_a_ledger_that_another_key_has_signed_is_named_by_the_owner(folder: Path) -> None:
    """Whoever can write may write the whole ledger anew; readers who know the key see it."""
    store = FolderStore(folder)
    entries = signed_ledger(store).entries()
    shutil.rmtree(folder / "ledger")
    forger = Ledger(store, lambda: Signer(bytes(32)))
    for entry in entries:
        forger.append(entry.record, NOW)
    found = _verify(folder, key=False)
    assert found.holds
    assert found.signer == Signer(bytes(32)).public
    assert "compare the signer" in found.unchecked[1]
    assert "and the key given signs as" in dict(_verify(folder).problems)["ledger record 0"]


@pytest.mark.parametrize(("kind", "changes", "problem"), cases(__file__, "promised_again"))
def test_a_promise_that_was_made_before_is_named(
    folder: Path, kind: str, changes: dict[str, Any], problem: str
) -> None:
    ledger = signed_ledger(FolderStore(folder))
    ledger.append(replace(ledger.find(kind)[0].record, **changes), NOW)
    problems = _verify(folder, key=False).problems
    assert any(problem in words for _, words in problems), problems


def test_a_record_that_is_dated_before_the_last_one_is_named(folder: Path) -> None:
    """No ledger would append it."""
    store = FolderStore(folder)
    entries, signer = signed_ledger(store).entries(), Signer.of(IDENTITY)
    body = {"command": "show --arm", "waves": [[0, 3]]}
    earlier = "2026-10-31T12:00:00Z"
    entry = Entry(len(entries), head_digest(entries), "look", body, earlier, signer.public)
    store.put(f"ledger/{len(entries):08d}.json", _seal_entry(entry, signer)[1])
    problems = _verify(folder, key=False).problems
    assert any("its time goes back" in words for _, words in problems), problems


def test_a_release_and_a_report_name_what_stands_before_them(folder: Path) -> None:
    ledger = signed_ledger(FolderStore(folder))
    root, plan = ledger.find("sealed-set")[0].record.root, ledger.find("preregistration")[0].record
    released = Release("public", root, 3, "sha256:c", "folder", "")
    report = ReportIssued(1, record_digest(plan), "sha256:t", "sha256:r", ())
    for record in (released, report, Look("show --arm", ((0, 3),))):
        ledger.append(record, NOW)
    assert _verify(folder, key=False).holds
    for record, problem in (
        (replace(released, content="sha256:d"), "a second release of this draw, of other content"),
        (replace(released, instances_root=ZERO), "its instances root"),
        (report, "a second report with the same content as ledger record"),
        (replace(report, through_wave=2), "its last wave 2 is of no record before it"),
        (replace(report, calibrations=("sha256:x",)), "its calibration sha256:x is of no record"),
        (Look("show --arm", ((7, 3),)), "its wave 7 is of no record before it"),
    ):
        ledger.append(record, NOW)
        assert problem in dict(_verify(folder, key=False).problems)[ledger.entries()[-1].place]


Forge = Callable[[SealedSet, tuple[DrawnSeed, ...]], tuple[SealedSet, tuple[DrawnSeed, ...]]]


def _forge(change: Forge) -> Verification:
    """A study whose sealed set was made dishonestly from the start, so that digests agree."""
    store = MemoryStore()
    drawn = draw(
        [("f", "1", "easy")], 3, FixedEntropy(bytes(32)), lambda *a: "sha256:" + a[3].hex()
    )
    honest = seal_draw(MemoryStore(), signed_ledger(MemoryStore()), drawn, [RECIPIENT], NOW)
    record, seeds = change(honest, drawn.seeds)
    sealed = seal_seeds(SealedSeeds(seeds, drawn.secret), [RECIPIENT])
    digest = digest_bytes(sealed)
    record = replace(record, ciphertext=digest, uri=sealed_key(digest))
    store.put(record.uri, sealed)
    announced = Announcement(
        study="study",
        strata=record.strata,
        seeds_per_arm=record.seeds_per_arm,
        reserve=record.reserve,
        root=record.root,
        ciphertext=digest,
        recipients=record.recipients,
        entropy=record.entropy,
        beacon=None,
        commitment=commit_secret("study", drawn.secret),
    )
    signed_ledger(store).append(announced, NOW)
    signed_ledger(store).append(record, NOW)
    return verify_study(store, [IDENTITY])


def _recommit(record: SealedSet, seeds: tuple[DrawnSeed, ...]) -> SealedSet:
    made = commitments_of(seeds)
    return replace(record, commitments=made, root=commitments_root(made), count=len(made))


@pytest.mark.parametrize(("change", "problem"), cases(__file__, "dishonest_records"))
def test_a_dishonest_sealed_set_is_found_with_the_key(change: dict[str, Any], problem: str) -> None:
    found = _forge(lambda record, seeds: (replace(record, **change), seeds))
    assert problem in str(found.problems)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda s: (*s[1:], s[0]), "entry 0 is not what was committed to"),
        (lambda s: (*s[:-1], replace(s[-1], seed=ZERO)), "entry 5 is not what was committed to"),
        (lambda s: s[:-1], "6 entries expected, 5 found"),
    ],
)
def test_dishonest_seeds_are_found_with_the_key(
    change: Callable[[tuple[DrawnSeed, ...]], tuple[DrawnSeed, ...]], problem: str
) -> None:
    assert problem in str(_forge(lambda record, seeds: (record, change(seeds))).problems)


def _with_reserve() -> tuple[SealedSet, MemoryStore]:
    """A study with a reserve tranche."""
    store = MemoryStore()
    drawn = draw(
        [("f", "1", "easy")], 3, SystemEntropy(), lambda *a: "sha256:" + a[3].hex(), reserve=(2,)
    )
    return seal_draw(store, signed_ledger(store), drawn, [RECIPIENT], NOW), store


def test_a_run_or_a_leak_of_what_was_not_drawn_is_found() -> None:
    _, store = _with_reserve()
    ledger = signed_ledger(store)
    ledger.append(Leak(1, "2026-11-01", "seen in a forum"), NOW)
    assert verify_study(store, [IDENTITY]).holds
    ledger.append(Leak(2, "2026-11-02", "of no tranche"), NOW)
    problems = [problem for _, problem in verify_study(store).problems]
    assert any("tranche 2 was not drawn" in each for each in problems)
    assert len(problems) == 1


def test_an_honest_one_made_the_same_way_holds() -> None:
    assert _forge(lambda record, seeds: (_recommit(record, seeds), seeds)).holds


def test_a_record_that_names_what_no_record_before_it_made_is_found() -> None:
    store = MemoryStore()
    ledger = signed_ledger(store)
    registered = Preregistration("study", PLAN, ZERO, PROVENANCE)
    ledger.append(registered, NOW)
    begin_wave(store, ledger, replace(registered, study="another"), 0)
    problems = [problem for _, problem in verify_study(store).problems]
    assert any("its sealed root" in each for each in problems)
    assert any("its plan" in each for each in problems)


def test_roots_are_as_documented(folder: Path) -> None:
    store = FolderStore(folder)
    keys = sorted(store.list("results/"))[:3]
    digests = [hashlib.sha256(store.get(key)).digest() for key in keys]
    leaves = [key.encode() + digest for key, digest in zip(keys, digests, strict=True)]
    made = write_inventory(store, keys)
    assert made.objects_root == merkle_root(leaves).hex()
    assert made.results_root == merkle_root(digests).hex()


def test_an_inventory_in_several_parts_reads_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory_module, "_LINES", 4)
    store = MemoryStore()
    make_study(store)
    assert len(list(store.list("inventory/parts/"))) == 6
    assert verify_study(store, [IDENTITY]).holds
    assert write_inventory(store, []).objects == 0
    with pytest.raises(RegistryError, match="keys in order, each once"):
        write_inventory(store, sorted(store.list("results/"), reverse=True))


def test_an_inventory_can_be_checked_by_coreutils(folder: Path) -> None:
    import subprocess

    for part in folder.glob("inventory/parts/*.txt"):
        subprocess.run(["sha256sum", "--check", "--quiet", str(part)], cwd=folder, check=True)


def test_an_inventory_written_again_is_the_same() -> None:
    store = MemoryStore()
    make_study(store, waves=1)
    before = list(store.list())
    manifest = signed_ledger(store).find("run-manifest")[0].record
    again = write_inventory(
        store, run_objects(store, manifest, frozenset(EPISODES[:3]).__contains__)
    )
    assert list(store.list()) == before
    assert again.objects_root == signed_ledger(store).find("wave-closed")[0].record.objects_root


def test_what_lies_in_a_place_of_no_episode_is_no_object_of_a_run() -> None:
    store = MemoryStore()
    make_study(store, waves=1)
    manifest = signed_ledger(store).find("run-manifest")[0].record
    owed = frozenset(EPISODES[:3]).__contains__
    before = list(run_objects(store, manifest, owed))
    episode = EPISODES[0]
    for key in (f"results/{episode}.cell", f"results/zz/{episode}.cell", f"responses/{episode}/a"):
        store.put(key, b"")
    store.put(episode_stem("results/", episode), b"")
    assert list(run_objects(store, manifest, owed)) == before


def test_verification_of_many_objects_holds_few_in_memory(tmp_path: Path) -> None:
    """64 MiB of objects pass through; what is held stays below a tenth of that."""
    store = FolderStore(tmp_path, durable=False)
    for number in range(256):
        store.put(f"results/{number:064x}.cell", bytes([number]) * (256 << 10))
    tracemalloc.start()
    write_inventory(store, store.list("results/"))
    found = verify_study(store)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    objects_and_their_list = 256 + 1
    assert dict(found.counts)["open objects (no record names them yet)"] == objects_and_their_list
    assert peak < 6 << 20


def test_thousands_of_problems_are_counted_not_listed() -> None:
    store = MemoryStore()
    for number in range(1200):
        store.put(f"results/{number}.cell", b"no ciphertext")
    found = verify_study(store, [IDENTITY])
    assert len(found.problems) == 1001
    assert found.problems[-1] == ("and more", "1400 other problems")


def test_an_outage_is_no_tampering(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins after each run's key was read once."""
    get, asked = FolderStore.get, set[str]()

    def away(store: FolderStore, key: str) -> bytes:
        if key in asked and key.endswith("/key.age"):
            raise StoreUnavailable(key, "away")
        asked.add(key)
        return get(store, key)

    monkeypatch.setattr(FolderStore, "get", away)
    with pytest.raises(StoreUnavailable):
        _verify(folder)


def test_a_store_that_cannot_be_read_stops_the_verification(tmp_path: Path) -> None:
    (tmp_path / "ledger").symlink_to(tmp_path)
    with pytest.raises(StoreError, match="symbolic link"):
        verify_study(FolderStore(tmp_path))
