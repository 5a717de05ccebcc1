"""Waves that another harness runs: their instances, exported under opaque ids, and its logs,
imported as the wave's episodes.

The export begins the wave. An id is an HMAC under a key that follows from the run's: it says
nothing of arm, seed or stratum, no release shows it, and another wave has others. The instances
come in the order of their ids.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from generators.catalog import Catalog
from generators.grading.programs import hidden_inputs
from harness.agent.single_turn import single_turn
from harness.episode import Cell, Episode, Grade, GradeStatus, Mode, StopReason, Turn
from harness.episodes.grading import grade_episode
from harness.episodes.result import RESULT_CODEC, summarise_episode
from harness.errors import HarnessError
from harness.model import Message, Reply, Role, Usage
from harness.storage import EPISODE_CODEC, attempt_key, result_key
from harness.sweep.schedule import WaveInstance
from harness.sweep.workbench import RunContext, instance_of
from registry.canonical import digest_bytes
from registry.files import write_whole
from registry.ledger.records import (
    ELSEWHERE,
    Exported,
    RanElsewhere,
    RunManifest,
    WaveClosed,
    record_digest,
)
from registry.result_row import GRADER
from registry.sealing import encrypt
from registry.signing import derive_key
from registry.stores.parallel import parallel_map
from study.errors import StudyError
from study.extras.tables.harness_logs import WITH_ANSWERS, files_of, named_place
from study.extras.tables.sample import NO_SCORE, Log, Sample
from study.files import exclusive, new_folder, read_from_elsewhere
from study.protocol.protocol import Task
from study.steps.sweep.manifests import begin_wave
from study.steps.sweep.spending import example_of
from study.steps.sweep.sweep import SweepRequest, close_wave, context_of
from study.workspace.setup import NO_IMAGE, Watch
from study.workspace.snapshot import cells_of, instances_of
from study.workspace.study import Study, closed_wave, manifests_of

FORMS = ("inspect", "lm-eval", "jsonl")
TASKS = "tasks.jsonl"
_IDS = "dosimeter/elsewhere-ids/1"  # the key's purpose
_DIGITS = 32
_UNKNOWN = Usage()
_LONGEST = 100  # characters of a text that a log has
_TASK_FILES = {"inspect": "task.py", "lm-eval": "task.yaml"}  # their texts end in .txt here


# -- export


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """``recipients`` are those whom the instances are sealed to; none for plain text."""

    wave: int
    form: str
    out: Path
    recipients: tuple[str, ...] = ()
    allow_dirty: bool = False


def export_tasks(study: Study, request: ExportRequest, now: Callable[[], str]) -> Exported:
    """Write a folder with the instances of a wave for another harness, and begin the wave. The
    ledger records the export first. Raises StudyError, which names a task that cannot be given
    so."""
    wave, form, readers = request.wave, request.form, request.recipients
    catalog = study.protocol.catalog
    study.protocol.wave_models(wave)
    for task in study.protocol.wave_tasks(wave):
        if reason := _unfit(task, catalog, form):
            raise StudyError(f"wave {wave}: {task.stratum} cannot be exported: {reason}")
    if readers:
        encrypt(b"", readers)  # refuses what is no recipient
    with new_folder(request.out) as draft:
        manifest, rows = _begin(study, wave, request.allow_dirty, now), []
        for name, each in sorted(_ids(study, manifest).items()):
            family = catalog.family(each.spec.family, each.spec.version)
            brief = family.generate(each.spec.difficulty, each.seed).brief
            rows.append(_row(name, single_turn(brief).messages, form))
        data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        written = {f"{TASKS}.age": encrypt(data, readers)} if readers else {TASKS: data}
        if file := _TASK_FILES.get(form):
            text = (files(__package__) / f"{file}.txt").read_text("utf-8")
            runs = str(min(manifest.replicates))
            written[file] = text.replace("WAVE", str(wave)).replace("RUNS", runs).encode()
        draft.chmod(0o700)
        for name, content in written.items():
            write_whole(draft / name, content, mode=0o600)
        run, digest = record_digest(manifest), digest_bytes(data)
        record = Exported(wave, run, form, len(rows), digest, recipients=readers)
        study.ledger.append(record, now())
    return record


def _begin(study: Study, wave: int, allow_dirty: bool, now: Callable[[], str]) -> RunManifest:
    """Return the manifest of a wave that runs elsewhere. Raises as ``begin_wave``, and StudyError
    for a closed one."""
    if closed_wave(study.ledger, wave) is not None:
        raise StudyError(f"wave {wave} is closed: it is exported and imported no more")
    sandbox = study.protocol.sandbox.model_copy(update={"kind": ELSEWHERE, "runtime": ""})
    away = replace(study, protocol=replace(study.protocol, sandbox=sandbox))
    return begin_wave(away, SweepRequest(wave, allow_dirty=allow_dirty), NO_IMAGE, now)


def _ids(study: Study, manifest: RunManifest) -> dict[str, WaveInstance]:
    """Return the instances of a wave by their opaque ids."""
    key = derive_key(study.run_identity(manifest), _IDS)
    return {
        hmac.new(key, each.instance.encode(), "sha256").hexdigest()[:_DIGITS]: each
        for each in instances_of(study.instances(), manifest)
    }


def _unfit(task: Task, catalog: Catalog, form: str) -> str:
    """Return why a task cannot be given in a form; "" if it can."""
    example = example_of(task, catalog)
    if task.mode is not Mode.SINGLE_TURN:
        return f"it is for agents; give this wave `modes: {{{task.stratum}: single_turn}}`"
    if hidden_inputs(example.rubric):
        return "its grader runs the answer's program, which needs a sandbox"
    try:
        pictures = single_turn(example.brief).messages[-1].images
    except HarnessError as error:
        return str(error)
    return "it has pictures; --format inspect takes them" if pictures and form != FORMS[0] else ""


def _row(name: str, messages: Sequence[Message], form: str) -> dict[str, Any]:
    if form == "inspect":
        return {"id": name, "input": [_chat_message(message) for message in messages]}
    return {"id": name, "prompt": "\n\n".join(message.text for message in messages)}


def _chat_message(message: Message) -> dict[str, Any]:
    images = [{"type": "image", "image": image.url} for image in message.images]
    content = [{"type": "text", "text": message.text}, *images] if images else message.text
    return {"role": str(message.role), "content": content}


# -- import


@dataclass(frozen=True, slots=True)
class _ModelLog:
    """A file, as far as it is of one model of the wave."""

    path: Path
    model: str
    named: str  # as the log names it
    log: Log


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of a model on an instance: an answer, or the score of a log without one; neither if
    it failed."""

    named: str
    answer: str | None = None
    score: float | None = None
    usage: Usage = _UNKNOWN
    error: str = ""


