"""What goes wrong in a worker is told by class and place, and never by what it says."""

from __future__ import annotations

import socket
import traceback
from collections.abc import Callable
from dataclasses import replace

import pytest

from generators.basics.compute_average import FAMILY
from generators.seed import Seed
from harness.episode import Cell, Episode
from harness.episodes.result import RESULT_CODEC, EpisodeResult
from harness.errors import HarnessError
from harness.model import Message, ModelRequest, Reply, Role, Usage
from harness.sandboxes.local import LocalSandboxes
from harness.spending.purchases import CallKind, Charge, Payer, ReplyStore
from harness.storage import EPISODE_CODEC, attempt_key
from harness.sweep.run_cell import close_cell, keep_killed, run_cell
from harness.sweep.schedule import WavePlan
from harness.sweep.workbench import RunContext, Workbench, check_host
from registry.canonical import digest_bytes
from registry.errors import BrokenPromise, ForeignObject, RegistryError
from registry.ledger.begun import find_heads, read_list
from registry.ledger.records import ModelPin
from registry.provenance import code_digest, installed_packages
from registry.result_row import Status
from registry.sealing import new_identity
from registry.stores.base import MemoryStore
from tests.cases import cases
from tests.ledgers import keys_of

SEED = Seed(b"\x5e" * 32)
INSTANCE = FAMILY.generate("easy", SEED)
EPISODE = "sha256:" + "e" * 64
IDENTITY, RECIPIENT = new_identity()
CELL = Cell(EPISODE, INSTANCE.spec, INSTANCE.id, SEED, "clumsy", 0)


def noon() -> str:
    return "2026-11-01T12:00:00Z"


class Clumsy:
    """A model with a bug, whose error quotes all that it knows."""

    name = "clumsy"
    trusted = True
    paid = False

    def respond(self, request: ModelRequest) -> Reply:
        raise KeyError(request.messages[-1].text, SEED.hex, INSTANCE.id)


CLUMSY = ModelPin("clumsy", "scripted", "clumsy/1", ())


def bench(sandboxes: LocalSandboxes) -> Workbench:
    context = RunContext(
        plan=WavePlan("s", 0, (CLUMSY,), (1,), ""), run="sha256:" + "0" * 64, store="memory:",
        recipients=(RECIPIENT,), trusted=frozenset(), run_recipient=RECIPIENT,
        run_identity=IDENTITY, sandbox="local",
        runtime="runc", image_tag="", image_digest="none", parallel=1, folder=".", code="",
    )  # fmt: skip
    return Workbench(context, MemoryStore(), {"clumsy": Clumsy()}, sandboxes)


def complaint(act: Callable[[], object], kind: type[Exception]) -> str:
    """All that Ray, or a console, would show of an error."""
    with pytest.raises(kind) as caught:
        act()
    return "".join(traceback.format_exception(caught.value))


def assert_quiet(text: str) -> None:
    for secret in (SEED.hex, INSTANCE.id.removeprefix("sha256:"), INSTANCE.brief.prompt[:60]):
        assert secret not in text
        assert repr(secret)[1:-1] not in text


def test_a_bug_fails_the_attempt_and_not_the_sweep(sandboxes: LocalSandboxes) -> None:
    work = bench(sandboxes)
    outcome = run_cell(CELL, work, noon)
    assert not outcome.finished
    assert outcome.error_class.startswith("worker:KeyError@test_run_cell.py:")
    assert_quiet(repr(outcome))
    assert work.store.exists(attempt_key(EPISODE, 1)), "a failed attempt is data"
    close_cell(CELL, work.store, work.context, work.catalog)
    key = next(iter(work.store.list("results/")))
    result: EpisodeResult = RESULT_CODEC.read(work.store, key, keys_of(IDENTITY, IDENTITY))
    assert result.status is Status.MISSING


def test_a_cell_that_was_given_up_for_killed_workers_is_missing(sandboxes: LocalSandboxes) -> None:
    """Its paid replies are the next attempt's, and the wave can be closed without it."""
    work = bench(sandboxes)
    store, context = work.store, work.context
    with pytest.raises(HarnessError, match="never tried"):
        close_cell(CELL, store, context, work.catalog)
    charge = Charge(CallKind.EPISODE, Payer.of(CLUMSY), EPISODE, 0)
    keys = context.keys_of(CELL)
    journal = ReplyStore(store, charge, keys).attempt(1)
    for turn in range(2):
        journal.save(turn, Reply(Message(Role.ASSISTANT, "So."), Usage(), "1"))
    begun = context.begun_list(store, "000001-1")
    for _ in range(2):
        keep_killed(CELL, store, context, begun, noon)
    (head,) = find_heads(store, begun.folder)
    (first,), (last,) = (steps for _, steps in read_list(store, begun.folder, head))
    sealed = store.get(attempt_key(EPISODE, 1))
    assert (first.digest, last.digest) == ("", digest_bytes(sealed).removeprefix("sha256:"))
    assert sorted(store.list("attempts/")) == [attempt_key(EPISODE, 1)]
    failed: Episode = EPISODE_CODEC.read(store, attempt_key(EPISODE, 1), keys)
    assert (failed.error_class, failed.replies) == ("worker:killed", 2)
    close_cell(CELL, store, context, work.catalog)
    (key,) = store.list("results/")
    result: EpisodeResult = RESULT_CODEC.read(store, key, keys_of(IDENTITY, IDENTITY))
    assert (result.status, result.error_class) == (Status.MISSING, "worker:killed")


