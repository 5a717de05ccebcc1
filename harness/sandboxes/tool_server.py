"""The tool server: what stands between an agent's programs and everything else.

Standard library only, in one file, because its source is what a sandbox is started with
(``python3 -I -S -c SOURCE WORK [MEMORY DISK [keep]]``). In a container it is PID 1; the local
sandbox runs the same program in a temp folder, and gives bytes to limit each process to. Where the
container's kernel is one of its own, which counts nothing inside (gVisor), it is given
``WORK MEMORY PROCESSES held`` and holds the programs to these itself, as well as it can. It reads
frames from its standard input and answers each on its standard output: header length and body
length (4 bytes each, big-endian), the header as JSON, the body. When its input ends it kills what
it started and goes; outside a container it then removes its work folder, unless told to ``keep``
it.

Operations (header → answer header):
  ping   {}                                → {}
  run    {argv, seconds, cap, flood}, body = stdin → {exit, total, seconds, limits}, body = output
  line   {plan, seconds, cap, flood}       → as run; the plan is one of ``agent/commandline.py``
  read   {path, max}                       → {}, body = the file's bytes
  write  {path}, body = the file's bytes   → {}
Each answer has ``ok``; where it is false, ``reason`` says why in words and ``limits`` which limit.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
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
PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36
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
    except OSError:
        return b""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except OSError:
        return b""
    finally:
        os.close(folder)
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
    """What a program printed: head and tail within a cap, and how much there was in all."""

    def __init__(self, cap: int) -> None:
        self.cap = cap
        self.mark = b"\n[... %d bytes left out ...]\n"
        room = max(2, cap - len(self.mark) - 20)
        self.head_size, self.tail_size = room // 2, room - room // 2
        self.head = b""  # all of it until that is too much
        self.tail = b""
        self.total = 0

    def add(self, data: bytes) -> None:
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
        if self.total <= self.cap:
            return self.head
        left_out = self.total - len(self.head) - len(self.tail)
        return (self.head + self.mark % left_out + self.tail)[: self.cap]


def read_counter(paths: tuple[str, ...], word: str) -> int:
    """A line ``word N`` of the first of the files that is there; 0 if none says."""
    for path in paths:
        with contextlib.suppress(OSError, ValueError), open(path) as lines:
            for line in lines:
                if line.split()[:1] == [word]:
                    return int(line.split()[1])
    return 0


def count_kills() -> tuple[int, int]:
    """How often memory ran out and how often a process was refused, in this container."""
    if not CONTAINED:
        return 0, 0
    v1, v2 = "/sys/fs/cgroup/", "/sys/fs/cgroup/"
    memory = (v1 + "memory/memory.oom_control", v2 + "memory.events")
    return (
        read_counter(memory, "oom_kill"),
        read_counter((v1 + "pids/pids.events", v2 + "pids.events"), "max"),
    )


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


def prepare_child() -> None:
    """Between fork and exec: the first to go when memory runs out, and readable by itself."""
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


def start(argv: list[str], work: str, streams: list[int]) -> subprocess.Popen[bytes]:
    """Start a program in its own session. Raises OSError, ValueError."""
    return subprocess.Popen(
        argv,
        stdin=streams[0],
        stdout=streams[1],
        stderr=streams[2],
        cwd=work,
        start_new_session=True,
        preexec_fn=prepare_child,
    )


class Watch:
    """One request's programs, from the first to the last: one clock, one output."""

    def __init__(self, header: dict[str, Any], work: str) -> None:
        self.work = work
        self.begun = time.monotonic()
        self.deadline = self.begun + header["seconds"]
        self.flood = header["flood"]
        self.before = count_kills()
        self.output = Output(header["cap"])
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(self.writer, True)
        self.limits: set[str] = set()

    def say(self, text: str) -> None:
        """Words of our own, after what was printed before them."""
        drain(self.reader, self.output, self.flood)
        self.output.add(text.encode("utf-8", "replace"))

    def launch(self, argv: list[str], streams: list[int]) -> subprocess.Popen[bytes] | int:
        """The running program, or the code of one that cannot be run, with words."""
        try:
            return start(argv, self.work, streams)
        except (OSError, ValueError) as error:
            self.say(f"cannot run it: {getattr(error, 'strerror', None) or error}\n")
            return 127 if isinstance(error, FileNotFoundError) else 126

    def follow(self, programs: list[subprocess.Popen[bytes]]) -> None:
        """Until all of them end, or a limit ends them. Raises ClosedError."""
        watched = select.poll()
        watched.register(0, select.POLLIN)
        watched.register(self.reader, select.POLLIN)
        ends = {end for each in programs if (end := watch_end(each.pid)) is not None}
        for end in ends:
            watched.register(end, select.POLLIN)
        pause = TICK if len(ends) == len(programs) else 0.01
        pause = pause if HELD is None else HELD_TICK
        try:
            while any(each.poll() is None for each in programs):
                left = self.deadline - time.monotonic()
                if left <= 0:
                    self.limits.add("time")
                if self.output.total > self.flood:
                    self.limits.add("output")
                if self.overfed() or self.over():  # a last look, too, when time is up
                    for each in programs:
                        each.kill()
                        each.wait()
                    break
                ready = {fd for fd, _ in watched.poll(1000 * min(pause, left))}
                if 0 in ready:
                    raise ClosedError
                if self.reader in ready:
                    more = self.output.total + (1 << 20)
                    if not drain(self.reader, self.output, more):
                        watched.unregister(self.reader)
                for end in ready & ends:  # readable from now on
                    watched.unregister(end)
                    ends.remove(end)
                    os.close(end)
                if any(map(is_full, SIZED)):
                    self.limits.add("disk")
        finally:
            for end in ends:
                os.close(end)

    def overfed(self) -> bool:
        """Whether the programs took more memory than they have, where the kernel would let them
        take the whole sandbox down; all of them are killed then. Notes a full house, too."""
        if HELD is None:
            return False
        if count_tasks() >= HELD[1]:
            self.limits.add("processes")
        if anonymous_bytes() <= HELD[0]:
            return False
        self.limits.add("memory")
        kill_all()
        return True

    def over(self) -> bool:
        """Whether a limit was hit that ends the request."""
        return bool(self.limits & {"time", "output"})

    def close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def finish(self, code: int) -> tuple[dict[str, Any], bytes]:
        """The answer, when all that was started is dead."""
        self.close_writer()
        drain(self.reader, self.output, self.flood)
        limits = sorted(self.limits | limits_hit(self.before))
        answer = {"exit": code, "total": self.output.total, "limits": limits}
        return {**answer, "seconds": time.monotonic() - self.begun}, self.output.kept()

    def close(self) -> None:
        os.close(self.reader)
        self.close_writer()


