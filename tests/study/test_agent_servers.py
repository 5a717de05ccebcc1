"""A study of an agent behind a server of somebody else's, from the draw to the report."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from examples.agent_server.server import Agent, make_server
from harness.external_agents.client import FOLDER_LINE
from harness.models.scripted import SolvingAgent
from harness.models.settings import AgentServerSettings
from registry.result_row import Status
from registry.verify.verify import verify_study
from study.errors import StudyError
from study.protocol.protocol import read_protocol
from study.workspace.snapshot import take_snapshot
from study.workspace.study import manifest_of
from tests.cases import cases
from tests.harness.chat_server import running
from tests.study.conftest import make_study, run_wave

PROTOCOL = cases(__file__, "protocol")
PAGE = Path(__file__).resolve().parents[2] / "docs/agent-servers.md"


@contextmanager
def honest_server() -> Iterator[str]:
    agent = SolvingAgent("honest", 0.0)
    with running(make_server(Agent(lambda temperature, tokens: agent))) as url:
        yield url


def test_a_wave_of_an_agent_server_is_scored_and_its_manifest_shows_its_terms(
    tmp_path: Path,
) -> None:
    with honest_server() as url:
        study = make_study(tmp_path / "study", PROTOCOL.format(url=url))
        run_wave(study)
    manifest = manifest_of(study.ledger, 0)
    assert manifest is not None
    (pin,) = manifest.models
    assert (pin.provider, pin.version) == ("agent_server", "agent-7")
    assert dict(pin.settings) == {"base_url": json.dumps(url), "tree": '"host"'}
    made = list(take_snapshot(study).waves[manifest.wave].results.values())
    assert [(each.status, each.score) for each in made] == [(Status.SCORED, 1.0)] * 4
    assert {(each.turns, each.tool_calls, each.served_version) for each in made} == {
        (3, 2, "scripted-1")
    }
    assert verify_study(study.store, study.identities()).holds


# --- study.yaml, and the page that explains it ---


def example() -> str:
    found = re.search(r"```yaml\n(.*?)```", PAGE.read_text(), re.S)
    assert found is not None
    return found[1]


def write(folder: Path, text: str) -> Path:
    (folder / "study.yaml").write_text(text, encoding="utf-8")
    return folder


def test_the_pages_example_is_a_protocol(tmp_path: Path) -> None:
    beside, elsewhere = read_protocol(write(tmp_path, example())).models
    assert (beside.provider, beside.version) == ("agent_server", "name-and-version")
    assert dict(beside.settings)["tree"] == '"host"'
    assert dict(elsewhere.settings)["bridge_url"] == '"http://10.0.0.5:8790"'


def test_the_page_tells_what_is_sent(tmp_path: Path) -> None:
    page = PAGE.read_text()
    line = re.search(r"^Your work folder is (\S+) .*$", page, re.M)
    assert line is not None
    assert FOLDER_LINE.format(folder=line[1]).strip() == line[0]
    assert f"| `rounds` | {AgentServerSettings.model_fields['rounds'].default} |" in page


@pytest.mark.parametrize(("old", "new", "words"), cases(__file__, "refused"))
def test_a_section_that_does_not_hold_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    assert old in example()
    with pytest.raises(StudyError) as caught:
        read_protocol(write(tmp_path, example().replace(old, new, 1)))
    message = str(caught.value)
    assert re.match(rf"{re.escape(str(tmp_path))}/study\.yaml:\d+: ", message), message
    assert words in message
    assert "secret" not in message
    assert "\n" not in message
