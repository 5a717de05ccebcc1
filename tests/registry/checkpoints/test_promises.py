"""What others can see of an owner's choices: allotment, plan, and the lists of attempts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from registry.canonical import digest_bytes
from registry.checkpoints.timestamp import Stamp
from registry.draws.beacon import round_of
from registry.errors import BrokenPromise
from registry.ledger.begun import BegunList, begun_folder, find_heads, read_list
from registry.ledger.chain import Entry
from registry.ledger.inventory import write_inventory
from registry.ledger.records import AttemptsBegun, ListHead, WaveClosed
from registry.stores.base import MemoryStore, Store
from registry.verify.findings import Findings, Standing
from registry.verify.promises import selection_promises
from tests.cases import cases
from tests.ledgers import announcement

CASES = cases(__file__, "promises")
BEGUN, RUN = "2026-11-28T12:00:00Z", "age1run"
FOLDER = begun_folder(RUN)
NAMES = [f"{number:064x}" for number in range(40)]


def key(episode: str, attempt: int = 1) -> str:
    return f"attempts/{episode[:2]}/{episode}-{attempt:04d}.cell"


@dataclass
class Wave:
    """A store with the attempts of a wave, and the ledger's records of it."""

    store: Store = field(default_factory=MemoryStore)
    records: list[Any] = field(default_factory=list)

    def keep(self, *episodes: str, worker: str = "000001-1", text: bytes = b"") -> None:
        """Run attempts as a worker does."""
        listed = BegunList(self.store, FOLDER, worker, lambda: BEGUN)
        for episode in episodes:
            listed.begin(episode, 1)
            sealed = text + episode.encode()
            listed.end(episode, 1, sealed)
            self.store.put(key(episode), sealed)

    def record(self) -> None:
        self.records.append(AttemptsBegun(0, "run", find_heads(self.store, FOLDER)))

    def close(self, **changes: Any) -> WaveClosed:
        """Close the wave with the lists as they are."""
        inventory = write_inventory(
            self.store, (*self.store.list("attempts/"), *self.store.list("results/"))
        )
        closed = WaveClosed(
            *(0, "run", len(NAMES), len(NAMES), 0),
            results_root=inventory.results_root,
            objects=inventory.objects,
            objects_root=inventory.objects_root,
            heads=find_heads(self.store, FOLDER),
        )
        self.records.append(replace(closed, **changes))
        return closed

    def judge(self, *stamps: tuple[int, str]) -> tuple[Standing, str]:
        """What is said of the attempts, with time-stamps of records at times of the day."""
        findings = of(self.records, self.store)
        manifest: Any = SimpleNamespace(run_recipient=RUN, models=(1,))
        findings.__dict__["manifests"] = {"run": manifest}
        promise = selection_promises(findings, made(*stamps))[2]
        assert bool(findings.problems) == (promise.standing is Standing.BROKEN)
        return promise.standing, promise.reason


def of(records: list[Any], store: Store) -> Findings:
    kinds = {AttemptsBegun: "attempts-begun", WaveClosed: "wave-closed"}
    entries = [
        Entry(number, digest_bytes(b""), kinds[type(record)], {}, BEGUN, "")
        for number, record in enumerate(records)
    ]
    return Findings(store, None, entries, [*zip(entries, records, strict=True)])


def made(*stamps: tuple[int, str]) -> tuple[Stamp, ...]:
    return tuple(Stamp(n, f"2026-11-28T{time}:00Z", 1, "CN=Root") for n, time in stamps)


def test_threads_share_pages_and_no_line_is_lost_or_doubled() -> None:
    store = MemoryStore()
    listed = BegunList(store, FOLDER, "000001-1", lambda: BEGUN)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: listed.begin(NAMES[number % 40], 1 + number), range(800)))
    (head,) = find_heads(store, FOLDER)
    pages = [*read_list(store, FOLDER, head)]
    steps = [step for _, steps in pages for step in steps]
    assert sorted(step.attempt for step in steps) == [*range(1, 801)]
    assert head == ListHead("000001-1", len(pages), pages[-1][0])


def test_a_second_process_of_one_name_begins_nothing() -> None:
    store = MemoryStore()
    first, second = (BegunList(store, FOLDER, "000001-1", lambda: BEGUN) for _ in range(2))
    first.begin(NAMES[0], 1)
    for _ in range(2):
        with pytest.raises(BrokenPromise, match="another process keeps this worker's list"):
            second.begin(NAMES[1], 1)
    (head,) = find_heads(store, FOLDER)
    assert [len(steps) for _, steps in read_list(store, FOLDER, head)] == [1]


def test_attempts_that_were_begun_in_stamped_lists_hold() -> None:
    wave = Wave()
    wave.keep(*NAMES[:30])
    wave.record()
    wave.keep(*NAMES[30:], worker="000002-1")
    wave.close()
    words = "40 were begun in time-stamped lists; 0 failed or were begun more than once"
    assert wave.judge((0, "12:05"), (1, "12:15")) == (Standing.HOLDS, words)
    assert wave.judge((1, "12:15"))[0] is Standing.HOLDS
    standing, why = wave.judge()
    assert (standing, "have no time-stamp" in why) == (Standing.UNSHOWN, True)
    standing, why = wave.judge((1, "13:00"))
    assert standing is Standing.UNSHOWN
    assert "a step of an attempt was stamped 60 minutes later" in why
    standing, why = wave.judge((1, "11:00"))
    assert (standing, "dated after its time-stamp" in why) == (Standing.UNSHOWN, True)


