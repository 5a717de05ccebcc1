"""The Ray cluster of a sweep: the connection to it, its nodes, and its head."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from harness.errors import CoordinatorLost, HarnessError
from harness.sweep.workbench import RunContext, check_host

logger = logging.getLogger(__name__)

NAMESPACE = "dosimeter"
SANDBOX = "sandbox"  # resource of nodes that run episodes: one for each worker
HEAD = "head"  # resource of a node that works on none, if the cluster has one
JOIN_SECONDS = 900.0  # in which a cluster without nodes for episodes must get the first
_CHECK_SECONDS = 120.0
_SHOWN = 5  # hosts that an error lists
_HEAD_SECONDS = 30.0  # without the head; Ray ends this process after 60, in words of its own
_HEAD_LOOK_SECONDS = 5.0


@contextmanager
def ray_session(address: str) -> Iterator[None]:
    """Connect to a Ray cluster, unless this process is connected to one. Raises HarnessError."""
    if ray.is_initialized():
        yield
        return
    _check_reachable(address)
    logger.info("connecting to Ray at %s", address)
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else Ray warns of it
    at_end = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(
            address=address,
            namespace=NAMESPACE,
            log_to_driver=logger.isEnabledFor(logging.INFO),
            logging_level="ERROR",
        )
    except Exception as error:  # also if a node does not start in time
        raise HarnessError(
            f"no Ray cluster answers at {address}: {_first_line(error)} "
            "(give --address HOST:6379, or none to run on this machine)"
        ) from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, at_end)  # Ray has put handlers of its own in its place
    # Ray reports dead nodes on standard output, which is for our results.
    with redirect_stdout(sys.stderr):
        try:
            yield
        finally:
            ray.shutdown()


def _check_reachable(address: str) -> None:
    """Raise HarnessError at once where nothing listens: Ray would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return  # "auto"
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except OSError as error:
        raise HarnessError(
            f"no Ray cluster answers at {address} ({error.strerror or error}): give the head's "
            "HOST:6379, or no --address to run on this machine"
        ) from error


def await_sandboxes(workers: int) -> None:
    """Wait for a node that takes workers if the cluster starts such nodes on demand. Raises
    HarnessError if it has nodes for other work only, or none comes."""
    nodes = _nodes()
    if any(SANDBOX in resources for _, _, resources in nodes):
        return
    advice = f"start nodes with `ray start --resources='{{\"{SANDBOX}\": 1}}'`"
    if hosts := [host for host, _, resources in nodes if resources.get("CPU")]:
        raise HarnessError(
            f"{_listed(hosts)}: the resource {SANDBOX!r} is missing, so that no worker can be "
            f"placed there, and no other node has it: {advice}"
        )
    logger.info("waiting for a node with the resource %r", SANDBOX)
    # What is asked for and not there is what a cluster's autoscaler starts nodes for.
    task = ray.remote(num_cpus=0, resources={SANDBOX: 1})(_join)
    calls = [task.remote() for _ in range(workers)]
    joined, waiting = ray.wait(calls, num_returns=1, timeout=JOIN_SECONDS)
    for call in waiting:
        ray.cancel(call)
    if not joined:
        hosts = [host for host, _, _ in nodes]
        raise HarnessError(
            f"no node with the resource {SANDBOX!r} has joined {_listed(hosts)} within "
            f"{JOIN_SECONDS / 60:g} minutes: {advice}, or see why the cluster starts none "
            "(`ray status`)"
        )


def _join() -> None:
    """Do nothing, on a node that takes workers."""


def check_nodes(context: RunContext) -> None:
    """Raise HarnessError, which names the hosts, if nodes that take workers cannot work on the
    run. Nodes that join later are checked by the workers there."""
    # Ray keeps arguments, on disk if they are large: these open nothing of the run.
    public = replace(context, run_identity="", templates=())
    check = ray.remote(num_cpus=0, max_retries=0, enable_task_events=False)(_refusal)
    calls = {}
    for host, node, resources in _nodes():
        if SANDBOX in resources:
            there = NodeAffinitySchedulingStrategy(node, soft=False)
            calls[check.options(scheduling_strategy=there).remote(public)] = host
    refusals: dict[str, list[str]] = {}
    for call, host in calls.items():
        try:
            reason = ray.get(call, timeout=_CHECK_SECONDS)
        except RayTaskError as error:
            reason = f"dosimeter does not run there as it does here ({_first_line(error.cause)})"
        except RayError as error:  # a node that is lost, or does not answer: it has no worker yet
            logger.warning("%s was not checked: %s", host, type(error).__name__)
            continue
        if reason:
            refusals.setdefault(reason.removeprefix(f"{host}: "), []).append(host)
    if refusals:
        texts = (f"{_listed(hosts)}: {reason}" for reason, hosts in refusals.items())
        raise HarnessError("; ".join(texts))


def _refusal(context: RunContext) -> str:
    """Return why this host cannot work on a run; "" if it can."""
    try:
        check_host(context)
    except HarnessError as error:
        return str(error)
    return ""


def _nodes() -> list[tuple[str, str, dict[str, float]]]:
    """Return host name, id and resources of each live node of the cluster."""
    return [
        (node["NodeManagerHostname"], node["NodeID"], node["Resources"])
        for node in ray.nodes()
        if node["Alive"]
    ]


def _listed(hosts: list[str]) -> str:
    names = sorted(set(hosts))
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _first_line(error: BaseException) -> str:
    """The first line of an error's text, with the next ones where they are what it is about."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return " ".join(lines) if lines[0].startswith("Version mismatch") else lines[0]


class ClusterHead:
    """The head of the cluster, without which Ray goes on for a minute only."""

    def __init__(self) -> None:
        """Look at the head of the cluster that this process is connected to."""
        host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
        self._address = host.strip("[]"), int(port)
        # A client of a cluster, which runs elsewhere, may not reach it at all.
        self._looks = self._answers()
        self._seen = self._looked = time.monotonic()

    def check(self) -> None:
        """Raise CoordinatorLost if the head has not answered for half a minute."""
        if not self._looks or time.monotonic() - self._looked < _HEAD_LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        if self._answers():
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > _HEAD_SECONDS:
            host, port = self._address
            raise CoordinatorLost(
                f"the head of the cluster at {host}:{port} is lost (Ray's GCS does not answer): "
                "start it again, and run the same command again to go on"
            )

    def _answers(self) -> bool:
        try:
            socket.create_connection(self._address, timeout=_HEAD_LOOK_SECONDS).close()
        except OSError:
            return False
        return True
