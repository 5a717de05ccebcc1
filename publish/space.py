"""Folders as Spaces of the Hub."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path

from publish.errors import PublishError
from publish.hub import Target, check_token, client, commit_folder, explained, remote_files

_NEW_SPACE = {"README.md", "index.html", "style.css"}  # that the Hub begins a static Space with


def push_space(
    folder: Path,
    repository: str,
    mark: str,
    sdk: str = "static",
    *,
    pause: Callable[[float], None] = time.sleep,
) -> str:
    """Make a Space hold exactly the files of a folder, in one commit, and return its
    revision; nothing is sent if it does. The Space is made if need be; one that has files already
    must have the file ``mark``. Raises PublishError as ``upload_release``."""
    check_token()
    target = Target(client().HfApi(), repository, "space")
    with explained(target):
        target.api.create_repo(repository, repo_type="space", space_sdk=sdk, exist_ok=True)
        names = remote_files(target, "main").keys()
        if mark not in names and not names <= _NEW_SPACE:
            raise PublishError(f"{target.words}: holds something else: name another one")
        with warnings.catch_warnings(action="ignore"):  # of a release's data, which are meant
            return commit_folder(target, folder, "Site", pause)
