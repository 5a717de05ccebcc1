"""A small Hugging Face Hub for data sets and Spaces, in memory, for the unmodified client to talk
to.

It speaks what huggingface_hub 2.x and datasets 5.x ask when a data set is created, committed
to, tagged and loaded: preupload, LFS (kept under another host name than the Hub's, as the real
one does), commits with a parent, refs, trees and resolved files. A test may have it fail, stall
or act at any request.

    with HubServer({"hf_token": "owner"}) as hub:
        hub.fail("POST", "/commit/", 503)
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

LFS_FROM = 10_000  # bytes; so are files of these kinds, whatever their size
LFS_KINDS = (".parquet", ".bin", ".zip")
_DATE = "2026-01-01T00:00:00.000Z"


# -- what it keeps ------------------------------------------------------------------------------


@dataclass(frozen=True)
class StoredFile:
    """One file of a commit; ``key`` names its bytes among the server's blobs."""

    key: str
    size: int
    lfs: bool

    @property
    def git_oid(self) -> str:
        return hashlib.sha1(self.key.encode()).hexdigest() if self.lfs else self.key

    def entry(self, path: str) -> dict[str, Any]:
        entry = {"type": "file", "path": path, "size": self.size, "oid": self.git_oid}
        return {**entry, "lfs": self.pointer("oid")} if self.lfs else entry

    def sibling(self, path: str) -> dict[str, Any]:
        sibling = {"rfilename": path, "size": self.size, "blobId": self.git_oid}
        return {**sibling, "lfs": self.pointer("sha256")} if self.lfs else sibling

    def pointer(self, name: str) -> dict[str, Any]:
        return {name: self.key, "size": self.size, "pointerSize": 130}


@dataclass(frozen=True)
class Commit:
    oid: str
    title: str
    parent: str | None
    files: Mapping[str, StoredFile]


@dataclass
class Repository:
    """One data set, or Space by its SDK: commits, and the branches and tags that name them."""

    name: str
    private: bool = False
    gated: Any = False
    sdk: str = ""
    commits: dict[str, Commit] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    lfs: dict[str, str] = field(default_factory=dict)  # ever committed: key and path

    def commit(self, branch: str, title: str, files: Mapping[str, StoredFile]) -> Commit:
        parent = self.branches.get(branch)
        content = [title, parent, len(self.commits), sorted((p, f.key) for p, f in files.items())]
        oid = hashlib.sha1(json.dumps(content).encode()).hexdigest()
        self.commits[oid] = Commit(oid, title, parent, dict(files))
        self.branches[branch] = oid
        self.lfs |= {stored.key: path for path, stored in files.items() if stored.lfs}
        return self.commits[oid]

    def at(self, revision: str) -> Commit:
        oid = self.branches.get(revision) or self.tags.get(revision) or revision
        if oid not in self.commits:
            raise Refusal(404, "Invalid rev id", "RevisionNotFound")
        return self.commits[oid]

    def history(self, revision: str) -> list[Commit]:
        commits = [self.at(revision)]
        while (parent := commits[-1].parent) is not None:
            commits.append(self.commits[parent])
        return commits


