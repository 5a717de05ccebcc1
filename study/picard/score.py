"""``dosimeter template score``: scores a run folder, writes ``scores.json``, prints the tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.markup import escape

from study.cli import print_json, print_records, stdout
from study.picard.run_folder import RunScores, disagreements, score_run, write_scores

_MOST_TOLD = 10  # samples that other scores have the other way


def score_folder(run: Path, remaps: Sequence[str], as_json: bool) -> None:
    """Score, write and print. Raises StudyError; then nothing is written."""
    scores = score_run(run, datetime.now(UTC), remaps)
    apart = disagreements(run, scores)
    path = write_scores(run, scores)
    if as_json:
        print_json({**scores.as_json(), "disagreements": apart, "written": str(path)})
        return
    head = scores.as_json()
    print_records(_rows("scoring type", head["by_scoring_type"]), False, title="By scoring type")
    print_records(_rows("question", head["by_question"]), False, title="By question")
    for line in (*_summary(scores, apart), f"wrote {path}"):
        stdout().print(escape(line), soft_wrap=True)


def _rows(name: str, groups: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            name: group,
            "samples": tally["total"],
            "strict": tally["correct"],
            "lenient": tally["lenient_correct"],
            "formatting failures": tally["formatting_failures"],
            "task failures": tally["task_failures"],
            "missing": tally["missing_responses"],
        }
        for group, tally in groups.items()
    ]


def _summary(scores: RunScores, apart: list[str] | None) -> list[str]:
    head = scores.as_json()["metadata"]
    lines = [
        f"{head['correct_answers']} of {head['total_questions']} right strictly "
        f"({head['accuracy_percentage']} %), {head['lenient_correct_answers']} leniently "
        f"({head['lenient_accuracy_percentage']} %)"
    ]
    lines += [f"warning: {told}" for told in scores.warnings]
    if apart == []:
        lines.append("the scores that were there agree on every sample")
    elif apart:
        more = f" and {len(apart) - _MOST_TOLD} more" if len(apart) > _MOST_TOLD else ""
        lines.append(
            f"the scores that were there, kept as scores.before.json, differ on {len(apart)}: "
            f"{', '.join(apart[:_MOST_TOLD])}{more}"
        )
    return lines