def code_of(program: subprocess.Popen[bytes] | int) -> int:
    """The exit code, as a shell tells it."""
    code = program if isinstance(program, int) else program.returncode
    return code if code >= 0 else 128 - code


def run(header: dict[str, Any], stdin: bytes, work: str) -> tuple[dict[str, Any], bytes]:
    """Run a program to its end or to a limit; nothing of it is left when this returns."""
    watch = Watch(header, work)
    try:
        source = given(stdin)
        try:
            program = watch.launch(header["argv"], [source, watch.writer, watch.writer])
        finally:
            os.close(source)
        if not isinstance(program, int):
            watch.close_writer()
            try:
                watch.follow([program])
            finally:
                sweep()
        return watch.finish(code_of(program))
    finally:
        watch.close()


# --- command lines: pipelines of programs, without a shell ---

MAX_WORDS = 5_000  # that wildcards may make of one command
MAX_WORD_BYTES = 1 << 20
MAX_NAMES = 200_000  # of files looked at for one command


class Missed(Exception):  # noqa: N818
    """A command that is not run: its code is 2, and the words are printed."""


def run_line(header: dict[str, Any], work: str) -> tuple[dict[str, Any], bytes]:
    """Carry out a plan as a shell would; nothing of it is left when this returns."""
    watch, code = Watch(header, work), 0
    try:
        try:
            for each in header["plan"]:
                if each["when"] == ";" or (each["when"] == "&&") == (code == 0):
                    code = run_pipeline(each["commands"], watch)
                    if watch.over():
                        code = 128 + signal.SIGKILL
                        break
        finally:
            sweep()
        return watch.finish(code)
    finally:
        watch.close()


def run_pipeline(commands: list[dict[str, Any]], watch: Watch) -> int:
    """All its commands at once; the code of the last."""
    made: list[subprocess.Popen[bytes] | int] = []
    source = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for number, command in enumerate(commands):
            following, sink = -1, watch.writer
            if number + 1 < len(commands):
                following, sink = os.pipe2(os.O_CLOEXEC)
            try:
                made.append(begin_command(command, [source, sink, watch.writer], watch))
            finally:
                os.close(source)
                source = following
                if sink != watch.writer:
                    os.close(sink)
    finally:
        if source >= 0:
            os.close(source)
    watch.follow([each for each in made if not isinstance(each, int)])
    return code_of(made[-1])


