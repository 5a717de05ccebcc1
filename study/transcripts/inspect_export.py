"""Export of episodes as Inspect AI's logs: one for each model, task and wave.

They hold transcripts in plain text, by default those of the public arm only. Inspect's own
library (the extra ``inspect``) writes them. What models wrote is kept as text: the arguments of a
call never go deeper than one object.
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

from harness.episode import Episode, Grade, StopReason, ToolUse, Turn
from harness.episodes import EpisodeResult
from harness.model import Message, ToolCall, Usage
from registry.canonical import digest_value
from registry.ledger import ModelPin, RunManifest, record_digest
from registry.result_row import Arm
from study.errors import StudyError
from study.files import new_folder
from study.judging import grades_of
from study.transcripts.find import (
    Listed,
    begun_waves,
    instance_of,
    list_episodes,
    read_attempt,
    require_key,
)
from study.workspace import Study, StudySnapshot, take_snapshot

Json = dict[str, Any]
_EPOCH = (1980, 1, 1, 0, 0, 0)  # of every member, so that the same log has the same bytes
_STOPS = {
    "stop": "stop",
    "end_turn": "stop",
    "tool_call": "tool_calls",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "content_filter": "content_filter",
}
_LIMITS = {
    StopReason.TURN_LIMIT: "turn",
    StopReason.TIME_LIMIT: "time",
    StopReason.TOKEN_LIMIT: "token",
    StopReason.COST_LIMIT: "cost",
    StopReason.CONTEXT_LIMIT: "context",
}
_REFUSALS = ("Error: ", "Refused: ")


@dataclass(frozen=True, slots=True)
class LogHeader:
    """What one log is about: a model at one task and difficulty in one wave."""

    study: str
    wave: int
    task: str
    version: str
    difficulty: str
    model: str
    provider: str
    requested_version: str
    created: str  # UTC, ISO 8601
    run: str
    commit: str
    dirty: bool
    sandbox: str
    image: str
    replicates: int
    turns: int | None  # the limits; None if the instance cannot be made any more
    seconds: float | None
    packages: tuple[tuple[str, str], ...]
    complete: bool  # no episode is owed any more

    @property
    def id(self) -> str:
        """A name that follows from what the log is about."""
        key = [self.study, self.wave, self.task, self.difficulty, self.model, self.run]
        return digest_value(key).removeprefix("sha256:")[:22]

    @property
    def file_name(self) -> str:
        """Time, task and id joined by underscores, as Inspect names its logs."""
        stamp = self.created.replace(":", "-").replace("Z", "+00-00")
        task = f"{self.task}-{self.difficulty}".replace("_", "-").replace("/", "-")
        return f"{stamp}_{task}_{self.id}.eval"


@dataclass(frozen=True, slots=True)
class LoggedEpisode:
    """An episode that has a result: the attempt that counts, and those that failed before."""

    seed: int
    episode: Episode
    result: EpisodeResult
    failed: tuple[Episode, ...] = ()
    judged: tuple[tuple[str, Grade], ...] = ()  # by each judge

    @property
    def grades(self) -> tuple[tuple[str, Grade], ...]:
        """The grade of each grader; first the exact one, with the score that counts."""
        exact = replace(self.result.grade, score=self.result.score)
        return ((self.result.grader, exact), *self.judged)


@dataclass(frozen=True, slots=True)
class ExportedLog:
    """One log that was written."""

    log: str
    wave: int
    task: str
    model: str
    samples: int


def export_inspect(
    study: Study, out: Path, wave: int | None, arm: str, reveal: bool
) -> tuple[ExportedLog, ...]:
    """Write the logs of the episodes that have a result into a new folder, whole or not at all,
    readable by its owner only.

    Raises StudyError where private episodes are asked for without ``reveal``, where there is
    nothing to write, or where ``out`` is there already.
    """
    if arm != Arm.PUBLIC and not reveal:
        raise StudyError(
            f"--arm {arm} writes private transcripts in plain text; add --reveal if that is "
            "meant, and keep the folder as you keep the key"
        )
    require_key(study, "dosimeter export")
    snapshot = take_snapshot(study)
    manifests = {manifest.wave: manifest for manifest in begun_waves(snapshot, wave)}
    chosen = _choose(snapshot, wave, arm)
    if not any(each.result for each in chosen):
        raise StudyError(f"no episode of the {arm} arm has a result yet: sweep its wave first")
    with new_folder(out) as draft:
        draft.chmod(0o700)
        return tuple(_write_logs(snapshot, draft, manifests, chosen))


def _choose(study: StudySnapshot, wave: int | None, arm: str) -> list[Listed]:
    arms = {entry.instance: str(entry.arm) for entry in study.entries()}
    return [e for e in list_episodes(study, wave) if arm in ("all", arms[e.cell.instance])]


def _write_logs(
    study: Study, folder: Path, manifests: dict[int, RunManifest], chosen: list[Listed]
) -> Iterator[ExportedLog]:
    def key(each: Listed) -> tuple[int, str, str]:
        return each.wave, each.cell.model, each.cell.spec.stratum

    for (wave, model, stratum), group in groupby(sorted(chosen, key=key), key=key):
        own = list(group)
        if not any(each.result for each in own):
            continue
        header = _header(study, manifests[wave], own)
        samples = (_sampled(study, each) for each in own if each.result is not None)
        count = write_log(folder / header.file_name, header, samples)
        yield ExportedLog(header.file_name, wave, stratum, model, count)


def _sampled(study: Study, listed: Listed) -> LoggedEpisode:
    result = listed.result
    if result is None:
        raise StudyError("an episode without a result is not exported")
    episode = listed.cell.episode
    earlier = range(1, result.attempt)
    return LoggedEpisode(
        listed.seed,
        read_attempt(study, episode, result.attempt),
        result,
        tuple(read_attempt(study, episode, attempt) for attempt in earlier),
        grades_of(study, episode, study.identities()),
    )


def _header(study: Study, manifest: RunManifest, own: list[Listed]) -> LogHeader:
    cell = own[0].cell
    entry = next(each for each in study.entries() if each.instance == cell.instance)
    instance = instance_of(study, entry)
    limits = None if instance is None else instance.brief.limits
    pin = _pin(manifest, cell.model)
    return LogHeader(
        study=manifest.study,
        wave=manifest.wave,
        task=cell.spec.family,
        version=cell.spec.version,
        difficulty=cell.spec.difficulty,
        model=cell.model,
        provider=pin.provider,
        requested_version=pin.version,
        created=_created(study, manifest),
        run=record_digest(manifest),
        commit=manifest.provenance.commit,
        dirty=manifest.provenance.dirty,
        sandbox=manifest.sandbox,
        image=manifest.provenance.image,
        replicates=manifest.replicates,
        turns=limits.turns if limits else None,
        seconds=limits.episode_seconds if limits else None,
        packages=manifest.provenance.packages,
        complete=all(each.result is not None for each in own),
    )


def _pin(manifest: RunManifest, model: str) -> ModelPin:
    return next(pin for pin in manifest.models if pin.name == model)


def _created(study: Study, manifest: RunManifest) -> str:
    """When the wave was begun."""
    entries = study.ledger.find("run-manifest")
    return next(entry.time for entry in entries if entry.record == manifest)


def write_log(path: Path, header: LogHeader, episodes: Iterable[LoggedEpisode]) -> int:
    """Write a log that its owner alone may read, and return how many samples it has.

    Raises StudyError if Inspect's library is not installed.
    """
    try:
        from inspect_ai.log import EvalLog, write_eval_log
    except ImportError as error:
        raise StudyError(
            "Inspect logs are written by Inspect's own library, which is not installed here: "
            "install dosimeter[inspect]"
        ) from error
    logged = list(episodes)
    log = EvalLog.model_validate(_as_text(_log_json(header, logged)))
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        draft = Path(folder, "log.eval")
        write_eval_log(log, draft)
        _copy_undated(draft, path)
    return len(logged)


def _as_text(value: Json) -> Json:
    """The value without halves of surrogate pairs, which calls may hold and no file can."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    clean: Json = json.loads(text)
    return clean


