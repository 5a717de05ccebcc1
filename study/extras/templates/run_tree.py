"""Files of a run folder, in a tree or in a zip, read without following links out of it."""

from __future__ import annotations

import os
import posixpath
import stat
import zipfile
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from generators.templates.scoring.response import MOST_READ
from study.errors import StudyError


class NoTreeError(StudyError):
    """A path of a key lies in no tree that is known here."""


MOST_ENTRIES = 1_000_000  # of a zip
MOST_BYTES = 1 << 32  # that a zip may say it holds
_FOLDERS = ("sandbox", "test_artifacts")  # the names that a run's tree goes by
_SYMLINK = 0o120000


class FolderTree:
    """A folder. Symbolic links that stay in it are followed, all others lead nowhere.

    At most one byte more than may be scored is read of a file.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.name = self.root = os.path.realpath(root)

    def top(self) -> list[str]:
        """The names at its top."""
        try:
            return sorted(os.listdir(self.root))
        except OSError:
            return []

    def read(self, path: str) -> bytes | None:
        """The bytes of a regular file below it, None where there is none."""
        try:
            return _read_file(self._place(path))
        except (OSError, ValueError):  # no such file; or no name for one
            return None

    def kind(self, path: str) -> str | None:
        """``file``, ``folder`` or None."""
        try:
            mode = os.lstat(self._place(path.rstrip("/"))).st_mode
        except (OSError, ValueError):
            return None
        return "folder" if stat.S_ISDIR(mode) else "file"

    def _place(self, path: str) -> str:
        """Return the place of a path, links followed. Raises OSError for one that is not there or
        leads out."""
        if path and not {"", ".", ".."}.isdisjoint(path.split("/")):
            raise FileNotFoundError(path)
        place = os.path.realpath(os.path.join(self.root, path), strict=True)
        if os.path.commonpath((self.root, place)) != self.root:
            raise PermissionError(path)
        return place


class ZipTree:
    """A zip, or a folder in it. Links in it lead nowhere.

    It is read in this process: names are kept as they are, so they take as much memory as the file,
    and an entry is unpacked to MOST_READ bytes at most. Only deflate can be: zipfile unpacks the
    other methods without a bound, whatever an entry says it holds.

    Raises StudyError for a file that is no zip, declares more than 4 GiB or a million entries,
    has an entry that would lead out of it, or is broken, encrypted or packed by another method
    where it is read.
    """

    def __init__(self, path: Path, inner: str = "") -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile) as error:
            raise StudyError(f"{path}: cannot be read as a zip: {error}") from None
        entries = self._zip.infolist()
        total = sum(entry.file_size for entry in entries)
        if len(entries) > MOST_ENTRIES or total > MOST_BYTES:
            raise StudyError(
                f"{path}: holds {len(entries):,} entries of {total:,} bytes; at most "
                f"{MOST_ENTRIES:,} and {MOST_BYTES:,} are read: give the tree instead"
            )
        self._entries = {_checked(path, entry): entry for entry in entries}
        self._names = sorted(self._entries)
        self.inner = inner.strip("/")
        if not self._is_folder(self.inner):
            raise StudyError(f"{path}: holds no folder {self.inner!r}")

    @property
    def name(self) -> str:
        """The path of the zip, and of the folder in it."""
        return f"{self.path}/{self.inner}" if self.inner else str(self.path)

    def top(self) -> list[str]:
        """The names at its top."""
        return sorted({name.split("/")[0] for name in self._names if name} - {"__MACOSX"})

    def read(self, path: str) -> bytes | None:
        """The bytes of a file below it, None if there is none. Raises StudyError if broken."""
        entry = self._entries.get(self._name(path))
        if entry is None or entry.is_dir() or _is_link(entry):
            return None
        try:
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise zipfile.BadZipFile("it is packed by another method than deflate")
            with self._zip.open(entry) as file:
                return file.read(MOST_READ + 1)
        except Exception as error:  # zipfile and zlib raise many kinds
            raise StudyError(f"{self.path}: {entry.filename!r} cannot be read: {error}") from None

    def kind(self, path: str) -> str | None:
        """``file``, ``folder`` or None."""
        name = self._name(path.rstrip("/"))
        if self._is_folder(name):
            return "folder"
        entry = self._entries.get(name)
        return None if entry is None or _is_link(entry) else "file"

    def _is_folder(self, name: str) -> bool:
        """True for an entry that is a folder, and for a folder that an entry lies in."""
        entry, place = self._entries.get(name), bisect_left(self._names, f"{name}/")
        inside = any(each.startswith(f"{name}/") for each in self._names[place : place + 1])
        return not name or inside or (entry is not None and entry.is_dir())

    def _name(self, path: str) -> str:
        return f"{self.inner}/{path}" if self.inner and path else self.inner or path


Tree = FolderTree | ZipTree


@dataclass(frozen=True, slots=True)
class Remap:
    """Paths below ``old``, as a key has them, lie in ``tree``."""

    old: str
    tree: Tree


class RunFiles:
    """The files of all samples of a run folder, by the paths of their keys. Without ``remaps`` the
    mapping of absolute paths is found, if it can be, by these ``paths`` of keys."""

    def __init__(self, run: Path, remaps: Sequence[Remap], paths: Iterable[str] = ()) -> None:
        self.run = run
        self._home = FolderTree(run)
        self._stated = bool(remaps)
        self.found = None if remaps else find_remap(run, self._elsewhere(paths))
        known = [*remaps, *([self.found] if self.found else [])]
        self._remaps = sorted(known, key=lambda remap: -len(remap.old))
        self._tree: Tree | None = None
        self.locate = cache(self._locate)

    def _elsewhere(self, paths: Iterable[str]) -> list[str]:
        """The absolute paths that do not lie in the run folder."""
        clean = {posixpath.normpath(path) for path in paths if path.startswith("/")}
        return sorted(path for path in clean if not path.startswith(f"{self._home.root}/"))

    def _locate(self, sample: str, path: str) -> tuple[Tree, str]:
        """The tree and the path in it, for a sample. Raises NoTreeError for an absolute path if no
        mapping is stated or found, StudyError for one that may not be read."""
        clean = posixpath.normpath(path)
        for remap in self._remaps:
            if clean == remap.old or clean.startswith(f"{remap.old}/"):
                return remap.tree, clean[len(remap.old) + 1 :]
        if clean.startswith(f"{self._home.root}/"):
            return self._home, clean.removeprefix(f"{self._home.root}/")
        if clean.startswith("/"):
            raise (StudyError if self._stated else NoTreeError)(
                f"the path {clean!r} is not in the run folder; say where its sandbox is now, such "
                f"as --remap {posixpath.dirname(clean)}=FOLDER_OR_ZIP"
            )
        if clean == ".." or clean.startswith("../"):
            raise StudyError(f"the path {path!r} leads out of the run folder; nothing is read")
        self._tree = self._tree or find_tree(self.run)
        if clean == "artifacts" or clean.startswith("artifacts/"):
            own = f"{sample}/{clean}"
            return self._tree, clean if self._is_shared(sample) else own
        return self._tree, "" if clean == "." else clean.removeprefix("test_artifacts/")

    def _is_shared(self, sample: str) -> bool:
        """Whether all samples have one folder of artifacts."""
        tree = self._tree
        return tree is not None and tree.kind("artifacts") == "folder" and not tree.kind(sample)

    def shows(self, tree: Tree, inner: str) -> bool:
        """Whether a path of a key shows that this is the tree of the run: the path is there, or the
        folder that it would be in."""
        if tree is self._tree and tree.top() and tree.name != self._home.root:
            return True  # it has the name of a run's tree
        folder = inner.partition("/")[0] if tree is self._home else posixpath.dirname(inner)
        return tree.kind(inner) is not None or bool(folder and tree.kind(folder))


class SampleFiles:
    """The files of one sample."""

    __slots__ = ("_files", "_sample")

    def __init__(self, files: RunFiles, sample: str) -> None:
        self._files, self._sample = files, sample

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None if there is none, or the path leads nowhere."""
        try:
            tree, inner = self._files.locate(self._sample, path)
        except StudyError:  # of a path inside a key of edits, which is not checked before
            return None
        return tree.read(inner)

    def kind(self, path: str) -> str | None:
        """``file``, ``folder`` or None."""
        try:
            tree, inner = self._files.locate(self._sample, path)
        except StudyError:
            return None
        return tree.kind(inner)


