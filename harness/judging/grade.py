"""Grades by a judge, of episodes that are stored: made once, kept for ever, each by its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from generators.grading import DIMENSIONS, Rubric, parse_answer, score_parts, score_verdicts
from generators.task import TaskInstance
from harness.agent import SingleTurnModel
from harness.build_model import JUDGES, build_model
from harness.codec import (
    decode_grade,
    decode_judgement,
    encode_grade,
    encode_judgement,
    encode_try,
)
from harness.episode import Episode, Grade, GradeStatus, StopReason
from harness.episodes import Verdicts
from harness.errors import HarnessError
from harness.external_agents import ExternalAgent
from harness.judging.judge import (
    Judge,
    Replies,
    Submission,
    is_asked,
    judge_criteria,
    prompt_digest,
    questions_of,
)
from harness.model import Reply, Try, Usage
from harness.spending import Judgement, Purpose
from harness.store_keys import grade_key, judge_try_key, judgement_key
from registry.ledger import JudgePin, ModelPin
from registry.sealing import decrypt, encrypt
from registry.stores import Store

_BUILT_IN = frozenset(f'"{agent}"' for agent in JUDGES)  # as a pin spells them


def pin_judge(pin: ModelPin) -> JudgePin:
    """The judge that a model is: at temperature 0 unless its settings say otherwise or it is built
    in, and with the digest of how it is asked."""
    usual = {} if pin.provider == "scripted" else {"temperature": "0.0"}
    settings = {**usual, **dict(pin.settings)}
    return JudgePin(
        pin.name, pin.provider, pin.version, prompt_digest(), tuple(sorted(settings.items()))
    )


def build_judge(pin: JudgePin, folder: str = ".") -> Judge:
    """The judge of a pin. Raises HarnessError for what cannot be asked one question: built-in
    agents, agents behind servers, single-turn forms."""
    if pin.prompt != prompt_digest():
        raise HarnessError(f"judge {pin.name!r} is pinned with another prompt than this code's")
    settings = dict(pin.settings)
    if pin.provider == "scripted" and settings.get("agent") not in _BUILT_IN:
        raise HarnessError(
            f"judge {pin.name!r}: a built-in agent cannot judge, but for {', '.join(JUDGES)}; name "
            "a model"
        )
    structured = settings.pop("structured", "false") == "true"
    asked = ModelPin(pin.name, pin.provider, pin.version, tuple(settings.items()))
    model = build_model(asked, folder=folder)
    if isinstance(model, ExternalAgent | SingleTurnModel):
        raise HarnessError(
            f"judge {pin.name!r}: a judge is a plain model: no agent server, and no `mode`"
        )
    return Judge(pin, model, structured=structured)


@dataclass(frozen=True, slots=True)
class StoreReplies:
    """A judge's replies in a store, encrypted to the study, and the requests that failed.
    ``bought`` and ``failed`` grow by what is bought, and by what fails, from now on."""

    store: Store
    judge: str  # digest of its pin
    recipients: tuple[str, ...]
    identities: tuple[str, ...] = field(repr=False)
    purpose: Purpose
    bought: list[Usage] = field(default_factory=list, compare=False)
    failed: Counter[str] = field(default_factory=Counter, compare=False)  # by class

    def load(self, call: str, tried: int) -> Reply | None:
        key = judgement_key(self.judge, call, tried)
        if not self.store.exists(key):
            return None
        return decode_judgement(decrypt(self.store.get(key), self.identities, key), key).reply

    def save(self, call: str, tried: int, reply: Reply) -> Reply:
        self.bought.append(reply.usage)
        key = judgement_key(self.judge, call, tried)
        data = encode_judgement(Judgement(reply, self.purpose))
        if self.store.put(key, encrypt(data, self.recipients)):
            return reply
        kept = self.load(call, tried)
        return reply if kept is None else kept

    def keep_try(self, call: str, tried: int, failed: Try) -> None:
        self.failed[failed.kind] += 1
        sealed = encrypt(encode_try(failed), self.recipients)
        for number in count():
            if self.store.put(judge_try_key(self.judge, call, tried, number), sealed):
                return


def purpose_of(pin: JudgePin, wave: int | None = None, episode: str = "") -> Purpose:
    """What a reply of this judge is bought for."""
    return Purpose(pin.name, pin.provider, pin.version, wave, episode)


def judge_episode(
    judge: Judge,
    instance: TaskInstance,
    episode: Episode,
    replies: Replies,
    look: int | None = None,
) -> Grade:
    """A judge's grade of an episode; at a later ``look``'s wave once more, by calls of their own.
    Nobody is asked about an attempt that the infrastructure failed, which has no grade, nor about
    an empty answer, which meets nothing.

    Raises AttemptFailed where the provider fails, HarnessError for another instance's episode.
    """
    if episode.instance != instance.id:
        raise HarnessError(f"episode {episode.id} belongs to another instance than the one given")
    rubric, name = instance.rubric, judge.pin.name
    if episode.stop is StopReason.FAILED:
        return _grade(episode, name, rubric, GradeStatus.MISSING, (None,) * len(rubric.criteria))
    answer = submitted(episode)
    if not answer.strip():
        none = tuple(False if is_asked(each) else None for each in rubric.criteria)
        return _grade(episode, name, rubric, GradeStatus.NO_ANSWER, none)
    verdicts = _judge_asked(judge, submission_of(instance, episode, look), rubric, replies)
    return _grade(episode, name, rubric, GradeStatus.GRADED, verdicts)


def submission_of(instance: TaskInstance, episode: Episode, look: int | None = None) -> Submission:
    """What a judge looks at of an episode. The same at each look, under another name."""
    salt = instance.id if look is None else f"{instance.id}/again at wave {look}"
    return Submission(instance.brief.prompt, submitted(episode), salt)


def _judge_asked(
    judge: Judge, submission: Submission, rubric: Rubric, replies: Replies
) -> Verdicts:
    """Verdicts on the criteria that a judge is asked about; None on the others."""
    found = iter(judge_criteria(judge, submission, questions_of(rubric), replies))
    return tuple(next(found) if is_asked(each) else None for each in rubric.criteria)


def submitted(episode: Episode) -> str:
    """All that was handed in, as text: the final message, then each file that counts under its
    name."""
    return "\n\n".join(part for part in _parts(episode) if part)


def _parts(episode: Episode) -> Iterator[str]:
    yield episode.answer
    # As the exact grader does: a valid block in the message leaves the file behind.
    if episode.answer_file is not None and parse_answer(episode.answer) is None:
        yield f"[file answer.json]\n{episode.answer_file.decode('utf-8', 'replace')}"
    for path, data in episode.answer_files:
        is_folder = path.endswith("/")
        yield (
            f"[folder {path}]" if is_folder else f"[file {path}]\n{data.decode('utf-8', 'replace')}"
        )


def keep_grade(
    store: Store, judge: str, grade: Grade, recipients: tuple[str, ...], look: int | None = None
) -> bool:
    """Keep a judge's grade under its name; False where there is one."""
    key = grade_key(judge, grade.episode, look)
    return store.put(key, encrypt(encode_grade(grade), recipients))


def read_grade(
    store: Store,
    judge: str,
    episode: str,
    identities: tuple[str, ...],
    look: int | None = None,
) -> Grade | None:
    """A judge's grade of an episode, that of the first time or of a later look; None where there
    is none. Raises BrokenPromise."""
    key = grade_key(judge, episode, look)
    if not store.exists(key):
        return None
    return decode_grade(decrypt(store.get(key), identities, key), key)


def _grade(
    episode: Episode, grader: str, rubric: Rubric, status: GradeStatus, verdicts: Verdicts
) -> Grade:
    score = 0.0 if status is GradeStatus.NO_ANSWER else score_verdicts(rubric, verdicts)
    key, static = score_parts(rubric, verdicts)
    return Grade(
        episode=episode.id,
        grader=grader,
        status=GradeStatus.MISSING if score is None else status,
        criteria=tuple(criterion.id for criterion in rubric.criteria),
        verdicts=verdicts,
        score=score,
        dimension_scores=tuple(
            (name, score_verdicts(rubric, verdicts, (name,))) for name in DIMENSIONS
        ),
        score_key=key,
        score_static=static,
    )