def _copy_undated(source: Path, target: Path) -> None:
    """Copy a ZIP without the times of its members."""
    handle = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with (
        os.fdopen(handle, "wb") as file,
        zipfile.ZipFile(source) as dated,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as undated,
    ):
        for name in dated.namelist():
            member = zipfile.ZipInfo(name, _EPOCH)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = 0o600 << 16
            undated.writestr(member, dated.read(name))


def _log_json(header: LogHeader, logged: list[LoggedEpisode]) -> Json:
    """The log as Inspect's EvalLog."""
    graders = dict.fromkeys(name for each in logged for name, _ in each.grades)
    ends = sorted(_at(each.episode, each.episode.seconds) for each in logged)
    return {
        "version": 2,
        "status": "success" if header.complete else "cancelled",
        "eval": _spec(header, sorted({each.seed for each in logged})),
        "results": {
            "total_samples": len(logged),
            "completed_samples": sum(e.episode.stop is not StopReason.FAILED for e in logged),
            "scores": [_mean_score(name, logged) for name in graders],
        },
        "stats": {
            "started_at": header.created,
            "completed_at": ends[-1] if ends else header.created,
            "model_usage": _model_usage(header.model, [each.episode.usage for each in logged]),
        },
        "samples": [_sample(header, each) for each in logged],
    }


