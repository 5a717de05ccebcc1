"""Waves: a manifest before the first episode, the sweep, and the close after the last."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import product

from generators.catalog import Catalog
from generators.seed import Seed
from harness.agent import fit_context, rules_digest, single_turn
from harness.build_model import build_model, read_window
from harness.episode import Cell, Mode
from harness.episodes import RESULT_CODEC
from harness.errors import HarnessError
from harness.spending import CallKind, PricedModel, Spend
from harness.storage import RESULTS, finished_names, instances_key, run_key_key
from harness.sweep import (
    INSTANCES_CODEC,
    Progress,
    RunContext,
    Schedule,
    close_cell,
    prepare_ray,
)
from registry.canonical import digest_value
from registry.errors import BrokenPromise
from registry.ledger import (
    ModelPin,
    Preregistration,
    Provenance,
    ReceiptFolder,
    RunManifest,
    WaveClosed,
    read_receipts,
    record_body,
    run_objects,
    write_inventory,
)
from registry.provenance import check_tree, code_digest, installed_packages, read_provenance
from registry.result_row import Status
from registry.sealing import decrypt, encrypt, new_identity
from registry.stores import parallel_map
from study.errors import StudyError
from study.files import exclusive
from study.protocol import FILE_NAME, Protocol, Task, Tranches
from study.sweeps.batches import buy_single_turns, waiting_words
from study.sweeps.spending import (
    NO_PRICING,
    Pricing,
    attempt_turns,
    example_of,
    price_pins,
    sum_spends,
)
from study.workspace import (
    CHECKOUT,
    PinnedImage,
    Study,
    Watch,
    cells_of,
    closed_wave,
    entropy_of,
    grading_digest,
    instances_of,
    manifest_of,
    pinned_image,
    registration_of,
    run_identity_of,
)

logger = logging.getLogger(__name__)

_ENDPOINT = ("base_url", "api_key_env", "bridge", "bridge_url")  # settings: where, not what
_SPARE = 10  # a tenth: instances differ in size, and one that fails to fit would stop the sweep


def check_single_turns(pins: Iterable[ModelPin], tasks: Iterable[Task], catalog: Catalog) -> None:
    """Raise StudyError, naming model and task, if a model is given a task in a single turn and is
    an agent or states no context window, or if an example of the task has no such form or hardly
    fits the window."""
    single = [task for task in tasks if task.mode is Mode.SINGLE_TURN]
    for pin, task in product(pins, single):
        try:
            window = read_window(pin)
            made = single_turn(example_of(task, catalog).brief)
            fit_context(made, replace(window, reply=window.reply + made.tokens // _SPARE))
        except HarnessError as error:
            reason = str(error).removeprefix(f"model {pin.name!r}: ")
            raise StudyError(f"model {pin.name!r}, task {task.stratum}: {reason}") from None


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """Options of a sweep. None keeps the value of study.yaml."""

    wave: int
    allow_dirty: bool = False
    close_missing: bool = False
    address: str | None = None
    workers: int | None = None
    parallel: int | None = None
    allow_unknown_price: bool = False
    detach: bool = False


@dataclass(frozen=True, slots=True)
class SweepOutcome:
    """The result of a sweep. Both are None of one that goes on by itself."""

    closed: WaveClosed | None  # None while cells are still owed
    progress: Progress | None  # None if nothing was left to run


def sweep_wave(
    study: Study,
    request: SweepRequest,
    watch: Callable[[Progress], None],
    now: Callable[[], str],
    begin: Callable[[str], None] = lambda step: None,
    closing: Watch = lambda what, done, of: None,
) -> SweepOutcome:
    """Run the episodes that a wave still owes, and close it when all have results. To close it with
    missing ones, those that failed are run once more first, and failures of providers count, which
    are waited for otherwise. ``begin`` gets the steps before the first episode, in words,
    ``closing`` the steps and progress of closing.

    Raises StudyError, RegistryError (drifted pins), HarnessError (no engine, no cluster).
    """
    protocol, wave = study.protocol, request.wave
    models = protocol.wave_models(wave)
    registration_of(study)
    if (closed := closed_wave(study.ledger, wave)) is not None:
        return SweepOutcome(closed, None)
    # A second sweep of the wave from this folder would pay for the same replies.
    if request.detach and not (request.address or protocol.sweep.address):
        raise StudyError(
            "--detach needs a cluster that outlives this command: give its --address, or `address` "
            "under `sweep:` in study.yaml"
        )
    with exclusive(study.folder / f".sweep-{wave}.lock", f"another sweep of wave {wave}"):
        folder = str(study.folder.resolve())
        for pin in models:
            build_model(pin, folder=folder)  # fails before anything begins
        tasks = protocol.wave_tasks(wave)
        check_single_turns(models, tasks, protocol.catalog)
        turns = None if protocol.budget is None else attempt_turns(tasks, protocol.catalog)
        pricing = price_pins(study, models, request.allow_unknown_price, turns)
        begin("finding the sandbox image")
        image = pinned_image(protocol, lambda what, done, of: begin(what))
        begin("preparing the episodes")
        manifest = begin_wave(study, request, image, now, pricing.prices.digest)
        other = (CallKind.JUDGE, CallKind.PROBE)
        spent = sum_spends(study, wave, pricing.prices, *other) if pricing.limits else ()
        context = context_of(study, manifest, image, request.parallel, pricing, spent)
        cells, owed = count_owed(study, manifest)
        progress = None
        if owed:
            buy_single_turns(study, context, begin)
            begin("starting Ray, workers and sandboxes")
            progress = _run_owed(study, request, context, watch, begin)
            if progress is None:
                return SweepOutcome(None, None)
            if progress.done and progress.exhausted and request.close_missing:
                # Once more before they are given up.
                progress = _run_owed(study, request, context, watch, begin) or progress
            # An episode that no budget covers, or of a stopped model, is never closed as missing.
            if not progress.done or (progress.exhausted and not request.close_missing):
                return SweepOutcome(None, progress)
        closed = close_wave(study, context, manifest, cells, now, closing)
        return SweepOutcome(closed, progress)


def count_owed(study: Study, manifest: RunManifest) -> tuple[Schedule, int]:
    """Return the cells of a wave that was begun, and how many are owed. Needs the study's key.
    Raises RegistryError."""
    cells = cells_of(study, manifest)
    owed = cells.marks(finished_names(study.store)).count(0)
    logger.info("wave %d: %d of %d episodes owed", manifest.wave, owed, len(cells))
    return cells, owed


def begin_wave(
    study: Study,
    request: SweepRequest,
    image: PinnedImage,
    now: Callable[[], str],
    prices: str = "",
) -> RunManifest:
    """Return the wave's manifest: the one in the ledger, or a new one, appended now, which records
    the code and environment that run it. ``prices`` is the digest of the price file.

    Raises BrokenPromise for a dirty tree that is not allowed, and for instances, grading or a plan
    that differ from the registered ones; another commit is no reason (spec/verdicts.md, 7).
    """
    registered = registration_of(study)
    provenance = read_provenance(CHECKOUT, image.digest)
    check_tree(provenance, request.allow_dirty)
    begun = manifest_of(study.ledger, request.wave)
    if begun is None:
        _check_names(study, request.wave)
    if begun is None or provenance.dirty or begun.provenance != provenance:
        check_grading(study, registered)
        check_instances(study, request.wave)
    if begun is None:
        first = _new_manifest(study, request, registered, provenance, prices)
        entry, fresh = study.ledger.append_unless(
            first,
            now(),
            lambda entry: entry.kind == "run-manifest" and entry.body["wave"] == request.wave,
        )
        if fresh:
            return first
        begun = entry.record  # of a sweep that began in the meantime: one wave, one run key
    _check_resumed(study, begun)
    record = replace(
        begun,
        provenance=provenance,
        prices=prices,
        retention=study.protocol.wave_retention(request.wave),
    )
    if record != begun:
        study.ledger.append(record, now())
    return record


def check_grading(study: Study, registered: Preregistration) -> None:
    """Raise BrokenPromise if known answers are graded otherwise than at the registration."""
    now = grading_digest(study.protocol.tasks, study.protocol.catalog)
    if registered.grading and now != registered.grading:
        raise BrokenPromise(
            "known answers to the study's tasks are graded otherwise than when the plan was "
            f"registered: grading is {now}, registered {registered.grading}; run the commit and "
            "library versions that the study is registered with"
        )


def check_instances(study: Study, wave: int) -> None:
    """Raise BrokenPromise if an instance of a wave would be generated otherwise than it was drawn:
    files, prompt, answer key and rubric, which its id pins. Needs the study's key."""
    tranches = {0}.union(*study.protocol.wave_tranches(wave).values())
    catalog = study.protocol.catalog
    entries = [entry for entry in study.entries() if entry.tranche in tranches]
    logger.info("wave %d: comparing %d instances with the draw", wave, len(entries))
    for entry in entries:
        family = catalog.family(entry.family, entry.version)
        if family.generate(entry.difficulty, Seed.from_hex(entry.seed)).id != entry.instance:
            raise BrokenPromise(
                f"wave {wave} is not begun: {entry.family}/{entry.difficulty} is generated "
                "otherwise than it was drawn; run the commit and library versions that the "
                "study is registered with"
            )


