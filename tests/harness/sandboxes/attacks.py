"""Generated attacks on a sandbox: what an agent may do to spoil its episode, its grading or its
tool server, drawn from a seed. Each attack is a few calls of the tools, of kinds and with arguments
that are drawn; the same seed is the same attack."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from harness.model import Reply
from harness.sandboxes.docker import WORK
from tests.cases import cases
from tests.harness.script import call


@dataclass(frozen=True)
class Attack:
    """Tool calls of an agent, and the kinds of attack that they are made of."""

    kinds: tuple[str, ...]
    turns: tuple[Reply, ...]


def python(source: str) -> Reply:
    return call(("execute_python", {"code": source}))


def command(line: str) -> Reply:
    return call(("run_command", {"command": line}))


def generate(seed: int) -> Attack:
    """The attack of a seed: one to three kinds, of which some come after an honest answer."""
    rng = Random(f"attack {seed}")
    kinds = [rng.choice(DRAWN) for _ in range(rng.choice((1, 1, 2, 3)))]
    turns = [python(ANSWER)] if rng.random() < 0.3 else []
    return Attack(tuple(kinds), (*turns, *(KINDS[kind](rng) for kind in kinds)))


ANSWER = "import json; json.dump({'average': 1, 'numbers': [1, 2]}, open('answer.json', 'w'))"

# What every program below begins with: `attempt` goes on after an error, `many` until the end.
PRELUDE = """
import ctypes, fcntl, mmap, os, random, resource, signal, socket, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
rng = random.Random({seed})
def attempt(act, *args):
    try:
        return act(*args)
    except (OSError, ValueError, OverflowError, MemoryError, RuntimeError, ctypes.ArgumentError):
        return None
def many(act, most=1 << 30):
    held = []
    for _ in range(most):
        held.append(attempt(act))
def spread(times):
    for _ in range(times):
        if attempt(os.fork) == 0:
            break
"""


def program(rng: Random, body: str) -> Reply:
    """A Python program; it is run by a fork of several processes in one case of four."""
    fork = f"spread({rng.randint(1, 30)})\n" if rng.random() < 0.25 else ""
    return python(PRELUDE.format(seed=rng.randrange(1 << 30)) + fork + body)


def system_calls(rng: Random) -> Reply:
    """Any system call with any arguments, many times, each few in a process of their own."""
    return program(
        rng,
        f"""
page = mmap.mmap(-1, 1 << 16)
at = ctypes.addressof(ctypes.c_char.from_buffer(page))
values = (0, 1, -1, 2, 3, 7, 4096, at, at + 8, 1 << 31, 1 << 47, (1 << 63) - 1, os.getpid(), -100)
page[:64] = b'/work' b'/answer.json'.ljust(64, b'\\0')
for _ in range({rng.randint(20, 200)}):
    child = attempt(os.fork)
    if child == 0:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        for _ in range({rng.randint(1, 60)}):
            call = [rng.choice(values) if rng.random() < .8 else rng.randrange(1 << 32)
                    for _ in range(6)]
            libc.syscall(rng.randrange(470), *map(ctypes.c_long, call))
        os._exit(0)
    elif child:
        attempt(os.waitpid, child, 0)
""",
    )


def calls_at_the_server(rng: Random) -> Reply:
    """System calls that name PID 1, process group 0, or everybody."""
    return program(
        rng,
        f"""
for _ in range({rng.randint(50, 2000)}):
    whom = rng.choice((1, 1, 1, -1, 0, os.getppid()))
    value = rng.choice((0, 1, 2, 1 << 12, -1))
    attempt(*rng.choice((
        (resource.prlimit, whom, rng.randrange(16), (rng.choice((0, 1, 4096)), 4096)),
        (os.sched_setscheduler, whom, rng.randrange(7), os.sched_param(rng.randrange(3))),
        (os.sched_setaffinity, whom, {{rng.randrange(2)}}),
        (os.setpriority, rng.randrange(3), whom, 19),
        (libc.syscall, 251, rng.randrange(4), whom, 3 << 13),
        (libc.ptrace, rng.choice((16, 0x4206)), whom, 0, 0),
        (libc.syscall, 434, whom, 0), (libc.syscall, 424, rng.randrange(9), 9, 0, 0),
        (libc.syscall, 310, whom, 0, 0, 0, 0, 0), (libc.syscall, 256, whom, 8, 0, 0),
        (libc.syscall, 129, whom, rng.randrange(1, 65), 0),
        (os.setpgid, whom, 0), (os.tcsetpgrp, 0, 1), (os.killpg, 1, 15),
        (os.kill, 1, rng.randrange(65)),
    )))
