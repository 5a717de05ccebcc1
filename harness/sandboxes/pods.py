"""Sandboxes as Pods of a Kubernetes cluster, for those that allow no privileged Docker engine. The
one module that knows Kubernetes.

Each Pod (``recipe/pod.yaml``) has one container, the first process of which only waits. The tool
server is started beside it by an ``exec`` of the cluster's API and answers over that connection, so
that nothing is written to the cluster's logs. When the connection closes the server exits, and a
minute later the container, whatever closed it.
"""

from __future__ import annotations

import json
import logging
import os
import ssl
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from pathlib import Path
from string import Template
from typing import Any, cast
from urllib.parse import urlencode

import requests
import yaml
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from generators.task import Asset, Limits
from harness.errors import AttemptFailed, Boundary, HarnessError
from harness.sandboxes import tool_server as server
from harness.sandboxes.exit_cause import ContainerExitCause, Event
from harness.sandboxes.image import pinned_digest
from harness.sandboxes.pool import PoolClosed, WarmPool
from harness.sandboxes.sandbox import Sandbox, ServerConnection, fill, list_libraries

logger = logging.getLogger(__name__)

ADDRESS = "DOSIMETER_PODS"  # variable: the namespace, https://HOST:PORT/api/v1/namespaces/NAME
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_RECIPE = Path(server.__file__).with_name("recipe") / "pod.yaml"
_LIFETIME = 24 * 3600  # seconds until the cluster ends a Pod
_STARTING = 900.0  # seconds to wait for free nodes
_ANSWERING = 30.0  # seconds to wait for an answer of the API
_OVER = timedelta(minutes=5)  # since its end, in which its owner asks for the cause
_SMALL, _SHARED, _OWN = 64 << 20, 16 << 20, 48 << 20  # /tmp, /dev/shm, the two processes
_FIRST_UID, _UIDS = 200_000, 20_000
_STARTS = {"", "ContainerCreating", "PodInitializing", "ErrImagePull"}  # reasons to wait on
_ENDED = {"fieldSelector": "status.phase!=Pending,status.phase!=Running"}
_STDIN, _STDOUT, _STATUS = b"\0", b"\1", b"\3"  # channels of the protocol
_PROTOCOL = Subprotocol("v4.channel.k8s.io")
# Becomes the tool server, the source of which is too long for an address.
_BOOT = (
    "import os\ns = b''\nwhile len(s) < {0}: s += os.read(0, {0} - len(s)) or os._exit(1)\nexec(s)"
)
_NETWORK = """import os, socket
to = os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"])
socket.create_connection(to, 5)"""


