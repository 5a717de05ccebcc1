"""Waves: a manifest before the first episode, the sweep, and the close after the last."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import product

from generators.catalog import Catalog
from generators.items import HARBOR
from harness.build_model import build_model
from harness.episode import Cell, Mode
from harness.episodes.result import RESULT_CODEC
from harness.sandboxes.image import ImagePin
from harness.sandboxes.sandbox import open_for
from harness.spending.budget import PricedModel, Spend
from harness.spending.purchases import CallKind
from harness.storage import RESULTS, finished_names
from harness.sweep.coordinator import SweepOptions
from harness.sweep.drive import Crew, LocalCrew, run_sweep
from harness.sweep.governor import StatedLimit
from harness.sweep.leases import Progress
from harness.sweep.run_cell import close_cell
from harness.sweep.schedule import Schedule, WavePlan
from harness.sweep.workbench import RunContext, instance_of, open_sandboxes
from registry.canonical import digest_value
from registry.errors import ForeignObject
from registry.ledger.begun import begun_folder, find_heads
from registry.ledger.inventory import RUN_FOLDERS, Inventory, run_objects, write_inventory
from registry.ledger.records import ModelPin, RanElsewhere, RunManifest, WaveClosed, record_body
from registry.provenance import code_digest, installed_packages
from registry.result_row import Status
from registry.sealing import Keys, run_name
from registry.stores.parallel import parallel_map
from study.files import exclusive
from study.protocol.protocol import Protocol, Task
from study.steps.sweep.begun import BegunRecorder
from study.steps.sweep.manifests import begin_wave, check_here
from study.steps.sweep.preview import fit_single_turn
from study.steps.sweep.spending import (
    NO_PRICING,
    Pricing,
    attempt_turns,
    example_of,
    price_pins,
    sum_spends,
)
from study.workspace.checkpoints import stamp_ledger
from study.workspace.setup import Watch, pinned_image, registration_of
from study.workspace.snapshot import cells_of
from study.workspace.study import Study, closed_wave, manifest_of

logger = logging.getLogger(__name__)

_SPARE = 10  # a tenth: instances differ in size, and one that fails to fit would stop the sweep


def check_single_turns(pins: Iterable[ModelPin], tasks: Iterable[Task], catalog: Catalog) -> None:
    """Raise StudyError, naming model and task, if a model is given a task in a single turn and is
    an agent or states no context window, or if an example of the task has no such form or hardly
    fits the window."""
    single = [task for task in tasks if task.mode is Mode.SINGLE_TURN]
    for pin, task in product(pins, single):
        fit_single_turn(task, example_of(task, catalog).brief, pin, _SPARE)


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """Options of a sweep. None keeps the value of study.yaml."""

    wave: int
    allow_dirty: bool = False
    close_missing: bool = False
    address: str | None = None
    workers: tuple[int, int] | None = None  # the fewest and the most
    parallel: int | None = None
    allow_unknown_price: bool = False


@dataclass(frozen=True, slots=True)
class SweepOutcome:
    """The result of a sweep."""

    closed: WaveClosed | None  # None while cells are still owed
    progress: Progress | None  # None if nothing was left to run


def sweep_wave(
    study: Study,
    request: SweepRequest,
    watch: Callable[[Progress], None],
    now: Callable[[], str],
    steps: Watch = lambda what, done, of: None,
    spent_elsewhere: tuple[tuple[PricedModel, Spend], ...] = (),
) -> SweepOutcome:
    """Run the episodes that a wave still owes, and close it when all have results. With
    ``close_missing``, failures of providers count too, failed episodes are run once more, and those
    that fail again are recorded as missing. ``steps`` gets what is done before the first
    episode and at the close. ``spent_elsewhere`` counts against the wave's budget too.

    Raises StudyError, RegistryError (drifted pins), HarnessError (no engine, no cluster).
    """
    protocol, wave = study.protocol, request.wave
    models = protocol.wave_models(wave)
    registration_of(study)
    if (closed := closed_wave(study.ledger, wave)) is not None:
        return SweepOutcome(closed, None)
    check_here(manifest_of(study.ledger, wave))
    with exclusive(study.folder / f".sweep-{wave}.lock", f"another sweep of wave {wave}"):
        folder = str(study.folder.resolve())
        for pin in models:
            build_model(pin, folder=folder)  # fails before anything begins
        tasks = protocol.wave_tasks(wave)
        check_single_turns(models, tasks, protocol.catalog)
        turns = None if protocol.budget is None else attempt_turns(tasks, protocol.catalog)
        pricing = price_pins(study, models, request.allow_unknown_price, turns)
        steps("finding the sandbox image", 0, 0)
        image = pinned_image(protocol, steps)
        steps("preparing the episodes", 0, 0)
        manifest = begin_wave(study, request, image, now, pricing.prices.digest)
        other = (CallKind.JUDGE, CallKind.PROBE)
        spent = sum_spends(study, wave, pricing.prices, *other) if pricing.limits else ()
        spent += spent_elsewhere
        context = context_of(study, manifest, image, request.parallel, pricing, spent)
        cells, finished = find_finished(study, manifest)
        progress = None
        if not all(finished):
            steps("starting workers and sandboxes", 0, 0)
            images = _task_images(study, context, cells.unmarked(finished), steps)
            with images, BegunRecorder(study, manifest, now) as begun:

                def watch_all(now_done: Progress) -> None:
                    begun.watch(now_done)
                    watch(now_done)

                progress = _run_owed(study, request, context, watch_all, steps)
                if progress.done and progress.exhausted and request.close_missing:
                    # Once more before they are given up.
                    progress = _run_owed(study, request, context, watch_all, steps)
            # An episode that no budget covers, or of a stopped model, is never closed as missing.
            if not progress.done or (progress.exhausted and not request.close_missing):
                return SweepOutcome(None, progress)
            finished = cells.marks(finished_names(study.store))
        closed = close_wave(study, context, manifest, cells, finished, now, steps)
        return SweepOutcome(closed, progress)


@contextmanager
def _task_images(
    study: Study, context: RunContext, owed: Iterable[Cell], steps: Watch
) -> Iterator[None]:
    """Build the images of the tasks that are owed, before anything is paid for; they are removed
    from this machine afterwards. Raises HarnessError."""
    if all(pool.family != HARBOR for pool in study.protocol.pools):
        yield
        return
    instances = {cell.instance: cell for cell in owed if cell.spec.family == HARBOR}
    with closing(open_sandboxes(context)) as sandboxes:
        for number, cell in enumerate(instances.values()):
            steps("building the images of tasks", number, len(instances))
            open_for(instance_of(cell, study.protocol.catalog).brief, sandboxes).close()
        yield


def find_finished(study: Study, manifest: RunManifest) -> tuple[Schedule, bytearray]:
    """Return the cells of a wave that was begun, and a byte for each, 1 if it has a result. Needs
    the study's key. Raises RegistryError."""
    cells = cells_of(study, manifest)
    finished = cells.marks(finished_names(study.store))
    owed = finished.count(0)
    logger.info("wave %d: %d of %d episodes owed", manifest.wave, owed, len(cells))
    return cells, finished


