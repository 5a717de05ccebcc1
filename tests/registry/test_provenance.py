"""Provenance: what git says of a real repository, and pins that drifted."""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from registry.canonical import digest_bytes
from registry.errors import BrokenPromise, RegistryError
from registry.ledger.records import Provenance
from registry.provenance import (
    check_tree,
    code_digest,
    find_changes,
    find_other_packages,
    installed_packages,
    read_provenance,
    stamp_tree,
    utc_now,
)

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "sha256:" + "1" * 64
CLEAN = Provenance("c" * 40, False, "sha256:" + "2" * 64, IMAGE, "3.11.2", (("numpy", "2.0"),))


def _git(root: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    command = ["git", "-C", str(root), *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    _git(root, "init", "-q")
    (root / "requirements.lock").write_text("numpy==2.0\n")
    (root / ".gitignore").write_text("/demo-study/\n")
    _git(root, "add", ".")
    _git(root, "commit", "-q", "-m", "first")
    return root


def test_a_clean_tree_is_known_by_its_full_commit(repository: Path) -> None:
    found = read_provenance(repository, IMAGE)
    assert found.commit == _git(repository, "rev-parse", "HEAD")
    assert re.fullmatch("[0-9a-f]{40}", found.commit)
    assert not found.dirty
    assert found.lock == digest_bytes(b"numpy==2.0\n")
    assert found.image == IMAGE
    assert ("numpy", metadata.version("numpy")) in found.packages


def test_a_study_in_the_checkout_does_not_make_it_dirty(repository: Path) -> None:
    folder = repository / "a study"
    folder.mkdir()
    (folder / "notes").write_text("mine")
    assert read_provenance(repository, IMAGE).dirty
    (folder / "study.yaml").write_text("study: mine\n")
    assert not read_provenance(repository, IMAGE).dirty
    (repository / "module.py").write_text("")
    assert read_provenance(repository, IMAGE).dirty


def test_changed_staged_and_untracked_files_make_it_dirty(repository: Path) -> None:
    lock = repository / "requirements.lock"
    lock.write_text("numpy==2.1\n")
    assert read_provenance(repository, IMAGE).dirty
    _git(repository, "add", ".")
    assert read_provenance(repository, IMAGE).dirty
    _git(repository, "commit", "-q", "-m", "second")
    assert not read_provenance(repository, IMAGE).dirty
    (repository / "new.py").write_text("")
    assert read_provenance(repository, IMAGE).dirty


def test_an_ignored_folder_does_not(repository: Path) -> None:
    (repository / "demo-study").mkdir()
    (repository / "demo-study" / "notes").write_text("")
    assert not read_provenance(repository, IMAGE).dirty


def test_no_repository_is_an_unknown_commit(tmp_path: Path) -> None:
    found = read_provenance(tmp_path, IMAGE)
    assert (found.commit, found.dirty, found.lock) == ("unknown", True, "missing")


def test_a_folder_inside_another_repository_is_not_that_repository(repository: Path) -> None:
    inside = repository / "demo-study"
    inside.mkdir()
    assert read_provenance(inside, IMAGE).commit == "unknown"


def test_a_repository_without_a_commit_or_without_git_is_unknown(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _git(tmp_path, "init", "-q", "empty")
    assert read_provenance(tmp_path / "empty", IMAGE).commit == "unknown"
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    found = read_provenance(repository, IMAGE)
    assert (found.commit, found.dirty) == ("unknown", True)


def test_another_repository_in_the_environment_does_not_mislead(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = _git(repository, "rev-parse", "HEAD")
    _git(tmp_path, "init", "-q", "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    assert read_provenance(repository, IMAGE).commit == commit


def test_reading_takes_no_lock(repository: Path) -> None:
    (repository / ".git" / "index.lock").write_text("")
    assert not read_provenance(repository, IMAGE).dirty


@pytest.fixture
def archived(repository: Path, tmp_path: Path) -> Path:
    """The tree of a commit as an image has it: without a repository, stamped."""
    for name in (".commit", ".gitattributes"):
        shutil.copy(ROOT / name, repository)
    (repository / "harness").mkdir()
    (repository / "harness" / "code.py").write_text("ANSWER = 42\n")
    _git(repository, "add", ".")
    _git(repository, "commit", "-q", "-m", "second")
    tree, tar = tmp_path / "tree", tmp_path / "tree.tar"
    _git(repository, "archive", "-o", str(tar), "HEAD")
    with tarfile.open(tar) as archive:
        archive.extractall(tree, filter="data")
    return tree


def test_a_stamped_tree_without_a_repository_is_clean_and_knows_its_commit(
    archived: Path, repository: Path
) -> None:
    commit = _git(repository, "rev-parse", "HEAD")
    before = read_provenance(archived, IMAGE)
    assert (before.commit, before.dirty) == (commit, True), "not stamped yet"
    assert stamp_tree(archived) == commit
    assert stamp_tree(archived) == commit, "a second time"
    found = read_provenance(archived, IMAGE)
    assert (found.commit, found.dirty) == (commit, False)
    assert found == read_provenance(repository, IMAGE)


@pytest.mark.parametrize("name", ["harness/code.py", "requirements.lock"])
def test_a_stamped_tree_with_other_code_or_lock_is_dirty(archived: Path, name: str) -> None:
    commit = stamp_tree(archived)
    (archived / name).write_text("other\n")
    found = read_provenance(archived, IMAGE)
    assert (found.commit, found.dirty) == (commit, True)


def test_a_tree_of_which_no_commit_is_known_is_not_stamped(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="make the tree with `git archive`"):
        stamp_tree(tmp_path)
    shutil.copy(ROOT / ".commit", tmp_path)  # as in a checkout
    with pytest.raises(RegistryError, match="holds no commit"):
        stamp_tree(tmp_path)
    assert read_provenance(tmp_path, IMAGE).commit == "unknown"


def test_libraries_of_other_versions_are_named_and_missing_ones_are_not() -> None:
    here = installed_packages()
    version = dict(here)["numpy"]
    assert find_other_packages(here) == ()
    assert find_other_packages((("nowhere", "1"),)) == ()
    assert find_other_packages((("numpy", "0.1"),)) == (f"numpy {version} instead of 0.1",)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, None),
        ({"dirty": True}, None),
        ({"commit": "d" * 40}, f"other commit: {'d' * 40}, registered {'c' * 40}"),
        ({"lock": "missing"}, f"other lock: missing, registered {CLEAN.lock}"),
        ({"image": "none"}, f"other image: none, registered {IMAGE}"),
        ({"python": "3.12.1"}, "other python: 3.12.1, registered 3.11.2"),
        ({"packages": (("numpy", "2.1"),)}, "other numpy: 2.1, registered 2.0"),
        ({"packages": ()}, "other numpy: none, registered 2.0"),
    ],
)
def test_a_change_of_code_or_environment_is_named(
    change: dict[str, object], words: str | None
) -> None:
    now = replace(CLEAN, **change)  # type: ignore[arg-type]  # one field of any type
    assert find_changes(now, CLEAN) == (() if words is None else (words,))


def test_code_that_no_commit_names_is_refused_unless_allowed() -> None:
    check_tree(CLEAN, allow_dirty=False)
    dirty = replace(CLEAN, dirty=True)
    check_tree(dirty, allow_dirty=True)
    with pytest.raises(BrokenPromise, match=r"dirty tree: .* run with --allow-dirty"):
        check_tree(dirty, allow_dirty=False)


@pytest.mark.parametrize("name", ["family.py", "prompt.txt", "template.yml"])
def test_the_digest_of_the_code_covers_prompts_and_templates(tmp_path: Path, name: str) -> None:
    path = tmp_path / "generators" / "deep" / name
    path.parent.mkdir(parents=True)
    path.write_text("one")
    before = code_digest(tmp_path)
    (path.parent / "family.pyc").write_text("compiled")
    assert code_digest(tmp_path) == before
    path.write_text("other")
    assert code_digest(tmp_path) != before


def test_the_clock_is_utc_iso_8601() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", utc_now())
