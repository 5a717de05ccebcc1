"""Who can write to the store and has no key, or has the key of one cell, changes no result: what
they put there is not counted and does not stand in the way."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest

from harness.episodes.result import RESULT_CODEC
from harness.model import Message, Reply, Role, Usage
from harness.spending.purchases import CallKind, Charge, Payer, ReplyStore
from harness.storage import EPISODE_CODEC, FOREIGN, attempt_key, result_key
from harness.sweep.run_cell import run_cell
from harness.sweep.workbench import Workbench
from registry.errors import RegistryError
from registry.ledger.records import RunManifest, WaveClosed
from registry.provenance import utc_now
from registry.sealing import encrypt, new_identity
from registry.signing import Signer, sign_object
from registry.stores.base import Store
from registry.stores.folder import FolderStore
from registry.verify.verify import verify_study
from study.steps.sweep.manifests import begin_wave
from study.steps.sweep.sweep import SweepRequest, close_wave, context_of, find_finished
from study.workspace.address import open_study
from study.workspace.setup import pinned_image
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study, manifest_of
from tests.study.conftest import SINGLE, make_study

STRANGER = Signer(b"\x07" * 32)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose first wave is begun."""
    study = make_study(tmp_path_factory.mktemp("begun") / "small", SINGLE)
    image = pinned_image(study.protocol)
    begin_wave(study, SweepRequest(0, allow_dirty=True), image, utc_now)
    return study.folder


class Begun:
    """A study whose first wave is begun, and what its owner and its driver have."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.cells = list(take_snapshot(study).waves[0].cells)
        found = manifest_of(study.ledger, 0)
        assert found is not None
        self.manifest: RunManifest = found
        self.context = context_of(study, found, pinned_image(study.protocol), 1)
        self.readers = study.keys()


@pytest.fixture
def it(begun: Path, tmp_path: Path) -> Begun:
    shutil.copytree(begun, tmp_path / "small")
    return Begun(open_study(tmp_path / "small"))


class Raced(FolderStore):
    """A store in which somebody else is first to write each result."""

    def __init__(self, path: Path, forge: Callable[[str, bytes], bytes]) -> None:
        super().__init__(path)
        self._forge = forge

    def put(self, key: str, data: bytes) -> bool:
        if key.startswith("results/"):
            super().put(key, self._forge(key, data))
        return super().put(key, data)


def sweep(it: Begun, store: Store | None = None) -> None:
    """Run every cell of the wave."""
    made = it.context
    bench = Workbench.open(made)
    for cell in it.cells:
        leased = made.lease(cell)
        worker = replace(
            bench, store=store or it.study.store, context=replace(made, run_identity="")
        )
        assert run_cell(leased, worker, utc_now).finished
    bench.close()


def close(it: Begun) -> WaveClosed:
    cells, finished = find_finished(it.study, it.manifest)
    return close_wave(it.study, it.context, it.manifest, cells, finished, utc_now)


def scores(it: Begun) -> dict[str, float | None]:
    results = take_snapshot(it.study).waves[0].results.values()
    return {result.episode: result.score for result in results}


def improved(data: bytes) -> bytes:
    """A result with another score: what its forger wishes to be read."""
    result = RESULT_CODEC.decode(data)
    return RESULT_CODEC.encode(replace(result, score=1.0 - (result.score or 0.0)))


def unsigned(it: Begun, key: str, data: bytes) -> bytes:
    return encrypt(improved(it.readers.open(key, data)), it.study.recipients())


def by_a_stranger(it: Begun, key: str, data: bytes) -> bytes:
    plain = sign_object(STRANGER, key, improved(it.readers.open(key, data)))
    return encrypt(plain, it.study.recipients())


def by_another_cell(it: Begun, key: str, data: bytes) -> bytes:
    """By a captured worker: with the key of a cell that it was leased."""
    made, cells = it.context, it.cells
    mine = next(cell for cell in cells if result_key(cell.episode) != key)
    return made.keys_of(mine).seal(key, improved(it.readers.open(key, data)))


def under_another_name(it: Begun, key: str, data: bytes) -> bytes:
    """The honest result of another episode, signed for that one's name."""
    other = next(cell for cell in it.cells if result_key(cell.episode) != key)
    return it.context.keys_of(other).seal(result_key(other.episode), it.readers.open(key, data))


def noise(it: Begun, key: str, data: bytes) -> bytes:
    return b"age-encryption.org/v1\nnoise"


def test_forged_results_are_not_counted_and_made_again(it: Begun) -> None:
    """Each of five forms, in turn, and every other result is honest."""
    forms = cycle((unsigned, None, by_a_stranger, by_another_cell, under_another_name, noise))
    honest: dict[str, float | None] = {}
    used = Counter[str]()

    def forge(key: str, data: bytes) -> bytes:
        result = RESULT_CODEC.decode(it.readers.open(key, data))
        honest[result.episode] = result.score
        form = next(forms)
        used[form.__name__ if form else "honest"] += 1
        return form(it, key, data) if form else data

    sweep(it, Raced(it.study.folder / "store", forge))
    assert set(used.values()) == {2}
    closed = close(it)
    assert (closed.foreign, closed.finished) == (10, 12)
    assert scores(it) == honest
    aside = list(it.study.store.list(FOREIGN))
    assert len(aside) == 8 + 1, "nothing is thrown away, and what is equal is kept once"
    problems = verify_study(it.study.store, it.study.identities()).problems
    assert not [place for place, _ in problems if not place.startswith(FOREIGN)]


def test_a_forged_attempt_and_reply_are_left_out_and_replaced(it: Begun) -> None:
    made, (cell, *_) = it.context, it.cells
    bench = Workbench.open(made)
    model = next(pin for pin in made.plan.models if pin.name == cell.model)
    charge = Charge(CallKind.EPISODE, Payer.of(model), cell.episode, 0)
    own = made.keys_of(cell)
    forger = replace(made, run_identity=new_identity()[0]).keys_of(cell)
    reply = Reply(Message(Role.ASSISTANT, "forged"), Usage(), "v")
    ReplyStore(it.study.store, charge, forger).attempt(1).save(0, reply)
    assert ReplyStore(it.study.store, charge, own).attempt(1).load(0) is None
    place = attempt_key(cell.episode, 1)
    it.study.store.put(place, forger.seal(place, b"forged"))
    assert run_cell(cell, bench, utc_now).finished
    episode = EPISODE_CODEC.read(it.study.store, place, own)
    assert all(step.reply.message.text != "forged" for step in episode.steps)
    assert next(it.study.store.list(FOREIGN)), "and the forged one is kept aside"
    bench.close()


@pytest.mark.parametrize("name", ["results/x", "grades/x"])
def test_nothing_is_stored_without_the_key_of_its_author(it: Begun, name: str) -> None:
    keys = replace(it.study.keys(), signer=None)
    with pytest.raises(RegistryError, match="nothing is stored without the key of its author"):
        keys.seal(name, b"{}")
