"""Small models that have learnt dressings: what the files and columns of a family are called in a
prompt.

A model is asked for one name at a time: its tokens are the names that a prompt shows, and last the
file or column that is looked for; it answers with a name. Nothing but training tells it which.
With the names the family's own program runs on the files of the task, by the tools that every agent
has. The network is that of ``examples/calibration/model.py``.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import yaml

from examples.calibration.model import WIDTH, Floats, hidden_states, read_weights, weight_shapes
from examples.calibration.server import ChatHandler, Model, Reply
from examples.calibration.training import Rows, Weights, random_weights
from generators.catalog import Catalog
from generators.dressings import renames
from generators.dressings.family import DressedFamily, task_family
from generators.dressings.renames import Renames
from generators.seed import EXAMPLE_SEED
from study.extras.tasks import dress

SHOWN = 20  # names that are read of a prompt, the first ones
_WORDS = yaml.safe_load(Path(dress.__file__).with_name("dressing_words.yaml").read_text("utf-8"))
_FIELD = re.compile(r"\{parameters[^{}]*\}")  # of a prompt, where a value of the instance stands
_TASK = re.compile(r'"task": "(\w+)"')
_START = Path(renames.__file__).read_text("utf-8")  # of a dressed family's solver

Slot = tuple[str, str, str]  # a family, `files` or `columns`, and its own name of one


@cache
def tokens() -> tuple[Mapping[str, int], Mapping[Slot, int]]:
    """Return the token of each name that a draft of `tasks dress` may have, and of each slot. Token
    0 is no name."""
    slots = [slot for family in drafts(1, EXAMPLE_SEED) for slot in new_names(family)]
    names = [f"{first}_{second}" for first in _WORDS["first"] for second in _WORDS["second"]]
    names += [each for old, new in _WORDS["columns"].items() for each in (old, *new)]
    names += [_stem(old) for _, kind, old in slots if kind == "files"]
    unique = ["", *dict.fromkeys(filter(None, names))]
    return dict(zip(unique, range(len(unique)), strict=True)), {
        slot: len(unique) + number for number, slot in enumerate(slots)
    }


def drafts(count: int, seed: Any) -> Iterator[DressedFamily]:
    """Yield drafts of dressings of each built-in family."""
    with tempfile.TemporaryDirectory() as folder:
        for base in Catalog.built_in().newest():
            for path in dress.dress_task(base.name, count, Path(folder), seed.child(base.name)):
                yield read_dressing(path)


def read_dressing(path: Path) -> DressedFamily:
    """Return the dressed family of a file."""
    family = task_family(path.name, path.read_text(encoding="utf-8"))
    if not isinstance(family, DressedFamily):
        raise TypeError(f"{path}: no dressing")
    return family


def new_names(family: DressedFamily) -> dict[Slot, str]:
    """Return the name of each file, without its ending, and column under a dressing."""
    base, names = family.dressing.base.name, family.dressing.renames
    files = {(base, "files", old): _stem(new) for old, new in names.files.items()}
    return files | {(base, "columns", old): new for old, new in names.columns.items()}


def _stem(path: str) -> str:
    return path.partition("/")[0].partition(".")[0].replace("*", "")


def read_prompt(prompt: str) -> list[int]:
    """Return the tokens (SHOWN,) of the first names that stand in a prompt."""
    names, _ = tokens()
    known = "|".join(map(re.escape, sorted(filter(None, names), key=len, reverse=True)))
    found = dict.fromkeys(re.findall(rf"(?<!\w)(?:{known})(?!\w)", prompt))
    read = [names[each] for each in found][:SHOWN]
    return read + [0] * (SHOWN - len(read))


def rows_of(family: DressedFamily) -> Rows:
    """Return a row (n, SHOWN + 2) for each name of a dressing: the names of its prompt, the slot,
    and the name that stands there."""
    names, slots = tokens()
    shown = read_prompt(_FIELD.sub("", family.prompt))
    return np.array(
        [[*shown, slots[slot], names[new]] for slot, new in new_names(family).items()], np.int32
    )


def first_weights(rng: np.random.Generator) -> Weights:
    """Return weights that know nothing."""
    names, slots = tokens()
    count = len(names) + len(slots)
    weights = random_weights(rng, weight_shapes(count, SHOWN + 1))
    weights["embedding"] = rng.normal(0, 0.1, (count, WIDTH)).astype(np.float32)
    return weights


def likeliest(weights: Mapping[str, Floats], asked: Rows) -> Any:
    """Return the token (n,) of the likeliest name after questions (n, SHOWN + 1)."""
    logits = hidden_states(weights, asked)[:, -1] @ weights["embedding"].T
    return np.argmax(logits[:, : len(tokens()[0])], axis=1)


def read_file(data: bytes) -> Weights:
    """Return the arrays of a file of weights. Raises ValueError for other weights."""
    return read_weights(data, sum(len(each) for each in tokens()), SHOWN + 1)


def open_model(data: bytes) -> Model:
    """Return the program that a file of weights writes for a prompt: the family's own, with the
    names that it takes its files and columns to have. Raises ValueError for other weights."""
    names, slots = tokens()
    by_token, weights = list(names), read_file(data)

    def reply(text: str) -> Reply:
        if (asked := _TASK.search(text)) is None:
            return {"code": ""}, 0, 0
        own = [slot for slot in slots if slot[0] == asked[1]]
        shown = read_prompt(text.partition("\n")[2])  # without its title
        found = likeliest(weights, np.array([[*shown, slots[slot]] for slot in own], np.int32))
        called = {slot: by_token[token] for slot, token in zip(own, found, strict=True)}
        code = program_of(asked[1], called)
        return {"code": code}, len(own) * (SHOWN + 1), len(own)

    return reply


def program_of(family: str, called: Mapping[Slot, str]) -> str:
    """Return the family's solver, that runs on files and columns that are called so."""
    files = {old: _path(old, new) for (_, kind, old), new in called.items() if kind == "files"}
    columns = {old: new for (_, kind, old), new in called.items() if kind == "columns"}
    base: Any = Catalog.built_in().family(family)
    back = Renames(files, columns, {}).back()
    return f"{_START}\n\nrun_solver({back!r}, {base.solver()!r})\n"


def _path(old: str, name: str) -> str:
    return f"{name}{'/*' * ('*' in old)}{PurePosixPath(old).suffix}"


class ToolHandler(ChatHandler):
    """Answers a task with a program to run, and its output with a word."""

    uses_tools = True

    def answer_to(self, name: str, role: str, text: str) -> Reply:
        """Return a model's message to one of a role, and tokens read and written."""
        if role == "tool":
            return {"content": "The program has left answer.json in the work folder."}, 0, 0
        arguments, read, written = self.models[name](text)
        call = {"name": "execute_python", "arguments": json.dumps(arguments)}
        made = [{"id": "call-1", "type": "function", "function": call}]
        return {"content": None, "tool_calls": made}, read, written
