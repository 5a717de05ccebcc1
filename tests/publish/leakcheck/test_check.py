"""The leak check: whatever follows from a private seed is found wherever it lies, and nothing
else is."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from generators.catalog import INSTALLED
from generators.seed import Seed
from generators.task import Family, TaskInstance
from publish.errors import PublishError
from publish.leakcheck.check import check_folder, find_leaks, release_files, release_needles
from publish.leakcheck.secrets import Needles, Secret, needles_of
from publish.leakcheck.unpack import Chunk
from publish.release import ReleaseManifest, ReleaseText, build_release
from publish.row_schema import row_schema
from registry.sealing import DrawnInstance

Find = Callable[[str], Family]


@dataclasses.dataclass(frozen=True)
class Made:
    """A private entry and all that it makes."""

    entry: DrawnInstance
    leaf: int
    instance: TaskInstance
    key: dict[str, Any]

    @property
    def seed(self) -> bytes:
        return bytes.fromhex(self.entry.seed)

    @property
    def picture(self) -> bytes:
        return self.instance.brief.assets[0].data

    @property
    def readings(self) -> list[float]:
        return [float(each) for each in self.instance.truth.table("readings").column("reading")]


@pytest.fixture(scope="session")
def made(draw: Any, find: Find) -> Made:
    leaf = max(n for n, entry in enumerate(draw.entries) if entry in draw.private)
    entry = draw.entries[leaf]
    instance = find("noise@1").generate(entry.difficulty, Seed.from_hex(entry.seed))
    return Made(entry, leaf, instance, find("noise@1").key(instance.truth))


def release_table(**cells: Any) -> bytes:
    """A Parquet file as a release has it, of three rows."""
    target, schema = io.BytesIO(), row_schema()
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for rows in ([{}], [{"leaf": 1}, cells]):
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
    return target.getvalue()


def found_in(folder: Path, needles: Needles) -> set[tuple[str, str, int | None]]:
    return {(leak.file, leak.kind, leak.leaf) for leak in find_leaks(folder, needles)}


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
def test_a_picture_is_found_however_it_is_encoded(
    made: Made, needles: Needles, tmp_path: Path, mode: str
) -> None:
    again = io.BytesIO()
    Image.open(io.BytesIO(made.picture)).convert(mode).save(again, "PNG", compress_level=1)
    cell = [{"bytes": again.getvalue(), "path": "p"}]
    (tmp_path / "row.parquet").write_bytes(release_table(images=cell))
    assert ("row.parquet", "image", made.leaf) in found_in(tmp_path, needles)


def test_a_cell_that_is_not_read_is_named_with_what_is_allowed(
    needles: Needles, tmp_path: Path
) -> None:
    picture = io.BytesIO()
    Image.new("L", (4, 4)).save(picture, "GIF")
    file = {"path": "secret.gif", "data": picture.getvalue()}
    (tmp_path / "data.parquet").write_bytes(release_table(input_files=[file]))
    with pytest.raises(PublishError) as caught:
        check_folder(tmp_path, needles)
    assert str(caught.value).endswith(
        "data.parquet: not read: row 3, input_files: neither UTF-8 text, nor a PNG image, a SQLite "
        "database or a release's Parquet file"
    )


def test_a_name_gives_away_and_the_message_does_not(
    made: Made, needles: Needles, tmp_path: Path
) -> None:
    (tmp_path / made.entry.seed.upper()).mkdir()
    (tmp_path / made.entry.seed.upper() / "file").write_text(made.entry.nonce)
    with pytest.raises(PublishError, match="in its name: seed of private commitment") as caught:
        check_folder(tmp_path, needles)
    assert made.entry.seed not in str(caught.value).lower()


def test_the_message_names_file_kind_and_commitment_and_never_the_secret(
    made: Made, needles: Needles, release: ReleaseManifest
) -> None:
    with (release.folder / "README.md").open("a") as readme:
        readme.write(
            f"Look: {made.entry.seed}, {made.entry.instance}, {made.instance.brief.prompt}"
        )
    with pytest.raises(PublishError, match="not fit to go out") as caught:
        check_folder(release.folder, needles)
    said = str(caught.value)
    assert "\n" not in said
    for kind in ("seed", "instance id", "prompt"):
        assert f"README.md: {kind} of private commitment {made.leaf}" in said
    for secret in (made.entry.seed, made.entry.instance[7:], made.entry.nonce, "room"):
        assert secret not in said


def test_a_clean_release_passes(draw: Any, find: Find, release: ReleaseManifest) -> None:
    needles = release_needles(draw.entries, find)
    assert len(list(release_files(release.folder))) == 7
    assert len(needles) > 100
    check_folder(release.folder, needles)


def test_what_public_instances_or_any_other_seed_yield_is_no_leak(
    made: Made, needles: Needles, find: Find, release: ReleaseManifest
) -> None:
    stranger = find("noise@1").generate("hard", Seed(b"stranger" * 4))
    with (release.folder / "README.md").open("ab") as readme:
        readme.write(b"\n```\n" + stranger.brief.prompt.encode() + b"\n")
        readme.write(json.dumps(stranger.truth.as_json(), indent=2).encode())
        readme.write(base64.b64encode(stranger.brief.assets[0].data))
        readme.write(made.instance.brief.assets[2].data)  # the same notice lies in every instance
        readme.write(base64.b64encode(made.instance.brief.assets[2].data))
        readme.write(json.dumps(made.instance.truth.table("small").as_json()).encode())
    assert find_leaks(release.folder, needles) == ()


def test_a_pattern_that_an_even_surface_repeats_is_no_leak_and_the_picture_round_it_is() -> None:
    seed = Seed.from_hex("d465e0580583ef761c5907bc5cda3affe0994cd11476ed89c809df7220d2f31d")
    family = INSTALLED.family("hubble_constant@3")
    instance = family.generate("easy", seed)
    key = family.key(instance.truth)
    needles = needles_of([Secret(0, b"s" * 32, b"n" * 32, instance, key)], [])
    surface = b"\x1f\x1a" * 12
    (picture,) = (each.data for each in instance.brief.assets if surface in each.data)
    assert needles.find(Chunk(2 * surface)) == set()
    assert {trace.kind for trace in needles.find(Chunk(picture[:9000]))} == {"input file"}


def test_doubles_that_are_nearly_all_zeros_are_no_leak_and_others_are() -> None:
    """Inflated pictures hold 40.0 and 0.0 among their zeros."""
    family = INSTALLED.family("lissajous_figures@3")
    instance = family.generate("easy", Seed(bytes(32)))
    secret = Secret(0, b"s" * 32, b"n" * 32, instance, family.key(instance.truth))
    needles = needles_of([secret], [])

    def found(table: str, column: str) -> set[str]:
        cells = instance.truth.table(table).column(column)
        return {trace.kind for trace in needles.find(Chunk(struct.pack(f"<{len(cells)}d", *cells)))}

    assert found("machines", "percent") == set()
    assert found("tested", "frequency_hz") == {"truth table"}


def test_a_release_of_built_in_families_passes_and_a_private_picture_in_it_is_found(
    basics_draw: Any, text: ReleaseText, tmp_path: Path
) -> None:
    find = INSTALLED.family
    folder = build_release(
        tmp_path / "release", basics_draw.public, basics_draw.sealed, find, text
    ).folder
    needles = release_needles(basics_draw.entries, find)
    check_folder(folder, needles)
    assert len(needles) > 1000
    entry = basics_draw.private[-1]
    instance = find(entry.family).generate(entry.difficulty, Seed.from_hex(entry.seed))
    (folder / "extra.png").write_bytes(instance.brief.assets[0].data)
    assert {leak.file for leak in find_leaks(folder, needles)} == {"extra.png"}


def test_links_and_special_files_are_refused(
    needles: Needles, release: ReleaseManifest, tmp_path: Path
) -> None:
    odd = release.folder / "data" / "odd"
    odd.symlink_to("/etc")
    with pytest.raises(PublishError, match="holds a symbolic link"):
        check_folder(release.folder, needles)
    odd.unlink()
    os.mkfifo(odd)
    with pytest.raises(PublishError, match="holds a special file"):
        check_folder(release.folder, needles)
    odd.unlink()
    (tmp_path / "link").symlink_to(release.folder)
    with pytest.raises(PublishError, match="not a folder"):
        check_folder(tmp_path / "link", needles)


def test_a_seed_in_both_arms_is_refused_and_not_excused(
    draw: Any, find: Find, release: ReleaseManifest
) -> None:
    twice = dataclasses.replace(draw.private[0], arm=draw.public[0].arm)
    with pytest.raises(PublishError, match="the arms are not disjoint"):
        check_folder(release.folder, release_needles([*draw.entries, twice], find))


def test_without_a_private_arm_there_is_nothing_to_check(
    draw: Any, find: Find, release: ReleaseManifest
) -> None:
    with pytest.raises(PublishError, match="nothing to look for"):
        check_folder(release.folder, release_needles(draw.public, find))


def test_an_instance_that_is_not_what_was_sealed_stops_the_check(
    draw: Any, find: Find, release: ReleaseManifest
) -> None:
    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise KeyError(name)

    for family, says in (
        (dataclasses.replace(find("noise@1"), version="2"), "another instance"),
        (Broken(), "cannot be made again"),
    ):
        with pytest.raises(PublishError, match=says) as caught:
            check_folder(
                release.folder, release_needles(draw.entries, lambda name, family=family: family)
            )
        assert not any(entry.seed in str(caught.value) for entry in draw.entries)
