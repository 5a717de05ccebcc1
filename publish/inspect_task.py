"""``eval.yaml``: a release as tasks of Inspect, which its reader of the Hub's data sets runs.

That reader takes one text, one picture and one target a row, and Inspect's own scorers only. Of
these ``pattern`` has the form of our rule for a letter. Of any other answer it counts only the
block that is written as the key is, so that its score is a lower bound. ``scorer.py`` scores such
a log by the study's rules; ``dosimeter import inspect`` does the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from publish.dataset_card import ReleaseText

EVAL, SCORER = "eval.yaml", "scorer.py"
SCORER_TEXT: str = Path(__file__).with_name("scorer.py.txt").read_text(encoding="utf-8")
# The last answer block: the letter in it, if that is the whole answer, or the block.
PATTERN = (
    r'(?s).*<answer>\s*(?:\{\s*"answer"\s*:\s*"[(\[*]*([A-Za-z])[)\].:*]*"\s*\}|(\{.*?\}))'
    r"\s*</answer>"
)
_LETTER = re.compile("[A-Za-z]")
_METADATA = ("task", "version", "difficulty", "instance", "seed")


@dataclass(frozen=True, slots=True)
class Question:
    """An instance as one message: rules, prompt and input files as text, and a picture as a
    ``data:`` URI or ""."""

    text: str
    picture: str = ""


@dataclass(frozen=True, slots=True)
class AskedSplit:
    """A stratum in a split with a question in each row."""

    config: str
    split: str
    letters: bool  # each answer is a letter
    pictures: bool


class AskedSplits:
    """The splits of a release that Inspect runs from the Hub, found while their rows are
    written."""

    def __init__(self) -> None:
        self.splits: list[AskedSplit] = []

    def noted(
        self, stratum: str, split: str, rows: Iterable[dict[str, Any]]
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of a split, and then know whether Inspect runs it."""
        pairs = []
        for row in rows:
            pairs.append((row["target"], row["input_image"]))
            yield row
        if made := asked_split(stratum, split, pairs):
            self.splits.append(made)

    @property
    def configs(self) -> tuple[str, ...]:
        """The configurations of which it runs a split."""
        return tuple(dict.fromkeys(each.config for each in self.splits))

    def files(self, text: ReleaseText) -> dict[str, bytes]:
        """``eval.yaml`` and the scorer; none if it runs no split."""
        if not self.splits:
            return {}
        return {EVAL: eval_yaml(text, self.splits), SCORER: SCORER_TEXT.encode()}


def config_of(stratum: str) -> str:
    """Name of a stratum's folder, configuration and task: family-difficulty."""
    return stratum.replace("/", "-")


def question_columns(question: Question | None, key: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the columns that Inspect reads; None in each if the row has no question."""
    if question is None:
        return dict.fromkeys(("input", "input_image", "target"))
    return {"input": question.text, "input_image": question.picture, "target": _target(key)}


def _target(key: Mapping[str, Any]) -> str:
    """The letter that is the whole answer, or the answer block as JSON."""
    value = key.get("answer")
    if len(key) == 1 and isinstance(value, str) and _LETTER.fullmatch(value):
        return value
    return json.dumps(key, ensure_ascii=False)


def asked_split(
    stratum: str, split: str, rows: Iterable[tuple[str | None, str | None]]
) -> AskedSplit | None:
    """Return the task that rows of targets and pictures make; None if one has no question."""
    pairs = list(rows)
    if any(target is None for target, _ in pairs):
        return None
    letters = all(_LETTER.fullmatch(target or "") for target, _ in pairs)
    return AskedSplit(config_of(stratum), split, letters, any(picture for _, picture in pairs))


def eval_yaml(text: ReleaseText, asked: Iterable[AskedSplit]) -> bytes:
    """Return ``eval.yaml`` with a task for each split of a stratum."""
    import yaml

    place = text.repository or "OWNER/NAME"
    body = {
        "name": text.title,
        "description": f"Public arm of the study {text.study}, each task in a single turn.",
        "evaluation_framework": "inspect-ai",
        "tasks": [_task(each) for each in asked],
    }
    head = (
        f"# inspect eval hf/{place} --model PROVIDER/MODEL; then: dosimeter import inspect logs\n"
    )
    return (head + yaml.safe_dump(body, sort_keys=False, allow_unicode=True)).encode()


def _task(asked: AskedSplit) -> dict[str, Any]:
    fields: dict[str, Any] = {"input": "input", "target": "target"}
    if asked.pictures:
        fields["input_image"] = "input_image"
    suffix = "" if asked.split == "public" else f"-{asked.split}"
    return {
        "id": asked.config + suffix,
        "config": asked.config,
        "split": asked.split,
        "field_spec": fields | {"metadata": list(_METADATA)},
        "solvers": [{"name": "generate"}],
        "scorers": [
            {"name": "pattern", "args": {"pattern": PATTERN, "ignore_case": asked.letters}}
        ],
    }
