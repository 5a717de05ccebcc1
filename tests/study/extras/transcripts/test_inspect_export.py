"""`export`: stored episodes as Inspect AI's logs."""

from __future__ import annotations

import base64
import json
import re
import stat
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from generators.task import TaskSpec
from harness.episode import Episode, StopReason, ToolUse, Turn
from harness.model import Image, Message, Reply, Role, ToolCall, Usage
from study.extras.transcripts.find import list_episodes, stored_attempt
from study.extras.transcripts.inspect_export import LoggedEpisode, LogHeader, write_log
from study.main import main
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
DEEP = '{"code": ' + "[" * 5000 + "]" * 5000 + "}"


def run(study: Study, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["export", *arguments, "--study", str(study.folder)])


def members(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        return {name: json.loads(archive.read(name)) for name in archive.namelist()}


def subject(log: dict[str, Any]) -> tuple[int, str, str]:
    head = log["header.json"]["eval"]
    return head["metadata"]["wave"], head["model"], head["task"]


def samples(log: dict[str, Any]) -> list[dict[str, Any]]:
    return [value for name, value in log.items() if name.startswith("samples/")]


@pytest.fixture(scope="module")
def public(finished: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("export") / "logs"
    done = run(finished, "--out", str(out))
    assert done.exit_code == 0, done.output
    assert "plain text" in done.stderr
    return out


@pytest.fixture(scope="module")
def strange(finished: Study, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A log of three episodes that went wrong in every way that a model finds."""
    listed = list_episodes(take_snapshot(finished), 1, "honest")[0]
    assert listed.result is not None
    manifest = take_snapshot(finished).waves[1].manifest
    wild, failed, slow = strange_episodes(stored_attempt(finished, listed.cell.episode, 1))
    held = [
        LoggedEpisode(1, wild, listed.result, (failed,)),
        LoggedEpisode(2, failed, replace(listed.result, score=None)),
        LoggedEpisode(3, slow, listed.result),
    ]
    spec, pin = TaskSpec("t/x.yml", "1", "q1", ()), manifest.models[0]
    header = LogHeader(manifest, spec, pin, "2026-11-22T02:54:04Z", complete=False)
    assert "/" not in header.file_name
    path = tmp_path_factory.mktemp("strange") / "log.eval"
    write_log(path, header, held)
    assert list(path.parent.iterdir()) == [path]
    return members(path)


def strange_episodes(episode: Episode) -> tuple[Episode, Episode, Episode]:
    calls = (
        ToolCall("same", "view_image", '{"path": "a.png"}'),
        ToolCall("same", "execute_python", DEEP),
        ToolCall("c", "execute_python", '{"code": "\\ud800", "n": NaN, "deep": [[[1]]]}'),
        ToolCall("d", "no_such_tool", "\x00 not JSON"),
    )
    picture = Image("image/png", PICTURE)
    said = Message(Role.ASSISTANT, "Looking.", calls=calls, reasoning="attachment://nothing")
    uses = (
        ToolUse("same", "view_image", Message(Role.TOOL, "seen", (picture,), call_id="same"), 0.5),
        ToolUse("same", "execute_python", Message(Role.TOOL, "gone", call_id="same"), 60.0, 137,
                ("time", "memory")),
        ToolUse("c", "execute_python", Message(Role.TOOL, "x" * 5000, call_id="c"), 0.1, 0),
        ToolUse("d", "no_such_tool", Message(Role.TOOL, "Error: there is no tool", call_id="d"),
                0.0),
    )  # fmt: skip
    first = Turn(Reply(said, Usage(100, 20), "m-2", "tool_use", retries=2), uses, 62.0)
    last = Turn(
        Reply(Message(Role.ASSISTANT, "Done.\x1b[2J"), Usage(50, 5), "m-3", "odd"), (), 1.0, "Last."
    )
    whole = replace(episode, steps=(first, last), usage=Usage(150, 25), stop=StopReason.TURN_LIMIT)
    failed = replace(
        whole, steps=(first,), stop=StopReason.FAILED, error_class="provider:overload", attempt=1
    )
    none = replace(whole, steps=(), stop=StopReason.TIME_LIMIT, usage=Usage())
    return replace(whole, attempt=2), failed, none


def test_there_is_one_log_a_model_task_and_wave(finished: Study, public: Path) -> None:
    logs = [members(path) for path in public.iterdir()]
    tasks = ("compute_average/easy", "count_circles/easy")
    runs = ((0, "honest"), (1, "honest"), (1, "spiked"))
    wanted = {(wave, model, task) for wave, model in runs for task in tasks}
    assert {subject(log) for log in logs} == wanted


def test_by_default_only_the_public_arm_is_written(finished: Study, public: Path) -> None:
    arms = {entry.instance: entry.arm for entry in finished.entries()}
    wanted = {
        e.cell.episode
        for e in list_episodes(take_snapshot(finished))
        if arms[e.cell.instance] == "public"
    }
    logs = [members(path) for path in public.iterdir()]
    assert {s["metadata"]["episode"] for log in logs for s in samples(log)} == wanted


@pytest.mark.parametrize("arm", ["private", "all"])
def test_private_transcripts_need_to_be_revealed_and_name_no_arm(
    finished: Study, tmp_path: Path, arm: str
) -> None:
    out = tmp_path / "logs"
    refused = run(finished, "--arm", arm, "--out", str(out))
    assert refused.exit_code == 2
    assert "--reveal" in refused.stderr
    assert not out.exists()
    done = run(finished, "--arm", arm, "--reveal", "--wave", "0", "--out", str(out))
    assert done.exit_code == 0
    assert "PRIVATE transcripts in plain text" in done.stderr
    logs = [members(path) for path in out.iterdir()]
    assert sum(len(samples(log)) for log in logs) == (24 if arm == "all" else 12)
    assert not re.search('"(private|public)"', json.dumps(logs))


def test_only_the_owner_may_read_them(public: Path) -> None:
    assert stat.S_IMODE(public.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in public.iterdir()} == {0o600}


def test_a_folder_that_is_there_and_a_missing_key_are_refused(
    finished: Study, public: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "is there already" in run(finished, "--out", str(public)).stderr
    monkeypatch.setenv("DOSIMETER_KEY_FILE", str(tmp_path / "none"))
    refused = run(finished, "--out", str(tmp_path / "logs"))
    assert refused.exit_code == 2
    assert "sealed to the study's key" in refused.stderr


def test_a_sample_holds_messages_calls_and_score(finished: Study, public: Path) -> None:
    logs = [members(path) for path in public.iterdir()]
    # The spiked agent's conversations are shorter: it knows these files.
    (log,) = [log for log in logs if subject(log) == (1, "honest", "compute_average/easy")]
    sample = samples(log)[0]
    roles = [message["role"] for message in sample["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool", "assistant"]
    call = sample["messages"][2]["tool_calls"][0]
    assert call["function"] == "run_command"
    assert call["arguments"] == {"command": "ls -l"}
    results = {e.cell.episode: e.result for e in list_episodes(take_snapshot(finished))}
    result = results[sample["metadata"]["episode"]]
    assert result is not None
    assert sample["scores"]["deterministic"]["value"] == result.score
    assert len(log["summaries.json"]) == len(samples(log)) == 6


def test_failures_ends_and_usage_are_told(strange: dict[str, Any]) -> None:
    wild, failed, slow = samples(strange)
    assert [sample["metadata"]["stop"] for sample in (wild, slow)] == ["turn_limit", "time_limit"]
    assert wild["error_retries"][0]["message"] == "attempt 1 failed: provider:overload"
    assert wild["model_usage"]["honest"]["total_tokens"] == 175
    errors = [m.get("error", {}).get("message") for m in wild["messages"] if m["role"] == "tool"]
    assert errors == [None, "limits hit: time, memory", None, "Error: there is no tool"]
    assert failed["error"]["message"].endswith("provider:overload")
    assert failed["scores"] == {}  # missing is never zero
    assert slow["model_usage"] == {}  # unknown is not zero either
    assert strange["header.json"]["status"] == "cancelled"
    assert strange["header.json"]["results"]["scores"][0]["unscored_samples"] == 1


def test_an_image_is_kept_once_and_whole(strange: dict[str, Any]) -> None:
    wild = samples(strange)[0]
    seen = next(m for m in wild["messages"] if m["role"] == "tool")
    name = seen["content"][1]["image"].removeprefix("attachment://")
    assert wild["attachments"][name].endswith(base64.b64encode(PICTURE).decode())
    assert json.dumps(wild).count(base64.b64encode(PICTURE).decode()) == 1


def test_inspect_reads_the_logs(public: Path) -> None:
    from inspect_ai import log

    assert len(log.list_eval_logs(str(public))) == 6
    for path in public.iterdir():
        found = log.read_eval_log(str(path), resolve_attachments="full")
        assert found.status == "success"
        assert len(found.samples) == found.results.total_samples == 6
        for sample in found.samples:
            assert 0 <= sample.scores["deterministic"].as_float() <= 1
            assert "attachment://" not in sample.model_dump_json(exclude={"attachments"})
        assert len(log.read_eval_log_sample_summaries(str(path))) == 6


def test_without_inspects_library_the_remedy_is_told_and_nothing_is_written(
    finished: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    refused = run(finished, "--out", str(tmp_path / "logs"))
    assert refused.exit_code == 2
    assert "pip install 'dosimeter[inspect]'" in refused.stderr
    assert list(tmp_path.iterdir()) == []