""",
    )


def starved_server(rng: Random) -> Reply:
    """Limits and the lowest priority for PID 1, then as much work for it as there can be."""
    limit = python(
        PRELUDE.format(seed=rng.randrange(1 << 30))
        + f"""
for limit in rng.sample(range(16), {rng.randint(0, 9)}) + [{rng.choice((0, 0, 2, 9))}]:
    attempt(resource.prlimit, 1, limit, (value := rng.choice((0, 1, 1, 1 << 20)), value))
attempt(os.sched_setscheduler, 1, os.SCHED_IDLE, os.sched_param(0))
attempt(os.setpriority, os.PRIO_PROCESS, 1, 19)
attempt(os.sched_setaffinity, 1, {{0}})
spread({rng.choice((0, 8, 58))})
while True: {rng.choice(("pass", "os.write(1, b'x')", "time.sleep(0.1)"))}
"""
    )
    drip = command("while :; do echo; done")
    calls = (*limit.message.calls, *drip.message.calls * rng.randint(1, 3))
    return call(*((each.name, each.arguments) for each in calls))


def own_limits(rng: Random) -> Reply:
    return program(
        rng,
        f"""
for _ in range({rng.randint(1, 12)}):
    attempt(resource.setrlimit, rng.randrange(16), (v := rng.choice((0, 1, 1 << 12, 1 << 20)), v))
many(lambda: open('/dev/null'), 500)
print(bytearray({rng.choice((1, 1 << 16, 1 << 24))})[-1])
while {rng.random() < 0.5}: pass
""",
    )


def schedulers(rng: Random) -> Reply:
    return program(
        rng,
        f"""
spread({rng.randint(1, 60)})
for policy in range(7):
    attempt(os.sched_setscheduler, 0, policy, os.sched_param(rng.randrange(100)))
attempt(os.sched_setaffinity, 0, {{{rng.randrange(2)}}})
attempt(os.nice, {rng.choice((-20, 0, 19))})
while True: {rng.choice(("pass", "os.sched_yield()", "time.sleep(0)", "time.time()"))}
""",
    )


def signals(rng: Random) -> Reply:
    return program(
        rng,
        f"""
for number in signal.valid_signals() - {{9, 19}}:
    signal.signal(number, {rng.choice(("signal.SIG_IGN", "lambda *_: None", "signal.SIG_DFL"))})
attempt(signal.setitimer, {rng.choice((0, 1, 2))}, 1e-5, 1e-5)
spread({rng.randint(0, 20)})
for _ in range({rng.choice((1, 100, 1 << 30))}):
    attempt(os.kill, rng.choice((-1, 0, 1, os.getppid())), {rng.choice((0, 9, 15, 17, 19, 18, 64))})
""",
    )


def signals_by_proxy(rng: Random) -> Reply:
    """Signals that the kernel sends for the agent: of ready files, changed folders, timers."""
    return program(
        rng,
        f"""
ends = socket.socketpair()
for fd, act in ((ends[0].fileno(), 8), (os.open('/work', os.O_RDONLY), 8)):
    attempt(fcntl.fcntl, fd, 10, {rng.choice((9, 15, 19, 29))})  # F_SETSIG
    attempt(fcntl.fcntl, fd, act, {rng.choice((1, -1))})  # F_SETOWN
    attempt(fcntl.fcntl, fd, 4, os.O_ASYNC | os.O_NONBLOCK)
    attempt(fcntl.fcntl, fd, 1026, 0x8000003f)  # F_NOTIFY
    attempt(fcntl.fcntl, fd, 1024, {rng.randrange(3)})  # F_SETLEASE
for n in range(2000):
    attempt(ends[1].send, b'x')
    open(f'noted{{n % 50}}', 'w').close()
