"""The first study.yaml of a pool of questions: columns guessed from their names and contents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generators.items.family import FAMILY
from generators.items.item import LETTERS, Score, item_bytes
from generators.items.pool import ORDERED, Columns, Group, key_number, stratum_name
from generators.seed import EXAMPLE_SEED, Seed
from generators.title import split_headline
from study.errors import StudyError
from study.files import read_from_elsewhere
from study.protocol.pool import PoolSource, name_in, on_hub, pool_name, read_pool, read_rows
from study.protocol.yaml import quoted

_PROMPTS = ("question", "prompt", "problem", "input", "query", "instruction", "text")
_ANSWERS = (
    "answer", "key", "target", "label", "correct", "correct_answer", "answerkey", "solution",
    "gold", "reference", "reference_answer",
)  # fmt: skip
_LISTS = ("choices", "options", "endings")
_RUBRICS = ("rubric", "criteria", "grading_criteria")
_GROUPS = ("group", "passage", "passage_id", "document", "context_id", "story")
_CHOICE = re.compile(r"(?:option|choice|answer)?[ _]?([a-z]|[0-9]{1,2})", re.IGNORECASE)
_LETTERED = re.compile(r"(?:.*[ _])?([a-z]|[0-9]{1,2})", re.IGNORECASE)  # in any language
SHOWN = 3
_LETTER = "Answer with the letter of the right choice."


@dataclass(frozen=True, slots=True)
class GuessedPool:
    """The pool as study.yaml names it, and its groups."""

    source: PoolSource
    groups: tuple[Group, ...]

    def lines(self, folder: Path) -> str:
        """Return the task for study.yaml in ``folder``."""
        columns = self.source.columns
        keys = {
            "items": name_in(folder, self.source.path),
            "prompt": columns.prompt,
            "choices": columns.choices,
            "answer": columns.answer,
            "score": columns.score,
            "shuffle": columns.shuffle,
            "group": columns.group,
            "rubric": columns.rubric,
        }
        lines = [f"{name}: {_written(value)}" for name, value in keys.items() if value]
        lines.append("published: never   # if they were public before: the day; see docs/items.md")
        return "\n" + "\n".join(f"  {'- ' if n == 0 else '  '}{t}" for n, t in enumerate(lines))

    def examples(self) -> Iterator[str]:
        """Yield the first items as a model will see them, with their keys."""
        for group in self.groups[:SHOWN]:
            seed = Seed(EXAMPLE_SEED.value + item_bytes(group.items))
            made = FAMILY.generate(group.stratum, seed)
            key = ", ".join(map(str, FAMILY.key(made.truth).values()))
            yield f"{split_headline(made.brief.prompt)[1]}\n→ {key}"


def guess_pool(path: Path) -> GuessedPool:
    """Return the pool of a file by what its columns are called. Raises StudyError for a file that
    has no column for questions or answers, or with items that are not right."""
    place = path if on_hub(path) else path.resolve()
    try:
        rows = read_from_elsewhere(read_rows, place)
    except FileNotFoundError:
        raise StudyError(f"{path}: no such file") from None
    if not rows:
        raise StudyError(f"{path}: it has no rows")
    longest = max(rows[0], key=lambda name: sum(len(str(row[name])) for row in rows))
    prompt = _named(rows, _PROMPTS) or longest
    if (answer := _named(rows, _ANSWERS) or _lettered(rows, prompt)) is None:
        raise StudyError(
            f"{path}: no column {', '.join(_ANSWERS)}: rename that of the answers (columns, by the "
            f"file's first row: {', '.join(rows[0])}). Programs that tests score are agent tasks "
            "(docs/items.md)"
        )
    choices = _choices(rows, prompt, answer)
    score: Score = "choice" if choices else "exact"
    if not choices and all(key_number(row[answer]) is not None for row in rows):
        score = "number"
    group, rubric = _named(rows, _GROUPS), _named(rows, _RUBRICS)
    if rubric and score == "exact":
        score = "judge"
    columns = Columns(
        name=pool_name(place),
        prompt=f"{{{prompt}}}\n{_LETTER}" if choices else prompt,
        answer=answer,
        score=score,
        choices=choices,
        group=group if group and _repeats(rows, group) else "",
        rubric=rubric if rubric and score == "judge" else "",
        shuffle=bool(choices)
        and not any(ORDERED.search(str(row[c])) for row in rows for c in choices),
    )
    source = PoolSource(place, columns, "never", (stratum_name(columns.name),))
    return GuessedPool(source, read_pool(source))


def _named(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str | None:
    known = {name.lower().strip(): name for name in rows[0]}
    return next((known[name] for name in names if name in known), None)


def _choices(rows: Sequence[Mapping[str, Any]], prompt: str, answer: str) -> tuple[str, ...]:
    if listed := _named(rows, _LISTS):
        return (listed,)
    by_letter = all(
        len(letter := str(row[answer])) == 1 and letter.upper() in LETTERS for row in rows
    )
    form = _LETTERED if by_letter else _CHOICE
    others = [n for n in rows[0] if n not in (prompt, answer)]
    found = [(m[1].lower(), n) for n in others if (m := form.fullmatch(n))]
    return tuple(name for _, name in sorted(found)) if len(found) > 1 else ()


def _lettered(rows: Sequence[Mapping[str, Any]], prompt: str) -> str | None:
    """Return the column that has letters of choices alone, or the only one beside the questions."""
    others = [name for name in rows[0] if name != prompt]
    letters = [n for n in others if all(str(r[n]).strip().upper() in {*LETTERS} for r in rows)]
    found = [name for name in letters if _choices(rows, prompt, name)] or others
    return found[0] if len(found) == 1 else None


def _repeats(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    return len({str(row[name]) for row in rows}) < len(rows)


def _written(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(quoted, value))}]"
    return quoted(str(value))
