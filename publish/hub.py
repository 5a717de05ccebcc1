"""A release on the Hugging Face Hub: one commit, read back and checked, then tagged.

The tags, one for each tranche, are what makes it a release, so they come last. The state lies on
the Hub alone: whoever runs ``upload_release`` again, after whatever went wrong, goes on from there.
"""

from __future__ import annotations

import filecmp
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from publish.dataset_card import tag_of
from publish.errors import PublishError
from publish.leakcheck.check import release_files
from publish.release import HUBS_OWN, draft_folder, file_digest, lasting, read_release
from registry.errors import RegistryError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

COMMIT_ATTEMPTS = 4

Check = Callable[[Path], object]  # raises PublishError where a folder must not go out


@dataclass(frozen=True, slots=True)
class HubPlace:
    """A data set repository, and who may read it. Without an endpoint: HF_ENDPOINT's Hub, or the
    public one."""

    repository: str  # "owner/name"
    endpoint: str | None = None
    private: bool = False
    gated: str | None = None  # "auto" or "manual": readers log in and ask; None for no gate


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A release as it stands on the Hub."""

    repository: str
    revision: str  # the commit's full hash
    tags: tuple[str, ...]  # all that it has, one for each tranche


@dataclass(frozen=True, slots=True)
class Target:
    api: HfApi
    repository: str
    kind: str = "dataset"

    @property
    def words(self) -> str:
        """The repository in messages."""
        kind = "Space" if self.kind == "space" else "data set"
        return f"{self.api.endpoint}: {kind} {self.repository}"


def check_token() -> None:
    """Raise PublishError if neither the environment nor a login has a token of the Hub."""
    if client().get_token() is None:
        raise PublishError("no Hub token: set HF_TOKEN, or log in with: hf auth login")


def upload_release(
    folder: Path, place: HubPlace, check: Check, *, pause: Callable[[float], None] = time.sleep
) -> Uploaded:
    """Put a release folder on the Hub, with a tag for each of its tranches.

    The folder is checked, committed in one commit, read back at that revision,
    checked again as it was read, and only then tagged. Tags that are there stay where they are:
    all that they hold, but the card and the checksums, must be in the folder unchanged. The token
    is the environment's (HF_TOKEN) or the login's.

    Raises PublishError: no token or no right to write, a Hub that cannot be reached, a tag with
    other content, a repository that others keep changing, bytes that come back altered, and
    whatever ``check`` raises.
    """
    tags = tuple(tag_of(tranche) for tranche in read_release(folder).tranches)
    check(folder)
    check_token()
    target = Target(client().HfApi(endpoint=place.endpoint), place.repository)
    with explained(target):
        there = {tag: at for tag, at in (_tags(target) or {}).items() if tag in tags}
        held = {tag: remote_files(target, at) for tag, at in there.items()}
        for tag, remote in held.items():
            if not _holds(folder, remote):
                raise _other_content(target, tag)
        _ensure_repository(target, place)
        missing = [tag for tag in tags if tag not in there]
        if not missing:
            for tag, remote in held.items():
                if _matches(folder, remote):
                    return Uploaded(place.repository, there[tag], tags)
            raise _other_content(target, tags[-1])
        revision = commit_folder(target, folder, f"Release {missing[-1]}", pause)
        _read_back(target, revision, folder, check)
        for tag in missing:
            _tag(target, tag, revision)
        return Uploaded(place.repository, revision, tags)


def private_files(name: str, revision: str, ends: tuple[str, ...]) -> Iterator[tuple[Path, bytes]]:
    """Yield names and contents of the files of a data set, "owner/name", at a revision, by how the
    names end; they are read into memory alone. Raises PublishError for one that anybody can read,
    and if it cannot be had."""
    hub = client()
    try:
        if not hub.HfApi().dataset_info(name, revision=revision).private:
            raise PublishError("anybody can read it, so that no arm would be private")
        files = hub.HfFileSystem()
        for path in sorted(files.find(f"datasets/{name}@{revision}")):
            if path.endswith(ends):
                yield Path(path), files.cat_file(path)
    except PublishError:
        raise
    except Exception as error:  # the client's own, of any kind
        raise PublishError(f"{type(error).__name__}: {error}".splitlines()[0]) from error


def _other_content(target: Target, tag: str) -> PublishError:
    return PublishError(
        f"{target.repository}: tag {tag} is there with other content; releases are not "
        "overwritten, name another repository"
    )


def client() -> ModuleType:
    """huggingface_hub without its bars, without its log (what fails is one message of the caller),
    and without Xet, with which an upload may take several commits."""
    os.environ["HF_HUB_DISABLE_XET"] = "1"
    import huggingface_hub
    import huggingface_hub.constants
    from huggingface_hub.utils.logging import set_verbosity
    from huggingface_hub.utils.tqdm import disable_progress_bars

    huggingface_hub.constants.HF_HUB_DISABLE_XET = True  # if it was imported before
    # A bar that its request's failure leaves open would take the message on its line.
    disable_progress_bars()
    set_verbosity(logging.CRITICAL)
    return huggingface_hub


# -- what is there ------------------------------------------------------------------------------


def _tags(target: Target) -> dict[str, str] | None:
    """The tags, each with its commit; None where there is no repository."""
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        refs = target.api.list_repo_refs(target.repository, repo_type=target.kind)
    except RepositoryNotFoundError:
        return None
    return {tag.name: tag.target_commit for tag in refs.tags}


def _ensure_repository(target: Target, place: HubPlace) -> None:
    """Make the repository if need be, to be read by those who are to."""
    if _tags(target) is None:
        target.api.create_repo(
            target.repository, repo_type=target.kind, private=place.private or None, exist_ok=True
        )
    wanted = (place.private, place.gated or False)
    info = target.api.repo_info(target.repository, repo_type=target.kind)
    if (bool(info.private), info.gated or False) != wanted:
        gated: Any = wanted[1]
        target.api.update_repo_settings(
            target.repository, repo_type=target.kind, private=place.private, gated=gated
        )


def remote_files(target: Target, revision: str) -> dict[str, str]:
    """Each file's digest as the Hub states it: SHA-256 of an LFS object, git's of another."""
    from huggingface_hub import RepoFile

    tree = target.api.list_repo_tree(
        target.repository, recursive=True, revision=revision, repo_type=target.kind
    )
    return {
        entry.path: entry.lfs.sha256 if entry.lfs else entry.blob_id
        for entry in tree
        if isinstance(entry, RepoFile) and not entry.path.startswith(HUBS_OWN)
    }


def _matches(folder: Path, remote: dict[str, str]) -> bool:
    """Report whether the Hub's files are the folder's, no more and no fewer."""
    names = list(release_files(folder))
    return remote.keys() == set(names) and all(_is(folder / each, remote[each]) for each in names)


def _holds(folder: Path, remote: dict[str, str]) -> bool:
    """Report whether the folder has all the Hub's files that later tranches leave as they are."""
    names = set(release_files(folder))
    return all(name in names and _is(folder / name, remote[name]) for name in lasting(remote))


