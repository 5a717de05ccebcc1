"""Sandboxes as hardened single-use containers. The one module that knows Docker.

Each container runs the tool server as PID 1 and nothing else: no network, a read-only root, a
sized work folder in memory, no new privileges, a system call filter (``recipe/seccomp.json``),
limits on memory, processes and processor time, and a lifetime. The tool server (``tool_server.py``)
keeps three capabilities, so that the agent's programs run as another user, without any. It limits
the time and output of each program. It answers over its attached standard input and output; when
that connection closes the server exits and the engine removes the container, whatever closed it.
"""

from __future__ import annotations

import io
import json
import logging
import os
import platform
import re
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import requests
from docker import APIClient
from docker.errors import APIError, DockerException, ImageNotFound
from docker.types import LogConfig, Mount
from docker.utils import kwargs_from_env

from generators.task import Asset, Environment, Limits, Verifier
from harness.errors import AttemptFailed, Boundary, HarnessError
from harness.sandboxes import tool_server as server
from harness.sandboxes.admission import SHARE, AdmissionControl, claim_core
from harness.sandboxes.exit_cause import ContainerExitCause, Event
from harness.sandboxes.pool import PoolClosed, WarmPool
from harness.sandboxes.sandbox import SOCKET_FOLDER, Sandbox, ServerConnection, fill, list_libraries
from harness.sandboxes.task_image import TASK_FOLDERS, WORKDIR, build_context
from harness.sandboxes.user_folder import make_user_folder

logger = logging.getLogger(__name__)

WORK, TOOLS = "/work", "/.dosimeter"  # the second in an image of a task: what the server is run by
_LOADERS = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}
LABEL = "dosimeter"
LIFETIME = 24 * 3600.0  # seconds until a container counts as forgotten
REAP_EVERY = 600.0  # seconds between two looks for forgotten ones, beside the one at the start
_SMALL = 64 << 20  # /tmp
_SHARED = 16 << 20  # /dev/shm
_NAMES = 4096  # files in each of these two, which take kernel memory of their own
_OWN = 48 << 20  # memory for the tool server and the kernel's bookkeeping
_CORES = 1.0  # processor time of a container, per second
_UIDS = 20_000  # of agents that may live at once; the tool server of each has one beyond these
_FIRST_UID, _FIRST_UID_REMAPPED = 200_000, 10_000  # an engine that remaps uids has 65,536 of them
_SECCOMP = Path(server.__file__).with_name("recipe") / "seccomp.json"
_REMOVING = 20  # seconds until the engine is not waited for
_RESTART_SECONDS = 120.0  # for which an engine that does not answer is waited for
_ENDING_SECONDS = 12.0  # in which an engine ends, after its containers
_ENGINE_ERRORS = (DockerException, requests.RequestException, OSError)
# A runtime with a kernel of its own (gVisor) runs it within the container's limits, and survives
# neither of them being met: it has room beyond, and the tool server holds the programs to theirs.
_KERNEL_BYTES, _KERNEL_THREADS = 64 << 20, 1024

T = TypeVar("T")
Client = APIClient


def connect(timeout: int = 120) -> APIClient:
    """A client of this machine's engine (``DOCKER_HOST``, or the usual socket). Raises
    HarnessError with the remedy if none answers."""
    where = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    try:
        client = APIClient(**kwargs_from_env(), version="auto", timeout=timeout)
    except _ENGINE_ERRORS as error:
        raise HarnessError(
            f"no Docker engine answers at {where}: install and start one (on Debian as root: "
            "`apt-get install docker.io`, or in a checkout `make engine`), or start yours; your "
            "user must be allowed to use it"
        ) from error
    if client.base_url.startswith("https://") or "ssh" in client.base_url:
        raise HarnessError(f"the engine at {where} is remote: sandboxes need one on this machine")
    return client


def image_digest(tag: str, client: APIClient | None = None) -> str:
    """The digest of the image that a tag names now. Raises HarnessError if there is none."""
    if (digest := find_image(client or connect(), tag)) is None:
        raise HarnessError(f"no sandbox image {tag}: `make image` builds it (about a minute)")
    return digest


def find_image(client: APIClient, tag: str) -> str | None:
    """The digest of a tagged image; None if there is none. Raises HarnessError."""
    try:
        return str(_answered(lambda: client.inspect_image(tag))["Id"])  # type: ignore[no-untyped-call]  # as stubbed
    except ImageNotFound:
        return None