def _new_manifest(
    study: Study,
    request: SweepRequest,
    registered: Preregistration,
    provenance: Provenance,
    prices: str,
) -> RunManifest:
    """Return a new manifest, after storing its run key and instances: both are sealed, so a crash
    before the record is in the ledger reveals nothing."""
    protocol, wave = study.protocol, request.wave
    identity, recipient = new_identity()
    manifest = RunManifest(
        study=protocol.name,
        wave=wave,
        plan=digest_value(record_body(registered)),
        instances_root=registered.sealed_root,
        models=protocol.wave_models(wave),
        judges=protocol.judges,
        sandbox=protocol.sandbox.kind,
        runtime=protocol.sandbox.runtime,
        replicates=protocol.wave_replicates(wave),
        schedule_seed=entropy_of(protocol).draw(32, "schedule", wave).hex(),
        run_recipient=recipient,
        run_key=run_key_key(recipient),
        provenance=provenance,
        prices=prices,
        tranches=_stated_tranches(protocol, wave),
        retention=protocol.wave_retention(wave),
        single_turn=protocol.single_turn[wave],
        agent_rules=rules_digest(),
    )
    study.store.put(manifest.run_key, encrypt(identity.encode(), study.recipients()))
    instances = instances_of(study.entries(), manifest)
    readers = (*study.recipients(), recipient)
    INSTANCES_CODEC.write(study.store, instances_key(recipient), instances, readers)
    return manifest