def _spec(header: LogHeader, seeds: list[int]) -> Json:
    return {
        "eval_id": header.id,
        "run_id": header.run.removeprefix("sha256:")[:22],
        "created": header.created,
        "task": f"{header.task}/{header.difficulty}",
        "task_id": header.id,
        "task_version": header.version,
        "task_args": {"difficulty": header.difficulty, "wave": header.wave},
        "dataset": {
            "name": f"{header.study}: {header.task}/{header.difficulty}",
            "samples": len(seeds),
            "sample_ids": seeds,
            "shuffled": False,
        },
        "sandbox": {"type": header.sandbox},
        "model": header.model,
        "model_args": {"provider": header.provider, "version": header.requested_version},
        "config": {
            "epochs": header.replicates,
            "turn_limit": header.turns,
            "time_limit": None if header.seconds is None else round(header.seconds),
        },
        "revision": {"type": "git", "origin": "", "commit": header.commit, "dirty": header.dirty},
        "packages": dict(header.packages),
        "metadata": {
            "study": header.study,
            "wave": header.wave,
            "run": header.run,
            "image": header.image,
        },
    }


def _mean_score(grader: str, logged: list[LoggedEpisode]) -> Json:
    """The mean of one grader's scores; episodes without a score are counted, and in no mean."""
    grades = [grade for each in logged for name, grade in each.grades if name == grader]
    scores = [grade.score for grade in grades if grade.score is not None]
    mean = {"name": "mean", "value": sum(scores) / len(scores)} if scores else None
    return {
        "name": grader,
        "scorer": grader,
        "scored_samples": len(scores),
        "unscored_samples": len(logged) - len(scores),
        "metrics": {} if mean is None else {"mean": mean},
    }


def _sample(header: LogHeader, logged: LoggedEpisode) -> Json:
    """One episode as Inspect's EvalSample."""
    episode = logged.episode
    opening = [_message(header, episode, m, "open", n) for n, m in enumerate(episode.opening)]
    turns = [_turn(header, episode, number) for number in range(len(episode.steps))]
    messages = [*opening, *(message for turn in turns for message in turn)]
    sample: Json = {
        "id": logged.seed,
        "epoch": episode.replicate + 1,
        "input": opening,
        "target": "",
        "sandbox": {"type": header.sandbox},
        "messages": messages,
        "output": _output(header, episode.steps[-1], turns[-1]) if turns else {},
        "scores": _scores(logged),
        "metadata": _metadata(logged),
        "events": list(_events(header, logged, opening, turns)),
        "model_usage": _model_usage(header.model, [episode.usage]),
        "started_at": _at(episode, 0),
        "completed_at": _at(episode, episode.seconds),
        "total_time": episode.seconds,
        "working_time": episode.seconds,
        "uuid": _hex(episode.id),
        "error_retries": [_error(each) for each in logged.failed],
        "turn_count": len(episode.steps),
    }
    if episode.stop is StopReason.FAILED:
        sample["error"] = _error(episode)
    elif episode.stop in _LIMITS:
        sample["limit"] = _limit(header, logged)
    return sample


def _limit(header: LogHeader, logged: LoggedEpisode) -> Json:
    """The limit that an episode ended at: its value if known, else how much was used of it."""
    episode = logged.episode
    usage = _usage(episode.usage)
    requests = (step.reply.usage for step in episode.steps)
    context = max(((u.input_tokens or 0) + (u.output_tokens or 0) for u in requests), default=0)
    values = {
        StopReason.TURN_LIMIT: header.turns or sum(not step.prompt for step in episode.steps),
        StopReason.TIME_LIMIT: header.seconds or episode.seconds,
        StopReason.TOKEN_LIMIT: usage["total_tokens"] if usage else 0,
        StopReason.COST_LIMIT: logged.result.cost_usd or 0,
        StopReason.CONTEXT_LIMIT: context,
    }
    reason = f"stopped at its {_LIMITS[episode.stop]} limit"
    return {"type": _LIMITS[episode.stop], "limit": float(values[episode.stop]), "reason": reason}


