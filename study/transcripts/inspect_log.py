"""Episodes as Inspect AI's `.eval` logs (version 2 of its format): a ZIP of JSON members, which
`inspect view` opens and `inspect_ai.log.read_eval_log` reads.

Written from the format, without the library. What strangers wrote is kept as text: arguments of
a call never go deeper than one object, and images and long texts lie beside the events that
tell of them, as attachments.
"""

from __future__ import annotations

import base64
import json
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import IO, Any

from harness.episode import Episode, Grade, Step, StopReason, ToolUse
from harness.episodes import EpisodeResult
from harness.model import Message, ToolCall, Usage
from registry.canonical import digest_bytes, digest_value

Json = dict[str, Any]
VERSION = 2
SUFFIX = ".eval"
_LONG = 100  # characters; more of an event's text become an attachment, as Inspect has it
_EPOCH = (1980, 1, 1, 0, 0, 0)  # of every member, so that the same log has the same bytes
_ROLES_IN = ("system", "user")
_STOPS = {
    "stop": "stop", "end_turn": "stop", "tool_call": "tool_calls", "tool_calls": "tool_calls",
    "tool_use": "tool_calls", "length": "max_tokens", "max_tokens": "max_tokens",
    "content_filter": "content_filter",
}  # fmt: skip
_LIMITS = {
    StopReason.TURN_LIMIT: "turn",
    StopReason.TIME_LIMIT: "time",
    StopReason.TOKEN_LIMIT: "token",
    StopReason.COST_LIMIT: "cost",
    StopReason.CONTEXT_LIMIT: "context",
}
_REFUSALS = ("Error: ", "Refused: ")


@dataclass(frozen=True, slots=True)
class LogHead:
    """What one log is of: a model at one task and difficulty in one wave."""

    study: str
    wave: int
    task: str
    version: str
    difficulty: str
    model: str
    provider: str
    asked: str  # the model's version asked for
    created: str  # UTC, ISO 8601
    run: str
    commit: str
    dirty: bool
    sandbox: str
    image: str
    replicates: int
    turns: int | None  # the limits; None where nobody knows them any more
    seconds: float | None
    packages: tuple[tuple[str, str], ...]
    complete: bool  # no episode of it is owed any more

    @property
    def id(self) -> str:
        key = [self.study, self.wave, self.task, self.difficulty, self.model, self.run]
        return digest_value(key).removeprefix("sha256:")[:22]

    @property
    def file_name(self) -> str:
        """As Inspect names logs: time, task and id, parted by underscores."""
        stamp = self.created.replace(":", "-").replace("Z", "+00-00")
        task = f"{self.task}-{self.difficulty}".replace("_", "-").replace("/", "-")
        return f"{stamp}_{task}_{self.id}{SUFFIX}"


@dataclass(frozen=True, slots=True)
class Sampled:
    """An episode that has a result: the attempt that counts, and those that failed before."""

    seed: int
    episode: Episode
    result: EpisodeResult
    failed: tuple[Episode, ...] = ()
    judged: tuple[tuple[str, Grade], ...] = ()  # by each judge

    @property
    def grades(self) -> tuple[tuple[str, Grade], ...]:
        """By each grader: the exact one first, with the score that counts."""
        exact = replace(self.result.grade, score=self.result.score)
        return ((self.result.grader, exact), *self.judged)


def write_log(target: IO[bytes], head: LogHead, samples: Iterable[Sampled]) -> int:
    """Write a log, sample by sample; how many there were."""
    summaries: list[Json] = []
    seen: list[Sampled] = []
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in samples:
            sample = sample_json(head, each)
            _member(archive, f"samples/{sample['id']}_epoch_{sample['epoch']}.json", sample)
            summaries.append(_summary(sample))
            seen.append(each)
        start = {"version": VERSION, "eval": _spec(head, seen), "plan": _PLAN}
        _member(archive, "_journal/start.json", start)
        _member(archive, "_journal/summaries/1.json", summaries)
        _member(archive, "summaries.json", summaries)
        _member(archive, "header.json", start | _outcome(head, seen))
    return len(seen)