class Refusal(Exception):  # noqa: N818 - an answer, not a fault
    """An answer that is an error."""

    def __init__(self, status: int, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code


@dataclass(frozen=True)
class Reply:
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    user: str | None

    def json(self) -> Any:
        return json.loads(self.body or b"{}")


@dataclass
class Rule:
    """What a test wants to happen at requests whose path has the pattern, but for the first ones of
    them. The action may return a status to answer with instead, or another answer; ``after`` lets
    the request do its work first. An empty method is any."""

    method: str
    pattern: str
    action: Callable[[Reply], int | Reply | None]
    times: int
    after: bool
    skip: int = 0


# -- the server ---------------------------------------------------------------------------------


class HubServer:
    """The Hub on a free port of this machine, in threads, for the time of a ``with``."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self.tokens = dict(tokens)
        self.repositories: dict[str, Repository] = {}
        self.blobs: dict[str, bytes] = {}
        self.requests: list[tuple[str, str, int]] = []  # method, path, status
        self.tokens_at_storage: list[str] = []  # must stay empty: it is another host
        self._rules: list[Rule] = []
        self._hanging = threading.local()
        self._lock = threading.RLock()
        self._server = _Threads(("127.0.0.1", 0), _handler(self))

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def storage(self) -> str:
        """Where LFS objects are: the same machine by another name."""
        return f"http://localhost:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def at(
        self,
        method: str,
        pattern: str,
        action: Callable[[], int | None],
        *,
        times: int = 1,
        after: bool = False,
        skip: int = 0,
    ) -> None:
        """Act at the next requests whose path has the pattern (a regular expression), after those
        that are skipped."""
        self._rules.append(Rule(method, pattern, lambda reply: action(), times, after, skip))

    def fail(
        self,
        method: str,
        pattern: str,
        status: int,
        *,
        times: int = 1,
        after: bool = False,
        skip: int = 0,
    ) -> None:
        """Answer with an error; ``after`` the work is done, so that only its answer is lost."""
        self.at(method, pattern, lambda: status, times=times, after=after, skip=skip)

    def hang_up(self, method: str, pattern: str, *, times: int = 1, skip: int = 0) -> None:
        """Do the work, send half of the answer and close the connection."""

        def action() -> None:
            self._hanging.up = True

        self.at(method, pattern, action, times=times, after=True, skip=skip)

    def alter(self, change: Callable[[bytes], bytes], *, times: int = 1, skip: int = 0) -> None:
        """Do the work, and change the body of the answer."""

        def action(reply: Reply) -> Reply:
            headers = {k: v for k, v in reply.headers.items() if k != "Content-Length"}
            return Reply(reply.status, change(reply.body), headers)

        self._rules.append(Rule("", "", action, times, True, skip))

    def forget(self) -> None:
        """Answer as a Hub does again."""
        self._rules.clear()

    def clear(self) -> None:
        """Hold nothing; and answer as a Hub does again."""
        self.repositories, self.blobs = {}, {}
        self.requests.clear()
        self.forget()

    def is_hanging_up(self) -> bool:
        """Report whether the answer of this thread is to be cut, and forget it."""
        up, self._hanging.up = getattr(self._hanging, "up", False), False
        return up

    def count(self, method: str, pattern: str, status: int = 200) -> int:
        """How many such requests were answered so."""
        return sum(
            (asked, answered) == (method, status) and re.search(pattern, path) is not None
            for asked, path, answered in self.requests
        )

    def answer(self, request: Request) -> Reply:
        reply = self._injected(request, None) or self._routed(request)
        reply = self._injected(request, reply) or reply
        with self._lock:
            self.requests.append((request.method, request.path, reply.status))
        return reply

    def _routed(self, request: Request) -> Reply:
        try:
            with self._lock:
                return route(self, request)
        except Refusal as refusal:
            return _refused(refusal.status, refusal.message, refusal.code)

    def _injected(self, request: Request, reply: Reply | None) -> Reply | None:
        """What is answered instead, before a request does its work or after, with its reply."""
        with self._lock:
            after = reply is not None
            rule = next((each for each in self._rules if _applies(each, request, after)), None)
            if rule is None:
                return None
            if rule.skip > 0:
                rule.skip -= 1
                return None
            rule.times -= 1
        answer = rule.action(reply or Reply())
        return _refused(answer, "as the test asked") if isinstance(answer, int) else answer


def _applies(rule: Rule, request: Request, after: bool) -> bool:
    wanted = rule.times > 0 and rule.after is after and rule.method in ("", request.method)
    return wanted and re.search(rule.pattern, request.path) is not None


class _Threads(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Let a client that hangs up be, whose command's output this would get into."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _handler(hub: HubServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:
            pass

        def serve(self) -> None:
            parts = urlsplit(self.path)
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            if token and self.headers.get("Host", "").startswith("localhost"):
                hub.tokens_at_storage.append(token)
            request = Request(
                self.command,
                unquote(parts.path),
                dict(parse_qsl(parts.query, keep_blank_values=True)),
                dict(self.headers.items()),
                _body_of(self),
                hub.tokens.get(token),
            )
            reply = hub.answer(request)
            self.send_response(reply.status)
            headers = {"Content-Type": "application/json", **reply.headers}
            headers.setdefault("Content-Length", str(len(reply.body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if hub.is_hanging_up():
                self.wfile.write(reply.body[: len(reply.body) // 2])
                self.close_connection = True
            elif self.command != "HEAD":
                self.wfile.write(reply.body)

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = serve  # noqa: N815 - http.server's names

    return Handler


def _body_of(handler: BaseHTTPRequestHandler) -> bytes:
    if "chunked" not in handler.headers.get("Transfer-Encoding", ""):
        return handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
    return b"".join(_chunks(handler))


def _chunks(handler: BaseHTTPRequestHandler) -> Iterator[bytes]:
    while size := int(handler.rfile.readline().strip(), 16):
        yield handler.rfile.read(size)
        handler.rfile.readline()
    handler.rfile.readline()


def _json(value: Any, status: int = 200, **headers: str) -> Reply:
    return Reply(status, json.dumps(value).encode(), headers)


def _refused(status: int, message: str, code: str = "") -> Reply:
    headers = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {})
    return Reply(status, json.dumps({"error": message}).encode(), headers)


# -- routes -------------------------------------------------------------------------------------

Route = Callable[..., Reply]
_ROUTES: list[tuple[str, re.Pattern[str], Route]] = []
_REPOSITORY = r"(?P<name>[^/]+/[^/]+)"
_KIND = "(?:datasets|spaces)"
_API = f"/api/{_KIND}/{_REPOSITORY}"


def on(methods: str, pattern: str) -> Callable[[Route], Route]:
    """Answer these methods at this path."""

    def register(function: Route) -> Route:
        _ROUTES.extend((each, re.compile(pattern), function) for each in methods.split())
        return function

    return register


def route(hub: HubServer, request: Request) -> Reply:
    for method, pattern, function in _ROUTES:
        if method == request.method and (found := pattern.fullmatch(request.path)):
            return function(hub, request, **found.groupdict())
    raise Refusal(404, f"{request.method} {request.path} is not spoken here")


def _readable(hub: HubServer, request: Request, name: str) -> Repository:
    repository = hub.repositories.get(name)
    if repository is None or (repository.private and request.user != name.split("/")[0]):
        raise Refusal(401 if request.user is None else 404, "Repository not found", "RepoNotFound")
    return repository


def _writable(hub: HubServer, request: Request, name: str) -> Repository:
    if request.user is None:
        raise Refusal(401, "Invalid credentials in Authorization header")
    repository = _readable(hub, request, name)
    if request.user != name.split("/")[0]:
        raise Refusal(403, "You do not have write access", "Forbidden")
    return repository


@on("GET", "/api/whoami-v2")
def whoami(hub: HubServer, request: Request) -> Reply:
    if request.user is None:
        raise Refusal(401, "Invalid credentials in Authorization header")
    auth = {"type": "access_token", "accessToken": {"displayName": "test", "role": "write"}}
    return _json({"type": "user", "name": request.user, "orgs": [], "auth": auth})


@on("POST", "/api/repos/create")
def create(hub: HubServer, request: Request) -> Reply:
    if request.user is None:
        raise Refusal(401, "Invalid credentials in Authorization header")
    wanted = request.json()
    owner = wanted.get("organization") or request.user
    name = f"{owner}/{wanted['name']}"
    if owner != request.user:
        raise Refusal(403, f"You do not have the rights to create a dataset under {owner}")
    url = f"{hub.url}/datasets/{name}"
    if name in hub.repositories:
        return _json({"error": "You already created this dataset repo", "url": url}, 409)
    private, sdk = wanted.get("visibility") == "private", wanted.get("sdk", "")
    repository = Repository(name, private=private, sdk=sdk)
    attributes = b"*.parquet filter=lfs diff=lfs merge=lfs -text\n"
    repository.commit("main", "initial commit", {".gitattributes": _keep(hub, attributes)})
    hub.repositories[name] = repository
    return _json({"url": url, "name": name, "id": name})


@on("POST", "/api/validate-yaml")
def validate_yaml(hub: HubServer, request: Request) -> Reply:
    return _json({"errors": [], "warnings": []})


@on("GET", _API + r"(?:/revision/(?P<revision>[^/]+))?")
def info(hub: HubServer, request: Request, name: str, revision: str | None) -> Reply:
    repository = _readable(hub, request, name)
    commit = repository.at(revision or "main")
    return _json(
        {
            "_id": hashlib.md5(name.encode()).hexdigest()[:24],
            "id": name,
            "author": name.split("/")[0],
            "sha": commit.oid,
            "private": repository.private,
            "gated": repository.gated,
            "disabled": False,
            "lastModified": _DATE,
            "createdAt": _DATE,
            "downloads": 0,
            "likes": 0,
            "tags": [],
            "siblings": [each.sibling(path) for path, each in sorted(commit.files.items())],
        }
    )


@on("PUT", _API + "/settings")
def settings(hub: HubServer, request: Request, name: str) -> Reply:
    repository = _writable(hub, request, name)
    wanted = request.json()
    repository.gated = wanted.get("gated", repository.gated)
    repository.private = wanted.get("visibility", "") == "private" or bool(wanted.get("private"))
    return _json({"private": repository.private, "gated": repository.gated})


# -- refs


@on("GET", _API + "/refs")
def refs(hub: HubServer, request: Request, name: str) -> Reply:
    repository = _readable(hub, request, name)

    def listed(kind: str, names: Mapping[str, str]) -> list[dict[str, str]]:
        return [
            {"name": each, "ref": f"refs/{kind}/{each}", "targetCommit": oid}
            for each, oid in names.items()
        ]

    found = {"branches": listed("heads", repository.branches), "converts": []}
    return _json({**found, "tags": listed("tags", repository.tags)})


@on("POST", _API + "/tag/(?P<revision>[^/]+)")
def tag(hub: HubServer, request: Request, name: str, revision: str) -> Reply:
    repository = _writable(hub, request, name)
    wanted = request.json()["tag"]
    if wanted in repository.tags:
        raise Refusal(409, "Tag reference exists already")
    repository.tags[wanted] = repository.at(revision).oid
    return _json({})


@on("GET", _API + "/commits/(?P<revision>[^/]+)")
def commits(hub: HubServer, request: Request, name: str, revision: str) -> Reply:
    repository = _readable(hub, request, name)
    author = [{"user": name.split("/")[0]}]
    return _json(
        [
            {"id": each.oid, "title": each.title, "message": "", "date": _DATE, "authors": author}
            for each in repository.history(revision)
        ]
    )


# -- commits


@on("POST", _API + "/preupload/(?P<revision>[^/]+)")
def preupload(hub: HubServer, request: Request, name: str, revision: str) -> Reply:
    present = _writable(hub, request, name).at(revision).files

    def answer(path: str, size: int) -> dict[str, Any]:
        lfs = size >= LFS_FROM or path.endswith(LFS_KINDS)
        oid = present[path].key if path in present else None
        mode = "lfs" if lfs else "regular"
        return {"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid}

    return _json(
        {"files": [answer(each["path"], each["size"]) for each in request.json()["files"]]}
    )


@on("POST", rf"/{_KIND}/{_REPOSITORY}\.git/info/lfs/objects/batch")
def lfs_batch(hub: HubServer, request: Request, name: str) -> Reply:
    _writable(hub, request, name)

    def answer(oid: str, size: int) -> dict[str, Any]:
        upload = {"href": f"{hub.storage}/lfs/{oid}", "header": {}}
        verify = {"href": f"{hub.url}/lfs-verify", "header": {}}
        wanted = {} if oid in hub.blobs else {"actions": {"upload": upload, "verify": verify}}
        return {"oid": oid, "size": size, **wanted}

    objects = [answer(each["oid"], each["size"]) for each in request.json()["objects"]]
    return _json({"transfer": "basic", "objects": objects})


@on("PUT", "/lfs/(?P<oid>[0-9a-f]{64})")
def lfs_put(hub: HubServer, request: Request, oid: str) -> Reply:
    if hashlib.sha256(request.body).hexdigest() != oid:
        raise Refusal(400, "the object does not have the digest that names it")
    hub.blobs[oid] = request.body
    return Reply(headers={"ETag": f'"{oid}"'})


@on("POST", "/lfs-verify")
def lfs_verify(hub: HubServer, request: Request) -> Reply:
    wanted = request.json()
    if len(hub.blobs.get(wanted["oid"], b"")) != wanted["size"]:
        raise Refusal(404, "no such object")
    return _json({})


@on("POST", _API + "/commit/(?P<revision>[^/]+)")
def commit(hub: HubServer, request: Request, name: str, revision: str) -> Reply:
    repository = _writable(hub, request, name)
    head = repository.at(revision)
    files, title = dict(head.files), ""
    for line in request.body.splitlines():
        operation = json.loads(line)
        value = operation["value"]
        if operation["key"] == "header":
            title = value["summary"]
            if value.get("parentCommit", head.oid) != head.oid:
                raise Refusal(412, "A commit has happened since. Please refresh and try again.")
        else:
            _apply(hub, files, operation["key"], value)
    made = repository.commit(revision, title, files)
    url = f"{hub.url}/datasets/{name}/commit/{made.oid}"
    return _json({"success": True, "commitOid": made.oid, "commitUrl": url, "hookOutput": ""})


def _apply(hub: HubServer, files: dict[str, StoredFile], key: str, value: Any) -> None:
    path = value["path"]
    match key:
        case "file":
            files[path] = _keep(hub, base64.b64decode(value["content"]))
        case "lfsFile" if value["oid"] in hub.blobs:
            files[path] = StoredFile(value["oid"], len(hub.blobs[value["oid"]]), lfs=True)
        case "deletedFile" if path in files:
            del files[path]
        case "deletedFolder":
            for each in [each for each in files if each.startswith(path.rstrip("/") + "/")]:
                del files[each]
        case _:
            raise Refusal(400, f"{key} {path} cannot be applied")


def _keep(hub: HubServer, data: bytes) -> StoredFile:
    oid = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    hub.blobs[oid] = data
    return StoredFile(oid, len(data), lfs=False)


# -- reading


@on("GET", _API + "/tree/(?P<revision>[^/]+)(?:/(?P<below>.+))?")
def tree(hub: HubServer, request: Request, name: str, revision: str, below: str | None) -> Reply:
    files = _readable(hub, request, name).at(revision).files
    start = f"{below.rstrip('/')}/" if below else ""
    deep = request.query.get("recursive", "").lower() in ("true", "1")
    found: dict[str, dict[str, Any]] = {}
    for path, each in sorted(files.items()):
        if path.startswith(start):
            parts = path.removeprefix(start).split("/")
            for depth in range(1, len(parts) if deep else min(2, len(parts))):
                folder = start + "/".join(parts[:depth])
                found.setdefault(folder, _directory(folder))
            if deep or len(parts) == 1:
                found[path] = each.entry(path)
    if start and not found:
        raise Refusal(404, "Entry not found", "EntryNotFound")
    return _json(list(found.values()))


@on("POST", _API + "/paths-info/(?P<revision>[^/]+)")
def paths_info(hub: HubServer, request: Request, name: str, revision: str) -> Reply:
    files = _readable(hub, request, name).at(revision).files
    found = []
    for path in _asked_paths(request):
        if path in files:
            found.append(files[path].entry(path))
        elif any(each.startswith(path.rstrip("/") + "/") for each in files):
            found.append(_directory(path))
    return _json(found)


def _asked_paths(request: Request) -> list[str]:
    if "json" in request.headers.get("Content-Type", request.headers.get("content-type", "")):
        paths = request.json()["paths"]
        return [paths] if isinstance(paths, str) else list(paths)
    return [value for key, value in parse_qsl(request.body.decode()) if key == "paths"]


def _directory(path: str) -> dict[str, Any]:
    return {"type": "directory", "path": path, "oid": "0" * 40, "size": 0}


@on("GET HEAD", rf"/{_KIND}/{_REPOSITORY}/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
def resolve(hub: HubServer, request: Request, name: str, revision: str, path: str) -> Reply:
    repository = _readable(hub, request, name)
    if repository.gated and request.user != name.split("/")[0]:
        raise Refusal(401 if request.user is None else 403, "Access is restricted", "GatedRepo")
    commit = repository.at(revision)
    stored = commit.files.get(path)
    if stored is None:
        refused = _refused(404, "Entry not found", "EntryNotFound")
        return Reply(404, refused.body, {**refused.headers, "X-Repo-Commit": commit.oid})
    headers = {"X-Repo-Commit": commit.oid, "ETag": f'"{stored.key}"'}
    if not stored.lfs:
        return _bytes(request, hub.blobs[stored.key], headers)
    linked = {"X-Linked-Size": str(stored.size), "X-Linked-ETag": f'"{stored.key}"'}
    return Reply(302, b"", {**headers, **linked, "Location": f"{hub.storage}/lfs/{stored.key}"})


@on("GET HEAD", "/lfs/(?P<oid>[0-9a-f]{64})")
def lfs_get(hub: HubServer, request: Request, oid: str) -> Reply:
    if oid not in hub.blobs:
        raise Refusal(404, "no such object")
    return _bytes(request, hub.blobs[oid], {"ETag": f'"{oid}"'})


def _bytes(request: Request, data: bytes, headers: Mapping[str, str]) -> Reply:
    """The bytes, or the range of them that is asked for."""
    base = {**headers, "Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"}
    asked = request.headers.get("Range", request.headers.get("range", ""))
    wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", asked)
    if wanted is None or asked == "bytes=-":
        return _whole(200, data, base)
    first, last = wanted.groups()
    start = int(first) if first else max(0, len(data) - int(last))
    end = min(int(last) if first and last else len(data) - 1, len(data) - 1)
    if start >= len(data):
        return Reply(416, b"", {**base, "Content-Range": f"bytes */{len(data)}"})
    place = {"Content-Range": f"bytes {start}-{end}/{len(data)}"}
    return _whole(206, data[start : end + 1], {**base, **place})


def _whole(status: int, data: bytes, headers: Mapping[str, str]) -> Reply:
    """To HEAD the same headers as to GET."""
    return Reply(status, data, {**headers, "Content-Length": str(len(data))})