def parse_remaps(texts: Sequence[str], run: Path) -> tuple[Remap, ...]:
    """The mappings ``OLD=NEW`` that are stated for a run: NEW is a folder, a zip, or a zip and a
    folder in it (``run.zip/sandbox``), seen from the run folder or else from here; ``{run}`` in it
    is the run folder's name. Of several for one OLD, the first that is there counts. Raises
    StudyError."""
    remaps: dict[str, Remap | None] = {}
    lacking: dict[str, str] = {}
    for text in texts:
        old, sign, new = text.rpartition("=")
        if not sign or not old or not new:
            raise StudyError(
                f"--remap {text}: must be OLD=NEW, such as /home/me/sandbox=sandbox.zip"
            )
        old, new = posixpath.normpath(old).rstrip("/"), new.replace("{run}", run.resolve().name)
        remaps[old] = remaps.get(old) or _remap(old, new, run)
        what = f"--remap {text}: neither {run / new} nor {new} is a folder or a zip"
        lacking.setdefault(old, what)
    for old, remap in remaps.items():
        if remap is None:
            raise StudyError(lacking[old])
    return tuple(remap for remap in remaps.values() if remap is not None)


def _remap(old: str, new: str, run: Path) -> Remap | None:
    for base in (run, Path()):
        if (base / new).is_dir():
            return Remap(old, FolderTree(base / new))
        for part in (Path(new), *Path(new).parents):
            if (base / part).is_file():
                return Remap(old, _zip_of(base / part, Path(new).relative_to(part).as_posix(), old))
    return None


