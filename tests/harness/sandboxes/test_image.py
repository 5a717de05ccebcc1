"""The sandbox image: its pin, and that one is made once and whole or not at all."""

from __future__ import annotations

import fcntl
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from generators.task import Limits
from harness.errors import HarnessError
from harness.sandboxes import debian_rootfs as debian
from harness.sandboxes import docker, image
from harness.sandboxes.image import ensure_image, image_tag, locked_libraries

LIBRARIES = {"numpy", "scipy", "pandas", "pillow", "matplotlib"}


def test_the_tag_follows_from_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tag = image_tag()
    assert re.fullmatch(r"dosimeter-sandbox:[0-9a-f]{16}", tag)
    assert image_tag() == tag
    changed = tmp_path / "requirements.lock"
    changed.write_text("numpy==1.0 --hash=sha256:" + "0" * 64)
    monkeypatch.setattr(image, "_RECIPE", (*image._RECIPE[:1], changed, *image._RECIPE[2:]))
    assert image_tag() != tag


def test_another_base_is_another_image(monkeypatch: pytest.MonkeyPatch) -> None:
    tag = image_tag()
    monkeypatch.setenv("DOSIMETER_SANDBOX_BASE", "python@sha256:" + "a" * 64)
    assert image_tag() != tag


@pytest.mark.parametrize("base", ["python:3.12-slim", "python@sha256:12", "a b@sha256:" + "a" * 64])
def test_a_base_that_is_not_pinned_is_refused(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOSIMETER_SANDBOX_BASE", base)
    with pytest.raises(HarnessError, match="name it with its digest"):
        image_tag()


def test_the_lock_names_one_version_of_each_library_with_hashes() -> None:
    names = [name for name, _ in locked_libraries()]
    assert len(set(names)) == len(names)
    assert LIBRARIES.issubset(names)
    text = image._LOCK.read_text()
    assert not re.search(r"://|--index|--find-links|^-", text, re.MULTILINE)
    for block in re.split(r"\n(?=\S)", text.strip()):
        assert "--hash=sha256:" in block


def test_without_root_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "as root" in debian.missing_for_debian()


def test_without_debians_tools_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "TOOLS", ("no-such-apt",))
    assert "no no-such-apt here" in debian.missing_for_debian()


def test_what_a_failed_step_said_is_told_in_one_line() -> None:
    with pytest.raises(HarnessError, match=r"cannot do it: sh said: the disk is on fire"):
        debian._run(["sh", "-c", "echo first; echo the disk is on fire >&2; exit 1"], "do it")


def test_builders_wait_for_each_other_and_sweep_what_the_killed_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    killed = """
import os, signal
from harness.sandboxes.image import _building
with _building(print) as work:
    (work / "half").write_text("built")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", killed], check=False)
    place = tmp_path / "dosimeter/image"
    assert len(list(place.glob("build-*/half"))) == 1
    with image._building(print) as work:
        assert list(place.glob("build-*")) == [work]
        with (place / "lock").open("w") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert list(place.glob("build-*")) == []


@pytest.mark.docker
def test_an_image_that_is_there_is_taken_as_it_is() -> None:
    first, lines = ensure_image(), []
    assert first == ensure_image(lines.append)
    assert lines == []
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", first.digest)
    assert LIBRARIES.issubset(dict(locked_libraries()))


@pytest.mark.docker
def test_the_image_holds_what_the_lock_names_compiled_and_no_privileged_program() -> None:
    source = """
import importlib.metadata, json, os, sys, numpy
print(json.dumps({
    'versions': {d.name.lower(): d.version for d in importlib.metadata.distributions()},
    'compiled': os.path.exists(numpy.__cached__),
    'privileged': [
        os.path.join(top, name)
        for top, _, names in os.walk('/usr') for name in names
        if os.lstat(os.path.join(top, name)).st_mode & 0o6000
    ],
}))
"""
    provider = docker.DockerSandboxes(ensure_image().tag)
    with provider.open([], Limits()) as box:
        found = json.loads(box.run(["python3", "-c", source], 30).output)
        tools = box.run(
            ["sh", "-c", "cat /dev/null && ls && sort </dev/null && awk 1 </dev/null"], 9
        )
    provider.close()
    assert set(locked_libraries()) <= set(found["versions"].items())
    assert found["compiled"]
    assert found["privileged"] == []
    assert tools.exit_code == 0


@pytest.mark.docker
def test_a_recipe_is_built_and_one_that_fails_leaves_no_tag(tmp_path: Path) -> None:
    """The way of a machine with a registry, with our own image for a base."""
    client, base = docker.connect(), ensure_image()
    recipe = tmp_path / "Dockerfile"
    recipe.write_text("ARG BASE\nFROM ${BASE}\nENV BUILT=yes\nRUN true\n")
    assert docker.why_unreachable(base.tag, 10) == ""
    tag = "dosimeter-sandbox:test-build"
    made = {"path": str(tmp_path), "buildargs": {"BASE": base.tag}}
    try:
        built = docker.build_image(client, tag, 600, True, **made)
        assert built == docker.image_digest(tag) != base.digest
        recipe.write_text("ARG BASE\nFROM ${BASE}\nRUN exit 3\n")
        with pytest.raises(HarnessError, match=r"was not built: .*exit 3"):
            docker.build_image(client, tag + "-broken", 600, True, **made)
        assert docker.find_image(client, tag + "-broken") is None
    finally:
        client.remove_image(tag, force=True)
        client.close()


@pytest.mark.docker
def test_a_base_that_no_registry_serves_is_told() -> None:
    assert docker.why_unreachable("localhost:9/none@sha256:" + "a" * 64, 10) != ""