def _metadata(logged: LoggedEpisode) -> Json:
    episode = logged.episode
    return {
        "episode": episode.id,
        "attempt": episode.attempt,
        "attempts": logged.result.attempts,
        "stop": str(episode.stop),
        "container": episode.container,
        "served_versions": list(dict.fromkeys(s.reply.served_version for s in episode.steps)),
        "retries": sum(step.reply.retries for step in episode.steps),
        "failed_tries": dict(episode.failed_tries),
        "inherited": episode.inherited,
        "image": episode.image,
    }


def _scores(logged: LoggedEpisode) -> Json:
    """The grade of each grader that gave a score: missing is never zero."""
    exact, *judges = (_score(logged, grade) for _, grade in logged.grades)
    result = logged.result
    exact["metadata"] |= {
        "status": str(result.status),
        "passed": result.passed,
        "total": result.total,
    }
    named = zip(logged.grades, (exact, *judges), strict=True)
    return {name: score for (name, grade), score in named if grade.score is not None}


def _score(logged: LoggedEpisode, grade: Grade) -> Json:
    verdicts = dict(zip(grade.criteria, grade.verdicts, strict=True))
    decided = [verdict for verdict in grade.verdicts if verdict is not None]
    words = {True: "pass", False: "fail", None: "none"}
    return {
        "value": grade.score,
        "answer": logged.episode.answer,
        "explanation": "\n".join(f"- {words[v]}: {name}" for name, v in verdicts.items()),
        "metadata": {
            "status": str(grade.status),
            "passed": sum(decided),
            "total": len(decided),
            "criteria": verdicts,
            "dimensions": dict(grade.dimension_scores),
        },
    }


def _error(episode: Episode) -> Json:
    message = f"attempt {episode.attempt} failed: {episode.error_class or 'unknown'}"
    return {"message": message, "traceback": "", "traceback_ansi": ""}


def _usage(usage: Usage) -> Json | None:
    """Tokens; None as soon as one count is unknown."""
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def _model_usage(model: str, usages: list[Usage]) -> Json:
    known = [counts for each in usages if (counts := _usage(each)) is not None]
    if not known or len(known) < len(usages):
        return {}
    return {model: {name: sum(each[name] for each in known) for name in known[0]}}


def _events(
    header: LogHeader, logged: LoggedEpisode, opening: list[Json], turns: list[list[Json]]
) -> Iterator[Json]:
    """What happened, in order."""
    episode, conversation, clock = logged.episode, list(opening), 0.0
    first = {"input": opening, "target": "", "id": logged.seed}
    yield _event(episode, "sample_init", 0.0, 0, sample=first, state={})
    for number, (step, turn) in enumerate(zip(episode.steps, turns, strict=True)):
        output = _output(header, step, turn)
        yield _event(
            episode,
            "model",
            clock,
            number,
            model=header.model,
            input=[*conversation, *turn[: _prompts(step)]],
            tools=[],
            tool_choice="none" if step.prompt else "auto",
            config={},
            output=output,
            retries=step.reply.retries,
            completed=_at(episode, clock + output["time"]),
            working_time=output["time"],
        )
        at = clock + max(step.seconds - sum(use.seconds for use in step.uses), 0.0)
        for index, use in enumerate(step.uses):
            yield _tool_event(episode, number, index, at)
            at += use.seconds
        conversation, clock = [*conversation, *turn], clock + step.seconds
    if episode.stop is StopReason.FAILED:
        yield _event(episode, "error", clock, "end", error=_error(episode))
    for name, score in _scores(logged).items():
        yield _event(episode, "score", clock, name, score=score, scorer=name, intermediate=False)


