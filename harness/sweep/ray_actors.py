"""Sweeps on Ray: one coordinator that leases cells, workers that pull them.

Ray is imported here and in ``ray_cluster`` only. The actors are thin: ``LeaseBook`` has the leases,
``run_cell`` does the work in the process of each worker. Results go straight to the store; only ids
travel back.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ray
from ray.exceptions import OutOfMemoryError, RayActorError, RayError, RayTaskError
from ray.util.metrics import Counter, Gauge

from harness.errors import CoordinatorLost, HarnessError, WorkerKilled, WorkersLost
from harness.sweep.coordinator import Coordinator, SweepOptions
from harness.sweep.leases import Progress
from harness.sweep.metrics import MetricRecorder
from harness.sweep.ray_cluster import (
    HEAD,
    SANDBOX,
    ClusterHead,
    await_sandboxes,
    check_nodes,
    ray_session,
)
from harness.sweep.workbench import RunContext
from harness.sweep.worker_process import (
    POLL_SECONDS,
    ConnectionLost,
    begin_process,
    open_worker_process,
)
from registry.errors import RegistryError, StoreUnavailable

logger = logging.getLogger(__name__)

_ENDING_SECONDS = 30.0
_STORE_SECONDS = 5.0  # between two tries of the coordinator at a store that is away
_LOST = (
    "the coordinator of this sweep ended before it, as its node was lost: run the same command "
    "again to go on"
)


class Worker:
    """Ray actor that starts a worker process and passes its requests on to the coordinator."""

    def __init__(self, name: str) -> None:
        begin_process()
        self._name = name

    def work(self, coordinator: Any, context: RunContext) -> int:
        """Serve the worker process until the run is over; return how many cells it finished. The
        context is without the run's key."""
        try:
            with open_worker_process(context, self._name) as link:
                while True:
                    kind, *arguments = link.recv()
                    if kind == "finished":
                        return int(arguments[0])
                    if kind == "raised":
                        raise arguments[0]
                    method = getattr(coordinator, kind)  # lease, report or hear
                    link.send(ray.get(method.remote(self._name, *arguments)))
        except ConnectionLost:
            raise WorkerKilled(f"the worker process on {socket.gethostname()} died") from None


def run_sweep(
    context: RunContext,
    options: SweepOptions,
    watch: Callable[[Progress], None],
    waiting: Callable[[str], None] = lambda host: None,
) -> Progress:
    """Run every owed cell of a run, in a new epoch, and return the final progress. ``waiting`` gets
    the host of an earlier driver while its heartbeat is watched.

    Dead workers are replaced and their leases passed on. Raises HarnessError if no worker can work
    (no engine, other image), before the first lease for the nodes that a cluster has then;
    SweptElsewhere; and RegistryError.
    """
    with ray_session(options.address):
        if options.address is not None:
            await_sandboxes(options.workers)
            check_nodes(context)
        epoch = context.epochs.open(waiting)
        coordination = _Coordination(context, options, epoch)
        try:
            watch(coordination.progress())
            workers, head = _Workers(context, options, coordination), ClusterHead()
            try:
                while workers.wait(POLL_SECONDS):
                    watch(coordination.progress())
                    head.check()
            except BaseException:
                workers.dismiss()
                raise
            progress = coordination.progress()
        except BaseException as error:
            explained = isinstance(error, (HarnessError, RegistryError))
            interrupted = not isinstance(error, Exception)
            other = "it was interrupted" if interrupted else type(error).__name__
            coordination.end(str(error) if explained else other)
            raise
        coordination.end()
        watch(progress)
        return progress


class Driver:
    """Ray actor that drives a sweep by itself, so that whoever began it may leave."""

    def __init__(self) -> None:
        begin_process()
        self._begun = threading.Event()

    def drive(self, context: RunContext, run_identity: str, options: SweepOptions) -> None:
        """Run the sweep, and end this process. Raises what ends the sweep before it has begun."""
        try:
            run_sweep(
                replace(context, run_identity=run_identity), options, lambda _: self._begun.set()
            )
        finally:
            if self._begun.is_set():
                os._exit(0)  # an idle actor would keep the run's key in memory

    def begun(self) -> None:
        """Wait until the sweep has begun."""
        self._begun.wait()


def detach_sweep(context: RunContext, options: SweepOptions) -> None:
    """Begin a sweep as ``run_sweep`` does, driven by an actor of the cluster, on its head if that
    has the resource. Returns when it has begun. Raises what that does."""
    with ray_session(options.address):
        driver = (
            ray.remote(num_cpus=0, max_restarts=0, enable_task_events=False)(Driver)
            .options(
                name=f"sweep-{secrets.token_hex(8)}",
                lifetime="detached",
                max_concurrency=2,
                resources={HEAD: 0.001} if HEAD in ray.cluster_resources() else None,
            )
            .remote()
        )
        sweep = driver.drive.remote(_without_key(context), context.run_identity, options)
        begun = driver.begun.remote()
        try:
            done, _ = ray.wait([sweep, begun])
            _ask(done[0])
        except BaseException:
            ray.kill(driver)
            raise


