"""Given items as families: the questions of a benchmark that somebody owns, and agent tasks. The
item lies behind the seed, so that nothing else is needed to make the instance. A group of questions
is one instance, whose questions are asked and answered together. Of an agent task of Harbor's form
the item is its folder, with what its ``task.toml`` says (study/protocol/agent_tasks.py)."""

from __future__ import annotations

import base64
import json
import mimetypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from generators.errors import GeneratorError
from generators.family import NUMBER, TEXT, list_of, record_of
from generators.grading.programs import Prints
from generators.grading.rubric import Metarubric, Row, fill_rubric
from generators.items import CONTEXT, HARBOR, NAME, REWARD, STRATUM, VERSION
from generators.items.check import MatchesKey
from generators.items.item import LETTERS, Item, read_items
from generators.seed import Seed, SeedStreams
from generators.stream import Stream
from generators.task import (
    Asset,
    Brief,
    Environment,
    GroundTruth,
    Limits,
    TaskInstance,
    TaskSpec,
    TruthTable,
    Verifier,
    make_instance,
)
from registry.canonical import canonical_bytes

_TURNS, _PROCESSES = 100, 256  # of an agent: the format has no such limits
_COLUMNS = ("name", "score", "key", "choices", "statement")
_FORMS: Mapping[str, Mapping[str, Any]] = {
    "choice": {**TEXT, "description": "the letter of the choice"},
    "number": NUMBER,
    "set": list_of({}),
    "json": {},
}
_SOLVER = 'raise SystemExit("no program answers given questions")\n'


class Items:
    """The family of given items; a difficulty is a stratum of a pool. A seed without an item makes
    an example."""

    name, version = NAME, VERSION
    summary = "questions as their owner wrote them"

    def parameters(self, difficulty: str) -> Mapping[str, int | float | str]:
        """None: an item is as hard as it is. Raises GeneratorError for no name of a stratum."""
        if not STRATUM.fullmatch(difficulty):
            raise GeneratorError(f"stratum {difficulty!r}: its name has letters, digits and _ only")
        return {}

    def generate(self, difficulty: str, seed: Seed) -> TaskInstance:
        """The instance of the item, or group of items, behind a seed. Raises GeneratorError."""
        self.parameters(difficulty)
        streams = SeedStreams(seed, NAME, VERSION, difficulty)
        items = read_items(seed.item) if seed.item else (_example(streams.at("example")),)
        names = ["answer"] if len(items) == 1 else [f"answer_{n + 1}" for n in range(len(items))]
        shown = [
            streams.at("choices", n).shuffle(item.choices) if item.shuffle else item.choices
            for n, item in enumerate(items)
        ]
        asked = [_asked(item, choices) for item, choices in zip(items, shown, strict=True)]
        if len(asked) > 1:
            asked = [f"Question {n}, `answer_{n}`:\n{text}" for n, text in enumerate(asked, 1)]
        files = {path: data for item in items for path, data in item.files}
        rows = tuple(map(_row, names, items, shown))
        truth = GroundTruth((("items", TruthTable(_COLUMNS, rows)),))
        return make_instance(
            TaskSpec(NAME, VERSION, difficulty, (("questions", len(items)),)),
            seed,
            Brief(
                "\n\n".join(asked),
                tuple(_asset(path, data) for path, data in files.items()),
                _schema(tuple(names), tuple(item.score for item in items)),
                Limits(),
            ),
            truth,
            fill_rubric((_JUDGED if items[0].rubric else _KEYED,), dict(truth.tables)),
        )

    def key(self, truth: GroundTruth) -> dict[str, Any]:
        """The right answers; of a pattern the pattern itself."""
        return {
            str(row["name"]): _letter(row) if row["score"] == "choice" else json.loads(row["key"])
            for row in _rows(truth)
        }

    def nulls(self, instance: TaskInstance) -> Mapping[str, dict[str, Any]]:
        """No answer, the first choice everywhere, and zero."""
        names = [str(row["name"]) for row in _rows(instance.truth)]
        return {
            "empty": {},
            "everything": dict.fromkeys(names, "A"),
            "prior": dict.fromkeys(names, 0),
        }

    def solver(self) -> str:
        """A program that only says that there is none."""
        return _SOLVER


