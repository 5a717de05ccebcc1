"""Results for the catalogues of others: records of Every Eval Ever 0.3.0 with a line for each
run, and rows for the folder ``.eval_results/`` of a model on the Hub.

They hold what anybody may know: runs on released instances and, once their seeds are revealed,
on private ones. Missing runs have no line, since the forms have no place for a missing score.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, groupby
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from uuid import UUID

from harness.episode import Episode, Mode, Turn
from harness.model import Message, Role
from publish.inspect_task import EVAL, config_of
from registry.canonical import digest_bytes
from registry.ledger.records import ModelPin
from registry.result_row import GRADER, Arm
from registry.sealing import DrawnInstance
from study.errors import StudyError
from study.extras.transcripts.find import (
    Listed,
    begun_waves,
    instance_of,
    list_episodes,
    parse_arguments,
    require_key,
    stored_attempt,
)
from study.files import new_folder
from study.steps.report.context import REPORTS
from study.steps.sweep.history import record_look
from study.workspace.snapshot import StudySnapshot, take_snapshot
from study.workspace.study import Study

Json = dict[str, Any]
_SCHEMA = "0.3.0"
_UNKNOWN = {"deployment_type": "unknown", "model_availability": "unknown"}


@dataclass(frozen=True, slots=True)
class Subject:
    """A model in a closed wave: its runs on open instances that have a result, and its row of the
    report through that wave, if the study's folder has it."""

    study: StudySnapshot
    wave: int
    pin: ModelPin
    closed: str  # UTC, ISO 8601
    runs: tuple[Listed, ...]
    entries: Mapping[str, DrawnInstance]
    revision: str  # of the newest release on the Hub, or ""
    verdict: Mapping[str, Any]

    @property
    def model_id(self) -> str:
        """The model as provider/version, as others name it."""
        return f"{self.pin.provider}/{self.pin.version}"

    @property
    def evaluation_id(self) -> str:
        """The name of this evaluation: study, model and time."""
        name = self.model_id.replace("/", "_")
        return f"{self.study.protocol.name}/{name}/{_epoch(self.closed)}"

    def parts(self) -> Iterator[tuple[str, Arm, list[Listed]]]:
        """Yield stratum, arm and runs, if one has a score."""

        def key(run: Listed) -> tuple[str, Arm]:
            return run.cell.spec.stratum, self.entries[run.cell.instance].arm

        for (stratum, arm), group in groupby(sorted(self.runs, key=key), key=key):
            if _scores(runs := list(group)):
                yield stratum, arm, runs


def export_results(study: Study, out: Path, wave: int | None, form: str) -> list[Json]:
    """Write the results of closed waves into a new folder, whole or not at all; return a row for
    each model. The ledger first records the look at scores by arm. Raises StudyError."""
    require_key(study, "dosimeter export")
    snapshot = take_snapshot(study)
    begun_waves(snapshot, wave)
    subjects = list(_subjects(snapshot, wave))
    if not subjects:
        raise StudyError("no closed wave has a result on a released instance: publish, then sweep")
    write = _write_eee if form == "eee" else _write_rows
    with new_folder(out) as draft:
        waves = [snapshot.waves[number] for number in sorted({each.wave for each in subjects})]
        record_look(snapshot, waves, "export results")
        return [write(draft, subject) for subject in subjects]


def _subjects(study: StudySnapshot, wave: int | None) -> Iterator[Subject]:
    entries = {entry.instance: entry for entry in _open_entries(study)}
    revision = next((e.record.revision for e in reversed(study.ledger.find("release"))), "")
    closed = {entry.record.wave: entry.time for entry in study.ledger.find("wave-closed")}
    runs = [
        run
        for run in list_episodes(study, wave)
        if run.wave in closed and run.result and run.cell.instance in entries
    ]

    def key(run: Listed) -> tuple[int, str]:
        return run.wave, run.cell.model

    for (number, model), group in groupby(sorted(runs, key=key), key=key):
        if not _scores(own := tuple(group)):
            continue
        pin = next(each for each in study.waves[number].manifest.models if each.name == model)
        yield Subject(
            study=study,
            wave=number,
            pin=pin,
            closed=closed[number],
            runs=own,
            entries=entries,
            revision=revision,
            verdict=_verdict(study, number, model),
        )


def _open_entries(study: Study) -> Iterator[DrawnInstance]:
    """Yield the instances that anybody may know: released, or with a seed that is revealed."""
    kinds = {Arm.PUBLIC: "release", Arm.PRIVATE: "revealed"}
    known = {
        arm: {tranche for each in study.ledger.find(kind) for tranche in each.record.tranches}
        for arm, kind in kinds.items()
    }
    yield from (entry for entry in study.entries() if entry.tranche in known[entry.arm])


