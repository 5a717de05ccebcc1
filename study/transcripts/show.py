"""A stored attempt as a readable transcript. Text from a model, a server or a sandbox stands behind
a bar, and cannot drive the terminal or pass for a line of the program."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from generators.grading import Criterion
from harness.episode import Episode, Grade, ToolUse, Turn
from harness.episodes import EpisodeResult
from harness.model import Image, Message, ToolCall, Usage
from harness.storage import EPISODE_CODEC, hex_of
from registry.canonical import digest_bytes
from registry.sealing import SealedEntry
from study.errors import StudyError
from study.judging import grades_of
from study.transcripts.find import (
    Listed,
    Whereabouts,
    attempts_of,
    find_episode,
    find_result,
    instance_of,
    list_episodes,
    locate,
    read_attempt,
    require_key,
)
from study.transcripts.sanitize import fold_lines, on_one_line
from study.workspace import Study, take_snapshot

Record = dict[str, Any]
LIST_DIGITS = 12  # of an episode's digest in lists: unique in any study
_BAR, _GOES_ON = "│ ", "┆ "
_VERDICT = {True: ("pass", "green"), False: ("fail", "red"), None: ("none", "yellow")}


@dataclass(frozen=True, slots=True)
class Transcript:
    """An attempt with its place in the study, its result and its grades."""

    episode: Episode
    place: Whereabouts
    attempts: tuple[int, ...]
    result: EpisodeResult | None
    criteria: Mapping[str, Criterion]  # of the rubric; empty where not asked for
    judged: tuple[tuple[str, Grade], ...] = ()  # by each judge; empty where not asked for


def open_transcript(study: Study, prefix: str, attempt: int | None, grade: bool) -> Transcript:
    """Return the attempt asked for; else the one that counts, or the last. Raises StudyError."""
    require_key(study, "dosimeter show")
    study = take_snapshot(study)
    name = find_episode(study, prefix)
    stored, result = attempts_of(study, name), find_result(study, name)
    wanted = attempt or (result.attempt if result else stored[-1])
    episode = read_attempt(study, name, wanted)
    place = locate(study, episode)
    criteria = _criteria_of(study, place.entry) if grade else {}
    judged = grades_of(study, name, study.identities()) if grade else ()
    return Transcript(episode, place, stored, result, criteria, judged)


def _criteria_of(study: Study, entry: SealedEntry) -> Mapping[str, Criterion]:
    """Return the rubric's criteria by id; none if this code makes another instance."""
    instance = instance_of(study, entry)
    return {} if instance is None else {each.id: each for each in instance.rubric.criteria}


def list_records(study: Study, wave: int | None, model: str | None, arms: bool) -> list[Record]:
    """Return a record for each episode, with its arm only if asked for."""
    require_key(study, "dosimeter show --list")
    study = take_snapshot(study)
    known = {entry.instance: str(entry.arm) for entry in study.entries()} if arms else {}
    return [
        _list_record(each) | ({"arm": known[each.cell.instance]} if arms else {})
        for each in list_episodes(study, wave, model)
    ]


def _list_record(listed: Listed) -> Record:
    result, cell = listed.result, listed.cell
    return {
        "episode": hex_of(cell.episode)[:LIST_DIGITS],
        "wave": listed.wave,
        "stratum": cell.spec.stratum,
        "seed": listed.seed,
        "model": cell.model,
        "replicate": cell.replicate,
        "status": "owed" if result is None else str(result.status),
        "score": None if result is None else result.score,
        "attempts": listed.attempts,
    }


def transcript_json(found: Transcript, grade: bool, arm: bool) -> Record:
    """Return the stored record, bytes as base64, with its place in the study."""
    record: Record = {
        "wave": found.place.manifest.wave,
        "stratum": found.place.entry.stratum,
        "seed": found.place.seed,
        "image": found.episode.image or found.place.manifest.provenance.image,
        "attempts": list(found.attempts),
        "counts": None if found.result is None else found.result.attempt,
        "record": json.loads(EPISODE_CODEC.encode(found.episode))["body"],
    }
    if arm:
        record["arm"] = str(found.place.entry.arm)
    if grade:
        record["grade"] = None if found.result is None else _grade_json(found)
    return record


def _grade_json(found: Transcript) -> Record:
    result = _result_of(found)
    return {
        "grader": result.grader,
        "status": str(result.status),
        "score": result.score,
        "dimensions": dict(result.grade.dimension_scores),
        "criteria": [
            {"id": name, "passed": verdict, "asks": _asks(found, name)}
            for name, verdict in _verdicts(result.grade)
        ],
        "judges": [
            {
                "judge": name,
                "status": str(grade.status),
                "score": grade.score,
                "dimensions": dict(grade.dimension_scores),
                "criteria": [{"id": key, "passed": verdict} for key, verdict in _verdicts(grade)],
            }
            for name, grade in found.judged
        ],
    }