class _Coordination:
    """The driver's side of a run's coordinator, in an epoch of the driver's. The coordinator ends
    with its driver, however that ends, so that no cluster keeps seeds in memory."""

    def __init__(self, context: RunContext, options: SweepOptions, epoch: int) -> None:
        """Start the coordinator."""
        self._context, self.epoch = context, epoch
        self._workers: set[str] = set()
        actor = ray.remote(
            num_cpus=0, max_restarts=-1, max_task_retries=-1, enable_task_events=False
        )(Coordinator)
        self.actor = actor.options(
            max_concurrency=1, resources={HEAD: 0.001} if HEAD in ray.cluster_resources() else None
        ).remote(options, _measure)

    def progress(self) -> Progress:
        """The run's progress. Opens the lease book first if it is not: at the beginning, and after
        Ray has restarted the actor. Raises HarnessError, RegistryError."""
        while (progress := _ask(self.actor.progress.remote())) is None:
            workers = frozenset(self._workers)
            context, key = _without_key(self._context), self._context.run_identity
            try:
                _ask(self.actor.open.remote(context, key, self.epoch, workers))
            except StoreUnavailable as error:
                logger.warning("the coordinator waits for the store: %s", error.reason)
                time.sleep(_STORE_SECONDS)
        counted: Progress = progress
        return counted

    def begin(self, worker: str) -> None:
        """Record that a worker starts."""
        self._workers.add(worker)

    def release(self, worker: str, killed: bool) -> None:
        """Take back the leases of a dead worker, whose process was ``killed`` or lost."""
        self._workers.discard(worker)
        _ask(self.actor.release.remote(worker, killed))

    def end(self, failure: str = "") -> None:
        """End the epoch and the coordinator, if it lives."""
        try:
            ray.get(self.actor.close.remote(failure), timeout=_ENDING_SECONDS)
        except RayError as error:
            logger.warning("the epoch was not closed: %s", type(error).__name__)
        finally:
            ray.kill(self.actor)


def _measure(run: str) -> MetricRecorder:
    """The metrics of a run. Ray exports them on each node that has ray[default]; elsewhere nothing
    comes of them."""
    return MetricRecorder(run, Counter, Gauge)


def _without_key(context: RunContext) -> RunContext:
    return replace(context, run_identity="")


def _ask(call: Any) -> Any:
    """Return an actor's answer. Raises its error, and CoordinatorLost."""
    try:
        return ray.get(call)
    except RayTaskError as error:
        raise _cause(error) from None
    except RayActorError:
        raise CoordinatorLost(_LOST) from None


def _cause(error: BaseException) -> BaseException:
    """An actor's error, without the layers that Ray puts around it."""
    while isinstance(error, RayTaskError):
        error = error.cause
    return CoordinatorLost(_LOST) if isinstance(error, RayActorError) else error


class _Workers:
    """The workers of a sweep: started, watched, replaced."""

    # A worker that dies this often without finishing anything is not bad luck.
    MAX_DEATHS = 20

    def __init__(
        self, context: RunContext, options: SweepOptions, coordination: _Coordination
    ) -> None:
        self._context = context
        self._coordination = coordination
        self._started = 0
        self._deaths = 0
        self._finished = 0  # number of finished cells when an actor last died
        self._at_work: dict[Any, tuple[str, Any]] = {}  # call → name, actor
        self._clustered = options.address is not None
        for _ in range(options.workers):
            self._start()

    def wait(self, seconds: float) -> bool:
        """Wait for ``seconds``, replace dead workers, and return whether any is still at work."""
        done, _ = ray.wait(list(self._at_work), timeout=seconds)
        for call in done:
            name, _actor = self._at_work.pop(call)
            try:
                ray.get(call)
            except RayTaskError as error:
                cause = _cause(error)
                if not isinstance(cause, WorkerKilled):
                    self.dismiss()
                    raise cause from None
                self._replace(name, cause, killed=True)
            except OutOfMemoryError as error:
                self._replace(name, error, killed=True)
            except RayActorError as error:
                self._replace(name, error)
        return bool(self._at_work)

    def dismiss(self) -> None:
        """End all workers."""
        for _, actor in self._at_work.values():
            ray.kill(actor)
        self._at_work.clear()

    def _replace(self, name: str, error: Exception, killed: bool = False) -> None:
        finished = self._coordination.progress().finished
        self._deaths = self._deaths + 1 if finished == self._finished else 1
        self._finished = finished
        logger.warning("worker %s died, number %d since a cell was finished", name, self._deaths)
        if self._deaths > self.MAX_DEATHS:
            self.dismiss()
            raise WorkersLost(
                f"workers died {self._deaths} times and finished nothing; the last: "
                f"{str(error).splitlines()[0]}"
            ) from error
        self._coordination.release(name, killed)
        self._start()

    def _start(self) -> None:
        self._started += 1
        name = f"{self._coordination.epoch:06d}-{self._started}"
        actor = ray.remote(max_restarts=0, enable_task_events=False)(Worker)
        worker = actor.options(
            num_cpus=0,
            resources={SANDBOX: 1} if self._clustered else None,
            scheduling_strategy="SPREAD",
        ).remote(name)
        self._coordination.begin(name)
        call = worker.work.remote(self._coordination.actor, _without_key(self._context))
        self._at_work[call] = (name, worker)
        logger.info("started worker %s", name)
