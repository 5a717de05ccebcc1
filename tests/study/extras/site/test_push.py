"""A site on a static Space: one commit that holds it whole, and none if it is there already."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hub_server import HubServer
from tests.study.cli.program import refusal, run
from tests.study.extras.playground import test_push as playground
from tests.study.extras.site.test_site import files_of

pytestmark = pytest.mark.hub
hub = playground.hub  # the fixture
SPACE = "owner/observatory"


def titles(hub: HubServer) -> list[str]:
    return [each.title for each in hub.repositories[SPACE].history("main")]


def served(hub: HubServer) -> dict[str, bytes]:
    files = hub.repositories[SPACE].at("main").files
    return {path: hub.blobs[each.key] for path, each in files.items() if path[0] != "."}


def test_it_is_pushed_in_one_commit_and_once(
    hub: HubServer, keyless: Path, tmp_path: Path, stored_demo: Path
) -> None:
    words = ("site", str(tmp_path / "out"), str(keyless), "--space", SPACE)
    first = run(*words)
    assert first.exit_code == 0, first.output
    assert hub.repositories[SPACE].sdk == "static"
    assert served(hub) == files_of(tmp_path / "out")
    assert b"sdk: static" in served(hub)["README.md"]
    again = run(*words, "--playground", f"{SPACE}-tasks")
    assert again.stdout.startswith(first.stdout)
    assert hub.repositories[f"{SPACE}-tasks"].sdk == "gradio"
    assert titles(hub) == ["Site", "initial commit"]
    other = run("site", str(tmp_path / "out"), str(stored_demo / "store"), "--space", SPACE)
    assert other.exit_code == 0, other.output
    assert served(hub) == files_of(tmp_path / "out")  # what is gone from the site is gone there
    assert hub.tokens_at_storage == []


def test_a_push_that_failed_goes_on(hub: HubServer, keyless: Path, tmp_path: Path) -> None:
    words = ("site", str(tmp_path / "out"), str(keyless), "--space", SPACE)
    hub.fail("POST", "/commit/", 400)
    assert "400" in refusal(*words)
    assert titles(hub) == ["initial commit"]
    hub.requests.clear()
    assert run(*words).exit_code == 0
    assert titles(hub) == ["Site", "initial commit"]
    assert hub.count("PUT", "/lfs/") == 0  # large files had arrived


def test_a_space_of_something_else_is_left_alone(
    hub: HubServer, keyless: Path, tmp_path: Path
) -> None:
    words = ("site", str(tmp_path / "out"), str(keyless), "--space", SPACE)
    assert run(*words).exit_code == 0
    files = dict(hub.repositories[SPACE].at("main").files)
    files["app.py"] = files.pop("index.json")
    hub.repositories[SPACE].commit("main", "an app", files)
    assert "holds something else" in refusal(*words)
    assert titles(hub)[0] == "an app"


@pytest.mark.parametrize(
    ("space", "words"), [("nonsense", "OWNER/NAME"), ("owner/a/b", "OWNER/NAME")]
)
def test_a_misspelt_space_is_refused_before_anything_is_written(
    keyless: Path, tmp_path: Path, space: str, words: str
) -> None:
    line = refusal("site", str(tmp_path / "out"), str(keyless), "--space", space)
    assert words in line
    assert not (tmp_path / "out").exists()