class AgentTasks(Items):
    """The family of agent tasks with an image and a verifier of their own."""

    name = HARBOR
    summary = "agent tasks of Harbor's form"

    def generate(self, difficulty: str, seed: Seed) -> TaskInstance:
        """The instance of the task behind a seed; one without files if there is none. Raises
        GeneratorError."""
        self.parameters(difficulty)
        item = read_items(seed.item)[0] if seed.item else _EXAMPLE_TASK
        stated: dict[str, dict[str, Any]] = item.answer
        files = [_asset(path, data) for path, data in item.files]
        hidden = tuple(file for file in files if not file.path.startswith(CONTEXT))
        truth = GroundTruth(
            (("items", TruthTable.of_row(name="reward", score=item.score, key="1")),),
            verifier=Verifier(hidden, **stated["verifier"]),
        )
        brief = Brief(
            item.prompt,
            tuple(file for file in files if file.path.startswith(CONTEXT)),
            "",
            Limits(turns=_TURNS, processes=_PROCESSES, **stated["limits"]),
            environment=Environment(**stated["environment"]),
        )
        rubric = fill_rubric((_REWARDED,), dict(truth.tables))
        return make_instance(TaskSpec(HARBOR, VERSION, difficulty, ()), seed, brief, truth, rubric)


def _example(draws: Stream) -> Item:
    """A sum, which sheets to measure a judge on can get wrong in many ways."""
    one, other = draws.integer(100, 999), draws.integer(100, 999)
    return Item(prompt=f"What is {one} + {other}?", score="number", answer=one + other)


@lru_cache(maxsize=1024)
def _schema(names: tuple[str, ...], scores: tuple[str, ...]) -> str:
    forms = {name: _FORMS.get(each, TEXT) for name, each in zip(names, scores, strict=True)}
    return canonical_bytes(record_of(**forms)).decode()


def _rows(truth: GroundTruth) -> Iterator[Mapping[str, Any]]:
    yield from truth.table("items").records()


def _letter(row: Mapping[str, Any]) -> str:
    return LETTERS[json.loads(row["choices"]).index(json.loads(row["key"]))]


def _asked(item: Item, choices: Sequence[str]) -> str:
    lettered = [f"{letter}. {text}" for letter, text in zip(LETTERS, choices, strict=False)]
    return "\n".join([item.prompt, *lettered])


def _row(name: str, item: Item, choices: Sequence[str]) -> tuple[str, ...]:
    key = json.dumps(item.answer, ensure_ascii=False)
    statement = item.rubric or f"The value of {name} is right: {key}"
    return name, item.score, key, json.dumps([*choices], ensure_ascii=False), statement


def _check(row: Row) -> MatchesKey:
    choices = tuple(json.loads(str(row["choices"])))
    return MatchesKey((str(row["name"]),), str(row["score"]), str(row["key"]), choices)


_KEYED = Metarubric("answer", "SR", 1.0, "{statement}", _check, source="items")
_RUBRIC = "The value of {name} meets this rubric (reference answer: {key}): {statement}"
_JUDGED = replace(_KEYED, text=_RUBRIC, check=None)


def _asset(path: str, data: str) -> Asset:
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return Asset(path, kind, base64.b64decode(data))


_REWARDED = replace(_KEYED, key="verifier", text="The verifier is met.", check=Prints(REWARD, "1"))
_EXAMPLE_TASK = Item(
    prompt="Write the sum of 2 and 3 to the file sum.txt.",
    score="verifier",
    answer={"limits": {}, "environment": {}, "verifier": {"seconds": 60.0}},
)
FAMILY, AGENT_TASKS = Items(), AgentTasks()
