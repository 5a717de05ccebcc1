"""``dosimeter tasks``: what families there are, and instances of them for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generators.catalog import families, family
from generators.seed import Seed
from generators.task import DIFFICULTIES, TaskInstance
from study.newfolder import new_folder

if TYPE_CHECKING:
    from generators.validate import Survey

# The seed of every example that is shown; no study draws it.
EXAMPLE_SEED = Seed(bytes(32)).child("example")


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
    rubric: tuple[Mapping[str, Any], ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def list_tasks() -> list[dict[str, Any]]:
    """One record a family."""
    return [
        {
            "name": each.name,
            "version": each.version,
            "difficulties": list(DIFFICULTIES),
            "summary": each.summary,
        }
        for each in families()
    ]


def show_task(name: str, difficulty: str) -> TaskView:
    """Raises GeneratorError for an unknown name or difficulty."""
    found = family(name)
    parameters = dict(found.parameters(difficulty))
    example = found.generate(difficulty, EXAMPLE_SEED)
    return TaskView(
        name=found.name,
        version=found.version,
        difficulty=difficulty,
        summary=found.summary,
        parameters=parameters,
        prompt=example.brief.prompt,
        files=tuple(
            f"{a.path} ({a.media_type}, {len(a.data)} bytes)" for a in example.brief.assets
        ),
        rubric=tuple(
            {
                "criterion": criterion.id,
                "dimension": criterion.dimension,
                "weight": criterion.weight,
                "asks": criterion.text,
                "graded": "judge" if criterion.check is None else "exactly",
            }
            for criterion in example.rubric.criteria
        ),
    )


def make_task(name: str, difficulty: str, seed: str, out: Path, with_truth: bool) -> int:
    """Write an instance as an agent sees it; the number of files. Nothing is left half-written.

    Raises GeneratorError for a bad name, difficulty or seed, StudyError for a folder that is
    there already or cannot be written.
    """
    found = family(name)
    instance = found.generate(difficulty, Seed.from_hex(seed))
    with new_folder(out) as draft:
        return _write_instance(draft, instance, found.key(instance.truth), with_truth)


def check_tasks(names: Sequence[str], seeds: int, watch: Callable[[str, int, int], None]) -> Survey:
    """Each family of these names, or of the catalogue, measured at each difficulty.

    Raises GeneratorError for an unknown name and for a family that fails.
    """
    from generators.validate import survey

    chosen = [family(name) for name in dict.fromkeys(names)] if names else list(families())
    return survey(chosen, seeds, watch)


def _write_instance(
    folder: Path, instance: TaskInstance, key: Mapping[str, Any], with_truth: bool
) -> int:
    inputs = folder / "inputs"
    inputs.mkdir()
    for asset in instance.brief.assets:
        path = inputs / asset.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(asset.data)
    (folder / "prompt.md").write_text(instance.brief.prompt, encoding="utf-8")
    schema = json.dumps(json.loads(instance.brief.answer_schema), indent=2)
    (folder / "answer-schema.json").write_text(schema + "\n", encoding="utf-8")
    if with_truth:
        truth = {
            "instance": instance.id,
            "truth": instance.truth.as_json(),
            "rubric": instance.rubric.as_json(),
            "answer": key,
        }
        text = json.dumps(truth, indent=2, ensure_ascii=False)
        (folder / "truth.json").write_text(text + "\n", encoding="utf-8")
    return len(instance.brief.assets) + 2 + with_truth