def _stated_tranches(protocol: Protocol, wave: int) -> tuple[Tranches, ...]:
    """Return tranches as a manifest states them: () if every model runs the panel only."""
    return protocol.tranches[wave] if protocol.tranches else ()


def _check_names(study: Study, wave: int) -> None:
    """Raise BrokenPromise if a name stands for another model than in an earlier wave. Its address
    may change, which the report shows."""
    earlier = {
        pin.name: (entry.record.wave, pin)
        for entry in study.ledger.find("run-manifest")
        for pin in entry.record.models
    }
    for now in study.protocol.wave_models(wave):
        before, then = earlier.get(now.name, (wave, now))
        if _without_endpoint(now) != _without_endpoint(then):
            raise BrokenPromise(
                f"{study.folder / FILE_NAME}: models: {now.name!r} ran in wave {before} with "
                "another provider, version or settings (see `dosimeter log`): restore them, or "
                "give this model a name of its own"
            )


def _without_endpoint(pin: ModelPin) -> ModelPin:
    settings = tuple(each for each in pin.settings if each[0] not in _ENDPOINT)
    return replace(pin, settings=settings)


def _check_resumed(study: Study, begun: RunManifest) -> None:
    planned, wave = study.protocol, begun.wave
    models, tranches = planned.wave_models(wave), _stated_tranches(planned, wave)
    replicates = planned.wave_replicates(wave)
    terms = (models, tranches, replicates, planned.single_turn[wave])
    now = (*terms, planned.sandbox.kind, planned.sandbox.runtime)
    terms = (begun.models, begun.tranches, begun.replicates, begun.single_turn)
    if now != (*terms, begun.sandbox, begun.runtime):
        raise BrokenPromise(
            f"{study.folder / FILE_NAME}: wave {begun.wave} was begun with other models, model "
            "settings, tranches, modes, replicates or sandbox (see `dosimeter log`): restore them, "
            "or plan another wave"
        )


