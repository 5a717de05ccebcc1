"""Files that are written whole or not at all, by any number of writers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from registry.files import write_whole


def test_of_writers_at_once_each_writes_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "page"
    texts = [str(number) * 50_000 for number in range(10)]
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda text: write_whole(path, text), texts * 5))
    assert path.read_text() in texts
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o644


def test_of_writers_at_once_one_writes_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "key"

    def write(number: int) -> bool:
        try:
            write_whole(path, bytes([number]) * 50_000, mode=0o600, new=True)
        except FileExistsError as error:
            return bool(error.filename != str(path))
        return True

    with ThreadPoolExecutor(10) as pool:
        won = list(pool.map(write, range(50)))
    assert won.count(True) == 1
    assert path.read_bytes() == bytes([won.index(True)]) * 50_000
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_a_killed_writer_left_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / ".key.partial").write_text("half a very long ke")
    (tmp_path / ".key.partial").chmod(0o644)
    write_whole(tmp_path / "key", "whole", mode=0o600)
    assert (tmp_path / "key").read_text() == "whole"
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_a_symbolic_link_in_the_place_of_the_partial_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / ".key.partial").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="key"):
        write_whole(tmp_path / "key", "new")
    assert (tmp_path / "elsewhere").read_text() == "mine"
