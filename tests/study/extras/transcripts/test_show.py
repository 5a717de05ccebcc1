"""`show`: a stored attempt as people read it, whatever a model put into it."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from harness.episode import Episode, StopReason, ToolUse, Turn
from harness.model import Image, Message, Omission, Reply, Role, ToolCall, Usage
from harness.storage import EPISODE_CODEC, attempt_key, hex_of, result_key
from registry.canonical import digest_bytes
from study.extras.transcripts.find import list_episodes, stored_attempt
from study.extras.transcripts.show import (
    Transcript,
    fold_lines,
    neutralise,
    on_one_line,
    open_transcript,
    print_transcript,
    transcript_json,
)
from study.steps import pipeline
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study
from tests.cases import cases
from tests.ledgers import keys_of_cell
from tests.study.cli.program import run_in as run

PICTURE = b"\x89PNG not quite"
# Clears the screen, sets the title, goes back to the line's start, turns text round, C1, DEL.
HOSTILE = "\x1b[2J\x1b]0;owned\x07over\rwritten \u202etxt.exe \x9b31m \x7f\x00 \u200b end"
FORGED = "x" * 500 + "\n── grade  deterministic · scored · score 1"


@pytest.fixture
def copied(finished: Study, tmp_path: Path) -> Study:
    folder = tmp_path / "copy"
    shutil.copytree(finished.folder, folder)
    return pipeline.open_study(folder)


def printed(transcript: Transcript, grade: bool = True) -> str:
    file = io.StringIO()
    print_transcript(transcript, Console(file=file, width=200), grade, arm=False)
    return file.getvalue()


@pytest.fixture
def transcript(finished: Study) -> Transcript:
    return open_transcript(finished, hex_of(some_episode(finished)), None, grade=True)


def some_episode(study: Study, model: str = "honest") -> str:
    return list_episodes(take_snapshot(study), 1, model)[0].cell.episode


def hostile_episode(episode: Episode) -> Episode:
    """A second attempt at it by a model that would rather talk to the terminal."""
    call = ToolCall(HOSTILE, HOSTILE, json.dumps({HOSTILE: FORGED, "path": HOSTILE}))
    wild = ToolCall("two", "execute_python", HOSTILE)
    image = Image("image/png", PICTURE)
    said = Message(Role.ASSISTANT, FORGED, calls=(call, wild), reasoning=HOSTILE)
    seen = Message(Role.TOOL, HOSTILE, (image,), call_id=HOSTILE)
    killed = Message(Role.TOOL, "gone", call_id="two")
    step = Turn(
        Reply(said, Usage(120, 7), HOSTILE, finish=HOSTILE, retries=3, failed=(HOSTILE,)),
        (
            ToolUse(HOSTILE, HOSTILE, seen, 1.25),
            ToolUse("two", "execute_python", killed, 60.0, 137, ("time", "memory")),
        ),
        2.5,
        prompt=HOSTILE,
    )
    return replace(
        episode,
        attempt=2,
        steps=(step,),
        stop=StopReason.FAILED,
        error_class="provider:" + HOSTILE,
        answer_file=b"\xff" + HOSTILE.encode(),
        answer_files=((HOSTILE, b"1"),),
        container=HOSTILE,
        failed_tries=(("rate_limit", 2), (HOSTILE, 1)),
    )


def keep(study: Study, episode: Episode) -> None:
    key = attempt_key(episode.id, episode.attempt)
    keys = keys_of_cell(study, attempt_key(episode.id, 1))
    assert EPISODE_CODEC.write(study.store, key, episode, keys)


@pytest.fixture
def hostile(copied: Study) -> tuple[Study, str]:
    name = some_episode(copied)
    keep(copied, hostile_episode(stored_attempt(copied, name, 1)))
    return copied, hex_of(name)


def test_controls_become_escapes_and_text_of_all_languages_stays() -> None:
    assert neutralise("naïve 日本語 🙂 µ·m\u00a0x\n\tok") == "naïve 日本語 🙂 µ·m\u00a0x\n\tok"
    assert neutralise(HOSTILE) == (
        "\\x1b[2J\\x1b]0;owned\\x07over\\rwritten \\u202etxt.exe \\x9b31m \\x7f\\x00 \\u200b end"
    )
    assert neutralise("\ud800\U000e0041") == "\\ud800\\U000e0041"  # no half pairs, no tags
    assert on_one_line("a\nb\tc" + "d" * 300).startswith("a\\nb\\tcd")
    assert len(on_one_line("d" * 300)) == 200


def test_what_a_request_left_out_and_what_closed_the_tools_is_shown(transcript: Transcript) -> None:
    first = transcript.episode.steps[0]
    last = replace(
        first,
        prompt="Answer.",
        closed=StopReason.TURN_LIMIT,
        left_out=Omission(pictures=3, results=2),
        reply=replace(first.reply, dropped_calls=34),
    )
    text = printed(replace(transcript, episode=replace(transcript.episode, steps=(last,))), False)
    assert "message before the next turn, tools closed by the turn_limit" in text
    assert "request without its oldest 3 pictures and 2 results" in text
    assert "34 calls dropped" in text


def graded(transcript: Transcript, **changes: Any) -> Transcript:
    assert transcript.result is not None
    grade = replace(transcript.result.grade, **changes)
    judged = ("strict", replace(grade, facts=grade.verdicts))
    return replace(transcript, result=replace(transcript.result, grade=grade), judged=(judged,))


def test_repairs_and_violations_stand_beside_the_grade(transcript: Transcript) -> None:
    lines = ('$.a: does not meet type: "number"', "$.\x1b[2J: 'z' is a required property")
    marked = graded(transcript, repairs=("tag_form", "fence"), violations=lines)
    text = printed(marked)
    assert "\nrepairs    tag_form, fence\n" in text
    assert f"\nschema     {lines[0]}\n" in text
    assert "\nschema     $.\\x1b[2J: 'z' is" in text
    shown = transcript_json(marked, True, False)["grade"]
    assert (shown["repairs"], shown["violations"]) == (("tag_form", "fence"), lines)


def test_a_fact_that_a_gate_withholds_is_marked(transcript: Transcript) -> None:
    assert transcript.result is not None
    first, second, third, *rest = transcript.result.grade.parts
    none = (False,) * len(rest)
    verdicts = (True, False, False, *none)
    marked = graded(transcript, facts=(True, True, False, *none), verdicts=verdicts)
    shown = printed(marked).splitlines()
    assert f"pass  {first}   strict pass" in shown
    assert f"gate  {second}   strict fail" in shown
    assert f"fail  {third}   strict fail" in shown
    assert len([line for line in shown if line.startswith("gate:")]) == 1
    assert "\ngate" not in printed(graded(transcript, facts=verdicts, verdicts=verdicts))


@pytest.mark.parametrize("text", ["", "a", "日本語" * 30, "word " * 40, "x" * 1000, "a\n\nb\tc"])
def test_folding_loses_nothing_and_keeps_within_its_width(text: str) -> None:
    lines = fold_lines(text, 20, "\n")
    assert max(cell_len(piece) for line in lines for piece in line.split("\n")) <= 20
    expected = [line.expandtabs(4) for line in text.split("\n")]
    assert [line.replace("\n", "") for line in lines] == expected


class TestTheTranscript:
    def test_tells_each_turn_its_calls_and_what_they_came_to(self, finished: Study) -> None:
        name = hex_of(some_episode(finished))
        shown = run(finished, "show", name[:10], "--grade")
        assert shown.exit_code == 0, shown.output
        episode = stored_attempt(finished, f"sha256:{name}", 1)
        for told in (name, episode.container, "scripted-1", "after 3 turns", "attempt    1 of 1"):
            assert told in shown.stdout
        assert shown.stdout.index("── system") < shown.stdout.index("── turn 1")
        assert "▶ run_command" in shown.stdout
        assert "│ ls -l" in shown.stdout
        assert "◀ execute_python  exit code 0" in shown.stdout
        assert "── grade  deterministic" in shown.stdout
        assert "The answer states that the average of" in shown.stdout

    def test_tells_no_arm_and_no_grade_unless_asked(self, finished: Study) -> None:
        name = hex_of(some_episode(finished))
        shown = run(finished, "show", name)
        assert "arm" not in shown.stdout.replace("charm", "")
        assert "── grade" not in shown.stdout
        armed = run(finished, "show", name, "--arm")
        assert "public arm" in armed.stdout or "private arm" in armed.stdout
        assert "warning" in armed.stderr
        assert "warning" not in shown.stderr

    def test_json_holds_the_whole_record(self, finished: Study) -> None:
        name = some_episode(finished)
        told = json.loads(run(finished, "show", name, "--json", "--grade").stdout)
        stored = stored_attempt(finished, name, 1)
        head, *turns = EPISODE_CODEC.encode(stored).decode().rstrip("\n").split("\n")
        assert len(turns) == len(stored.steps) == 3
        assert told["record"].pop("steps") == [json.loads(turn)["body"] for turn in turns]
        assert told["record"] | {"steps": []} == json.loads(head)["body"]
        assert "arm" not in told
        parts = told["grade"]["parts"]
        assert all(part["id"] and part["asks"] for part in parts)
        assert all(part["fact"] or not part["passed"] for part in parts)

    def test_a_hostile_one_cannot_drive_the_terminal(self, hostile: tuple[Study, str]) -> None:
        study, name = hostile
        for form in ((), ("--json",), ("--grade",)):
            shown = run(study, "show", name, "--attempt", "2", *form)
            assert shown.exit_code == 0, shown.output
            text = shown.stdout_bytes.decode()
            assert all(char.isprintable() or char == "\n" for char in text)
        assert "\\x1b[2J" in text

    def test_nor_forge_a_line_of_ours(self, hostile: tuple[Study, str]) -> None:
        study, name = hostile
        lines = run(study, "show", name, "--attempt", "2").stdout.splitlines()
        assert not [line for line in lines if line.startswith(("── grade", "x", "over"))]
        assert [line for line in lines if line.startswith("│ ── grade")]

    def test_failures_limits_retries_and_images_are_told(self, hostile: tuple[Study, str]) -> None:
        study, name = hostile
        text = run(study, "show", name, "--attempt", "2", "--grade").stdout
        assert "exit code 137, 60.00 s, limits hit: time, memory" in text
        assert "3 retries" in text
        assert "3 requests: rate_limit 2, " in text
        assert "120 in, 7 out" in text
        assert f"[image image/png, {len(PICTURE)} bytes, {digest_bytes(PICTURE)}]" in text
        assert "attempt    2 of 2; attempt 1 counts" in text
        assert "of attempt 1, which counts" in text


@pytest.mark.parametrize("command", ["show", "status"])
def test_what_other_commands_need_is_not_loaded(finished: Study, command: str) -> None:
    program = cases(__file__, "loaded")
    subject = [hex_of(some_episode(finished))] if command == "show" else []
    arguments = [command, *subject, "--study", str(finished.folder)]
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    assert ended.stdout.splitlines()[-1] == "[]"


class TestFindingAnEpisode:
    def test_the_list_has_every_episode_and_arms_with_a_warning_only(self, finished: Study) -> None:
        listed = json.loads(run(finished, "show", "--json").stdout)
        assert len(listed) == 24 + 48
        assert {"episode", "stratum", "model", "status", "score"} <= set(listed[0])
        assert "arm" not in listed[0]
        told = run(finished, "show", "--arm", "--json")
        assert {each["arm"] for each in json.loads(told.stdout)} == {"public", "private"}
        assert "warning" in told.stderr
        some = ("show", "--wave", "1", "--model", "spiked", "--json")
        of_spiked = json.loads(run(finished, *some).stdout)
        assert {(each["wave"], each["model"]) for each in of_spiked} == {(1, "spiked")}
        seeds = sorted(e["seed"] for e in of_spiked if e["stratum"] == "compute_average/easy")
        assert seeds == list(range(1, 13))

    def test_an_attempt_that_the_store_has_lost_is_one_clear_error(self, copied: Study) -> None:
        name = hex_of(some_episode(copied))
        store = copied.folder / "store"
        (store / result_key(name)).unlink()
        (store / attempt_key(name, 1)).rename(store / attempt_key(name, 2))
        told = run(copied, "show", name)
        assert told.exit_code == 2
        assert "--attempt 1: stored of this episode are: none" in told.stderr

    @pytest.mark.parametrize(("arguments", "why"), cases(__file__, "refused"))
    def test_what_names_none_is_refused(
        self, finished: Study, arguments: tuple[str, ...], why: str
    ) -> None:
        refused = run(finished, "show", *arguments)
        assert refused.exit_code == 2
        assert why in refused.stderr

    def test_an_ambiguous_prefix_says_so(self, finished: Study) -> None:
        names = [hex_of(each.cell.episode) for each in list_episodes(take_snapshot(finished))]
        shared = next(a for a in "0123456789abcdef" if sum(n[0] == a for n in names) > 1)
        assert "give more digits" in run(finished, "show", shared).stderr

    def test_without_the_key_it_says_what_is_needed(
        self, finished: Study, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        name = some_episode(finished)
        monkeypatch.setenv("DOSIMETER_KEY_FILE", str(tmp_path / "none"))
        for arguments in ((name,), ()):
            refused = run(finished, "show", *arguments)
            assert refused.exit_code == 2
            assert "sealed to the study's key" in refused.stderr
            assert "Traceback" not in refused.output
