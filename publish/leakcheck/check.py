"""The leak check: nothing that follows from a private seed goes out.

It fails closed. Content that cannot be opened is refused like a trace that was found, and messages
name file, kind and the commitment's place in the draw, never the thing itself.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, TypeVar

from generators.errors import GeneratorError, GuardExhausted
from generators.family import kept_by_family
from generators.seed import Seed
from generators.task import Family, TaskInstance
from publish.errors import PublishError
from publish.leakcheck.secrets import Excuse, Needles, Secret, needles_of
from publish.leakcheck.text import SEPARATOR, Unreadable
from publish.leakcheck.unpack import Chunk, Piece, pieces
from registry.result_row import Arm
from registry.sealing import DrawnInstance

CONTROLS = 8  # throw-away instances in each stratum
_CONTROL_SEED = Seed(hashlib.sha256(b"dosimeter/leak-check/control").digest())
_SHOWN = 20
_SMALL, _SEPARATOR = 1 << 16, SEPARATOR.encode() * 2

T = TypeVar("T")
FindFamily = Callable[[str], Family]  # of "name@version", as Catalog.family
Drawn = Iterable[DrawnInstance]
Progress = Callable[[int], None]  # how many are done
Instance = tuple[TaskInstance, dict[str, Any]]  # with its answer key


@dataclass(frozen=True, slots=True)
class LeakFound:
    """One file that must not go out, and why."""

    file: str
    kind: str  # of the thing found, or "not read: …"
    leaf: int | None  # place of the instance's commitment; None if nothing could be read

    def __str__(self) -> str:
        origin = "" if self.leaf is None else f" of private commitment {self.leaf}"
        return f"{self.file}: {self.kind}{origin}"


def check_folder(folder: Path, needles: Needles) -> None:
    """Refuse the folder if anything that follows from a private seed occurs in it: ``needles`` are
    ``release_needles`` of the draw. Raises PublishError that lists where and what kind; also for
    links and special files, and for content that cannot be opened."""
    if len(needles) == 0:
        raise PublishError("the leak check has nothing to look for: hand it the private arm")
    if leaks := find_leaks(folder, needles):
        more = f"; and {len(leaks) - _SHOWN} more" if len(leaks) > _SHOWN else ""
        raise PublishError(
            f"{folder}: not fit to go out; remove the files named and build the release again: "
            f"{'; '.join(map(str, leaks[:_SHOWN]))}{more}"
        )


def find_leaks(folder: Path, needles: Needles) -> tuple[LeakFound, ...]:
    """All leaks in a folder, sorted: in files, their names, and what file systems store beside
    them. Raises PublishError for links and special files."""
    release_files(folder)
    leaks = scan_paths([folder], needles)
    return tuple(sorted(set(leaks), key=str))


def scan_paths(
    paths: Iterable[Path],
    needles: Needles,
    progress: Callable[[int, int], None] = lambda files, size: None,
) -> Iterator[LeakFound]:
    """Yield the leaks in files and folders, and what could not be read there: links and special
    files too, which are not followed. ``progress`` gets the files done and their bytes. Raises
    PublishError for a path that does not exist."""
    size = 0
    every = ((root, path, mode) for root in paths for path, mode in _below(root))
    for number, (root, path, mode) in enumerate(every, 1):
        inside = path.relative_to(root).as_posix() if path != root else ""
        shown = inside or path.name
        if named := needles.find(Chunk(os.fsencode(shown))):
            shown = f"file {number} of {root.name or root}"
            yield from (LeakFound(f"{shown}, in its name", t.kind, t.leaf) for t in named)
        try:
            if isinstance(mode, OSError):
                raise mode
            yield from _leaks_at(shown, path, mode, needles)
            size += path.lstat().st_size if stat.S_ISREG(mode) else 0
        except OSError as error:
            yield LeakFound(shown, f"not read: {error.strerror}", None)
        progress(number, size)


def _leaks_at(shown: str, path: Path, mode: int, needles: Needles) -> Iterator[LeakFound]:
    """Raises OSError."""
    if stat.S_ISLNK(mode):
        yield from leaks_in(f"{shown}, in its target", os.fsencode(os.readlink(path)), needles)
        yield LeakFound(shown, "not read: a symbolic link is not followed", None)
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        yield LeakFound(shown, "not read: a special file", None)
        return
    yield from leaks_in(f"{shown}, in its attributes", _attributes(path), needles)
    if stat.S_ISREG(mode):
        with open(path, "rb", opener=_opened) as file:
            yield from sorted(_leaks_of(shown, file, needles), key=str)


def _opened(path: str, flags: int) -> int:
    """Open a file that may have become another since it was listed. Raises OSError."""
    number = os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "not a regular file any more")
    return number


def _below(root: Path) -> Iterator[tuple[Path, int | OSError]]:
    """A path and all below it, in order, with their modes, or why they cannot be had. Raises
    PublishError if the path itself does not exist."""
    mode = _mode(root)
    if isinstance(mode, OSError):
        raise PublishError(f"{root}: {mode.strerror}")
    yield root, mode
    unlisted: list[OSError] = []
    if stat.S_ISDIR(mode):
        for place, folders, files in os.walk(root, onerror=unlisted.append):
            folders.sort()
            for path in (Path(place, name) for name in sorted(folders + files)):
                yield path, _mode(path)
    yield from ((Path(error.filename), error) for error in unlisted)


def _mode(path: Path) -> int | OSError:
    try:
        return path.lstat().st_mode
    except OSError as error:
        return error


def _attributes(path: Path) -> bytes:
    """The extended attributes of a file or folder: names and values. Raises OSError."""
    if not hasattr(os, "listxattr"):
        return b""
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return b""  # a file system that has none
        raise
    return b"\n".join(os.fsencode(n) + b"\n" + os.getxattr(path, n) for n in names)


def release_needles(
    entries: Sequence[DrawnInstance],
    find_family: FindFamily,
    progress: Progress = lambda done: None,
    identities: Mapping[str, str] = MappingProxyType({}),
    shown: Collection[str] = (),
    excused: bool = True,
) -> Needles:
    """Return what to look for, from the whole draw in its order, and age identities by their kind:
    less what others yield too, unless ``excused`` is False, which costs no other instances. The
    tasks of the strata ``shown`` are public without an instance. ``progress`` gets the number of
    instances that are made. Raises PublishError."""
    private = [(leaf, entry) for leaf, entry in enumerate(entries) if entry.arm is Arm.PRIVATE]
    public = [entry for entry in entries if entry.arm is Arm.PUBLIC]
    others = counted(public, lambda done: progress(len(private) + done))
    secrets = [
        Secret(leaf, bytes.fromhex(entry.seed)[:32], bytes.fromhex(entry.nonce), *made)
        for leaf, entry in counted(private, progress)
        for made in [regenerate(entry, find_family)]
    ]
    corpus = _corpus(others, [entry for _, entry in private], find_family, shown)
    return needles_of(secrets, corpus if excused else (), identities)


def counted(items: Iterable[T], progress: Progress) -> Iterator[T]:
    """Yield the items; report how many are done whenever the next one is asked for, and at the
    end."""
    for done, item in enumerate(items, 1):
        yield item
        progress(done)


def regenerate(entry: DrawnInstance, find_family: FindFamily) -> Instance:
    """The instance of an entry and its answer key. Raises PublishError, which says nothing of
    the seed, where today's generators do not make the instance that was sealed."""
    try:
        family = find_family(f"{entry.family}@{entry.version}")
        instance = family.generate(entry.difficulty, Seed.from_hex(entry.seed))
    except (GeneratorError, GuardExhausted, KeyError):
        raise PublishError(f"{entry.stratum}: a sealed instance cannot be made again") from None
    if instance.id != entry.instance or family.version != entry.version:
        raise PublishError(
            f"{entry.stratum}: the generator (version {family.version}) makes another instance "
            f"than was sealed (version {entry.version}); use the code that the draw was made with"
        )
    return instance, family.key(instance.truth)