def context_of(
    study: Study,
    manifest: RunManifest,
    image: ImagePin,
    parallel: int | None,
    pricing: Pricing = NO_PRICING,
    spent_elsewhere: tuple[tuple[PricedModel, Spend], ...] = (),
) -> RunContext:
    """Return the context that a run's workers need. Needs the study's key, to decrypt the run's."""
    identity = study.run_identity(manifest)
    return RunContext(
        plan=WavePlan.of(manifest),
        run=digest_value(record_body(manifest)),
        store=study.store.uri,
        recipients=study.readers(),
        trusted=study.trusted(),
        run_recipient=manifest.run_recipient,
        run_identity=identity,
        sandbox=manifest.sandbox,
        runtime=manifest.runtime,
        image_tag=image.tag,
        image_digest=image.digest,
        parallel=parallel or study.protocol.sweep.parallel,
        creating=study.protocol.sandbox.creating or 0,
        executing=study.protocol.sandbox.executing or 0,
        memory_bytes=int(1e9 * (study.protocol.sandbox.memory_gb or 0)),
        folder=str(study.folder.resolve()),
        code=code_digest(),
        packages=installed_packages(),
        templates=study.protocol.templates,
        prices=pricing.models,
        limits=pricing.limits,
        allow_unknown_price=pricing.allow_unknown,
        spent_elsewhere=spent_elsewhere,
    )


def _stated_limits(protocol: Protocol) -> dict[str, StatedLimit]:
    """Return the limits that study.yaml states, by model."""
    requests, tokens = protocol.sweep.requests_per_minute, protocol.sweep.tokens_per_minute
    return {
        name: StatedLimit(requests.get(name), tokens.get(name)) for name in (*requests, *tokens)
    }


