"""A study's release goes to the Hub through the unmodified client, over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import HfApi

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


READ = """
import sys
from pathlib import Path
from study.errors import StudyError
from study.protocol.pool import read_rows
try:
    print(read_rows(Path(sys.argv[1])))
except StudyError as error:
    print(error)
"""


def test_a_pool_of_the_hub_is_read_into_memory_and_must_be_private(tmp_path: Path) -> None:
    with HubServer({"hf_alice": "alice"}) as hub:
        api = HfApi(endpoint=hub.url, token="hf_alice")
        for name, private in (("kept", True), ("open", False)):
            api.create_repo(f"alice/{name}", repo_type="dataset", private=private)
            for part, question in (("b", "2 + 2?"), ("a", "1 + 1?")):
                line = json.dumps({"question": question, "answer": 1}).encode()
                api.upload_file(
                    path_or_fileobj=line,
                    path_in_repo=f"data/{part}.jsonl",
                    repo_id=f"alice/{name}",
                    repo_type="dataset",
                )

        def read(place: str) -> str:
            env = {**os.environ, "HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_alice"}
            env |= {"HF_HOME": str(tmp_path), "PYTHONPATH": str(Path.cwd())}
            command = [sys.executable, "-c", READ, place]
            return subprocess.run(command, env=env, text=True, capture_output=True).stdout

        first, second = {"question": "1 + 1?", "answer": 1}, {"question": "2 + 2?", "answer": 1}
        assert read("hf://alice/kept@main") == f"{[first, second]}\n"
        assert not [each for each in tmp_path.rglob("*") if each.is_file()]
        assert "anybody can read this data set" in read("hf://alice/open@main")
        assert "write hf://owner/name@revision" in read("hf://alice/kept")
        assert read("hf://alice/none@main").startswith("hf://alice/none@main: ")
