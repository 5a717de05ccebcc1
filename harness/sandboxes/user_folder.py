"""A folder of this user's own, for locks and builds: no other user can plant a file in it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from harness.errors import HarnessError


def make_user_folder(name: str) -> Path:
    """Return the folder ``dosimeter/NAME`` of this user's cache, made with mode 700 if it is not
    there. Raises HarnessError if it cannot be made, or belongs to someone else."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(home) / "dosimeter" / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise HarnessError(
                f"{folder} is not a folder of user {os.getuid()}: remove it, or set "
                "XDG_CACHE_HOME to a folder of yours"
            )
        folder.chmod(0o700)
    except OSError as error:
        raise HarnessError(
            f"cannot make the folder {folder} ({error.strerror}): set XDG_CACHE_HOME to a folder "
            "that can be written"
        ) from error
    return folder
