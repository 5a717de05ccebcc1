"""Tables of closed waves: their results as rows in sealed Parquet files, derived once.

A part holds up to 4,096 results of a wave in the order of their store keys, each with its grade and
without its arm, which is joined with the study's key. Its bytes follow from the results alone,
whichever part is made first and in how many goes. ``tables/<table>/<part>.parquet.age`` has an HMAC
of 32 bytes and the Parquet file, encrypted to those who may read the results.

Anybody can encrypt to the recipients, and inventories are public. Therefore the HMAC is under a key
that follows from the study's identity and from the root of the wave's results in the ledger: nobody
without the identity can make a part that is read, or foresee its name. Its maker has compared each
result with that root. A part that is damaged or forged is left out with a warning, and its rows are
derived from the results. So parts save time and promise nothing, and ``verify`` derives all again.
"""

from __future__ import annotations

import dataclasses
import hmac
import io
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter

from harness.episode import Grade
from harness.episodes.result import RESULT_CODEC, EpisodeResult
from harness.storage import RESULTS, TABLES, result_key
from registry.canonical import digest_bytes
from registry.errors import BrokenPromise, MissingKey, RegistryError, StoreError
from registry.ledger.inventory import read_results
from registry.ledger.records import WaveClosed
from registry.sealing import decrypt, encrypt
from registry.stores.parallel import parallel_map
from study.workspace.study import Study

logger = logging.getLogger(__name__)

_ROWS = 4096  # a part
_BATCH = 256  # rows made into results at once: of more, the garbage collector takes a third
_LISTED = 32  # bytes of an episode, and of a digest
_MAC = 32
_RESULT = re.compile(rf"{RESULTS}[0-9a-f]{{2}}/[0-9a-f]{{64}}\.cell")
_PURPOSE = "dosimeter/tables/1"

Part = Any  # pyarrow.Table, which is imported late
Progress = Callable[[int, int], None]  # done, of