class ApiError(Exception):
    """The cluster's API refused a request (``status``) or did not answer (0)."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(" ".join(message.split())[:300])
        self.status = status


_API_ERRORS = (ApiError, WebSocketException, OSError)


@dataclass(frozen=True, slots=True)
class PodApi:
    """The API for the Pods of the namespace at an address, with the service account of the Pod that
    this runs in, if it does."""

    address: str

    @classmethod
    def here(cls) -> PodApi:
        """That of ``DOSIMETER_PODS``, or else of the namespace that this runs in. Raises
        HarnessError."""
        if address := os.environ.get(ADDRESS):
            return cls(address.rstrip("/"))
        try:
            namespace = (_ACCOUNT / "namespace").read_text().strip()
            host, port = (os.environ[f"KUBERNETES_SERVICE_{name}"] for name in ("HOST", "PORT"))
        except (OSError, KeyError):
            raise HarnessError(
                "`sandbox: {kind: pods}` needs a Kubernetes cluster, and this runs in none: run it "
                f"in a Pod with a service account, or set {ADDRESS} (docs/cluster.md)"
            ) from None
        return cls(f"https://{host}:{port}/api/v1/namespaces/{namespace}")

    def ask(self, method: str, path: str = "", **request: Any) -> dict[str, Any]:
        """Return the answer to a request. Raises ApiError."""
        url = f"{self.address}/pods{path}"
        request |= {"headers": _headers(), "verify": _authority() or True}
        try:
            answer = requests.request(method, url, timeout=_ANSWERING, **request)
            body: dict[str, Any] = answer.json()
        except (requests.RequestException, ValueError) as error:
            raise ApiError(f"{self.address} does not answer: {error}") from error
        if not answer.ok:
            raise ApiError(str(body.get("message")), answer.status_code)
        return body

    def execute(self, pod: str, argv: Sequence[str]) -> ClientConnection:
        """Run a program in a Pod; return the connection to it. Raises one of _API_ERRORS."""
        options = {"stdin": "true", "stdout": "true", "container": "sandbox", "command": argv}
        url = f"ws{self.address[4:]}/pods/{pod}/exec?{urlencode(options, doseq=True)}"
        return connect(
            url,
            ssl=ssl.create_default_context(cafile=_authority()) if url[2] == "s" else None,
            additional_headers=_headers(),
            subprotocols=[_PROTOCOL],
            compression=None,
            legacy=True,  # a connection, and not what makes one
            open_timeout=_ANSWERING,
            close_timeout=1,
        )


def _headers() -> dict[str, str]:
    """The token, read each time: the cluster renews it."""
    with suppress(OSError):
        return {"Authorization": f"Bearer {(_ACCOUNT / 'token').read_text().strip()}"}
    return {}


def _authority() -> str | None:
    """The certificate that the API of the cluster around this process is known by."""
    return str(file) if (file := _ACCOUNT / "ca.crt").exists() else None


class _Link:
    """What ServerConnection needs of a socket, over the channels of an ``exec``."""

    def __init__(self, channels: ClientConnection) -> None:
        self._channels = channels
        self._received = b""
        self._timeout = _ANSWERING

    def settimeout(self, seconds: float) -> None:
        self._timeout = seconds

    def sendall(self, data: bytes) -> None:
        try:
            for at in range(0, len(data), 1 << 16):
                self._channels.send(_STDIN + data[at : at + (1 << 16)])
        except WebSocketException as error:
            raise OSError(str(error)) from error

    def recv(self, count: int) -> bytes:
        try:
            while not self._received:
                message = self._channels.recv(self._timeout, decode=False)
                if message[:1] == _STDOUT:
                    self._received = message[1:]
        except WebSocketException:
            return b""
        taken, self._received = self._received[:count], self._received[count:]
        return taken

    def shutdown(self, how: int) -> None:
        self._channels.close()

    def close(self) -> None:
        self._channels.close()


@dataclass(frozen=True, slots=True)
class _Pod:
    name: str
    connection: ServerConnection


class PodSandboxes:
    """A SandboxProvider on a Kubernetes cluster.

    ``image`` is one by its digest. ``warm`` Pods of each kind are kept ready; ``creating`` are made
    at once. ``runtime`` is a RuntimeClass, or ``runc`` for the cluster's usual; ``run`` annotates
    the Pods. One is started here, to list the libraries and to prove that it reaches no network.
    Raises HarnessError if the cluster starts none, or if it has a network.
    """

    isolates = True

    def __init__(
        self, image: str, *, runtime: str = "", warm: int = 0, creating: int = 0, run: str = ""
    ) -> None:
        self.image = pinned_digest(image)
        self._api = PodApi.here()
        self._words = {"image": image, "run": run, "provider": os.urandom(8).hex()}
        self._class = {"runtimeClassName": runtime} if runtime != "runc" else {}
        self._source = Path(server.__file__).read_bytes()
        self._closed = False
        self._removers = ThreadPoolExecutor(4, thread_name_prefix="sandbox-remover")
        self._pool: WarmPool[Limits, _Pod] = WarmPool(
            self._create, self._destroy, warm, creating or (os.cpu_count() or 2), _LIFETIME / 2
        )
        self._removers.submit(sweep, self._api)
        try:
            self.libraries = self._prove()
        except BaseException:
            self.close()
            raise

    def open(self, assets: Sequence[Asset], limits: Limits, model_socket: bool = False) -> Sandbox:
        """A fresh sandbox with the assets in its work folder. Raises AttemptFailed; HarnessError
        for an agent that would run inside."""
        if model_socket:
            raise HarnessError("an agent inside the sandbox needs `sandbox: {kind: docker}`")
        try:
            return fill(self._sandbox(self._pool.take(_kind_of(limits)), limits), assets)
        except PoolClosed as error:
            raise AttemptFailed(Boundary.SANDBOX, "closed", "no more are opened") from error

    def close(self) -> None:
        """Stop the pool and delete every Pod of it."""
        if not self._closed:
            self._closed = True
            self._pool.close()
            self._removers.shutdown(wait=True)
            own = f"dosimeter.provider={self._words['provider']}"
            with suppress(ApiError):  # they end by themselves
                self._api.ask("DELETE", params={"labelSelector": own})

    @property
    def trouble(self) -> str:
        """Why no Pod starts, after three failures in a row; "" if one does."""
        return self._pool.trouble(_kind_of(Limits()))

    def _prove(self) -> tuple[tuple[str, str], ...]:
        """Return the libraries of the image. Raises HarnessError if no Pod starts, or if one has a
        network."""
        limits = Limits(output_bytes=1 << 20)
        try:
            with self._sandbox(self._pool.make(_kind_of(limits)), limits) as sandbox:
                tried = sandbox.run(("python3", "-c", _NETWORK), 30.0)
                if b"in create_connection" not in tried.output:
                    raise HarnessError(
                        "sandboxes of this cluster reach its network: apply the NetworkPolicy of "
                        "deploy/sandbox-pods.yaml in their namespace, in a cluster that enforces it"
                    )
                return list_libraries(sandbox, self.image)
        except AttemptFailed as error:
            raise HarnessError(f"no sandbox starts at {self._api.address}: {error}") from error

    def _sandbox(self, pod: _Pod, limits: Limits) -> Sandbox:
        cause = ContainerExitCause(partial(self._events, pod.name))
        return Sandbox(pod.name, pod.connection, limits, partial(self._destroy, pod), cause)

    def _create(self, kind: Limits) -> _Pod:
        """Return a Pod whose tool server answers. Raises AttemptFailed."""
        deadline, name = time.monotonic() + _STARTING, ""
        try:
            name = self._create_unique(kind, deadline)
            self._await_start(name, deadline)
            pod = _Pod(name, self._serve(name, kind))
            Sandbox(name, pod.connection, Limits(), lambda lost: None).ping()
            return pod
        except (*_API_ERRORS, AttemptFailed) as error:
            self._delete(name)
            logger.warning("no sandbox was created: %s", error)
            raise AttemptFailed(Boundary.SANDBOX, "not created", str(error)) from error

    def _create_unique(self, kind: Limits, deadline: float) -> str:
        """Create a Pod whose user no other of the namespace has, and return its name. The uid is
        part of it, so that the API itself refuses a second. Raises ApiError."""
        while True:
            uid = _FIRST_UID + int.from_bytes(os.urandom(4)) % _UIDS
            try:
                created = self._api.ask("POST", json=self._manifest(kind, uid))
                return str(created["metadata"]["name"])
            except ApiError as error:
                if "exceeded quota" in str(error) and time.monotonic() < deadline:
                    time.sleep(1.0)
                elif error.status != HTTPStatus.CONFLICT:
                    raise

    def _manifest(self, kind: Limits, uid: int) -> dict[str, Any]:
        memory = kind.memory_bytes + kind.disk_bytes + _SMALL + _SHARED + _OWN
        sizes = {"memory": memory, "disk": kind.disk_bytes, "tmp": _SMALL, "shm": _SHARED}
        values = {**self._words, **sizes, "uid": uid, "lifetime": _LIFETIME}
        pod: dict[str, Any] = yaml.safe_load(Template(_RECIPE.read_text()).substitute(values))
        pod["spec"] |= self._class
        return pod

    def _await_start(self, name: str, deadline: float) -> None:
        """Wait until a Pod runs. Raises ApiError with the cluster's reason if it does not."""
        while (status := self._api.ask("GET", f"/{name}")["status"])["phase"] != "Running":
            waiting = _state(status, "waiting")
            hopeless = waiting.get("reason", "") not in _STARTS or status["phase"] != "Pending"
            if hopeless or self._closed or time.monotonic() > deadline:
                notes = (waiting, status, *status.get("conditions", ()))
                words = (note.get(key, "") for note in notes for key in ("reason", "message"))
                raise ApiError(f"its Pod is {status['phase']}: {' '.join(words)}")
            time.sleep(0.25)

    def _serve(self, name: str, kind: Limits) -> ServerConnection:
        """Start the tool server in a Pod. Raises one of _API_ERRORS."""
        options: dict[str, Any] = {"contained": True, "keep": True, "file": kind.disk_bytes}
        options |= {"data": kind.memory_bytes, "processes": kind.processes + 3}
        python = ("python3", "-I", "-S", "-c", _BOOT.format(len(self._source)))
        link = _Link(self._api.execute(name, (*python, "/work", json.dumps(options))))
        link.sendall(self._source)
        return ServerConnection(cast("Any", link), wrapped=False)

    def _destroy(self, pod: _Pod, lost: bool = False) -> None:
        """Hang up, and delete the Pod in the background."""
        pod.connection.close()
        with suppress(RuntimeError):  # closing: all are deleted then
            self._removers.submit(self._delete, pod.name)

    def _delete(self, name: str) -> None:
        with suppress(ApiError):  # it has gone, or the next sweep finds it
            if name:
                self._api.ask("DELETE", f"/{name}")

    def _events(self, name: str, since: int, until: int) -> Generator[Event]:
        """Yield, as events of an engine, why the server of a Pod is lost: memory ran out; the Pod
        goes on, so that its programs, which have its user, ended or stopped the server; or else it
        was ended from outside. Nothing if the cluster does not answer."""
        while time.time() < until:
            with suppress(*_API_ERRORS):
                pod = self._api.ask("GET", f"/{name}")
                ended = _state(pod["status"], "terminated").get("reason")
                going = ended or "deletionTimestamp" in pod["metadata"]
                if going or pod["status"]["phase"] != "Running":
                    yield _event("oom" if ended == "OOMKilled" else "kill")
                    yield _event("die", "137")
                    return
                if self._answers(name):
                    yield _event("die", "0")
                    return
            time.sleep(0.5)

    def _answers(self, name: str) -> bool:
        """Return whether another program runs in a Pod. Raises one of _API_ERRORS."""
        with closing(self._api.execute(name, ("true",))) as channels:
            while (message := channels.recv(_ANSWERING, decode=False))[:1] != _STATUS:
                pass
            return b'"Success"' in message


def sweep(api: PodApi) -> None:
    """Delete Pods that have ended and that nobody else will: their owner has gone. Raises nothing:
    the next time will do."""
    with suppress(ApiError):
        for pod in api.ask("GET", params={"labelSelector": "dosimeter=1", **_ENDED})["items"]:
            created, name = pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]
            ended = _state(pod["status"], "terminated").get("finishedAt", created)
            if datetime.now(UTC) - datetime.fromisoformat(ended) > _OVER:
                logger.info("deleting the forgotten Pod %s", name)
                api.ask("DELETE", f"/{name}")


def _kind_of(limits: Limits) -> Limits:
    """The limits that a Pod is created with. Episodes of one kind share a pool."""
    return Limits(
        memory_bytes=limits.memory_bytes, disk_bytes=limits.disk_bytes, processes=limits.processes
    )


def _state(status: dict[str, Any], kind: str) -> dict[str, Any]:
    """The details of a state of the container; {} if it is not in it."""
    states = [each["state"].get(kind) for each in status.get("containerStatuses", ())]
    return next(filter(None, states), {})


def _event(action: str, code: str = "") -> Event:
    attributes = {"Attributes": {"exitCode": code}}
    return {"Action": action, "timeNano": time.time_ns(), "Actor": attributes}
