"""Answers to templated questions of which it is known whether they state what is right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from generators.answer import Answer
from generators.checks import Scored, passes
from generators.rubric import Rubric
from harness.questions import is_asked


@dataclass(frozen=True, slots=True)
class TextAnswer:
    """What was handed in, as a judge sees it, and whether it meets the question."""

    style: str
    answer: str
    truth: bool


def templated_check(rubric: Rubric) -> Scored | None:
    """The strict check of a templated question that a judge is asked about, if it is one."""
    for criterion in rubric.criteria:
        if isinstance(criterion.check, Scored) and is_asked(criterion):
            return criterion.check
    return None


def text_answers(
    check: Scored, others: Sequence[str], padding: str, planted: str, refusal: str
) -> Iterator[TextAnswer]:
    """Answers in each style that there can be. ``others`` are right answers to other instances,
    which are wrong here. What the lenient scorer does not see as it was meant is left out: there
    nobody knows the truth."""
    right = check.expected.strip()
    made = [("correct", "", right, True), ("verbose", padding, right, True)]
    wrong = next((text for text in others if not _holds(check, "", text)), None)
    if wrong is not None:
        made += [
            ("one value off", "", wrong, False),
            (
                "contradictory",
                f"At first I found this:\n{right}\nThat was a mistake.",
                wrong,
                False,
            ),
            ("injected", planted, wrong, False),
        ]
    for style, prose, content, truth in made:
        if _holds(check, prose, content) is truth:
            yield TextAnswer(style, _handed_in(check, prose, content), truth)
    yield TextAnswer("empty", refusal, False)


def _holds(check: Scored, prose: str, content: str) -> bool:
    lenient = Scored(check.scoring_type, check.expected, check.file, check.paths, lenient=True)
    if check.file:
        return passes(lenient, Answer({}, {check.file: content.encode()}, prose))
    return passes(lenient, Answer({}, {}, _said(prose, content)))


def _handed_in(check: Scored, prose: str, content: str) -> str:
    if check.file:
        return "\n\n".join(part for part in (prose, f"[file {check.file}]\n{content}") if part)
    return _said(prose, content)


def _said(prose: str, content: str) -> str:
    return f"{prose}\n\n{content}" if prose else content