def why_unreachable(reference: str, seconds: int) -> str:
    """Return the reason, in short, if the engine cannot get an image from its registry; else ""."""
    client = connect(seconds)
    try:
        if find_image(client, reference) is None:
            client.inspect_distribution(reference)  # type: ignore[no-untyped-call]  # as stubbed
    except _ENGINE_ERRORS as error:
        return _in_short(error)
    finally:
        client.close()
    return ""


def build_image(client: APIClient, tag: str, seconds: float, quote: bool, **context: Any) -> str:
    """Build what a Dockerfile says; the tag appears at the end. Raises HarnessError, with the
    engine's words, which may ``quote`` the Dockerfile, only if asked for."""
    failure, deadline = "", time.monotonic() + seconds
    try:
        for step in client.build(tag=tag, rm=True, forcerm=True, decode=True, **context):
            failure = failure or str(step.get("error", ""))
            if time.monotonic() > deadline:
                failure = f"it took longer than {seconds:g} seconds"
                break
    except _ENGINE_ERRORS as error:
        failure = _in_short(error)
    if failure:
        reason = " ".join(failure.split())[:300] if quote else "`register` shows why"
        raise HarnessError(f"the image {tag} was not built: {reason}")
    return image_digest(tag, client)


def import_image(
    client: APIClient, tag: str, archive: BinaryIO | Any, settings: Sequence[str]
) -> str:
    """Make an image of a tar stream; the tag appears at the end. Raises HarnessError."""
    name, _, version = tag.rpartition(":")
    _answered(lambda: client.import_image_from_stream(archive, name, version, list(settings)))
    return image_digest(tag, client)


@dataclass(frozen=True, slots=True)
class Profile:
    """The limits that a container is created with. Episodes of one profile share a pool. ``task``
    is the environment of an image of a task, with the image's folder and user; ``image`` its name,
    or the digest of an image of what an agent left in it, over which a verifier runs."""

    memory_bytes: int
    disk_bytes: int
    processes: int
    model_socket: bool = False
    image: str = ""
    task: Environment | None = None

    @property
    def is_copy(self) -> bool:
        """True of what an agent left."""
        return self.image.startswith("sha256:")


def profile_of(limits: Limits, model_socket: bool = False) -> Profile:
    """The profile of a task's limits."""
    return Profile(limits.memory_bytes, limits.disk_bytes, limits.processes, model_socket)


def bytes_of(profile: Profile, runtime: str) -> int:
    """The most memory that a container of this profile can take, its folders included."""
    overhead = _SMALL + _SHARED + _OWN + (_KERNEL_BYTES if runtime != "runc" else 0)
    folder = 0 if profile.image else profile.disk_bytes
    return profile.memory_bytes + folder + overhead


