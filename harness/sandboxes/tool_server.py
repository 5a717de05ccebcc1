"""The tool server: runs an agent's programs inside a sandbox and answers the host's requests.

Standard library only, in one file, because its source is what a sandbox is started with
(``python3 -I -S -c SOURCE WORK OPTIONS``, the options a JSON object). It reads frames from its
standard input and answers each on its standard output: header length and body length (4 bytes each,
big-endian), the header as JSON, the body. When its input ends it kills what it started and goes.

Options:
  server, agent   in a container: the uids of this process and of the programs, or the user whom an
                  image names. It starts as root with CAP_SETUID, CAP_SETGID and CAP_KILL, keeps
                  these three, and touches files with the agent's rights. The programs have no
                  capability and run at nice 19.
  shared          folders that any user may write in: an engine keeps the mode of one that was there
  memory, tasks   most bytes and processes of the programs, if the container's kernel counts neither
                  (gVisor): the server then enforces both, as well as it can
  contained       in a Pod: this process is not the first, and all others there are its own. The
                  programs have its user, and can end it, which costs them their sandbox
  data, file      in the local sandbox and in a Pod: most bytes of a process and of a file
  processes       in a Pod: most processes and threads of its user
  keep            outside of a container: do not remove the work folder at the end

Operations (header → answer header):
  ping   {}                                → {}
  run    {argv, seconds, cap, flood, core?}, body = stdin → {exit, total, seconds, limits}, body =
         output. ``core`` counts the cores that the container may use: the program has this one.
  read   {path, max}                       → {}, body = the file's bytes
  write  {path}, body = the file's bytes   → {}
  stop   {}                                (no answer; it ends a program as its time limit does)
Each answer has ``ok``; where it is false, ``reason`` says why in words and ``limits`` which limit.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import grp
import json
import os
import pwd
import resource
import select
import shutil
import signal
import stat
import struct
import subprocess
import sys
import time
from typing import Any

FRAME = struct.Struct(">II")
MAX_HEADER = 1 << 20
MAX_BODY = 1 << 30
TICK = 0.1  # seconds between two looks at the clock and the work folder
HELD_TICK = 0.025  # where memory is watched, too
CHUNK = 1 << 16
PR_SET_DUMPABLE, PR_SET_KEEPCAPS, PR_SET_CHILD_SUBREAPER = 4, 8, 36
CAPABILITIES = 1 << 5 | 1 << 6 | 1 << 7  # KILL, SETGID, SETUID
CAPABILITY_VERSION = 0x20080522
LOWEST_PRIORITY = 19
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
# Number of sched_setaffinity; the container's own filter stops the calls of other architectures.
SET_AFFINITY = {"x86_64": 203, "aarch64": 122}
NO_CORE = 1  # bytes: 0 would still start the handler of a host that pipes its core dumps
CONTAINED = os.getpid() == 1  # alone in its pid namespace: what runs there is its own


class RefusedError(Exception):
    """An answer to the agent: why not, and the limit that was hit, if one was."""

    def __init__(self, reason: str, *limits: str) -> None:
        super().__init__(reason)
        self.limits = limits


class ClosedError(Exception):
    """The other end has gone."""


# --- files: every component is opened by itself, so that nothing can lead out ---


def open_folder(parts: list[str], work: str, make: bool) -> int:
    """A descriptor of the folder ``parts`` below the work folder."""
    here = os.open(work, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in parts:
        try:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=here)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            named = os.stat(part, dir_fd=here, follow_symlinks=False)
            below = os.open(part, flags, dir_fd=here)
        finally:
            os.close(here)
        here = below
        # Some kernels (gVisor of 2022) follow a link to a folder all the same.
        if not os.path.samestat(named, os.fstat(here)):
            os.close(here)
            raise NotADirectoryError(errno.ENOTDIR, part)
    return here


def split_path(path: str, work: str) -> list[str]:
    """The components of a path inside the work folder. Raises RefusedError for any other."""
    if path.startswith("/"):
        if not path.startswith(work.rstrip("/") + "/"):
            raise RefusedError("outside the work folder")
        path = path[len(work.rstrip("/")) + 1 :]
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise RefusedError("'..' is not followed; name the file from the work folder down")
    if not parts or path.endswith("/"):
        raise RefusedError("not a file's name")
    if "\0" in path or len(parts) > 64:
        raise RefusedError("not a usable file name")
    return parts


def check_plain(found: os.stat_result) -> None:
    """Raises RefusedError for all but a regular file that has this one name."""
    if stat.S_ISLNK(found.st_mode):
        raise RefusedError("a symbolic link; these are not followed")
    if stat.S_ISDIR(found.st_mode):
        raise RefusedError("a folder")
    if not stat.S_ISREG(found.st_mode):
        raise RefusedError("not a regular file")
    if found.st_nlink > 1:
        raise RefusedError("a hard link; copy the file instead")


def read_file(path: str, limit: int, work: str) -> bytes:
    """A regular file's bytes, all of them."""
    *folders, name = split_path(path, work)
    folder = open_folder(folders, work, make=False)
    try:
        check_plain(os.stat(name, dir_fd=folder, follow_symlinks=False))
        # Non-blocking, in case that it has become a FIFO since.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(name, flags, dir_fd=folder), "rb") as file:
            found = os.fstat(file.fileno())
            check_plain(found)
            data = b"" if found.st_size > limit else file.read(limit + 1)
    finally:
        os.close(folder)
    if found.st_size > limit or len(data) > limit:
        size = max(found.st_size, len(data))
        raise RefusedError(f"too large: {size} bytes, at most {limit} can be read")
    return data


