"""A stored attempt as a readable transcript. Text from a model, a server or a sandbox stands behind
a bar, and cannot drive the terminal or pass for a line of the program."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import zip_longest
from textwrap import wrap
from typing import Any
from unicodedata import category

from markupsafe import Markup
from rich.console import Console

from analysis.words import templates_in
from harness.episode import Episode, Grade, Mode, ToolUse, Turn
from harness.episodes.result import EpisodeResult
from harness.model import ToolCall
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
    """Print the attempt turn by turn, in no colour. Nothing is cut."""
    result = transcript.result
    verdicts = {} if result is None else _verdict_words(result.grade)
    by_judges = {judge: _verdict_words(each) for judge, each in transcript.judged}
    filters: dict[str, Callable[..., object]] = {
        "hex": hex_of,
        "number": lambda count: "unknown" if count is None else f"{count:,}",
        "size": lambda data: f"{len(data):,} bytes",
        "digest": digest_bytes,
        "short": lambda name: on_one_line(name, 80),
        "fields": parse_arguments,
        "calls": _calls,
    }
    pages = templates_in(__package__, **filters).overlay(finalize=_safe)
    pieces = pages.get_template("transcript.txt.j2").generate(
        transcript=transcript,
        arm=arm,
        graded=grade,
        verdicts=verdicts,
        by_judges=by_judges,
        withheld=any(_WITHHELD in words.values() for words in (verdicts, *by_judges.values())),
        block=partial(_block, console.width),
    )
    console.file.writelines(pieces)


def _calls(step: Turn) -> Iterator[tuple[ToolCall | None, ToolUse | None]]:
    """The calls of a turn with their uses. Ids are the model's: they may repeat."""
    calls, uses = step.reply.message.calls, {use.call_id: use for use in step.uses}
    if len(calls) == len(step.uses) and uses.keys() == {call.id for call in calls}:
        return zip(calls, [uses[call.id] for call in calls], strict=True)
    return zip_longest(calls, step.uses)


def _verdict_words(grade: Grade) -> dict[str, str]:
    """The word of each part's verdict."""
    return {
        name: _WITHHELD if fact and verdict is False else _VERDICT[verdict]
        for name, fact, verdict in _parts(grade)
    }


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


def _safe(value: object) -> Markup:
    """A value of the template as safe text, but for what is so already."""
    return value if isinstance(value, Markup) else Markup(on_one_line(str(value)))  # noqa: S704 - of escaped controls, for no browser


def _block(width: int, text: str, indent: str = "") -> Markup:
    """Untrusted text, whole, behind a bar."""
    lines = fold_lines(text, width - len(indent) - len(_BAR), f"\n{indent}{_REST}")
    return Markup("\n".join([f"{indent}{_BAR}{line}" for line in lines]))  # noqa: S704 - the same