class DockerSandboxes:
    """A SandboxProvider on this machine's engine.

    ``image`` is a tag or digest, resolved once: what it names later changes nothing here.
    ``warm`` containers of each profile are kept ready; ``creating`` are made at once;
    ``executing`` programs run at once (by default four a core), the others wait, which takes of
    their episode's time but not of their own. All sandboxes of this machine together may take
    ``memory_bytes`` by their limits (by default four fifths of what it has): others wait to be
    created. ``runtime`` is one that the engine knows (``runc``, ``runsc``); ``run`` labels them.
    Raises HarnessError if engine, image or runtime are missing.
    """

    isolates = True

    def __init__(
        self,
        image: str,
        *,
        warm: int = 0,
        creating: int = 0,
        executing: int = 0,
        runtime: str = "runc",
        memory_bytes: int = 0,
        run: str = "",
    ) -> None:
        self._client = connect()
        self.image = image_digest(image, self._client)
        info = _answered(self._client.info)
        self.runtime = _check_runtime(info, runtime)
        memory = memory_bytes or int(SHARE * info["MemTotal"])
        self._admission = AdmissionControl(memory, self._taken)
        self._first_uid = _FIRST_UID_REMAPPED if _remaps_users(info) else _FIRST_UID
        self._cores = _CORES if info.get("CpuCfsQuota") else 0.0
        self._own_cores = int(info["NCPU"]) if runtime == "runc" else 0  # gVisor's are not real
        self._labels = {LABEL: "1", f"{LABEL}.run": run, f"{LABEL}.owner": owner_label()}
        self._labels[f"{LABEL}.provider"] = os.urandom(8).hex()
        self._source = Path(server.__file__).read_text()
        self._seccomp = _SECCOMP.read_text()
        self._lock = threading.Lock()
        self._live: dict[str, _Container] = {}
        self._closed = False
        self._reaped = time.monotonic()
        self._turns = threading.BoundedSemaphore(executing or 4 * (os.cpu_count() or 2))
        self._removers = ThreadPoolExecutor(2, thread_name_prefix="sandbox-remover")
        self._pool: WarmPool[Profile, _Container] = WarmPool(
            self._create, self._destroy, warm, creating or (os.cpu_count() or 2), LIFETIME / 2
        )
        self._removers.submit(reap, self._client)
        self.quotes = False  # whether errors quote the Dockerfiles of tasks
        self._building = threading.Lock()
        self._tools = Mount(TOOLS, f"{LABEL}-tools-{self.image[7:23]}", "volume", True)
        self._server: list[str] = []  # command of the tool server in an image of a task

    def ready(self, limits: Limits) -> int:
        """Return the number of warm containers that wait for an ``open`` with these limits."""
        return self._pool.waiting(profile_of(limits))

    def open(self, assets: Sequence[Asset], limits: Limits, model_socket: bool = False) -> Sandbox:
        """A fresh sandbox with the assets in its work folder, and with ``model_socket`` a folder
        for a socket, the only way out of it. Raises AttemptFailed; HarnessError where this machine
        has no room for one."""
        try:
            container = self._pool.take(profile_of(limits, model_socket))
        except PoolClosed as error:
            raise AttemptFailed(Boundary.SANDBOX, "closed", "no more are opened") from error
        return fill(self._watched(container, limits), assets)

    def open_task(
        self, files: Sequence[Asset], limits: Limits, environment: Environment
    ) -> Sandbox:
        """A fresh sandbox in the image of a task, built of its files where it is not there. Raises
        AttemptFailed, HarnessError."""
        image, task = self._build(files, environment)
        profile = replace(profile_of(limits), image=image, task=task)
        return self._watched(self._pool.make(profile), limits)

    def open_copy(self, sandbox: Sandbox, verifier: Verifier, limits: Limits) -> Sandbox:
        """A fresh sandbox over the files that an agent left in one with an image of its task, with
        empty folders for tests and rewards. All files can be read in it. Raises AttemptFailed."""
        with self._lock:
            profile = self._live[sandbox.id].profile if sandbox.id in self._live else None
        if profile is None or (task := profile.task) is None:
            raise AttemptFailed(Boundary.SANDBOX, "verifier", "what the agent left is gone")
        variables = {WORKDIR: task.folder, **task.variables, **verifier.variables}
        task = replace(task, folder="/", user=verifier.user or task.user, variables=variables)
        try:
            left = str(self._client.commit(sandbox.id)["Id"])
        except _ENGINE_ERRORS as error:
            raise AttemptFailed(Boundary.SANDBOX, "verifier", _in_short(error)) from error
        return self._watched(self._pool.make(replace(profile, image=left, task=task)), limits)

    def _build(self, files: Sequence[Asset], environment: Environment) -> tuple[str, Environment]:
        """Build the image of a task where it is not there. Return its tag, and the environment with
        the image's folder and user. Raises HarnessError, as ``build_image`` does."""
        tag, context = build_context(files, environment)
        deadline = {f"{LABEL}.deadline": f"{time.time() + LIFETIME:.0f}"}
        with self._building:
            if find_image(self._client, tag) is None:
                for digest in re.findall(r"\bsha256:[0-9a-f]{64}", environment.dockerfile):
                    if find_image(self._client, digest) is None:
                        raise HarnessError(f"the base image {digest} is not on this machine: load "
                                           "the image that was there at `register`")  # fmt: skip
                build_image(
                    self._client,
                    tag,
                    environment.build_seconds,
                    self.quotes,
                    fileobj=io.BytesIO(context),
                    custom_context=True,
                    network_mode=None if environment.build_network else "none",
                    labels=self._labels | deadline,
                    timeout=int(environment.build_seconds) + 1,
                )
            found = _answered(lambda: self._client.inspect_image(tag))  # type: ignore[no-untyped-call]  # as stubbed
            self._server = self._server or self._mount_server()
        config = found["Config"]
        if config.get("Volumes"):
            raise HarnessError("the image of a task has a VOLUME, the files of which no copy has")
        folder = environment.folder or config.get("WorkingDir") or "/"
        user = environment.user or config.get("User") or "0"
        return tag, replace(environment, folder=folder, user=user)

    def _mount_server(self) -> list[str]:
        """Fill a volume with the programs of the sandbox image, and return the command that runs
        the tool server from there, loader included: an image of a task may have no Python, or
        another C library. Raises HarnessError."""
        host = self._client.create_host_config(mounts=[Mount("/usr", self._tools["Source"])])
        create = partial(self._client.create_container, self.image, ["true"], host_config=host)
        self._client.remove_container(_answered(create)["Id"])
        image = _answered(lambda: self._client.inspect_image(self.image))  # type: ignore[no-untyped-call]  # as stubbed
        python = "bin/python3"  # of Debian, or of an official image of Python
        if any(each.startswith("PYTHON_VERSION=") for each in image["Config"]["Env"]):
            python = f"local/{python}"
        libraries = f"{TOOLS}/lib/{platform.machine()}-linux-gnu"
        path = f"{libraries}:{TOOLS}/local/lib:{TOOLS}/lib"
        loader = f"{libraries}/{_LOADERS[platform.machine()]}"
        return [loader, "--library-path", path, f"{TOOLS}/{python}"]

    def _watched(self, container: _Container, limits: Limits) -> Sandbox:
        guest, running = self.runtime != "runc", partial(self._runs, container.id)
        events = partial(self._events, container.id)
        cause = ContainerExitCause(events, guest, running, restarted=self._restarted)
        return self._sandbox(container, limits, cause)

    def close(self) -> None:
        """Stop the pool and remove every container of it."""
        if self._closed:
            return
        self._closed = True
        self._pool.close()
        with self._lock:
            left = list(self._live.values())
        for container in left:
            self._destroy(container)
        self._removers.shutdown(wait=True)
        label = f"{LABEL}.provider={self._labels[f'{LABEL}.provider']}"
        _remove_all(self._client, label)
        with suppress(*_ENGINE_ERRORS):
            for image in self._client.images(filters={"label": label}):
                self._remove_image(image["Id"])
        self._client.close()

    def _remove_image(self, name: str) -> None:
        with suppress(*_ENGINE_ERRORS):
            self._client.remove_image(name, force=True)

    @property
    def libraries(self) -> tuple[tuple[str, str], ...]:
        """Libraries that the image's own Python lists; an image is asked once in a process.
        Raises AttemptFailed, and HarnessError if it does not list them."""
        with _ASKING:
            if self.image not in _LIBRARIES:
                container = self._pool.make(profile_of(Limits()))
                with self._sandbox(container, Limits(output_bytes=1 << 20)) as sandbox:
                    _LIBRARIES[self.image] = list_libraries(sandbox, self.image)
            return _LIBRARIES[self.image]

    def _sandbox(
        self, container: _Container, limits: Limits, cause: ContainerExitCause | None = None
    ) -> Sandbox:
        folder = container.socket_folder
        return Sandbox(
            id=container.id,
            connection=container.connection,
            limits=limits,
            destroy=partial(self._destroy, container),
            exit_cause=cause,
            # An agent inside is one program for as long as its episode, most of which it waits.
            turn=self._turn if folder is None else nullcontext,
            socket_folder=folder,
        )

    @contextmanager
    def _turn(self) -> Iterator[int | None]:
        """Wait for a turn to run a program, and hold a core for it if one is free."""
        with self._turns, claim_core(self._own_cores) as core:
            yield core

    @property
    def trouble(self) -> str:
        """Why no container starts, after three failures in a row; "" if one does."""
        return self._pool.trouble(profile_of(Limits()))

    def _create(self, profile: Profile) -> _Container:
        """Return a container that answers. An engine that is started again is waited for: otherwise
        all episodes of this machine would fail, each as often as is allowed. Raises
        AttemptFailed."""
        while True:
            try:
                return self._create_once(profile)
            except AttemptFailed as error:
                if error.error_class != "not created" or not self._restarted():
                    raise

    def _restarted(self) -> bool:
        """Return whether the engine ended and answers again. It may answer for a moment after it
        has begun to end, and for longer on a connection that was there before."""
        begun, silent = time.monotonic(), False
        while not self._closed:
            try:
                connect(_REMOVING).close()
                if silent:
                    return True
            except HarnessError:
                silent = True
            if time.monotonic() - begun > (_RESTART_SECONDS if silent else _ENDING_SECONDS):
                break
            time.sleep(0.5)
        return False

    def _create_once(self, profile: Profile) -> _Container:
        """Create, attach, start, and hear the server answer. Raises AttemptFailed."""
        name, folder = "", make_socket_folder() if profile.model_socket else None
        try:
            shed, size = partial(self._pool.shed, profile), bytes_of(profile, self.runtime)
            with self._admission.admit(size, lambda: self._closed, shed):
                name = self._create_unique(profile, folder)
            connection = ServerConnection(_attach(self._client, name), wrapped=True)
            self._client.start(name)
            container = _Container(name, connection, profile, folder)
            Sandbox(name, connection, Limits(), lambda lost: None).ping()
        except ImageNotFound as error:
            if profile.image:  # by another process: the next attempt builds it
                raise AttemptFailed(Boundary.SANDBOX, "not created", "no image") from error
            raise HarnessError(f"the sandbox image {self.image} was removed meanwhile") from error
        except (*_ENGINE_ERRORS, AttemptFailed) as error:
            _remove_folder(folder)
            if name:
                _remove(self._client, name)
            elif isinstance(error, AttemptFailed):  # it was not let in
                raise
            logger.warning("no container was created: %s", _in_short(error))
            raise AttemptFailed(Boundary.SANDBOX, "not created", _in_short(error)) from error
        with self._lock:
            self._live[name] = container
            if time.monotonic() - self._reaped > REAP_EVERY:
                self._reaped = time.monotonic()
                with suppress(RuntimeError):  # closing
                    self._removers.submit(reap, self._client)
        return container

    def _create_unique(self, profile: Profile, folder: Path | None) -> str:
        """Create a container whose agent has a uid that no other on this engine has; return its id.
        The uid is part of its name: the engine itself refuses a second one, whichever process or
        user asks for it, and frees it when the container is removed. Raises DockerException."""
        while True:
            uid = self._first_uid + int.from_bytes(os.urandom(4)) % _UIDS
            recipe = self._recipe(profile, uid, folder)
            try:
                return str(self._client.create_container(**recipe)["Id"])
            except APIError as error:
                if error.status_code != HTTPStatus.CONFLICT:
                    raise

    def _recipe(self, profile: Profile, uid: int, folder: Path | None = None) -> dict[str, Any]:
        """Return the engine's parameters for a new container, the agent of which has this uid. It
        may have a folder of this host, where a socket is its only way out.

        The pages of the folders in memory count against the container's memory, so its limit
        is the sum: a program has ``memory_bytes`` even beside a full folder, and filling the
        folder meets the folder's limit, not the memory's.
        """
        memory = bytes_of(profile, self.runtime)
        processes = profile.processes + 1  # and the tool server
        options: dict[str, Any] = {"agent": uid, "server": uid + _UIDS}
        if self.runtime != "runc":
            options |= {"memory": profile.memory_bytes + _OWN, "tasks": processes}
            processes += _KERNEL_THREADS
        names = max(256, profile.disk_bytes // 4096)
        work = f"size={profile.disk_bytes},nr_inodes={names},mode=0700,uid={uid},gid={uid},exec"
        scratch = f"nr_inodes={_NAMES},mode=1777"
        folders = {WORK: work, "/tmp": f"size={_SMALL},{scratch}"}  # noqa: S108
        mounts = [] if folder is None else [Mount(SOCKET_FOLDER, str(folder), "bind", True)]
        python, place = ["python3"], WORK
        variables = {"USER": "agent", "LOGNAME": "agent"}  # its uid has no name
        if (task := profile.task) is not None:
            made = TASK_FOLDERS if profile.is_copy else ()
            options |= {"agent": task.user, "file": profile.disk_bytes, "shared": made}
            folders = dict.fromkeys(made, f"size={_SMALL},exec,{scratch}")
            python, mounts, place = self._server, [self._tools], task.folder
            variables = dict(task.variables)
        host = self._client.create_host_config(
            network_mode="none",
            read_only=task is None,
            cap_drop=["ALL"],
            cap_add=["KILL", "SETGID", "SETUID"],
            security_opt=["no-new-privileges", f"seccomp={self._seccomp}"],
            ipc_mode="none",  # the engine's own /dev/shm has no limit on names
            tmpfs=folders | {"/dev/shm": f"size={_SHARED},{scratch}"},  # noqa: S108
            mounts=mounts,
            nano_cpus=round(self._cores * 1e9),
            mem_limit=memory,
            memswap_limit=memory,
            pids_limit=processes,
            oom_score_adj=500,  # before anything of the host's
            log_config=LogConfig(type="none"),
            auto_remove=True,
            init=False,
            runtime=self.runtime,
        )
        deadline = f"{time.time() + LIFETIME:.0f}"
        return {
            "image": profile.image or self.image,
            "entrypoint": [*python, "-I", "-S", "-c", self._source],
            "command": [place, json.dumps(options)],
            "name": f"{LABEL}-{uid}",
            "user": "0:0",
            "environment": variables,
            "working_dir": place,
            "hostname": "sandbox",
            "stdin_open": True,
            "network_disabled": True,
            "use_config_proxy": False,
            "labels": self._labels | {f"{LABEL}.deadline": deadline, f"{LABEL}.bytes": str(memory)},
            "host_config": host,
        }

    def _destroy(self, container: _Container, lost: bool = False) -> None:
        """Hang up: the server goes, and the engine removes the container. One that does not
        answer is removed by force, in the background."""
        container.connection.close()
        _remove_folder(container.socket_folder)
        with self._lock:
            self._live.pop(container.id, None)
        with suppress(RuntimeError):  # closing: all go by force then
            if container.profile.is_copy:
                self._removers.submit(self._remove_copy, container)
            elif lost:
                self._removers.submit(_remove, self._client, container.id)

    def _remove_copy(self, container: _Container) -> None:
        _remove(self._client, container.id)
        self._remove_image(container.profile.image)

    def _taken(self) -> int:
        """The most that all sandboxes of this machine can take by now. Raises DockerException."""
        containers = self._client.containers(all=True, filters={"label": f"{LABEL}.bytes"})
        sizes = (each["Labels"].get(f"{LABEL}.bytes", "") for each in containers)
        return sum(int(size) for size in sizes if size.isdigit())

    def _runs(self, name: str) -> bool:
        """Return whether a container runs and is not paused; False if the engine is silent."""
        with suppress(*_ENGINE_ERRORS):
            state = self._client.inspect_container(name)["State"]
            return bool(state["Running"] and not state["Paused"])
        return False

    def _events(self, name: str, since: int, until: int) -> Generator[Event]:
        """Yield the engine's events of a container between two times, waiting for the second, as
        long as the engine answers."""
        kinds = {"container": [name], "event": ["oom", "die", "kill"]}
        with suppress(*_ENGINE_ERRORS):
            stream = self._client.events(since=since, until=until, filters=kinds, decode=True)
            with closing(stream):
                yield from stream


_LIBRARIES: dict[str, tuple[tuple[str, str], ...]] = {}  # by the digest of an image
_ASKING = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Container:
    id: str
    connection: ServerConnection
    profile: Profile
    socket_folder: Path | None = None


def make_socket_folder() -> Path:
    """Return a new folder for a socket. Only this user reaches it on the host, whereas any user
    does in the container that it is mounted in. Those of processes that have gone are removed.
    Raises HarnessError."""
    sockets = make_user_folder("sockets")
    namespace, *_ = own = _owner_numbers()
    for left in sockets.iterdir():
        numbers = left.name.split("-")[:3]
        if numbers[0] == namespace and numbers != _owner_numbers(int(numbers[1])):
            _remove_folder(left)
    folder = Path(tempfile.mkdtemp(prefix="-".join([*own, ""]), dir=sockets))
    folder.chmod(0o711)
    return folder


def _owner_numbers(pid: int | None = None) -> list[str]:
    """Pid namespace, pid and start time of a process; without the last if there is none."""
    return re.findall(r"\d+", owner_label(pid))


def _remove_folder(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def reap(client: APIClient | None = None) -> int:
    """Remove containers, and images of tasks, that nobody will: their owner on this machine has
    gone, or their deadline has passed. Returns how many containers. Raises nothing: the next time
    will do."""
    removed = 0
    with suppress(*_ENGINE_ERRORS):
        client = client or connect()
        for container in client.containers(all=True, filters={"label": f"{LABEL}=1"}):
            if _is_forgotten(container["Labels"]):
                _remove(client, container["Id"])
                removed += 1
        for image in client.images(filters={"label": f"{LABEL}=1"}):
            if _is_forgotten(image["Labels"]):
                client.remove_image(image["Id"], force=True)
    if removed:
        logger.info("removed %d forgotten containers", removed)
    return removed


def owner_label(pid: int | None = None) -> str:
    """Label that distinguishes this process from all others on this engine and later ones of its
    pid."""
    pid = os.getpid() if pid is None else pid
    return f"{os.readlink('/proc/self/ns/pid')}/{pid}/{_started(pid)}"


def _started(pid: int) -> str:
    """Return the start time of a process in the kernel's ticks; "" if there is none."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return ""


def _is_forgotten(labels: dict[str, str]) -> bool:
    namespace, _, process = labels.get(f"{LABEL}.owner", "").partition("/")
    pid = process.partition("/")[0]
    if namespace == os.readlink("/proc/self/ns/pid") and pid.isdigit():
        return owner_label(int(pid)) != f"{namespace}/{process}"
    deadline = labels.get(f"{LABEL}.deadline", "")
    return deadline.isdigit() and float(deadline) < time.time()


def _attach(client: APIClient, name: str) -> socket.socket:
    """A socket of our own on the container's standard input and output."""
    params = {"stdin": 1, "stdout": 1, "stream": 1}
    raw = client.attach_socket(name, params=params)
    stream = socket.socket(fileno=os.dup(raw.fileno()))
    raw._response.close()
    raw.close()
    return stream


def _remaps_users(info: Mapping[str, Any]) -> bool:
    """Return whether a container's uids are others on the host, of which there are 65,536."""
    options = ",".join(info.get("SecurityOptions") or ())
    return "name=userns" in options or "name=rootless" in options


def _check_runtime(info: Mapping[str, Any], runtime: str) -> str:
    known = sorted(info.get("Runtimes", {}))
    if runtime not in known:
        raise HarnessError(
            f"the Docker engine knows no runtime {runtime!r}, only {', '.join(known)}: install it "
            "and name it under `runtimes` in /etc/docker/daemon.json"
        )
    return runtime


def _answered(ask: Callable[[], T]) -> T:
    try:
        return ask()
    except ImageNotFound:
        raise
    except _ENGINE_ERRORS as error:
        raise HarnessError(f"the Docker engine did not do as asked: {_in_short(error)}") from error


def _remove(client: APIClient, name: str) -> None:
    """Raises nothing: what is left over is reaped.

    A runtime may be unable to end a container if its programs keep its kernel busy (gVisor of 2022
    is), and then the engine waits for good: where it is not done soon, we kill by hand, if we may.
    """
    with suppress(*_ENGINE_ERRORS):
        try:
            with closing(connect(_REMOVING)) as impatient:
                impatient.remove_container(name, force=True, v=True)
        except requests.Timeout:
            logger.warning("the engine does not remove container %.12s: killing it", name)
            kill_by_hand(name)
            client.remove_container(name, force=True, v=True)


def kill_by_hand(name: str) -> int:
    """Kill all processes of a container on this machine, as far as we may; returns how many.
    The engine is not asked, which may be waiting for them itself."""
    killed = 0
    for place in Path("/proc").glob("[0-9]*/cgroup"):
        with suppress(OSError):
            if name in place.read_text():
                os.kill(int(place.parent.name), signal.SIGKILL)
                killed += 1
    return killed


def _remove_all(client: APIClient, label: str, timeout: float = 30.0) -> None:
    """Wait until no container with the label is left, by force where one stays."""
    begun = time.monotonic()
    while time.monotonic() - begun < timeout:
        with suppress(*_ENGINE_ERRORS):
            if not (left := client.containers(all=True, filters={"label": label})):
                return
            if time.monotonic() - begun > 1.0:
                for container in left:
                    _remove(client, container["Id"])
        time.sleep(0.05)


def _in_short(error: BaseException) -> str:
    """One line, without what a container holds."""
    text = error.explanation if isinstance(error, APIError) else error
    return " ".join(str(text).split())[:300]
