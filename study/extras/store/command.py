"""The command ``dosimeter store copy``."""

from __future__ import annotations

from collections.abc import Callable

import click

from registry.errors import BrokenPromise
from registry.ledger.chain import COPY, LEDGER, Ledger
from registry.stores import open_store
from registry.stores.base import Store
from registry.stores.parallel import is_remote, parallel_map
from study.errors import StudyError
from study.printing import print_line, progress_watch


@click.group()
def store() -> None:
    """A study's store: move it to another place."""


@store.command(short_help="Copy a store to a folder or to S3, and check the copy.")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
def copy(source: str, target: str) -> None:
    """Copy all objects of the store FROM to the store TO, and read each of them back.

    Both are written as `store:` in study.yaml. Stop the study's sweeps before. Run it again to
    resume, then write TO into study.yaml.

    \b
    Example:
      dosimeter store copy store 's3://my-bucket/studies/ours?region=eu-central-1'
    """
    with progress_watch("copying") as watch:
        count = copy_store(open_store(source), open_store(target), watch)
    print_line(f"{count} objects are in {target}, each as in {source}")


def copy_store(source: Store, target: Store, watch: Callable[[str, int, int], None]) -> int:
    """Copy a study's store, its ledger last, and return the number of objects. Raises StudyError if
    there is no ledger, or if the target's is not its beginning; BrokenPromise for a copy that
    differs."""
    entries, there = Ledger(source).entries(), Ledger(target).entries()
    if not entries:
        raise StudyError(f"{source.uri}: there is no ledger: give the address of a study's store")
    if there != entries[: len(there)]:
        raise StudyError(f"{target.uri}: has a ledger of its own: give another prefix or folder")
    keys = [key for key in source.list() if key != COPY]
    keys.sort(key=lambda key: key.startswith(LEDGER))

    def copy_one(key: str) -> None:
        data = source.get(key)
        if not target.put(key, data) and target.get(key) != data:  # of an earlier copy
            target.replace(key, data)
        if target.get(key) != data:
            raise BrokenPromise(f"{target.uri}: {key}: other bytes are read than were written")

    remote = target if is_remote(target) else source
    for done, _ in enumerate(parallel_map(remote, copy_one, keys), 1):
        watch("", done, len(keys))
    return len(keys)
