"""Snapshot of a conversation with an agent server: its stream and the state of its files.

The stream is paid for. Resuming after a crash needs the sandbox as the server left it, which ended
with the process. So the calls of the bridge are stored with the stream and carried out again, or
the files of the host's folder, which are restored.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from generators.task import Asset
from harness.episode import StopReason
from harness.model import ToolCall, clean_text
from harness.sandboxes.tool_server import RefusedError, read_file
from harness.storage import Codec

MAX_TREE_BYTES = 64 << 20
MAX_TREE_NAMES = 10_000
MAX_TREE_DEPTH = 100


@dataclass(frozen=True, slots=True)
class ConversationSnapshot:
    """A whole conversation: ``seconds`` of each round, ``tree`` of paths and bytes without the
    input files that are ``unchanged``; a path that ends in ``/`` is a folder."""

    ending: StopReason
    seconds: tuple[float, ...]
    retries: int
    stream: bytes
    calls: tuple[ToolCall, ...] = ()
    tree: tuple[tuple[str, bytes], ...] = ()
    unchanged: tuple[str, ...] = ()


_CODEC: Codec[ConversationSnapshot] = Codec("conversation", 1, ConversationSnapshot)


def pack(snapshot: ConversationSnapshot) -> bytes:
    """Return the bytes of a snapshot, compressed, for the journal."""
    return zlib.compress(_CODEC.encode(snapshot))


def unpack(data: bytes) -> ConversationSnapshot:
    """Return the snapshot of bytes that ``pack`` made: of our own store, so they are trusted."""
    return _CODEC.decode(zlib.decompress(data))


def read_tree(folder: Path) -> tuple[tuple[str, bytes], ...] | None:
    """The files and folders below a folder, in order; None if there are too many
    to store.

    No link is followed. All but regular files, and names that are not text, are left out:
    graders do not see them either.
    """
    try:
        paths = list(_walk(folder))
    except _TooLargeError:
        return None
    tree: list[tuple[str, bytes]] = []
    left = MAX_TREE_BYTES
    for path in paths:
        try:
            data = b"" if path.endswith("/") else read_file(path, MAX_TREE_BYTES, str(folder))
        except (OSError, RefusedError):
            if _size(folder / path) > MAX_TREE_BYTES:
                return None
            continue
        left -= len(data)
        tree.append((path, data))
        if left < 0:
            return None
    return tuple(tree)


class _TooLargeError(Exception):
    """A folder holds too many names, or goes too deep."""


def _walk(folder: Path) -> Iterator[str]:
    """The paths that may be stored. Raises _TooLargeError."""
    for path in _names(folder):
        if clean_text(path) == path and not os.path.islink(os.path.join(folder, path.rstrip("/"))):
            yield path


def _names(folder: Path) -> Iterator[str]:
    """Every path below a folder, those of folders with a slash at the end. Raises
    _TooLargeError: to walk as deep as a file system lets one build takes more stack than there
    is."""
    count = 0
    for here, folders, files in os.walk(folder, followlinks=False):
        folders.sort()
        count += len(folders) + len(files)
        below = os.path.relpath(here, folder)
        if count > MAX_TREE_NAMES or below.count("/") >= MAX_TREE_DEPTH:
            raise _TooLargeError
        for name in sorted((*(each + "/" for each in folders), *files)):
            yield name if below == "." else f"{below}/{name}"


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def holds(folder: Path, assets: Sequence[Asset]) -> bool:
    """Return True if a folder holds the files of a task, unchanged, and nothing else."""
    files = {asset.path: asset.data for asset in assets}
    folders = {f"{each}/" for path in files for each in PurePosixPath(path).parents}
    try:
        if set(_names(folder)) != {*files, *folders} - {"./"}:
            return False
    except _TooLargeError:
        return False
    tree = read_tree(folder) or ()
    return files == {path: data for path, data in tree if not path.endswith("/")}


def lay_out(tree: tuple[tuple[str, bytes], ...], folder: Path) -> None:
    """Make a fresh folder hold the tree and nothing else."""
    for path in reversed(list(_walk(folder))):
        (folder / path).rmdir() if path.endswith("/") else (folder / path).unlink()
    for path, data in tree:
        target = folder / path
        if path.endswith("/"):
            target.mkdir(mode=0o700, parents=True, exist_ok=True)
        else:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            target.write_bytes(data)
