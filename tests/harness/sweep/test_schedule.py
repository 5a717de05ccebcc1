"""The computed cells of a wave: each owed one once, interleaved, its name a secret of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby, pairwise

import pytest

from generators.seed import Seed
from generators.task import TaskSpec
from harness.episode import Cell, Mode
from harness.sweep.schedule import Permutation, Schedule, WaveInstance, WavePlan, schedule_cells
from registry.ledger.records import ModelPin

SEED, RUN = Seed(bytes(range(32))), "a run's key"
PINS = (ModelPin("m", "them", "1", ()), ModelPin("n", "them", "2", (("t", "0"),)))


def instances(count: int, tranche: int = 0) -> list[WaveInstance]:
    return [
        WaveInstance(
            TaskSpec("circles", "1", ("easy", "hard")[n % 2], ()),
            f"sha256:{SEED.child('instance', tranche, n).hex}",
            SEED.child("seed", tranche, n),
            tranche,
        )
        for n in range(count)
    ]


def schedule(
    owed: Sequence[WaveInstance], run: str = RUN, order: Seed = SEED, wave: int = 0
) -> Schedule:
    plan = WavePlan("s", wave, PINS, (3, 2), order.hex, single_turn=("circles/hard",))
    return schedule_cells(plan, owed, run)


def test_every_place_is_the_image_of_one() -> None:
    for size in [*range(1, 120), 255, 256, 257, 399, 400, 401, 997]:
        image = list(map(Permutation(SEED, size), range(size)))
        assert sorted(image) == list(range(size))
        with pytest.raises(IndexError):
            Permutation(SEED, size)(size)


def test_orders_differ_by_key_and_mix() -> None:
    first, second = (list(map(Permutation(SEED.child(n), 400), range(400))) for n in range(2))
    assert sum(a == b for a, b in zip(first, second, strict=True)) < 10
    assert sum(a == place for place, a in enumerate(first)) < 10
    runs = [len(list(run)) for _, run in groupby(first, key=lambda place: place < 200)]
    assert max(runs) <= 12, "of one half of the range in a row; 8 are expected of a fair coin"
    steps = Counter(b - a for a, b in pairwise(first))
    assert max(steps.values()) <= 8, "no step is usual"


def test_the_sequence_never_changes() -> None:
    """A sweep that goes on must find the cells that it began with."""
    assert list(map(Permutation(SEED, 10), range(10))) == [6, 3, 4, 9, 7, 5, 2, 1, 8, 0]
    cells = schedule(instances(4))
    assert [cells[0].episode, cells[19].episode] == [
        "sha256:1f6f4c82c63c0f8091550d0aca1095e4cba16d1d98079ab14c9c0d64d6222fce",
        "sha256:7559732280c8980ac8f14849c6b5a5e0ca60942b6978b667531273be5a2f02b4",
    ]
    assert cells[0].definition == (
        "sha256:35bc63643596a5ca77f07a80514ff67e103cb1d7216024a57779a5dfcf5f62d5"
    )


def test_every_owed_cell_is_there_once() -> None:
    owed = instances(7)
    cells = list(schedule(owed))
    expected = Counter(
        (each.instance, pin.name, replicate)
        for each in owed
        for pin, count in zip(PINS, (3, 2), strict=True)
        for replicate in range(count)
    )
    assert Counter((c.instance, c.model, c.replicate) for c in cells) == expected
    assert len({cell.episode for cell in cells}) == len({c.definition for c in cells}) == 35
    modes = {Mode.AGENTIC: "easy", Mode.SINGLE_TURN: "hard"}
    assert all(modes[cell.mode] == cell.spec.difficulty for cell in cells)
    seeds = {each.instance: each.seed for each in owed}
    assert all(cell.seed == seeds[cell.instance] for cell in cells)


def test_a_round_has_every_instance_and_its_replicates_on_end() -> None:
    owed = instances(30)
    cells = schedule_cells(WavePlan("s", 0, PINS[:1], (11,), SEED.hex), owed, RUN)
    assert Counter((c.instance, c.replicate) for c in cells) == Counter(
        (each.instance, replicate) for each in owed for replicate in range(11)
    )
    first, second = cells[: 30 * 8], cells[30 * 8 :]
    orders = [
        [(name, [cell.replicate for cell in group]) for name, group in groupby(part, of_instance)]
        for part in (first, second)
    ]
    assert [runs for _, runs in orders[0]] == [list(range(8))] * 30
    assert [runs for _, runs in orders[1]] == [[8, 9, 10]] * 30
    names = [[name for name, _ in order] for order in orders]
    assert sorted(names[0]) == sorted(names[1]) == sorted(each.instance for each in owed)
    assert names[0] != names[1] != sorted(names[1]), "rounds have orders of their own"
    strata = [
        len(list(run))
        for _, run in groupby(names[0], {each.instance: each.spec.stratum for each in owed}.get)
    ]
    assert max(strata) <= 8, "strata interleave"


def of_instance(cell: Cell) -> str:
    return cell.instance


def test_each_model_has_a_range_and_its_tranches() -> None:
    owed = [*instances(5), *instances(3, tranche=1), *instances(2, tranche=2)]
    plan = WavePlan("s", 0, PINS, (2, 4), SEED.hex, ((0, 2), (1,)))
    cells = schedule_cells(plan, owed, RUN)
    assert cells.ranges == {"m": range(14), "n": range(14, 26)}
    assert {cell.model for cell in cells[:14]} == {"m"}
    assert {cell.model for cell in cells[14:]} == {"n"}
    assert {c.instance for c in cells[14:]} == {each.instance for each in owed[5:8]}
    with pytest.raises(IndexError):
        cells[26]


def test_the_order_of_the_instances_given_reveals_nothing() -> None:
    owed = instances(6)
    assert list(schedule(owed)) == list(schedule(owed[::-1]))


def test_names_follow_from_the_runs_key_and_nothing_else_does() -> None:
    def rest(cells: Schedule) -> list[tuple[str, str, int]]:
        return [(cell.definition, cell.model, cell.replicate) for cell in cells]

    def names(cells: Schedule) -> set[str]:
        return {cell.episode for cell in cells}

    owed = instances(5)
    one, other = schedule(owed), schedule(owed, run="another")
    assert sorted(rest(one)) == sorted(rest(other))
    assert rest(one) != rest(other), "the order is as secret as the names"
    assert not names(one) & names(other)
    assert not names(one) & names(schedule(owed, wave=1))
    assert names(one) == names(schedule(owed, order=SEED.child("other")))
    assert rest(one) != rest(schedule(owed, order=SEED.child("other")))


def test_a_cell_is_found_by_its_name() -> None:
    cells = schedule(instances(40))
    assert [cells.find(cell.episode) for cell in cells] == list(range(200))
    marked = sorted(cell.episode.removeprefix("sha256:") for cell in cells[50:80])
    strangers = ["", "0", "results", "zz" * 32, "0" * 64, marked[0][:-1], marked[0] + "0"]
    marks = cells.marks(sorted([*marked, *strangers]))
    assert marks == bytes(50) + b"\1" * 30 + bytes(120)
    assert list(cells.unmarked(marks)) == [*cells[:50], *cells[80:]]


def test_a_wave_without_cells_is_empty() -> None:
    cells = schedule([])
    assert (len(cells), list(cells), cells.marks(["0" * 64])) == (0, [], b"")


def test_a_cell_shows_no_secret() -> None:
    cell: Cell = schedule(instances(1))[0]
    for secret in (cell.instance, cell.seed.hex, cell.definition):
        assert secret not in repr(cell)
