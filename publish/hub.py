"""A release on the Hugging Face Hub: one commit, read back and checked, then tagged.

The tag is what makes it a release, so it comes last. The state lies on the Hub alone: whoever
runs ``upload_release`` again, after whatever went wrong, goes on from what is there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from publish.errors import PublishError
from publish.leakcheck import release_files
from publish.release import read_release

if TYPE_CHECKING:
    from huggingface_hub import HfApi

COMMIT_ATTEMPTS = 4
# The Hub adds this file to every repository, to list the files that are stored as LFS objects.
_HUBS_OWN = frozenset({".gitattributes"})

Check = Callable[[Path], object]  # raises PublishError where a folder must not go out


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A release as it stands on the Hub."""

    repository: str
    revision: str  # the commit's full hash
    tag: str


@dataclass(frozen=True, slots=True)
class _Target:
    api: HfApi
    repository: str
    branch: str


def check_token() -> None:
    """Raise PublishError if neither the environment nor a login has a token of the Hub."""
    if _client().get_token() is None:
        raise PublishError("no Hub token: set HF_TOKEN, or log in with: hf auth login")


def upload_release(
    folder: Path,
    repository: str,
    tag: str,
    check: Check,
    *,
    branch: str = "main",
    private: bool = False,
    endpoint: str | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> Uploaded:
    """Put a release folder on the Hub as the data set ``repository`` ("owner/name").

    The folder is checked, committed to the branch in one commit, read back at that revision,
    checked again as it was read, and only then tagged. A tag that is there with the same content
    is accepted. The token is the environment's (HF_TOKEN) or the login's; the Hub is the
    ``endpoint``, or HF_ENDPOINT, or the public one.

    Raises PublishError: no token or no right to write, a Hub that cannot be reached, a tag with
    other content, a branch that others keep changing, bytes that come back altered, and
    whatever ``check`` raises.
    """
    read_release(folder)
    check(folder)
    hub = _client()
    api = hub.HfApi(endpoint=endpoint)
    target = _Target(api, repository, branch)
    check_token()
    with _explained(target):
        _, tags = _refs(target)
        if revision := tags.get(tag):
            if not _matches(folder, _remote_files(target, revision)):
                raise PublishError(
                    f"{repository}: tag {tag} is there with other content; "
                    "releases are not overwritten, name another tag"
                )
            return Uploaded(repository, revision, tag)
        _ensure_branch(target, private)
        revision = _commit(target, folder, tag, pause)
        _read_back(target, revision, folder, check)
        _tag(target, tag, revision)
        return Uploaded(repository, revision, tag)


def _client() -> ModuleType:
    """huggingface_hub without Xet: with it an upload may take several commits."""
    os.environ["HF_HUB_DISABLE_XET"] = "1"
    import huggingface_hub
    import huggingface_hub.constants

    huggingface_hub.constants.HF_HUB_DISABLE_XET = True  # if it was imported before
    return huggingface_hub


# -- what is there ------------------------------------------------------------------------------


def _refs(target: _Target) -> tuple[dict[str, str], dict[str, str]]:
    """The branches and tags, each with its commit; none of either where there is no repository."""
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        refs = target.api.list_repo_refs(target.repository, repo_type="dataset")
    except RepositoryNotFoundError:
        return {}, {}
    branches = {branch.name: branch.target_commit for branch in refs.branches}
    return branches, {tag.name: tag.target_commit for tag in refs.tags}


def _ensure_branch(target: _Target, private: bool) -> None:
    branches, _ = _refs(target)
    if not branches:
        target.api.create_repo(
            target.repository, repo_type="dataset", private=private or None, exist_ok=True
        )
        branches, _ = _refs(target)
    if target.branch not in branches:
        target.api.create_branch(
            target.repository, branch=target.branch, repo_type="dataset", exist_ok=True
        )


def _remote_files(target: _Target, revision: str) -> dict[str, str]:
    """Each file's digest as the Hub states it: SHA-256 of an LFS object, git's of another."""
    from huggingface_hub import RepoFile

    tree = target.api.list_repo_tree(
        target.repository, recursive=True, revision=revision, repo_type="dataset"
    )
    return {
        entry.path: entry.lfs.sha256 if entry.lfs else entry.blob_id
        for entry in tree
        if isinstance(entry, RepoFile) and entry.path not in _HUBS_OWN
    }


def _matches(folder: Path, remote: dict[str, str]) -> bool:
    names = list(release_files(folder))
    return remote.keys() == set(names) and all(
        remote[name] in _digests(folder / name) for name in names
    )


def _digests(path: Path) -> tuple[str, str]:
    data = path.read_bytes()
    git = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    return hashlib.sha256(data).hexdigest(), git


# -- commit, verify, tag ------------------------------------------------------------------------


def _commit(target: _Target, folder: Path, tag: str, pause: Callable[[float], None]) -> str:
    """The revision at which the branch holds exactly the folder, made if need be.

    A stale parent and a server's failure both lead back to reading the head: an answer may be
    lost after its commit was made.
    """
    from huggingface_hub.errors import HfHubHTTPError

    stale = 0
    for attempt in range(COMMIT_ATTEMPTS):
        info = target.api.repo_info(target.repository, repo_type="dataset", revision=target.branch)
        head = str(info.sha)
        remote = _remote_files(target, head)
        if _matches(folder, remote):
            return head
        try:
            return _commit_onto(target, folder, tag, head, remote)
        except HfHubHTTPError as error:
            status = error.response.status_code
            stale += status == 412
            if stale > 1:
                raise PublishError(
                    f"{target.repository}: others are changing branch {target.branch}; "
                    "wait until they are done, or name another branch"
                ) from error
            if (status != 412 and status < 500) or attempt == COMMIT_ATTEMPTS - 1:
                raise
            pause(2.0**attempt)
    raise AssertionError("the last attempt returns or raises")


def _commit_onto(
    target: _Target, folder: Path, tag: str, parent: str, remote: dict[str, str]
) -> str:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    names = list(release_files(folder))
    operations: list[Any] = [CommitOperationAdd(name, str(folder / name)) for name in names]
    operations += [CommitOperationDelete(name) for name in sorted(remote.keys() - set(names))]
    made = target.api.create_commit(
        target.repository,
        operations,
        commit_message=f"Release {tag}",
        repo_type="dataset",
        revision=target.branch,
        parent_commit=parent,
    )
    return made.oid


def _read_back(target: _Target, revision: str, folder: Path, check: Check) -> None:
    """Download what the Hub serves at the revision, and hold it against the folder."""
    names = target.api.list_repo_files(target.repository, revision=revision, repo_type="dataset")
    if not _matches(folder, _remote_files(target, revision)):
        raise PublishError(f"{target.repository}: revision {revision} does not hold the release")
    parent = folder.absolute().parent  # the release's own disk
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.read-back-", dir=parent) as place:
        copy = Path(place)
        for name in names:
            target.api.hf_hub_download(
                target.repository,
                name,
                repo_type="dataset",
                revision=revision,
                local_dir=copy,
                force_download=True,
            )
        shutil.rmtree(copy / ".cache", ignore_errors=True)  # the client's notes on its downloads
        for name in release_files(folder):
            if (folder / name).read_bytes() != (copy / name).read_bytes():
                raise PublishError(
                    f"{target.repository}: {name} does not come back as it was sent; "
                    "it was not tagged, and the branch should not be trusted"
                )
        check(copy)


def _tag(target: _Target, tag: str, revision: str) -> None:
    target.api.create_tag(
        target.repository, tag=tag, revision=revision, repo_type="dataset", exist_ok=True
    )
    _, tags = _refs(target)
    if (tagged := tags.get(tag)) != revision:
        raise PublishError(
            f"{target.repository}: tag {tag} was set to another commit ({tagged}) meanwhile; "
            "name another tag"
        )


# -- what goes wrong ----------------------------------------------------------------------------


@contextmanager
def _explained(target: _Target) -> Iterator[None]:
    """The client's errors as one sentence with a remedy; none carries a header or a token."""
    import httpx2
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        yield
    except HFValidationError as error:
        raise PublishError(f"{target.repository!r} is not a repository: owner/name") from error
    except (httpx2.HTTPError, LocalEntryNotFoundError, ConnectionError) as error:
        raise PublishError(_remote_reason(target, error)) from error
    except OSError as error:
        raise PublishError(f"cannot read or write the release: {error.strerror}") from error
    except (RuntimeError, ValueError) as error:  # the client's types for a failed LFS upload
        raise PublishError(_remote_reason(target, error)) from error


def _remote_reason(target: _Target, error: Exception) -> str:
    status, network = _below(error)
    place = f"{target.api.endpoint}: data set {target.repository}"
    again = "run the same command again later; it goes on from where it stopped"
    if status is None and network:
        return f"{place}: cannot be reached: see to the network or HF_ENDPOINT, and {again}"
    if status is None:
        return f"{place}: the Hub's answer was not understood ({type(error).__name__}): {again}"
    if status == 401:
        return f"{place}: the token is not valid there: set HF_TOKEN to one that can write"
    if status in (403, 404):
        return f"{place}: this token may not write there: use its owner's, or another repository"
    return f"{place}: the Hub answered {status}: {again}"


def _below(error: BaseException | None) -> tuple[int | None, bool]:
    """The status of the response that an error goes back to, and whether it goes back to the
    network: the client wraps the errors of LFS uploads and downloads."""
    import httpx2

    network = False
    while error is not None:
        if (response := getattr(error, "response", None)) is not None:
            return int(response.status_code), network
        network |= isinstance(error, httpx2.TransportError | ConnectionError)
        error = error.__cause__ or error.__context__
    return None, network