def import_wave(
    study: Study,
    request: SweepRequest,
    kind: str,
    places: Sequence[str],
    now: Callable[[], str],
    watch: Watch = lambda what, done, of: None,
) -> tuple[WaveClosed, tuple[str, ...]]:
    """Close an exported wave with the logs of another harness: files or folders, after ``MODEL=``
    if a log names its model otherwise. Answers are graded by the exact grader; a score is taken
    from a log without answers. Episodes that no log has are missing. Return the record, and
    warnings.

    Raises StudyError that names file and sample; then nothing is written.
    """
    wave = request.wave
    study.protocol.wave_models(wave)
    begun = manifests_of(study.ledger, wave)
    if not begun or begun[0].sandbox != ELSEWHERE:
        raise StudyError(f"wave {wave} is not exported: `dosimeter export tasks` comes first")
    with exclusive(study.folder / f".sweep-{wave}.lock", f"another import of wave {wave}"):
        cells = cells_of(study, begun[0])
        logs = list(_read_logs(begun[0], kind, places))
        runs = _join(logs, cells, _ids(study, begun[0]))
        records = tuple(_record(pin.name, logs, cells, runs) for pin in begun[0].models)
        manifest = _begin(study, wave, request.allow_dirty or begun[-1].provenance.dirty, now)
        context = context_of(study, manifest, NO_IMAGE, None)
        entry = next(e for e in study.ledger.find("run-manifest") if e.record == begun[0])
        lost, digest = _Run("", error="no sample"), record_digest(begun[0])

        def put(cell: Cell) -> bytes:
            run = runs.get(cell.episode, lost)
            _put(study, context, cell, run, _episode(cell, run, digest, entry.time))
            return b"\1"

        finished = b"".join(parallel_map(study.store, put, cells, writes=True))
        closed = close_wave(study, context, manifest, cells, finished, now, watch, records)
    return closed, tuple(dict.fromkeys(words for each in logs for words in each.log.warnings))


def _read_logs(manifest: RunManifest, kind: str, places: Sequence[str]) -> Iterator[_ModelLog]:
    """Yield each log by its model. Raises StudyError for a model that the wave does not run."""
    pattern, read = WITH_ANSWERS[kind]
    for stated, place in map(named_place, places):
        for path in files_of(place, pattern):
            log = read_from_elsewhere(read, path)
            for named in dict.fromkeys(sample.model for sample in log.samples):
                if not f"{named}{log.harness}".isprintable() or len(named) > _LONGEST:
                    raise StudyError(f"{path}: a name of its model or harness is no line of text")
                model = _model_of(manifest, stated, named, path)
                samples = tuple(sample for sample in log.samples if sample.model == named)
                yield _ModelLog(path, model, named, replace(log, samples=samples))


def _model_of(manifest: RunManifest, stated: str, named: str, path: Path) -> str:
    """Return the model of the wave that a log is of, by what the user and the log call it."""
    models, wave = [pin.name for pin in manifest.models], manifest.wave
    own = [pin.name for pin in manifest.models if named in (pin.name, pin.version)]
    if stated and (stated not in models or (own and stated not in own)):
        raise StudyError(
            f"{path}: it is of {named!r}, and not of {stated!r}; wave {wave} runs "
            f"{', '.join(models)}"
        )
    if stated or len(own) == 1:
        return stated or own[0]
    raise StudyError(
        f"{path}: it is of {named!r}, which wave {wave} does not name: give it as MODEL={path}, "
        f"with MODEL one of {', '.join(models)}"
    )


