"""A release: what is in it, that it is whole or not there, and that strangers can check it."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from PIL import Image

from generators.catalog import INSTALLED
from generators.seed import Seed
from generators.task import Family
from publish.errors import PublishError
from publish.release import ReleaseManifest, ReleaseText, build_release, read_release
from tests.cases import cases

Find = Callable[[str], Family]


def rows_of(release: ReleaseManifest) -> list[dict[str, Any]]:
    paths = sorted(release.folder.glob("data/**/*.parquet"))
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


def test_each_row_is_the_instance_that_was_sealed(
    draw: Any, release: ReleaseManifest, find: Find
) -> None:
    rows = {row["instance"]: row for row in rows_of(release)}
    assert rows.keys() == {entry.instance for entry in draw.public}
    assert release.count == len(rows) == 8
    for entry in draw.public:
        row = rows[entry.instance]
        instance = find("noise@1").generate(entry.difficulty, Seed.from_hex(entry.seed))
        assert (row["seed"], row["nonce"], row["task"]) == (entry.seed, entry.nonce, "noise")
        assert (row["difficulty"], row["version"]) == (entry.difficulty, "1")
        assert row["prompt"] == instance.brief.prompt
        assert (row["title"], row["marker"]) == (instance.title, instance.marker)
        assert json.loads(row["truth"]) == instance.truth.as_json()
        assert json.loads(row["rubric"]) == instance.rubric.as_json()
        assert json.loads(row["answer"]) == find("noise@1").key(instance.truth)
        assert [(file["path"], file["data"]) for file in row["input_files"]] == [
            (asset.path, asset.data) for asset in instance.brief.assets
        ]
        for file in row["input_files"]:
            assert file["sha256"] == hashlib.sha256(file["data"]).hexdigest()
            is_text = file["path"].endswith((".csv", ".txt"))
            assert file["text"] == (file["data"].decode() if is_text else None)


def test_datasets_reads_it_offline_with_images_as_images(
    release: ReleaseManifest, tmp_path: Path
) -> None:
    program = cases(__file__, "loading")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", program, str(release.folder), str(tmp_path / "cache")],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    rows = rows_of(release)
    assert (seen["splits"], seen["rows"]) == ({"public": 8}, 8)
    assert seen["types"] == ["int", "str", "list"]
    assert seen["seeds"] == [row["seed"] for row in rows]
    pictures = [Image.open(io.BytesIO(row["images"][0]["bytes"])) for row in rows]
    assert seen["pixels"] == [picture.tobytes().hex() for picture in pictures]


def test_the_same_draw_gives_the_same_bytes_in_any_order(
    draw: Any, release: ReleaseManifest, find: Find, text: ReleaseText, tmp_path: Path
) -> None:
    again = build_release(tmp_path / "again", draw.public[::-1], draw.sealed, find, text)
    assert again.content == release.content
    for name in release.files:
        assert (again.folder / name).read_bytes() == (release.folder / name).read_bytes(), name


def test_what_is_there_already_is_accepted_and_not_touched(
    draw: Any, release: ReleaseManifest, find: Find, text: ReleaseText
) -> None:
    before = release.folder.stat().st_ino
    assert build_release(release.folder, draw.public, draw.sealed, find, text) == release
    assert release.folder.stat().st_ino == before
    assert [each.name for each in release.folder.parent.iterdir()] == ["release"]


def test_another_release_in_its_place_is_not_overwritten(
    draw: Any, release: ReleaseManifest, find: Find, text: ReleaseText
) -> None:
    with pytest.raises(PublishError, match="holds another release"):
        build_release(release.folder, draw.public[:-1], draw.sealed, find, text)
    assert read_release(release.folder) == release


def test_a_folder_of_something_else_is_not_overwritten(
    draw: Any, find: Find, text: ReleaseText, tmp_path: Path
) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("one")
    with pytest.raises(PublishError, match="not a complete release"):
        build_release(tmp_path / "thesis", draw.public, draw.sealed, find, text)
    assert (tmp_path / "thesis" / "chapter").read_text() == "one"


KILLED_BUILD = cases(__file__, "killed_build")


def test_a_killed_build_leaves_no_release_and_the_next_one_clears_up(
    basics_draw: Any, text: ReleaseText, tmp_path: Path
) -> None:
    given = {
        "place": str(tmp_path / "release"),
        "entries": [dataclasses.asdict(each) for each in basics_draw.public],
        "sealed": dataclasses.asdict(basics_draw.sealed),
    }
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_BUILD], input=json.dumps(given), text=True, check=False
    )
    assert killed.returncode == -9
    assert [each.name for each in tmp_path.iterdir()] == [".release.partial"]
    find = INSTALLED.family
    build_release(tmp_path / "release", basics_draw.public, basics_draw.sealed, find, text)
    assert [each.name for each in tmp_path.iterdir()] == ["release"]


def test_a_failed_build_leaves_nothing(
    draw: Any, find: Find, text: ReleaseText, tmp_path: Path
) -> None:
    drifted = dataclasses.replace(find("noise@1"), version="2")
    with pytest.raises(PublishError, match="makes another instance than was sealed"):
        build_release(tmp_path / "x", draw.public, draw.sealed, lambda name: drifted, text)
    assert list(tmp_path.iterdir()) == []


def test_where_it_cannot_be_written_it_says_so(
    draw: Any, find: Find, text: ReleaseText, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PublishError, match=r"cannot write the release \(.*file: "):
        build_release(tmp_path / "file" / "release", draw.public, draw.sealed, find, text)


def test_a_private_entry_is_refused(
    draw: Any, find: Find, text: ReleaseText, tmp_path: Path
) -> None:
    with pytest.raises(PublishError, match="private arm") as caught:
        build_release(tmp_path / "x", [*draw.public, draw.private[0]], draw.sealed, find, text)
    assert draw.private[0].seed not in str(caught.value)
    assert not (tmp_path / "x").exists()


def test_only_the_draws_own_entries_go_out_and_each_once(
    draw: Any, other_draw: Any, find: Find, text: ReleaseText, tmp_path: Path
) -> None:
    for entries in ([*draw.public, other_draw.public[0]], [*draw.public, draw.public[0]]):
        with pytest.raises(PublishError, match="not one of the draw's, or is handed in twice"):
            build_release(tmp_path / "x", entries, draw.sealed, find, text)
    with pytest.raises(PublishError, match="at least one"):
        build_release(tmp_path / "x", [], draw.sealed, find, text)
    forged = dataclasses.replace(draw.sealed, root=other_draw.sealed.root)
    with pytest.raises(PublishError, match="not those under the Merkle root"):
        build_release(tmp_path / "x", draw.public, forged, find, text)


@pytest.mark.parametrize("name", ["README.md", "data/noise-easy/public-00000.parquet"])
def test_an_altered_missing_or_added_file_is_named(release: ReleaseManifest, name: str) -> None:
    path = release.folder / name
    kept = path.read_bytes()
    for change in (lambda: path.write_bytes(kept + b"."), path.unlink):
        change()
        with pytest.raises(PublishError, match=f"{name}: not as checksums.json has it"):
            read_release(release.folder)
    path.write_bytes(kept)
    (release.folder / "extra").write_text("")
    with pytest.raises(PublishError, match="extra: not as"):
        read_release(release.folder)


def run_verifier(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the program that the release's card prints."""
    card = (folder / "README.md").read_text()
    verifier = card.partition("```python\nimport hashlib")[2].partition("```")[0]
    return subprocess.run(
        [sys.executable, "-I", "-c", "import hashlib" + verifier],
        cwd=folder,
        capture_output=True,
        text=True,
    )