def _tool_event(episode: Episode, number: int, index: int, clock: float) -> Json:
    step = episode.steps[number]
    use, calls = step.uses[index], step.reply.message.calls
    call = calls[index] if index < len(calls) else ToolCall(use.call_id, use.name, "{}")
    return _event(
        episode,
        "tool",
        clock,
        f"{number}-{index}",
        type="function",
        id=use.call_id,
        function=use.name,
        arguments=_read_arguments(call)[0],
        result=_content(use.result),
        error=_tool_error(use),
        completed=_at(episode, clock + use.seconds),
        working_time=use.seconds,
        message_id=_id(episode, "tool", number, index),
        metadata={"exit_code": use.exit_code, "limits": list(use.limits)},
    )


def _event(episode: Episode, kind: str, clock: float, place: object, **parts: Any) -> Json:
    return {
        "event": kind,
        "uuid": _id(episode, "event", kind, place),
        "timestamp": _at(episode, clock),
        "working_start": round(clock, 4),
        **parts,
    }


def _turn(header: LogHeader, episode: Episode, number: int) -> list[Json]:
    """The harness's message before a turn, if there was one, the reply, the tools' answers."""
    step = episode.steps[number]
    prompt = {"id": _id(episode, "ask", number), "role": "user", "content": step.prompt}
    reply = _message(header, episode, step.reply.message, "reply", number)
    answers = [
        {
            "id": _id(episode, "tool", number, index),
            "role": "tool",
            "content": _content(use.result),
            "tool_call_id": use.call_id,
            "function": use.name,
            "error": _tool_error(use),
        }
        for index, use in enumerate(step.uses)
    ]
    return [*([prompt | {"source": "input"}] if step.prompt else []), reply, *answers]


def _message(header: LogHeader, episode: Episode, message: Message, *path: object) -> Json:
    role = str(message.role)
    made: Json = {"id": _id(episode, *path), "role": role, "content": _content(message)}
    made["source"] = "input" if role in ("system", "user") else "generate"
    if role == "assistant":
        made["model"] = header.model
    if message.calls:
        made["tool_calls"] = [_call(call) for call in message.calls]
    return made


def _call(call: ToolCall) -> Json:
    arguments, problem = _read_arguments(call)
    made = {"id": call.id, "function": call.name, "arguments": arguments, "type": "function"}
    return made | {"parse_error": problem}


def _read_arguments(call: ToolCall) -> tuple[Json, str | None]:
    """A call's arguments as one flat object, and why they are none, if so."""
    try:
        value = json.loads(call.arguments)
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
        return {k: v if isinstance(v, str) else json.dumps(v) for k, v in value.items()}, None
    except (ValueError, RecursionError):
        return {"arguments": call.arguments}, "the arguments are not one JSON object"


def _content(message: Message) -> str | list[Json]:
    if not message.images and not message.reasoning:
        return message.text
    thought = [{"type": "reasoning", "reasoning": message.reasoning}]
    images = [
        {
            "type": "image",
            "image": f"data:{image.media_type};base64,{base64.b64encode(image.data).decode()}",
        }
        for image in message.images
    ]
    text = {"type": "text", "text": message.text}
    return [*(thought if message.reasoning else []), text, *images]


def _prompts(step: Turn) -> int:
    """How many messages of a turn come before the model's reply."""
    return 1 if step.prompt else 0


def _output(header: LogHeader, step: Turn, turn: list[Json]) -> Json:
    reply = step.reply
    tool_seconds = sum(use.seconds for use in step.uses)
    stop = "tool_calls" if reply.message.calls else _STOPS.get(reply.finish, "unknown")
    return {
        "model": reply.served_version or header.model,
        "choices": [{"message": turn[_prompts(step)], "stop_reason": stop}],
        "usage": _usage(reply.usage),
        "time": round(max(step.seconds - tool_seconds, 0.0), 4),
    }


def _tool_error(use: ToolUse) -> Json | None:
    """What Inspect shows in red: a refusal, or a limit that was hit."""
    if use.limits:
        kind = "timeout" if "time" in use.limits else "limit"
        return {"type": kind, "message": f"limits hit: {', '.join(use.limits)}"}
    if use.exit_code is None and use.result.text.startswith(_REFUSALS):
        return {"type": "unknown", "message": use.result.text[:100]}
    return None


def _at(episode: Episode, seconds: float) -> str:
    begun = datetime.fromisoformat(episode.started.replace("Z", "+00:00"))
    return (begun + timedelta(seconds=seconds)).isoformat()


def _id(episode: Episode, *path: object) -> str:
    return _hex(episode.id, episode.attempt, *path)


def _hex(*path: object) -> str:
    return digest_value([str(each) for each in path]).removeprefix("sha256:")[:32]
