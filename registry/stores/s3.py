"""A store in an S3 bucket, through boto3: put-if-absent is ``If-None-Match: *``."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from string import ascii_letters, digits
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import boto3
import botocore.exceptions as failures
from botocore.config import Config

from registry.errors import MissingKey, StoreError, StoreUnavailable
from registry.files import read_beside
from registry.stores.base import check_key, check_prefix
from registry.stores.parallel import parallel_map

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_FORM = "s3://bucket/prefix[?endpoint=http://host:port&region=name]"
_TRIES = 5  # of a request that fails, with growing pauses
_CONFLICTS = 6  # times that a 409 is retried, after 50 ms at first
_PAGE = 1000  # names, the most that S3 gives
_LISTERS = 16  # parts of a long listing that are asked for at once
_FIRST_CHARACTERS = ascii_letters + digits + "_"  # of a key, and after a slash in it
_READS = 3  # times that a body that breaks off is fetched
_GONE = {"404", "NoSuchKey", "NotFound"}
_EXISTS = {"412", "PreconditionFailed"}
_CONFLICT = {"409", "ConditionalRequestConflict", "OperationAborted"}
_ERRORS = read_beside(__file__, "remedies.yaml")
_REMEDIES: dict[str, str] = _ERRORS["s3"]
_PASSING = frozenset(_ERRORS["s3_passing"])


class S3Store:
    """Objects below a prefix of a bucket. Credentials come from the environment, as boto3
    finds them there, and never from the URI. Opens its connection when first used; pickles
    as its URI."""

    def __init__(self, bucket: str, prefix: str = "", endpoint: str = "", region: str = "") -> None:
        self.bucket = bucket
        self.prefix = prefix
        self.endpoint = endpoint
        self.region = region
        self._base = prefix + "/" if prefix else ""
        self._made: S3Client | None = None
        self._making = threading.Lock()
        self._bucket_seen = False

    @classmethod
    def from_uri(cls, uri: str) -> S3Store:
        """The store of ``s3://bucket/prefix[?endpoint=…&region=…]``. Raises StoreError."""
        parts = urlsplit(uri)
        if parts.scheme != "s3" or not parts.hostname or "@" in parts.netloc:
            raise StoreError(f"not an S3 store: write {_FORM}, credentials in the environment")
        options = dict(parse_qsl(parts.query))
        if unknown := sorted(set(options) - {"endpoint", "region"}):
            raise StoreError(f"s3://{parts.netloc}: unknown option {unknown[0]!r}: write {_FORM}")
        if endpoint := options.get("endpoint", ""):
            _check_endpoint(endpoint, parts.netloc)
        if prefix := parts.path.strip("/"):
            check_key(prefix)
        return cls(parts.netloc, prefix, endpoint, options.get("region", ""))

    @property
    def uri(self) -> str:
        """URI by which ``open_store`` opens this store again."""
        options = {"endpoint": self.endpoint, "region": self.region}
        query = urlencode({name: value for name, value in options.items() if value}, safe=":/")
        return f"{self._place}?{query}" if query else self._place

    def __reduce__(self) -> tuple[Callable[[str], S3Store], tuple[str]]:
        return S3Store.from_uri, (self.uri,)

    def put(self, key: str, data: bytes) -> bool:
        """See ``Store.put``. Each put carries a token of its own: if the first try arrived but its
        answer was lost, the writer still learns that the object is its own."""
        token = secrets.token_hex(16)
        for conflict in range(_CONFLICTS + 1):
            code, retried = self._try_put(check_key(key), data, token)
            if not code:
                return True
            if code in _EXISTS:
                stored = self._metadata(key) if retried or conflict > 0 else None
                return stored is not None and stored.get("writer") == token
            time.sleep(0.05 * 2**conflict * (1 + secrets.randbelow(1000) / 1000))
        place = f"{self._place}/{key}"
        raise StoreUnavailable(place, "writers keep colliding here (409); try again")

    def replace(self, key: str, data: bytes) -> None:
        """See ``Store.replace``."""
        with self._explained(check_key(key)):
            self._client.put_object(Bucket=self.bucket, Key=self._base + key, Body=data)

    def delete(self, keys: Iterable[str]) -> None:
        """See ``Store.delete``: up to 1,000 in a request."""
        rest = iter(keys)
        while page := [self._base + check_key(key) for key in islice(rest, _PAGE)]:
            with self._explained(page[0]):
                answer = self._client.delete_objects(
                    Bucket=self.bucket,
                    Delete={"Objects": [{"Key": name} for name in page], "Quiet": True},
                )
            if failed := answer.get("Errors"):
                place, reason = failed[0].get("Key", ""), failed[0].get("Code", "refused")
                raise StoreError(f"{self._place}/{place}: cannot be removed: {reason}")

    def _try_put(self, key: str, data: bytes, token: str) -> tuple[str, bool]:
        """Return "" on success, else the code of a refusal; and True if the client had to retry."""
        with self._explained(key):
            try:
                self._client.put_object(
                    Bucket=self.bucket,
                    Key=self._base + key,
                    Body=data,
                    IfNoneMatch="*",
                    Metadata={"writer": token},
                )
            except failures.ClientError as error:
                if _code(error) not in _EXISTS | _CONFLICT:
                    raise
                return _code(error), error.response["ResponseMetadata"]["RetryAttempts"] > 0
        return "", False

    def get(self, key: str) -> bytes:
        """The object's bytes. Raises MissingKey, StoreError."""
        check_key(key)
        for left in reversed(range(_READS)):
            with self._explained(key):
                try:
                    answer = self._client.get_object(Bucket=self.bucket, Key=self._base + key)
                    return answer["Body"].read()
                except (failures.ResponseStreamingError, failures.IncompleteReadError):
                    if not left:
                        raise
        raise AssertionError("unreachable")

    def exists(self, key: str) -> bool:
        """Report if an object has this name."""
        return self._metadata(check_key(key)) is not None

    def list(self, prefix: str = "") -> Iterator[str]:
        """See ``Store.list``. Names are sorted here: not every server's order is that of bytes
        (SeaweedFS goes folder by folder). A page has 1,000 names and names the next one, so a
        folder of several pages is listed by its subfolders, or by the first characters of its names
        if those are many: 16 of these at once, and memory holds no others."""
        names, more = next(self._pages(check_prefix(prefix)))
        if not more:
            return iter(sorted(names))
        if prefix and not prefix.endswith("/"):
            return iter(self._names(prefix))
        parts, more = next(self._pages(prefix, Delimiter="/"))
        if more:
            parts = [prefix + first for first in _FIRST_CHARACTERS]
        elif not prefix:
            return chain.from_iterable(map(self._folder, sorted(parts)))
        listed = parallel_map(self, self._names if more else self._part, sorted(parts), _LISTERS)
        return chain.from_iterable(listed)

    def _folder(self, part: str) -> Iterable[str]:
        """What a folder lists; of a name, itself."""
        return self.list(part) if part.endswith("/") else (part,)

    def _part(self, part: str) -> Iterable[str]:
        """The names in a folder, in order; of a name, itself."""
        return self._names(part) if part.endswith("/") else (part,)

    def _names(self, prefix: str) -> Sequence[str]:
        """The names on all pages, in order."""
        return sorted(chain.from_iterable(names for names, _ in self._pages(prefix)))

    def _pages(self, prefix: str, **options: str) -> Iterator[tuple[Sequence[str], bool]]:
        """Yield the names on each page, and if another follows. With a ``Delimiter``, names end
        with the first one after the prefix, each once."""
        place: Any = {"Bucket": self.bucket, "Prefix": self._base + prefix, **options}
        pages = self._client.get_paginator("list_objects_v2")
        with self._explained(prefix):
            for page in pages.paginate(**place, PaginationConfig={"PageSize": _PAGE}):
                folders = (item["Prefix"] for item in page.get("CommonPrefixes", []))
                names = (*folders, *(item["Key"] for item in page.get("Contents", [])))
                yield [name.removeprefix(self._base) for name in names], page["IsTruncated"]

    def _metadata(self, key: str) -> dict[str, str] | None:
        """The object's metadata; None if there is no such object (in a bucket that is there)."""
        with self._explained(key):
            try:
                answer = self._client.head_object(Bucket=self.bucket, Key=self._base + key)
                return answer["Metadata"]
            except failures.ClientError as error:
                if _code(error) not in _GONE:
                    raise
            # A HEAD's 404 does not distinguish a missing object from a missing bucket: ask once.
            if not self._bucket_seen:
                self._client.list_objects_v2(Bucket=self.bucket, MaxKeys=1)
                self._bucket_seen = True
        return None

    @property
    def _place(self) -> str:
        return f"s3://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")

    @property
    def _client(self) -> S3Client:
        with self._making:
            if self._made is None:
                self._made = _connect(self.endpoint, self.region)
            return self._made

    @contextlib.contextmanager
    def _explained(self, key: str) -> Iterator[None]:
        try:
            yield
        except (failures.ClientError, failures.BotoCoreError, ValueError) as error:
            place = f"{self._place}/{key}".rstrip("/")
            if isinstance(error, failures.ClientError) and _code(error) in _GONE:
                raise MissingKey(f"{place}: no such object") from error
            if _is_passing(error):
                raise StoreUnavailable(place, self._remedy(error)) from error
            raise StoreError(f"{place}: {self._remedy(error)}") from error

    def _remedy(self, error: Exception) -> str:
        """Explain an error for people, with the remedy; never a secret."""
        match error:
            case failures.ClientError():
                if remedy := _REMEDIES.get(_code(error)):
                    return remedy
                if _is_passing(error):  # the server's text may name the object
                    return f"{self._server} answers with an error ({_status(error)})"
                message = str(error.response.get("Error", {}).get("Message", ""))[:200]
                return f"{_code(error)}: {message}"
            case failures.NoCredentialsError() | failures.PartialCredentialsError():
                return "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            case failures.ResponseStreamingError() | failures.IncompleteReadError():
                return f"{self._server} cuts its answers short: see it, or the proxy before it"
            case failures.SSLError():
                remedy = "correct endpoint, or name its certificate's authority in AWS_CA_BUNDLE"
                return f"no TLS connection to {self._server}: {remedy}"
            case failures.ConnectionError() | failures.HTTPClientError():
                return f"{self._server} cannot be reached: start it, or correct endpoint"
        return str(error)

    @property
    def _server(self) -> str:
        return self.endpoint or "the S3 service"


