"""Models for the server: one that plays a script, one that works on a task honestly, one that takes
many turns. They know nothing but the conversation."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from functools import lru_cache

from generators.basics.compute_average import solver as average_solver
from generators.basics.count_circles import make_answer
from generators.basics.count_circles.solver import count_discs
from tests.conformance.conversation import Asked, Call, Fault, Said
from tests.conformance.transport import Answer

Turn = Said | Fault | Answer | Callable[[Asked], Said | Fault | Answer]


def play(*turns: Turn) -> Callable[[Asked], Said | Fault | Answer]:
    """A model that says what a script has, one reply a request."""
    left = list(turns)

    def model(asked: Asked) -> Said | Fault | Answer:
        turn = left.pop(0)
        return turn(asked) if callable(turn) else turn

    return model


def solve(asked: Asked) -> Said:
    """Look at the task's files, compute, write the answer down, give it: as an honest model would.

    Knows two tasks by their prompts: the average of a file of numbers, and the discs of pictures.
    """
    names = re.findall(r"\b(\w+\.(?:txt|png))\b", asked.texts[0])
    given = {call.arguments.get("path", "") for call in asked.calls}
    # 2.png before 10.png, whatever the order in which the task names them
    ordered = sorted(set(names), key=lambda name: (len(name), name))
    wanted = [name for name in ordered if name not in given]
    if not asked.may_call or not asked.tools:
        return Said(_answer(asked), thought="No tools are left.")
    if wanted:
        looks = (
            Call("view_image" if name.endswith(".png") else "read_file", {"path": name})
            for name in wanted
        )
        return Said("Let me look.", tuple(looks), "What is in the files?")
    if "notes.txt" not in given:
        note = Call("write_file", {"path": "notes.txt", "content": _answer(asked)})
        return Said("", (note,), "I keep what I found.")
    return Said(_answer(asked), thought="Done.")


def _answer(asked: Asked) -> str:
    if asked.pictures:
        found = make_answer([_count(picture.data) for picture in asked.pictures])
    else:
        found = average_solver.answer(_blocks(asked))
    return f"I found this.\n<answer>\n{json.dumps(found)}\n</answer>"


@lru_cache(64)
def _count(picture: bytes) -> int:
    return count_discs(io.BytesIO(picture))


def _blocks(asked: Asked) -> list[list[float]]:
    for text in asked.results:
        try:
            return average_solver.read_blocks(text.partition("\n\n[")[0])
        except ValueError:
            continue
    return []


def explore(turns: int, size: int = 1500) -> Callable[[Asked], Said]:
    """A model that writes and reads files of ``size`` characters in each turn, and looks at a
    picture in every tenth."""

    def model(asked: Asked) -> Said:
        taken = len(asked.calls)
        if taken >= turns or not asked.may_call:
            return Said('<answer>\n{"x": 1}\n</answer>', thought="Done.")
        if taken % 10 == 9:
            look = Call("view_image", {"path": "plot.png"})
            return Said("Look at it.", (look,), "What does it show?")
        path = f"file{taken // 2}.txt"
        if taken % 2:
            return Said("Read it.", (Call("read_file", {"path": path}),), "What is there?")
        content = f"{taken} " * (size // len(f"{taken} "))
        write = Call("write_file", {"path": path, "content": content})
        return Said("Write it.", (write,), "I need a file.")

    return model
