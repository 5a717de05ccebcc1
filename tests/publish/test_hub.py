"""A release on the Hub: the unmodified client over HTTP against a small Hub of our own."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from publish.errors import PublishError
from publish.hub import HubPlace, Target, Uploaded, _remote_reason, upload_release
from publish.leakcheck.check import check_folder
from publish.leakcheck.secrets import Needles
from publish.release import ReleaseManifest, ReleaseText, build_release
from tests.cases import cases

pytestmark = pytest.mark.hub

REPOSITORY = "owner/letters"
COMMITS = "/commit/main"
Check = Callable[[Path], object]
Upload = Callable[..., Uploaded]


@pytest.fixture
def check(needles: Needles) -> Check:
    return lambda folder: check_folder(folder, needles)


@pytest.fixture
def upload(hub: Any, release: ReleaseManifest, check: Check) -> Upload:
    """Upload the release, or another one, as it is checked or by another check."""

    def put(what: ReleaseManifest = release, by: Check = check, **options: Any) -> Uploaded:
        place = HubPlace(options.pop("repository", REPOSITORY), hub.url, **options)
        return upload_release(what.folder, place, by, pause=lambda seconds: None)

    return put


def served(hub: Any, revision: str) -> dict[str, bytes]:
    files = hub.repositories[REPOSITORY].at(revision).files
    return {path: hub.blobs[each.key] for path, each in files.items() if path != ".gitattributes"}


def test_it_is_one_commit_with_a_parent_then_a_tag(
    hub: Any, release: ReleaseManifest, upload: Upload, check: Check
) -> None:
    seen: list[Path] = []
    done = upload(by=lambda folder: (seen.append(folder), check(folder)))
    repository = hub.repositories[REPOSITORY]
    assert done == Uploaded(REPOSITORY, repository.branches["main"], ("tranche-0",))
    assert repository.tags == {"tranche-0": done.revision}
    assert [each.title for each in repository.history("main")] == [
        "Release tranche-0",
        "initial commit",
    ]
    assert served(hub, "tranche-0") == {
        name: (release.folder / name).read_bytes() for name in release.files
    }
    assert seen[0] == release.folder  # checked before it goes, and again as it came back
    assert len(seen) == 2
    assert not seen[1].exists()
    asked = [path for _, path, _ in hub.requests]
    assert asked.index(f"/api/datasets/{REPOSITORY}{COMMITS}") < min(
        index for index, path in enumerate(asked) if "/resolve/" in path
    )
    assert "/tag/" in asked[-2]


def test_large_files_go_through_storage_elsewhere_without_the_token(
    hub: Any, release: ReleaseManifest, upload: Upload
) -> None:
    upload()
    files = hub.repositories[REPOSITORY].at("tranche-0").files
    assert {path for path, each in files.items() if each.lfs} >= {
        name for name in release.files if name.endswith(".parquet")
    }
    assert not files["README.md"].lfs
    assert hub.count("PUT", "/lfs/") == 2
    assert hub.count("GET", "^/lfs/") >= 2
    assert hub.tokens_at_storage == []


def test_running_it_again_changes_nothing(hub: Any, upload: Upload) -> None:
    first = upload()
    commits = len(hub.repositories[REPOSITORY].commits)
    assert upload() == first
    assert len(hub.repositories[REPOSITORY].commits) == commits


def test_a_tag_with_other_content_is_refused(
    hub: Any, upload: Upload, draw: Any, find: Any, text: ReleaseText, tmp_path: Path
) -> None:
    upload()
    other = build_release(tmp_path / "other", draw.public[1:], draw.sealed, find, text)
    with pytest.raises(PublishError, match="tag tranche-0 is there with other content"):
        upload(other)
    assert hub.repositories[REPOSITORY].tags.keys() == {"tranche-0"}
    upload(other, repository="owner/second")
    assert hub.repositories["owner/second"].tags.keys() == {"tranche-0"}


def test_later_tranches_are_further_tags_and_change_nothing_of_earlier_ones(
    hub: Any, reserve_draw: Any, upload: Upload, find: Any, text: ReleaseText, tmp_path: Path
) -> None:
    def built(tranches: set[int]) -> ReleaseManifest:
        entries = [entry for entry in reserve_draw.public if entry.tranche in tranches]
        return build_release(tmp_path / "tranches", entries, reserve_draw.sealed, find, text)

    first = upload(built({0}))
    before = served(hub, "tranche-0")
    done = upload(built({0, 2}))
    assert done.tags == ("tranche-0", "tranche-2")
    assert hub.repositories[REPOSITORY].tags == {
        "tranche-0": first.revision,
        "tranche-2": done.revision,
    }
    assert served(hub, "tranche-0") == before
    after = served(hub, "tranche-2")
    kept = before.keys() - {"README.md", "checksums.json", "croissant.json"}
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert {name for name in after.keys() - before.keys() if name.startswith("data")} == {
        "data/noise-easy/reserve_2-00000.parquet",
        "data/noise-hard/reserve_2-00000.parquet",
    }
    last = built({0, 1, 2})
    upload(last)
    assert upload(last).revision == hub.repositories[REPOSITORY].tags["tranche-1"]
    with pytest.raises(PublishError, match="holds another release"):
        built({0})


def test_files_of_others_on_the_branch_do_not_stay(
    hub: Any, release: ReleaseManifest, upload: Upload
) -> None:
    def intrude() -> None:
        repository = hub.repositories[REPOSITORY]
        stored = repository.at("main").files[".gitattributes"]
        repository.commit("main", "another's", {".gitattributes": stored, "notes.txt": stored})

    hub.at("POST", COMMITS, intrude)
    upload()
    assert served(hub, "tranche-0").keys() == set(release.files)


def test_a_commit_that_came_between_is_taken_as_the_new_parent(hub: Any, upload: Upload) -> None:
    def intrude() -> None:
        hub.repositories[REPOSITORY].commit("main", "someone else", {})

    hub.at("POST", COMMITS, intrude)
    done = upload()
    assert hub.count("POST", COMMITS, 412) == 1
    titles = [each.title for each in hub.repositories[REPOSITORY].history(done.revision)]
    assert titles == ["Release tranche-0", "someone else", "initial commit"]


def test_a_branch_that_keeps_changing_is_given_up(hub: Any, upload: Upload, check: Check) -> None:
    def intrude() -> None:
        hub.repositories[REPOSITORY].commit("main", "someone else", {})

    hub.at("POST", COMMITS, intrude, times=9)
    with pytest.raises(PublishError, match="others are changing it"):
        upload()
    assert hub.repositories[REPOSITORY].tags == {}


PROGRAM = cases(__file__, "upload")


def start(hub: Any, program: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    home = str(Path(arguments[0]).parent / "home")
    settings = {"HF_ENDPOINT": hub.url, "HF_HOME": home, **environment}
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        env=inherited | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("name", ["README.md", "data/noise-easy/public-00000.parquet"])
def test_what_comes_back_altered_is_not_tagged(hub: Any, upload: Upload, name: str) -> None:
    def alter() -> None:
        stored = hub.repositories[REPOSITORY].at("main").files[name]
        hub.blobs[stored.key] = hub.blobs[stored.key][:-1] + b"!"

    hub.at("POST", COMMITS, alter, after=True)
    with pytest.raises(PublishError, match=f"{name} does not come back as it was sent"):
        upload()
    assert hub.repositories[REPOSITORY].tags == {}


def test_a_leak_stops_it_before_anything_is_sent(
    hub: Any, draw: Any, upload: Upload, release: ReleaseManifest
) -> None:
    readme = release.folder / "README.md"
    readme.write_text(readme.read_text() + draw.private[0].seed)
    with pytest.raises(PublishError, match=r"README.md: not as checksums.json has it"):
        upload()
    sums = json.loads((release.folder / "checksums.json").read_bytes())
    sums["README.md"] = hashlib.sha256(readme.read_bytes()).hexdigest()
    (release.folder / "checksums.json").write_text(json.dumps(sums))
    with pytest.raises(PublishError, match=r"README.md: seed of private commitment"):
        upload()
    assert hub.requests == []


def test_a_leak_in_what_was_read_back_stops_the_tag(hub: Any, draw: Any, upload: Upload) -> None:
    def slip() -> None:
        stored = dict(hub.repositories[REPOSITORY].at("main").files)[".gitattributes"]
        hub.blobs[stored.key] += draw.private[0].seed.encode()

    hub.at("POST", COMMITS, slip, after=True)
    with pytest.raises(PublishError, match=r"gitattributes: seed of private commitment"):
        upload()
    assert hub.repositories[REPOSITORY].tags == {}


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        ({}, (False, False)),
        pytest.param({"private": True}, (True, False), marks=pytest.mark.slow),
        pytest.param({"gated": "auto"}, (False, "auto"), marks=pytest.mark.slow),
        ({"gated": "manual", "private": True}, (True, "manual")),
    ],
)
def test_it_is_read_by_those_who_are_to_before_anything_is_in_it(
    hub: Any, upload: Upload, options: dict[str, Any], seen: Any
) -> None:
    at_commit = []

    def look() -> None:
        repository = hub.repositories[REPOSITORY]
        at_commit.append((repository.private, repository.gated))

    hub.at("POST", COMMITS, look)
    upload(**options)
    assert at_commit == [seen]
    upload(gated="auto")  # asked otherwise later
    repository = hub.repositories[REPOSITORY]
    assert (repository.private, repository.gated) == (False, "auto")


def test_who_may_not_write_is_told_so(
    hub: Any, upload: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PublishError, match="someone/else: this token may not write there"):
        upload(repository="someone/else")
    upload()
    hub.repositories[REPOSITORY].tags.clear()
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    with pytest.raises(PublishError, match="this token may not write there"):
        upload()
    monkeypatch.setenv("HF_TOKEN", "hf_nobody")
    with pytest.raises(PublishError, match="the token is not valid there") as caught:
        upload()
    assert "hf_nobody" not in str(caught.value)
    with pytest.raises(PublishError, match="is not a repository: owner/name"):
        upload(repository="no/such/form")


def test_without_a_token_it_says_how_to_get_one(hub: Any, release: ReleaseManifest) -> None:
    _, said = start(hub, PROGRAM, str(release.folder), REPOSITORY).communicate(timeout=120)
    assert "PublishError: no Hub token: set HF_TOKEN, or log in with: hf auth login" in said
    assert hub.repositories == {}


def test_a_hub_that_is_not_there_is_one_clear_error(
    hub: Any, release: ReleaseManifest, check: Check
) -> None:
    with pytest.raises(PublishError, match="cannot be reached: see to the network or HF_ENDPOINT"):
        upload_release(release.folder, HubPlace(REPOSITORY, "http://127.0.0.1:9"), check)


def test_a_release_that_is_too_large_for_the_hub_is_named() -> None:
    error = ConnectionError()
    error.response = SimpleNamespace(status_code=413)  # type: ignore[attr-defined]
    api: Any = SimpleNamespace(endpoint="hub")
    target = Target(api, "a/b")
    assert "413, the release is larger than it takes" in _remote_reason(target, error)
