"""A data set of reasoning-gym as a task family without input files and without a solver."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from generators.child_process import ChildLimits, run_in_child
from generators.errors import ChildLimitError, unknown
from generators.family import answer_schema, form_criteria, read_part
from generators.grading.answer import Answer
from generators.grading.rubric import Metarubric, fill_rubric
from generators.gym.datasets import PACKAGE, VERSION, configurations, full_marks, make_entry
from generators.seed import EXAMPLE_SEED, Seed
from generators.task import Brief, GroundTruth, TaskInstance, TaskSpec, TruthTable, make_instance

PREFIX = "rg_"  # of a name, which goes into paths and so has no colon; "rg:" is read as the same
MAX_ANSWER = 100_000  # characters
LIMITS = ChildLimits(seconds=30, memory=2_000_000_000)  # the first call of a child imports it all
# Scorers that evaluate an answer as Python or SymPy code get arithmetic only: no name of more than
# a letter but these, no quotes, no brackets but round ones.
EVALUATED = frozenset(
    {"binary_matrix", "countdown", "intermediate_integration", "n_queens"}
    | {"simple_integration", "spiral_matrix", "string_insertion"}
)
_ARITHMETIC = re.compile(
    r"(?:[0-9\s+\-*/^().,]|\b(?:[A-Za-z_]|a?(?:sin|cos|tan)h?|exp|log|ln|sqrt|pi)\b)*+"
)
_GUESSED = 20  # public entries, whose keys are constant answers
_CRITERION = (
    "The answer is {answer}, or another to which the data set's own scorer gives full marks."
)


@dataclass(frozen=True, slots=True)
class FullMarks:
    """The data set's own scorer gives the answer full marks. It runs in a child process with
    limits; an answer that exceeds them gets none."""

    data_set: str
    configuration: str
    entry: str  # a Python literal
    key: str

    def passes(self, answer: Answer) -> bool:
        """Report if the answer meets the check: a text without the white space around it, other
        values as JSON. Raises OSError if no child process starts, and GeneratorError without the
        package: neither is a wrong answer."""
        given = answer.block.get("answer", "")
        try:
            text = (given if isinstance(given, str) else json.dumps(given)).strip()
        except RecursionError:
            return False
        if text == self.key.strip():
            return True
        if not 0 < len(text) <= MAX_ANSWER or (
            self.data_set in EVALUATED and not (text.isascii() and _ARITHMETIC.fullmatch(text))
        ):
            return False
        run = run_in_child(LIMITS, full_marks, self.data_set, self.configuration, self.entry, text)
        return not isinstance(run.outcome, ChildLimitError) and run.value()


@dataclass(frozen=True, slots=True)
class GymFamily:
    """The family of one data set. Its version is that of the package, the files of which are pinned
    (datasets.WHEEL): the form in which we ask must not change at it either."""

    data_set: str
    name: str
    summary: str
    difficulties: tuple[str, ...]  # the default configuration, and the levels of its curriculum
    version: str = VERSION

    def parameters(self, difficulty: str) -> Mapping[str, int | float | str]:
        """The data set and its configuration. Raises GeneratorError for an unknown one."""
        if difficulty not in self.difficulties:
            raise unknown("difficulty", difficulty, self.difficulties)
        return {"data_set": self.data_set, "configuration": difficulty}

    def generate(self, difficulty: str, seed: Seed) -> TaskInstance:
        """The instance of a seed. Raises GeneratorError."""
        parameters = tuple(self.parameters(difficulty).items())
        made = make_entry(self.data_set, difficulty, seed)
        entry, key = repr(made), str(made["answer"])
        prompt = read_part(__package__, "prompt.txt")
        schema = answer_schema(self.name, {"answer": {"type": ["string", "number", "array"]}})
        truth = GroundTruth((("item", TruthTable.of_row(answer=key, entry=entry)),))
        check = FullMarks(self.data_set, difficulty, entry, key)
        full = Metarubric("answer", "SR", 10.0, _CRITERION, check, source="item")
        return make_instance(
            TaskSpec(self.name, self.version, difficulty, parameters),
            seed,
            Brief(prompt.format(question=made["question"], task=self.name), (), schema),
            truth,
            fill_rubric((*form_criteria(self.name, schema, 0.2), full), dict(truth.tables)),
        )

    def key(self, truth: GroundTruth) -> dict[str, Any]:
        """The answer block that scores full marks."""
        return self._block(str(truth.table("item").column("answer")[0]))

    def nulls(self, instance: TaskInstance) -> Mapping[str, dict[str, Any]]:
        """Nothing, the keys of other entries all at once, and the commonest of them."""
        keys = constants(self.data_set, instance.spec.difficulty)
        everything, prior = self._block("\n".join(keys)), self._block(keys[0])
        return {"empty": {}, "everything": everything, "prior": prior}

    def _block(self, answer: str) -> dict[str, Any]:
        return {"task": self.name, "answer": answer}


@cache
def constants(name: str, configuration: str) -> tuple[str, ...]:
    """The keys of some public entries, the commonest first. Raises GeneratorError."""
    seeds = (EXAMPLE_SEED.child("constants", number) for number in range(_GUESSED))
    keys = Counter(make_entry(name, configuration, seed)["answer"] for seed in seeds)
    return tuple(key for key, _ in keys.most_common())


def gym_family(name: str, version: str | None = None) -> GymFamily:
    """The family of a name, such as ``rg_gcd``. Raises GeneratorError for an unknown data set or
    version, and for a data set that cannot be used."""
    if version not in (None, VERSION):
        raise unknown(f"version of {name}", version, (VERSION,))
    data_set = name[len(PREFIX) :]
    summary = f"the data set {data_set} of {PACKAGE}, scored by its own scorer"
    return GymFamily(data_set, PREFIX + data_set, summary, configurations(data_set))