def _corpus(
    public: Drawn, private: Drawn, find_family: FindFamily, shown: Collection[str]
) -> Iterator[Excuse]:
    """Yield what is not secret: of the public arm's instances, and of those of seeds never drawn;
    of these not the prompts of tasks that are not ``shown`` and have no public instance: they stay
    sealed as a whole."""
    open_strata = {*shown}
    for entry in public:
        open_strata.add(entry.stratum)
        yield Excuse.of(*regenerate(entry, find_family), Seed.from_hex(entry.seed).item)
    strata = {(f"{e.family}@{e.version}", e.difficulty, e.stratum) for e in private}
    for name, difficulty, stratum in sorted(strata):
        for index in range(CONTROLS):
            sealed = stratum not in open_strata
            yield _control(find_family(name), name, difficulty, index, sealed)


@kept_by_family(64)  # a release and each report ask for the same
def _control(family: Family, name: str, difficulty: str, index: int, sealed: bool) -> Excuse:
    instance = family.generate(difficulty, _CONTROL_SEED.child(name, difficulty, index))
    if sealed:
        instance = replace(instance, brief=replace(instance.brief, prompt=""))
    return Excuse.of(instance, family.key(instance.truth))


def release_files(folder: Path) -> tuple[str, ...]:
    """The regular files below a folder, as sorted relative paths. Raises PublishError for
    anything else but folders."""
    if folder.is_symlink() or not folder.is_dir():
        raise PublishError(f"{folder}: not a folder")
    names: list[str] = []
    for path, mode in _below(folder):
        if isinstance(mode, OSError):
            raise PublishError(f"a file or folder cannot be read: {mode.strerror}")
        if stat.S_ISREG(mode):
            names.append(path.relative_to(folder).as_posix())
        elif not stat.S_ISDIR(mode):
            what = "a symbolic link" if stat.S_ISLNK(mode) else "a special file"
            raise PublishError(
                f"{folder}: holds {what}; a release has plain files and folders only"
            )
    return tuple(sorted(names))


def leaks_in(shown: str, data: bytes, needles: Needles) -> tuple[LeakFound, ...]:
    """All leaks in what will be a file, by the name that it is shown by, sorted."""
    return tuple(sorted(_leaks_of(shown, io.BytesIO(data), needles), key=str))


def _leaks_of(shown: str, file: IO[bytes], needles: Needles) -> set[LeakFound]:
    """All leaks in a file, and what could not be read in it. Raises OSError."""
    leaks: set[LeakFound] = set()
    for piece in _joined(pieces(file)):
        if isinstance(piece, Unreadable):
            leaks.add(LeakFound(shown, f"not read: {piece}", None))
        else:
            leaks |= {LeakFound(shown, trace.kind, trace.leaf) for trace in needles.find(piece)}
    return leaks


def _joined(items: Iterable[Piece]) -> Iterator[Piece]:
    """Join small pieces: a search has a fixed cost."""
    small: list[bytes] = []
    size = 0
    for item in items:
        if isinstance(item, Unreadable) or item.pixels or len(item.data) >= _SMALL:
            yield item
            continue
        small.append(item.data)
        size += len(item.data)
        if size >= _SMALL:
            yield Chunk(_SEPARATOR.join(small))
            small, size = [], 0
    yield Chunk(_SEPARATOR.join(small))
