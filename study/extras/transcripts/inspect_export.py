"""Export of episodes as Inspect AI's logs: one for each model, task and wave.

They hold transcripts in plain text, by default those of the public arm only. Inspect's own
library (the extra ``inspect``) writes them. Models' output stays text: the arguments of a
call never go deeper than one object.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from generators.task import Limits, TaskSpec
from harness.episode import Episode, Grade, StopReason, ToolUse, Turn
from harness.episodes.result import EpisodeResult
from harness.model import Message, Usage
from registry.canonical import digest_value
from registry.ledger.records import ModelPin, RunManifest, record_digest
from registry.result_row import Arm
from study.errors import StudyError
from study.extras.judge.records import grades_of
from study.extras.transcripts.find import (
    Listed,
    begun_waves,
    instance_of,
    list_episodes,
    parse_arguments,
    require_key,
    stored_attempt,
    was_refused,
)
from study.files import new_folder
from study.steps.sweep.history import record_look
from study.workspace.snapshot import StudySnapshot, take_snapshot
from study.workspace.study import Study

Json = dict[str, Any]
_STOPS = {
    "stop": "stop",
    "end_turn": "stop",
    "reasoning_only": "stop",
    "open_thought": "stop",
    "tool_call": "tool_calls",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "content_filter": "content_filter",
}
_LIMITS = {
    StopReason.TURN_LIMIT: "turn",
    StopReason.TIME_LIMIT: "working",
    StopReason.TOKEN_LIMIT: "token",
    StopReason.COST_LIMIT: "cost",
    StopReason.CONTEXT_LIMIT: "context",
}


@dataclass(frozen=True, slots=True)
class LogHeader:
    """The subject of one log: a model at one task and difficulty in one wave."""

    manifest: RunManifest
    spec: TaskSpec
    model: ModelPin
    created: str  # UTC, ISO 8601
    limits: Limits | None  # None if the instance cannot be made any more
    complete: bool  # no episode is owed any more

    @property
    def run(self) -> str:
        """The digest of the run's manifest."""
        return record_digest(self.manifest)

    @property
    def id(self) -> str:
        """A name that follows from the subject of the log."""
        study, wave = self.manifest.study, self.manifest.wave
        key = [study, wave, self.spec.family, self.spec.difficulty, self.model.name, self.run]
        return digest_value(key).removeprefix("sha256:")[:22]

    @property
    def file_name(self) -> str:
        """Time, task and id joined by underscores, as Inspect names its logs."""
        stamp = self.created.replace(":", "-").replace("Z", "+00-00")
        task = self.spec.stratum.replace("_", "-").replace("/", "-")
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

    The episodes of an arm with their scores are a look, which the ledger records first. Raises
    StudyError where private episodes are asked for without ``reveal``, where there is nothing to
    write, where ``out`` is there already, or where the look cannot be recorded.
    """
    if arm != Arm.PUBLIC and not reveal:
        raise StudyError(
            f"--arm {arm} writes private transcripts in plain text; add --reveal if that is "
            "meant, and keep the folder as you keep the key"
        )
    require_key(study, "dosimeter export")
    snapshot = take_snapshot(study)
    begun_waves(snapshot, wave)
    arms = {entry.instance: entry.arm for entry in snapshot.entries()}
    chosen = [e for e in list_episodes(snapshot, wave) if arm in ("all", arms[e.cell.instance])]
    if not any(listed.result for listed in chosen):
        raise StudyError(f"no episode of the {arm} arm has a result yet: sweep its wave first")
    looked = [snapshot.waves[number] for number in sorted({listed.wave for listed in chosen})]
    with new_folder(out) as draft:
        record_look(snapshot, looked, f"export --arm {arm}")
        draft.chmod(0o700)
        return tuple(_write_logs(snapshot, draft, chosen))


def _write_logs(study: StudySnapshot, folder: Path, chosen: list[Listed]) -> Iterator[ExportedLog]:
    def key(listed: Listed) -> tuple[int, str, str]:
        return listed.wave, listed.cell.model, listed.cell.spec.stratum

    for (wave, model, stratum), group in groupby(sorted(chosen, key=key), key=key):
        episodes = list(group)
        logged = [_read_logged(study, e, e.result) for e in episodes if e.result]
        if logged:
            header = _header(study, episodes)
            write_log(folder / header.file_name, header, logged)
            yield ExportedLog(header.file_name, wave, stratum, model, len(logged))


def _read_logged(study: Study, listed: Listed, result: EpisodeResult) -> LoggedEpisode:
    name = listed.cell.episode
    *failed, last = (stored_attempt(study, name, n) for n in range(1, result.attempt + 1))
    judged = grades_of(study, name, study.keys())
    return LoggedEpisode(listed.seed, last, result, tuple(failed), judged)


def _header(study: StudySnapshot, episodes: list[Listed]) -> LogHeader:
    cell = episodes[0].cell
    manifest = study.waves[episodes[0].wave].manifest
    entry = next(drawn for drawn in study.entries() if drawn.instance == cell.instance)
    instance = instance_of(study, entry)
    begun = study.ledger.find("run-manifest")
    return LogHeader(
        manifest,
        cell.spec,
        model=next(pin for pin in manifest.models if pin.name == cell.model),
        created=next(entry.time for entry in begun if entry.record == manifest),
        limits=None if instance is None else instance.brief.limits,
        complete=all(listed.result is not None for listed in episodes),
    )


def write_log(path: Path, header: LogHeader, logged: list[LoggedEpisode]) -> None:
    """Write a log that its owner alone may read. Raises StudyError if Inspect's library is not
    installed."""
    try:
        from inspect_ai.log import EvalLog, write_eval_log
    except ImportError as error:
        raise StudyError(
            "Inspect logs are written by Inspect's own library, which is not installed here: "
            "install dosimeter[inspect]"
        ) from error
    # Calls may hold halves of surrogate pairs, which no file can: they are replaced.
    text = json.dumps(_log_json(header, logged), ensure_ascii=False).encode("utf-8", "replace")
    write_eval_log(EvalLog.model_validate_json(text), path)
    path.chmod(0o600)


def _log_json(header: LogHeader, logged: list[LoggedEpisode]) -> Json:
    """The log as Inspect's EvalLog."""
    graders = dict.fromkeys(name for sample in logged for name, _ in sample.grades)
    return {
        "version": 2,
        "status": "success" if header.complete else "cancelled",
        "eval": _spec(header, sorted({sample.seed for sample in logged})),
        "results": {
            "total_samples": len(logged),
            "completed_samples": sum(e.episode.stop is not StopReason.FAILED for e in logged),
            "scores": [_mean_score(name, logged) for name in graders],
        },
        "stats": {
            "started_at": header.created,
            "completed_at": max(_at(sample.episode, sample.episode.seconds) for sample in logged),
            "model_usage": _model_usage(header, *(sample.episode.usage for sample in logged)),
        },
        "samples": [_sample(header, sample) for sample in logged],
    }


