"""A study's release goes to the Hub through the unmodified client, over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from study.steps import pipeline
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