def begin_command(
    command: dict[str, Any], streams: list[int], watch: Watch
) -> subprocess.Popen[bytes] | int:
    """Start one command with its redirections, from left to right."""
    opened: list[int] = []
    streams = list(streams)
    try:
        argv = expand_words(command["words"], watch)
        for stream, kind, target in command["ways"]:
            if kind == "&":
                streams[stream] = streams[int(target)]
            else:
                streams[stream] = open_target(kind, target, watch.work)
                opened.append(streams[stream])
        return watch.launch(argv, streams)
    except Missed as missed:
        watch.say(f"{missed}\n")
        return 2
    finally:
        for each in opened:
            os.close(each)


def open_target(kind: str, path: str, work: str) -> int:
    """A file of the work folder (or ``/dev/null``) to read from or to write to. Raises Missed."""
    modes = {"<": os.O_RDONLY, ">": os.O_WRONLY | os.O_CREAT, ">>": os.O_WRONLY | os.O_CREAT}
    flags = modes[kind] | (os.O_APPEND if kind == ">>" else 0) | os.O_CLOEXEC
    if path == os.devnull:
        return os.open(os.devnull, flags & ~os.O_CREAT)
    try:
        *folders, name = split_path(path, work)
        folder = open_folder(folders, work, make=False)
        try:
            file = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644, dir_fd=folder)
        finally:
            os.close(folder)
        try:
            check_plain(os.fstat(file))
            if kind == ">":
                os.ftruncate(file, 0)
            os.set_blocking(file, True)
        except BaseException:
            os.close(file)
            raise
        return file
    except (RefusedError, OSError, UnicodeError) as error:
        if isinstance(error, OSError):
            error = explain(error)
        why = error if isinstance(error, RefusedError) else "a name that is not text"
        raise Missed(f"cannot open {path[:200]!r}: {why}") from None


def expand_words(words: list[Any], watch: Watch) -> list[str]:
    """The arguments; a word with wildcards becomes the names that fit. Raises Missed."""
    found: list[str] = []
    budget = [MAX_NAMES]
    for word in words:
        found += [word] if isinstance(word, str) else expand(word, watch, budget)
        if len(found) > MAX_WORDS:
            raise Missed(f"the wildcards fit more than {MAX_WORDS} names; use find or Python")
    if sum(len(os.fsencode(word)) for word in found) > MAX_WORD_BYTES:
        raise Missed("the wildcards fit more names than one command takes; use find or Python")
    return found


def expand(word: list[Any], watch: Watch, budget: list[int]) -> list[str]:
    """The paths that fit, in order; the word as it was typed where none does."""
    parts = split_word(word)
    typed = "/".join(spell(part) for part in parts)
    root = "" if parts[0] else "/"
    if root:
        base = watch.work.strip("/").split("/")
        if [spell(part) for part in parts[1 : len(base) + 1]] != base:
            raise Missed(f"{typed[:200]!r}: wildcards are looked up in the work folder only")
        parts, root = parts[len(base) + 1 :], "/" + "/".join(base) + "/"
    if any(spell(part) == ".." for part in parts):
        raise Missed(f"{typed[:200]!r}: wildcards are looked up in the work folder only")
    found = [""]
    for number, part in enumerate(parts):
        last = number + 1 == len(parts)
        names: list[str] = []
        for path in found:
            names += step_into(path, part, last, watch, budget)
        found = names
    return sorted((root + path for path in found), key=os.fsencode) or [typed]


def step_into(path: str, part: list[Any], last: bool, watch: Watch, budget: list[int]) -> list[str]:
    """The paths one component further, of those that are there. Links are named, not followed."""
    end = "" if last else "/"
    above = [each for each in path.split("/") if each not in ("", ".")]
    try:
        folder = open_folder(above, watch.work, make=False)
    except OSError:
        return []
    try:
        if all(isinstance(piece, str) for piece in part):
            name = spell(part)
            if name not in ("", "."):
                os.stat(name, dir_fd=folder, follow_symlinks=False)
            return [path + name + end]
        found = []
        with os.scandir(folder) as entries:
            for entry in entries:
                budget[0] -= 1
                if budget[0] < 0 or time.monotonic() > watch.deadline:
                    raise Missed("too many files for wildcards; use find or Python")
                if fits(entry.name, part) and (last or entry.is_dir(follow_symlinks=False)):
                    found.append(path + entry.name + end)
        return found
    except (OSError, ValueError):
        return []
    finally:
        os.close(folder)