def context_of(
    study: Study,
    manifest: RunManifest,
    image: PinnedImage,
    parallel: int | None,
    pricing: Pricing = NO_PRICING,
    spent_elsewhere: tuple[tuple[PricedModel, Spend], ...] = (),
) -> RunContext:
    """Return the context that a run's workers need. Needs the study's key, to decrypt the run's."""
    identity = run_identity_of(study, manifest)
    return RunContext(
        study=manifest.study,
        run=digest_value(record_body(manifest)),
        wave=manifest.wave,
        store=study.store.uri,
        recipients=study.recipients(),
        run_recipient=manifest.run_recipient,
        run_identity=identity,
        models=manifest.models,
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
        receipts=ReceiptFolder.of(manifest.run_key, identity),
        packages=installed_packages(),
        templates=study.protocol.templates,
        prices=pricing.models,
        limits=pricing.limits,
        allow_unknown_price=pricing.allow_unknown,
        spent_elsewhere=spent_elsewhere,
        schedule_seed=manifest.schedule_seed,
        replicates=manifest.replicates,
        tranches=manifest.tranches,
        single_turn=manifest.single_turn,
    )


def _run_owed(
    study: Study,
    request: SweepRequest,
    context: RunContext,
    watch: Callable[[Progress], None],
    begin: Callable[[str], None],
) -> Progress | None:
    """Sweep the owed episodes on a cluster. Return None if the sweep goes on there by itself."""
    address = request.address or study.protocol.sweep.address
    prepare_ray(address)
    from harness.sweep.ray_actors import SweepOptions, detach_sweep, run_sweep

    workers = request.workers or study.protocol.sweep.workers
    options = SweepOptions(address=address, workers=workers, give_up=request.close_missing)
    if request.detach:
        detach_sweep(context, options)
        return None
    return run_sweep(
        context,
        options,
        watch,
        lambda host: begin(waiting_words(host)),
    )


def close_wave(
    study: Study,
    context: RunContext,
    manifest: RunManifest,
    cells: Schedule,
    now: Callable[[], str],
    watch: Watch = lambda what, done, of: None,
) -> WaveClosed:
    """Close a wave: record as missing each of its cells that failed on every attempt, and put the
    digest of all stored objects into the ledger. ``cells`` are all that it owes.

    Objects are read by several threads if the store is remote, and only if no receipt of the run
    lists them. Killed at any moment, the next call gives the same record.
    """
    _close_owed(study, context, cells, watch)
    store, identities = study.store, study.identities()
    missing: list[str] = []

    def inspect(key: str, data: bytes) -> None:
        # Workers store results of finished episodes only, so no receipt lists a missing one.
        if key.startswith(RESULTS):
            result = RESULT_CODEC.decode(decrypt(data, identities, key), key)
            if result.status is Status.MISSING:
                missing.append(key)

    objects = run_objects(store, manifest, lambda name: cells.find(name) is not None)
    with read_receipts(
        store, context.receipts, lambda done, of: watch("closing: reading receipts", done, of)
    ) as receipts:
        inventory = write_inventory(
            store,
            objects,
            receipts.digest,
            inspect,
            lambda done: watch("closing: listing objects with their digests", done, 0),
        )
    record = WaveClosed(
        wave=manifest.wave,
        manifest=context.run,
        owed=len(cells),
        finished=len(cells) - len(missing),
        missing=len(missing),
        results_root=inventory.results_root,
        objects=inventory.objects,
        objects_root=inventory.objects_root,
    )
    entry, _ = study.ledger.append_unless(
        record,
        now(),
        lambda entry: entry.kind == "wave-closed" and entry.body["wave"] == manifest.wave,
    )
    closed: WaveClosed = entry.record
    logger.info("wave %d: closed, %d missing", closed.wave, closed.missing)
    return closed


def _close_owed(study: Study, context: RunContext, cells: Schedule, watch: Watch) -> None:
    """Record as missing each cell without a result. Raises HarnessError if one was never tried."""
    finished = cells.marks(finished_names(study.store))
    owed = finished.count(0)

    def close(cell: Cell) -> None:
        close_cell(cell, study.store, context, study.protocol.catalog)

    closing = parallel_map(study.store, close, cells.unmarked(finished))
    for done, _ in enumerate(closing, 1):
        watch("closing: recording missing episodes", done, owed)
