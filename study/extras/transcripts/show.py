"""A stored attempt as a readable transcript. Text from a model, a server or a sandbox stands behind
a bar, and cannot drive the terminal or pass for a line of the program."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from textwrap import wrap
from typing import IO, Any
from unicodedata import category

from rich.console import Console

from harness.episode import Episode, Grade, Mode, ToolUse, Turn
from harness.episodes.result import EpisodeResult
from harness.model import Image, Message, ToolCall, Usage
from harness.storage import EPISODE_CODEC, hex_of, stored_attempts
from registry.canonical import digest_bytes
from registry.ledger.records import RunManifest
from registry.sealing import DrawnInstance
from study.errors import StudyError
from study.extras.transcripts.find import (
    Listed,
    begun_waves,
    find_episode,
    find_result,
    instance_of,
    list_episodes,
    locate,
    number_seeds,
    parse_arguments,
    require_key,
    stored_attempt,
)
from study.workspace.snapshot import StudySnapshot, take_snapshot
from study.workspace.study import Study

Record = dict[str, Any]
LIST_DIGITS = 12  # of an episode's digest in lists: unique in any study
_BAR, _REST = "│ ", "┆ "  # before a line, and before the rest of a long one
_TAB = 4
_VERDICT = {True: "pass", False: "fail", None: "none"}
_WITHHELD = "gate"
_LEGEND = "gate: the fact holds; a gate of its criterion does not, so that it earns nothing"


@dataclass(frozen=True, slots=True)
class Transcript:
    """An attempt with its place in the study, its result and its grades."""

    episode: Episode
    manifest: RunManifest
    entry: DrawnInstance
    seed: int
    attempts: tuple[int, ...]
    result: EpisodeResult | None
    asks: Mapping[str, str] = field(default_factory=dict)  # each criterion's text, if asked for
    judged: tuple[tuple[str, Grade], ...] = ()  # by each judge, if asked for

    @property
    def mode(self) -> Mode:
        """The way in which the task was given, by the wave's manifest."""
        single = self.entry.stratum in self.manifest.single_turn
        return Mode.SINGLE_TURN if single else Mode.AGENTIC


def open_transcript(
    study: Study, prefix: str, attempt: int | None, grade: bool, arm: bool = False
) -> Transcript:
    """Return the attempt asked for; else the one that counts, or the last. To show its ``arm`` is
    a look at its wave, since scores can be listed: the ledger records it first. Raises StudyError,
    RegistryError."""
    require_key(study, "dosimeter show")
    study = take_snapshot(study)
    name = find_episode(study, prefix)
    stored, result = tuple(stored_attempts(study.store, name)), find_result(study, name)
    wanted = attempt or (result.attempt if result else len(stored) or 1)
    if wanted not in stored:
        there = ", ".join(map(str, stored)) or "none"
        raise StudyError(f"--attempt {wanted}: stored of this episode are: {there}")
    episode = stored_attempt(study, name, wanted)
    manifest, entry = locate(study, episode)
    if arm:
        _record_look(study, [manifest])
    seed = number_seeds(study)[entry.instance]
    asks: dict[str, str] = {}
    judged: tuple[tuple[str, Grade], ...] = ()
    if grade:
        from study.extras.judge.records import grades_of

        instance = instance_of(study, entry)
        asks = {} if instance is None else {p.id: p.text for p in instance.rubric.parts}
        judged = grades_of(study, name, study.keys())
    return Transcript(
        episode, manifest, entry, seed, stored, result=result, asks=asks, judged=judged
    )


def list_records(study: Study, wave: int | None, model: str | None, arms: bool) -> list[Record]:
    """Return a record for each episode, with its arm only if asked for: a look, which the ledger
    records first. Raises StudyError."""
    require_key(study, "dosimeter show")
    study = take_snapshot(study)
    if arms:
        _record_look(study, begun_waves(study, wave))
    known = {entry.instance: str(entry.arm) for entry in study.entries()} if arms else {}
    return [
        _list_record(listed) | ({"arm": known[listed.cell.instance]} if arms else {})
        for listed in list_episodes(study, wave, model)
    ]


