"""Receipts: digests of a run's objects, listed by the processes that stored them, so that closing a
wave need not read the objects again.

A receipt is text: lines ``<digest>  <key>`` in key order, as an inventory has them, then a line
``hmac-sha256 <64 hexadecimal digits>`` over the lines before it, under a key of the run's
processes. It is named by its own digest, ``receipts/<run>/<digest>.txt``, and nothing in it is
secret: a store shows keys and ciphertexts to all its readers.

Receipts save reading and promise nothing. The objects of a wave are those that the store lists; a
receipt without a valid last line is left out; an object that no receipt names, or two name with
different digests, is read; and ``verify`` reads every object.
"""

from __future__ import annotations

import hmac
import logging
import re
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from registry.canonical import digest_bytes
from registry.errors import StoreError
from registry.stores import Store, parallel_map

logger = logging.getLogger(__name__)

RECEIPTS = "receipts/"
RUN_FOLDERS = ("attempts/", "responses/", "results/")
_SPREAD = {"responses/": 2}  # levels of folders below a folder of a run; of any other 1
_LINES = 2048  # a receipt
_IN_MEMORY = 1 << 16  # lines held in memory when receipts are read, about 13 MB
_DIGEST = 64 + 2  # characters before the key in a line
_BODY = re.compile(
    r"(?:[0-9a-f]{64}  (?:attempts|responses|results)/(?:[0-9a-f]{2}/){1,2}[0-9a-f]{64}[!-~]*\n)*"
)
_MAC = "hmac-sha256 "
_PURPOSE = b"dosimeter/receipts/1"