def _verdicts(grade: Grade) -> Iterator[tuple[str, bool | None]]:
    return zip(grade.criteria, grade.verdicts, strict=True)


def _asks(found: Transcript, criterion: str) -> str | None:
    return found.criteria[criterion].text if criterion in found.criteria else None


def _result_of(found: Transcript) -> EpisodeResult:
    if found.result is None:
        raise StudyError("this episode has no grade yet: sweep its wave again")
    return found.result


def print_transcript(found: Transcript, console: Console, grade: bool, arm: bool) -> None:
    """Print the attempt turn by turn. Nothing is cut."""
    page = _Page(console)
    _print_head(page, found, arm)
    for message in found.episode.opening:
        page.title(str(message.role))
        page.message(message)
    for number, step in enumerate(found.episode.steps, 1):
        _print_step(page, number, step)
    _print_end(page, found.episode)
    if grade:
        _print_grade(page, found)


@dataclass(frozen=True, slots=True)
class _Page:
    """Prints the program's own lines, and untrusted lines behind a bar."""

    console: Console

    def title(self, name: str, facts: str = "") -> None:
        self.console.print()
        self._line(
            ("── ", "dim"), (name, "bold cyan"), (f"  {on_one_line(facts)}" if facts else "", "dim")
        )

    def field(self, name: str, value: str) -> None:
        self._line((f"{name:<10} ", "dim"), (on_one_line(value), ""))

    def note(self, text: str, style: str = "dim") -> None:
        self._line((on_one_line(text), style))

    def block(self, text: str, style: str = "", indent: str = "") -> None:
        width = self.console.width - len(indent) - len(_BAR)
        for begins, piece in fold_lines(text, width):
            self._line((indent + (_BAR if begins else _GOES_ON), "dim"), (piece, style))

    def message(self, message: Message) -> None:
        if message.reasoning:
            self.note("reasoning:")
            self.block(message.reasoning, "italic dim")
        if message.text:
            self.block(message.text)
        for image in message.images:
            self.note(describe_image(image), "magenta")

    def _line(self, *parts: tuple[str, str]) -> None:
        self.console.print(Text.assemble(*parts), soft_wrap=True)


def describe_image(image: Image) -> str:
    """Return type, size and digest of an image on one line."""
    return f"[image {image.media_type}, {len(image.data):,} bytes, {digest_bytes(image.data)}]"


def _print_head(page: _Page, found: Transcript, arm: bool) -> None:
    episode, place = found.episode, found.place
    page.field("episode", hex_of(episode.id))
    where = f"wave {place.manifest.wave}, {place.entry.stratum}, seed {place.seed}"
    page.field("task", where + (f", {place.entry.arm} arm" if arm else ""))
    page.field("model", f"{episode.model}, replicate {episode.replicate}")
    page.field("attempt", _attempt_facts(found))
    page.field("began", f"{episode.started}, took {episode.seconds:.2f} s")
    page.field("ended", _ending(episode))
    page.field("served", ", ".join(_versions(episode)) or "nothing")
    page.field("tokens", _tokens(episode.usage))
    page.field("retries", _retries(episode))
    page.field("container", episode.container or "none")
    page.field("image", episode.image or place.manifest.provenance.image)
    page.field("run", hex_of(episode.run))


def _attempt_facts(found: Transcript) -> str:
    facts = f"{found.episode.attempt} of {len(found.attempts)}"
    if found.result is None:
        return f"{facts}; none counts yet"
    counts = found.result.attempt
    return facts + ("" if counts == found.episode.attempt else f"; attempt {counts} counts")


def _retries(episode: Episode) -> str:
    """Return the failed requests by class, and the number of replies inherited from earlier
    attempts."""
    facts = f"{sum(step.reply.retries for step in episode.steps)} requests"
    if episode.failed_tries:
        facts += ": " + ", ".join(f"{name} {count}" for name, count in episode.failed_tries)
    return facts + (f"; {episode.inherited} replies inherited" if episode.inherited else "")


def _ending(episode: Episode) -> str:
    failed = f" at {episode.error_class}" if episode.error_class else ""
    return f"{episode.stop}{failed} after {len(episode.steps)} turns"


def _versions(episode: Episode) -> Iterator[str]:
    """Yield each version that served a turn, in order; more than one means that it changed."""
    yield from dict.fromkeys(step.reply.served_version or "unknown" for step in episode.steps)


