"""Instances of Every Eval Ever, by instance_level_eval.schema.json."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from study.errors import StudyError
from study.extras.tables.sample import Log, Sample, digest_of, json_lines, number_of, parse_as


class _Asked(BaseModel):
    raw: Any = None
    reference: Any = None


class _Answered(BaseModel):
    raw: list[str] | str | None = None


class _Graded(BaseModel):
    score: float | str


class _Tokens(BaseModel):
    input_tokens: int | None = Field(default=None, ge=0)
    output_tokens: int | None = Field(default=None, ge=0)


class _Instance(BaseModel):
    """A line of instance_level_eval.schema.json, as far as it is read."""

    model_id: str = Field(min_length=1)
    evaluation_id: str = ""
    evaluation_name: str = Field(min_length=1)
    evaluation_result_id: str | None = None
    sample_id: str = Field(min_length=1, coerce_numbers_to_str=True)
    input: _Asked = _Asked()
    output: _Answered | None = None
    evaluation: _Graded
    token_usage: _Tokens | None = None
    error: Any = None
    metadata: dict[str, Any] | None = None

    @property
    def scorer(self) -> str:
        """The scorer, which Inspect's converter writes before each of its metrics."""
        name, colon, metric = (self.evaluation_result_id or "score").rpartition(":")
        return name if colon else metric

    @property
    def epoch(self) -> int:
        """The number of the run on the sample, from 1, as Inspect's converter notes it."""
        noted = str((self.metadata or {}).get("epoch", ""))
        return int(noted) if noted.isdecimal() and int(noted) else 1


def read_eee(path: Path) -> Log:
    """Instances of Every Eval Ever, which has a line for each metric of a run: lines of one run
    with other metrics are one sample, and a line that is there again is a further run."""
    runs: dict[tuple[object, ...], Sample] = {}
    lines: Counter[tuple[object, ...]] = Counter()
    for place, row in json_lines(path):
        one = parse_as(_Instance, row, place, "an instance of Every Eval Ever")
        asked = digest_of(one.input.raw, one.input.reference)
        subject = (one.model_id, one.evaluation_id, one.sample_id, asked, one.epoch)
        metric = (*subject, one.evaluation_result_id)
        run = (*subject, lines[metric])
        lines[metric] += 1
        score = None if one.error else number_of(one.evaluation.score, f"{place}: evaluation.score")
        if (before := runs.get(run)) is None:
            runs[run] = _eee_sample(one, asked, score, run)
        elif before.scores.get(one.scorer, score) != score:
            raise StudyError(f"{place}: a second score by {one.scorer} of one run")
        else:
            runs[run] = replace(before, scores={**before.scores, one.scorer: score})
    return Log(tuple(runs.values()), (), "a harness that Every Eval Ever does not name")


def _eee_sample(one: _Instance, asked: str, score: float | None, run: tuple[object, ...]) -> Sample:
    text = one.output.raw if one.output else None
    return Sample(
        model=one.model_id,
        task=one.evaluation_name,
        sample=f"{one.sample_id}-{asked}",
        scores={} if one.error else {one.scorer: score},
        error="error" if one.error else "",
        run=digest_of(run, one.scorer) if one.evaluation_id else "",
        columns=one.token_usage.model_dump() if one.token_usage else {},
        id=one.sample_id,
        answers=(text,) if isinstance(text, str) else tuple(text or ())[-1:],
        epoch=one.epoch,
    )