def test_a_worker_has_the_keys_of_its_cells_and_no_other(sandboxes: LocalSandboxes) -> None:
    driver = bench(sandboxes)
    other = replace(CELL, episode="sha256:" + "e1" * 32)
    assert not run_cell(CELL, driver, noon).finished
    assert not run_cell(other, driver, noon).finished
    leased = driver.context.lease(CELL)
    worker = replace(driver, context=replace(driver.context, run_identity=""))
    assert leased.key not in repr(leased)
    with pytest.raises(RegistryError, match="has the keys of leased cells only"):
        worker.context.keys_of(other)
    assert not run_cell(leased, worker, noon).finished
    assert worker.store.exists(attempt_key(EPISODE, 2)), "it went on from the first attempt"
    run_cell(replace(other, key=leased.key), worker, noon)
    keys = driver.context.keys_of(other)
    with pytest.raises(ForeignObject, match="not by the key of its cell"):
        EPISODE_CODEC.read(worker.store, attempt_key(other.episode, 1), keys)


def test_other_instances_than_those_drawn_are_refused_quietly(sandboxes: LocalSandboxes) -> None:
    cell = replace(CELL, seed=Seed(b"\x5f" * 32))
    text = complaint(lambda: run_cell(cell, bench(sandboxes), noon), HarnessError)
    assert "another instance than the one drawn" in text
    assert_quiet(text)


@pytest.mark.parametrize(
    "content",
    [
        f'{{"body": "{SEED.hex}", "format": "dosimeter/episode/1"}}',
        f'{{"body": {{"seed": "{SEED.hex}"}}, "format": "{INSTANCE.id}"}}',
        f"{SEED.hex} is no JSON",
    ],
)
def test_an_attempt_that_cannot_be_read_is_refused_quietly(
    sandboxes: LocalSandboxes, content: str
) -> None:
    work = bench(sandboxes)
    key = attempt_key(EPISODE, 1)
    work.store.put(key, work.context.keys_of(CELL).seal(key, content.encode()))
    text = complaint(lambda: run_cell(CELL, work, noon), BrokenPromise)
    assert "not a dosimeter/episode/1" in text
    assert_quiet(text)


def test_no_repr_shows_a_secret(sandboxes: LocalSandboxes) -> None:
    work = bench(sandboxes)
    assert_quiet(repr(CELL))
    assert "AGE-SECRET-KEY" not in repr(work.context)


PAID = ModelPin(
    "nova", "openai", "nova-1", (("api_key_env", '"NOVA_KEY"'), ("base_url", '"http://host/v1"'))
)


def fit_context() -> RunContext:
    """Of a run that this host can work on once it has the model's key."""
    return replace(
        bench(LocalSandboxes()).context,
        plan=WavePlan("s", 0, (PAID,), (1,), ""),
        run_identity="",  # not needed for the check
        code=code_digest(),
        packages=installed_packages(),
    )


def test_a_host_like_the_drivers_with_the_models_key_can_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NOVA_KEY", "k")
    check_host(fit_context())


@pytest.mark.parametrize(("change", "words"), cases(__file__, "hosts"))
def test_a_host_that_cannot_work_is_named_with_the_reason(
    change: dict[str, object], words: str
) -> None:
    context = replace(fit_context(), **change)  # type: ignore[arg-type]  # one field of any type
    for check in (check_host, Workbench.open):
        with pytest.raises(HarnessError, match=f"^{socket.gethostname()}: .*{words}"):
            check(context)


@pytest.mark.docker
def test_a_host_with_another_sandbox_image_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.sandboxes.image import ensure_image

    monkeypatch.setenv("NOVA_KEY", "k")
    pin = ensure_image()
    context = replace(fit_context(), sandbox="docker", image_tag=pin.tag, image_digest=pin.digest)
    check_host(context)
    host = socket.gethostname()
    with pytest.raises(HarnessError, match=f"^{host}: sandbox image .* is pinned to sha256:0"):
        check_host(replace(context, image_digest="sha256:0"))
    with pytest.raises(HarnessError, match=f"^{host}: no sandbox image nothing:here"):
        check_host(replace(context, image_tag="nothing:here"))
