"""The ledger: an edit, a gap, a swap or a forged end is found and named."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from registry.canonical import canonical_bytes, digest_bytes
from registry.errors import BrokenPromise, RegistryError
from registry.ledger.chain import GENESIS, Ledger, head_digest, inspect_chain
from registry.ledger.draw_records import Parties
from registry.ledger.records import KINDS, Look, Release, ReportIssued, WaveClosed
from registry.signing import Signer
from registry.stores.base import MemoryStore, Store
from registry.stores.folder import FolderStore
from tests.ledgers import SIGNER, announcement, signed_ledger

NOW = "2026-11-01T12:00:00Z"


def _release(count: int) -> Release:
    return Release("public", "ab" * 32, count, "sha256:" + "0" * 64, "folder", "")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = signed_ledger(FolderStore(tmp_path, durable=False))
    for count in range(4):
        made.append(_release(count), NOW)
    return signed_ledger(made.store)  # as another process opens it


def test_records_are_numbered_and_chained(ledger: Ledger) -> None:
    entries = ledger.entries()
    assert [entry.sequence for entry in entries] == [0, 1, 2, 3]
    assert [entry.previous for entry in entries] == [GENESIS, *(e.digest for e in entries[:-1])]
    assert head_digest(ledger.entries()) == entries[-1].digest
    assert entries[2].record == _release(2)
    assert ledger.last("release") == entries[3]
    assert ledger.find("report") == ()
    assert ledger.last("report") is None


def test_a_record_is_canonical_json_of_seven_fields(ledger: Ledger) -> None:
    data = ledger.store.get("ledger/00000001.json")
    value = json.loads(data)
    named = ["body", "kind", "previous", "sequence", "signature", "signer", "time"]
    assert sorted(value) == named
    assert data == canonical_bytes(value)
    assert ledger.entries()[1].digest == digest_bytes(data)


def test_append_returns_what_is_read_back() -> None:
    ledger = signed_ledger(MemoryStore())
    entry = ledger.append(ReportIssued(0, "p", "t", "r", ("a", "b")), NOW)
    assert ledger.entries() == (entry,)
    assert entry.record.deviations == ("a", "b")


class LateStore(MemoryStore):
    """Lists nothing yet of what it has."""

    def list(self, prefix: str = "") -> Iterator[str]:
        return iter(())


def test_a_record_is_found_before_the_store_lists_it() -> None:
    store = LateStore()
    entry = signed_ledger(store).append(_release(1), NOW)
    assert signed_ledger(store).entries() == (entry,)


def test_racing_writers_each_get_a_number() -> None:
    store = MemoryStore()
    threads = [
        threading.Thread(target=lambda n=n: signed_ledger(store).append(_release(n), NOW))
        for n in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = signed_ledger(store).entries()
    assert sorted(entry.record.count for entry in entries) == list(range(12))


def test_of_racing_writers_of_a_record_there_is_once_one_wins() -> None:
    store = MemoryStore()
    added: list[bool] = []

    def write(number: int) -> None:
        ledger = signed_ledger(store)
        added.append(ledger.append_unless(_release(number), NOW, lambda e: e.kind == "release")[1])

    threads = [threading.Thread(target=write, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(signed_ledger(store).entries()) == 1
    assert sorted(added) == [False] * 11 + [True]


@pytest.mark.parametrize(
    ("record", "time", "match"),
    [
        ("text", NOW, "str is not a record"),
        (_release(1), "yesterday", "'yesterday' is not a time: write it as"),
    ],
)
def test_what_is_no_record_is_refused(
    ledger: Ledger, record: object, time: str, match: str
) -> None:
    before = list(ledger.store.list())
    with pytest.raises(RegistryError, match=match):
        ledger.append(record, time)
    assert list(ledger.store.list()) == before


def test_every_kind_is_appended_by_its_class() -> None:
    assert len(set(KINDS.values())) == len(KINDS)


def _path(ledger: Ledger, sequence: int) -> Path:
    assert isinstance(ledger.store, FolderStore)
    return ledger.store.path / f"ledger/{sequence:08d}.json"


def _edit(path: Path, canonical: bool) -> None:
    value = json.loads(path.read_bytes())
    value["body"]["count"] = 999
    path.write_bytes(canonical_bytes(value) if canonical else json.dumps(value).encode())


def _swap(ledger: Ledger) -> None:
    first, second = _path(ledger, 1), _path(ledger, 2)
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)


def _add_field(path: Path) -> None:
    path.write_bytes(canonical_bytes({**json.loads(path.read_bytes()), "note": "hello"}))


TAMPERINGS: list[tuple[Callable[[Ledger], object], str]] = [
    (
        lambda ledger: _edit(_path(ledger, 1), canonical=True),
        r"ledger/00000001.json: was altered: its signature is not by \w{16}…",
    ),
    (
        lambda ledger: _edit(_path(ledger, 1), canonical=False),
        r"ledger/00000001.json: not in canonical form",
    ),
    (lambda ledger: _path(ledger, 2).unlink(), r"ledger/00000002.json: missing"),
    (lambda ledger: _path(ledger, 0).unlink(), r"ledger/00000000.json: missing"),
    (_swap, r"ledger/00000001.json: holds record 2: it was moved here"),
    (lambda ledger: _path(ledger, 3).write_bytes(b'{"half'), r"ledger/00000003.json: not JSON"),
    (lambda ledger: _path(ledger, 3).write_bytes(b""), r"ledger/00000003.json: not JSON"),
    (lambda ledger: _add_field(_path(ledger, 3)), r"ledger/00000003.json: not an Entry"),
    (
        lambda ledger: (_path(ledger, 3).parent / "note.txt").write_text("hello"),
        r"ledger/note.txt: not JSON",
    ),
]


@pytest.mark.parametrize(("tamper", "match"), TAMPERINGS)
def test_tampering_is_named(ledger: Ledger, tamper: Callable[[Ledger], object], match: str) -> None:
    tamper(ledger)
    with pytest.raises(BrokenPromise, match=match):
        ledger.entries()
    before = list(ledger.store.list())
    with pytest.raises(BrokenPromise, match=match):
        ledger.append(_release(9), NOW)
    assert list(ledger.store.list()) == before


def test_the_digests_expected_and_found_are_the_right_ones(ledger: Ledger) -> None:
    expected = ledger.entries()[1].digest
    _edit(_path(ledger, 1), canonical=True)
    found = digest_bytes(_path(ledger, 1).read_bytes())
    _, problems = inspect_chain(ledger.store)
    assert [place for place, _ in problems] == ["ledger/00000001.json"] * 2
    assert problems[1][1].startswith(f"was altered: digest {expected} expected")
    assert problems[1][1].endswith(f"{found} found")


def test_only_a_head_noted_elsewhere_tells_of_a_cut_end(ledger: Ledger) -> None:
    head = head_digest(ledger.entries())
    _path(ledger, 3).unlink()
    assert len(signed_ledger(ledger.store).entries()) == 3
    ((place, problem),) = inspect_chain(ledger.store, head)[1]
    assert place == "ledger/"
    assert f"head {head} expected" in problem


def test_a_noted_head_may_have_been_followed_by_more(ledger: Ledger) -> None:
    noted = ledger.entries()[1].digest
    assert inspect_chain(ledger.store, noted) == (ledger.entries(), ())
    assert inspect_chain(MemoryStore(), GENESIS) == ((), ())


def test_the_last_records_edit_shows_against_a_noted_head(ledger: Ledger) -> None:
    head = head_digest(ledger.entries())
    _edit(_path(ledger, 3), canonical=True)
    _, problems = inspect_chain(ledger.store, head)
    assert "was altered: its signature" in problems[0][1]
    assert "cut or replaced" in problems[1][1]


def test_a_record_by_another_key_is_named(ledger: Ledger) -> None:
    stranger = Signer(bytes(32))
    with pytest.raises(RegistryError, match="takes no release record from this key: signed by"):
        Ledger(ledger.store, lambda: stranger).append(_release(9), NOW)
    value = json.loads(_path(ledger, 3).read_bytes())
    value["signer"] = stranger.public
    del value["signature"]
    value["signature"] = stranger.sign("dosimeter/ledger/1", canonical_bytes(value))
    _path(ledger, 3).write_bytes(canonical_bytes(value))
    _, problems = inspect_chain(ledger.store)
    assert problems == ((
        "ledger/00000003.json",
        f"signed by {stranger.public[:16]}…, which is not the study's key {SIGNER.public[:16]}…",
    ),)  # fmt: skip


def test_a_ledger_that_was_opened_without_a_key_takes_no_record(ledger: Ledger) -> None:
    with pytest.raises(RegistryError, match="opened without a key"):
        Ledger(ledger.store).append(_release(9), NOW)


def test_an_operator_signs_what_waves_record_and_nothing_else() -> None:
    store, operator = MemoryStore(), Signer(bytes(32))
    signed_ledger(store).append(announcement(Parties(operator_signer=operator.public)), NOW)
    of_operator = Ledger(store, lambda: operator)
    closed = WaveClosed(0, "sha256:" + "ab" * 32, 0, 0, 0, "")
    assert of_operator.append(closed, NOW).signer == operator.public
    with pytest.raises(RegistryError, match="the operator's key does not sign records of the kind"):
        of_operator.append(_release(1), NOW)
    assert len(of_operator.entries()) == 2


def test_reading_does_not_write(tmp_path: Path) -> None:
    store: Store = FolderStore(tmp_path / "none")
    assert signed_ledger(store).entries() == ()
    assert not (tmp_path / "none").exists()


def test_a_clock_that_is_behind_dates_no_record_before_the_last(ledger: Ledger) -> None:
    before = ledger.entries()
    late = ledger.append(Look("show --arm", ((0, 1),)), "2001-01-01T00:00:00Z")
    assert late.time == before[-1].time
    assert ledger.append(Look("export", ((0, 1),)), "2099-01-01T00:00:00.5Z").time[:4] == "2099"
