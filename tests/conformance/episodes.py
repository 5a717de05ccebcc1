"""Whole episodes against the server, cell by cell as a worker runs them."""

from __future__ import annotations

import hashlib
import io
import itertools
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from generators.catalog import INSTALLED
from generators.seed import Seed
from generators.task import Asset, Brief, Limits, TaskSpec
from harness.build_model import build_model
from harness.episode import Cell, StopReason
from harness.episodes.result import RESULT_CODEC, EpisodeResult
from harness.episodes.rollout import AttemptRequest, run_attempt
from harness.models.providers.retry import RETRIED, RETRIED_ONCE
from harness.sandboxes.sandbox import ExecResult, Sandbox, SandboxRefused
from harness.spending.purchases import MemoryJournal
from harness.storage import result_key
from harness.sweep.leases import LeaseBook, LeaseRules
from harness.sweep.run_cell import close_cell, run_cell
from harness.sweep.schedule import WaveInstance, WavePlan, schedule_cells
from harness.sweep.workbench import RunContext, Workbench
from registry.ledger.records import ModelPin
from registry.sealing import new_identity
from registry.stores import open_store
from tests.conformance.agents import explore, solve
from tests.conformance.clients import BY_NAME, ENVIRONMENT, Client
from tests.conformance.faults import Schedule
from tests.conformance.server import serving
from tests.harness.listed_cells import ListedCells

ROOT = Seed(hashlib.sha256(b"conformance episodes").digest())
TASKS = (("compute_average", "easy"), ("count_circles", "easy"))
WAIT = 1.0  # seconds that a rate limit asks for: the least that the header can say
SETTINGS = {"retries": 3, "backoff_seconds": 0.01, "seconds": 1.0, "max_tokens": 4096}


class FolderInMemory(Sandbox):
    """A work folder in memory, in which no program runs: what this measures is not a sandbox."""

    def __init__(self, assets: Sequence[Asset]) -> None:
        self.id = "memory"
        self._files = {asset.path: asset.data for asset in assets}

    def run(self, argv: Sequence[str], seconds: float, stdin: bytes = b"") -> ExecResult:
        raise SandboxRefused("no program runs here")

    def read(self, path: str, max_bytes: int) -> bytes:
        if path not in self._files:
            raise SandboxRefused("there is no such file")
        return self._files[path]

    def write(self, path: str, data: bytes) -> None:
        self._files[path] = data

    def kind(self, path: str) -> str | None:
        return "file" if path in self._files else None

    def close(self) -> None:
        """Nothing to close."""


class FoldersInMemory:
    """The provider of such folders."""

    image = "none"
    isolates, trouble = True, ""
    libraries: tuple[tuple[str, str], ...] = ()

    def open(self, assets: Sequence[Asset], limits: Limits, model_socket: bool = False) -> Sandbox:
        """A folder with these files."""
        return FolderInMemory(assets)

    def close(self) -> None:
        """Nothing to close."""


@dataclass(frozen=True)
class Finished:
    """An episode at its end: the faults that its requests met, and the error classes of its failed
    attempts."""

    client: str
    result: EpisodeResult
    faults: tuple[str, ...]
    failures: tuple[str, ...]


@dataclass(frozen=True)
class Sweep:
    """The episodes of a sweep, and the rules that the server saw broken."""

    episodes: dict[str, Finished]  # by their ids
    refused: tuple[str, ...]


def sweep(clients: Sequence[Client], count: int, share: float) -> Sweep:
    """Run ``count`` episodes, shared out among the clients, against a server that spoils ``share``
    of the requests. Each client's run one after the other, so that the same faults meet the same
    requests each time. Instances and episodes are the same for any share."""
    schedule = Schedule(ROOT, share, WAIT)
    with (
        serving(solve, schedule=schedule, records=False) as server,
        tempfile.TemporaryDirectory(prefix="dosimeter-conformance-") as folder,
        ThreadPoolExecutor(len(clients)) as threads,
    ):

        def work(number: int) -> list[Finished]:
            share = count // len(clients) + (number < count % len(clients))
            return list(_run_all(clients[number], share, server.url, folder, schedule))

        done = [each for found in threads.map(work, range(len(clients))) for each in found]
        return Sweep({each.result.episode: each for each in done}, tuple(server.refused))


def _run_all(
    client: Client, count: int, url: str, folder: str, schedule: Schedule
) -> Iterator[Finished]:
    """Run a client's episodes. Their ids do not depend on the server's address."""
    store = str(Path(folder, client.name))
    identity, recipient = new_identity()
    pin = client.pin(url, **SETTINGS)
    context = RunContext(
        plan=WavePlan("s", 0, (pin,), (1,), ROOT.hex), run="sha256:" + "a" * 64, store=store,
        recipients=(recipient,), trusted=frozenset(),
        run_recipient=recipient, run_identity=identity, sandbox="local", runtime="",
        image_tag="", image_digest="none", parallel=1, folder=".", code="",
    )  # fmt: skip
    models = {pin.name: build_model(pin, ENVIRONMENT)}
    bench = Workbench(context, open_store(store), models, FoldersInMemory())
    plain = ModelPin(pin.name, pin.provider, pin.version, ())
    plan = WavePlan("s", 0, (plain,), (1,), ROOT.hex)
    for cell in schedule_cells(plan, _subjects(count), ROOT.hex):
        before = schedule.drawn_for(client.version)
        result, failures = _run(cell, bench)
        met = schedule.drawn_for(client.version) - before
        yield Finished(client.name, result, tuple(sorted(met.elements())), failures)
    bench.close()


