"""What the repository promises of itself: whose code runs, what is pinned, what is not named."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from registry.provenance import PACKAGES, verify_packages

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
OWN_LOCKS = {extra: ROOT / f"{extra}.lock" for extra in ("spike", "pretrained")}  # of these extras


def committed_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def locked(lock: Path = LOCK) -> dict[str, str]:
    """Name and version of all that is locked."""
    pins = re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==(\S+)", lock.read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pins}


# --- whose code runs ---


@pytest.mark.parametrize("name", PACKAGES)
def test_each_package_is_imported_from_the_checkout(name: str) -> None:
    assert Path(str(__import__(name).__file__)).resolve().parent == ROOT / name


def test_the_packages_are_those_that_are_shipped() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert tuple(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == PACKAGES
    verify_packages()


def test_the_imports_keep_their_directions() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert done.returncode == 0, done.stdout


# --- what is pinned ---


@pytest.mark.parametrize("lock", [LOCK, *OWN_LOCKS.values()], ids=lambda lock: lock.name)
def test_every_pin_has_hashes_and_nothing_says_where_from(lock: Path) -> None:
    text = lock.read_text()
    for block in re.split(r"\n(?=\S)", text.strip()):
        assert re.match(r"[\w.-]+(\[[\w,-]+\])?==", block), block
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), block
    assert not re.search(r"://|--index|--extra-index|--find-links|--trusted", text)


def requirements() -> Iterator[Requirement]:
    """All that pyproject asks for, extras included but for those with a lock of their own."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {k: v for k, v in project["optional-dependencies"].items() if k not in OWN_LOCKS}
    for group in (project["dependencies"], *extras.values()):
        yield from (Requirement(text) for text in group)
    yield from (Requirement(text) for text in ("hatchling",))


def test_the_lock_satisfies_what_the_project_asks_for() -> None:
    pins = locked()
    for requirement in requirements():
        if requirement.name == "dosimeter":
            continue
        version = pins.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement} is not locked: run `make lock`"
        assert requirement.specifier.contains(version, prereleases=True), (
            f"{requirement}: {version}"
        )


@pytest.mark.parametrize("extra", OWN_LOCKS)
def test_a_lock_of_training_fits_the_other(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins, others = locked(OWN_LOCKS[extra]), locked()
    for requirement in map(Requirement, project["optional-dependencies"][extra]):
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)])
    shared = pins.keys() & others.keys()
    assert {name: pins[name] for name in shared} == {name: others[name] for name in shared}


def test_what_is_installed_is_what_is_locked() -> None:
    wrong = {}
    for name, version in locked().items():
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue  # for another platform
        if found != version:
            wrong[name] = (found, version)
    assert wrong == {}, "run `make setup`"


# --- what is not named ---

# Written in parts, so that this file does not name them either.
UNNAMED = tuple(
    "".join(parts)
    for parts in (
        ("/wo", "rk/"),
        ("/ro", "ot/"),
        (".lib", "rary/"),
        ("py", "pi.org"),
        ("python", "hosted.org"),
        ("deb.", "debian.org"),
        ("registry.", "npmjs"),
        ("/tmp/", "setup"),
    )
)


def test_no_committed_file_names_this_machine_or_a_registry() -> None:
    found = []
    for path in committed_files():
        text = path.read_bytes().decode("utf-8", "replace")
        found += [(str(path.relative_to(ROOT)), name) for name in UNNAMED if name in text]
    assert found == []


def test_every_script_can_be_run() -> None:
    for path in [*sorted((ROOT / "scripts").iterdir()), ROOT / ".ci/run"]:
        if path.is_file() and path.suffix != ".lock":
            assert os.access(path, os.X_OK), path
            assert path.read_text().startswith("#!"), path