def kind_of(path: str, work: str) -> bytes:
    """What a path names, without following links: ``file``, ``folder``, or nothing."""
    *folders, name = split_path(path.rstrip("/"), work)
    try:
        folder = open_folder(folders, work, make=False)
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        finally:
            os.close(folder)
    except OSError:
        return b""
    return b"folder" if stat.S_ISDIR(mode) else b"file" if stat.S_ISREG(mode) else b""


def write_file(path: str, data: bytes, work: str) -> None:
    """Create or replace a file, whole or not at all. Nothing is ever written through a name
    that was there before, so a link planted under it leads nowhere."""
    *folders, name = split_path(path, work)
    folder = open_folder(folders, work, make=True)
    fresh = ".write-" + os.urandom(8).hex()
    try:
        with contextlib.suppress(FileNotFoundError):
            check_plain(os.stat(name, dir_fd=folder, follow_symlinks=False))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with open(os.open(fresh, flags, 0o644, dir_fd=folder), "wb") as file:
                file.write(data)
            os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(fresh, dir_fd=folder)
            raise
    finally:
        os.close(folder)


def explain(error: OSError) -> RefusedError:
    """A failed file operation in words."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return RefusedError("no space left in the work folder", "disk")
    if error.errno == errno.ELOOP:
        return RefusedError("a symbolic link on the way; these are not followed")
    words = {
        errno.ENOENT: "no such file",
        errno.ENOTDIR: "a part of the path is not a folder (symbolic links are not followed)",
        errno.EACCES: "not permitted",
        errno.EPERM: "not permitted",
        errno.ENAMETOOLONG: "the name is too long",
    }
    return RefusedError(words.get(error.errno or 0, os.strerror(error.errno or 0)))


# --- programs ---


class Output:
    """Output of a program: head and tail within a cap, and the total number of bytes."""

    def __init__(self, cap: int) -> None:
        self.cap = cap
        self.mark = b"\n[... %d bytes left out ...]\n"
        room = max(2, cap - len(self.mark) - 20)
        self.head_size, self.tail_size = room // 2, room - room // 2
        self.head = b""  # all of it until that is too much
        self.tail = b""
        self.total = 0

    def add(self, data: bytes) -> None:
        """Take what was printed next."""
        fitted = self.total <= self.cap
        self.total += len(data)
        if self.total <= self.cap:
            self.head += data
            return
        if fitted:
            whole = self.head + data
            self.head, data = whole[: self.head_size], whole[self.head_size :]
        self.tail = (self.tail + data)[-self.tail_size :]

    def kept(self) -> bytes:
        """All of it, or head and tail with a notice between."""
        if self.total <= self.cap:
            return self.head
        left_out = self.total - len(self.head) - len(self.tail)
        return (self.head + self.mark % left_out + self.tail)[: self.cap]


def read_counter(names: tuple[str, ...], word: str) -> int:
    """A line ``word N`` of the first of the cgroup's files (v1, v2) that is there; 0 if none
    says."""
    for name in names:
        with (
            contextlib.suppress(OSError, ValueError),
            open(os.path.join("/sys/fs/cgroup", name)) as lines,
        ):
            for line in lines:
                if line.split()[:1] == [word]:
                    return int(line.split()[1])
    return 0


def count_kills() -> tuple[int, int]:
    """How often memory ran out and how often a process was refused, in this container."""
    if not CONTAINED:
        return 0, 0
    memory = read_counter(("memory/memory.oom_control", "memory.events"), "oom_kill")
    return memory, read_counter(("pids/pids.events", "pids.events"), "max")


def count_tasks() -> int:
    """How many processes and threads there are in this container."""
    found = ctypes.create_string_buffer(512)
    LIBC.sysinfo(found)  # struct sysinfo: ten longs, then the count as a short
    return int.from_bytes(found.raw[PROCS_AT : PROCS_AT + 2], sys.byteorder)


def anonymous_bytes() -> int:
    """How much memory the programs of this container hold, beside its folders."""
    with contextlib.suppress(OSError, ValueError), open("/proc/meminfo") as lines:
        for line in lines:
            if line.startswith("Active(anon):"):
                return int(line.split()[1]) << 10
    return 0


def is_full(folder: str) -> bool:
    """Neither a byte nor a name more fits in."""
    with contextlib.suppress(OSError):
        found = os.statvfs(folder)
        return found.f_bavail == 0 or (found.f_files > 0 and found.f_ffree == 0)
    return False


def descendants() -> list[int]:
    """The pids of all that this process started, and of what they started."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{name}/stat", "rb") as file:
                parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
    found = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return sorted(found - {os.getpid()})
        found |= more