def _record_look(study: StudySnapshot, runs: Iterable[RunManifest]) -> None:
    from study.steps.sweep.history import record_look  # with numpy, which most of this can spare

    record_look(study, (study.waves[run.wave] for run in runs), "show --arm")


def _list_record(listed: Listed) -> Record:
    result, cell = listed.result, listed.cell
    return {
        "episode": hex_of(cell.episode)[:LIST_DIGITS],
        "wave": listed.wave,
        "stratum": cell.spec.stratum,
        "mode": str(cell.mode),
        "seed": listed.seed,
        "model": cell.model,
        "replicate": cell.replicate,
        "status": "owed" if result is None else str(result.status),
        "score": None if result is None else result.score,
        "attempts": listed.attempts,
    }


def transcript_json(transcript: Transcript, grade: bool, arm: bool) -> Record:
    """Return the stored record, bytes as base64, with its place in the study."""
    result = transcript.result
    whole = EPISODE_CODEC.encode(transcript.episode)
    body, *steps = (json.loads(line)["body"] for line in whole.splitlines())
    record: Record = {
        "wave": transcript.manifest.wave,
        "stratum": transcript.entry.stratum,
        "mode": str(transcript.mode),
        "seed": transcript.seed,
        "image": transcript.episode.image or transcript.manifest.provenance.image,
        "attempts": list(transcript.attempts),
        "counts": None if result is None else result.attempt,
        "record": body | {"steps": steps},
    }
    if arm:
        record["arm"] = str(transcript.entry.arm)
    if grade:
        record["grade"] = None if result is None else _grade_json(transcript, result)
    return record


def _grade_json(transcript: Transcript, result: EpisodeResult) -> Record:
    record = _grade_fields(result.grade)
    for part in record["parts"]:
        part["asks"] = transcript.asks.get(part["id"])
    return record | {
        "grader": result.grader,
        "status": str(result.status),
        "score": result.score,
        "judges": [{"judge": name} | _grade_fields(grade) for name, grade in transcript.judged],
        "repairs": result.grade.repairs,
        "violations": result.grade.violations,
    }


def _grade_fields(grade: Grade) -> Record:
    return {
        "status": str(grade.status),
        "score": grade.score,
        "dimensions": dict(grade.dimension_scores),
        "parts": [
            {"id": name, "fact": fact, "passed": verdict} for name, fact, verdict in _parts(grade)
        ],
    }


def _parts(grade: Grade) -> Iterator[tuple[str, bool | None, bool | None]]:
    """Yield each part with its fact and its verdict."""
    return zip(grade.parts, grade.facts, grade.verdicts, strict=True)


def print_transcript(transcript: Transcript, console: Console, grade: bool, arm: bool) -> None:
    """Print the attempt turn by turn. Nothing is cut."""
    page = _Page(console.file, console.width)
    _print_head(page, transcript, arm)
    for message in transcript.episode.opening:
        page.title(str(message.role))
        page.message(message)
    for number, step in enumerate(transcript.episode.steps, 1):
        _print_step(page, number, step)
    _print_end(page, transcript.episode)
    if grade:
        _print_grade(page, transcript)


@dataclass(frozen=True, slots=True)
class _Page:
    """Prints the program's own lines, and untrusted lines behind a bar. A transcript may have a
    hundred thousand of them, so that each is written as it is, in no colour."""

    file: IO[str]
    width: int

    def title(self, name: str, facts: str = "") -> None:
        self._write(f"\n── {name}" + (f"  {on_one_line(facts)}" if facts else ""))

    def field(self, name: str, value: str) -> None:
        self._write(f"{name:<10} {on_one_line(value)}")

    def note(self, text: str) -> None:
        self._write(on_one_line(text))

    def block(self, text: str, indent: str = "") -> None:
        width = self.width - len(indent) - len(_BAR)
        for line in fold_lines(text, width, f"\n{indent}{_REST}"):
            self._write(f"{indent}{_BAR}{line}")

    def message(self, message: Message) -> None:
        if message.reasoning:
            self.note("reasoning:")
            self.block(message.reasoning)
        if message.text:
            self.block(message.text)
        for image in message.images:
            self.note(describe_image(image))

    def _write(self, line: str) -> None:
        self.file.write(f"{line}\n")


