"""``dosimeter tasks``: list of the families, and instances of them for people."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generators.catalog import INSTALLED
from generators.seed import EXAMPLE_SEED, Seed
from generators.task import DIFFICULTIES, Brief, Family, TaskInstance
from study.files import new_folder, safe_place, write_file
from study.protocol.yaml import read_template

if TYPE_CHECKING:
    from generators.validation.result import Survey

MEDIUM = DIFFICULTIES[1]


@dataclass(frozen=True, slots=True)
class TaskView:
    """A family at a difficulty, with one example."""

    name: str
    version: str
    difficulty: str
    summary: str
    parameters: Mapping[str, int | float | str]
    prompt: str
    files: tuple[str, ...]
    single_turn: str  # how many tokens this form takes, or why there is none
    rubric: tuple[Mapping[str, Any], ...]

    def as_json(self) -> dict[str, Any]:
        """The value as plain JSON."""
        return asdict(self)


def list_tasks() -> list[dict[str, Any]]:
    """One record a family."""
    return [
        {
            "name": family.name,
            "version": family.version,
            "difficulties": list(DIFFICULTIES),
            "summary": family.summary,
        }
        for family in INSTALLED.families()
    ]


def make(name: str, difficulty: str = "medium", seed: str | None = None) -> TaskInstance:
    """Return the instance of a family for a seed of 64 hexadecimal digits; without one, the example
    of ``tasks show``. Raises GeneratorError for an unknown name or difficulty, or a bad seed."""
    drawn = EXAMPLE_SEED if seed is None else Seed.from_hex(seed)
    return INSTALLED.family(name).generate(difficulty, drawn)


def show_task(task: str) -> TaskView:
    """A ``family/difficulty``, or a family or template file at medium or its first question. Raises
    GeneratorError for an unknown name or difficulty, StudyError."""
    name, difficulty = _name_and_difficulty(task)
    family = _family(name)
    difficulty = difficulty or (getattr(family, "questions", None) or (MEDIUM,))[0]
    parameters = dict(family.parameters(difficulty))
    example = family.generate(difficulty, EXAMPLE_SEED)
    return TaskView(
        name=family.name,
        version=family.version,
        difficulty=difficulty,
        summary=family.summary,
        parameters=parameters,
        prompt=example.brief.prompt,
        files=tuple(
            f"{a.path} ({a.media_type}, {len(a.data)} bytes)" for a in example.brief.assets
        ),
        single_turn=_describe_single_turn(example.brief),
        rubric=tuple(
            {
                "part": part.id,
                "criterion": part.criterion,
                "dimension": part.dimension,
                "weight": part.weight,
                "asks": part.text,
                "graded": "judge" if part.check is None else "exactly",
            }
            for part in example.rubric.parts
        ),
    )


def _name_and_difficulty(task: str) -> tuple[str, str]:
    """Parse ``family/difficulty``; the difficulty is "" if it is left out."""
    if task.endswith((".yml", ".yaml")):
        return task, ""
    name, slash, difficulty = task.rpartition("/")
    return (name, difficulty) if slash else (task, "")


def _family(name: str) -> Family:
    """The family of a name, or of a template file or library template."""
    from generators.templates.family import template_family
    from generators.templates.library import NAMES

    if name in NAMES or name.endswith((".yml", ".yaml")):
        return template_family(*read_template(Path(), name))
    return INSTALLED.family(name)


def make_task(task: str, seed: str, out: Path, with_truth: bool = False) -> int:
    """Write an instance of a ``family/difficulty`` as an agent sees it; return the number of files.
    No partial output remains after a failure.

    Raises GeneratorError for a bad name, difficulty or seed, StudyError for a folder that is there
    already or cannot be written.
    """
    name, difficulty = _name_and_difficulty(task)
    family, drawn = INSTALLED.family(name), Seed.from_hex(seed)
    with new_folder(out) as draft:
        instance = family.generate(difficulty or MEDIUM, drawn)
        files = _write_brief(draft, instance.brief)
        if with_truth:
            _write_truth(draft, instance, family.key(instance.truth))
        return files + with_truth


def check_tasks(names: Sequence[str], seeds: int, watch: Callable[[str, int, int], None]) -> Survey:
    """Each family of these names, or of the catalogue, measured at each difficulty.

    Raises GeneratorError for an unknown name and for a family that fails.
    """
    from generators.validation.validate import survey

    chosen = (
        [INSTALLED.family(name) for name in dict.fromkeys(names)]
        if names
        else list(INSTALLED.families())
    )
    return survey(chosen, seeds, watch, os.cpu_count() or 1)


def _describe_single_turn(brief: Brief) -> str:
    from harness.agent.single_turn import single_turn
    from harness.errors import HarnessError

    try:
        made = single_turn(brief)
    except HarnessError as error:
        return str(error)
    return (
        f"about {made.tokens:,} tokens: {made.text_tokens:,} of text, "
        f"{made.picture_tokens:,} of pictures"
    )


def _write_brief(folder: Path, brief: Brief) -> int:
    """Write the prompt, the answer schema and, under ``inputs``, the input files."""
    for asset in brief.assets:
        path = folder / "inputs" / safe_place(asset.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(asset.data)
    write_file(folder / "prompt.md", brief.prompt)
    if brief.answer_schema:
        schema = json.dumps(json.loads(brief.answer_schema), indent=2)
        write_file(folder / "answer-schema.json", schema + "\n")
    return len(brief.assets) + 1 + bool(brief.answer_schema)


def _write_truth(folder: Path, instance: TaskInstance, key: Mapping[str, Any]) -> None:
    truth = {
        "instance": instance.id,
        "truth": instance.truth.as_json(),
        "rubric": instance.rubric.as_json(),
        "answer": key,
    }
    text = json.dumps(truth, indent=2, ensure_ascii=False)
    write_file(folder / "truth.json", text + "\n")