def kill_all() -> bool:
    """Send SIGKILL to everything that was started here. False if there was nothing."""
    if CONTAINED:
        try:
            os.kill(-1, signal.SIGKILL)  # in this pid namespace; never PID 1 itself
        except ProcessLookupError:
            return False
        return True
    pids = descendants()
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return bool(pids)


def sweep() -> None:
    """Kill and reap until nothing is left: orphans come to this process by its station."""
    while True:
        more = kill_all()
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                if not more or not kill_all():
                    return
                break
            if pid == 0:
                time.sleep(0.002)
                break


def find_user(user: int | str) -> tuple[int, int]:
    """The uid and gid of the programs: one number for both, or a user as an image names it, of
    whom the image's own files say more."""
    if isinstance(user, int):
        return user, user
    name, _, group = user.partition(":")
    try:
        known = pwd.getpwuid(int(name)) if name.isdigit() else pwd.getpwnam(name)
        uid, gid, os.environ["HOME"] = known.pw_uid, known.pw_gid, known.pw_dir
    except KeyError:
        uid, gid = int(name), 0
    return uid, int(group) if group.isdigit() else grp.getgrnam(group).gr_gid if group else gid


def take_identity(server: int, agent: int, group: int) -> None:
    """Change from root to the server's uid with its three capabilities, and access files with the
    agent's rights from now on: whatever path it is asked for, it reaches no more than the agent."""
    os.setgroups([])
    os.setresgid(server, server, server)
    LIBC.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setresuid(server, server, server)
    sets = struct.pack("=6I", CAPABILITIES, CAPABILITIES, 0, 0, 0, 0)  # effective, permitted
    if LIBC.capset(struct.pack("=Ii", CAPABILITY_VERSION, 0), sets):
        raise OSError("capset")
    LIBC.setfsgid(group)
    LIBC.setfsuid(agent)
    if LIBC.setfsuid(-1) != agent:  # a kernel without it (gVisor of 2022)
        os.setresgid(-1, group, -1)
        os.setresuid(-1, agent, -1)


def move_to(core: int | None) -> None:
    """Run this process, and what it starts, on one of the container's cores, or on all: beside a
    container whose programs are spread over two cores, a neighbour has two thirds of one."""
    if core is None:
        os.sched_setaffinity(0, CORES)
    else:
        os.sched_setaffinity(0, {sorted(CORES)[core % len(CORES)]})


def keep_affinity() -> None:
    """Refuse sched_setaffinity to this process and what it starts, for good."""
    place = ctypes.addressof(AFFINITY_FILTER)
    program = struct.pack("@HP", len(AFFINITY_FILTER) // 8, place)
    if LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0):
        raise OSError("seccomp")


def refuse_affinity() -> bytes:
    """The program of classic BPF that refuses sched_setaffinity with EPERM and allows the rest."""
    load, equal, back = 0x20, 0x15, 0x06  # what it loads, at 0, is the number of the call
    allow, refuse = 0x7FFF0000, 0x00050000 | errno.EPERM
    number = SET_AFFINITY.get(os.uname().machine, 0xFFFFFFFF)
    lines = (load, 0, 0, 0), (equal, 0, 1, number), (back, 0, 0, refuse), (back, 0, 0, allow)
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def prepare_child(bound: bool) -> None:
    """Between fork and exec: another user than the server, ``bound`` to the core that the server is
    on, the last to get the processor, the first to go when memory runs out, and readable by
    itself."""
    if bound:
        keep_affinity()
    if AGENT is not None:
        uid, gid = AGENT
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        # The kernel would hand root what this process has; and under no-new-privileges never more.
        if LIBC.capset(struct.pack("=Ii", CAPABILITY_VERSION, 0), bytes(24)):
            raise OSError("capset")
        os.nice(LOWEST_PRIORITY)
    LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    for number in IGNORED:
        signal.signal(number, signal.SIG_DFL)
    if HELD is not None:
        resource.setrlimit(resource.RLIMIT_NPROC, (HELD[1], HELD[1]))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def given(data: bytes) -> int:
    """A descriptor to read the bytes from."""
    made = os.memfd_create("stdin")
    with open(os.dup(made), "wb") as file:
        file.write(data)
    os.lseek(made, 0, os.SEEK_SET)
    return made


