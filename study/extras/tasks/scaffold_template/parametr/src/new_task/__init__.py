"""A task of PARAMETR-Bench's form as a family. The original's four files lie unchanged in
``original``; its generator finds this module as ``src.task``. ``prompt.md`` is what agents read."""

from __future__ import annotations

import json
import runpy
import sys
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from generators import family
from generators.child_process import ChildLimits, run_in_child
from generators.errors import GeneratorError
from generators.grading.checks import ValueEquals
from generators.grading.rubric import Metarubric, Rubric, fill_rubric
from generators.seed import Streams
from generators.task import GroundTruth, Limits, Scalar, TruthTable

NAME = "new_task"
ORIGINAL = Path(__file__).with_name("original")
CONFIG = json.loads(family.read_part(__name__, "original/config.json"))
MEDIA_TYPES = {".csv": "text/csv", ".png": "image/png", ".jpg": "image/jpeg"}
PICTURE_BYTES = 65_536  # each PNG file is padded to it, so that its size shows nothing of it
TODO = ValueEquals(("todo",), True)  # the stub of a check, which no answer meets

# The criteria of metarubrics.json. A check reads the answer block; None leaves it to a judge.
METARUBRICS: tuple[Metarubric, ...] = ()


@dataclass(frozen=True, slots=True)
class Parameters(family.FamilyParameters):
    """A level of config.json."""

    level: str


class Task:
    """What the generator derives from."""

    def __init__(self, work: Path, difficulty: str, seed: int) -> None:
        self.folder, self.config, self.difficulty, self.seed = ORIGINAL, CONFIG, difficulty, seed
        self.input_dir, self.ground_truth_dir = work / "input_data", work / "ground_truth"
        self.input_dir.mkdir()
        self.ground_truth_dir.mkdir()
        self.ground_truth: dict[str, Any] = {}  # name → pandas.DataFrame

    def get_params(self) -> dict[str, Any]:
        """The parameters of the level, over the fixed ones."""
        return {**CONFIG.get("fixed_parameters", {}), **CONFIG["difficulties"][self.difficulty]}


def generate(level: str, seed: int) -> family.Drawn:
    """The input files and the truth that the generator makes. Raises GeneratorError."""
    sys.modules["src.task"] = sys.modules[__name__]
    files = family.InputFiles()
    try:
        with TemporaryDirectory() as work:
            defined = runpy.run_path(str(ORIGINAL / "generate.py")).values()
            own = [one for one in defined if isinstance(one, type) and issubclass(one, Task)]
            task: Any = own[-1](Path(work), level, seed)
            (getattr(task, "_generate", None) or task.generate_task)()
            for path in sorted(filter(Path.is_file, task.input_dir.rglob("*"))):
                kind, data = MEDIA_TYPES.get(path.suffix, "text/plain"), path.read_bytes()
                data = family.pad_png(data, PICTURE_BYTES) if kind == "image/png" else data
                files.add_text(str(path.relative_to(task.input_dir)), kind, data)
        truth = GroundTruth(tuple((name, as_table(t)) for name, t in task.ground_truth.items()))
        make_rubric(truth)  # a column that it misses is an error of the original, too
    except Exception as error:
        raise GeneratorError(f"{ORIGINAL}: {type(error).__name__}: {error}") from None
    return family.Drawn(files, truth, {})


def as_table(frame: Any) -> TruthTable:
    """A pandas.DataFrame as a table of truth."""
    rows = tuple(tuple(map(as_cell, row.values())) for row in frame.to_dict("records"))
    return TruthTable(tuple(map(str, frame.columns)), rows)


def as_cell(value: Any) -> Scalar:
    """A number, to twelve digits, which all machines agree on; all else as text."""
    if type(value) is float and isfinite(value):
        return float(f"{value:.12g}")
    return value if type(value) is int else str(value)


def draw(parameters: Parameters, streams: Streams) -> family.Drawn:
    """The input files and the truth of one seed, of which the original takes 32 bits."""
    limits, seed = ChildLimits(600, 4_000_000_000), streams.at("original").word() >> 32
    return run_in_child(limits, generate, parameters.level, seed).value()


ANSWER_SCHEMA = family.answer_schema(NAME, {})


def make_key(truth: GroundTruth) -> dict[str, Any]:
    """The answer block that scores full marks."""
    return {"task": NAME}


def make_rubric(truth: GroundTruth) -> Rubric:
    """The criteria of an instance with this truth."""
    form = family.form_criteria(NAME, ANSWER_SCHEMA, 0.2)
    return fill_rubric((*form, *METARUBRICS), dict(truth.tables))


def make_nulls(parameters: Parameters) -> dict[str, dict[str, Any]]:
    """By name: answers of an agent that opens no file."""
    return {"empty": {}, "everything": {"task": NAME}, "prior": {"task": NAME}}


FAMILY = family.FamilyOfParts(
    name=NAME,
    version="1",
    summary="a task that came from PARAMETR-Bench",
    package=__name__,
    by_difficulty={level: Parameters(level, limits=Limits()) for level in CONFIG["difficulties"]},
    draw=draw,
    prompt=family.read_part(__name__, "prompt.md").replace("{", "{{").replace("}", "}}"),
    answer_schema=ANSWER_SCHEMA,
    make_rubric=make_rubric,
    key=make_key,
    make_nulls=make_nulls,
    given=(),  # columns of the truth, as "table.column", that the input files state by design
)