def _verdict(study: Study, wave: int, model: str) -> Mapping[str, Any]:
    """The row of a model in the newest report that the ledger has through a wave; {} if it is not
    in the folder as it was issued."""
    issued = [e.record for e in study.ledger.find("report") if e.record.through_wave >= wave]
    for record in reversed(issued):
        path = study.folder / REPORTS / f"wave-{record.through_wave}" / "report.json"
        if path.is_file() and digest_bytes(data := path.read_bytes()) == record.report:
            rows = json.loads(data)["models"]
            found = [row for row in rows if (row["wave"], row["model"]) == (wave, model)]
            return found[0] if found else {}
    return {}


def _epoch(time: str) -> str:
    """A time in seconds since 1970."""
    return f"{datetime.fromisoformat(time.replace('Z', '+00:00')).timestamp():.0f}"


def _scores(runs: Sequence[Listed]) -> list[float]:
    return [run.result.score for run in runs if run.result and run.result.score is not None]


def _details(subject: Subject, arm: Arm, runs: Sequence[Listed]) -> dict[str, str]:
    """What the forms have no key for; all values are texts."""
    row = subject.verdict
    shown = {name: row[name] for name in ("verdict", "estimate", "interval") if name in row}
    return {
        "arm": arm.value,
        "missing_runs": str(len(runs) - len(_scores(runs))),
        "verdict": "none",
        **{name: v if isinstance(v, str) else json.dumps(v) for name, v in shown.items()},
    }


# -- Every Eval Ever


def _write_eee(folder: Path, subject: Subject) -> Json:
    lines = [
        json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        for stratum, arm, runs in subject.parts()
        for run in runs
        for line in _line(subject, f"{GRADER}:{stratum}/{arm}", arm, run)
    ]
    data = b"".join(lines)
    digest = hashlib.sha256(f"{subject.evaluation_id}/{subject.wave}".encode()).digest()
    names = [subject.study.protocol.name, *subject.model_id.split("/", 1)]
    place = "/".join(["data", *map(_component, names), str(UUID(bytes=digest[:16], version=4))])
    record = _record(subject) | {
        "detailed_evaluation_results": {
            "format": "jsonl",
            "file_path": f"{place}_samples.jsonl",
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(data).hexdigest(),
            "total_rows": len(lines),
        }
    }
    (folder / place).parent.mkdir(parents=True, exist_ok=True)
    (folder / f"{place}_samples.jsonl").write_bytes(data)
    text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    (folder / f"{place}.json").write_text(text, encoding="utf-8")
    row = {"file": f"{place}.json", "wave": subject.wave, "model": subject.pin.name}
    return row | {"runs": len(lines)}


def _component(name: str) -> str:
    """A name as one part of a path."""
    return re.sub(r"[^\w.-]", "_", name).strip(".") or "_"


def _record(subject: Subject) -> Json:
    """The aggregate record, by eval.schema.json."""
    manifest, release = subject.study.waves[subject.wave].manifest, subject.study.protocol.release
    time = _epoch(subject.closed)
    return {
        "schema_version": _SCHEMA,
        "evaluation_id": subject.evaluation_id,
        "evaluation_timestamp": time,
        "retrieved_timestamp": time,
        "source_metadata": {
            "source_name": "dosimeter",
            "source_type": "evaluation_run",
            "source_organization_name": ", ".join(release.authors) or manifest.study,
            "evaluator_relationship": "other",
            "additional_details": {
                "study": manifest.study,
                "wave": str(subject.wave),
                "plan": manifest.plan,
                "instances_root": manifest.instances_root,
            },
        },
        "eval_library": {"name": "dosimeter", "version": manifest.provenance.code},
        "model_info": {
            "name": subject.pin.name,
            "id": subject.model_id,
            "developer": subject.pin.provider,
            "additional_details": _UNKNOWN,
        },
        "evaluation_results": [_result(subject, *part) for part in subject.parts()],
    }


def _result(subject: Subject, stratum: str, arm: Arm, runs: Sequence[Listed]) -> Json:
    scores = _scores(runs)
    spread = {"standard_deviation": stdev(scores)} if len(scores) > 1 else {}
    error = {"value": stdev(scores) / sqrt(len(scores)), "method": "analytic"} if spread else None
    return {
        "evaluation_result_id": f"{GRADER}:{stratum}/{arm}",
        "evaluation_name": stratum,
        "source_data": _source(subject, arm),
        "metric_config": {
            "metric_id": "dosimeter.score",
            "metric_name": "score",
            "metric_unit": "proportion",
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": 0.0,
            "max_score": 1.0,
        },
        "score_details": {
            "score": fmean(scores),
            "details": _details(subject, arm, runs),
            "uncertainty": {
                "num_samples": len(scores),
                **spread,
                **({"standard_error": error} if error else {}),
            },
        },
    }


def _source(subject: Subject, arm: Arm) -> Json:
    repository = subject.study.protocol.release.repository
    named = {"dataset_name": subject.study.protocol.name}
    if arm is Arm.PRIVATE or not repository:
        return named | {"source_type": "other"}
    details = {"revision": subject.revision}
    return named | {
        "source_type": "hf_dataset",
        "hf_repo": repository,
        "additional_details": details,
    }