class WaveTable:
    """The rows of a closed wave. Needs the study's key."""

    def __init__(self, study: Study, closed: WaveClosed) -> None:
        self._study, self._closed = study, closed
        self._store, self._keys = study.store, study.keys()
        self._identities = self._keys.identities
        self._secret = hmac.digest(self._identities[0].encode(), self._context(), "sha256")
        self._folder = f"{TABLES}{self._mac(b'folder').hex()}/"

    def __len__(self) -> int:
        """The number of parts."""
        return -(-self._closed.owed // _ROWS)

    def results(self, watch: Progress = lambda done, of: None) -> Iterator[EpisodeResult]:
        """Yield the results in the order of their store keys. Raises as ``parts`` does."""
        rows = _rows()
        for part in self.parts(watch):
            for batch in part.to_batches(max_chunksize=_BATCH):
                yield from rows.validate_python(batch.to_pylist())

    def parts(self, watch: Progress = lambda done, of: None) -> Iterator[Part]:
        """Yield the parts in order as Arrow tables. Parts that are not stored are derived and
        stored; ``watch`` gets their number then, and that of all parts.

        Raises BrokenPromise if a result is not the one that the ledger records. A part that cannot
        be stored is yielded all the same.
        """
        for number, data in enumerate(parallel_map(self._store, self._get, range(len(self)))):
            if (part := None if data is None else self._open(number, data)) is None:
                watch(number, len(self))
                part = self._derive(number)
                self._put(number, part)
            yield part

    def check(self) -> Iterator[tuple[str, str]]:
        """Derive each stored part again. Yield its key, and how it differs; "" if it does not."""
        for number in range(len(self)):
            if (data := self._get(number)) is None:
                continue
            problem = "altered, or not made with this key"
            if (part := self._open(number, data)) is not None:
                try:
                    same = part.equals(self._derive(number))
                    problem = "" if same else "its rows are not those of the wave's results"
                except RegistryError as error:
                    problem = f"its rows cannot be derived again: {error}"
            yield self._key(number), problem

    def _context(self) -> bytes:
        """Return the bytes that a table's key depends on: the results and their columns."""
        columns = digest_bytes(repr([*map(get_type_hints, (EpisodeResult, Grade))]).encode())
        return f"{_PURPOSE} {self._closed.results_root} {columns}".encode()

    def _mac(self, data: bytes) -> bytes:
        return hmac.digest(self._secret, data, "sha256")

    def _key(self, number: int) -> str:
        return f"{self._folder}{number:06d}.parquet.age"

    def _get(self, number: int) -> bytes | None:
        try:
            return self._store.get(self._key(number))
        except MissingKey:
            return None

    def _open(self, number: int, sealed: bytes) -> Part | None:
        """Return a stored part; None, with a warning, if no holder of the key made it."""
        key = self._key(number)
        try:
            plain = decrypt(sealed, self._identities, key)
        except RegistryError as error:
            logger.warning("%s; its rows are derived from the results", error)
            return None
        mac, data = plain[:_MAC], plain[_MAC:]
        if not hmac.compare_digest(mac, self._mac(key.encode() + data)):
            logger.warning("%s: not made with this key; its rows are derived from the results", key)
            return None
        return _read_part(data)

    def _put(self, number: int, part: Part) -> None:
        key, data = self._key(number), write_part(part)
        sealed = encrypt(self._mac(key.encode() + data) + data, self._keys.recipients)
        try:
            self._store.put(key, sealed)
        except StoreError as error:
            logger.warning("rows are derived again each time they are read: %s", error)

    def _derive(self, number: int) -> Part:
        """Return a part, made from its results. Raises BrokenPromise."""
        first = number * _ROWS
        places = range(first, min(first + _ROWS, self._closed.owed))
        logger.info("wave %d: deriving rows %d to %d", self._closed.wave, first, places[-1])
        return make_part([*parallel_map(self._store, self._read, places)])

    def _read(self, place: int) -> EpisodeResult:
        """Return a result by its place among those of the wave. Raises BrokenPromise."""
        names = self._promised[2 * place * _LISTED : 2 * (place + 1) * _LISTED].hex()
        key = result_key(names[: 2 * _LISTED])
        try:
            data = self._store.get(key)
        except MissingKey:
            raise BrokenPromise(
                f"{key}: missing, and wave {self._closed.wave} was closed with it: see "
                "`dosimeter verify`"
            ) from None
        digest = f"sha256:{names[2 * _LISTED :]}"
        same = digest_bytes(data) == digest
        result = RESULT_CODEC.decode(self._keys.open(key, data), key) if same else None
        if result is None or result_key(result.episode) != key:
            raise BrokenPromise(
                f"{key}: not the result that wave {self._closed.wave} was closed with: see "
                "`dosimeter verify`"
            )
        return result

    @cached_property
    def _promised(self) -> bytes:
        """The episode and the digest of each result as 64 bytes, in key order. Raises
        BrokenPromise."""
        listed = bytearray()
        for key, digest in read_results(self._store, self._closed):
            if _RESULT.fullmatch(key):
                episode = key.rpartition("/")[2].removesuffix(".cell")
                listed += bytes.fromhex(episode + digest.removeprefix("sha256:"))
        if len(listed) != 2 * _LISTED * self._closed.owed:
            raise BrokenPromise(
                f"wave {self._closed.wave}: {self._closed.owed} results expected, "
                f"{len(listed) // (2 * _LISTED)} found in its inventory"
            )
        return bytes(listed)


def make_part(results: Sequence[EpisodeResult]) -> Part:
    """The results as an Arrow table, with the columns of EpisodeResult."""
    import pyarrow as pa

    schema = pa.schema(_fields(EpisodeResult))
    return pa.Table.from_pylist(_rows().dump_python([*results]), schema)


def write_part(part: Part) -> bytes:
    """The bytes of a Parquet file with these rows: the same for the same rows."""
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(part, file, compression="zstd", version="2.6")
    return file.getvalue()


def _read_part(data: bytes) -> Part:
    import pyarrow.parquet as pq

    return pq.ParquetFile(io.BytesIO(data)).read()


def _rows() -> TypeAdapter[list[EpisodeResult]]:
    return TypeAdapter(list[EpisodeResult])


def _fields(cls: Any) -> list[Any]:
    import pyarrow as pa

    hints = get_type_hints(cls)
    return [pa.field(each.name, _arrow(hints[each.name])) for each in dataclasses.fields(cls)]


def _arrow(hint: Any) -> Any:
    """The Arrow type of a field; each may be null."""
    import pyarrow as pa

    items = [item for item in get_args(hint) if item not in (NoneType, Ellipsis)]
    if NoneType in get_args(hint):
        return _arrow(items[0])
    if get_origin(hint) is tuple:
        pairs = get_origin(items[0]) is tuple
        return pa.map_(*map(_arrow, get_args(items[0]))) if pairs else pa.list_(_arrow(items[0]))
    if dataclasses.is_dataclass(hint):
        return pa.struct(_fields(hint))
    plain = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
    return plain.get(hint, pa.string())
