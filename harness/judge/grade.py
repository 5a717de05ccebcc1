"""A judge's grades of stored episodes: each is made once and stored under a name of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from generators.grading.answer import Answer
from generators.grading.programs import needs_runs
from generators.grading.rubric import Part, Rubric, check_facts
from generators.task import Brief, TaskInstance
from harness.build_model import build_plain_model
from harness.episode import Episode, Grade, GradeStatus, StopReason
from harness.episodes.grading import make_grade, read_answer
from harness.errors import HarnessError
from harness.judge.judge import (
    Journals,
    Judge,
    Submission,
    is_judged,
    judge_criteria,
    prompt_digest,
    questions_of,
)
from harness.models.settings import JUDGES, ScriptedSettings, settings_of
from harness.storage import GRADE_CODEC, grade_key
from registry.ledger.records import ELSEWHERE, JudgePin, ModelPin
from registry.sealing import Keys
from registry.stores.base import Store


def pin_judge(pin: ModelPin) -> JudgePin:
    """Return a model's pin as a judge: at temperature 0 unless its settings state another or it is
    built in, and with the digest of its prompt."""
    defaults = {} if pin.provider == "scripted" else {"temperature": "0.0"}
    settings = {**defaults, **dict(pin.settings)}
    return JudgePin(
        pin.name, pin.provider, pin.version, prompt_digest(), tuple(sorted(settings.items()))
    )


def build_judge(
    pin: JudgePin, folder: str = ".", environment: Mapping[str, str] | None = None
) -> Judge:
    """Return the judge of a pin; keys come from the environment, as those of models do. Raises
    HarnessError for what cannot be asked one question: built-in agents and agent servers."""
    if pin.prompt != prompt_digest():
        raise HarnessError(f"judge {pin.name!r} is pinned with another prompt than this code's")
    settings = settings_of(pin)
    if isinstance(settings, ScriptedSettings):
        raise HarnessError(
            f"judge {pin.name!r}: a built-in agent cannot judge, but for {', '.join(JUDGES)}; name "
            "a model"
        )
    model_pin = ModelPin(pin.name, pin.provider, pin.version, pin.settings)
    model = build_plain_model(model_pin, environment, folder)
    return Judge(pin, model, structured=bool(settings.structured))


def judge_episode(
    judge: Judge,
    instance: TaskInstance,
    episode: Episode,
    journals: Journals,
    look: int | None = None,
) -> Grade:
    """Return a judge's grade of an episode; at a later ``look``'s wave once more, by calls of its
    own. No call is made about an attempt that the infrastructure failed, or that a log from
    elsewhere has a score of and no answer, which has no grade, or about an empty answer, which
    meets no criterion. The judge decides facts; the gates before them
    are applied to its verdicts here. What a program printed is decided by its runs.

    Raises AttemptFailed if the provider fails, HarnessError for another instance's episode.
    """
    if episode.instance != instance.id:
        raise HarnessError(f"episode {episode.id} belongs to another instance than the one given")
    rubric, name = instance.rubric, judge.pin.name
    unread = episode.container == ELSEWHERE and not episode.steps
    if episode.stop is StopReason.FAILED or unread:
        undecided = (None,) * len(rubric.parts)
        return make_grade(episode, name, rubric, GradeStatus.MISSING, undecided)
    answer = submitted(instance.brief, episode)
    if not answer.strip():
        unmet = tuple(
            False if is_judged(part) else _seen_in_runs(part, None) for part in rubric.parts
        )
        return make_grade(episode, name, rubric, GradeStatus.NO_ANSWER, unmet)
    submission = submission_of(instance, episode, look)
    decided = iter(judge_criteria(judge, submission, questions_of(rubric), journals))
    block = read_answer(instance.brief, episode)
    facts = tuple(
        next(decided) if is_judged(part) else _seen_in_runs(part, block) for part in rubric.parts
    )
    grade = make_grade(episode, name, rubric, GradeStatus.GRADED, facts, block)
    return replace(grade, status=GradeStatus.MISSING) if grade.score is None else grade


def _seen_in_runs(part: Part, answer: Answer | None) -> bool | None:
    """The verdict on what the answer's program printed, which no judge is asked; None for all
    else."""
    return check_facts(Rubric((part,)), answer)[0] if needs_runs(part.check) else None


def submission_of(instance: TaskInstance, episode: Episode, look: int | None = None) -> Submission:
    """Return what a judge reads of an episode: the same at each look, under another salt."""
    salt = instance.id if look is None else f"{instance.id}/again at wave {look}"
    return Submission(instance.brief.prompt, submitted(instance.brief, episode), salt)


def submitted(brief: Brief, episode: Episode) -> str:
    """Return the whole answer as text: the final message, then each file that counts under its
    name. The block that exact grading reads stands at the end, unless the message has it in the
    form asked for: judges take the last block."""
    files = list(episode.answer_files)
    answer = read_answer(brief, episode) if brief.answer_schema else None
    if answer is None and episode.answer_file is not None:
        files.append(("answer.json", episode.answer_file))
    elif answer is not None and (answer.from_file or answer.repairs):
        place = "answer.json" if answer.from_file else "answer block, as it was read"
        block = f"<answer>\n{json.dumps(dict(answer.block))}\n</answer>"
        files.append((place, block.encode()))
    named = (
        f"[folder {path}]"
        if path.endswith("/")
        else f"[file {path}]\n{data.decode(errors='replace')}"
        for path, data in files
    )
    return "\n\n".join(part for part in (episode.answer, *named) if part)


def read_grade(
    store: Store, judge: str, episode: str, keys: Keys, look: int | None = None
) -> Grade | None:
    """Return a judge's grade of an episode, the first one or that of a later look; None if there
    is none. Raises BrokenPromise."""
    return GRADE_CODEC.find(store, grade_key(judge, episode, look), keys)