def test_a_stranger_verifies_with_the_lines_that_the_card_prints(
    draw: Any, release: ReleaseManifest
) -> None:
    done = run_verifier(release.folder)
    assert done.returncode == 0, done.stderr
    record = json.loads((release.folder / "commitments.json").read_bytes())
    assert record["root"] == release.instances_root == draw.sealed.root
    public = json.loads((release.folder / "openings" / "public.json").read_bytes())["public"]
    opened = {row["leaf"] for row in public}
    private = {leaf for leaf, each in enumerate(draw.entries) if each in draw.private}
    assert opened | private == set(range(16))
    assert opened.isdisjoint(private)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda record: record["public"][3].update(seed="00" * 32), "is not what was committed to"),
        (
            lambda record: record["commitments"].__setitem__(0, "00" * 32),
            "not those under the root",
        ),
        (lambda record: record["commitments"].reverse(), "is not what was committed to"),
    ],
)
def test_a_stranger_notices_a_swap(
    release: ReleaseManifest, change: Callable[[Any], None], says: str
) -> None:
    paths = [release.folder / name for name in ("commitments.json", "openings/public.json")]
    record: dict[str, Any] = {}
    for path in paths:
        record |= json.loads(path.read_bytes())
    change(record)
    for path in paths:
        path.write_text(json.dumps(record))
    done = run_verifier(release.folder)
    assert done.returncode == 1
    assert says in done.stderr


def test_a_real_study_is_not_called_a_demonstration(
    draw: Any, find: Find, text: ReleaseText, tmp_path: Path
) -> None:
    real = dataclasses.replace(draw.sealed, entropy="operating system")
    release = build_release(tmp_path / "release", draw.public, real, find, text)
    assert "demonstration" not in (release.folder / "README.md").read_text()
