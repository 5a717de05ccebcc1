"""Export of episodes as Inspect AI's logs: one for each model, task and wave.

They hold transcripts in plain text, by default those of the public arm only. Inspect's own
library (the extra ``inspect``) writes them. Models' output stays text: the arguments of a
call never go deeper than one object.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, groupby
from pathlib import Path
from statistics import fmean
from typing import Any

from generators.task import TaskSpec
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
    **dict.fromkeys(("stop", "end_turn", "reasoning_only", "open_thought"), "stop"),
    **dict.fromkeys(("length", "max_tokens"), "max_tokens"),
    "content_filter": "content_filter",
}
_WORDS = {True: "pass", False: "fail", None: "none"}


@dataclass(frozen=True, slots=True)
class LogHeader:
    """The subject of one log: a model at one task and difficulty in one wave."""

    manifest: RunManifest
    spec: TaskSpec
    model: ModelPin
    created: str  # UTC, ISO 8601
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


def export_inspect(study: Study, out: Path, wave: int | None, arm: str, reveal: bool) -> list[Json]:
    """Write the logs of the episodes that have a result into a new folder, whole or not at all,
    readable by its owner only; return a row for each log.

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
        return list(_write_logs(snapshot, draft, chosen))


def _write_logs(study: StudySnapshot, folder: Path, chosen: list[Listed]) -> Iterator[Json]:
    def key(listed: Listed) -> tuple[int, str, str]:
        return listed.wave, listed.cell.model, listed.cell.spec.stratum

    for (wave, model, stratum), group in groupby(sorted(chosen, key=key), key=key):
        episodes = list(group)
        logged = [_read_logged(study, e, e.result) for e in episodes if e.result]
        if logged:
            header = _header(study, episodes)
            write_log(folder / header.file_name, header, logged)
            row = {"log": header.file_name, "wave": wave, "task": stratum, "model": model}
            yield row | {"samples": len(logged)}


def _read_logged(study: Study, listed: Listed, result: EpisodeResult) -> LoggedEpisode:
    name = listed.cell.episode
    *failed, last = (stored_attempt(study, name, n) for n in range(1, result.attempt + 1))
    judged = grades_of(study, name, study.keys())
    return LoggedEpisode(listed.seed, last, result, tuple(failed), judged)


def _header(study: StudySnapshot, episodes: list[Listed]) -> LogHeader:
    cell = episodes[0].cell
    manifest = study.waves[episodes[0].wave].manifest
    begun = study.ledger.find("run-manifest")
    return LogHeader(
        manifest,
        cell.spec,
        model=next(pin for pin in manifest.models if pin.name == cell.model),
        created=next(entry.time for entry in begun if entry.record == manifest),
        complete=all(listed.result is not None for listed in episodes),
    )


def write_log(path: Path, header: LogHeader, logged: list[LoggedEpisode]) -> None:
    """Write a log that its owner alone may read."""
    from inspect_ai.log import EvalLog, write_eval_log

    # Calls may hold halves of surrogate pairs, which no file can: they are replaced.
    text = json.dumps(_log_json(header, logged), ensure_ascii=False).encode("utf-8", "replace")
    write_eval_log(EvalLog.model_validate_json(text), path)
    path.chmod(0o600)