def _spec(header: LogHeader, seeds: list[int]) -> Json:
    manifest, spec, limits = header.manifest, header.spec, header.limits
    provenance = manifest.provenance
    return {
        "eval_id": header.id,
        "run_id": header.run.removeprefix("sha256:")[:22],
        "created": header.created,
        "task": spec.stratum,
        "task_id": header.id,
        "task_version": spec.version,
        "task_args": {
            "difficulty": spec.difficulty,
            "wave": manifest.wave,
            "mode": "single_turn" if spec.stratum in manifest.single_turn else "agentic",
        },
        "dataset": {
            "name": f"{manifest.study}: {spec.stratum}",
            "samples": len(seeds),
            "sample_ids": seeds,
            "shuffled": False,
        },
        "sandbox": {"type": manifest.sandbox},
        "model": header.model.name,
        "model_args": {"provider": header.model.provider, "version": header.model.version},
        "config": {
            "epochs": dict(zip(manifest.models, manifest.replicates, strict=True))[header.model],
            "turn_limit": limits and limits.turns,
            "time_limit": limits and round(limits.wall_seconds),
            "working_limit": limits and round(limits.working_seconds),
        },
        "revision": {
            "type": "git",
            "origin": "",
            "commit": provenance.commit,
            "dirty": provenance.dirty,
        },
        "packages": dict(provenance.packages),
        "metadata": {
            "study": manifest.study,
            "wave": manifest.wave,
            "run": header.run,
            "image": provenance.image,
        },
    }


def _mean_score(grader: str, logged: list[LoggedEpisode]) -> Json:
    """The mean of one grader's scores; episodes without a score are counted, and in no mean."""
    grades = [grade for sample in logged for name, grade in sample.grades if name == grader]
    scores = [grade.score for grade in grades if grade.score is not None]
    mean = {"mean": {"name": "mean", "value": sum(scores) / len(scores)}} if scores else {}
    return {
        "name": grader,
        "scorer": grader,
        "scored_samples": len(scores),
        "unscored_samples": len(logged) - len(scores),
        "metrics": mean,
    }