def _line(subject: Subject, result: str, arm: Arm, run: Listed) -> Iterator[Json]:
    """Yield the line of a run, by instance_level_eval.schema.json; none if it is missing."""
    made, entry = run.result, subject.entries[run.cell.instance]
    if made is None or made.score is None:
        return
    if (instance := instance_of(subject.study, entry)) is None:
        raise StudyError(f"{entry.stratum}: this code makes other instances than were drawn")
    key = subject.study.protocol.catalog.family(entry.family, entry.version).key(instance.truth)
    episode = stored_attempt(subject.study, run.cell.episode, made.attempt)
    reference, single = [json.dumps(key, ensure_ascii=False)], run.cell.mode is Mode.SINGLE_TURN
    asked = instance.brief.prompt
    messages = None if single else list(_messages(episode))
    yield {
        "schema_version": _SCHEMA,
        "evaluation_id": subject.evaluation_id,
        "model_id": subject.model_id,
        "evaluation_name": entry.stratum,
        "evaluation_result_id": result,
        "sample_id": entry.instance,
        "sample_hash": hashlib.sha256((asked + "".join(reference)).encode()).hexdigest(),
        "interaction_type": "single_turn" if single else "agentic",
        "input": {"raw": asked, "formatted": None, "reference": reference, "choices": None},
        "output": {"raw": [episode.answer], "reasoning_trace": None} if single else None,
        "messages": messages,
        "answer_attribution": [],
        "evaluation": {
            "score": made.score,
            "is_correct": made.score >= 1,
            "num_turns": max(1, made.turns),
            "tool_calls_count": made.tool_calls,
        },
        "token_usage": _tokens(made.input_tokens, made.output_tokens),
        "performance": {"latency_ms": round(1000 * made.seconds)},
        "error": None,
        "metadata": _details(subject, arm, [run])
        | {"epoch": str(run.cell.replicate + 1), "tranche": str(entry.tranche)},
    }


def _tokens(given: int | None, made: int | None) -> Json | None:
    if given is None or made is None:
        return None
    return {"input_tokens": given, "output_tokens": made, "total_tokens": given + made}


def _messages(episode: Episode) -> Iterator[Json]:
    """Yield the messages of a transcript, pictures left out."""
    turns = chain.from_iterable(map(_turn, episode.steps))
    for index, message in enumerate(chain(episode.opening, turns)):
        calls = [
            {
                "id": call.id,
                "name": call.name,
                "arguments": parse_arguments(call.arguments) or {"arguments": call.arguments},
            }
            for call in message.calls
        ]
        yield {
            "turn_idx": index,
            "role": str(message.role),
            "content": message.text,
            "reasoning_trace": message.reasoning or None,
            "tool_calls": calls or None,
            "tool_call_id": [message.call_id] if message.call_id else None,
        }


def _turn(step: Turn) -> Iterator[Message]:
    if step.prompt:
        yield Message(Role.USER, step.prompt)
    yield step.reply.message
    yield from (use.result for use in step.uses)


# -- .eval_results of the Hub


def _write_rows(folder: Path, subject: Subject) -> Json:
    """Write a model's file of ``.eval_results/``: a row for each task of the release."""
    import yaml

    study = subject.study.protocol
    if not study.release.repository:
        raise StudyError("eval-results name a data set: give `release: {repository: owner/name}`")
    tasks = _task_ids(subject.study.folder / study.release.folder / EVAL)
    rows = [
        {
            "dataset": _dataset(subject, config_of(stratum)),
            "value": round(fmean(_scores(runs)), 6),
            "date": subject.closed[:10],
            "notes": _notes(subject, arm, runs),
        }
        for stratum, arm, runs in subject.parts()
        if arm is Arm.PUBLIC and config_of(stratum) in tasks
    ]
    if not rows:
        raise StudyError("no task of the release's eval.yaml has a score: eval-results has no row")
    name = f"wave-{subject.wave}-{_component(subject.pin.name)}.yaml"
    text = yaml.safe_dump(rows, sort_keys=False, allow_unicode=True)
    (folder / name).write_text(text, encoding="utf-8")
    return {"file": name, "wave": subject.wave, "model": subject.pin.name, "rows": len(rows)}


def _task_ids(path: Path) -> set[str]:
    import yaml

    if not path.is_file():
        raise StudyError(f"{path}: not there: no task of the release runs from the Hub")
    return {str(task["id"]) for task in yaml.safe_load(path.read_text(encoding="utf-8"))["tasks"]}


def _dataset(subject: Subject, task: str) -> Json:
    named = {"id": subject.study.protocol.release.repository, "task_id": task}
    return named | ({"revision": subject.revision} if subject.revision else {})


def _notes(subject: Subject, arm: Arm, runs: Sequence[Listed]) -> str:
    details = _details(subject, arm, runs)
    words = [f"{name.replace('_', ' ')} {value}" for name, value in details.items()]
    modes = sorted({str(run.cell.mode).replace("_", " ") for run in runs})
    study = f"study {subject.study.protocol.name}, wave {subject.wave}, {' and '.join(modes)}"
    return "; ".join([study, *words])