def _log_json(header: LogHeader, logged: list[LoggedEpisode]) -> Json:
    """The log as Inspect's EvalLog."""
    manifest, spec = header.manifest, header.spec
    seeds = sorted({sample.seed for sample in logged})
    return {
        "status": "success" if header.complete else "cancelled",
        "eval": {
            "eval_id": header.id,
            "run_id": header.run.removeprefix("sha256:")[:22],
            "created": header.created,
            "task": spec.stratum,
            "task_id": header.id,
            "task_version": spec.version,
            "dataset": {"name": manifest.study, "samples": len(seeds), "sample_ids": seeds},
            "model": header.model.name,
            "model_args": {"provider": header.model.provider, "version": header.model.version},
            "config": {"epochs": max(sample.episode.replicate for sample in logged) + 1},
            "metadata": {"study": manifest.study, "wave": manifest.wave, "run": header.run},
        },
        "results": {
            "total_samples": len(logged),
            "completed_samples": sum(e.episode.stop is not StopReason.FAILED for e in logged),
            "scores": [
                _mean_score(name, logged)
                for name in dict.fromkeys(name for sample in logged for name, _ in sample.grades)
            ],
        },
        "stats": {
            "started_at": header.created,
            "completed_at": max(_at(sample.episode, sample.episode.seconds) for sample in logged),
            "model_usage": _model_usage(header, *(sample.episode.usage for sample in logged)),
        },
        "samples": [_sample(header, sample) for sample in logged],
    }


def _mean_score(grader: str, logged: list[LoggedEpisode]) -> Json:
    """The mean of one grader's scores; episodes without a score are counted, and in no mean."""
    grades = [grade for sample in logged for name, grade in sample.grades if name == grader]
    scores = [grade.score for grade in grades if grade.score is not None]
    return {
        "name": grader,
        "scorer": grader,
        "scored_samples": len(scores),
        "unscored_samples": len(logged) - len(scores),
        "metrics": {"mean": {"name": "mean", "value": fmean(scores)}} if scores else {},
    }


def _sample(header: LogHeader, logged: LoggedEpisode) -> Json:
    """One episode as Inspect's EvalSample."""
    episode = logged.episode
    opening = [_message(header, message) for message in episode.opening]
    turns = [_turn(header, step) for step in episode.steps]
    messages = [*opening, *chain.from_iterable(turns)]
    sample: Json = {
        "id": logged.seed,
        "epoch": episode.replicate + 1,
        "input": opening,
        "target": "",
        "messages": messages,
        "output": _output(header, episode.steps[-1], turns[-1]) if turns else {},
        "scores": _scores(logged),
        "metadata": {"episode": episode.id, "attempt": episode.attempt, "stop": str(episode.stop)},
        "model_usage": _model_usage(header, episode.usage),
        "started_at": _at(episode, 0),
        "completed_at": _at(episode, episode.seconds),
        "total_time": episode.seconds,
        "error_retries": [_error(attempt) for attempt in logged.failed],
    }
    if episode.stop is StopReason.FAILED:
        sample["error"] = _error(episode)
    return sample


def _scores(logged: LoggedEpisode) -> Json:
    """The grade of each grader that gave a score: missing is never zero."""
    return {
        name: {
            "value": grade.score,
            "answer": logged.episode.answer,
            "explanation": "\n".join(
                f"- {_WORDS[verdict]}: {part}"
                for part, verdict in zip(grade.parts, grade.verdicts, strict=True)
            ),
        }
        for name, grade in logged.grades
        if grade.score is not None
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
    images = [{"type": "image", "image": image.url} for image in message.images]
    text = {"type": "text", "text": message.text}
    return [*(thought if message.reasoning else []), text, *images]


def _output(header: LogHeader, step: Turn, turn: list[Json]) -> Json:
    reply = step.reply
    stop = "tool_calls" if reply.message.calls else _STOPS.get(reply.finish, "unknown")
    return {
        "model": reply.served_version or header.model.name,
        "choices": [{"message": turn[bool(step.prompt)], "stop_reason": stop}],
        "usage": _usage(reply.usage),
    }


def _tool_error(use: ToolUse) -> Json | None:
    """The note that Inspect shows in red: limits that were hit, or a refusal."""
    if not use.limits and not was_refused(use):
        return None
    hit = f"limits hit: {', '.join(use.limits)}"
    return {"type": "unknown", "message": hit if use.limits else use.result.text[:100]}


def _at(episode: Episode, seconds: float) -> str:
    begun = datetime.fromisoformat(episode.started.replace("Z", "+00:00"))
    return (begun + timedelta(seconds=seconds)).isoformat()