def describe_image(image: Image) -> str:
    """Return type, size and digest of an image on one line."""
    return f"[image {image.media_type}, {len(image.data):,} bytes, {digest_bytes(image.data)}]"


def _print_head(page: _Page, transcript: Transcript, arm: bool) -> None:
    episode, manifest, entry = transcript.episode, transcript.manifest, transcript.entry
    page.field("episode", hex_of(episode.id))
    where = f"wave {manifest.wave}, {entry.stratum}, seed {transcript.seed}"
    where += ", single turn" if transcript.mode is Mode.SINGLE_TURN else ""
    page.field("task", where + (f", {entry.arm} arm" if arm else ""))
    page.field("model", f"{episode.model}, replicate {episode.replicate}")
    page.field("attempt", _attempt_facts(transcript))
    page.field("began", f"{episode.started}, took {episode.seconds:.2f} s")
    page.field("ended", _ending(episode))
    page.field("tokens", _tokens(episode.usage))
    page.field("container", episode.container or "none")
    page.field("image", episode.image or manifest.provenance.image)
    page.field("run", hex_of(episode.run))


def _attempt_facts(transcript: Transcript) -> str:
    facts = f"{transcript.episode.attempt} of {len(transcript.attempts)}"
    if transcript.result is None:
        return f"{facts}; none counts yet"
    counts = transcript.result.attempt
    return facts + ("" if counts == transcript.episode.attempt else f"; attempt {counts} counts")


def _retries(episode: Episode, retries: int) -> str:
    """Return the failed requests by class, and the number of replies inherited from earlier
    attempts."""
    facts = f"{retries} requests"
    if episode.failed_tries:
        facts += ": " + ", ".join(f"{name} {count}" for name, count in episode.failed_tries)
    return facts + (f"; {episode.inherited} replies inherited" if episode.inherited else "")


def _ending(episode: Episode) -> str:
    failed = f" at {episode.error_class}" if episode.error_class else ""
    return f"{episode.stop}{failed}"


def _tokens(usage: Usage) -> str:
    counts = {"in": usage.input_tokens, "out": usage.output_tokens}
    return ", ".join(f"{'unknown' if n is None else format(n, ',')} {k}" for k, n in counts.items())


def _print_step(page: _Page, number: int, step: Turn) -> None:
    if step.prompt:
        closed = f", tools closed by the {step.closed}" if step.closed else ""
        page.title("harness", f"message before the next turn{closed}")
        page.block(step.prompt)
    reply = step.reply
    facts = [f"{step.seconds:.2f} s", f"tokens {_tokens(reply.usage)}"]
    facts += [f"finish {reply.finish[:40]}", reply.served_version[:60]]
    failed = f" ({', '.join(reply.failed)})" if reply.failed else ""
    facts += [f"{reply.retries} retries{failed}"] if reply.retries else []
    if step.left_out is not None:
        pictures, results = step.left_out.pictures, step.left_out.results
        facts.append(f"request without its oldest {pictures} pictures and {results} results")
    facts += [f"{reply.dropped_calls:,} calls dropped"] if reply.dropped_calls else []
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
    page.note(f"▶ {on_one_line(call.name, 80)}  ({on_one_line(call.id, 80)})")
    fields = parse_arguments(call.arguments)
    if fields is None:
        page.block(call.arguments, indent="  ")
        return
    for name, text in fields.items():
        page.note(f"  {on_one_line(name, 80)}:")
        page.block(text, indent="  ")


def _print_use(page: _Page, use: ToolUse) -> None:
    exit_code = "" if use.exit_code is None else f"exit code {use.exit_code}, "
    limits = f", limits hit: {', '.join(use.limits)}" if use.limits else ""
    page.note(f"◀ {on_one_line(use.name, 80)}  {exit_code}{use.seconds:.2f} s{limits}")
    page.message(use.result)
    if use.diverged is not None:
        page.note("carried out again to go on from here, it answered instead:")
        page.block(use.diverged)


