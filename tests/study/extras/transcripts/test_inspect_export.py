"""`export`: stored episodes as Inspect AI's logs."""

from __future__ import annotations

import base64
import io
import json
import os
import stat
import sys
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from generators.task import Limits, TaskSpec
from harness.episode import Episode, StopReason, ToolUse, Turn
from harness.episodes.result import EpisodeResult
from harness.model import Image, Message, Reply, Role, ToolCall, Usage
from registry.ledger.records import ModelPin, Provenance, RunManifest
from study.extras.transcripts.find import list_episodes, stored_attempt
from study.extras.transcripts.inspect_export import LoggedEpisode, LogHeader, write_log
from study.main import main
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
DEEP = '{"code": ' + "[" * 5000 + "]" * 5000 + "}"


def run(study: Study, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["export", *arguments, "--study", str(study.folder)])


def members(data: bytes) -> dict[str, Any]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: json.loads(archive.read(name)) for name in archive.namelist()}


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
def strange(finished: Study) -> bytes:
    """A log of three episodes that went wrong in every way that a model finds."""
    listed = list_episodes(take_snapshot(finished), 1, "honest")[0]
    assert listed.result is not None
    episode = stored_attempt(finished, listed.cell.episode, 1)
    wild, failed, slow = strange_episodes(episode)
    missing = replace(listed.result, score=None)
    held = [
        LoggedEpisode(1, wild, listed.result, (failed,)),
        LoggedEpisode(2, failed, missing),
        LoggedEpisode(3, slow, listed.result),
    ]
    return log_of(held)


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
    usage = Usage(150, 25)
    whole = replace(episode, steps=(first, last), usage=usage, stop=StopReason.TURN_LIMIT)
    failed = replace(
        whole, steps=(first,), stop=StopReason.FAILED, error_class="provider:overload", attempt=1
    )
    none = replace(whole, steps=(), stop=StopReason.TIME_LIMIT, usage=Usage())
    return replace(whole, attempt=2), failed, none


def log_of(held: list[LoggedEpisode]) -> bytes:
    provenance = Provenance("c" * 40, False, "", "sha256:1", "", (("numpy", "2"),))
    pin = ModelPin("m", "openai", "m-1", ())
    manifest = RunManifest(
        study="s",
        wave=1,
        plan="",
        instances_root="",
        models=(pin,),
        judges=(),
        sandbox="docker",
        runtime="runc",
        replicates=(1,),
        schedule_seed="",
        run_recipient="",
        run_signer="5e" * 32,
        run_key="",
        provenance=provenance,
        single_turn=(),
    )
    spec = TaskSpec("t/x.yml", "1", "q1", ())
    header = LogHeader(manifest, spec, pin, "2026-11-22T02:54:04Z", Limits(), complete=False)
    assert "/" not in header.file_name
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.eval")
        write_log(path, header, held)
        assert list(path.parent.iterdir()) == [path]
        return path.read_bytes()


def test_there_is_one_log_a_model_task_and_wave(finished: Study, public: Path) -> None:
    heads = [members(path.read_bytes())["header.json"] for path in sorted(public.iterdir())]
    told = {(h["eval"]["metadata"]["wave"], h["eval"]["model"], h["eval"]["task"]) for h in heads}
    tasks = ("compute_average/easy", "count_circles/easy")
    runs = ((0, "honest"), (1, "honest"), (1, "spiked"))
    assert told == {(wave, model, task) for wave, model in runs for task in tasks}
    assert {h["status"] for h in heads} == {"success"}


def test_by_default_only_the_public_arm_is_written(finished: Study, public: Path) -> None:
    arms = {entry.instance: entry.arm for entry in finished.entries()}
    wanted = {
        e.cell.episode
        for e in list_episodes(take_snapshot(finished))
        if arms[e.cell.instance] == "public"
    }
    logs = [members(path.read_bytes()) for path in public.iterdir()]
    assert {s["metadata"]["episode"] for log in logs for s in samples(log)} == wanted


