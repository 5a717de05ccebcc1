"""The coordinator of a sweep that follows another: it leaves alone what may still be bought."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from generators.catalog import INSTALLED
from generators.seed import Seed
from generators.task import TaskSpec
from harness.storage import instances_key
from harness.sweep import coordinator, epochs
from harness.sweep.coordinator import Coordinator, SweepOptions
from harness.sweep.epochs import Claim, Process
from harness.sweep.metrics import MetricRecorder
from harness.sweep.schedule import INSTANCES_CODEC, WaveInstance
from harness.sweep.workbench import RunContext
from registry.sealing import new_identity
from registry.signing import Signer
from registry.stores.folder import FolderStore
from tests.harness import paid_cells
from tests.progress import wait_until

_, STUDY = new_identity()
(RUN, _), SIGNER = new_identity(), Signer(b"\x07" * 32)
COUNT, BEFORE, NEXT = 4, "000001-1", "000002-1"
ELSEWHERE = replace(Process.current(), boot="another")
DEAD = replace(Process.current(), start=1)  # its number was given to another since


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    """Of a run of which a driver has opened an epoch, whose worker has claimed two cells."""
    made = paid_cells.bench("http://127.0.0.1:9", str(tmp_path), STUDY, RUN).context
    made = replace(made, trusted=frozenset((SIGNER.public,)))
    root = Seed(bytes(32))
    spec = TaskSpec("compute_average", "3", "easy", ())
    family = INSTALLED.family(spec.family)
    seeds = [root.child("cell", number) for number in range(COUNT)]
    subjects = tuple(WaveInstance(spec, family.generate("easy", seed).id, seed) for seed in seeds)
    keys, place = replace(made.run_keys, signer=SIGNER), instances_key(made.run_recipient)
    INSTANCES_CODEC.write(FolderStore(tmp_path), place, subjects, keys)
    return made


@pytest.fixture
def claimed(context: RunContext, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Two cells of the run, claimed by a worker on another host, whose driver is silent. The next
    coordinator looks at claims often."""
    monkeypatch.setattr(epochs, "TAKEOVER_SECONDS", 0.0)
    monkeypatch.setattr(coordinator, "LOOK_SECONDS", 0.01)
    subjects = INSTANCES_CODEC.read(
        FolderStore(Path(context.store)), instances_key(context.run_recipient), context.run_keys
    )
    assert context.epochs.open() == 1
    episodes = tuple(cell.episode for cell in context.schedule(subjects)[:2])
    context.epochs.put_claim(BEFORE, Claim(ELSEWHERE, 1, episodes))
    return set(episodes)


def no_metric(name: str, description: str, tags: tuple[str, ...]) -> None:
    """Nothing records it here."""


@contextmanager
def next_coordinator(
    context: RunContext, silence_seconds: float = 60.0, most: int = 1
) -> Iterator[Coordinator]:
    options = SweepOptions(silence_seconds, workers=(1, most), spare_seconds=0.0)
    made = Coordinator(options, lambda run: MetricRecorder(run, no_metric, no_metric))
    made.open(context, context.run_identity, context.epochs.open(), frozenset())
    yield made
    made.close()


def lease(coordinator: Coordinator, held: set[str], count: int = COUNT) -> set[str]:
    """Lease what there is to a worker that holds these cells already."""
    cells, over = coordinator.lease(NEXT, count, frozenset(held))
    assert not over
    return {cell.episode for cell in cells}


def lease_soon(coordinator: Coordinator, held: set[str]) -> set[str]:
    cells: set[str] = set()
    wait_until(lambda: bool(cells.update(lease(coordinator, held)) or cells))
    return cells


def lost(coordinator: Coordinator) -> int:
    progress = coordinator.progress()
    assert progress is not None
    return progress.lost


def test_claimed_cells_are_leased_when_their_worker_has_left(
    context: RunContext, claimed: set[str]
) -> None:
    with next_coordinator(context) as coordinator:
        others = lease(coordinator, set())
        assert len(others) == COUNT - len(claimed)
        assert not others & claimed
        time.sleep(0.02)  # the next lease looks at the claim again
        assert lease(coordinator, others) == set()
        context.epochs.drop_claim(BEFORE)
        assert lease_soon(coordinator, others) == claimed
        assert lost(coordinator) == 0


def test_a_worker_beyond_those_that_have_work_gets_no_more_and_ends(context: RunContext) -> None:
    """The provider's rate is not known yet: two episodes at work are of use."""
    with next_coordinator(replace(context, parallel=2), most=3) as coordinator:
        assert coordinator.wanted() == 1
        cells = lease(coordinator, set(), 1)
        other, over = coordinator.lease("000002-2", 1, frozenset())
        assert (len(other), over) == (1, False), "it is new"
        assert coordinator.lease("000002-2", 1, frozenset({other[0].episode})) == ((), True)
        assert len(lease(coordinator, cells, 1)) == 1


def test_cells_of_a_worker_whose_claim_is_not_renewed_are_lost(
    context: RunContext, claimed: set[str]
) -> None:
    with next_coordinator(context, silence_seconds=0.5) as coordinator:
        others = lease(coordinator, set())
        assert lease_soon(coordinator, others) == claimed
        assert lost(coordinator) == len(claimed)
    assert context.epochs.claims() == {}, "another driver need not wait for it again"


def test_cells_of_a_worker_that_died_on_this_machine_are_lost_at_once(
    context: RunContext, claimed: set[str]
) -> None:
    context.epochs.put_claim(BEFORE, Claim(DEAD, 2, tuple(claimed)))
    with next_coordinator(context) as coordinator:
        assert len(lease(coordinator, set())) == COUNT
        assert lost(coordinator) == len(claimed)


def test_a_worker_that_its_driver_lost_keeps_its_cells_until_it_has_left(
    context: RunContext, claimed: set[str]
) -> None:
    context.epochs.drop_claim(BEFORE)
    with next_coordinator(context) as coordinator:
        cells = lease(coordinator, set())
        context.epochs.put_claim(NEXT, Claim(ELSEWHERE, 1, tuple(cells)))
        coordinator.release(NEXT, killed=False)
        assert coordinator.lease("000002-2", COUNT, frozenset()) == ((), False)
        context.epochs.drop_claim(NEXT)
        time.sleep(0.02)
        again, _ = coordinator.lease("000002-2", COUNT, frozenset())
        assert {cell.episode for cell in again} == cells
        assert lost(coordinator) == 0
