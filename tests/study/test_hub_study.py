"""A study's release goes to the Hub through the unmodified client, over HTTP."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from study.protocol.protocol import read_protocol
from study.steps import pipeline
from tests.cases import cases
from tests.hub_server import HubServer
from tests.study.conftest import TINY, make_study

pytestmark = pytest.mark.hub

STUDY = TINY.replace("arm: 2", "arm: 3")


def test_publish_uploads_records_the_revision_and_is_idempotent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_alice")
    with HubServer({"hf_alice": "alice"}) as hub:
        release = f"release: {{repository: alice/outward, endpoint: '{hub.url}'}}\n"
        study = make_study(tmp_path, STUDY + release)
        record, fresh = pipeline.publish(study, None, lambda *step: None)
        assert fresh
        assert record.location == "alice/outward"
        assert len(record.revision) == 40
        again, fresh = pipeline.publish(study, None, lambda *step: None)
        assert (again, fresh) == (record, False)
        folder, _ = pipeline.publish(study, False, lambda *step: None)
        assert folder.location == "release"
        assert folder.content == record.content


MAKE = cases(__file__, "make")
READ = cases(__file__, "read")
INIT = "from study.main import main; main()"


def test_a_pool_of_the_hub_is_read_into_memory_and_must_be_private(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    with HubServer({"hf_alice": "alice"}) as hub:
        env = {**os.environ, "HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_alice"}
        env |= {"HF_HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}

        def python(program: str, *words: str) -> list[str]:
            command = [sys.executable, "-c", program, *words]
            done = subprocess.run(command, env=env, text=True, capture_output=True)
            assert done.returncode == 0, done.stderr
            return done.stdout.splitlines()

        python(MAKE)
        before = {*tmp_path.rglob("*")}
        names = ("kept@main", "open@main", "kept", "none@main")
        kept, public, bare, none = python(READ, *(f"hf://alice/{name}" for name in names))
        assert {*tmp_path.rglob("*")} == before
        shown = python(INIT, "init", str(folder), "--items", "hf://alice/kept@main")
    [away] = python(READ, "hf://alice/kept@main")
    assert away.startswith("hf://alice/kept@main: ConnectError")
    assert kept == "['1', '2', '3', '4']"
    assert shown[:2] == ["Is 1 right?", "→ 1"]
    assert 'items: "hf://alice/kept@main"' in (folder / "study.yaml").read_text("utf-8")
    assert read_protocol(folder).pools[0].path == Path("hf://alice/kept@main")
    assert "alice" not in (folder / ".gitignore").read_text("utf-8")
    assert "anybody can read it" in public
    assert "write hf://owner/name@revision" in bare
    assert none.startswith("hf://alice/none@main: ")