@pytest.mark.parametrize("name", CASES["attacks"])
def test_attempts_that_were_chosen_are_named(name: str, store: Store) -> None:
    wave, (standing, words) = Wave(store), CASES["attacks"][name]
    pages = f"{FOLDER}000001-1/"
    wave.keep(*NAMES)
    if name == "an attempt bought before its begin":
        wave.store.put(key("f" * 64), b"bought")
    elif name == "an attempt of a copy":
        wave.store.replace(key(NAMES[3]), b"of another copy of the folder")
    elif name == "the lists of two more copies":
        for copy in (2, 3):
            wave.keep(*NAMES, worker=f"000001-{copy}", text=b"copy")
    elif name == "all run again, and the first list left out":
        wave.record()
        wave.keep(*NAMES, worker="000002-1", text=b"again")
        for episode in NAMES:
            wave.store.replace(key(episode), b"again" + episode.encode())
    elif name == "results without attempts":
        wave.store.put(f"results/ff/{'f' * 64}.cell", b"a result")
    elif name == "an end before its beginning":
        for page in reversed([*wave.store.list(pages)]):
            wave.store.delete([page])
        swapped = BegunList(wave.store, FOLDER, "000001-1", lambda: BEGUN)
        for episode in NAMES:
            swapped.end(episode, 1, episode.encode())
            swapped.begin(episode, 1)
    elif name == "first attempts that were made to fail":
        failing = BegunList(wave.store, FOLDER, "000001-9", lambda: BEGUN)
        for episode in NAMES[:9]:
            failing.begin(episode, 2)
            failing.end(episode, 2, b"kept")
            wave.store.put(key(episode, 2), b"kept")
    elif name == "a list rejoined":
        wave.record()
        for page in tuple(wave.store.list(pages)):
            wave.store.delete([page])
        forged = BegunList(wave.store, FOLDER, "000001-1", lambda: BEGUN)
        for episode in NAMES:
            forged.begin(episode, 1)
            forged.end(episode, 1, b"chosen")
    heads = find_heads(wave.store, FOLDER)
    changes: dict[str, Any] = {
        "no lists": {"heads": ()},
        "all run again, and the first list left out": {"heads": heads[1:]},
        "a head of no list": {"heads": (ListHead("../x", -1, ""),)},
    }
    closed = wave.close(**changes.get(name, {}))
    if name == "a page cut out":
        wave.store.delete([f"{pages}000004.txt"])
    elif name == "a page altered":
        page = f"{pages}000004.txt"
        wave.store.replace(page, wave.store.get(page).replace(b"begin", b"begun"))
    elif name == "the last page replaced":
        page = f"{pages}{closed.heads[0].pages - 1:06d}.txt"
        wave.store.replace(page, wave.store.get(page).replace(b" 1 ", b" 2 "))
    found, why = wave.judge((0, "12:05"), (1, "12:06"))
    assert (found, words in why) == (Standing(standing), True), why


@pytest.mark.parametrize("case", CASES["allotted"], ids=str)
def test_arms_that_could_have_been_chosen_are_named(case: dict[str, Any]) -> None:
    """A beacon dated back is one whose round is over when an authority first sees the draw."""
    beacon = round_of(case["beacon"]) if case["beacon"] else None
    record = replace(announcement(), beacon=beacon)
    draws = [record] * case.get("draws", 1)
    entries = [
        Entry(n, digest_bytes(b""), "announcement", {}, BEGUN, "") for n in range(len(draws))
    ]
    findings = Findings(MemoryStore(), None, entries, [*zip(entries, draws, strict=True)])
    stamps = tuple(Stamp(0, time, 1, "") for time in case["stamps"])
    promise = selection_promises(findings, stamps)[0]
    assert (promise.standing, case["words"] in promise.reason) == (case["standing"], True), promise


@pytest.mark.parametrize("case", CASES["planned"], ids=str)
def test_a_plan_that_may_be_younger_than_the_data_is_named(case: dict[str, Any]) -> None:
    kinds = ("announcement", "preregistration", "study-files", "run-manifest")
    entries = [Entry(n, digest_bytes(b""), kind, {}, BEGUN, "") for n, kind in enumerate(kinds)]
    manifest: Any = SimpleNamespace(wave=0, plan=SimpleNamespace(scorer=None))
    pairs = [(entry, manifest) for entry in entries[: 4 if case["begun"] else 3]]
    findings = Findings(MemoryStore(), None, entries, [*pairs[1:]])
    stamps = tuple(Stamp(n, f"2026-11-28T{time}:00Z", 1, "") for n, time in case["stamps"])
    assert selection_promises(findings, stamps)[1].standing == case["standing"]