def _sample(header: LogHeader, logged: LoggedEpisode) -> Json:
    """One episode as Inspect's EvalSample."""
    episode, result = logged.episode, logged.result
    opening = [_message(header, message) for message in episode.opening]
    turns = [_turn(header, step) for step in episode.steps]
    messages = [*opening, *chain.from_iterable(turns)]
    sample: Json = {
        "id": logged.seed,
        "epoch": episode.replicate + 1,
        "input": opening,
        "target": "",
        "sandbox": {"type": header.manifest.sandbox},
        "messages": messages,
        "output": _output(header, episode.steps[-1], turns[-1]) if turns else {},
        "scores": _scores(logged),
        "metadata": {
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
        },
        "model_usage": _model_usage(header, episode.usage),
        "started_at": _at(episode, 0),
        "completed_at": _at(episode, episode.seconds),
        "total_time": episode.seconds,
        "working_time": episode.seconds,
        "error_retries": [_error(attempt) for attempt in logged.failed],
        "turn_count": len(episode.steps),
    }
    if episode.stop is StopReason.FAILED:
        sample["error"] = _error(episode)
    elif episode.stop in _LIMITS:
        sample["limit"] = _limit(header.limits, logged)
    return sample


def _limit(limits: Limits | None, logged: LoggedEpisode) -> Json:
    """The limit that an episode ended at: its value if known, else how much was used of it."""
    episode = logged.episode
    usages = [step.reply.usage for step in episode.steps]
    turns = sum(step.closed is None for step in episode.steps)
    values = {
        StopReason.TURN_LIMIT: limits.turns if limits else turns,
        StopReason.TIME_LIMIT: limits.working_seconds if limits else episode.seconds,
        StopReason.TOKEN_LIMIT: (_usage(episode.usage) or {"total_tokens": 0})["total_tokens"],
        StopReason.COST_LIMIT: logged.result.cost_usd or 0,
        StopReason.CONTEXT_LIMIT: max(
            ((usage.input_tokens or 0) + (usage.output_tokens or 0) for usage in usages), default=0
        ),
    }
    reason = f"stopped at its {_LIMITS[episode.stop]} limit"
    return {"type": _LIMITS[episode.stop], "limit": float(values[episode.stop]), "reason": reason}


def _scores(logged: LoggedEpisode) -> Json:
    """The grade of each grader that gave a score: missing is never zero."""
    scores = {name: _score(logged, grade) for name, grade in logged.grades}
    result = logged.result
    scores[result.grader]["metadata"] |= {
        "status": str(result.status),
        "passed": result.passed,
        "total": result.total,
    }
    return {name: score for name, score in scores.items() if score["value"] is not None}


def _score(logged: LoggedEpisode, grade: Grade) -> Json:
    verdicts = dict(zip(grade.parts, grade.verdicts, strict=True))
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
            "parts": verdicts,
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


def _model_usage(header: LogHeader, *usages: Usage) -> Json:
    total = _usage(sum(usages, Usage(0, 0)))
    return {} if total is None else {header.model.name: total}


def _turn(header: LogHeader, step: Turn) -> list[Json]:
    """The harness's message before a turn, if there was one, the reply, the tools' answers."""
    prompt = {"role": "user", "content": step.prompt, "source": "input"}
    answers = [
        {
            "role": "tool",
            "content": _content(use.result),
            "tool_call_id": use.call_id,
            "function": use.name,
            "error": _tool_error(use),
        }
        for use in step.uses
    ]
    return [*([prompt] if step.prompt else []), _message(header, step.reply.message), *answers]


def _message(header: LogHeader, message: Message) -> Json:
    role = str(message.role)
    made: Json = {"role": role, "content": _content(message)}
    made["source"] = "input" if role in ("system", "user") else "generate"
    if role == "assistant":
        made["model"] = header.model.name
    if message.calls:
        made["tool_calls"] = [
            {"id": call.id, "function": call.name, "type": "function"} | _arguments(call.arguments)
            for call in message.calls
        ]
    return made


def _arguments(text: str) -> Json:
    """A call's arguments as one flat object, and the reason if they are none."""
    arguments = parse_arguments(text)
    if arguments is None:
        problem = "the arguments are not one JSON object"
        return {"arguments": {"arguments": text}, "parse_error": problem}
    return {"arguments": arguments, "parse_error": None}


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


def _output(header: LogHeader, step: Turn, turn: list[Json]) -> Json:
    reply = step.reply
    stop = "tool_calls" if reply.message.calls else _STOPS.get(reply.finish, "unknown")
    return {
        "model": reply.served_version or header.model.name,
        "choices": [{"message": turn[bool(step.prompt)], "stop_reason": stop}],
        "usage": _usage(reply.usage),
        "time": round(max(step.seconds - sum(use.seconds for use in step.uses), 0.0), 4),
    }


def _tool_error(use: ToolUse) -> Json | None:
    """The note that Inspect shows in red: a refusal, or a limit that was hit."""
    if use.limits:
        kind = "timeout" if "time" in use.limits else "limit"
        return {"type": kind, "message": f"limits hit: {', '.join(use.limits)}"}
    if was_refused(use):
        return {"type": "unknown", "message": use.result.text[:100]}
    return None


def _at(episode: Episode, seconds: float) -> str:
    begun = datetime.fromisoformat(episode.started.replace("Z", "+00:00"))
    return (begun + timedelta(seconds=seconds)).isoformat()
