"""Sweeps on Ray: a coordinator and workers that are actors of a cluster.

Ray is imported here and in ``ray_cluster`` only. The actors are thin: ``LeaseBook`` has the leases,
``run_cell`` does the work in the process of each worker. Results go straight to the store; only ids
travel back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.exceptions import OutOfMemoryError, RayActorError, RayError, RayTaskError
from ray.util.metrics import Counter, Gauge

from harness.errors import CoordinatorLost, WorkerDrained, WorkerKilled
from harness.sweep.coordinator import Coordinator, SweepOptions
from harness.sweep.drive import Ended
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
from harness.sweep.worker_process import answer_worker, begin_process, open_worker_process

logger = logging.getLogger(__name__)

_ENDING_SECONDS = 30.0
_LOST = (
    "the coordinator of this sweep ended before it, as its node was lost: run the same command "
    "again to go on"
)


class Worker:
    """Ray actor that starts a worker process and passes its requests on to the coordinator."""

    def __init__(self, name: str) -> None:
        begin_process()
        self._name = name

    def work(self, coordinator: Any, context: RunContext) -> None:
        """Serve the worker process until the run is over. The context is without the run's key."""

        def ask(kind: str, *arguments: Any) -> Any:
            return ray.get(getattr(coordinator, kind).remote(self._name, *arguments))

        with open_worker_process(context, self._name) as link:
            answer_worker(link, ask)


@contextmanager
def ray_crew(address: str, context: RunContext, options: SweepOptions) -> Iterator[RayCrew]:
    """Yield the crew of a sweep on the cluster at an address, whose nodes can work. Raises
    HarnessError."""
    with ray_session(address):
        await_sandboxes(options.workers[0])
        check_nodes(context)
        yield RayCrew(options)


class RayCrew:
    """The coordinator and the workers as actors of a cluster. The coordinator ends with its driver,
    however that ends, so that no cluster keeps seeds in memory."""

    def __init__(self, options: SweepOptions) -> None:
        """Start the coordinator."""
        actor = ray.remote(
            num_cpus=0, max_restarts=-1, max_task_retries=-1, enable_task_events=False
        )(Coordinator)
        self._coordinator = actor.options(
            max_concurrency=1, resources={HEAD: 0.001} if HEAD in ray.cluster_resources() else None
        ).remote(options, _measure)
        # Call → name, actor, and the call that ends once that has a node.
        self._at_work: dict[Any, tuple[str, Any, Any]] = {}
        self._drained: list[Any] = []  # actors that are kept: no other is placed on their nodes
        self._head = ClusterHead()

    def ask(self, method: str, *arguments: Any) -> Any:
        """Return what a method of the coordinator returns. Raises what it does, and
        CoordinatorLost."""
        try:
            return ray.get(getattr(self._coordinator, method).remote(*arguments))
        except RayTaskError as error:
            raise _cause(error) from None
        except RayActorError:
            raise CoordinatorLost(_LOST) from None

    def start(self, worker: str, context: RunContext) -> None:
        """Start the actor of a worker."""
        actor = ray.remote(max_restarts=0, enable_task_events=False)(Worker)
        placed = actor.options(
            num_cpus=0, resources={SANDBOX: 1}, scheduling_strategy="SPREAD"
        ).remote(worker)
        ready = placed.__ray_ready__.remote()
        self._at_work[placed.work.remote(self._coordinator, context)] = worker, placed, ready

    def ended(self, seconds: float) -> list[Ended]:
        """Wait for ``seconds`` at most, and return the workers that ended since the last call.
        Raises CoordinatorLost if the cluster's head is lost."""
        self._head.check()
        done, _ = ray.wait(list(self._at_work), timeout=seconds)
        placed, _ = ray.wait([ready for *_, ready in self._at_work.values()], timeout=0)
        if not placed and self.ask("over"):  # nodes may never come for those that are left
            ended = [Ended(worker) for worker, *_ in self._at_work.values()]
            self.dismiss()
            self._at_work.clear()
            return ended
        return [self._end(call, *self._at_work.pop(call)) for call in done]

    def dismiss(self) -> None:
        """End the actors of all workers."""
        for _, actor, _ in self._at_work.values():
            ray.kill(actor)

    def close(self, failure: str) -> None:
        """End the epoch and the coordinator, if it lives."""
        try:
            ray.get(self._coordinator.close.remote(failure), timeout=_ENDING_SECONDS)
        except RayError as error:
            logger.warning("the epoch was not closed: %s", type(error).__name__)
        finally:
            ray.kill(self._coordinator)

    def _end(self, call: Any, worker: str, actor: Any, _: Any) -> Ended:
        try:
            ray.get(call)
        except RayTaskError as error:
            cause = _cause(error)
            if drained := isinstance(cause, WorkerDrained):
                self._drained.append(actor)
            return Ended(worker, cause, lost=drained)
        except OutOfMemoryError as error:
            return Ended(worker, WorkerKilled(str(error)))
        except RayActorError as error:
            return Ended(worker, error, lost=True)
        return Ended(worker)


def _measure(run: str) -> MetricRecorder:
    """The metrics of a run. Ray exports them on each node that has ray[default]; elsewhere nothing
    comes of them."""
    return MetricRecorder(run, Counter, Gauge)


def _cause(error: BaseException) -> BaseException:
    """An actor's error, without the layers that Ray puts around it."""
    while isinstance(error, RayTaskError):
        error = error.cause
    return CoordinatorLost(_LOST) if isinstance(error, RayActorError) else error