""",
    )


FLOODS = cases(__file__, "floods")


def flood(rng: Random) -> Reply:
    """As much as there is of something, and more."""
    body = FLOODS[rng.choice(sorted(FLOODS))].format(
        size=1 << rng.randint(12, 24),
        flags=rng.choice((0, 1, 2)),
        stream=rng.choice((1, 2)),
        times=rng.choice((1, 64, 1024)),
        crash=rng.choice((0, 8, 1 << 46)),
    )
    return program(rng, body)


FILE_FLOODS = cases(__file__, "file_floods")


def file_flood(rng: Random) -> Reply:
    kind = rng.choice(sorted(FILE_FLOODS))
    folder = rng.choice(("/work", "/work", "/tmp", "/dev/shm", "/dev/mqueue"))
    return program(rng, FILE_FLOODS[kind].format(folder=folder))


def special_files(rng: Random) -> Reply:
    """Reads and writes of what lies under /proc, /sys and /dev."""
    where = rng.choice(("/proc/1", "/proc/self", "/proc/sys", "/proc", "/sys", "/dev"))
    return program(
        rng,
        f"""
signal.setitimer(signal.ITIMER_REAL, 0.6)
names = []
for top, folders, files in os.walk({where!r}):
    names += [os.path.join(top, name) for name in files]
    if len(names) > 4000: break
rng.shuffle(names)
for name in names[:{rng.randint(20, 500)}]:
    for flags in (os.O_WRONLY, os.O_RDWR | os.O_TRUNC, os.O_RDONLY):
        fd = attempt(os.open, name, flags | os.O_NONBLOCK)
        if fd is not None:
            attempt(os.write, fd, rng.choice((b'0', b'1', b'-1000', b'max', bytes(9), b'c')))
            attempt(os.read, fd, 4096)
            attempt(os.ftruncate, fd, 0)
            attempt(fcntl.ioctl, fd, rng.choice((0x5412, 0x5401, 0x1261)), b'x' * 8)
            os.close(fd)
""",
    )


def devices(rng: Random) -> Reply:
    return program(
        rng,
        f"""
for n, name in enumerate(('answer.json', 'input_numbers.txt', 'x', '.write-0')):
    attempt(os.unlink, name)
    kind = rng.choice((0o010666, 0o020666, 0o060666, 0o140666, 0o100666))
    attempt(os.mknod, name, kind, os.makedev(rng.randrange(10), rng.randrange(10)))
for name in ('/dev/full', '/dev/random', '/dev/tty', '/dev/console', '/dev/ptmx', '/dev/stdin'):
    fd = attempt(os.open, name, os.O_RDWR | os.O_NONBLOCK)
    if fd is not None:
        attempt(os.write, fd, bytes({rng.choice((1, 4096))}))
        for act in (0x5412, 0x540e, 0x5423, 0x5410, 0x540b): attempt(fcntl.ioctl, fd, act, 1)
many(lambda: os.open('/dev/ptmx', os.O_RDWR), 100)
""",
    )


def streams(rng: Random) -> Reply:
    """Standard input and output: closed, made larger or non-blocking, swapped, inherited."""
    return program(
        rng,
        f"""
for _ in range({rng.randint(1, 20)}):
    fd = rng.randrange(4)
    attempt(*rng.choice((
        (os.close, fd), (os.dup2, rng.randrange(3), fd), (os.set_blocking, fd, False),
        (fcntl.fcntl, fd, 1031, 1 << rng.randrange(12, 24)), (os.write, fd, bytes(1 << 18)),
        (os.lseek, fd, 1 << 40, 0), (os.ftruncate, fd, 1 << 40), (os.splice, 0, 1, 1 << 20),
        (os.open, '/proc/self/fd/1', os.O_RDWR), (os.open, '/proc/self/fd/0', os.O_RDWR),
        (fcntl.lockf, fd, fcntl.LOCK_EX | fcntl.LOCK_NB),
    )))
if attempt(os.fork) == 0:
    os.setsid()
    time.sleep({rng.choice((0, 0.3, 9))})
""",
    )


def process_settings(rng: Random) -> Reply:
    return program(
        rng,
        f"""
for _ in range({rng.randint(1, 400)}):
    libc.prctl(rng.choice((1, 4, 8, 15, 22, 23, 24, 28, 35, 36, 38, 41, 47, 53, 0x59616d61)),
               *(ctypes.c_long(rng.choice((0, 1, 2, 9, -1, 1 << 40))) for _ in range(4)))