class Watch:
    """One program under the limits of its request: one clock, one output."""

    def __init__(self, header: dict[str, Any], work: str) -> None:
        self.work = work
        self.begun = time.monotonic()
        self.deadline = self.begun + header["seconds"]
        self.flood = header["flood"]
        self.core = header.get("core")
        self.before = count_kills()
        self.output = Output(header["cap"])
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(self.writer, True)
        self.limits: set[str] = set()

    def launch(self, argv: list[str], stdin: bytes) -> subprocess.Popen[bytes] | int:
        """The running program, or the exit code of one that cannot be run, with a reason."""
        source = given(stdin)
        move_to(self.core)
        try:
            return subprocess.Popen(
                argv,
                stdin=source,
                stdout=self.writer,
                stderr=self.writer,
                cwd=self.work,
                start_new_session=True,
                preexec_fn=lambda: prepare_child(self.core is not None),
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            self.output.add(f"cannot run it: {reason}\n".encode("utf-8", "replace"))
            return 127 if isinstance(error, FileNotFoundError) else 126
        finally:
            os.close(source)

    def follow(self, program: subprocess.Popen[bytes]) -> None:
        """Wait until the program ends, or a limit ends it. Raises ClosedError."""
        watched = select.poll()
        watched.register(0, select.POLLIN)
        watched.register(self.reader, select.POLLIN)
        end = watch_end(program.pid)
        if end is not None:
            watched.register(end, select.POLLIN)
        pause = TICK if end is not None else 0.01
        pause = pause if HELD is None else HELD_TICK
        try:
            while program.poll() is None:
                left = self.deadline - time.monotonic()
                if left <= 0:
                    self.limits.add("time")
                if self.output.total > self.flood:
                    self.limits.add("output")
                if self.overfed() or self.limits & {"time", "output"}:
                    program.kill()
                    program.wait()
                    break
                ready = {fd for fd, _ in watched.poll(1000 * min(pause, left))}
                if 0 in ready:
                    if receive_request()[0]["op"] != "stop":
                        raise ClosedError
                    self.limits.add("time")
                if self.reader in ready:
                    more = self.output.total + (1 << 20)
                    if not drain(self.reader, self.output, more):
                        watched.unregister(self.reader)
                if any(map(is_full, SIZED)):
                    self.limits.add("disk")
        finally:
            if end is not None:
                os.close(end)

    def overfed(self) -> bool:
        """Whether the programs took more memory than they have, where the kernel would let them
        take the whole sandbox down; all of them are killed then. Records a full process table."""
        if HELD is None:
            return False
        if count_tasks() >= HELD[1]:
            self.limits.add("processes")
        if anonymous_bytes() <= HELD[0]:
            return False
        self.limits.add("memory")
        kill_all()
        return True

    def finish(self, code: int) -> tuple[dict[str, Any], bytes]:
        """The answer, when everything that was started is dead."""
        drain(self.reader, self.output, self.flood)
        limits = sorted(self.limits | limits_hit(self.before))
        answer = {"exit": code, "total": self.output.total, "limits": limits}
        return {**answer, "seconds": time.monotonic() - self.begun}, self.output.kept()


def run(header: dict[str, Any], stdin: bytes, work: str) -> tuple[dict[str, Any], bytes]:
    """Run a program to its end or to a limit; nothing that it started is left afterwards."""
    watch = Watch(header, work)
    try:
        try:
            program = watch.launch(header["argv"], stdin)
        finally:
            os.close(watch.writer)  # the program has it: reading ends with the last of them
        if isinstance(program, int):
            return watch.finish(program)
        try:
            watch.follow(program)
        finally:
            sweep()
        code = program.returncode  # negative: the signal that ended it
        return watch.finish(code if code >= 0 else 128 - code)
    finally:
        os.close(watch.reader)


def watch_end(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends, where the kernel has them."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def drain(reader: int, output: Output, until: int) -> bool:
    """Take what is in the pipe, up to a total. False at its end."""
    while output.total <= until:
        try:
            data = os.read(reader, CHUNK)
        except BlockingIOError:
            return True
        if not data:
            return False
        output.add(data)
    return True


def limits_hit(before: tuple[int, int]) -> set[str]:
    """Which limits of the container were hit since the counters stood at ``before``."""
    memory, processes = count_kills()
    hit = {"memory"} if memory > before[0] else set()
    if processes > before[1]:
        hit.add("processes")
    if any(map(is_full, SIZED)):
        hit.add("disk")
    return hit


# --- frames ---


def receive(count: int) -> bytes:
    """Return exactly ``count`` bytes from the other end. Raises ClosedError."""
    parts = []
    while count:
        data = os.read(0, min(count, 1 << 20))
        if not data:
            raise ClosedError
        parts.append(data)
        count -= len(data)
    return b"".join(parts)


def receive_request() -> tuple[dict[str, Any], bytes]:
    """The next request, its header and its body. Raises ClosedError."""
    sizes = FRAME.unpack(receive(FRAME.size))
    if sizes[0] > MAX_HEADER or sizes[1] > MAX_BODY:
        raise ClosedError
    return json.loads(receive(sizes[0])), receive(sizes[1])


def answer(header: dict[str, Any], body: bytes = b"") -> None:
    """Raises ClosedError."""
    text = json.dumps(header).encode()
    data = memoryview(FRAME.pack(len(text), len(body)) + text + body)
    try:
        while data:
            data = data[os.write(REPLIES, data) :]
    except OSError as error:
        raise ClosedError from error


def perform(header: dict[str, Any], body: bytes, work: str) -> tuple[dict[str, Any], bytes]:
    """Carry out one operation."""
    operation = header["op"]
    try:
        if operation == "run":
            return run(header, body, work)
        if operation == "read":
            return {}, read_file(header["path"], header["max"], work)
        if operation == "kind":
            return {}, kind_of(header["path"], work)
        if operation == "write":
            write_file(header["path"], body, work)
        return {}, b""
    except OSError as error:
        raise explain(error) from error
    except UnicodeError as error:
        raise RefusedError("a name that is not text") from error


def serve(work: str) -> None:
    """Answer requests until the other end goes."""
    while True:
        header, body = receive_request()
        if header["op"] == "stop":  # the program had ended by itself
            continue
        try:
            done, data = perform(header, body, work)
            answer({"ok": True, **done}, data)
        except RefusedError as refused:
            answer({"ok": False, "reason": str(refused), "limits": list(refused.limits)})


def main(work: str, options: str) -> None:
    """Serve, and leave nothing behind."""
    global AGENT, CONTAINED, HELD, REPLIES, SIZED
    settings = json.loads(options)
    CONTAINED = CONTAINED or settings.get("contained", False)
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    if "agent" in settings:
        for folder in settings.get("shared", ()):
            os.chmod(folder, 0o1777)  # noqa: S103 - as /tmp
        AGENT = find_user(settings["agent"])
        take_identity(settings["server"], *AGENT)
    # Where programs run as the same user, they could write into its memory and pipes.
    LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if "memory" in settings:
        HELD = settings["memory"], settings["tasks"]
    sizes = {resource.RLIMIT_DATA: "data", resource.RLIMIT_FSIZE: "file"}
    sizes[resource.RLIMIT_NPROC] = "processes"
    limits = {kind: settings[name] for kind, name in sizes.items() if name in settings}
    for kind, size in {**limits, resource.RLIMIT_CORE: NO_CORE}.items():
        resource.setrlimit(kind, (size, size))
    if CONTAINED:  # there the folders have a size of their own, and begin empty
        SIZED = [f for f in (work, "/tmp", "/dev/shm") if not is_full(f)]  # noqa: S108
    REPLIES = os.dup(1)
    os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
    try:
        serve(work)
    except ClosedError:
        pass
    finally:
        if os.getpid() != 1:
            sweep()
            if not settings.get("keep"):
                shutil.rmtree(work, ignore_errors=True)
    os._exit(0)


IGNORED = [
    number
    for number in signal.valid_signals()
    if number not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD)
]
LIBC = ctypes.CDLL(None)
REPLIES = 1
AFFINITY_FILTER = ctypes.create_string_buffer(refuse_affinity())
CORES = os.sched_getaffinity(0)
AGENT: tuple[int, int] | None = None  # uid and gid of the programs, if not this process's
SIZED: list[str] = []
HELD: tuple[int, int] | None = None  # bytes and tasks that the programs may have, if held here
PROCS_AT = 10 * ctypes.sizeof(ctypes.c_long)

if __name__ == "__main__":
    main(*sys.argv[1:])
