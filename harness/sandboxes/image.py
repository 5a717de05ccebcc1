"""The sandbox image: one contract, made in whichever of two ways this machine allows.

The contract: ``python3`` with the libraries of ``recipe/requirements.lock`` compiled ahead,
``bash`` and the core utilities, run as nobody in ``/work``. The tag is the digest of the recipe, so
a changed recipe is another image. The image's own digest depends on the machine that built it.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import HarnessError
from harness.sandboxes.user_folder import make_user_folder

if TYPE_CHECKING:
    from harness.sandboxes.docker import Client

logger = logging.getLogger(__name__)

REPOSITORY = "dosimeter-sandbox"
# An official python:3.12-slim. It was found in public use, not pulled on the machine that this was
# written on, which reaches no registry. Another can be named in DOSIMETER_SANDBOX_BASE.
BASE = "python:3.12-slim@sha256:57cd7c3a7a273101a6485ba99423ee568157882804b1124b4dd04266317710de"
BASE_VARIABLE = "DOSIMETER_SANDBOX_BASE"
PROBE_SECONDS = 15

_FOLDER = Path(__file__).parent
_LOCK = _FOLDER / "recipe/requirements.lock"
_RECIPE = (_FOLDER / "recipe/Dockerfile", _LOCK, _FOLDER / "debian_rootfs.py")
_SETTINGS = (
    "ENV PATH=/usr/local/bin:/usr/bin:/bin HOME=/work LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1"
    " OPENBLAS_NUM_THREADS=1 MPLBACKEND=Agg MPLCONFIGDIR=/tmp",
    "WORKDIR /work",
    "USER 65534:65534",
)


@dataclass(frozen=True, slots=True)
class ImagePin:
    """The sandbox image as it is here."""

    tag: str
    digest: str


def image_tag() -> str:
    """The tag of the image that this checkout's recipe makes."""
    hasher = hashlib.sha256(repr((base_image(), _SETTINGS)).encode())
    for path in _RECIPE:
        hasher.update(hashlib.sha256(path.read_bytes()).digest())
    return f"{REPOSITORY}:{hasher.hexdigest()[:16]}"


def base_image() -> str:
    """Return the base that the image is built from if a registry answers. Raises HarnessError
    unless it is pinned by digest."""
    base = os.environ.get(BASE_VARIABLE) or BASE
    if not re.fullmatch(r"[^\s@]+@sha256:[0-9a-f]{64}", base):
        raise HarnessError(f"{BASE_VARIABLE}={base}: name it with its digest, name@sha256:<64 hex>")
    return base


def pinned_digest(image: str) -> str:
    """Return the digest that an image is named by. Raises HarnessError for another name."""
    if (named := re.fullmatch(r"[^\s@]+@(sha256:[0-9a-f]{64})", image)) is None:
        raise HarnessError(
            f"Pods take an image by its digest, NAME@sha256:<64 hex>, and not {image or 'none'!r}"
        )
    return named[1]


def ensure_image(progress: Callable[[str], None] = lambda line: None) -> ImagePin:
    """The image, built first if it is not there. Raises HarnessError with the remedy.

    Builders on one machine wait for each other. One that is killed leaves no tag, and its
    folder is swept by the next.
    """
    from harness.sandboxes.docker import connect, find_image

    client = connect()
    tag = image_tag()
    if (digest := find_image(client, tag)) is None:
        with _building(progress) as work:
            digest = find_image(client, tag) or _build(client, tag, work, progress)
        logger.info("built the sandbox image %s: %s", tag, digest)
    return ImagePin(tag, digest)


def locked_libraries() -> tuple[tuple[str, str], ...]:
    """Name and version of the sandbox's libraries, as locked."""
    return tuple(sorted(set(re.findall(r"^([\w.-]+)==([\w.]+)", _LOCK.read_text(), re.MULTILINE))))


def _build(client: Client, tag: str, work: Path, progress: Callable[[str], None]) -> str:
    from harness.sandboxes.debian_rootfs import make_root, missing_for_debian
    from harness.sandboxes.docker import build_image, import_image, why_unreachable

    if not (unreachable := why_unreachable(base_image(), PROBE_SECONDS)):
        progress(f"sandbox image: building on {base_image()}")
        args = {"BASE": base_image()}
        return build_image(client, tag, 3600, True, path=str(_context(work)), buildargs=args)
    progress(f"sandbox image: its base is not to be had ({unreachable}); using Debian packages")
    if missing := missing_for_debian():
        raise HarnessError(
            f"the sandbox image cannot be built: {base_image()} is not to be had "
            f"({unreachable}); {missing}"
        )
    root = make_root(work, _LOCK, progress)
    progress("sandbox image: importing")
    with subprocess.Popen(
        ["tar", "-C", root, "--sort=name", "--numeric-owner", "-cf", "-", "."],
        stdout=subprocess.PIPE,
    ) as archive:
        return import_image(client, tag, archive.stdout, _SETTINGS)


def _context(work: Path) -> Path:
    """A folder to build from: Dockerfile and lock."""
    context = work / "context"
    context.mkdir()
    shutil.copy(_LOCK, context)
    recipe = (_FOLDER / "recipe/Dockerfile").read_text()
    (context / "Dockerfile").write_text(recipe + "\n".join(_SETTINGS) + "\n")
    return context


@contextmanager
def _building(progress: Callable[[str], None]) -> Iterator[Path]:
    """A folder to build in, for one builder at a time; it vanishes afterwards."""
    place = make_user_folder("image")
    with (place / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("sandbox image: waiting for another process that builds it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for left in place.glob("build-*"):  # of a builder that was killed
            shutil.rmtree(left, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix="build-", dir=place))
        work.chmod(0o755)
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)


def main() -> int:
    """``python -m harness.sandboxes.image``: make sure of the image; print its tag and digest."""
    try:
        pin = ensure_image(lambda line: print(line, file=sys.stderr, flush=True))
    except HarnessError as error:
        print(f"image: {error}", file=sys.stderr)
        return 2
    print(pin.tag, pin.digest, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
