"""A data set of reasoning-gym as a task family without input files and without a solver."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from generators.child_process import ChildLimits, run_in_child
from generators.errors import ChildLimitError, unknown
from generators.family import answer_schema, form_criteria
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
_GUESSED = 20  # public entries, of whose keys the best constant answer is chosen

_PROMPT = """\
{question}

End with one JSON object between two lines of their own, as shown here, with nothing under \
`answer` but the answer itself, in the form that the question asks for:

<answer>
{{"task": "{task}", "answer": "…"}}
</answer>

You may instead write the same object to the file `answer.json` in the work folder.
"""


@dataclass(frozen=True, slots=True)
class FullMarks:
    """The data set's own scorer gives the answer full marks. It runs in a child process with
    limits; an answer that exceeds them gets none. ``source`` as in NumberPrecision."""

    data_set: str
    configuration: str
    entry: str  # a Python literal
    key: str
    source: str = "item.entry"

    def passes(self, answer: Answer) -> bool:
        """Report if the answer meets the check. Raises OSError if no child process starts, and
        GeneratorError without the package: neither is a wrong answer."""
        text = _text_of(answer.block.get("answer"))
        if text == self.key.strip():
            return True
        if not 0 < len(text) <= MAX_ANSWER or (
            self.data_set in EVALUATED and not (text.isascii() and _ARITHMETIC.fullmatch(text))
        ):
            return False
        asked = (self.data_set, self.configuration, self.entry, text)
        run = run_in_child(LIMITS, full_marks, *asked)
        return not isinstance(run.outcome, ChildLimitError) and run.value()


def _text_of(value: Any) -> str:
    """An answer as scorers take it: a text as it is, white space around it aside, other values as
    JSON, "" for none."""
    if value is None or isinstance(value, str):
        return (value or "").strip()
    try:
        return json.dumps(value)
    except RecursionError:
        return ""


@dataclass(frozen=True, slots=True)
class GymFamily:
    """The family of one data set."""

    data_set: str

    @property
    def name(self) -> str:
        """The data set's name after a prefix."""
        return PREFIX + self.data_set

    @property
    def version(self) -> str:
        """The version of the package. Its files are pinned (datasets.WHEEL), and the form in which
        we ask must not change at it either."""
        return VERSION

    @property
    def summary(self) -> str:
        """One line for people."""
        return f"the data set {self.data_set} of {PACKAGE}, scored by its own scorer"

    @property
    def difficulties(self) -> tuple[str, ...]:
        """The configurations that can be used: the default and the levels of its curriculum."""
        return configurations(self.data_set)

    def parameters(self, difficulty: str) -> Mapping[str, int | float | str]:
        """The data set and its configuration. Raises GeneratorError for an unknown one."""
        if difficulty not in self.difficulties:
            raise unknown("difficulty", difficulty, self.difficulties)
        return {"data_set": self.data_set, "configuration": difficulty}

    def generate(self, difficulty: str, seed: Seed) -> TaskInstance:
        """The instance of a seed. Raises GeneratorError."""
        spec = TaskSpec(
            self.name, self.version, difficulty, tuple(self.parameters(difficulty).items())
        )
        entry = make_entry(self.data_set, difficulty, seed)
        prompt = _PROMPT.format(question=entry["question"], task=self.name)
        item = TruthTable.of_row(answer=entry["answer"], entry=repr(entry))
        truth = GroundTruth((("item", item),))
        schema = answer_schema(self.name, {"answer": {"type": ["string", "number", "array"]}})
        full = Metarubric(
            "answer",
            "SR",
            10.0,
            "The answer is {answer}, or another to which the data set's own scorer gives full "
            "marks.",
            lambda row: FullMarks(self.data_set, difficulty, str(row["entry"]), str(row["answer"])),
            source="item",
        )
        rubric = fill_rubric((*form_criteria(self.name, schema, 0.2), full), dict(truth.tables))
        return make_instance(spec, seed, Brief(prompt, (), schema), truth, rubric)

    def key(self, truth: GroundTruth) -> dict[str, Any]:
        """The answer block that scores full marks."""
        return self._block(str(truth.table("item").column("answer")[0]))

    def nulls(self, instance: TaskInstance) -> Mapping[str, dict[str, Any]]:
        """Nothing, the keys of other entries all at once, and the best of them."""
        keys = constants(self.data_set, instance.spec.difficulty)
        return {
            "empty": {},
            "everything": self._block("\n".join(keys)),
            "prior": self._block(keys[0]),
        }

    def _block(self, answer: str) -> dict[str, Any]:
        return {"task": self.name, "answer": answer}


@cache
def constants(name: str, configuration: str) -> tuple[str, ...]:
    """The keys of some public entries, in front the one that gets full marks in most of them.
    Raises GeneratorError."""
    seeds = (EXAMPLE_SEED.child("constants", number) for number in range(_GUESSED))
    entries = [make_entry(name, configuration, seed) for seed in seeds]
    keys = dict.fromkeys(entry["answer"] for entry in entries)
    right = {
        key: sum(full_marks(name, configuration, repr(entry), key) for entry in entries)
        for key in keys
    }
    return tuple(sorted(keys, key=lambda key: -right[key]))


def gym_family(name: str, version: str | None = None) -> GymFamily:
    """The family of a name, such as ``rg_gcd``. Raises GeneratorError for an unknown data set or
    version, and for a data set that cannot be used."""
    if version not in (None, VERSION):
        raise unknown(f"version of {name}", version, (VERSION,))
    family = GymFamily(name[len(PREFIX) :])
    configurations(family.data_set)
    return family