def find_remap(run: Path, paths: Sequence[str]) -> Remap | None:
    """The mapping of absolute paths to the one tree of a run folder, its folder or its only zip:
    of their common root and the folders above it, the one below which most of them are there, the
    longest of several. None if there is no such tree, or none of them is there."""
    if not paths:
        return None
    folder = next((run / name for name in _FOLDERS if (run / name).is_dir()), None)
    zips = sorted(run.glob("*.zip"))
    if folder is None and len(zips) != 1:
        return None
    tree = ZipTree(zips[0]) if folder is None else FolderTree(folder)
    best, found = (0, 0), None
    old = posixpath.commonpath([posixpath.dirname(path) for path in paths])
    while old != "/":
        for inner in ("", *(tree.top() if len(tree.top()) == 1 else ())):
            places = [f"{inner}/{path[len(old) + 1 :]}".lstrip("/") for path in paths]
            there = sum(tree.kind(place) is not None for place in places)
            near = sum(tree.kind(posixpath.dirname(place)) == "folder" for place in places)
            near -= sum("/" not in place for place in places)  # the top shows nothing
            if (there, near) > best:
                best, found = (there, near), (old, inner)
        old = posixpath.dirname(old)
    if found is None:
        return None
    if isinstance(tree, ZipTree):
        return Remap(found[0], ZipTree(zips[0], found[1]))
    return Remap(found[0], FolderTree(Path(tree.root, found[1])))


def find_tree(run: Path) -> Tree:
    """The tree of a run folder for paths that are relative: its folder ``sandbox`` or
    ``test_artifacts``, else its one zip named ``sandbox…``, else itself."""
    for name in _FOLDERS:
        if (run / name).is_dir():
            return FolderTree(run / name)
    zips = sorted(run.glob("sandbox*.zip"))
    if len(zips) > 1:
        names = ", ".join(path.name for path in zips)
        raise StudyError(f"{run}: has several zips ({names}): say --remap OLD=ZIP")
    return _zip_of(zips[0], "", "sandbox") if zips else FolderTree(run)


def _zip_of(path: Path, inner: str, old: str) -> ZipTree:
    """A zip made of a folder often has that one folder at its top: then that is meant."""
    inner = "" if inner == "." else inner
    tree = ZipTree(path, inner)
    if not inner and tree.top() == [posixpath.basename(old)]:
        tree.inner = tree.top()[0]
    return tree


def _checked(path: Path, entry: zipfile.ZipInfo) -> str:
    name = entry.filename.rstrip("/")
    if name.startswith("/") or ".." in name.split("/"):
        raise StudyError(f"{path}: the entry {entry.filename!r} leads out of it; nothing is read")
    return posixpath.normpath(name) if name else ""


def _is_link(entry: zipfile.ZipInfo) -> bool:
    return (entry.external_attr >> 16) & 0o170000 == _SYMLINK


def _read_file(place: str) -> bytes | None:
    handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            return None
        return os.read(handle, min(about.st_size, MOST_READ) + 1)
    finally:
        os.close(handle)