@pytest.mark.parametrize("arm", ["private", "all"])
def test_private_transcripts_need_to_be_revealed(finished: Study, tmp_path: Path, arm: str) -> None:
    out = tmp_path / "logs"
    refused = run(finished, "--arm", arm, "--out", str(out))
    assert refused.exit_code == 2
    assert "--reveal" in refused.stderr
    assert not out.exists()
    done = run(finished, "--arm", arm, "--reveal", "--wave", "0", "--out", str(out))
    assert done.exit_code == 0
    assert "PRIVATE transcripts in plain text" in done.stderr
    count = sum(len(samples(members(path.read_bytes()))) for path in out.iterdir())
    assert count == (24 if arm == "all" else 12)


def test_only_the_owner_may_read_them(public: Path) -> None:
    assert stat.S_IMODE(os.stat(public).st_mode) == 0o700
    assert {stat.S_IMODE(os.stat(path).st_mode) for path in public.iterdir()} == {0o600}


def test_no_arm_is_named_in_them(finished: Study, tmp_path: Path) -> None:
    out = tmp_path / "logs"
    assert (
        run(finished, "--arm", "all", "--reveal", "--wave", "0", "--out", str(out)).exit_code == 0
    )
    for path in out.iterdir():
        text = json.dumps(members(path.read_bytes()))
        assert '"private"' not in text
        assert '"public"' not in text


def test_a_folder_that_is_there_and_a_missing_key_are_refused(
    finished: Study, public: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "is there already" in run(finished, "--out", str(public)).stderr
    monkeypatch.setenv("DOSIMETER_KEY_FILE", str(tmp_path / "none"))
    refused = run(finished, "--out", str(tmp_path / "logs"))
    assert refused.exit_code == 2
    assert "sealed to the study's key" in refused.stderr


def test_a_sample_holds_messages_calls_and_score(finished: Study, public: Path) -> None:
    logs = [members(path.read_bytes()) for path in public.iterdir()]
    # The spiked agent's conversations are shorter: it knows these files.
    asked = ("honest", "compute_average/easy")
    log = next(
        log
        for log in logs
        if (log["header.json"]["eval"]["model"], log["header.json"]["eval"]["task"]) == asked
    )
    sample = samples(log)[0]
    roles = [message["role"] for message in sample["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool", "assistant"]
    call = sample["messages"][2]["tool_calls"][0]
    assert call["function"] == "run_command"
    assert call["arguments"] == {"command": "ls -l"}
    result = result_of(finished, sample)
    assert sample["scores"]["deterministic"]["value"] == result.score
    assert len(log["summaries.json"]) == len(samples(log)) == 6


def result_of(study: Study, sample: dict[str, Any]) -> EpisodeResult:
    named = sample["metadata"]["episode"]
    found = next(e for e in list_episodes(take_snapshot(study)) if e.cell.episode == named)
    assert found.result is not None
    return found.result


def test_failures_limits_and_usage_are_told(strange: bytes) -> None:
    log = members(strange)
    wild, failed, slow = samples(log)
    assert (wild["limit"]["type"], wild["limit"]["limit"]) == ("turn", 10.0)
    assert wild["error_retries"][0]["message"] == "attempt 1 failed: provider:overload"
    assert wild["model_usage"]["m"]["total_tokens"] == 175
    errors = [m.get("error", {}).get("type") for m in wild["messages"] if m["role"] == "tool"]
    assert errors == [None, "timeout", None, "unknown"]
    assert failed["error"]["message"].endswith("provider:overload")
    assert failed["scores"] == {}  # missing is never zero
    assert (slow["limit"]["type"], slow["limit"]["limit"]) == ("working", 900.0)
    assert slow["model_usage"] == {}  # unknown is not zero either
    assert log["header.json"]["status"] == "cancelled"
    assert log["header.json"]["results"]["scores"][0]["unscored_samples"] == 1


def test_an_image_is_kept_once_and_whole(strange: bytes) -> None:
    wild = samples(members(strange))[0]
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
            held = sample.model_dump_json(exclude={"attachments"})
            assert "attachment://" not in held
        assert len(log.read_eval_log_sample_summaries(str(path))) == 6


def test_without_inspects_library_the_remedy_is_told_and_nothing_is_written(
    finished: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    refused = run(finished, "--out", str(tmp_path / "logs"))
    assert refused.exit_code == 2
    assert "install dosimeter[inspect]" in refused.stderr
    assert list(tmp_path.iterdir()) == []