_PLAN: Json = {"name": "plan", "steps": [], "config": {}}


def _member(archive: zipfile.ZipFile, name: str, value: Any) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o600 << 16
    # Half a surrogate pair, which arguments may hold, is no text: readers would refuse it.
    archive.writestr(info, json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _spec(head: LogHead, seen: list[Sampled]) -> Json:
    seeds = sorted({each.seed for each in seen})
    return {
        "eval_id": head.id,
        "run_id": head.run.removeprefix("sha256:")[:22],
        "created": head.created,
        "task": f"{head.task}/{head.difficulty}",
        "task_id": head.id,
        "task_version": head.version,
        "task_attribs": {},
        "task_args": {"difficulty": head.difficulty, "wave": head.wave},
        "dataset": {
            "name": f"{head.study}: {head.task}/{head.difficulty}",
            "samples": len(seeds),
            "sample_ids": seeds,
            "shuffled": False,
        },
        "sandbox": {"type": head.sandbox},
        "model": head.model,
        "model_args": {"provider": head.provider, "version": head.asked},
        "config": {
            "epochs": head.replicates,
            "turn_limit": head.turns,
            "time_limit": None if head.seconds is None else round(head.seconds),
        },
        "revision": {"type": "git", "origin": "", "commit": head.commit, "dirty": head.dirty},
        "packages": dict(head.packages),
        "metadata": {"study": head.study, "wave": head.wave, "run": head.run, "image": head.image},
    }


def _outcome(head: LogHead, seen: list[Sampled]) -> Json:
    graders = dict.fromkeys(name for each in seen for name, _ in each.grades)
    ends = sorted(_at(each.episode, each.episode.seconds) for each in seen)
    return {
        "status": "success" if head.complete else "cancelled",
        "results": {
            "total_samples": len(seen),
            "completed_samples": sum(e.episode.stop is not StopReason.FAILED for e in seen),
            "scores": [_outcome_by(name, seen) for name in graders],
        },
        "stats": {
            "started_at": head.created,
            "completed_at": ends[-1] if ends else head.created,
            "model_usage": _model_usage(head.model, [each.episode.usage for each in seen]),
        },
    }


def _outcome_by(grader: str, seen: list[Sampled]) -> Json:
    """The mean of one grader's scores; what it gave none is counted, and in no mean."""
    grades = [grade for each in seen for name, grade in each.grades if name == grader]
    scores = [grade.score for grade in grades if grade.score is not None]
    mean = sum(scores) / len(scores) if scores else 0.0
    return {
        "name": grader,
        "scorer": grader,
        "scored_samples": len(scores),
        "unscored_samples": len(seen) - len(scores),
        "params": {},
        "metrics": {"mean": {"name": "mean", "value": mean, "params": {}}} if scores else {},
    }


def sample_json(head: LogHead, sampled: Sampled) -> Json:
    """One sample, as Inspect's EvalSample."""
    episode = sampled.episode
    log = _Conversation(head, sampled)
    messages = log.messages()
    sample: Json = {
        "id": sampled.seed,
        "epoch": episode.replicate + 1,
        "input": messages[: len(episode.opening)],
        "target": "",
        "sandbox": {"type": head.sandbox},
        "messages": messages,
        "output": _output(head, episode.steps[-1], messages[-1]) if episode.steps else {},
        "scores": _scores(sampled),
        "metadata": _metadata(sampled),
        "store": {},
        "events": list(log.events()),
        "model_usage": _model_usage(head.model, [episode.usage]),
        "started_at": _at(episode, 0),
        "completed_at": _at(episode, episode.seconds),
        "total_time": episode.seconds,
        "working_time": episode.seconds,
        "uuid": _hex(episode.id),
        "error_retries": [_error(each) for each in sampled.failed],
        "turn_count": len(episode.steps),
    }
    if episode.stop is StopReason.FAILED:
        sample["error"] = _error(episode)
    elif episode.stop in _LIMITS:
        sample["limit"] = _limit_of(head, sampled)
    return sample | {"attachments": log.attachments}


def _limit_of(head: LogHead, sampled: Sampled) -> Json:
    """The limit that an episode ended at. Of tokens and cost it tells what was used; likewise
    of turns and time where the limit itself is not known."""
    episode, used = sampled.episode, _usage(sampled.episode.usage)
    values = {
        StopReason.TURN_LIMIT: head.turns or sum(not step.prompt for step in episode.steps),
        StopReason.TIME_LIMIT: head.seconds or episode.seconds,
        StopReason.TOKEN_LIMIT: used["total_tokens"] if used else 0,
        StopReason.COST_LIMIT: sampled.result.cost_usd or 0,
        StopReason.CONTEXT_LIMIT: _longest(episode),
    }
    reason = f"stopped at its {_LIMITS[episode.stop]} limit"
    return {"type": _LIMITS[episode.stop], "limit": float(values[episode.stop]), "reason": reason}


def _longest(episode: Episode) -> int:
    """The tokens of the longest conversation that the model took; 0 where it did not tell."""
    usages = (step.reply.usage for step in episode.steps)
    return max(((each.input_tokens or 0) + (each.output_tokens or 0) for each in usages), default=0)


def _metadata(sampled: Sampled) -> Json:
    episode, result = sampled.episode, sampled.result
    return {
        "episode": episode.id,
        "attempt": episode.attempt,
        "attempts": result.attempts,
        "stop": str(episode.stop),
        "container": episode.container,
        "served_versions": list(dict.fromkeys(s.reply.served_version for s in episode.steps)),
        "retries": sum(step.reply.retries for step in episode.steps),
        "failed_tries": dict(episode.failed_tries),
        "inherited": episode.inherited,
        "image": episode.image,
    }


def _scores(sampled: Sampled) -> Json:
    """The grades, by grader; none where infrastructure failed, or a judge decided nothing, since
    missing is never zero."""
    result = sampled.result
    told = {"status": str(result.status), "passed": result.passed, "total": result.total}
    found = {
        name: _score(sampled, grade, _told(grade) if number else told)
        for number, (name, grade) in enumerate(sampled.grades)
    }
    return {name: score for name, score in found.items() if score is not None}


def _told(grade: Grade) -> Json:
    decided = [verdict for verdict in grade.verdicts if verdict is not None]
    return {"status": str(grade.status), "passed": sum(decided), "total": len(decided)}


def _score(sampled: Sampled, grade: Grade, told: Json) -> Json | None:
    if grade.score is None:
        return None
    verdicts = dict(zip(grade.criteria, grade.verdicts, strict=True))
    words = {True: "pass", False: "fail", None: "none"}
    return {
        "value": grade.score,
        "answer": sampled.episode.answer,
        "explanation": "\n".join(f"- {words[v]}: {name}" for name, v in verdicts.items()),
        "metadata": {
            **told,
            "criteria": verdicts,
            "dimensions": dict(grade.dimension_scores),
        },
    }


def _summary(sample: Json) -> Json:
    """As Inspect's EvalSampleSummary: what lists show, without the conversation."""
    opening = sample["input"][-1]["content"] if sample["input"] else ""
    told: Json = {
        name: sample[name]
        for name in (
            "id", "epoch", "target", "metadata", "scores", "model_usage", "started_at",
            "completed_at", "total_time", "working_time", "uuid", "turn_count",
        )
    }  # fmt: skip
    told |= {"input": opening if isinstance(opening, str) else "", "completed": True}
    told |= {"message_count": len(sample["messages"]), "retries": len(sample["error_retries"])}
    if "error" in sample:
        told["error"] = sample["error"]["message"]
    if "limit" in sample:
        told["limit"] = sample["limit"]["type"]
    return told


def _error(episode: Episode) -> Json:
    message = f"attempt {episode.attempt} failed: {episode.error_class or 'unknown'}"
    return {"message": message, "traceback": "", "traceback_ansi": ""}


def _usage(usage: Usage) -> Json | None:
    """Tokens; None as soon as one of them is unknown."""
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def _model_usage(model: str, usages: list[Usage]) -> Json:
    known = [told for each in usages if (told := _usage(each)) is not None]
    if not known or len(known) < len(usages):
        return {}
    return {model: {name: sum(each[name] for each in known) for name in known[0]}}


def _output(head: LogHead, step: Step, message: Json) -> Json:
    reply = step.reply
    spent = sum(use.seconds for use in step.uses)
    stop = "tool_calls" if reply.message.calls else _STOPS.get(reply.finish, "unknown")
    return {
        "model": reply.served_version or head.model,
        "choices": [{"message": message, "stop_reason": stop}],
        "usage": _usage(reply.usage),
        "time": round(max(step.seconds - spent, 0.0), 4),
    }


def _at(episode: Episode, seconds: float) -> str:
    begun = datetime.fromisoformat(episode.started.replace("Z", "+00:00"))
    return (begun + timedelta(seconds=seconds)).isoformat()


def _hex(*path: object) -> str:
    return digest_value([str(each) for each in path]).removeprefix("sha256:")[:32]


def read_arguments(call: ToolCall) -> tuple[Json, str | None]:
    """A call's arguments as one flat object, and what is wrong with them if they are none."""
    try:
        value = json.loads(call.arguments)
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
        return {k: v if isinstance(v, str) else json.dumps(v) for k, v in value.items()}, None
    except (ValueError, RecursionError):
        return {"arguments": call.arguments}, "the arguments are not one JSON object"


@dataclass(slots=True)
class _Conversation:
    """One sample's messages and events, and what was put beside them."""

    head: LogHead
    sampled: Sampled
    attachments: dict[str, str] = field(default_factory=dict)

    def messages(self) -> list[Json]:
        """All messages in order; tools' answers right after the calls."""
        return [*self._opening(), *(m for n in self._numbers() for m in self._turn(n))]

    def events(self) -> Iterator[Json]:
        """What happened, in order. Long texts are attachments."""
        episode, so_far, clock = self.sampled.episode, self._opening(), 0.0
        yield self._event("sample_init", 0.0, 0, sample=self._sample_of(so_far), state={})
        for number, step in enumerate(episode.steps):
            turn = self._turn(number)
            said = 1 if step.prompt else 0
            given, answer = [*so_far, *turn[:said]], turn[said]
            yield self._model_event(number, step, given, answer, clock)
            at = clock + max(step.seconds - sum(use.seconds for use in step.uses), 0.0)
            for index, use in enumerate(step.uses):
                yield self._tool_event(number, index, step, use, at)
                at += use.seconds
            so_far, clock = [*so_far, *turn], clock + step.seconds
        if episode.stop is StopReason.FAILED:
            yield self._event("error", clock, "end", error=_error(episode))
        for name, score in _scores(self.sampled).items():
            yield self._event("score", clock, name, score=score, scorer=name, intermediate=False)

    def _numbers(self) -> range:
        return range(len(self.sampled.episode.steps))

    def _sample_of(self, opening: list[Json]) -> Json:
        return {
            "input": [self._condense(each) for each in opening],
            "target": "",
            "id": self.sampled.seed,
        }

    def _opening(self) -> list[Json]:
        opening = self.sampled.episode.opening
        return [self._message(each, "open", n) for n, each in enumerate(opening)]

    def _turn(self, number: int) -> list[Json]:
        """What the harness said before the turn, if anything, the reply, the tools' answers."""
        step = self.sampled.episode.steps[number]
        asked = [self._plain("user", step.prompt, "ask", number)] if step.prompt else []
        reply = self._message(step.reply.message, "reply", number)
        answers = [self._answer(use, number, index) for index, use in enumerate(step.uses)]
        return [*asked, reply, *answers]

    def _plain(self, role: str, text: str, *path: object) -> Json:
        return {"id": self._id(*path), "role": role, "content": text, "source": "input"}

    def _message(self, message: Message, *path: object) -> Json:
        role = str(message.role)
        made: Json = {"id": self._id(*path), "role": role, "content": self._content(message)}
        made["source"] = "input" if role in _ROLES_IN else "generate"
        if role == "assistant":
            made["model"] = self.head.model
        if message.calls:
            made["tool_calls"] = [self._call(call) for call in message.calls]
        return made

    def _call(self, call: ToolCall) -> Json:
        arguments, wrong = read_arguments(call)
        made = {"id": call.id, "function": call.name, "arguments": arguments, "type": "function"}
        return made if wrong is None else made | {"parse_error": wrong}

    def _answer(self, use: ToolUse, number: int, index: int) -> Json:
        made: Json = {
            "id": self._id("tool", number, index),
            "role": "tool",
            "content": self._content(use.result),
            "tool_call_id": use.call_id,
            "function": use.name,
        }
        error = _tool_error(use)
        return made if error is None else made | {"error": error}

    def _content(self, message: Message) -> str | list[Json]:
        if not message.images and not message.reasoning:
            return message.text
        thought = [{"type": "reasoning", "reasoning": message.reasoning}]
        images = [
            {"type": "image", "image": self._keep(_data_uri(image.media_type, image.data))}
            for image in message.images
        ]
        text = [{"type": "text", "text": message.text}]
        return [*(thought if message.reasoning else []), *text, *images]

    def _model_event(
        self, number: int, step: Step, given: list[Json], answer: Json, clock: float
    ) -> Json:
        output = _output(self.head, step, answer)
        return self._event(
            "model",
            clock,
            number,
            model=self.head.model,
            input=[self._condense(each) for each in given],
            tools=[],
            tool_choice="none" if step.prompt else "auto",
            config={},
            output=output,
            retries=step.reply.retries,
            completed=_at(self.sampled.episode, clock + output["time"]),
            working_time=output["time"],
        )

    def _tool_event(self, number: int, index: int, step: Step, use: ToolUse, at: float) -> Json:
        calls = step.reply.message.calls
        call = calls[index] if index < len(calls) else ToolCall(use.call_id, use.name, "{}")
        made = self._event(
            "tool",
            at,
            f"{number}-{index}",
            type="function",
            id=use.call_id,
            function=use.name,
            arguments=read_arguments(call)[0],
            result=self._content(use.result),
            completed=_at(self.sampled.episode, at + use.seconds),
            working_time=use.seconds,
            message_id=self._id("tool", number, index),
            metadata={"exit_code": use.exit_code, "limits": list(use.limits)},
        )
        error = _tool_error(use)
        return made if error is None else made | {"error": error}

    def _event(self, kind: str, clock: float, place: object, **parts: Any) -> Json:
        return {
            "event": kind,
            "uuid": self._id("event", kind, place),
            "timestamp": _at(self.sampled.episode, clock),
            "working_start": round(clock, 4),
            **parts,
        }

    def _condense(self, message: Json) -> Json:
        """A message of an event, long texts of its content as attachments: Inspect looks for
        references there, and in no other text."""
        content = message["content"]
        if isinstance(content, str):
            return message | {"content": self._shorten(content)}
        return message | {"content": [self._condense_part(part) for part in content]}

    def _condense_part(self, part: Json) -> Json:
        name = part["type"]
        return part if name == "image" else part | {name: self._shorten(part[name])}

    def _shorten(self, text: str) -> str:
        return self._keep(text) if len(text) > _LONG else text

    def _keep(self, text: str) -> str:
        name = digest_bytes(text.encode("utf-8", "replace")).removeprefix("sha256:")[:32]
        self.attachments[name] = text
        return f"attachment://{name}"

    def _id(self, *path: object) -> str:
        return _hex(self.sampled.episode.id, self.sampled.episode.attempt, *path)


def _tool_error(use: ToolUse) -> Json | None:
    """What Inspect shows in red: a refusal, or a limit that was hit."""
    if use.limits:
        kind = "timeout" if "time" in use.limits else "limit"
        return {"type": kind, "message": f"limits hit: {', '.join(use.limits)}"}
    if use.exit_code is None and use.result.text.startswith(_REFUSALS):
        return {"type": "unknown", "message": use.result.text[:_LONG]}
    return None


def _data_uri(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


__all__ = ["SUFFIX", "LogHead", "Sampled", "sample_json", "write_log"]