def episode_stem(folder: str, digits: str) -> str:
    """Return the common stem of the keys, in a folder of runs, of all episodes whose names begin
    with some ``digits``. Episodes lie in subfolders by their first two digits, so that one listing
    need not hold all names; replies, of which an episode has many, by the next two as well, so that
    those of one episode are listed quickly from a folder."""
    depth = min(_SPREAD.get(folder, 1), len(digits) // 2)
    subfolders = "".join(f"{digits[2 * level : 2 * level + 2]}/" for level in range(depth))
    whole = depth == _SPREAD.get(folder, 1)
    return f"{folder}{subfolders}{digits if whole else digits[2 * depth :]}"


@dataclass(frozen=True, slots=True)
class ReceiptFolder:
    """Where the receipts of a run lie, and the 32 bytes that authenticate them."""

    folder: str
    secret: bytes = field(repr=False)

    @classmethod
    def of(cls, run_key: str, run_identity: str) -> ReceiptFolder:
        """The folder of a run, by the store key of its sealed identity and the identity."""
        run = run_key.split("/")[1]
        secret = hmac.digest(run_identity.encode(), _PURPOSE, "sha256")
        return cls(f"{RECEIPTS}{run}/", secret)

    def seal(self, body: str) -> bytes:
        """The bytes of a receipt with these lines."""
        return f"{body}{_MAC}{self._mac(body)}\n".encode()

    def open(self, data: bytes) -> str | None:
        """The lines of a receipt; None if it was not made with this run's key, or was altered."""
        body, found, mac = data.decode("ascii", "replace").rpartition(_MAC)
        if not found or not hmac.compare_digest(mac.encode(), f"{self._mac(body)}\n".encode()):
            return None
        return body if _BODY.fullmatch(body) else None

    def _mac(self, body: str) -> str:
        return hmac.new(self.secret, body.encode(), "sha256").hexdigest()


class RecordingStore:
    """A store that lists the digests of the run's objects put through it in receipts: one for every
    2,048 objects, and one for the rest when it is flushed. May be shared by threads.

    A receipt that cannot be stored is tried again with the next one; the last one is then left out.
    No put fails because of it.
    """

    def __init__(self, store: Store, receipts: ReceiptFolder) -> None:
        self._store, self._receipts = store, receipts
        self._lines: list[str] = []
        self._lock = threading.Lock()

    @property
    def uri(self) -> str:
        """URI of the store below."""
        return self._store.uri

    def put(self, key: str, data: bytes) -> bool:
        """Write if absent; False if the name was there. Raises StoreError."""
        written = self._store.put(key, data)
        if written and key.startswith(RUN_FOLDERS):
            line = f"{digest_bytes(data).removeprefix('sha256:')}  {key}\n"
            with self._lock:
                self._lines.append(line)
                full = len(self._lines) % _LINES == 0
            if full:
                self.flush()
        return written

    def replace(self, key: str, data: bytes) -> None:
        """Write, whether or not the name was there. Raises StoreError."""
        self._store.replace(key, data)

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects, as far as they are there. Raises StoreError."""
        self._store.delete(keys)

    def get(self, key: str) -> bytes:
        """The object's bytes. Raises MissingKey, StoreError."""
        return self._store.get(key)

    def exists(self, key: str) -> bool:
        """Report if an object has this name. Raises StoreError."""
        return self._store.exists(key)

    def list(self, prefix: str = "") -> Iterator[str]:
        """The names that start with the prefix, in order of their UTF-8 bytes."""
        return self._store.list(prefix)

    def flush(self) -> None:
        """Store a receipt for the objects that are in none yet."""
        with self._lock:
            lines, self._lines = self._lines, []
        if not lines:
            return
        data = self._receipts.seal("".join(sorted(lines, key=lambda line: line[_DIGEST:])))
        name = digest_bytes(data).removeprefix("sha256:")
        try:
            self._store.put(f"{self._receipts.folder}{name}.txt", data)
        except StoreError as error:
            with self._lock:
                self._lines += lines
            logger.warning("a receipt of %d objects could not be stored: %s", len(lines), error)


class ReceiptBook:
    """The digests that a run's receipts list. Memory holds 2^16 lines; the others lie in
    ``folder``, in files by the first digits of the episode."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lines: defaultdict[str, list[str]] = defaultdict(list)
        self._held = 0
        self._page, self._digests = "", dict[str, str]()

    def add(self, body: str) -> None:
        """Add the lines of a receipt."""
        for line in body.splitlines(keepends=True):
            self._lines[_page_of(line[_DIGEST:])].append(line)
            self._held += 1
        if self._held >= _IN_MEMORY:
            for page, lines in self._lines.items():
                with self._path(page).open("a", encoding="ascii") as file:
                    file.writelines(lines)
            self._lines.clear()
            self._held = 0

    def digest(self, key: str) -> str | None:
        """The digest of an object; None if no receipt lists it, or two disagree. Quick if asked in
        key order."""
        page = _page_of(key)
        if page != self._page:
            self._page, self._digests = page, self._read(page)
        return self._digests.get(key) or None

    def _read(self, page: str) -> dict[str, str]:
        """Digests by key; "" for one that two receipts give different digests."""
        path, lines = self._path(page), self._lines.get(page, [])
        if path.exists():
            lines = path.read_text(encoding="ascii").splitlines(keepends=True) + lines
        digests: dict[str, str] = {}
        for line in lines:
            key, digest = line[_DIGEST:-1], f"sha256:{line[:64]}"
            digests[key] = digest if digests.get(key, digest) == digest else ""
        return digests

    def _path(self, page: str) -> Path:
        return self._folder / page.replace("/", "-")


@contextmanager
def read_receipts(
    store: Store, receipts: ReceiptFolder, progress: Callable[[int, int], None]
) -> Iterator[ReceiptBook]:
    """Read the receipts of a run, by several threads if the store is remote; ``progress`` gets the
    number read and the number of all. Raises StoreError."""
    keys = list(store.list(receipts.folder))
    with tempfile.TemporaryDirectory(prefix="dosimeter-") as folder:
        book, refused = ReceiptBook(Path(folder)), 0
        bodies = parallel_map(store, lambda key: receipts.open(store.get(key)), keys)
        for done, body in enumerate(bodies, 1):
            if body is None:
                refused += 1
            else:
                book.add(body)
            progress(done, len(keys))
        if refused:
            logger.warning(
                "%d of %d receipts are not of this run's workers, or were altered: the objects "
                "that they list are read instead",
                refused,
                len(keys),
            )
        yield book


def _page_of(key: str) -> str:
    """The folder and the first two digits of the episode in a key."""
    return key[: key.find("/") + 3]