def _check_endpoint(endpoint: str, bucket: str) -> None:
    parts = urlsplit(endpoint)
    plain = parts.scheme in {"http", "https"} and parts.hostname and "@" not in parts.netloc
    if not plain or parts.query or parts.fragment:
        raise StoreError(f"s3://{bucket}: endpoint must be http(s)://host[:port], without secrets")


def _connect(endpoint: str, region: str) -> S3Client:
    """A client of its own session: clients may be shared by threads, sessions may not."""
    options: Any = {"addressing_style": "path"} if endpoint else {}
    config = Config(
        retries={"mode": "standard", "total_max_attempts": _TRIES},
        connect_timeout=5,
        read_timeout=60,
        max_pool_connections=64,
        s3=options,
    )
    session = boto3.session.Session(region_name=region or None)
    return session.client(
        "s3",
        endpoint_url=endpoint or None,
        region_name=session.region_name or "us-east-1",
        config=config,
    )


def _is_passing(error: Exception) -> bool:
    """Return True for an error that may end by itself: the server does not answer, fails, is full
    or asks for fewer requests."""
    if isinstance(error, failures.ClientError):
        status = _status(error)
        passing = status in (408, 429) or (status >= 500 and status != 501)
        return passing or _code(error) in _PASSING
    network = (failures.ConnectionError, failures.HTTPClientError, failures.IncompleteReadError)
    return isinstance(error, network)


def _status(error: failures.ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _code(error: failures.ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "unknown"))