def split_word(word: list[Any]) -> list[list[Any]]:
    """The components of a word's path, each a list of letters and wildcards."""
    parts: list[list[Any]] = [[]]
    for piece in word:
        if not isinstance(piece, str):
            parts[-1].append(piece)
            continue
        for letter in piece:
            if letter == "/":
                parts.append([])
            else:
                parts[-1].append(letter)
    return parts


def spell(part: list[Any]) -> str:
    """A component as it was typed."""
    return "".join(piece if isinstance(piece, str) else spell_wildcard(*piece) for piece in part)


def spell_wildcard(kind: str, negated: bool = False, ranges: Any = ()) -> str:
    if kind != "[":
        return kind
    inner = "".join(low if low == high else f"{low}-{high}" for low, high in ranges)
    return "[" + "!" * negated + inner + "]"


def fits(name: str, part: list[Any]) -> bool:
    """Whether a name fits a component; in time linear in each (the last star gives way)."""
    if name.startswith(".") and part[0] != ".":
        return False
    at = piece = 0
    star, mark = -1, 0
    while at < len(name):
        if piece < len(part) and part[piece] == ["*"]:
            star, mark = piece, at
            piece += 1
        elif piece < len(part) and fits_letter(name[at], part[piece]):
            at, piece = at + 1, piece + 1
        elif star >= 0:
            mark += 1
            at, piece = mark, star + 1
        else:
            return False
    return all(rest == ["*"] for rest in part[piece:])


def fits_letter(letter: str, piece: Any) -> bool:
    if isinstance(piece, str):
        return letter == piece
    if piece[0] == "?":
        return True
    if piece[0] != "[":
        return False
    negated = bool(piece[1])
    return any(low <= letter <= high for low, high in piece[2]) != negated


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
    """Exactly so many bytes from the other end. Raises ClosedError."""
    parts = []
    while count:
        data = os.read(0, min(count, 1 << 20))
        if not data:
            raise ClosedError
        parts.append(data)
        count -= len(data)
    return b"".join(parts)


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
        if operation == "line":
            return run_line(header, work)
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
        sizes = FRAME.unpack(receive(FRAME.size))
        if sizes[0] > MAX_HEADER or sizes[1] > MAX_BODY:
            raise ClosedError
        header = json.loads(receive(sizes[0]))
        body = receive(sizes[1])
        try:
            done, data = perform(header, body, work)
            answer({"ok": True, **done}, data)
        except RefusedError as refused:
            answer({"ok": False, "reason": str(refused), "limits": list(refused.limits)})


def main(work: str, *sizes: str) -> None:
    """Serve, and leave nothing behind."""
    global HELD, REPLIES, SIZED
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    # Same user as the agent's programs: without this they could write into its memory and pipes.
    LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    kinds = (resource.RLIMIT_DATA, resource.RLIMIT_FSIZE)
    if "held" in sizes:
        HELD, sizes = (int(sizes[0]), int(sizes[1])), ()
    for kind, size in [(resource.RLIMIT_CORE, "0"), *zip(kinds, sizes, strict=False)]:
        resource.setrlimit(kind, (int(size), int(size)))
    if CONTAINED:  # there the folders have a size of their own, and begin empty
        SIZED = [f for f in (work, "/tmp", "/dev/shm") if not is_full(f)]  # noqa: S108
    REPLIES = os.dup(1)
    os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
    try:
        serve(work)
    except ClosedError:
        pass
    finally:
        if not CONTAINED:
            sweep()
            if "keep" not in sizes:
                shutil.rmtree(work, ignore_errors=True)
    os._exit(0)


IGNORED = [
    number
    for number in signal.valid_signals()
    if number not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD)
]
LIBC = ctypes.CDLL(None)
REPLIES = 1
SIZED: list[str] = []
HELD: tuple[int, int] | None = None  # bytes and tasks that the programs may have, if held here
PROCS_AT = 10 * ctypes.sizeof(ctypes.c_long)

if __name__ == "__main__":
    main(*sys.argv[1:])