def _join(
    logs: Sequence[_ModelLog], cells: Sequence[Cell], ids: Mapping[str, WaveInstance]
) -> dict[str, _Run]:
    """Return the runs by episode. Raises StudyError for one that is not owed, or there twice."""
    owed = {(cell.model, cell.instance, cell.replicate): cell.episode for cell in cells}
    runs: dict[str, _Run] = {}
    for each in logs:
        for sample in each.log.samples:
            place = f"{each.path}: sample {sample.id[:_LONGEST]!r}"
            if sample.id not in ids:
                raise StudyError(f"{place}: no id of this wave: it was edited, or is of another")
            for epoch, run in enumerate(_runs_of(sample, place), sample.epoch):
                episode = owed.get((each.model, ids[sample.id].instance, epoch - 1), "")
                if not episode or episode in runs:
                    fault = "is there twice" if episode else "is not owed by this wave"
                    raise StudyError(f"{place}: epoch {epoch} of {each.model} {fault}")
                runs[episode] = run
    return runs


def _runs_of(sample: Sample, place: str) -> list[_Run]:
    tokens = (sample.columns.get(f"{name}_tokens") for name in ("input", "output"))
    run = _Run(sample.model, usage=Usage(*tokens))
    if sample.error not in ("", NO_SCORE):
        return [replace(run, error=sample.error if sample.error.isidentifier() else "error")]
    if sample.answers:  # a lone surrogate cannot be stored
        texts = (text.encode("utf-8", "replace").decode() for text in sample.answers)
        return [replace(run, answer=text) for text in texts]
    if len(sample.scores) > 1:
        raise StudyError(f"{place}: no answer, and scores by {', '.join(sorted(sample.scores))}")
    score = next(iter(sample.scores.values()), None)
    return [replace(run, score=score, error="no answer" if score is None else "")]


def _record(
    model: str, logs: Sequence[_ModelLog], cells: Sequence[Cell], runs: Mapping[str, _Run]
) -> RanElsewhere:
    """Return the ledger's words on a model. Raises StudyError if it has no log, or several
    names."""
    own = [each for each in logs if each.model == model]
    found = [runs[c.episode] for c in cells if c.model == model and c.episode in runs]
    names = sorted({each.named for each in own})
    if not any(not run.error for run in found):
        raise StudyError(f"no log has an answer or a score of {model}: name all logs of the wave")
    if len(names) > 1:
        raise StudyError(f"{model}: its logs are of several models: {', '.join(names)}")
    return RanElsewhere(
        model=model,
        named=names[0] or model,
        harness=" and ".join(sorted({each.log.harness for each in own})),
        logs=tuple(sorted({digest_bytes(each.path.read_bytes()) for each in own})),
        answers=sum(not run.error for run in found),
        regraded=sum(run.answer is not None for run in found),
    )


def _episode(cell: Cell, run: _Run, manifest: str, started: str) -> Episode:
    """Return a run as an attempt, the same for the same log."""
    reply = Reply(Message(Role.ASSISTANT, run.answer or ""), run.usage, run.named)
    return Episode(
        id=cell.episode,
        instance=cell.instance,
        run=manifest,
        model=cell.model,
        replicate=cell.replicate,
        attempt=1,
        steps=() if run.answer is None else (Turn(reply, (), 0.0),),
        answer=run.answer or "",
        stop=StopReason.FAILED if run.error else StopReason.ANSWERED,
        usage=run.usage,
        started=started,
        container=ELSEWHERE,
        error_class=f"{ELSEWHERE}:{run.error}" if run.error else "",
    )


def _put(study: Study, context: RunContext, cell: Cell, run: _Run, episode: Episode) -> None:
    """Store an attempt, and its result: graded, or with the score of the log."""
    keys, key = context.keys_of(cell), attempt_key(cell.episode, 1)
    is_new = EPISODE_CODEC.write(study.store, key, episode, keys)
    if not is_new and EPISODE_CODEC.read(study.store, key, keys) != episode:
        raise StudyError(
            f"wave {context.plan.wave}: an import that was cut off had other logs: import those"
        )
    if (score := run.score) is None:
        grade = grade_episode(instance_of(cell, study.protocol.catalog), episode)
        price = context.price(cell.model)
    else:  # the columns have the same value, whatever a plan names
        grade = Grade(cell.episode, GRADER, GradeStatus.GRADED, (), (), verdicts=(), score=score)
        grade, price = replace(grade, key_fraction=score, gate_free=score), None
    result = summarise_episode(context.plan.wave, cell, episode, grade, 1, price)
    RESULT_CODEC.write(study.store, result_key(cell.episode), result, keys)
