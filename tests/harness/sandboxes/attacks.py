"""Generated attacks on a sandbox: what an agent may do to spoil its episode, its grading or its
tool server, drawn from a seed. Each attack is a few calls of the tools, of kinds and with arguments
that are drawn; the same seed is the same attack."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from random import Random
from string import Template
from typing import Any

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

PROGRAMS = cases(__file__, "programs")
# What every program begins with: `attempt` goes on after an error, `many` until the end.
PRELUDE = cases(__file__, "prelude")


def program(rng: Random, body: str) -> Reply:
    """A Python program; it is run by a fork of several processes in one case of four."""
    fork = f"spread({rng.randint(1, 30)})\n" if rng.random() < 0.25 else ""
    return python(PRELUDE.format(seed=rng.randrange(1 << 30)) + fork + body)


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


def listed(name: str, rng: Random) -> Reply:
    """The program of this name, with what is drawn for it."""
    draws = PROGRAMS[name]["draws"].items()
    drawn = {key: draw(rng, choices) for key, choices in draws}
    return program(rng, Template(PROGRAMS[name]["body"]).substitute(drawn))


def draw(rng: Random, choices: Any) -> Any:
    """A number of a range, one of a list, or true as often as a number says."""
    if isinstance(choices, str):
        return rng.randint(*map(int, choices.split("-")))
    return rng.choice(choices) if isinstance(choices, list) else rng.random() < choices


_OWN = {make.__name__: make for make in (starved_server, flood, file_flood, sabotage, tools, shell)}
_TIMES = cases(__file__, "kinds")  # those of many sorts are drawn more often
KINDS = {kind: _OWN.get(kind) or partial(listed, kind) for kind in _TIMES}
DRAWN = [kind for kind, times in _TIMES.items() for _ in range(times)]