def _subjects(count: int) -> Iterator[WaveInstance]:
    for number in range(count):
        family, difficulty = TASKS[number % len(TASKS)]
        seed = ROOT.child("instance", number)
        made = INSTALLED.family(family)
        spec = TaskSpec(family, made.version, difficulty, ())
        yield WaveInstance(spec, made.generate(difficulty, seed).id, seed)


def _run(cell: Cell, bench: Workbench) -> tuple[EpisodeResult, tuple[str, ...]]:
    """Bring a cell to its end, as a coordinator and a worker do, without the pauses between
    attempts but the one that the server asked for. Return the result and the error classes of the
    attempts that failed."""
    book = LeaseBook(ListedCells([cell]), bytes(1), LeaseRules(1e9))
    now = 0.0
    failed: list[str] = []
    while not book.progress().done:
        for leased in book.lease("w", 1, now):
            outcome = run_cell(leased, bench, lambda: "2026-11-21T12:00:00Z")
            failed += [] if outcome.finished else [outcome.error_class]
            if outcome.error_class == "provider:rate_limit":
                time.sleep(WAIT)
            book.report("w", [outcome], now)
        now += 60.0
    if book.progress().exhausted:
        close_cell(cell, bench.store, bench.context, bench.catalog)
    keys = bench.context.keys_of(cell)
    return RESULT_CODEC.read(bench.store, result_key(cell.episode), keys), tuple(failed)


# Failures that pass: they make an episode missing only if each of its attempts runs out of retries.
_PASSING = {f"provider:{kind}" for kind in RETRIED | RETRIED_ONCE}


@dataclass(frozen=True)
class Loss:
    """An episode that has no score, or a lower one than without faults.

    Causes: ``refusal``, the model's own and scored; ``no_answer``, a message that was cut off or
    empty, and another one after the reminder: the model's own too, and scored; ``retries``, faults
    came more often in a row than a sweep retries, which is independent of the task, and missing;
    ``other``, none of these: the harness's fault, and not random."""

    client: str
    cause: str
    faults: tuple[str, ...]
    recorded: str  # error class of the last attempt, or how the episode stopped


def losses(calm: Sweep, stormy: Sweep) -> list[Loss]:
    """The episodes that the faults of the second sweep cost their score."""
    return [
        Loss(each.client, _cause(each), each.faults, result.error_class or result.stop_reason)
        for episode, each in stormy.episodes.items()
        if (result := each.result).score is None
        or result.score < (calm.episodes[episode].result.score or 0.0)
    ]


def _cause(each: Finished) -> str:
    if each.result.score is None:
        passing = all(failure.partition(" ")[0] in _PASSING for failure in each.failures)
        return "retries" if passing and len(each.faults) > len(each.failures) else "other"
    if "refusal" in each.faults:
        return "refusal"
    # Without a choice or a candidate there is no message, and the request is retried.
    messages = BY_NAME[each.client].format not in ("chat", "gemini")
    own = [kind for kind in each.faults if kind == "truncated" or (kind == "empty" and messages)]
    return "no_answer" if len(own) > 1 else "other"


SECONDS_A_TURN = 20.0  # on the server's clock


@dataclass(frozen=True)
class CacheUse:
    """Tokens of a long episode: the whole input and what came of it from the cache, as the server
    counted them and as the episode has them."""

    turns: int
    served: tuple[int, int]
    recorded: tuple[int | None, int | None]
    refused: tuple[str, ...]

    @property
    def share(self) -> float:
        """Share of the input that came from the cache."""
        return self.served[1] / self.served[0]


def use_cache(client: Client, turns: int) -> CacheUse:
    """Run one episode of this number of turns with an agent that thinks, if the client's may."""
    now = itertools.count()
    brief = Brief(
        "Find x.", (Asset("plot.png", "image/png", plot()),), _SCHEMA, Limits(turns=turns + 1)
    )
    cell = Cell("sha256:e", TaskSpec("x", "1", "easy", ()), "i", ROOT, client.name, 0)
    request = AttemptRequest(cell, 1, brief, run="r", journal=MemoryJournal())
    with (
        serving(explore(turns), clock=lambda: next(now) * SECONDS_A_TURN) as server,
        client.model(server, **client.thinking) as model,
    ):
        episode = run_attempt(request, model, FoldersInMemory(), lambda: "2026-11-21T12:00:00Z")
    assert episode.stop is StopReason.ANSWERED, (episode.stop, episode.error_class, server.refused)
    counts = server.tokens
    return CacheUse(
        len(episode.steps),
        (sum(each.input for each in counts), sum(each.cached for each in counts)),
        (episode.usage.input_tokens, episode.usage.cached_tokens),
        tuple(server.refused),
    )


_SCHEMA = '{"properties":{"x":{"type":"number"}},"required":["x"],"type":"object"}'


def plot() -> bytes:
    """A picture of 800 × 600 pixels."""
    data = io.BytesIO()
    Image.new("RGB", (800, 600), "white").save(data, "PNG")
    return data.getvalue()