def _is(path: Path, stated: str) -> bool:
    """Report whether a file has the digest that the Hub states: SHA-256, or git's SHA-1."""
    if len(stated) == 64:
        return file_digest(path) == stated
    return file_digest(path, "sha1", b"blob %d\0" % path.stat().st_size) == stated


# -- commit, verify, tag ------------------------------------------------------------------------


def commit_folder(target: Target, folder: Path, title: str, pause: Callable[[float], None]) -> str:
    """The revision at which the repository holds exactly the folder, made if need be.

    A stale parent and a server's failure both lead back to reading the head: an answer may be
    lost after its commit was made.
    """
    from huggingface_hub.errors import HfHubHTTPError

    stale = 0
    for attempt in range(COMMIT_ATTEMPTS):
        info = target.api.repo_info(target.repository, repo_type=target.kind)
        head = str(info.sha)
        remote = remote_files(target, head)
        if _matches(folder, remote):
            return head
        try:
            return _commit_onto(target, folder, title, head, remote)
        except HfHubHTTPError as error:
            status = error.response.status_code
            stale += status == 412
            if stale > 1:
                raise PublishError(
                    f"{target.repository}: others are changing it; wait until they are done, or "
                    "name another repository"
                ) from error
            if (status != 412 and status < 500) or attempt == COMMIT_ATTEMPTS - 1:
                raise
            pause(2.0**attempt)
    raise AssertionError("the last attempt returns or raises")


