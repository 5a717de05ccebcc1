"""A study's release goes to the Hub through the unmodified client, over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from study.main import main
from study.steps import pipeline
from study.workspace.study import Study
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


def opened_study(folder: Path, hub: HubServer) -> Study:
    release = f"release: {{repository: alice/outward, endpoint: '{hub.url}'}}\n"
    study = make_study(folder, STUDY + release)
    return study


def test_a_dry_run_shows_what_would_go_out_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with HubServer({}) as hub:
        study = opened_study(tmp_path, hub)
        before = sorted(tmp_path.rglob("*"))
        shown = CliRunner().invoke(main, ["publish", "--study", str(tmp_path), "--dry-run"])
        assert shown.exit_code == 0, shown.output
        assert f"would go to {hub.url}/datasets/alice/outward (public): tranche-0" in shown.output
        assert 'load_dataset("alice/outward"' in shown.output
        assert sorted(tmp_path.rglob("*")) == before
        assert hub.requests == []
    built, _ = pipeline.publish(study, False, lambda *step: None)
    assert f"content: {built.content}" in shown.output
