"""A run of a model on a sample, as any harness logs it, and how the values in a log are read."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from generators.yaml_lines import key_of
from study.errors import StudyError

M = TypeVar("M", bound=BaseModel)
NO_SCORE = "no score"
_WORDS = {"c": 1.0, "i": 0.0, "p": 0.5, "n": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of a model on a sample of a task, with its score by each grader; None where the run
    failed or the grader gave none. ``sample`` names what was asked, so that no other question of
    the task has that name, nor the same question another one."""

    model: str
    task: str
    sample: str
    scores: Mapping[str, float | None]
    error: str = ""  # what failed
    run: str = ""  # its own id; a run that is in several logs counts once
    columns: Mapping[str, Any] = field(default_factory=dict)  # of the row, beside these
    id: str = ""  # as the harness was given it
    answers: tuple[str, ...] = ()  # final texts, each an epoch
    epoch: int = 1  # of the first answer


@dataclass(frozen=True, slots=True)
class Log:
    samples: tuple[Sample, ...]
    warnings: tuple[str, ...] = ()
    harness: str = ""  # with its version, as far as the log states them


def digest_of(*parts: object) -> str:
    """Sixteen digits that name a question by its content."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def number_of(value: object, place: str) -> float | None:
    """A score of 0 to 1, in any of the forms that harnesses write; None for NaN, which marks what
    was not scored. Raises StudyError for any other value."""
    if isinstance(value, str) and value.strip().casefold() in _WORDS:
        return _WORDS[value.strip().casefold()]
    try:
        number = float(value) if isinstance(value, int | float | str) else math.inf
    except ValueError:
        number = math.inf
    if math.isnan(number):
        return None
    if not 0 <= number <= 1:
        shown = repr(value)[:40]
        raise StudyError(f"{place}: a score is a number from 0 to 1, or C or I; here is {shown}")
    return number


def parse_as(model: type[M], value: object, place: str, what: str) -> M:
    """A value in a form. Raises StudyError for another, which is then not ``what``."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        raise StudyError(
            f"{place}: not {what}: {key_of(first['loc']) or 'it'}: {first['msg']}"
        ) from None


def json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the place and the value of each line. Raises StudyError for what is no JSON."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                yield f"{path}:{number}", json.loads(line.decode("utf-8-sig"))
            except ValueError:
                raise StudyError(f"{path}:{number}: not a line of JSON in UTF-8") from None