def _run_owed(
    study: Study,
    request: SweepRequest,
    context: RunContext,
    watch: Callable[[Progress], None],
    steps: Watch,
) -> Progress:
    """Sweep the owed episodes."""
    settings = study.protocol.sweep
    options = SweepOptions(
        workers=request.workers or (settings.workers, settings.workers),
        give_up=request.close_missing,
        limits=_stated_limits(study.protocol),
    )
    crew: AbstractContextManager[Crew] = nullcontext(LocalCrew(options))
    if address := request.address or settings.address:
        from harness.sweep.ray_actors import ray_crew

        crew = ray_crew(address, context, options)
    waits = "waiting to see if the sweep on {} is still at work"
    return run_sweep(
        crew, context, options.workers, watch, lambda host: steps(waits.format(host), 0, 0)
    )


def close_wave(
    study: Study,
    context: RunContext,
    manifest: RunManifest,
    cells: Schedule,
    finished: bytes | bytearray,
    now: Callable[[], str],
    watch: Watch = lambda what, done, of: None,
    elsewhere: tuple[RanElsewhere, ...] = (),
) -> WaveClosed:
    """Close a wave: record as missing each of its cells that failed on every attempt, and put the
    digest of all stored objects into the ledger. ``cells`` are all of the wave, and ``finished``
    has a byte for each, 1 if it has a result.

    Each object is read and its signature checked, by several threads if the store is remote. Killed
    at any moment, the next call gives the same record.
    """
    _close_owed(study, context, cells, finished, watch)
    store, missing, foreign = study.store, set[str](), set[str]()
    readable, unread = set[str](), set[str]()  # models
    run = {run_name(manifest.run_recipient): context.run_identity}
    keys = Keys(runs=run.get)

    def inspect(key: str, data: bytes) -> None:
        if not key.startswith(RUN_FOLDERS):
            return
        try:
            plain = keys.open(key, data)
        except ForeignObject as error:
            logger.warning("%s: it is left out", error)
            foreign.add(key)
            return
        if key.startswith(RESULTS):
            row = RESULT_CODEC.decode(plain, key)
            if row.status is Status.MISSING:
                missing.add(key)
            else:
                (unread if row.status is Status.MODEL_FAILURE else readable).add(row.model)

    def list_objects(left_out: Collection[str]) -> Inventory:
        objects = run_objects(store, manifest, lambda name: cells.find(name) is not None)
        return write_inventory(
            store,
            (key for key in objects if key not in left_out),
            inspect,
            lambda done: watch("closing: listing objects with their digests", done, 0),
        )

    inventory = list_objects(())
    if foreign:  # results are made again from what the run's workers signed
        forged = [key for key in foreign if key.startswith(RESULTS)]
        for number in (n for key in forged if (n := cells.find(_named(key))) is not None):
            close_cell(cells[number], store, context, study.protocol.catalog)
        inventory = list_objects(foreign - set(forged))
    if mute := ", ".join(sorted(unread - readable)):
        logger.warning("%s: no answer could be read; `dosimeter show` shows what came", mute)
    record = WaveClosed(
        wave=manifest.wave,
        manifest=context.run,
        owed=len(cells),
        finished=len(cells) - len(missing),
        missing=len(missing),
        results_root=inventory.results_root,
        objects=inventory.objects,
        objects_root=inventory.objects_root,
        foreign=len(foreign),
        elsewhere=elsewhere,
        heads=find_heads(store, begun_folder(manifest.run_recipient)),
    )
    entry, _ = study.ledger.append_unless(
        record,
        now(),
        lambda entry: entry.kind == "wave-closed" and entry.body["wave"] == manifest.wave,
    )
    stamp_ledger(study)
    closed: WaveClosed = entry.record
    logger.info("wave %d: closed, %d missing", closed.wave, closed.missing)
    return closed


def _named(key: str) -> str:
    """The 64 digits of the episode of a result."""
    return key.rpartition("/")[2].partition(".")[0]


def _close_owed(
    study: Study, context: RunContext, cells: Schedule, finished: bytes | bytearray, watch: Watch
) -> None:
    """Record as missing each cell without a result. Raises HarnessError if one was never tried."""
    owed = finished.count(0)

    def close(cell: Cell) -> None:
        close_cell(cell, study.store, context, study.protocol.catalog)

    closing = parallel_map(study.store, close, cells.unmarked(finished))
    for done, _ in enumerate(closing, 1):
        watch("closing: recording missing episodes", done, owed)