def _tokens(usage: Usage) -> str:
    counts = {"in": usage.input_tokens, "out": usage.output_tokens}
    return ", ".join(f"{'unknown' if n is None else format(n, ',')} {k}" for k, n in counts.items())


def _print_step(page: _Page, number: int, step: Turn) -> None:
    if step.prompt:
        page.title("harness", "message before the next turn")
        page.block(step.prompt)
    reply = step.reply
    facts = [f"{step.seconds:.2f} s", f"tokens {_tokens(reply.usage)}"]
    facts += [f"finish {reply.finish[:40]}", reply.served_version[:60]]
    failed = f" ({', '.join(reply.failed)})" if reply.failed else ""
    facts += [f"{reply.retries} retries{failed}"] if reply.retries else []
    page.title(f"turn {number}", " · ".join(facts))
    page.message(reply.message)
    calls, uses = reply.message.calls, {use.call_id: use for use in step.uses}
    paired = len(uses) == len(step.uses) == len(calls)  # ids are the model's: they may repeat
    for index, call in enumerate(calls):
        _print_call(page, call)
        if paired and call.id in uses:
            _print_use(page, uses[call.id])
        elif index < len(step.uses):
            _print_use(page, step.uses[index])
    for use in step.uses[len(calls) :]:
        _print_use(page, use)


def _print_call(page: _Page, call: ToolCall) -> None:
    page.note(f"▶ {on_one_line(call.name, 80)}  ({on_one_line(call.id, 80)})", "bold yellow")
    fields = _fields_of(call.arguments)
    if fields is None:
        page.block(call.arguments, indent="  ")
        return
    for name, text in fields.items():
        page.note(f"  {on_one_line(name, 80)}:")
        page.block(text, indent="  ")


def _fields_of(arguments: str) -> dict[str, str] | None:
    """Return the arguments of a call by name, if they are a JSON object."""
    try:
        value = json.loads(arguments)
        if not isinstance(value, dict):
            return None
        return {k: v if isinstance(v, str) else json.dumps(v) for k, v in value.items()}
    except (ValueError, RecursionError):
        return None


def _print_use(page: _Page, use: ToolUse) -> None:
    exit_code = "" if use.exit_code is None else f"exit code {use.exit_code}, "
    limits = f", limits hit: {', '.join(use.limits)}" if use.limits else ""
    style = "red" if use.limits or use.exit_code else "yellow"
    page.note(f"◀ {on_one_line(use.name, 80)}  {exit_code}{use.seconds:.2f} s{limits}", style)
    page.message(use.result)
    if use.diverged is not None:
        page.note("carried out again to go on from here, it answered instead:", "red")
        page.block(use.diverged)


def _print_end(page: _Page, episode: Episode) -> None:
    if episode.answer_file is not None:
        page.title("answer.json")
        page.block(episode.answer_file.decode("utf-8", "backslashreplace"))
    if episode.answer_files:
        page.title("files of the answer")
        for path, data in episode.answer_files:
            page.note(f"{on_one_line(path)}, {len(data):,} bytes, {digest_bytes(data)}", "")


def _print_grade(page: _Page, found: Transcript) -> None:
    if found.result is None:
        page.title("grade", "none yet")
        return
    result = found.result
    score = "none" if result.score is None else f"{result.score:.4g}"
    passed = "" if result.passed is None else f" · {result.passed} of {result.total} criteria"
    page.title("grade", f"{result.grader} · {result.status} · score {score}{passed}")
    if result.attempt != found.episode.attempt:
        page.note(f"of attempt {result.attempt}, which counts; shown above is another", "yellow")
    for name, value in result.grade.dimension_scores:
        if value is not None:
            page.field(name, f"{value:.4g}")
    for judge, grade in found.judged:
        page.field(f"by {judge}", _graded(grade))
    judged = [(judge, dict(_verdicts(grade))) for judge, grade in found.judged]
    for name, verdict in _verdicts(result.grade):
        word, style = _VERDICT[verdict]
        others = " · ".join(f"{judge} {_VERDICT[given.get(name)][0]}" for judge, given in judged)
        page.note(f"{word}  {name}" + (f"   {others}" if others else ""), style)
        if text := _asks(found, name):
            page.block(text, "dim", indent="      ")


def _graded(grade: Grade) -> str:
    decided = [verdict for verdict in grade.verdicts if verdict is not None]
    score = "none" if grade.score is None else f"{grade.score:.4g}"
    return f"{grade.status} · score {score} · {sum(decided)} of {len(decided)} criteria"


__all__ = [
    "Transcript",
    "describe_image",
    "list_records",
    "open_transcript",
    "print_transcript",
    "transcript_json",
]
