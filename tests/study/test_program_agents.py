"""A sweep with mini-swe-agent inside the sandbox, from the draw to the report's rows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from generators.catalog import INSTALLED
from harness.external_agents.agent_image import RECIPES, agent_tag, ensure_agent_image
from registry.result_row import Status
from registry.verify.verify import verify_study
from study.workspace.snapshot import take_snapshot
from study.workspace.study import manifest_of
from tests.cases import cases
from tests.harness.openai_server import Answer, Json, completion, serve
from tests.study.conftest import make_study, run_wave

PROTOCOL = cases(__file__, "protocol")
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def solve(request: Json) -> Answer:
    """The turns of a model that writes the family's solver, runs it, and submits."""
    asked = next(each["content"] for each in request["messages"] if each["role"] == "user")
    named = re.search(r'"task":\{"const":"(\w+)"', asked)
    assert named is not None
    program = INSTALLED.family(named[1]).solver()
    results = [each for each in request["messages"] if each["role"] == "tool"]
    commands = [
        "ls -l",
        f"cat > /tmp/solve.py <<'END'\n{program}\nEND\npython3 /tmp/solve.py && ls answer.json",
        SUBMIT,
    ]
    call: Any = (f"call_{len(results)}", "bash", {"command": commands[len(results)]})
    return completion(
        "I go on.", [call], usage={"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    )


@pytest.mark.docker
@pytest.mark.slow
def test_mini_swe_agent_solves_tasks_inside_the_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY_OF_MINI", "secret-key-of-mini")
    image = ensure_agent_image("mini-swe-agent")
    with serve(always=solve) as server:
        study = make_study(tmp_path / "study", PROTOCOL.format(url=server.url, image=image))
        run_wave(study)
    manifest = manifest_of(study.ledger, 0)
    assert manifest is not None
    (pin,) = manifest.models
    assert dict(pin.settings)["agent"] == json.dumps("mini-swe-agent")
    made = list(take_snapshot(study).waves[manifest.wave].results.values())
    assert [(each.status, each.score) for each in made] == [(Status.SCORED, 1.0)] * 8
    assert {each.stop_reason for each in made} == {"answered"}
    assert {each.cost_usd for each in made} == {None}
    assert set(server.keys) == {"Bearer secret-key-of-mini"}
    assert {(each.turns, each.tool_calls) for each in made} == {(3, 3)}
    assert (len(server.requests), server.faults) == (24, [])
    assert verify_study(study.store, study.identities()).holds


def test_the_tag_follows_the_recipe() -> None:
    tag = agent_tag("dosimeter-sandbox:0123", "mini-swe-agent")
    assert tag.startswith("dosimeter-sandbox:mini-swe-agent-")
    assert agent_tag("dosimeter-sandbox:4567", "mini-swe-agent") != tag
    lock = (RECIPES / "mini-swe-agent/requirements.lock").read_text()
    assert lock.count("--hash=sha256:") > lock.count("==") > 40