libc.unshare(rng.choice((0x10000000, 0x20000, 0x40000000)))
libc.personality({rng.choice((0, 8, 0x40000, 0x100000))})
attempt(os.chroot, '/work'); attempt(os.setuid, 0); attempt(os.setgroups, [0])
attempt(os.setresuid, 0, 0, 0)
""",
    )


def turned_folder(rng: Random) -> Reply:
    """The work folder locked, moved, replaced, or full of traps for the tools."""
    return program(
        rng,
        f"""
for _ in range({rng.randint(1, 30)}):
    name = rng.choice(('/work', 'answer.json', 'x', 'd/x', 'input_numbers.txt', '/tmp', '/dev/shm'))
    attempt(*rng.choice((
        (os.chmod, name, rng.choice((0, 0o111, 0o444, 0o7777))), (os.rename, name, 'moved'),
        (os.chown, name, 0, 0), (os.symlink, '/etc/passwd', name), (os.link, '/etc/passwd', name),
        (os.rmdir, name), (os.unlink, name), (os.mkdir, name), (os.mkfifo, name),
        (os.truncate, name, 1 << 40), (os.utime, name, (1e12, -1e9)), (os.chdir, 'd'),
        (os.symlink, '/proc/1/root', 'd'), (os.symlink, 'x', 'x'),
    )))
""",
    )


SABOTAGE = cases(__file__, "sabotage")


def sabotage(rng: Random) -> Reply:
    """The answer file, or what a grader would read, is not what it seems."""
    name = rng.choice(("answer.json", "answer.json", "input_numbers.txt", "x\ny", "\udcff"))
    act = rng.choice(SABOTAGE)
    return program(rng, f"name = {name!r}\nattempt(os.unlink, name)\n{act}\n")


PATHS = (
    *("answer.json", "x", "d/x", "", "/", ".", "..", "../x", f"{WORK}/x", "/proc/1/mem"),
    *("a" * 300, "d/" * 70 + "x", "x\0y", "\ud800", "x\ny", f"{WORK}/../etc/passwd"),
    *("answer.json/x", "/dev/zero"),
)


def tools(rng: Random) -> Reply:
    """The tools themselves, with arguments that are none."""
    calls: list[tuple[str, dict[str, object] | str]] = []
    for _ in range(rng.randint(1, 12)):
        path = rng.choice(PATHS)
        content = rng.choice(("", "x", "x" * 100_000, "\ud800", "\0"))
        tool = rng.choice(("read_file", "write_file", "view_image", "run_command", "no_tool"))
        made: dict[str, object] = {"path": path}
        if tool == "write_file":
            made["content"] = content
        if tool == "run_command":
            made = {"command": rng.choice((content, path, "ls " + path))}
        broken = rng.random() < 0.2
        calls.append((tool, json.dumps(made)[: rng.randint(0, 40)] if broken else made))
    return call(*calls)


LINES = cases(__file__, "lines")


def shell(rng: Random) -> Reply:
    return command(rng.choice(LINES))


def planted_modules(rng: Random) -> Reply:
    """Modules and settings of an agent's own, which a later program would load."""
    name = rng.choice(
        ("json.py", "sitecustomize.py", "numpy.py", "encodings/__init__.py", ".bashrc")
    )
    return program(
        rng,
        f"""
os.makedirs('encodings', exist_ok=True)
open({name!r}, 'w').write('while True: pass')
""",
    )


KINDS: dict[str, Callable[[Random], Reply]] = {
    make.__name__: make
    for make in (
        system_calls,
        calls_at_the_server,
        starved_server,
        own_limits,
        schedulers,
        signals,
        signals_by_proxy,
        flood,
        file_flood,
        special_files,
        devices,
        streams,
        process_settings,
        turned_folder,
        sabotage,
        tools,
        shell,
        planted_modules,
    )
}
# Those of many sorts are drawn more often.
_MANY = {"flood": 6, "file_flood": 3, "sabotage": 3, "system_calls": 2, "calls_at_the_server": 2}
DRAWN = [kind for kind in KINDS for _ in range(_MANY.get(kind, 1))]