def _print_end(page: _Page, episode: Episode) -> None:
    """Print the totals of the replies; of several versions served all, in order: it changed."""
    replies = [step.reply for step in episode.steps]
    versions = dict.fromkeys(reply.served_version or "unknown" for reply in replies)
    page.title("end", f"{_ending(episode)} after {len(replies)} turns")
    page.field("served", ", ".join(versions) or "nothing")
    page.field("retries", _retries(episode, sum(reply.retries for reply in replies)))
    if episode.answer_file is not None:
        page.title("answer.json")
        page.block(episode.answer_file.decode("utf-8", "backslashreplace"))
    if episode.answer_files:
        page.title("files of the answer")
        for path, data in episode.answer_files:
            page.note(f"{on_one_line(path)}, {len(data):,} bytes, {digest_bytes(data)}")
    if episode.program_runs:
        ended = sum(run.exit_code == 0 for run in episode.program_runs)
        page.title(
            "runs of the answer's program", f"{ended} of {len(episode.program_runs)} ended well"
        )


def _print_grade(page: _Page, transcript: Transcript) -> None:
    result = transcript.result
    if result is None:
        page.title("grade", "none yet")
        return
    passed = "" if result.passed is None else f" · {result.passed} of {result.total} parts"
    page.title("grade", f"{result.grader} · {_scored(result)}{passed}")
    if result.attempt != transcript.episode.attempt:
        page.note(f"of attempt {result.attempt}, which counts; shown above is another")
    for name, value in result.grade.dimension_scores:
        if value is not None:
            page.field(name, f"{value:.4g}")
    if result.grade.repairs:
        page.field("repairs", ", ".join(result.grade.repairs))
    for violation in result.grade.violations:
        page.field("schema", violation)
    for judge, grade in transcript.judged:
        decided = [verdict for verdict in grade.verdicts if verdict is not None]
        page.field(f"by {judge}", f"{_scored(grade)} · {sum(decided)} of {len(decided)} parts")
    verdicts = _verdict_words(result.grade)
    judged = {judge: _verdict_words(grade) for judge, grade in transcript.judged}
    if any(_WITHHELD in words.values() for words in (verdicts, *judged.values())):
        page.note(_LEGEND)
    for name, word in verdicts.items():
        by_judges = " · ".join(
            f"{j} {words.get(name, _VERDICT[None])}" for j, words in judged.items()
        )
        page.note(f"{word}  {name}" + (f"   {by_judges}" if by_judges else ""))
        if text := transcript.asks.get(name):
            page.block(text, indent="      ")


def _verdict_words(grade: Grade) -> dict[str, str]:
    """The word of each part's verdict."""
    return {
        name: _WITHHELD if fact and verdict is False else _VERDICT[verdict]
        for name, fact, verdict in _parts(grade)
    }


def _scored(graded: Grade | EpisodeResult) -> str:
    score = "none" if graded.score is None else f"{graded.score:.4g}"
    return f"{graded.status} · score {score}"


# --- Untrusted text, made safe to print ---


def neutralise(text: str) -> str:
    """Return the text with every control, format, private and unassigned character as an escape
    such as ``\\x1b``: also carriage returns, bidirectional overrides and zero-width characters,
    which make a line look like another. Newlines and tabs stay."""
    return text if text.isprintable() else "".join(map(_escape, text))


@cache
def _escape(char: str) -> str:
    if char.isprintable() or char in "\n\t" or category(char) == "Zs":
        return char
    return char.encode("unicode_escape").decode()


def fold_lines(text: str, width: int, joint: str) -> list[str]:
    """Return the lines of the neutralised text. One of more than ``width`` cells is broken, after a
    space if one is near, with the ``joint`` between its pieces."""
    width = max(width, 8)
    lines = neutralise(text).expandtabs(_TAB).split("\n")
    # All but ASCII is taken for two cells wide.
    widths = [width if line.isascii() else width // 2 for line in lines]
    return [
        joint.join(wrap(line, most, drop_whitespace=False, replace_whitespace=False))
        if len(line) > most
        else line
        for line, most in zip(lines, widths, strict=True)
    ]


def on_one_line(text: str, most: int = 200) -> str:
    """Return a short text such as a name: neutralised, newlines too, and cut to ``most``."""
    plain = neutralise(text).replace("\n", "\\n").replace("\t", "\\t")
    return plain if len(plain) <= most else plain[: most - 1] + "…"
