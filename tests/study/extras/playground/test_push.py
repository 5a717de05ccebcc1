"""The playground on a Gradio Space: one commit, none if it is there, none over something else."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from publish.errors import PublishError
from study.extras.playground.push import FILES, push_playground
from tests.hub_server import HubServer

pytestmark = pytest.mark.hub
SPACE = "owner/play"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    monkeypatch.setenv("HF_TOKEN", "hf_owner")
    with HubServer({"hf_owner": "owner"}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
        yield server


def test_the_example_is_what_is_pushed() -> None:
    folder = Path(__file__).parents[4] / "examples" / "space"
    assert {path.name: path.read_text("utf-8") for path in folder.iterdir()} == FILES
    head = yaml.safe_load(FILES["README.md"].split("---")[1])
    assert (head["sdk"], head["app_file"]) == ("gradio", "app.py")


def test_it_is_pushed_once_and_a_push_that_failed_goes_on(hub: HubServer) -> None:
    hub.fail("POST", "/commit/", 400)
    with pytest.raises(PublishError, match=f"Space {SPACE}: the Hub answered 400"):
        push_playground(SPACE)
    revision = push_playground(SPACE)
    assert push_playground(SPACE) == revision
    space = hub.repositories[SPACE]
    assert space.sdk == "gradio"
    assert len(space.history("main")) == 2
    files = space.at("main").files
    served = {name: hub.blobs[each.key].decode() for name, each in files.items() if name[0] != "."}
    assert served == FILES


def test_the_client_writes_no_log_of_its_own(hub: HubServer) -> None:
    """Its handler writes to the standard error of whatever imported it first."""
    push_playground(SPACE)
    assert not logging.getLogger("huggingface_hub").isEnabledFor(logging.ERROR)


def test_a_space_of_something_else_and_of_others_is_left(hub: HubServer) -> None:
    push_playground(SPACE)
    space = hub.repositories[SPACE]
    files = dict(space.at("main").files)
    space.commit("main", "mine", {"mine.py": files.pop("app.py"), **files})
    with pytest.raises(PublishError, match="holds something else: name another one"):
        push_playground(SPACE)
    with pytest.raises(PublishError, match="this token may not write there"):
        push_playground("other/play")