def _commit_onto(
    target: Target, folder: Path, title: str, parent: str, remote: dict[str, str]
) -> str:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    names = list(release_files(folder))
    operations: list[Any] = [CommitOperationAdd(name, str(folder / name)) for name in names]
    operations += [CommitOperationDelete(name) for name in sorted(remote.keys() - set(names))]
    made = target.api.create_commit(
        target.repository,
        operations,
        commit_message=title,
        repo_type=target.kind,
        parent_commit=parent,
    )
    return made.oid


def _read_back(target: Target, revision: str, folder: Path, check: Check) -> None:
    """Download what the Hub serves at the revision, and hold it against the folder."""
    names = target.api.list_repo_files(target.repository, revision=revision, repo_type=target.kind)
    if not _matches(folder, remote_files(target, revision)):
        raise PublishError(f"{target.repository}: revision {revision} does not hold the release")
    with draft_folder(folder.absolute()) as copy:  # on the release's own disk
        for name in names:
            target.api.hf_hub_download(
                target.repository,
                name,
                repo_type=target.kind,
                revision=revision,
                local_dir=copy,
                force_download=True,
            )
        shutil.rmtree(copy / ".cache", ignore_errors=True)  # the client's notes on its downloads
        for name in release_files(folder):
            if not filecmp.cmp(folder / name, copy / name, shallow=False):
                raise PublishError(
                    f"{target.repository}: {name} does not come back as it was sent; "
                    "it was not tagged, and should not be trusted"
                )
        check(copy)


def _tag(target: Target, tag: str, revision: str) -> None:
    target.api.create_tag(
        target.repository, tag=tag, revision=revision, repo_type=target.kind, exist_ok=True
    )
    tags = _tags(target) or {}
    if tag not in tags:
        raise PublishError(
            f"{target.words}: tag {tag} was not set: "
            "run the same command again later; it goes on from where it stopped"
        )
    if tags[tag] != revision:
        raise PublishError(
            f"{target.repository}: tag {tag} was set to another commit ({tags[tag]}) meanwhile; "
            "name another repository"
        )


# -- what goes wrong ----------------------------------------------------------------------------


@contextmanager
def explained(target: Target) -> Iterator[None]:
    """The client's errors as one sentence with a remedy; none carries a header or a token."""
    import httpx2
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        yield
    except (PublishError, RegistryError):
        raise
    except HFValidationError as error:
        raise PublishError(f"{target.repository!r} is not a repository: owner/name") from error
    except (httpx2.HTTPError, LocalEntryNotFoundError, ConnectionError) as error:
        raise PublishError(_remote_reason(target, error)) from error
    except Exception as error:
        if isinstance(error, OSError) and error.strerror:
            reason = f"cannot read or write the release: {error.strerror}"
            raise PublishError(reason) from error
        # The client's own, of any kind, at an answer of another form.
        raise PublishError(_remote_reason(target, error)) from error


def _remote_reason(target: Target, error: Exception) -> str:
    status, network = _below(error)
    place = target.words
    again = "run the same command again later; it goes on from where it stopped"
    if status is None and network:
        return f"{place}: cannot be reached: see to the network or HF_ENDPOINT, and {again}"
    if status is None:
        return f"{place}: the Hub's answer was not understood ({type(error).__name__}): {again}"
    writer = "this token may not write there: use its owner's, or another repository"
    reasons = {
        401: "the token is not valid there: set HF_TOKEN to one that can write",
        403: writer,
        404: writer,
        413: "the Hub answered 413, the release is larger than it takes: publish fewer instances, "
        "or the folder elsewhere",
    }
    return f"{place}: {reasons.get(status, f'the Hub answered {status}: {again}')}"


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
